import { expect } from "vitest";
import { systemIds as ids } from "../../runtime/adapters/system/ids.ts";
import type { JobId, WorkerId } from "../../runtime/core/ids.ts";
import type { ClaimedJob, ClaimRequest, NewJob, Ownership } from "../../runtime/protocol/ports/jobs.ts";
import type { LeaseObservation } from "../../runtime/protocol/ports/leases.ts";
import type { WorkerInfo } from "../../runtime/protocol/ports/workers.ts";
import { jobDefinition } from "./definitions.ts";
import type { AnyStore, JobView, StoreUnderTest } from "./store-under-test.ts";

/** A store with two workers and the job type `work`, new for each test, and the moves that tests are told with. */
export interface Scene {
  readonly under: StoreUnderTest;
  readonly store: AnyStore;
  readonly worker: WorkerId;
  readonly other: WorkerId;
  workerInfo(id: WorkerId): WorkerInfo;
  register(): Promise<WorkerId>;
  newJob(options?: Partial<NewJob>): NewJob;
  insert(...jobs: Partial<NewJob>[]): Promise<JobId[]>;
  /** By `worker`, from the queue `default`. */
  claim(options?: Partial<ClaimRequest>): Promise<readonly ClaimedJob[]>;
  claimOne(options?: Partial<NewJob>): Promise<ClaimedJob & Ownership>;
  claimMany(count: number): Promise<readonly (ClaimedJob & Ownership)[]>;
  view(id: JobId): Promise<JobView>;
  observation(id: JobId): Promise<LeaseObservation>;
  open(): Promise<void>;
  close(): Promise<void>;
}

export function createScene(makeStore: () => Promise<StoreUnderTest>): Scene {
  let under: StoreUnderTest | null = null;
  const worker = ids.workerId();

  const scene: Scene = {
    get under() {
      if (under === null) throw new Error("the store is not open");
      return under;
    },
    get store() {
      return scene.under.store;
    },
    worker,
    other: ids.workerId(),

    async open() {
      under = await makeStore();
      for (const id of [scene.worker, scene.other]) await scene.store.registerWorker(scene.workerInfo(id));
      await scene.under.declareJob(jobDefinition({ type: "work" }));
    },
    close: () => scene.under.close(),

    workerInfo(id) {
      const queues = [{ name: "default", concurrency: 4 }];
      return { id, name: "test", host: "test", pid: 1, version: "0.0.0", queues };
    },
    async register() {
      const id = ids.workerId();
      await scene.store.registerWorker(scene.workerInfo(id));
      return id;
    },

    newJob(options = {}) {
      const plain = { queue: null, payload: {}, priority: 0, due: null, maxAttempts: null, timeoutMs: null };
      return { id: ids.jobId(), type: "work", ...plain, ...options };
    },
    async insert(...jobs) {
      const full = jobs.map((job) => scene.newJob(job));
      expect(await scene.store.insertJobs(full)).toHaveProperty("created");
      return full.map((job) => job.id);
    },
    async claim(options = {}) {
      const request = { workerId: worker, queue: "default", limit: 10, after: null, exceptTypes: [], ...options };
      return (await scene.store.claimJobs(request)).jobs;
    },
    async claimOne(options = {}) {
      const [id] = await scene.insert(options);
      const job = (await scene.claim({ limit: 1000 })).find((claimed) => claimed.id === id);
      if (job === undefined) throw new Error("the job was not claimed");
      return { ...job, jobId: job.id };
    },
    async claimMany(count) {
      await scene.insert(...Array.from({ length: count }, () => ({})));
      const jobs = await scene.claim({ limit: count });
      expect(jobs).toHaveLength(count);
      return jobs.map((job) => ({ ...job, jobId: job.id }));
    },

    async view(id) {
      const job = await scene.under.readJob(id);
      if (job === null) throw new Error(`there is no job ${id}`);
      return job;
    },
    async observation(id) {
      const seen = (await scene.store.observeLeases()).find((lease) => lease.jobId === id);
      if (seen === undefined) throw new Error(`the job ${id} is not running`);
      return seen;
    },
  };
  return scene;
}

export function owned({ id, token }: ClaimedJob): Ownership {
  return { jobId: id, token };
}

export function sorted<Item extends Ownership>(items: readonly Item[]): Item[] {
  return [...items].sort((left, right) => (left.jobId < right.jobId ? -1 : 1));
}
