import { expect, it } from "vitest";
import { MemoryDatabase } from "../../runtime/adapters/memory/database.ts";
import { createMemoryDoorbell } from "../../runtime/adapters/memory/doorbell.ts";
import { createInstantHost } from "../../runtime/adapters/memory/handler-host.ts";
import { countingIds, seededRandom } from "../../runtime/adapters/memory/seeded.ts";
import { createMemoryStore } from "../../runtime/adapters/memory/store.ts";
import { systemClock } from "../../runtime/adapters/system/clock.ts";
import type { JobId } from "../../runtime/core/ids.ts";
import { Worker } from "../../runtime/services/worker.ts";
import { jobDefinition } from "../contract/definitions.ts";
import { declareJob } from "./memory-view.ts";

const JOBS = 5_000;

it("drains a queue of short jobs, claimed ahead of the slots, each once", async () => {
  const database = new MemoryDatabase(() => performance.timeOrigin + performance.now());
  const store = createMemoryStore(database);
  const ids = countingIds();
  declareJob(database, jobDefinition({ type: "noop" }));
  const jobs = Array.from({ length: JOBS }, () => ({
    id: ids.jobId(),
    type: "noop",
    queue: null,
    payload: {},
    priority: 0,
    due: null,
    maxAttempts: null,
    timeoutMs: null,
  }));
  await store.insertJobs(jobs);
  const finished: JobId[] = [];
  let claims = 0;
  await new Promise<void>((resolve) => {
    const worker = new Worker({
      workerId: ids.workerId(),
      // A turn of the event loop a claim, as a real database takes at least.
      store: {
        ...store,
        claimJobs: async (request) => {
          claims += 1;
          await new Promise((turn) => setImmediate(turn));
          return store.claimJobs(request);
        },
      },
      host: createInstantHost(),
      doorbell: createMemoryDoorbell(),
      clock: systemClock,
      random: seededRandom(1),
      observer: {
        observe: (event) => {
          if (event.kind !== "job-finished") return;
          finished.push(event.jobId);
          if (finished.length === JOBS) resolve(worker.stop());
        },
      },
      settings: {
        queues: [{ name: "default", concurrency: 8 }],
        leaseMs: 60_000,
        renewalMs: 10_000,
        shutdownTimeoutMs: 1_000,
      },
      checkPayload: () => null,
    });
  });
  expect(new Set(finished)).toEqual(new Set(jobs.map(({ id }) => id)));
  expect(finished).toHaveLength(JOBS);
  // 8 slots alone would take as many claims as there are turns of 8 jobs.
  expect(claims).toBeLessThan(JOBS / 8 / 4);
});
