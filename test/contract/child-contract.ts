import { describe, expect, it } from "vitest";
import type { JobId } from "../../runtime/core/ids.ts";
import { finishOf, retryOf } from "./definitions.ts";
import type { Scene } from "./scene.ts";

/** Jobs that come into being with the finish of the one that enqueued them. */
export function childContract(scene: Scene): void {
  const { newJob, claimOne, claim, view, worker, other } = scene;

  describe("children", () => {
    it("come into being with the finish, due now or later, with their keys", async () => {
      const job = await claimOne();
      const children = [
        newJob({ parentId: job.id }),
        newJob({ parentId: job.id, due: { afterMs: 60_000 } }),
        newJob({ parentId: job.id, concurrencyKey: "k" }),
        newJob({ parentId: job.id, concurrencyKey: "k", payload: { large: "x".repeat(3_000) } }),
      ];
      expect(await scene.store.finishJob(worker, finishOf(job, { children }))).toBe("landed");
      expect(await Promise.all(children.map(async ({ id }) => view(id)))).toMatchObject([
        { state: "Enqueued" },
        { state: "Scheduled", hold: null },
        { state: "Enqueued" },
        { state: "Scheduled", hold: "key" },
      ]);
      expect((await claim()).map(({ id }) => id)).toEqual([children[0]?.id, children[2]?.id]);
    });

    it("come into being once when the finish is offered again", async () => {
      const job = await claimOne();
      const finish = finishOf(job, { children: [newJob({ parentId: job.id })] });
      expect(await scene.store.finishJob(worker, finish)).toBe("landed");
      expect(await scene.store.finishJob(worker, finish)).toBe("landed");
      expect(await claim()).toHaveLength(1);
    });

    it("do not come into being when the finish is fenced or a cancel came first", async () => {
      const [fenced, cancelled] = [await claimOne(), await claimOne()];
      await scene.store.cancelJob(cancelled.id);
      const children = [newJob(), newJob()];
      const ofFenced = finishOf(fenced, { children: children.slice(0, 1) });
      expect(await scene.store.finishJob(other, ofFenced)).toBe("fenced");
      expect(await scene.store.finishJob(worker, retryOf(cancelled, { children: children.slice(1) }))).toBe(
        "cancelled",
      );
      for (const { id } of children) expect(await scene.under.readJob(id)).toBeNull();
    });

    it("are those of the execution that landed, when a late one of the same job ends with it", async () => {
      const late = await claimOne();
      await scene.store.recoverJobs([await scene.observation(late.id)]);
      const again = await scene.store.claimRecovered({ workerId: worker, queue: "default", exceptTypes: [] });
      if (again === null) throw new Error("the job was not claimed again");
      const [unborn, born] = [newJob({ parentId: late.id }), newJob({ parentId: late.id })];
      const outcomes = await Promise.all([
        scene.store.finishJob(worker, finishOf(late, { children: [unborn] })),
        scene.store.finishJob(worker, finishOf({ ...again, jobId: again.id }, { children: [born] })),
      ]);
      expect(outcomes).toEqual(["fenced", "landed"]);
      expect(await scene.under.readJob(unborn.id)).toBeNull();
      expect(await view(born.id)).toMatchObject({ state: "Enqueued" });
    });

    it("take their parent's concurrency key when nobody waited longer", async () => {
      const job = await claimOne({ concurrencyKey: "k" });
      const child = newJob({ parentId: job.id, concurrencyKey: "k" });
      await scene.store.finishJob(worker, finishOf(job, { children: [child] }));
      expect(await view(child.id)).toMatchObject({ state: "Enqueued" });
    });

    it("of a type that is not declared any more are held, and do not spoil the finish", async () => {
      const job = await claimOne();
      const child = newJob({ parentId: job.id, type: "gone" });
      expect(await scene.store.finishJob(worker, finishOf(job, { children: [child] }))).toBe("landed");
      expect(await view(job.id)).toMatchObject({ state: "Succeeded" });
      expect(await view(child.id as JobId)).toMatchObject({ state: "Scheduled", hold: "no-handler" });
    });

    it("of many finishes that come at once come into being with their own", async () => {
      const jobs = await scene.claimMany(30);
      const children = jobs.map((job) => newJob({ parentId: job.id }));
      const outcomes = await Promise.all(
        jobs.map((job, index) => {
          const finish = finishOf(job, { children: children.slice(index, index + 1) });
          return scene.store.finishJob(index % 3 === 0 ? other : worker, finish);
        }),
      );
      expect(outcomes.filter((outcome) => outcome === "landed")).toHaveLength(20);
      const born = await Promise.all(children.map(async ({ id }) => (await scene.under.readJob(id)) !== null));
      expect(born).toEqual(children.map((_, index) => index % 3 !== 0));
    });
  });
}
