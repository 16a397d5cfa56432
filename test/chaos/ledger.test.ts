import { appendFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Disturbances, readHistories } from "../../chaos/histories.ts";
import { type ExecutionLine, LedgerWriter, type NemesisLine, readFolder, readLines } from "../../chaos/ledger.ts";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "turno-ledger-"));
});

afterEach(() => rm(folder, { recursive: true, force: true }));

test("what was written is read back, in its order, over several writers of one file", () => {
  const path = join(folder, "nemesis.ndjson");
  const lines: NemesisLine[] = [1, 2, 3].map((at) => ({ e: "fault", at, fault: "kill", slot: null, detail: "" }));
  for (const line of lines) {
    const writer = new LedgerWriter(path);
    writer.write(line, { sync: true });
    writer.close();
  }
  expect(readLines(path)).toEqual(lines);
});

test("a last line that its writer did not live to finish is no line", async () => {
  const path = join(folder, "torn.ndjson");
  await writeFile(path, '{"at":1}\n{"at":2}\n{"at":');
  expect(readLines(path)).toEqual([{ at: 1 }, { at: 2 }]);
  await writeFile(path, '{"at":1}\n{"at":2}');
  expect(readLines(path)).toEqual([{ at: 1 }, { at: 2 }]);
});

test("damage in the middle is named with its place and never passed over", async () => {
  const path = join(folder, "damaged.ndjson");
  await writeFile(path, '{"at":1}\n{"at"\n{"at":3}\n');
  expect(() => readLines(path)).toThrow(`${path}:2`);
});

test("the ledgers of all processes are read, and other files are not", async () => {
  await writeFile(join(folder, "2-0.ndjson"), '{"at":2}\n');
  await writeFile(join(folder, "1-0.ndjson"), '{"at":1}\n');
  await appendFile(join(folder, "notes.txt"), "nothing\n");
  expect([...readFolder(folder)]).toEqual([{ at: 1 }, { at: 2 }]);
});

test("lines become runs by job and token, oldest token first, with numbers compared as numbers", () => {
  const lines: ExecutionLine[] = [
    { e: "begin", at: 50, job: "a", fence: "10", pid: 2, ppid: 1, tag: "t", execution: 2 },
    { e: "end", at: 60, job: "a", fence: "10", pid: 2 },
    { e: "begin", at: 10, job: "a", fence: "9", pid: 1, ppid: 0, tag: "t", execution: 1 },
    { e: "tick", at: 20, job: "a", fence: "9", pid: 1 },
  ];
  const runs = readHistories(lines).get("a") ?? [];
  expect(runs.map(({ fence, first, last, ended, closed }) => ({ fence, first, last, ended, closed }))).toEqual([
    { fence: 9n, first: 10, last: 20, ended: false, closed: false },
    { fence: 10n, first: 50, last: 60, ended: true, closed: true },
  ]);
});

test("a run belongs to the worker whose thread or child it was", () => {
  const lines: ExecutionLine[] = [
    { e: "begin", at: 1, job: "a", fence: "1", pid: 10, ppid: 1 },
    { e: "begin", at: 1, job: "b", fence: "2", pid: 99, ppid: 10 },
    { e: "begin", at: 1, job: "c", fence: "3", pid: 98, ppid: 11 },
  ];
  const histories = readHistories(lines);
  const disturbances = new Disturbances([
    { e: "spawned", at: 0, slot: "worker-1", pid: 10, detail: "" },
    { e: "window", kind: "stop", slot: "worker-1", from: 5, to: 9 },
    { e: "exited", at: 12, slot: "worker-1", pid: 10, detail: "SIGKILL" },
  ]);
  const seen = [...histories.values()].flat().map((run) => ({
    isThread: disturbances.isThread(run),
    windows: disturbances.windowsOf(run).length,
    death: disturbances.deathOf(run),
  }));
  expect(seen).toEqual([
    { isThread: true, windows: 1, death: 12 },
    { isThread: false, windows: 1, death: 12 },
    { isThread: false, windows: 0, death: null },
  ]);
});
