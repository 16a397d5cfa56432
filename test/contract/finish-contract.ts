import { describe, expect, it } from "vitest";
import { finishOf, retryOf } from "./definitions.ts";
import { owned, type Scene } from "./scene.ts";

/** How executions end. */
export function finishContract(scene: Scene): void {
  const { insert, claim, claimOne, claimMany, view, observation, worker, other } = scene;

  describe("finishing", () => {
    it("lands a success with its result and one attempt", async () => {
      const job = await claimOne();
      expect(await scene.store.finishJob(worker, finishOf(job, { result: '{"total":1}' }))).toBe("landed");
      expect(await view(job.id)).toMatchObject({
        state: "Succeeded",
        result: { total: 1 },
        progress: 100,
        attempts: ["succeeded"],
      });
    });

    it("lands many finishes that come at once, each with its own outcome", async () => {
      const jobs = await claimMany(30);
      const stale = jobs.slice(20);
      await scene.store.returnClaims(worker, stale);
      const outcomes = await Promise.all(
        jobs.map((job, index) => scene.store.finishJob(worker, index % 2 === 0 ? finishOf(job) : retryOf(job))),
      );
      expect(outcomes.slice(0, 20)).toEqual(Array.from({ length: 20 }, () => "landed"));
      expect(outcomes.slice(20)).toEqual(Array.from({ length: 10 }, () => "fenced"));
    });

    it("refuses a finish with another token, by another worker, or after the job has left", async () => {
      const job = await claimOne();
      const wrongToken = { ...job, token: (job.token + 1n) as typeof job.token };
      expect(await scene.store.finishJob(worker, finishOf(wrongToken))).toBe("fenced");
      expect(await scene.store.finishJob(other, finishOf(job))).toBe("fenced");
      expect(await scene.store.finishJob(worker, finishOf(job))).toBe("landed");
      expect(await scene.store.finishJob(worker, retryOf(job))).toBe("fenced");
      expect(await view(job.id)).toMatchObject({ state: "Succeeded", failures: 0, attempts: ["succeeded"] });
    });

    it("keeps nothing of an execution whose job came back to its worker", async () => {
      const old = await claimOne();
      await scene.store.recoverJobs([await observation(old.id)]);
      const again = await scene.store.claimRecovered({ workerId: worker, queue: "default", exceptTypes: [] });
      if (again === null) throw new Error("the job was not claimed again");
      expect(await scene.store.finishJob(worker, finishOf(old))).toBe("fenced");
      expect(await scene.store.finishJob(worker, retryOf(old))).toBe("fenced");
      await scene.store.returnClaims(worker, [owned(old)]);
      await scene.store.reportProgress(worker, [{ ...owned(old), percent: 80, message: null }]);
      const pairs = [old, again].map((job) => ({ ...owned(job), runningMs: null }));
      expect(await scene.store.renewLeases(worker, pairs)).toMatchObject({
        renewed: [{ token: again.token }],
        lost: [{ token: old.token }],
      });
      const lease = await observation(old.id);
      const alone = await scene.store.renewLeases(worker, [{ ...owned(old), runningMs: null }]);
      expect(alone).toEqual({ renewed: [], lost: [owned(old)], skipped: [] });
      expect(await observation(old.id)).toEqual(lease);
      expect(await view(old.id)).toMatchObject({ state: "Processing", execution: 2, progress: 0, failures: 0 });
    });

    it("tells a finish that is offered again after its answer was lost that it landed", async () => {
      const [done, retried] = [await claimOne(), await claimOne()];
      await scene.store.finishJob(worker, finishOf(done));
      await scene.store.finishJob(worker, retryOf(retried));
      expect(await scene.store.finishJob(worker, finishOf(done))).toBe("landed");
      expect(await scene.store.finishJob(worker, retryOf(retried))).toBe("landed");
      expect(await view(retried.id)).toMatchObject({ failures: 1, attempts: ["failed"] });
    });

    it("tells it of a job that never ran too, even when another runs it by then", async () => {
      const unstarted = { outcome: "returned", next: "Scheduled", reason: "returned", ranMs: null } as const;
      const [held, returned, cancelled] = [await claimOne(), await claimOne(), await claimOne()];
      await scene.store.cancelJob(cancelled.id);
      const finishes = [
        finishOf(held, { ...unstarted, reason: "held", hold: "no-handler" }),
        finishOf(returned, unstarted),
        finishOf(cancelled, { ...unstarted, outcome: "cancelled", next: "Cancelled", reason: "cancelled" }),
      ];
      for (const finish of finishes) expect(await scene.store.finishJob(worker, finish)).toBe("landed");
      await scene.store.promoteDue(10);
      expect((await claim({ workerId: other })).map((job) => job.id)).toContain(returned.id);
      for (const finish of finishes) expect(await scene.store.finishJob(worker, finish)).toBe("landed");
      expect(await view(returned.id)).toMatchObject({ state: "Processing", execution: 2, attempts: [] });
    });

    it("tells it of one that a cancel request came before, and of none that recovery has ended", async () => {
      const [failed, unstarted, lost] = [await claimOne(), await claimOne(), await claimOne()];
      for (const job of [failed, unstarted, lost]) await scene.store.cancelJob(job.id);
      const back = finishOf(unstarted, { outcome: "returned", next: "Scheduled", reason: "returned", ranMs: null });
      for (let round = 0; round < 2; round++) {
        expect(await scene.store.finishJob(worker, retryOf(failed))).toBe("cancelled");
        expect(await scene.store.finishJob(worker, back)).toBe("cancelled");
      }
      await scene.store.recoverJobs([await observation(lost.id)]);
      expect(await scene.store.finishJob(worker, { ...back, ...owned(lost) })).toBe("fenced");
      expect(await scene.store.finishJob(worker, retryOf(lost))).toBe("fenced");
    });

    it("does not take the loss that recovery has recorded for a crash that the worker noticed later", async () => {
      const job = await claimOne();
      await scene.store.recoverJobs([await observation(job.id)]);
      const crash = { outcome: "lost", next: "Scheduled", reason: "worker lost", charge: "lost" } as const;
      expect(await scene.store.finishJob(worker, finishOf(job, { ...crash, error: "exit code 7" }))).toBe("fenced");
    });

    it("puts a retry off by its delay, charges the failure and keeps the error", async () => {
      const job = await claimOne();
      await scene.store.finishJob(worker, retryOf(job, { delayMs: 15_000, error: "boom" }));
      const waiting = await view(job.id);
      expect(waiting).toMatchObject({ state: "Scheduled", failures: 1, error: "boom", attempts: ["failed"] });
      expect(waiting.dueInMs).toBeGreaterThan(13_000);
      expect(waiting.dueInMs).toBeLessThanOrEqual(15_000);
      expect((await scene.store.promoteDue(10)).promoted).toBe(0);
      await scene.under.elapse(15_000);
      expect((await scene.store.promoteDue(10)).promoted).toBe(1);
      const [again] = await claim();
      expect(again).toMatchObject({ id: job.id, execution: 2, failures: 1 });
      expect(again?.token).toBeGreaterThan(job.token);
    });

    it("makes a dead letter of a failure for good, and of nothing else", async () => {
      const [failed, retried] = [await claimOne(), await claimOne()];
      await scene.store.finishJob(
        worker,
        finishOf(failed, {
          outcome: "failed",
          next: "Failed",
          reason: "failed",
          charge: "failure",
          error: "boom",
          stack: "at x",
        }),
      );
      await scene.store.finishJob(worker, retryOf(retried));
      expect(await view(failed.id)).toMatchObject({ state: "Failed", failures: 1, error: "boom" });
      expect(await scene.under.countDeadLetters(failed.id)).toBe(1);
      expect(await scene.under.countDeadLetters(retried.id)).toBe(0);
    });

    it("counts a return by shutdown and a crash in their own budgets, not as failures", async () => {
      const [returned, crashed] = [await claimOne(), await claimOne()];
      await scene.store.finishJob(
        worker,
        finishOf(returned, { outcome: "returned", next: "Scheduled", reason: "returned", charge: "return" }),
      );
      await scene.store.finishJob(
        worker,
        finishOf(crashed, {
          outcome: "lost",
          next: "Scheduled",
          reason: "worker lost",
          charge: "lost",
          delayMs: 1_000,
          error: "exit code 7",
        }),
      );
      expect(await view(returned.id)).toMatchObject({
        state: "Scheduled",
        failures: 0,
        returns: 1,
        lost: 0,
        attempts: ["returned"],
      });
      expect(await view(crashed.id)).toMatchObject({
        state: "Scheduled",
        failures: 0,
        returns: 0,
        lost: 1,
        attempts: ["lost"],
      });
    });

    it("puts a snoozed job off without a charge, records the execution, and cancels it when that was asked for", async () => {
      const [snoozed, unwanted] = [await claimOne(), await claimOne()];
      const snooze = { outcome: "snoozed", next: "Scheduled", reason: "snoozed", delayMs: 600_000 } as const;
      await scene.store.cancelJob(unwanted.id);
      expect(await scene.store.finishJob(worker, finishOf(snoozed, snooze))).toBe("landed");
      expect(await scene.store.finishJob(worker, finishOf(snoozed, snooze))).toBe("landed");
      expect(await scene.store.finishJob(worker, finishOf(unwanted, snooze))).toBe("cancelled");
      expect(await view(snoozed.id)).toMatchObject({
        state: "Scheduled",
        failures: 0,
        lost: 0,
        returns: 0,
        attempts: ["snoozed"],
      });
      expect(await view(unwanted.id)).toMatchObject({ state: "Cancelled" });
      await scene.store.promoteDue(10);
      expect(await claim()).toEqual([]);
    });

    it("records no attempt for a job that never started", async () => {
      const job = await claimOne();
      await scene.store.finishJob(
        worker,
        finishOf(job, { outcome: "returned", next: "Scheduled", reason: "returned", ranMs: null }),
      );
      expect(await view(job.id)).toMatchObject({ state: "Scheduled", attempts: [] });
    });

    it("gives a returned job its old place in the queue", async () => {
      const early = await claimOne();
      await insert({}, {});
      await scene.store.returnClaims(worker, [early]);
      await scene.store.promoteDue(10);
      expect((await claim({ limit: 1 })).map((job) => job.id)).toEqual([early.id]);
    });

    it("keeps nothing of progress or a start that comes from an execution without the lease", async () => {
      const job = await claimOne();
      await scene.store.reportProgress(worker, [{ jobId: job.id, token: job.token, percent: 30, message: "a third" }]);
      expect(await view(job.id)).toMatchObject({ progress: 30, started: false });
      await scene.store.reportProgress(other, [{ jobId: job.id, token: job.token, percent: 80, message: null }]);
      await scene.store.markStarted(other, [{ jobId: job.id, token: job.token, runningMs: 300 }]);
      expect(await view(job.id)).toMatchObject({ progress: 30, started: false });
      await scene.store.markStarted(worker, [{ jobId: job.id, token: job.token, runningMs: 300 }]);
      expect(await view(job.id)).toMatchObject({ started: true });
    });
  });
}
