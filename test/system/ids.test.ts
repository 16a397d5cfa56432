import { expect, test } from "vitest";
import { createIds, systemIds } from "../../runtime/adapters/system/ids.ts";
import { isJobId } from "../../runtime/core/ids.ts";

const fillZero = (bytes: Uint8Array) => void bytes.fill(0);

test("job ids are UUIDs of version 7 with the time in front", () => {
  const wallMs = Date.UTC(2026, 10, 30);
  const id = createIds({ wallMs: () => wallMs, fillRandom: (bytes) => void bytes.fill(0xff) }).jobId();
  expect(isJobId(id)).toBe(true);
  expect(id[14]).toBe("7");
  expect("89ab").toContain(id[19]);
  expect(Number.parseInt(id.slice(0, 13).replace("-", ""), 16)).toBe(wallMs);
});

test("ten thousand ids of one millisecond are distinct and sort as they were made", () => {
  const ids = createIds({ wallMs: () => 1_000, fillRandom: fillZero });
  const made = Array.from({ length: 10_000 }, () => ids.jobId());
  expect(new Set(made).size).toBe(made.length);
  expect(made.toSorted()).toEqual(made);
});

test("ids keep growing when the wall clock steps back", () => {
  let wallMs = 5_000;
  const ids = createIds({ wallMs: () => wallMs, fillRandom: fillZero });
  const before = ids.jobId();
  wallMs = 1_000;
  const after = ids.jobId();
  expect(after > before).toBe(true);
});

test("ids of the real sources sort as they were made", () => {
  const made = Array.from({ length: 20_000 }, () => systemIds.jobId());
  expect(made.toSorted()).toEqual(made);
});

test("worker ids are never the same twice", () => {
  const made = Array.from({ length: 1_000 }, () => systemIds.workerId());
  expect(new Set(made).size).toBe(made.length);
});
