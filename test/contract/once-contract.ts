import { describe, expect, it } from "vitest";
import type { JobId } from "../../runtime/core/ids.ts";
import type { ClaimedJob, NewJob, OnceKey, UniqueWish } from "../../runtime/protocol/ports/jobs.ts";
import { finishOf, jobDefinition, retryOf } from "./definitions.ts";
import type { Scene } from "./scene.ts";

const ONCE: OnceKey = { scope: "", key: "k", requestHash: "sha256:one", retainMs: 60_000 };

/** What is done once: requests with an idempotency key, jobs with a unique key. */
export function onceContract(scene: Scene): void {
  const { newJob, insert, claim, view, worker } = scene;
  const once = (options: Partial<OnceKey> = {}, jobs: readonly NewJob[] = [newJob()]) =>
    scene.store.insertJobsOnce(jobs, { ...ONCE, ...options });

  describe("idempotency keys", () => {
    it("give the same request its first answer, and insert nothing more", async () => {
      const jobs = [newJob(), newJob({ due: { afterMs: 60_000 } })];
      const created = jobs.map(({ id }, index) => ({
        id,
        state: index === 0 ? "Enqueued" : "Scheduled",
        queue: "default",
      }));
      expect(await once({}, jobs)).toEqual({ created });
      await claim();
      expect(await once({}, [newJob(), newJob()])).toEqual({ replayed: created });
      expect(await once({}, jobs)).toEqual({ replayed: created });
      expect(await claim()).toEqual([]);
    });

    it("are refused with another request, and are each client's own", async () => {
      await once();
      expect(await once({ requestHash: "sha256:two" })).toEqual({ refused: "other-request" });
      expect(await once({ scope: "other" })).toHaveProperty("created");
      expect(await once({ key: "l" })).toHaveProperty("created");
      expect(await claim()).toHaveLength(3);
    });

    it("are forgotten after their time, and outlive the job", async () => {
      const first = newJob();
      await once({}, [first]);
      await scene.store.cancelJob(first.id);
      await scene.store.deleteJob(first.id);
      await scene.under.elapse(59_000);
      expect(await once()).toHaveProperty("replayed");
      await scene.under.elapse(2_000);
      const [, second] = [await scene.store.dropExpired(new AbortController().signal), await once()];
      expect(second).toHaveProperty("created");
      expect(await once()).toHaveProperty("replayed");
    });

    it("are not used up by a request that was refused", async () => {
      expect(await once({}, [newJob({ type: "unheard.of" })])).toEqual({ unknownTypes: ["unheard.of"] });
      expect(await once({ requestHash: "sha256:two" })).toHaveProperty("created");
    });

    it("carry a request out once, however many come with it at once", async () => {
      const outcomes = await Promise.all(Array.from({ length: 6 }, () => once()));
      expect(outcomes.filter((outcome) => "created" in outcome)).toHaveLength(1);
      expect(outcomes.filter((outcome) => "replayed" in outcome)).toHaveLength(5);
      expect(await claim()).toHaveLength(1);
    });

    it("hold for jobs with keys of their own", async () => {
      const jobs = [newJob({ concurrencyKey: "c" }), newJob({ concurrencyKey: "c" })];
      expect(await once({}, jobs)).toMatchObject({ created: [{ state: "Enqueued" }, { state: "Scheduled" }] });
    });
  });

  describe("unique jobs", () => {
    const wish = (options: Partial<UniqueWish> = {}): Partial<NewJob> => ({
      unique: { key: "u", forMs: null, until: "finished", ...options },
    });
    const ask = async (options: Partial<UniqueWish> = {}, type = "work") => {
      const job = newJob({ type, ...wish(options) });
      const outcome = await scene.store.insertJobs([job]);
      if (!("created" in outcome)) throw new Error("not created");
      const [answer] = outcome.created;
      return { job, answer, isNew: answer?.id === job.id };
    };

    it("are answered with the one that is there, with the state that it has", async () => {
      const { job } = await ask();
      expect((await ask()).answer).toEqual({ id: job.id, state: "Enqueued", queue: "default", duplicate: true });
      await claim();
      expect((await ask()).answer).toEqual({ id: job.id, state: "Processing", queue: "default", duplicate: true });
      expect(await claim()).toEqual([]);
    });

    it("count until they have finished, whatever they go through before", async () => {
      const { job } = await ask();
      const [first] = await claim();
      const owned = { ...(first as ClaimedJob), jobId: job.id };
      await scene.store.finishJob(worker, retryOf(owned, { delayMs: 1_000 }));
      expect((await ask()).isNew).toBe(false);
      await scene.under.elapse(1_000);
      await scene.store.promoteDue(10);
      const [second] = await claim();
      await scene.store.finishJob(worker, finishOf({ ...(second as ClaimedJob), jobId: job.id }));
      const next = await ask();
      expect(next.isNew).toBe(true);
      expect((await ask()).answer?.id).toBe(next.job.id);
    });

    it("count until a worker has taken them, where they say so", async () => {
      await ask({ until: "started" });
      expect((await ask({ until: "started" })).isNew).toBe(false);
      await claim();
      expect((await ask({ until: "started" })).isNew).toBe(true);
    });

    it("count for their time at most, and for all of it where nothing else ends it", async () => {
      const { job } = await ask({ forMs: 60_000 });
      await scene.under.elapse(59_000);
      expect((await ask({ forMs: 60_000 })).isNew).toBe(false);
      await scene.under.elapse(2_000);
      const lasting = await ask({ forMs: 60_000, until: null });
      expect(lasting.isNew).toBe(true);
      for (const { id } of [job, lasting.job]) await scene.store.cancelJob(id);
      expect((await ask({ forMs: 60_000, until: null })).answer).toMatchObject({
        id: lasting.job.id,
        state: "Cancelled",
        duplicate: true,
      });
      await scene.store.deleteJob(lasting.job.id);
      expect((await ask({ forMs: 60_000, until: null })).isNew).toBe(true);
    });

    it("have keys of their own in each type", async () => {
      await scene.under.declareJob(jobDefinition({ type: "other" }));
      expect([(await ask()).isNew, (await ask({}, "other")).isNew, (await ask({ key: "v" })).isNew]).toEqual([
        true,
        true,
        true,
      ]);
    });

    it("are one in a batch with several of them", async () => {
      const jobs = [newJob(wish()), newJob(), newJob(wish()), newJob(wish({ key: "v" }))];
      const [first, plain, , other] = jobs as [NewJob, NewJob, NewJob, NewJob];
      expect(await scene.store.insertJobs(jobs)).toMatchObject({
        created: [
          { id: first.id },
          { id: plain.id },
          { id: first.id, state: "Enqueued", duplicate: true },
          { id: other.id },
        ],
      });
      expect(await scene.store.insertJobs([newJob(wish()), newJob(wish())])).toMatchObject({
        created: [
          { id: first.id, duplicate: true },
          { id: first.id, duplicate: true },
        ],
      });
      expect(await claim()).toHaveLength(3);
    });

    it("are one, however many are asked for at once", async () => {
      const asked = await Promise.all(Array.from({ length: 6 }, () => ask()));
      expect(asked.filter(({ isNew }) => isNew)).toHaveLength(1);
      expect(new Set(asked.map(({ answer }) => answer?.id)).size).toBe(1);
    });

    it("keep nothing of a request that was refused", async () => {
      expect(await scene.store.insertJobs([newJob(wish()), newJob({ type: "unheard.of" })])).toHaveProperty(
        "unknownTypes",
      );
      expect((await ask()).isNew).toBe(true);
    });

    it("hold among children, too", async () => {
      const [id] = await insert({});
      const [parent] = await claim();
      const child = newJob({ parentId: id as JobId, ...wish() });
      const { job } = await ask();
      const finish = finishOf({ ...(parent as ClaimedJob), jobId: id as JobId }, { children: [child] });
      expect(await scene.store.finishJob(worker, finish)).toBe("landed");
      expect(await scene.under.readJob(child.id)).toBeNull();
      expect(await view(job.id)).toMatchObject({ state: "Enqueued" });
    });

    it("count no more after a clean-up than before", async () => {
      const ended = await ask();
      await scene.store.cancelJob(ended.job.id);
      await ask({ key: "kept" });
      await scene.store.dropExpired(new AbortController().signal);
      expect([(await ask()).isNew, (await ask({ key: "kept" })).isNew]).toEqual([true, false]);
    });
  });
}
