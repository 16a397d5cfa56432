import { describe, expect, it } from "vitest";
import { systemIds as ids } from "../../runtime/adapters/system/ids.ts";
import type { WorkerId } from "../../runtime/core/ids.ts";
import { finishOf, WELL } from "./definitions.ts";
import type { Scene } from "./scene.ts";

/** Workers, their duties and the housekeeping. */
export function workerContract(scene: Scene): void {
  const { workerInfo, claimOne, view, worker, other } = scene;

  describe("workers", () => {
    it("report a cold start only when nobody else is there", async () => {
      const info = { name: "test", host: "test", pid: 1, version: "0.0.0", queues: [] };
      expect(await scene.store.registerWorker({ id: ids.workerId(), ...info })).toEqual({ coldStart: false });
      await scene.store.deregisterWorker(worker);
      await scene.store.deregisterWorker(other);
      await scene.under.elapse(120_000);
      const first = ids.workerId();
      expect(await scene.store.registerWorker({ id: first, ...info })).toEqual({ coldStart: true });
      expect(await scene.store.registerWorker({ id: ids.workerId(), ...info })).toEqual({ coldStart: false });
    });

    it("hold a duty one at a time, for a term by the database's clock", async () => {
      const ask = (workerId: WorkerId) => scene.store.holdTerm({ duty: "scheduling", workerId, termMs: 15_000 });
      expect(await ask(worker)).toBe(true);
      expect(await ask(other)).toBe(false);
      await scene.under.elapse(10_000);
      expect(await ask(worker)).toBe(true);
      await scene.under.elapse(10_000);
      expect(await ask(other)).toBe(false);
      await scene.under.elapse(6_000);
      expect(await ask(other)).toBe(true);
      expect(await ask(worker)).toBe(false);
    });

    it("give a duty to one of two that ask at once", async () => {
      const answers = await Promise.all(
        [worker, other].map((workerId) => scene.store.holdTerm({ duty: "cleanup", workerId, termMs: 15_000 })),
      );
      expect(answers.filter(Boolean)).toHaveLength(1);
    });

    it("release only their own duty, and all of them when they leave", async () => {
      const duties = ["recovery", "cleanup"] as const;
      for (const duty of duties) await scene.store.holdTerm({ duty, workerId: worker, termMs: 15_000 });
      await scene.store.releaseTerm({ duty: "recovery", workerId: other });
      expect(await scene.store.holdTerm({ duty: "recovery", workerId: other, termMs: 15_000 })).toBe(false);
      await scene.store.releaseTerm({ duty: "recovery", workerId: worker });
      expect(await scene.store.holdTerm({ duty: "recovery", workerId: other, termMs: 15_000 })).toBe(true);
      await scene.store.deregisterWorker(worker);
      expect(await scene.store.holdTerm({ duty: "cleanup", workerId: other, termMs: 15_000 })).toBe(true);
    });

    it("are forgotten once they are gone for long", async () => {
      await scene.store.deregisterWorker(other);
      await scene.under.elapse(86_400_000);
      await scene.store.heartbeat({
        worker: workerInfo(worker),
        draining: false,
        unloadableBundles: [],
        condition: WELL,
      });
      expect(await scene.store.pruneWorkers(3_600_000)).toBe(1);
      expect(await scene.store.pruneWorkers(3_600_000)).toBe(0);
    });

    it("are there again when they are heard after they were forgotten, without a cold start", async () => {
      await scene.under.elapse(86_400_000);
      expect(await scene.store.pruneWorkers(3_600_000)).toBe(2);
      await scene.store.heartbeat({
        worker: workerInfo(worker),
        draining: false,
        unloadableBundles: [],
        condition: WELL,
      });
      expect(await scene.store.registerWorker(workerInfo(ids.workerId()))).toEqual({ coldStart: false });
    });
  });

  describe("clean-up", () => {
    it("can be called at any time, again and again", async () => {
      const { signal } = new AbortController();
      const job = await claimOne();
      await scene.store.finishJob(worker, finishOf(job));
      for (let round = 0; round < 2; round++) {
        await scene.store.preparePartitions();
        await scene.store.foldCounters(signal);
        expect(await scene.store.dropExpired(signal)).toBe(0);
      }
      expect(await view(job.id)).toMatchObject({ state: "Succeeded" });
    });
  });
}
