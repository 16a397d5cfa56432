import { describe, expect, it } from "vitest";
import { finishOf } from "./definitions.ts";
import { owned, type Scene, sorted } from "./scene.ts";

/** Renewal and recovery. */
export function leaseContract(scene: Scene): void {
  const { claim, claimOne, claimMany, view, observation, worker, other } = scene;

  describe("leases", () => {
    it("renews what is owned, names what is lost, and carries cancel requests", async () => {
      const [kept, wanted, gone] = [await claimOne(), await claimOne(), await claimOne()];
      await scene.store.cancelJob(wanted.id);
      await scene.store.finishJob(worker, finishOf(gone));
      const renewal = await scene.store.renewLeases(
        worker,
        [kept, wanted, gone].map((job) => ({ ...owned(job), runningMs: null })),
      );
      expect(sorted(renewal.renewed)).toEqual(
        sorted([
          { ...owned(kept), cancelRequested: false },
          { ...owned(wanted), cancelRequested: true },
        ]),
      );
      expect(renewal.lost).toEqual([owned(gone)]);
      expect(renewal.skipped).toEqual([]);
      expect((await scene.store.renewLeases(other, [{ ...owned(kept), runningMs: null }])).lost).toEqual([owned(kept)]);
    });

    it("raises the counter that others observe, and writes the start of what runs", async () => {
      const [running, waiting] = [await claimOne(), await claimOne()];
      const before = await observation(running.id);
      await scene.store.renewLeases(worker, [
        { ...owned(running), runningMs: 5_000 },
        { ...owned(waiting), runningMs: null },
      ]);
      expect((await observation(running.id)).leaseCounter).toBeGreaterThan(before.leaseCounter);
      expect(await view(running.id)).toMatchObject({ started: true });
      expect(await view(waiting.id)).toMatchObject({ started: false });
    });

    it("recovers nothing whose owner renewed after the look", async () => {
      const job = await claimOne();
      const seen = await observation(job.id);
      await scene.store.renewLeases(worker, [{ ...owned(job), runningMs: null }]);
      expect(await scene.store.recoverJobs([seen])).toEqual([]);
      expect(await view(job.id)).toMatchObject({ state: "Processing" });
    });

    it("puts a lost job that had not started back without a charge, and the old owner out", async () => {
      const job = await claimOne();
      const lost = await scene.store.recoverJobs([await observation(job.id)]);
      expect(lost).toEqual([{ ...owned(job), workerId: worker, next: "Enqueued" }]);
      expect(await view(job.id)).toMatchObject({ state: "Enqueued", lost: 0, lostUnstarted: 1, failures: 0 });
      expect(await scene.store.finishJob(worker, finishOf(job))).toBe("fenced");
      expect((await scene.store.renewLeases(worker, [{ ...owned(job), runningMs: null }])).lost).toEqual([owned(job)]);
      expect(await scene.store.recoverJobs([{ ...owned(job), leaseCounter: 0 }])).toEqual([]);
    });

    it("hands a recovered job out alone, with its start written, as its next execution", async () => {
      const job = await claimOne();
      await scene.store.recoverJobs([await observation(job.id)]);
      expect(await claim({ workerId: other })).toEqual([]);
      const again = await scene.store.claimRecovered({ workerId: other, queue: "default", exceptTypes: [] });
      expect(again).toMatchObject({ id: job.id, recovered: true, execution: 2 });
      expect(again?.token).toBeGreaterThan(job.token);
      expect(await view(job.id)).toMatchObject({ state: "Processing", started: true });
      expect(await scene.store.claimRecovered({ workerId: other, queue: "default", exceptTypes: [] })).toBeNull();
    });

    it("ends a job as Failed whose losses after a start have used up their budget", async () => {
      const first = await claimOne();
      await scene.store.markStarted(worker, [{ ...owned(first), runningMs: 300 }]);
      for (const lost of [1, 2]) {
        await scene.store.recoverJobs([await observation(first.id)]);
        expect(await view(first.id)).toMatchObject({ state: "Enqueued", lost });
        await scene.store.claimRecovered({ workerId: worker, queue: "default", exceptTypes: [] });
      }
      const [ended] = await scene.store.recoverJobs([await observation(first.id)]);
      expect(ended).toMatchObject({ next: "Failed" });
      expect(await view(first.id)).toMatchObject({
        state: "Failed",
        lost: 3,
        failures: 0,
        attempts: ["lost", "lost", "lost"],
      });
      expect(await scene.under.countDeadLetters(first.id)).toBe(1);
    });

    it("ends a lost job as Cancelled that was to be cancelled", async () => {
      const job = await claimOne();
      await scene.store.cancelJob(job.id);
      expect(await scene.store.recoverJobs([await observation(job.id)])).toMatchObject([{ next: "Cancelled" }]);
      expect(await view(job.id)).toMatchObject({ state: "Cancelled" });
    });

    it("lets exactly one of finish and recovery win", async () => {
      const jobs = await claimMany(10);
      for (const job of jobs) {
        const seen = await observation(job.id);
        const [finish, recovered] = await Promise.all([
          scene.store.finishJob(worker, finishOf(job)),
          scene.store.recoverJobs([seen]),
        ]);
        expect(finish === "landed").toBe(recovered.length === 0);
        expect(await view(job.id)).toMatchObject({ state: finish === "landed" ? "Succeeded" : "Enqueued" });
      }
    });
  });
}
