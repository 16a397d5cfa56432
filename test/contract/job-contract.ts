import { describe, expect, it } from "vitest";
import { systemIds as ids } from "../../runtime/adapters/system/ids.ts";
import type { JobId } from "../../runtime/core/ids.ts";
import type { ClaimedJob } from "../../runtime/protocol/ports/jobs.ts";
import { finishOf, retryOf } from "./definitions.ts";
import type { Scene } from "./scene.ts";

/** Creating jobs, and what operators do to them. */
export function jobContract(scene: Scene): void {
  const { newJob, insert, claim, claimOne, claimMany, view, worker } = scene;

  describe("creating", () => {
    it("enqueues what is due and schedules what is not", async () => {
      const jobs = [newJob(), newJob({ due: { afterMs: 60_000 } }), newJob({ queue: "reports" })];
      expect(await scene.store.insertJobs(jobs)).toEqual({
        created: [
          { id: jobs[0]?.id, state: "Enqueued", queue: "default" },
          { id: jobs[1]?.id, state: "Scheduled", queue: "default" },
          { id: jobs[2]?.id, state: "Enqueued", queue: "reports" },
        ],
      });
    });

    it("inserts nothing when one type is not declared, and names it", async () => {
      const known = newJob();
      expect(await scene.store.insertJobs([known, newJob({ type: "unheard.of" })])).toEqual({
        unknownTypes: ["unheard.of"],
      });
      expect(await scene.under.readJob(known.id)).toBeNull();
    });

    it("gives the definitions in force of the declared types only", async () => {
      const types = await scene.store.loadJobTypes(["work", "unheard.of"]);
      expect([...types.keys()]).toEqual(["work"]);
      expect(types.get("work")?.policy.retry.maxAttempts).toBe(5);
    });
  });

  describe("cancelling", () => {
    it("ends waiting and queued jobs at once", async () => {
      const [queued, waiting] = await insert({}, { due: { afterMs: 60_000 } });
      expect(await scene.store.cancelJob(queued as JobId)).toEqual({ kind: "cancelled" });
      expect(await scene.store.cancelJob(waiting as JobId)).toEqual({ kind: "cancelled" });
      expect(await view(queued as JobId)).toMatchObject({ state: "Cancelled" });
      expect(await view(waiting as JobId)).toMatchObject({ state: "Cancelled" });
      expect(await claim()).toEqual([]);
      expect(await scene.store.cancelJob(queued as JobId)).toEqual({ kind: "finished", state: "Cancelled" });
      expect(await scene.store.cancelJob(ids.jobId())).toEqual({ kind: "not-found" });
    });

    it("is a request for a running job: a success afterwards is kept", async () => {
      const job = await claimOne();
      expect(await scene.store.cancelJob(job.id)).toEqual({ kind: "requested" });
      expect(await view(job.id)).toMatchObject({ state: "Processing", cancelRequested: true });
      expect(await scene.store.finishJob(worker, finishOf(job))).toBe("landed");
      expect(await view(job.id)).toMatchObject({ state: "Succeeded" });
    });

    it("is a request for a running job: anything but a success ends Cancelled, never a retry", async () => {
      const [retried, failed] = [await claimOne(), await claimOne()];
      await scene.store.cancelJob(retried.id);
      await scene.store.cancelJob(failed.id);
      expect(await scene.store.finishJob(worker, retryOf(retried))).toBe("cancelled");
      expect(
        await scene.store.finishJob(
          worker,
          finishOf(failed, { outcome: "failed", next: "Failed", reason: "failed", charge: "failure" }),
        ),
      ).toBe("cancelled");
      expect(await view(retried.id)).toMatchObject({ state: "Cancelled" });
      expect(await view(failed.id)).toMatchObject({ state: "Cancelled" });
      expect(await scene.under.countDeadLetters(failed.id)).toBe(0);
    });

    it("comes too late for a finished job and says so", async () => {
      const job = await claimOne();
      await scene.store.finishJob(worker, finishOf(job));
      expect(await scene.store.cancelJob(job.id)).toEqual({ kind: "finished", state: "Succeeded" });
      expect(await view(job.id)).toMatchObject({ state: "Succeeded" });
    });

    it("gives one answer that fits the final state when cancel and finish race", async () => {
      const jobs = await claimMany(20);
      const races = await Promise.all(
        jobs.map(async (job, index) => {
          const finish = index % 2 === 0 ? finishOf(job) : retryOf(job);
          const pair =
            index % 4 < 2
              ? ([scene.store.cancelJob(job.id), scene.store.finishJob(worker, finish)] as const)
              : ([scene.store.finishJob(worker, finish), scene.store.cancelJob(job.id)] as const);
          await Promise.all(pair);
          return { job, cancel: await pair[index % 4 < 2 ? 0 : 1], succeeds: index % 2 === 0 };
        }),
      );
      for (const { job, cancel, succeeds } of races) {
        const { state } = await view(job.id);
        expect(state).toBe(succeeds ? "Succeeded" : "Cancelled");
        if (typeof cancel === "object" && cancel.kind === "finished") expect(cancel.state).toBe(state);
      }
    });
  });

  describe("what operators do", () => {
    it("requeues a finished job as a new generation with fresh budgets and a larger token", async () => {
      const job = await claimOne();
      await scene.store.finishJob(
        worker,
        finishOf(job, { outcome: "failed", next: "Failed", reason: "failed", charge: "failure", error: "boom" }),
      );
      expect(await scene.store.requeueJob(job.id)).toEqual({ kind: "requeued" });
      expect(await view(job.id)).toMatchObject({
        state: "Enqueued",
        generation: 1,
        failures: 0,
        lost: 0,
        returns: 0,
      });
      expect(await scene.under.countDeadLetters(job.id)).toBe(0);
      const [again] = await claim();
      expect(again).toMatchObject({ id: job.id, execution: 2, failures: 0 });
      expect(again?.token).toBeGreaterThan(job.token);
      await scene.store.finishJob(worker, finishOf({ jobId: job.id, token: (again as ClaimedJob).token }));
      expect(await view(job.id)).toMatchObject({ state: "Succeeded", attempts: ["failed", "succeeded"] });
    });

    it("requeues and deletes finished jobs only", async () => {
      const job = await claimOne();
      expect(await scene.store.requeueJob(job.id)).toEqual({ kind: "refused", state: "Processing" });
      expect(await scene.store.deleteJob(job.id)).toEqual({ kind: "refused", state: "Processing" });
      await scene.store.finishJob(worker, finishOf(job));
      expect(await scene.store.deleteJob(job.id)).toEqual({ kind: "deleted" });
      expect(await scene.under.readJob(job.id)).toBeNull();
      expect(await scene.store.deleteJob(job.id)).toEqual({ kind: "not-found" });
      expect(await scene.store.requeueJob(job.id)).toEqual({ kind: "not-found" });
    });
  });
}
