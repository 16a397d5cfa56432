import { describe, expect, it } from "vitest";
import type { ClaimedJob } from "../../runtime/protocol/ports/jobs.ts";
import { finishOf, jobDefinition } from "./definitions.ts";
import type { Scene } from "./scene.ts";

/** From the queue to a worker, and back unstarted. */
export function claimContract(scene: Scene): void {
  const { insert, claim, claimOne, claimMany, view, observation, worker, other } = scene;

  describe("claiming", () => {
    it("hands out jobs in the order of their due time less a minute a point of priority", async () => {
      const [first, second, urgent, lazy] = await insert({}, {}, { priority: 5 }, { priority: -5 });
      expect((await claim()).map((job) => job.id)).toEqual([urgent, first, second, lazy]);
    });

    it("gives each job to one claim only, however many ask at once", async () => {
      await insert(...Array.from({ length: 40 }, () => ({})));
      const claims = await Promise.all(
        Array.from({ length: 8 }, (_, index) => claim({ workerId: index % 2 === 0 ? worker : other, limit: 10 })),
      );
      await Promise.all([claim({ limit: 100 })]).then((rest) => claims.push(...rest));
      const tokens = claims.flat().map((job) => job.token);
      expect(tokens).toHaveLength(40);
      expect(new Set(tokens).size).toBe(40);
    });

    it("goes on behind its cursor, and finds what came before it when it starts over", async () => {
      const [first, second, third] = await insert({}, {}, {});
      const request = { workerId: worker, queue: "default", limit: 1, exceptTypes: [] };
      const one = await scene.store.claimJobs({ ...request, after: null });
      expect(one.jobs.map((job) => job.id)).toEqual([first]);
      const [early] = await insert({ priority: 50 });
      const two = await scene.store.claimJobs({ ...request, after: one.cursor, limit: 10 });
      expect(two.jobs.map((job) => job.id)).toEqual([second, third]);
      const three = await scene.store.claimJobs({ ...request, after: two.cursor });
      expect(three.jobs).toEqual([]);
      const over = await scene.store.claimJobs({ ...request, after: null });
      expect(over.jobs.map((job) => job.id)).toEqual([early]);
    });

    it("says of a queue that it has a limit or is suspended, also when it asks for no job", async () => {
      await scene.under.declareQueue({ name: "narrow", concurrency: 1, suspended: false });
      await scene.under.declareQueue({ name: "still", concurrency: null, suspended: true });
      await insert({}, { queue: "narrow" }, { queue: "narrow" }, { queue: "still" });
      const ask = (queue: string, limit: number) =>
        scene.store.claimJobs({ workerId: worker, queue, limit, after: null, exceptTypes: [] });
      for (const queue of ["narrow", "still"]) {
        expect(await ask(queue, 0)).toMatchObject({ jobs: [], limited: true });
      }
      expect(await ask("narrow", 5)).toMatchObject({ jobs: [{ queue: "narrow" }], limited: true });
      expect(await ask("still", 5)).toMatchObject({ jobs: [], limited: true });
      const open = await ask("default", 0);
      expect(open.jobs).toEqual([]);
      expect(open.limited).toBeUndefined();
      expect((await ask("default", 5)).limited).toBeUndefined();
    });

    it("leaves other queues and the types the worker cannot load alone", async () => {
      await scene.under.declareJob(jobDefinition({ type: "native" }));
      const [here] = await insert({}, { queue: "reports" }, { type: "native" });
      expect((await claim({ exceptTypes: ["native"] })).map((job) => job.id)).toEqual([here]);
    });

    it("gives back the facts of the job and the hash of the definition in force", async () => {
      const job = await claimOne({ payload: { lote: 7 }, maxAttempts: 2, timeoutMs: 1_000 });
      expect(job).toMatchObject({
        type: "work",
        queue: "default",
        payload: { lote: 7 },
        failures: 0,
        execution: 1,
        lost: 0,
        lostUnstarted: 0,
        returns: 0,
        maxAttempts: 2,
        timeoutMs: 1_000,
        schedule: null,
        recovered: false,
      });
      const hash = job.definitionHash ?? "";
      expect((await scene.store.loadDefinitions([hash, "sha256:none"])).get(hash)?.type).toBe("work");
    });

    it("keeps a payload of any size as it came", async () => {
      const payload = { text: "x".repeat(5_000), list: [1, 2, { deep: null }] };
      expect((await claimOne({ payload })).payload).toEqual(payload);
    });

    it("keeps to the queue's limit for the whole fleet", async () => {
      await scene.under.declareQueue({ name: "default", concurrency: 2, suspended: false });
      await insert({}, {}, {});
      const running = await claim();
      expect(running).toHaveLength(2);
      expect(await claim({ workerId: other })).toHaveLength(0);
      const [first] = running;
      if (first !== undefined) await scene.store.finishJob(worker, finishOf({ jobId: first.id, token: first.token }));
      expect(await claim({ workerId: other })).toHaveLength(1);
    });

    it("keeps to the queue's limit with jobs that lost their worker, and keeps room for them", async () => {
      await scene.under.declareQueue({ name: "default", concurrency: 2, suspended: false });
      const recovered = { queue: "default", exceptTypes: [] };
      const [lost] = await claimMany(2);
      await scene.store.recoverJobs([await observation((lost as ClaimedJob).id)]);
      await insert({}, {});
      expect(await claim({ workerId: other })).toEqual([]);
      expect(await scene.store.claimRecovered({ workerId: other, ...recovered })).toMatchObject({ id: lost?.id });
      expect(await claim({ workerId: other })).toEqual([]);
      await scene.store.recoverJobs([await observation((lost as ClaimedJob).id)]);
      await scene.under.declareQueue({ name: "default", concurrency: 1, suspended: false });
      expect(await scene.store.claimRecovered({ workerId: other, ...recovered })).toBeNull();
    });

    it("takes nothing from a suspended queue", async () => {
      const lost = await claimOne();
      await scene.store.recoverJobs([await observation(lost.id)]);
      await scene.under.declareQueue({ name: "default", concurrency: null, suspended: true });
      await insert({});
      expect(await claim()).toEqual([]);
      expect(await scene.store.claimRecovered({ workerId: other, queue: "default", exceptTypes: [] })).toBeNull();
    });

    it("finds what the worker owns and does not know of", async () => {
      const [known, unknown] = [await claimOne(), await claimOne()];
      await claimOne().then((job) => scene.store.finishJob(worker, finishOf(job)));
      expect(
        await scene.store.findOwned({ workerId: worker, known: [{ jobId: known.id, token: known.token }] }),
      ).toEqual([{ jobId: unknown.id, token: unknown.token }]);
    });
  });

  describe("giving claims back", () => {
    it("makes an unstarted claim due again with a new token, and charges nothing", async () => {
      const job = await claimOne();
      await scene.store.returnClaims(worker, [job]);
      expect(await view(job.id)).toMatchObject({
        state: "Scheduled",
        failures: 0,
        lost: 0,
        lostUnstarted: 0,
        attempts: [],
      });
      await scene.store.promoteDue(10);
      const [again] = await claim();
      expect(again?.token).toBeGreaterThan(job.token);
      expect(await scene.store.finishJob(worker, finishOf(job))).toBe("fenced");
    });

    it("leaves alone what the worker does not own", async () => {
      const job = await claimOne();
      await scene.store.returnClaims(other, [job]);
      expect(await view(job.id)).toMatchObject({ state: "Processing" });
    });

    it("ends a claim as Cancelled for which a cancel request came meanwhile", async () => {
      const job = await claimOne();
      expect(await scene.store.cancelJob(job.id)).toEqual({ kind: "requested" });
      await scene.store.returnClaims(worker, [job]);
      expect(await view(job.id)).toMatchObject({ state: "Cancelled", attempts: [] });
    });
  });
}
