import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemIds } from "../../runtime/adapters/system/ids.ts";
import type { JobDefinition, ScheduleSpec } from "../../runtime/config/objects.ts";
import type { JobId, WorkerId } from "../../runtime/core/ids.ts";
import type { Json } from "../../runtime/core/json.ts";
import type {
  AttemptOutcome,
  ClaimedJob,
  ExecutionStore,
  JobStore,
  NewJob,
  Ownership,
} from "../../runtime/protocol/ports/jobs.ts";
import type { LeaseStore } from "../../runtime/protocol/ports/leases.ts";
import type { DueSchedule, ScheduleStore } from "../../runtime/protocol/ports/schedules.ts";
import type { CleanupStore, WorkerInfo, WorkerStore } from "../../runtime/protocol/ports/workers.ts";
import type { Hold, JobState } from "../../runtime/protocol/states.ts";
import { finishOf, jobDefinition, retryOf, scheduleSpec } from "./definitions.ts";

export type AnyStore = JobStore & ExecutionStore & LeaseStore & ScheduleStore & WorkerStore & CleanupStore;

/** What the suite looks at in a job's row. */
export interface JobView {
  readonly state: JobState;
  readonly hold: Hold | null;
  readonly failures: number;
  readonly execution: number;
  readonly lost: number;
  readonly lostUnstarted: number;
  readonly returns: number;
  readonly generation: number;
  readonly cancelRequested: boolean;
  readonly started: boolean;
  readonly progress: number;
  readonly result: Json;
  readonly error: string | null;
  /** Milliseconds from the database's now until it is due. */
  readonly dueInMs: number;
  /** Outcomes of its recorded attempts, oldest first. */
  readonly attempts: readonly AttemptOutcome[];
}

export interface FireView {
  readonly at: Date;
  readonly outcome: string;
  readonly jobId: JobId | null;
  readonly blockedBy: JobId | null;
  readonly olderSkips: number;
}

/** A store with an empty database, and what the suite needs beside its ports. */
export interface StoreUnderTest {
  readonly store: AnyStore;
  /** Puts a job type in force, or replaces the one that was. */
  declareJob(definition: JobDefinition): Promise<void>;
  declareQueue(queue: {
    readonly name: string;
    readonly concurrency: number | null;
    readonly suspended: boolean;
  }): Promise<void>;
  declareSchedule(schedule: {
    readonly name: string;
    readonly spec: ScheduleSpec;
    readonly timingHash: string;
    readonly nextFireAt: Date | null;
  }): Promise<void>;
  readJob(id: JobId): Promise<JobView | null>;
  /** Of a job, pending ones. */
  countDeadLetters(id: JobId): Promise<number>;
  /** Oldest first. */
  readFires(schedule: string): Promise<readonly FireView[]>;
  readNextFire(schedule: string): Promise<Date | null>;
  now(): Promise<Date>;
  /** Moves the database's time on: every instant it keeps lies that much further back. */
  elapse(ms: number): Promise<void>;
  close(): Promise<void>;
}

