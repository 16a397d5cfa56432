import { expect, test } from "vitest";
import { parseNodeAddresses } from "../../runtime/adapters/redis/node-address.ts";

function refusal(urls: readonly string[]): string {
  try {
    parseNodeAddresses(urls);
  } catch (error) {
    return `${(error as { code?: string }).code}: ${(error as Error).message}`;
  }
  throw new Error("expected a refusal, found none");
}

const node = (index: number) => `redis://user:hidden-word@redis-${index}:6379`;

test.each([0, 2, 4, 6, 7])("%i nodes are refused", (count) => {
  const message = refusal(Array.from({ length: count }, (_, index) => node(index)));
  expect(message).toMatch(/^TURNO_CONFIG_SETTING: .*expected 1, 3 or 5 independent Redis nodes/);
  expect(message).toContain(`found ${count}`);
});

test.each([1, 3, 5])("%i nodes are taken", (count) => {
  expect(parseNodeAddresses(Array.from({ length: count }, (_, index) => node(index))).length).toBe(count);
});

test("one node listed twice is refused, whatever its credentials and database", () => {
  const message = refusal([node(1), "redis://redis-1/4", "rediss://redis-2"]);
  expect(message).toContain("locks.redlock.urls[1]");
  expect(message).toContain("redis-1:6379 twice");
});

test.each(["redis-1:6379", "http://redis-1:6379", "user:hidden-word@redis", "", "redis://:hidden-word@"])(
  "%j is refused by its place, and not repeated",
  (url) => {
    const message = refusal([url]);
    expect(message).toContain("locks.redlock.urls[0]: expected redis://host:port");
    expect(message).not.toContain("hidden-word");
  },
);

test("a node's name has its port and no credentials", () => {
  expect(parseNodeAddresses(["rediss://user:hidden-word@redis-1"])).toMatchObject([
    { name: "redis-1:6379", isTls: true },
  ]);
});
