import { describe, expect, it } from "vitest";
import { TurnoError } from "../../runtime/core/errors.ts";
import type { RevisionDesk, RevisionEntry } from "../../runtime/protocol/ports/revisions.ts";
import { createTestApp, OPERATE_KEY, READ_KEY, testKeys } from "./fake-ports.ts";

const entry = (number: number): RevisionEntry => ({
  number,
  source: { name: "git", origin: "https://git.example.com/ops.git" },
  contentHash: `sha256:${number}`,
  commit: "1".repeat(40),
  baseCommit: null,
  author: "Ada Lovelace",
  committedAt: new Date("2026-07-06T15:00:00Z"),
  message: "Fire at two",
  appliedAt: new Date("2026-07-06T15:01:00Z"),
  appliedBy: "ops-1 turno reconciler",
  rollbackOf: null,
  heldContent: "sha256:1",
  words: ["Schedule/night 02:00 → 03:00 Europe/Berlin"],
});

function open(desk: Partial<RevisionDesk> = {}) {
  const asked: unknown[] = [];
  const { app } = createTestApp({
    keys: testKeys(),
    revisions: {
      list: async ({ before, limit }) =>
        [3, 2, 1]
          .filter((n) => n < (before ?? 9))
          .slice(0, limit)
          .map(entry),
      find: async (number) => (number <= 3 ? entry(number) : null),
      rollBack: async (request) => {
        asked.push(request);
        return { words: entry(1).words, revision: request.preview ? null : entry(4) };
      },
      status: async () => [],
      requestSync: () => void asked.push("look"),
      ...desk,
    },
  });
  const call = async (method: "GET" | "POST", path: string, options: { key?: string; body?: unknown } = {}) => {
    const { key = OPERATE_KEY, body } = options;
    const response = await app.request(`http://localhost${path}`, {
      method,
      headers: { "x-turno-key": key, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  return { asked, call };
}

describe("the history", () => {
  it("is given in pages, newest first, with the changes in words and no inner hashes", async () => {
    const { call } = open();
    const first = await call("GET", "/api/revisions?limit=2", { key: READ_KEY });
    expect(first.body).toMatchObject({ items: [{ number: 3, changes: entry(3).words }, { number: 2 }] });
    expect(JSON.stringify(first.body)).not.toContain("sha256");
    const rest = await call("GET", `/api/revisions?limit=2&cursor=${first.body.nextCursor}`);
    expect(rest.body).toMatchObject({ items: [{ number: 1 }], nextCursor: null });
    expect((await call("GET", "/api/revisions/2")).body).toMatchObject({ number: 2 });
    for (const path of ["/api/revisions/9", "/api/revisions/x"]) expect((await call("GET", path)).status).toBe(404);
  });
});

describe("a rollback", () => {
  it("is told who asks for it by the key, and can be looked at before", async () => {
    const { asked, call } = open();
    const path = "/api/revisions/1/rollback";
    expect(await call("POST", path, { body: { preview: true } })).toMatchObject({
      status: 200,
      body: { revision: null },
    });
    expect(await call("POST", path, { body: { by: "somebody" } })).toMatchObject({
      status: 201,
      body: { revision: { number: 4 } },
    });
    expect(asked).toEqual([
      { number: 1, by: "robot", preview: true },
      { number: 1, by: "robot", preview: false },
    ]);
    expect((await call("POST", path, { key: READ_KEY })).status).toBe(403);
    for (const body of [[], { preview: "yes" }, { force: true }, { by: "a\nb" }]) {
      expect((await call("POST", path, { body })).status).toBe(422);
    }
    expect(asked).toHaveLength(2);
  });

  it.each([
    ["TURNO_REVISION_UNKNOWN", 404],
    ["TURNO_SOURCE_STALE", 409],
    ["TURNO_GUARD_PROTECTED", 409],
  ] as const)("that ends with %s is answered with %i", async (code, status) => {
    const { call } = open({ rollBack: () => Promise.reject(new TurnoError(code, "expected this, found that")) });
    expect(await call("POST", "/api/revisions/1/rollback")).toMatchObject({ status, body: { code } });
  });
});

it("POST /api/sync asks for a look and needs the scope to operate", async () => {
  const { asked, call } = open();
  expect((await call("POST", "/api/sync", { key: READ_KEY })).status).toBe(403);
  expect((await call("POST", "/api/sync")).status).toBe(202);
  expect(asked).toEqual(["look"]);
});
