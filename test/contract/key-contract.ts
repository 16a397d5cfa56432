import { describe, expect, it } from "vitest";
import { seededRandom } from "../../runtime/adapters/memory/seeded.ts";
import { systemIds as ids } from "../../runtime/adapters/system/ids.ts";
import type { JobId } from "../../runtime/core/ids.ts";
import type { ClaimedJob, Finish, NewJob } from "../../runtime/protocol/ports/jobs.ts";
import { finishOf, jobDefinition, retryOf, scheduleSpec } from "./definitions.ts";
import type { Scene } from "./scene.ts";

const KEYED: Partial<NewJob> = { concurrencyKey: "customer-7" };
const WAITS = { state: "Scheduled", hold: "key" } as const;
const RUNNABLE = { state: "Enqueued", hold: null } as const;

/** Jobs with the same concurrency key never have two owners. */
export function keyContract(scene: Scene): void {
  const { newJob, insert, claim, view, observation, worker, other } = scene;
  const finish = (job: ClaimedJob, options: Partial<Finish> = {}) =>
    scene.store.finishJob(worker, finishOf({ ...job, jobId: job.id }, options));

  /** One that runs with the key, and one that waits for it. */
  async function contended(): Promise<{ readonly owner: ClaimedJob; readonly waiter: JobId }> {
    const [first, waiter] = await insert(KEYED, KEYED);
    const [owner] = await claim();
    expect(owner?.id).toBe(first);
    return { owner: owner as ClaimedJob, waiter: waiter as JobId };
  }

  describe("concurrency keys", () => {
    it("let one job into the queue and hold the others, told at their creation", async () => {
      const jobs = [newJob(KEYED), newJob(KEYED), newJob({ concurrencyKey: "customer-8" }), newJob()];
      const inserted = await scene.store.insertJobs(jobs);
      expect(inserted).toMatchObject({
        created: [{ state: "Enqueued" }, { state: "Scheduled" }, { state: "Enqueued" }, { state: "Enqueued" }],
      });
      expect(await view(jobs[1]?.id as JobId)).toMatchObject(WAITS);
      const claimed = await claim();
      expect(claimed.map((job) => job.concurrencyKey ?? null)).toEqual(["customer-7", "customer-8", null]);
      expect(await scene.store.insertJobs([newJob(KEYED)])).toMatchObject({ created: [{ state: "Scheduled" }] });
      await scene.store.promoteDue(10);
      expect(await claim()).toEqual([]);
    });

    it("go with a success to the next in the order of the queue", async () => {
      const { owner, waiter } = await contended();
      const [sooner] = await insert({ ...KEYED, priority: 50 });
      expect(await finish(owner)).toBe("landed");
      expect(await view(sooner as JobId)).toMatchObject(RUNNABLE);
      expect(await view(waiter)).toMatchObject(WAITS);
      const [next] = await claim();
      expect(next?.id).toBe(sooner);
      await finish(next as ClaimedJob);
      expect((await claim()).map((job) => job.id)).toEqual([waiter]);
    });

    const ends: Readonly<Record<string, Partial<Finish>>> = {
      "a failure for good": { outcome: "failed", next: "Failed", reason: "failed", charge: "failure" },
      "a back-off": { outcome: "failed", next: "Scheduled", reason: "retry", charge: "failure", delayMs: 15_000 },
      "a snooze": { outcome: "snoozed", next: "Scheduled", reason: "snoozed", delayMs: 60_000 },
      "a hold for another reason": { outcome: "returned", next: "Scheduled", reason: "held", hold: "no-handler" },
      "a loss that waits": {
        outcome: "lost",
        next: "Scheduled",
        reason: "worker lost",
        charge: "lost",
        delayMs: 1_000,
      },
    };
    for (const [name, end] of Object.entries(ends)) {
      it(`go on with ${name}`, async () => {
        const { owner, waiter } = await contended();
        expect(await finish(owner, end)).toBe("landed");
        expect(await view(waiter)).toMatchObject(RUNNABLE);
      });
    }

    it("go on when a job is cancelled, in its queue or while it runs", async () => {
      const [first, second, third] = await insert(KEYED, KEYED, KEYED);
      expect(await scene.store.cancelJob(first as JobId)).toEqual({ kind: "cancelled" });
      expect(await view(second as JobId)).toMatchObject(RUNNABLE);
      const [running] = await claim();
      await scene.store.cancelJob(second as JobId);
      expect(await view(third as JobId)).toMatchObject(WAITS);
      const outcome = await finish(running as ClaimedJob, { outcome: "failed", next: "Failed", reason: "failed" });
      expect(outcome).toBe("cancelled");
      expect(await view(third as JobId)).toMatchObject(RUNNABLE);
    });

    it("stay where they are when a waiter is cancelled, or a finish is fenced", async () => {
      const { owner, waiter } = await contended();
      const [last] = await insert(KEYED);
      expect(await scene.store.finishJob(other, finishOf({ ...owner, jobId: owner.id }))).toBe("fenced");
      expect(await scene.store.cancelJob(waiter)).toEqual({ kind: "cancelled" });
      expect(await view(last as JobId)).toMatchObject(WAITS);
      await finish(owner);
      expect(await finish(owner)).toBe("landed");
      const [next] = await claim();
      expect(next?.id).toBe(last);
      expect(await finish(owner)).toBe("landed");
      await insert(KEYED);
      expect(await claim()).toEqual([]);
    });

    it("stay with a job whose worker was lost, and go on when that ends it", async () => {
      const { owner, waiter } = await contended();
      await scene.store.recoverJobs([await observation(owner.id)]);
      expect(await view(owner.id)).toMatchObject(RUNNABLE);
      expect(await view(waiter)).toMatchObject(WAITS);
      const again = await scene.store.claimRecovered({ workerId: worker, queue: "default", exceptTypes: [] });
      expect(again).toMatchObject({ id: owner.id, concurrencyKey: "customer-7" });
      await scene.store.cancelJob(owner.id);
      expect(await scene.store.recoverJobs([await observation(owner.id)])).toMatchObject([{ next: "Cancelled" }]);
      expect(await view(waiter)).toMatchObject(RUNNABLE);
    });

    it("let a job that was given back keep its place before the others", async () => {
      const { owner, waiter } = await contended();
      await scene.store.returnClaims(worker, [{ jobId: owner.id, token: owner.token }]);
      await scene.store.promoteDue(10);
      expect(await view(waiter)).toMatchObject(WAITS);
      const [again] = await claim();
      expect(again?.id).toBe(owner.id);
      expect(again?.token).toBeGreaterThan(owner.token);
      await finish(again as ClaimedJob, {
        outcome: "returned",
        next: "Scheduled",
        reason: "returned",
        charge: "return",
      });
      await scene.store.promoteDue(10);
      expect((await claim()).map((job) => job.id)).toEqual([owner.id]);
      expect(await view(waiter)).toMatchObject(WAITS);
    });

    it("go on when a claim is given back that was to be cancelled", async () => {
      const { owner, waiter } = await contended();
      await scene.store.cancelJob(owner.id);
      await scene.store.returnClaims(worker, [{ jobId: owner.id, token: owner.token }]);
      expect(await view(owner.id)).toMatchObject({ state: "Cancelled" });
      expect(await view(waiter)).toMatchObject(RUNNABLE);
    });

    it("are asked for when a job is due, not before", async () => {
      const [later] = await insert({ ...KEYED, due: { afterMs: 60_000 } });
      const { owner, waiter } = await contended();
      await scene.under.elapse(60_000);
      expect((await scene.store.promoteDue(10)).queues).toEqual([]);
      expect(await view(later as JobId)).toMatchObject(WAITS);
      await finish(owner);
      expect(await view(waiter)).toMatchObject(RUNNABLE);
      expect(await view(later as JobId)).toMatchObject(WAITS);
    });

    it("are free for a delayed job when nobody has them", async () => {
      const [later] = await insert({ ...KEYED, due: { afterMs: 1_000 } });
      await scene.under.elapse(1_000);
      expect(await scene.store.promoteDue(10)).toEqual({ promoted: 1, queues: ["default"] });
      expect((await claim()).map((job) => job.id)).toEqual([later]);
    });

    it("are asked for once more by a retry and by a job that no worker could load", async () => {
      const { owner, waiter } = await contended();
      await scene.store.finishJob(worker, retryOf({ ...owner, jobId: owner.id }, { delayMs: 1_000 }));
      const [next] = await claim();
      expect(next?.id).toBe(waiter);
      await scene.under.elapse(1_000);
      await scene.store.promoteDue(10);
      expect(await view(owner.id)).toMatchObject(WAITS);
      await finish(next as ClaimedJob, { outcome: "returned", next: "Scheduled", reason: "held", hold: "no-handler" });
      expect(await view(owner.id)).toMatchObject(RUNNABLE);
      await scene.store.promoteDue(10);
      expect(await view(waiter)).toMatchObject(WAITS);
    });

    it("are taken again by a requeued job, or waited for", async () => {
      const { owner, waiter } = await contended();
      await finish(owner, { outcome: "failed", next: "Failed", reason: "failed" });
      expect(await scene.store.requeueJob(owner.id)).toEqual({ kind: "requeued", held: true });
      expect(await view(owner.id)).toMatchObject({ ...WAITS, generation: 1 });
      const [next] = await claim();
      expect(next?.id).toBe(waiter);
      await finish(next as ClaimedJob);
      expect(await view(owner.id)).toMatchObject(RUNNABLE);
      const [again] = await claim();
      await finish(again as ClaimedJob);
      await scene.store.requeueJob(owner.id);
      expect(await view(owner.id)).toMatchObject({ ...RUNNABLE, generation: 2 });
    });

    it("hold the runs of schedules too", async () => {
      const { owner } = await contended();
      const at = await scene.under.now();
      await scene.under.declareSchedule({
        name: "keyed",
        spec: scheduleSpec({ job: "work", concurrencyKey: "customer-7" }),
        timingHash: "t",
        nextFireAt: at,
      });
      const byHand = await scene.store.triggerSchedule("keyed", ids.jobId());
      expect(await view(byHand as JobId)).toMatchObject(WAITS);
      await scene.store.cancelJob(byHand as JobId);
      const [freed] = await insert({ concurrencyKey: "customer-9" });
      await scene.store.cancelJob(freed as JobId);
      await scene.under.declareSchedule({
        name: "free",
        spec: scheduleSpec({ job: "work", concurrencyKey: "customer-9" }),
        timingHash: "t",
        nextFireAt: at,
      });
      const run = await scene.store.triggerSchedule("free", ids.jobId());
      expect(await view(run as JobId)).toMatchObject(RUNNABLE);
      await finish(owner);
    });

    it("never have two owners, and are never free while somebody waits, whatever happens in whatever order", async () => {
      await scene.under.declareJob(jobDefinition({ type: "work" }));
      for (const seed of [11, 12, 13]) await wander(scene, seed);
    });
  });
}