/** The behaviour of every store, whatever it is made of. */
export function storeContract(name: string, makeStore: () => Promise<StoreUnderTest>): void {
  describe(`the store contract on ${name}`, () => {
    let under: StoreUnderTest;
    let store: AnyStore;
    const ids = systemIds;
    let worker: WorkerId;
    let other: WorkerId;

    beforeEach(async () => {
      under = await makeStore();
      store = under.store;
      worker = await register();
      other = await register();
      await under.declareJob(jobDefinition({ type: "work" }));
    });
    afterEach(() => under.close());

    function workerInfo(id: WorkerId): WorkerInfo {
      const queues = [{ name: "default", concurrency: 4 }];
      return { id, name: "test", host: "test", pid: 1, version: "0.0.0", queues };
    }

    async function register(): Promise<WorkerId> {
      const id = ids.workerId();
      await store.registerWorker(workerInfo(id));
      return id;
    }

    function newJob(options: Partial<NewJob> = {}): NewJob {
      return {
        id: ids.jobId(),
        type: "work",
        queue: null,
        payload: {},
        priority: 0,
        due: null,
        maxAttempts: null,
        timeoutMs: null,
        ...options,
      };
    }

    async function insert(...jobs: Partial<NewJob>[]): Promise<JobId[]> {
      const full = jobs.map(newJob);
      const outcome = await store.insertJobs(full);
      expect(outcome).toHaveProperty("created");
      return full.map((job) => job.id);
    }

    async function claim(options: Partial<Parameters<AnyStore["claimJobs"]>[0]> = {}): Promise<readonly ClaimedJob[]> {
      const request = { workerId: worker, queue: "default", limit: 10, after: null, exceptTypes: [], ...options };
      return (await store.claimJobs(request)).jobs;
    }

    async function claimOne(options: Partial<NewJob> = {}): Promise<ClaimedJob & Ownership> {
      const [id] = await insert(options);
      const job = (await claim({ limit: 1000 })).find((claimed) => claimed.id === id);
      if (job === undefined) throw new Error("the job was not claimed");
      return { ...job, jobId: job.id };
    }

    async function claimMany(count: number): Promise<readonly (ClaimedJob & Ownership)[]> {
      await insert(...Array.from({ length: count }, () => ({})));
      const jobs = await claim({ limit: count });
      expect(jobs).toHaveLength(count);
      return jobs.map((job) => ({ ...job, jobId: job.id }));
    }

    async function view(id: JobId): Promise<JobView> {
      const job = await under.readJob(id);
      if (job === null) throw new Error(`there is no job ${id}`);
      return job;
    }

    async function observation(id: JobId) {
      const seen = (await store.observeLeases()).find((lease) => lease.jobId === id);
      if (seen === undefined) throw new Error(`the job ${id} is not running`);
      return seen;
    }

    describe("creating", () => {
      it("enqueues what is due and schedules what is not", async () => {
        const jobs = [newJob(), newJob({ due: { afterMs: 60_000 } }), newJob({ queue: "reports" })];
        expect(await store.insertJobs(jobs)).toEqual({
          created: [
            { id: jobs[0]?.id, state: "Enqueued", queue: "default" },
            { id: jobs[1]?.id, state: "Scheduled", queue: "default" },
            { id: jobs[2]?.id, state: "Enqueued", queue: "reports" },
          ],
        });
      });

      it("inserts nothing when one type is not declared, and names it", async () => {
        const known = newJob();
        expect(await store.insertJobs([known, newJob({ type: "unheard.of" })])).toEqual({
          unknownTypes: ["unheard.of"],
        });
        expect(await under.readJob(known.id)).toBeNull();
      });

      it("gives the definitions in force of the declared types only", async () => {
        const types = await store.loadJobTypes(["work", "unheard.of"]);
        expect([...types.keys()]).toEqual(["work"]);
        expect(types.get("work")?.policy.retry.maxAttempts).toBe(5);
      });
    });

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
        const one = await store.claimJobs({ ...request, after: null });
        expect(one.jobs.map((job) => job.id)).toEqual([first]);
        const [early] = await insert({ priority: 50 });
        const two = await store.claimJobs({ ...request, after: one.cursor, limit: 10 });
        expect(two.jobs.map((job) => job.id)).toEqual([second, third]);
        const three = await store.claimJobs({ ...request, after: two.cursor });
        expect(three.jobs).toEqual([]);
        const over = await store.claimJobs({ ...request, after: null });
        expect(over.jobs.map((job) => job.id)).toEqual([early]);
      });

      it("leaves other queues and the types the worker cannot load alone", async () => {
        await under.declareJob(jobDefinition({ type: "native" }));
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
        expect((await store.loadDefinitions([hash, "sha256:none"])).get(hash)?.type).toBe("work");
      });

      it("keeps a payload of any size as it came", async () => {
        const payload = { text: "x".repeat(5_000), list: [1, 2, { deep: null }] };
        expect((await claimOne({ payload })).payload).toEqual(payload);
      });

      it("keeps to the queue's limit for the whole fleet", async () => {
        await under.declareQueue({ name: "default", concurrency: 2, suspended: false });
        await insert({}, {}, {});
        const running = await claim();
        expect(running).toHaveLength(2);
        expect(await claim({ workerId: other })).toHaveLength(0);
        const [first] = running;
        if (first !== undefined) await store.finishJob(worker, finishOf({ jobId: first.id, token: first.token }));
        expect(await claim({ workerId: other })).toHaveLength(1);
      });

      it("keeps to the queue's limit with jobs that lost their worker, and keeps room for them", async () => {
        await under.declareQueue({ name: "default", concurrency: 2, suspended: false });
        const recovered = { queue: "default", exceptTypes: [] };
        const [lost] = await claimMany(2);
        await store.recoverJobs([await observation((lost as ClaimedJob).id)]);
        await insert({}, {});
        expect(await claim({ workerId: other })).toEqual([]);
        expect(await store.claimRecovered({ workerId: other, ...recovered })).toMatchObject({ id: lost?.id });
        expect(await claim({ workerId: other })).toEqual([]);
        await store.recoverJobs([await observation((lost as ClaimedJob).id)]);
        await under.declareQueue({ name: "default", concurrency: 1, suspended: false });
        expect(await store.claimRecovered({ workerId: other, ...recovered })).toBeNull();
      });

      it("takes nothing from a suspended queue", async () => {
        const lost = await claimOne();
        await store.recoverJobs([await observation(lost.id)]);
        await under.declareQueue({ name: "default", concurrency: null, suspended: true });
        await insert({});
        expect(await claim()).toEqual([]);
        expect(await store.claimRecovered({ workerId: other, queue: "default", exceptTypes: [] })).toBeNull();
      });

      it("finds what the worker owns and does not know of", async () => {
        const [known, unknown] = [await claimOne(), await claimOne()];
        await claimOne().then((job) => store.finishJob(worker, finishOf(job)));
        expect(await store.findOwned({ workerId: worker, known: [{ jobId: known.id, token: known.token }] })).toEqual([
          { jobId: unknown.id, token: unknown.token },
        ]);
      });
    });

    describe("finishing", () => {
      it("lands a success with its result and one attempt", async () => {
        const job = await claimOne();
        expect(await store.finishJob(worker, finishOf(job, { result: '{"total":1}' }))).toBe("landed");
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
        await store.returnClaims(worker, stale);
        const outcomes = await Promise.all(
          jobs.map((job, index) => store.finishJob(worker, index % 2 === 0 ? finishOf(job) : retryOf(job))),
        );
        expect(outcomes.slice(0, 20)).toEqual(Array.from({ length: 20 }, () => "landed"));
        expect(outcomes.slice(20)).toEqual(Array.from({ length: 10 }, () => "fenced"));
      });

      it("refuses a finish with another token, by another worker, or after the job has left", async () => {
        const job = await claimOne();
        const wrongToken = { ...job, token: (job.token + 1n) as typeof job.token };
        expect(await store.finishJob(worker, finishOf(wrongToken))).toBe("fenced");
        expect(await store.finishJob(other, finishOf(job))).toBe("fenced");
        expect(await store.finishJob(worker, finishOf(job))).toBe("landed");
        expect(await store.finishJob(worker, retryOf(job))).toBe("fenced");
        expect(await view(job.id)).toMatchObject({ state: "Succeeded", failures: 0, attempts: ["succeeded"] });
      });

      it("tells a finish that is offered again after its answer was lost that it landed", async () => {
        const [done, retried] = [await claimOne(), await claimOne()];
        await store.finishJob(worker, finishOf(done));
        await store.finishJob(worker, retryOf(retried));
        expect(await store.finishJob(worker, finishOf(done))).toBe("landed");
        expect(await store.finishJob(worker, retryOf(retried))).toBe("landed");
        expect(await view(retried.id)).toMatchObject({ failures: 1, attempts: ["failed"] });
      });

      it("tells it of a job that never ran too, even when another runs it by then", async () => {
        const unstarted = { outcome: "returned", next: "Scheduled", reason: "returned", ranMs: null } as const;
        const [held, returned, cancelled] = [await claimOne(), await claimOne(), await claimOne()];
        await store.cancelJob(cancelled.id);
        const finishes = [
          finishOf(held, { ...unstarted, reason: "held", hold: "no-handler" }),
          finishOf(returned, unstarted),
          finishOf(cancelled, { ...unstarted, outcome: "cancelled", next: "Cancelled", reason: "cancelled" }),
        ];
        for (const finish of finishes) expect(await store.finishJob(worker, finish)).toBe("landed");
        await store.promoteDue(10);
        expect((await claim({ workerId: other })).map((job) => job.id)).toContain(returned.id);
        for (const finish of finishes) expect(await store.finishJob(worker, finish)).toBe("landed");
        expect(await view(returned.id)).toMatchObject({ state: "Processing", execution: 2, attempts: [] });
      });

      it("tells it of one that a cancel request came before, and of none that recovery has ended", async () => {
        const [failed, unstarted, lost] = [await claimOne(), await claimOne(), await claimOne()];
        for (const job of [failed, unstarted, lost]) await store.cancelJob(job.id);
        const back = finishOf(unstarted, { outcome: "returned", next: "Scheduled", reason: "returned", ranMs: null });
        for (let round = 0; round < 2; round++) {
          expect(await store.finishJob(worker, retryOf(failed))).toBe("cancelled");
          expect(await store.finishJob(worker, back)).toBe("cancelled");
        }
        await store.recoverJobs([await observation(lost.id)]);
        expect(await store.finishJob(worker, { ...back, ...owned(lost) })).toBe("fenced");
        expect(await store.finishJob(worker, retryOf(lost))).toBe("fenced");
      });

      it("puts a retry off by its delay, charges the failure and keeps the error", async () => {
        const job = await claimOne();
        await store.finishJob(worker, retryOf(job, { delayMs: 15_000, error: "boom" }));
        const waiting = await view(job.id);
        expect(waiting).toMatchObject({ state: "Scheduled", failures: 1, error: "boom", attempts: ["failed"] });
        expect(waiting.dueInMs).toBeGreaterThan(13_000);
        expect(waiting.dueInMs).toBeLessThanOrEqual(15_000);
        expect((await store.promoteDue(10)).promoted).toBe(0);
        await under.elapse(15_000);
        expect((await store.promoteDue(10)).promoted).toBe(1);
        const [again] = await claim();
        expect(again).toMatchObject({ id: job.id, execution: 2, failures: 1 });
        expect(again?.token).toBeGreaterThan(job.token);
      });

      it("makes a dead letter of a failure for good, and of nothing else", async () => {
        const [failed, retried] = [await claimOne(), await claimOne()];
        await store.finishJob(
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
        await store.finishJob(worker, retryOf(retried));
        expect(await view(failed.id)).toMatchObject({ state: "Failed", failures: 1, error: "boom" });
        expect(await under.countDeadLetters(failed.id)).toBe(1);
        expect(await under.countDeadLetters(retried.id)).toBe(0);
      });

      it("counts a return by shutdown and a crash in their own budgets, not as failures", async () => {
        const [returned, crashed] = [await claimOne(), await claimOne()];
        await store.finishJob(
          worker,
          finishOf(returned, { outcome: "returned", next: "Scheduled", reason: "returned", charge: "return" }),
        );
        await store.finishJob(
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

      it("records no attempt for a job that never started", async () => {
        const job = await claimOne();
        await store.finishJob(
          worker,
          finishOf(job, { outcome: "returned", next: "Scheduled", reason: "returned", ranMs: null }),
        );
        expect(await view(job.id)).toMatchObject({ state: "Scheduled", attempts: [] });
      });

      it("gives a returned job its old place in the queue", async () => {
        const early = await claimOne();
        await insert({}, {});
        await store.returnClaims(worker, [early]);
        await store.promoteDue(10);
        expect((await claim({ limit: 1 })).map((job) => job.id)).toEqual([early.id]);
      });

      it("keeps nothing of progress or a start that comes from an execution without the lease", async () => {
        const job = await claimOne();
        await store.reportProgress(worker, [{ jobId: job.id, token: job.token, percent: 30, message: "a third" }]);
        expect(await view(job.id)).toMatchObject({ progress: 30, started: false });
        await store.reportProgress(other, [{ jobId: job.id, token: job.token, percent: 80, message: null }]);
        await store.markStarted(other, [{ jobId: job.id, token: job.token, runningMs: 300 }]);
        expect(await view(job.id)).toMatchObject({ progress: 30, started: false });
        await store.markStarted(worker, [{ jobId: job.id, token: job.token, runningMs: 300 }]);
        expect(await view(job.id)).toMatchObject({ started: true });
      });
    });

    describe("giving claims back", () => {
      it("makes an unstarted claim due again with a new token, and charges nothing", async () => {
        const job = await claimOne();
        await store.returnClaims(worker, [job]);
        expect(await view(job.id)).toMatchObject({
          state: "Scheduled",
          failures: 0,
          lost: 0,
          lostUnstarted: 0,
          attempts: [],
        });
        await store.promoteDue(10);
        const [again] = await claim();
        expect(again?.token).toBeGreaterThan(job.token);
        expect(await store.finishJob(worker, finishOf(job))).toBe("fenced");
      });

      it("leaves alone what the worker does not own", async () => {
        const job = await claimOne();
        await store.returnClaims(other, [job]);
        expect(await view(job.id)).toMatchObject({ state: "Processing" });
      });

      it("ends a claim as Cancelled for which a cancel request came meanwhile", async () => {
        const job = await claimOne();
        expect(await store.cancelJob(job.id)).toEqual({ kind: "requested" });
        await store.returnClaims(worker, [job]);
        expect(await view(job.id)).toMatchObject({ state: "Cancelled", attempts: [] });
      });
    });

    describe("cancelling", () => {
      it("ends waiting and queued jobs at once", async () => {
        const [queued, waiting] = await insert({}, { due: { afterMs: 60_000 } });
        expect(await store.cancelJob(queued as JobId)).toEqual({ kind: "cancelled" });
        expect(await store.cancelJob(waiting as JobId)).toEqual({ kind: "cancelled" });
        expect(await view(queued as JobId)).toMatchObject({ state: "Cancelled" });
        expect(await view(waiting as JobId)).toMatchObject({ state: "Cancelled" });
        expect(await claim()).toEqual([]);
        expect(await store.cancelJob(queued as JobId)).toEqual({ kind: "finished", state: "Cancelled" });
        expect(await store.cancelJob(ids.jobId())).toEqual({ kind: "not-found" });
      });

      it("is a request for a running job: a success afterwards is kept", async () => {
        const job = await claimOne();
        expect(await store.cancelJob(job.id)).toEqual({ kind: "requested" });
        expect(await view(job.id)).toMatchObject({ state: "Processing", cancelRequested: true });
        expect(await store.finishJob(worker, finishOf(job))).toBe("landed");
        expect(await view(job.id)).toMatchObject({ state: "Succeeded" });
      });

      it("is a request for a running job: anything but a success ends Cancelled, never a retry", async () => {
        const [retried, failed] = [await claimOne(), await claimOne()];
        await store.cancelJob(retried.id);
        await store.cancelJob(failed.id);
        expect(await store.finishJob(worker, retryOf(retried))).toBe("cancelled");
        expect(
          await store.finishJob(
            worker,
            finishOf(failed, { outcome: "failed", next: "Failed", reason: "failed", charge: "failure" }),
          ),
        ).toBe("cancelled");
        expect(await view(retried.id)).toMatchObject({ state: "Cancelled" });
        expect(await view(failed.id)).toMatchObject({ state: "Cancelled" });
        expect(await under.countDeadLetters(failed.id)).toBe(0);
      });

      it("comes too late for a finished job and says so", async () => {
        const job = await claimOne();
        await store.finishJob(worker, finishOf(job));
        expect(await store.cancelJob(job.id)).toEqual({ kind: "finished", state: "Succeeded" });
        expect(await view(job.id)).toMatchObject({ state: "Succeeded" });
      });

      it("gives one answer that fits the final state when cancel and finish race", async () => {
        const jobs = await claimMany(20);
        const races = await Promise.all(
          jobs.map(async (job, index) => {
            const finish = index % 2 === 0 ? finishOf(job) : retryOf(job);
            const pair =
              index % 4 < 2
                ? ([store.cancelJob(job.id), store.finishJob(worker, finish)] as const)
                : ([store.finishJob(worker, finish), store.cancelJob(job.id)] as const);
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

    describe("leases", () => {
      it("renews what is owned, names what is lost, and carries cancel requests", async () => {
        const [kept, wanted, gone] = [await claimOne(), await claimOne(), await claimOne()];
        await store.cancelJob(wanted.id);
        await store.finishJob(worker, finishOf(gone));
        const renewal = await store.renewLeases(
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
        expect((await store.renewLeases(other, [{ ...owned(kept), runningMs: null }])).lost).toEqual([owned(kept)]);
      });

      it("raises the counter that others observe, and writes the start of what runs", async () => {
        const [running, waiting] = [await claimOne(), await claimOne()];
        const before = await observation(running.id);
        await store.renewLeases(worker, [
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
        await store.renewLeases(worker, [{ ...owned(job), runningMs: null }]);
        expect(await store.recoverJobs([seen])).toEqual([]);
        expect(await view(job.id)).toMatchObject({ state: "Processing" });
      });

      it("puts a lost job that had not started back without a charge, and the old owner out", async () => {
        const job = await claimOne();
        const lost = await store.recoverJobs([await observation(job.id)]);
        expect(lost).toEqual([{ ...owned(job), workerId: worker, next: "Enqueued" }]);
        expect(await view(job.id)).toMatchObject({ state: "Enqueued", lost: 0, lostUnstarted: 1, failures: 0 });
        expect(await store.finishJob(worker, finishOf(job))).toBe("fenced");
        expect((await store.renewLeases(worker, [{ ...owned(job), runningMs: null }])).lost).toEqual([owned(job)]);
        expect(await store.recoverJobs([{ ...owned(job), leaseCounter: 0 }])).toEqual([]);
      });

      it("hands a recovered job out alone, with its start written, as its next execution", async () => {
        const job = await claimOne();
        await store.recoverJobs([await observation(job.id)]);
        expect(await claim({ workerId: other })).toEqual([]);
        const again = await store.claimRecovered({ workerId: other, queue: "default", exceptTypes: [] });
        expect(again).toMatchObject({ id: job.id, recovered: true, execution: 2 });
        expect(again?.token).toBeGreaterThan(job.token);
        expect(await view(job.id)).toMatchObject({ state: "Processing", started: true });
        expect(await store.claimRecovered({ workerId: other, queue: "default", exceptTypes: [] })).toBeNull();
      });

      it("ends a job as Failed whose losses after a start have used up their budget", async () => {
        const first = await claimOne();
        await store.markStarted(worker, [{ ...owned(first), runningMs: 300 }]);
        for (const lost of [1, 2]) {
          await store.recoverJobs([await observation(first.id)]);
          expect(await view(first.id)).toMatchObject({ state: "Enqueued", lost });
          await store.claimRecovered({ workerId: worker, queue: "default", exceptTypes: [] });
        }
        const [ended] = await store.recoverJobs([await observation(first.id)]);
        expect(ended).toMatchObject({ next: "Failed" });
        expect(await view(first.id)).toMatchObject({
          state: "Failed",
          lost: 3,
          failures: 0,
          attempts: ["lost", "lost", "lost"],
        });
        expect(await under.countDeadLetters(first.id)).toBe(1);
      });

      it("ends a lost job as Cancelled that was to be cancelled", async () => {
        const job = await claimOne();
        await store.cancelJob(job.id);
        expect(await store.recoverJobs([await observation(job.id)])).toMatchObject([{ next: "Cancelled" }]);
        expect(await view(job.id)).toMatchObject({ state: "Cancelled" });
      });

      it("lets exactly one of finish and recovery win", async () => {
        const jobs = await claimMany(10);
        for (const job of jobs) {
          const seen = await observation(job.id);
          const [finish, recovered] = await Promise.all([
            store.finishJob(worker, finishOf(job)),
            store.recoverJobs([seen]),
          ]);
          expect(finish === "landed").toBe(recovered.length === 0);
          expect(await view(job.id)).toMatchObject({ state: finish === "landed" ? "Succeeded" : "Enqueued" });
        }
      });
    });

    describe("what operators do", () => {
      it("requeues a finished job as a new generation with fresh budgets and a larger token", async () => {
        const job = await claimOne();
        await store.finishJob(
          worker,
          finishOf(job, { outcome: "failed", next: "Failed", reason: "failed", charge: "failure", error: "boom" }),
        );
        expect(await store.requeueJob(job.id)).toEqual({ kind: "requeued" });
        expect(await view(job.id)).toMatchObject({
          state: "Enqueued",
          generation: 1,
          failures: 0,
          lost: 0,
          returns: 0,
        });
        expect(await under.countDeadLetters(job.id)).toBe(0);
        const [again] = await claim();
        expect(again).toMatchObject({ id: job.id, execution: 2, failures: 0 });
        expect(again?.token).toBeGreaterThan(job.token);
        await store.finishJob(worker, finishOf({ jobId: job.id, token: (again as ClaimedJob).token }));
        expect(await view(job.id)).toMatchObject({ state: "Succeeded", attempts: ["failed", "succeeded"] });
      });

      it("requeues and deletes finished jobs only", async () => {
        const job = await claimOne();
        expect(await store.requeueJob(job.id)).toEqual({ kind: "refused", state: "Processing" });
        expect(await store.deleteJob(job.id)).toEqual({ kind: "refused", state: "Processing" });
        await store.finishJob(worker, finishOf(job));
        expect(await store.deleteJob(job.id)).toEqual({ kind: "deleted" });
        expect(await under.readJob(job.id)).toBeNull();
        expect(await store.deleteJob(job.id)).toEqual({ kind: "not-found" });
        expect(await store.requeueJob(job.id)).toEqual({ kind: "not-found" });
      });
    });

    describe("time", () => {
      it("promotes what is due, in portions, and names the queues that got work", async () => {
        await insert(
          { due: { afterMs: 1_000 } },
          { due: { afterMs: 2_000 }, queue: "reports" },
          { due: { afterMs: 90_000 } },
        );
        expect((await store.promoteDue(10)).promoted).toBe(0);
        await under.elapse(3_000);
        expect(await store.promoteDue(1)).toEqual({ promoted: 1, queues: ["default"] });
        expect(await store.promoteDue(10)).toEqual({ promoted: 1, queues: ["reports"] });
        expect((await store.promoteDue(10)).promoted).toBe(0);
      });

      it("tells how long it is until something is due", async () => {
        expect(await store.nextDueInMs()).toBeNull();
        await insert({ due: { afterMs: 60_000 } });
        const dueInMs = (await store.nextDueInMs()) ?? 0;
        expect(dueInMs).toBeGreaterThan(50_000);
        expect(dueInMs).toBeLessThanOrEqual(60_000);
      });

      it("holds a job that no worker of its queue can load, and lets it go when one can", async () => {
        const job = await claimOne();
        for (const id of [worker, other])
          await store.heartbeat({ worker: workerInfo(id), draining: false, unloadableBundles: ["sha256:work"] });
        await store.finishJob(
          worker,
          finishOf(job, { outcome: "returned", next: "Scheduled", reason: "held", hold: "no-handler", ranMs: null }),
        );
        expect(await view(job.id)).toMatchObject({ state: "Scheduled", hold: "no-handler", attempts: [] });
        expect((await store.promoteDue(10)).promoted).toBe(0);
        const elsewhere = ids.workerId();
        await store.registerWorker({ ...workerInfo(elsewhere), queues: [{ name: "reports", concurrency: 1 }] });
        expect((await store.promoteDue(10)).promoted).toBe(0);
        await store.heartbeat({ worker: workerInfo(other), draining: false, unloadableBundles: [] });
        expect((await store.promoteDue(10)).promoted).toBe(1);
        expect(await view(job.id)).toMatchObject({ state: "Enqueued", hold: null });
      });
    });

    describe("schedules", () => {
      const spec = scheduleSpec({ job: "work", payload: { region: "a" } });

      async function declare(
        name: string,
        options: { readonly spec?: ScheduleSpec; readonly nextFireAt?: Date } = {},
      ): Promise<Date> {
        const nextFireAt = options.nextFireAt ?? new Date((await under.now()).getTime() - 1_000);
        await under.declareSchedule({ name, spec: options.spec ?? spec, timingHash: "t1", nextFireAt });
        return nextFireAt;
      }

      function step(
        name: string,
        at: Date,
        options: { readonly timingHash?: string; readonly next?: Date | null } = {},
      ) {
        const nextFireAt = options.next === undefined ? new Date(at.getTime() + 60_000) : options.next;
        return {
          name,
          expected: { nextFireAt: at, timingHash: options.timingHash ?? "t1" },
          fires: [{ at, jobId: ids.jobId() }],
          skips: [],
          olderSkips: 0,
          nextFireAt,
        };
      }

      it("are due by the database's clock, soonest first, suspended ones never", async () => {
        const nowMs = (await under.now()).getTime();
        await declare("late", { nextFireAt: new Date(nowMs - 5_000) });
        await declare("soon", { nextFireAt: new Date(nowMs - 1_000) });
        await declare("future", { nextFireAt: new Date(nowMs + 60_000) });
        await declare("suspended", { nextFireAt: new Date(nowMs - 9_000), spec: { ...spec, suspend: true } });
        const { now, schedules } = await store.loadDueSchedules(10);
        expect(Math.abs(now.getTime() - nowMs)).toBeLessThan(30_000);
        expect(schedules.map((schedule) => schedule.name)).toEqual(["late", "soon"]);
        expect(schedules[0]).toMatchObject({ timingHash: "t1", spec, nextFireAt: new Date(nowMs - 5_000) });
        expect((await store.loadDueSchedules(1)).schedules).toHaveLength(1);
      });

      it("fire a job of their type with their payload and move on", async () => {
        const at = await declare("minutely");
        const fired = step("minutely", at);
        expect(await store.applySteps([fired])).toEqual([
          { name: "minutely", kind: "applied", fired: 1, overlapped: [] },
        ]);
        expect(await under.readNextFire("minutely")).toEqual(fired.nextFireAt);
        const [job] = await claim();
        expect(job).toMatchObject({ id: fired.fires[0]?.jobId, type: "work", payload: { region: "a" } });
        expect(job?.schedule).toMatchObject({ name: "minutely", firedFor: at });
        expect(job?.schedule?.lateByMs).toBeGreaterThanOrEqual(1_000);
        expect(await under.readFires("minutely")).toMatchObject([{ at, outcome: "fired", jobId: job?.id }]);
      });

      it("do nothing for a step that was decided from an older state", async () => {
        const at = await declare("contested");
        await store.applySteps([step("contested", at)]);
        const stale = { name: "contested", kind: "stale", fired: 0, overlapped: [] };
        expect(await store.applySteps([step("contested", at)])).toEqual([stale]);
        const next = (await under.readNextFire("contested")) as Date;
        expect(await store.applySteps([step("contested", next, { timingHash: "edited" })])).toEqual([stale]);
        expect(await store.applySteps([step("unheard-of", at)])).toEqual([{ ...stale, name: "unheard-of" }]);
        expect(await claim()).toHaveLength(1);
      });

      it("fire each instant once when two schedulers decide at the same time", async () => {
        const at = await declare("raced");
        const outcomes = await Promise.all([
          store.applySteps([step("raced", at)]),
          store.applySteps([step("raced", at)]),
        ]);
        expect(outcomes.flat().reduce((sum, outcome) => sum + outcome.fired, 0)).toBe(1);
        expect(await claim()).toHaveLength(1);
      });

      it("skip a fire under Forbid while a run is on its way, and name it", async () => {
        const at = await declare("forbidding");
        await store.applySteps([step("forbidding", at)]);
        const [running] = await claim();
        const next = (await under.readNextFire("forbidding")) as Date;
        const blocked = { at: next, blockedBy: running?.id };
        expect(await store.applySteps([step("forbidding", next)])).toEqual([
          { name: "forbidding", kind: "applied", fired: 0, overlapped: [blocked] },
        ]);
        expect(await under.readFires("forbidding")).toMatchObject([
          { outcome: "fired" },
          { outcome: "overlapped", jobId: null, blockedBy: running?.id },
        ]);
        await store.finishJob(
          worker,
          finishOf({ jobId: (running as ClaimedJob).id, token: (running as ClaimedJob).token }),
        );
        const later = (await under.readNextFire("forbidding")) as Date;
        expect(await store.applySteps([step("forbidding", later)])).toMatchObject([{ fired: 1, overlapped: [] }]);
      });

      it("fire under Allow whatever is on its way", async () => {
        const at = await declare("allowing", { spec: { ...spec, concurrencyPolicy: "Allow" } });
        await store.applySteps([step("allowing", at)]);
        const next = (await under.readNextFire("allowing")) as Date;
        expect(await store.applySteps([step("allowing", next)])).toMatchObject([{ fired: 1, overlapped: [] }]);
        expect(await claim()).toHaveLength(2);
      });

      it("record what was skipped, and how many more that were too many to name", async () => {
        const at = await declare("skipping");
        const [older, newer] = [120_000, 60_000].map((ms) => new Date(at.getTime() - ms)) as [Date, Date];
        const skips = [older, newer].map((skipped) => ({ at: skipped, reason: "superseded" as const }));
        await store.applySteps([{ ...step("skipping", at), skips, olderSkips: 400 }]);
        expect(await under.readFires("skipping")).toMatchObject([
          { at: older, outcome: "superseded", jobId: null, olderSkips: 400 },
          { at: newer, outcome: "superseded", jobId: null, olderSkips: 0 },
          { at, outcome: "fired", olderSkips: 0 },
        ]);
      });

      it("keep every step of a call apart: a stale one spoils none", async () => {
        const at = await declare("fresh");
        await declare("stale", { nextFireAt: at });
        const outcomes = await store.applySteps([step("stale", new Date(at.getTime() - 1)), step("fresh", at)]);
        expect(outcomes.map(({ name, kind }) => [name, kind])).toEqual([
          ["stale", "stale"],
          ["fresh", "applied"],
        ]);
      });

      it("count from the finish of their run", async () => {
        const timing = { kind: "every", intervalMs: 40_000, from: "finish" } as const;
        const at = await declare("paced", { spec: { ...spec, timing } });
        await store.applySteps([step("paced", at, { next: null })]);
        expect(await under.readNextFire("paced")).toBeNull();
        expect(await store.wakeFinishedSchedules()).toBe(0);
        const [job] = await claim();
        await store.finishJob(
          worker,
          retryOf({ jobId: (job as ClaimedJob).id, token: (job as ClaimedJob).token }, { delayMs: 0 }),
        );
        expect(await store.wakeFinishedSchedules()).toBe(0);
        await store.promoteDue(10);
        const [again] = await claim();
        await store.finishJob(
          worker,
          finishOf({ jobId: (again as ClaimedJob).id, token: (again as ClaimedJob).token }),
        );
        const finishedMs = (await under.now()).getTime();
        expect(await store.wakeFinishedSchedules()).toBe(1);
        const nextMs = ((await under.readNextFire("paced")) as Date).getTime();
        expect(Math.abs(nextMs - (finishedMs + 40_000))).toBeLessThan(5_000);
        expect(await store.wakeFinishedSchedules()).toBe(0);
        await under.elapse(60_000);
        const [due] = (await store.loadDueSchedules(10)).schedules;
        expect(await store.applySteps([step("paced", (due as DueSchedule).nextFireAt, { next: null })])).toMatchObject([
          { kind: "applied", fired: 1 },
        ]);
      });

      it("fire by hand at once, whatever their timing, and leave the next fire as it is", async () => {
        const at = await declare("manual", { nextFireAt: new Date((await under.now()).getTime() + 3_600_000) });
        const jobId = ids.jobId();
        expect(await store.triggerSchedule("manual", jobId)).toBe(jobId);
        expect((await claim()).map((job) => job.id)).toEqual([jobId]);
        expect(await under.readNextFire("manual")).toEqual(at);
        expect(await under.readFires("manual")).toMatchObject([{ outcome: "manual", jobId }]);
        expect(await store.triggerSchedule("unheard-of", ids.jobId())).toBeNull();
      });

      it("with runOnStart fire once for a cold start of the installation", async () => {
        await declare("starting", {
          spec: { ...spec, runOnStart: true },
          nextFireAt: new Date((await under.now()).getTime() + 3_600_000),
        });
        expect(await store.fireOnStart(ids.jobId)).toBe(1);
        expect(await store.fireOnStart(ids.jobId)).toBe(0);
        await register();
        expect(await store.fireOnStart(ids.jobId)).toBe(0);
        const [job] = await claim();
        await store.finishJob(worker, finishOf({ jobId: (job as ClaimedJob).id, token: (job as ClaimedJob).token }));
        await under.elapse(120_000);
        await register();
        expect(await store.fireOnStart(ids.jobId)).toBe(1);
      });
    });

    describe("workers", () => {
      it("report a cold start only when nobody else is there", async () => {
        const info = { name: "test", host: "test", pid: 1, version: "0.0.0", queues: [] };
        expect(await store.registerWorker({ id: ids.workerId(), ...info })).toEqual({ coldStart: false });
        await store.deregisterWorker(worker);
        await store.deregisterWorker(other);
        await under.elapse(120_000);
        const first = ids.workerId();
        expect(await store.registerWorker({ id: first, ...info })).toEqual({ coldStart: true });
        expect(await store.registerWorker({ id: ids.workerId(), ...info })).toEqual({ coldStart: false });
      });

      it("hold a duty one at a time, for a term by the database's clock", async () => {
        const ask = (workerId: WorkerId) => store.holdTerm({ duty: "scheduling", workerId, termMs: 15_000 });
        expect(await ask(worker)).toBe(true);
        expect(await ask(other)).toBe(false);
        await under.elapse(10_000);
        expect(await ask(worker)).toBe(true);
        await under.elapse(10_000);
        expect(await ask(other)).toBe(false);
        await under.elapse(6_000);
        expect(await ask(other)).toBe(true);
        expect(await ask(worker)).toBe(false);
      });

      it("give a duty to one of two that ask at once", async () => {
        const answers = await Promise.all(
          [worker, other].map((workerId) => store.holdTerm({ duty: "cleanup", workerId, termMs: 15_000 })),
        );
        expect(answers.filter(Boolean)).toHaveLength(1);
      });

      it("release only their own duty, and all of them when they leave", async () => {
        const duties = ["recovery", "cleanup"] as const;
        for (const duty of duties) await store.holdTerm({ duty, workerId: worker, termMs: 15_000 });
        await store.releaseTerm({ duty: "recovery", workerId: other });
        expect(await store.holdTerm({ duty: "recovery", workerId: other, termMs: 15_000 })).toBe(false);
        await store.releaseTerm({ duty: "recovery", workerId: worker });
        expect(await store.holdTerm({ duty: "recovery", workerId: other, termMs: 15_000 })).toBe(true);
        await store.deregisterWorker(worker);
        expect(await store.holdTerm({ duty: "cleanup", workerId: other, termMs: 15_000 })).toBe(true);
      });

      it("are forgotten once they are gone for long", async () => {
        await store.deregisterWorker(other);
        await under.elapse(86_400_000);
        await store.heartbeat({ worker: workerInfo(worker), draining: false, unloadableBundles: [] });
        expect(await store.pruneWorkers(3_600_000)).toBe(1);
        expect(await store.pruneWorkers(3_600_000)).toBe(0);
      });

      it("are there again when they are heard after they were forgotten, without a cold start", async () => {
        await under.elapse(86_400_000);
        expect(await store.pruneWorkers(3_600_000)).toBe(2);
        await store.heartbeat({ worker: workerInfo(worker), draining: false, unloadableBundles: [] });
        expect(await store.registerWorker(workerInfo(ids.workerId()))).toEqual({ coldStart: false });
      });
    });

    describe("clean-up", () => {
      it("can be called at any time, again and again", async () => {
        const { signal } = new AbortController();
        const job = await claimOne();
        await store.finishJob(worker, finishOf(job));
        for (let round = 0; round < 2; round++) {
          await store.preparePartitions();
          await store.foldCounters(signal);
          expect(await store.dropExpired(signal)).toBe(0);
        }
        expect(await view(job.id)).toMatchObject({ state: "Succeeded" });
      });
    });
  });
}

function owned({ id, token }: ClaimedJob): Ownership {
  return { jobId: id, token };
}

function sorted<Item extends Ownership>(items: readonly Item[]): Item[] {
  return [...items].sort((left, right) => (left.jobId < right.jobId ? -1 : 1));
}
