import { expect, it } from "vitest";
import { MemoryDatabase } from "../../runtime/adapters/memory/database.ts";
import { createMemoryDoorbell } from "../../runtime/adapters/memory/doorbell.ts";
import { createInstantHost } from "../../runtime/adapters/memory/handler-host.ts";
import { countingIds, seededRandom } from "../../runtime/adapters/memory/seeded.ts";
import { createMemoryStore } from "../../runtime/adapters/memory/store.ts";
import { systemClock } from "../../runtime/adapters/system/clock.ts";
import { Worker } from "../../runtime/services/worker.ts";
import { jobDefinition } from "../contract/definitions.ts";
import { declareJob } from "./memory-view.ts";

const JOBS = 50_000;

it("costs the processor less than 40 µs a no-op job, the memory store included: more than 25,000 a second", async () => {
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
  let finished = 0;
  const before = process.cpuUsage();
  await new Promise<void>((resolve) => {
    const worker = new Worker({
      workerId: ids.workerId(),
      // A turn of the event loop a claim, as a real database takes at least.
      store: {
        ...store,
        claimJobs: async (request) => {
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
          if (event.kind === "job-finished" && ++finished === JOBS) resolve(worker.stop());
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
  const { user, system } = process.cpuUsage(before);
  const microsecondsEach = (user + system) / JOBS;
  expect(finished).toBe(JOBS);
  expect(microsecondsEach).toBeLessThan(40);
});
