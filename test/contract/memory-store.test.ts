import { MemoryDatabase } from "../../runtime/adapters/memory/database.ts";
import { createMemoryStore } from "../../runtime/adapters/memory/store.ts";
import { declareJob, viewJob } from "../services/memory-view.ts";
import { storeContract } from "./store-contract.ts";
import type { StoreUnderTest } from "./store-under-test.ts";

storeContract("memory", async (): Promise<StoreUnderTest> => {
  let nowMs = Date.UTC(2026, 0, 5, 12, 0, 0);
  const database = new MemoryDatabase(() => nowMs);
  return {
    store: createMemoryStore(database),
    declareJob: async (definition) => declareJob(database, definition),
    declareQueue: async ({ name, ...queue }) => void database.queues.set(name, queue),
    declareSchedule: async ({ name, spec, timingHash, nextFireAt }) =>
      void database.schedules.set(name, {
        name,
        spec,
        timingHash,
        nextFireAtMs: nextFireAt?.getTime() ?? null,
        lastJobId: null,
        awaitsFinish: false,
        firedColdStart: 0,
        ...(spec.sla === undefined
          ? {}
          : { sla: { dueAtMs: nowMs, sinceMs: nowMs, judgedAtMs: null, successAtMs: null } }),
      }),
    readJob: async (id) => viewJob(database, id),
    countDeadLetters: async (id) =>
      database.jobs.get(id)?.state === "Failed"
        ? database.deadLetters.filter((letter) => letter.jobId === id).length
        : 0,
    readFires: async (schedule) =>
      database.fires
        .filter((fire) => fire.schedule === schedule)
        .sort((left, right) => left.atMs - right.atMs)
        .map(({ atMs, ...fire }) => ({ at: new Date(atMs), ...fire })),
    readNextFire: async (schedule) => {
      const atMs = database.schedules.get(schedule)?.nextFireAtMs ?? null;
      return atMs === null ? null : new Date(atMs);
    },
    now: async () => new Date(nowMs),
    elapse: async (ms) => {
      nowMs += ms;
    },
    close: async () => {},
  };
});