const KEYS = ["a", "b", null] as const;

/** Random moves; after each of them the keys are looked at. */
async function wander(scene: Scene, seed: number): Promise<void> {
  const { store, worker } = scene;
  const random = seededRandom(seed);
  const pick = <Item>(items: readonly Item[]): Item | undefined => items[Math.floor(random.next() * items.length)];
  const keyOf = new Map<JobId, string | null>();
  const running = new Map<JobId, ClaimedJob>();

  const moves: Readonly<Record<string, () => Promise<unknown>>> = {
    async insert() {
      const concurrencyKey = pick(KEYS) ?? null;
      const due = random.next() < 0.3 ? { afterMs: 5_000 } : null;
      const [id] = await scene.insert({ concurrencyKey, due, priority: Math.floor(random.next() * 3) });
      keyOf.set(id as JobId, concurrencyKey);
    },
    async claim() {
      for (const job of await scene.claim({ limit: 2 })) running.set(job.id, job);
    },
    async finish() {
      const job = pick([...running.values()]);
      if (job === undefined) return;
      running.delete(job.id);
      const owned = { ...job, jobId: job.id };
      const failed = { outcome: "failed", next: "Failed", reason: "failed" } as const;
      const returned = { outcome: "returned", next: "Scheduled", reason: "returned" } as const;
      const finishes = [
        finishOf(owned),
        finishOf(owned, failed),
        finishOf(owned, returned),
        retryOf(owned, { delayMs: 3_000 }),
      ];
      await store.finishJob(worker, pick(finishes) as Finish);
    },
    async giveBack() {
      const job = pick([...running.values()]);
      if (job === undefined) return;
      running.delete(job.id);
      await store.returnClaims(worker, [{ jobId: job.id, token: job.token }]);
    },
    async lose() {
      const seen = pick(await store.observeLeases());
      if (seen === undefined) return;
      running.delete(seen.jobId);
      await store.recoverJobs([seen]);
      const job = await store.claimRecovered({ workerId: worker, queue: "default", exceptTypes: [] });
      if (job !== null) running.set(job.id, job);
    },
    cancel: async () => store.cancelJob(pick([...keyOf.keys()]) ?? ids.jobId()),
    requeue: async () => store.requeueJob(pick([...keyOf.keys()]) ?? ids.jobId()),
    async pass() {
      await scene.under.elapse(2_000);
      await store.promoteDue(100);
    },
  };

  for (let step = 0; step < 60; step += 1) {
    const name = step % 3 === 0 ? "insert" : (pick(Object.keys(moves)) as string);
    await moves[name]?.();
    for (const key of ["a", "b"]) {
      const of = [...keyOf].filter(([, its]) => its === key);
      const views = await Promise.all(of.map(async ([id]) => scene.view(id)));
      const owners = views.filter(({ state }) => state === "Enqueued" || state === "Processing").length;
      const waiters = views.filter(({ hold }) => hold === "key").length;
      const where = { seed, step, name, key };
      expect({ ...where, twoOwners: owners > 1 }).toEqual({ ...where, twoOwners: false });
      expect({ ...where, freeAndWanted: owners === 0 && waiters > 0 }).toEqual({ ...where, freeAndWanted: false });
    }
  }
  for (const id of keyOf.keys()) await store.cancelJob(id);
  for (const job of running.values()) {
    await store.finishJob(worker, finishOf({ ...job, jobId: job.id }, { outcome: "cancelled", next: "Cancelled" }));
  }
}
