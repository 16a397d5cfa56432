import { afterAll, beforeAll, expect, it } from "vitest";
import { seededRandom } from "../../runtime/adapters/memory/seeded.ts";
import { createCleanupStore } from "../../runtime/adapters/postgres/cleanup-store.ts";
import { createExecutionStore } from "../../runtime/adapters/postgres/execution-store.ts";
import { createJobStore } from "../../runtime/adapters/postgres/job-store.ts";
import { createLeaseStore } from "../../runtime/adapters/postgres/lease-store.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { createScheduleStore } from "../../runtime/adapters/postgres/schedule-store.ts";
import { systemIds as ids } from "../../runtime/adapters/system/ids.ts";
import type { JobId } from "../../runtime/core/ids.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import { RejectedError, UnknownOutcomeError } from "../../runtime/protocol/ports/errors.ts";
import type { ClaimedJob, ExecutionStore, Finish, NewJob, Ownership } from "../../runtime/protocol/ports/jobs.ts";
import { TRANSITIONS } from "../../runtime/protocol/states.ts";
import { finishOf, retryOf, scheduleSpec } from "../contract/definitions.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { declareJobType, declareSchedule, jobDefinition } from "../support/declare.ts";

const noRing = { ring: () => {} };
const { signal } = new AbortController();
const QUEUES = ["default", "limited"] as const;
const LIMIT = 3;
const LARGE = { text: "x".repeat(3_000) };

let testDatabase: TestDatabase;
/** Its sessions are ended at random. */
let database: Database;
/** Its sessions are left alone. */
let calm: Database;

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  const open = (applicationName: string, size: number) =>
    openDatabase({
      address: testDatabase.address,
      applicationName,
      size,
      statementTimeoutMs: 20_000,
      logger: silentLogger,
    });
  database = open("storm", 10);
  calm = open("calm", 2);
  await declareJobType(calm, jobDefinition("work"));
  await calm.query("insert into turno.queues (name, concurrency) values ('limited', $1)", [LIMIT]);
  await storesOn(calm).preparePartitions();
});
afterAll(async () => {
  await Promise.all([database.close(), calm.close()]);
  await testDatabase.drop();
});

function storesOn(on: Database) {
  return {
    ...createJobStore(on, noRing),
    ...createExecutionStore({ database: on, logger: silentLogger, monotonicMs: () => performance.now() }),
    ...createLeaseStore(on, noRing),
    ...createScheduleStore(on, noRing),
    ...createCleanupStore(on),
  };
}
type Stores = ReturnType<typeof storesOn>;

/** What the actors of a storm share. */
interface Storm {
  readonly stores: Stores;
  /** A whole number from 0, below a bound. */
  pick(below: number): number;
  readonly inserted: JobId[];
  readonly deleted: Set<JobId>;
  /** Tokens that a claim has brought. */
  readonly claimed: Set<bigint>;
  readonly landed: Map<bigint, Finish>;
  /** Jobs of finishes that the fence did or did not let through. */
  readonly children: { readonly born: JobId[]; readonly unborn: JobId[] };
  /** Null when the database refused it or did not answer; anything else that is thrown fails the test. */
  dare<Result>(call: () => Promise<Result>): Promise<Result | UnknownOutcomeError | null>;
}

async function dare<Result>(call: () => Promise<Result>): Promise<Result | UnknownOutcomeError | null> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof UnknownOutcomeError) return error;
    if (error instanceof RejectedError && !/^(22|23|42|54)/.test(error.sqlState ?? "")) return null;
    throw error;
  }
}

function answered<Result>(result: Result | UnknownOutcomeError | null): result is Result {
  return result !== null && !(result instanceof UnknownOutcomeError);
}

/** Few enough that jobs wait for one another. */
function pickKey(pick: Storm["pick"]): string | null {
  return pick(3) === 0 ? `key-${pick(4)}` : null;
}

async function insertJobs({ stores, pick, inserted }: Storm): Promise<void> {
  const isKeyed = pick(2) === 0;
  const jobs = Array.from({ length: 1 + pick(20) }, () => ({
    id: ids.jobId(),
    concurrencyKey: isKeyed ? pickKey(pick) : null,
    type: "work",
    queue: pick(4) === 0 ? "limited" : null,
    payload: pick(4) === 0 ? LARGE : { n: 1 },
    priority: pick(5) - 2,
    due: pick(5) === 0 ? { afterMs: pick(300) } : null,
    maxAttempts: null,
    timeoutMs: null,
  }));
  if (answered(await dare(() => stores.insertJobs(jobs)))) inserted.push(...jobs.map((job) => job.id));
}

type Held = Ownership & Pick<ClaimedJob, "concurrencyKey">;

function childOf(parentId: JobId, pick: Storm["pick"]): NewJob {
  const plain = { queue: null, payload: LARGE, priority: 0, due: null, maxAttempts: null, timeoutMs: null };
  return { id: ids.jobId(), type: "work", parentId, concurrencyKey: pickKey(pick), ...plain };
}

/** How an execution may end. */
function endingOf(owned: Held, pick: Storm["pick"]): Finish {
  const kind = pick(10);
  const children = pick(12) === 0 ? [childOf(owned.jobId, pick)] : [];
  if (kind < 5) return finishOf(owned, { result: '{"ok":true}', children });
  if (kind < 7) return retryOf(owned, { delayMs: pick(2) * pick(200) });
  if (kind < 8)
    return finishOf(owned, { outcome: "failed", next: "Failed", reason: "failed", charge: "failure", error: "boom" });
  if (kind < 9) return finishOf(owned, { outcome: "returned", next: "Scheduled", reason: "returned", ranMs: null });
  return finishOf(owned, { outcome: "lost", next: "Scheduled", reason: "worker lost", charge: "lost", delayMs: 10 });
}

/** A worker that keeps to the protocol, until it is lost with all that it holds and another comes in its place. */
function worker(storm: Storm): () => Promise<void> {
  const { stores, pick } = storm;
  let me = ids.workerId();
  let held: Held[] = [];
  let cursor: string | null = null;

  async function claim(): Promise<void> {
    const queue = QUEUES[pick(4) === 0 ? 1 : 0] as string;
    const claimed = await dare(async (): Promise<readonly ClaimedJob[]> => {
      if (pick(6) === 0) {
        const job = await stores.claimRecovered({ workerId: me, queue, exceptTypes: [] });
        return job === null ? [] : [job];
      }
      const after = pick(2) === 0 ? null : cursor;
      const answer = await stores.claimJobs({ workerId: me, queue, limit: 1 + pick(20), after, exceptTypes: [] });
      cursor = queue === "default" ? answer.cursor : cursor;
      return answer.jobs;
    });
    if (answered(claimed)) {
      for (const { id, token, payload, concurrencyKey = null } of claimed) {
        expect(storm.claimed.has(token), "a token is claimed once").toBe(false);
        expect(payload, "a payload comes along").not.toBeNull();
        storm.claimed.add(token);
        held.push({ jobId: id, token, concurrencyKey });
      }
    } else if (claimed !== null) {
      await dare(async () => stores.returnClaims(me, await stores.findOwned({ workerId: me, known: held })));
    }
  }

  async function finish(owned: Held): Promise<void> {
    const ending = endingOf(owned, pick);
    let outcome = await dare(() => stores.finishJob(me, ending));
    for (let tries = 0; !answered(outcome) && tries < 10; tries++)
      outcome = await dare(() => stores.finishJob(me, ending));
    if (outcome === "landed") storm.landed.set(owned.token, ending);
    if (answered(outcome)) {
      const place = outcome === "landed" ? storm.children.born : storm.children.unborn;
      place.push(...(ending.children ?? []).map(({ id }) => id));
    }
  }

  return async () => {
    if (pick(30) === 0) {
      me = ids.workerId();
      held = [];
    }
    await claim();
    const running = held.map((owned) => ({ ...owned, runningMs: 5, percent: pick(100), message: null }));
    if (pick(3) === 0) await dare(() => stores.renewLeases(me, running));
    if (pick(4) === 0) await dare(() => stores.markStarted(me, running));
    if (pick(4) === 0) await dare(() => stores.reportProgress(me, running));
    const back = pick(8) === 0 ? held.splice(0, pick(held.length + 1)) : [];
    if (back.length > 0) await dare(() => stores.returnClaims(me, back));
    await Promise.all(held.splice(0, pick(held.length + 1)).map(finish));
  };
}

/** Takes back what has not moved since the last look, though its worker may be there: the fence has to hold. */
function recovery({ stores, pick }: Storm): () => Promise<void> {
  let before = new Map<bigint, number>();
  return async () => {
    const seen = await dare(() => stores.observeLeases());
    if (!answered(seen)) return;
    const still = seen.filter(({ token, leaseCounter }) => before.get(token) === leaseCounter && pick(3) === 0);
    before = new Map(seen.map(({ token, leaseCounter }) => [token, leaseCounter]));
    await dare(() => stores.recoverJobs(still));
  };
}

async function operate({ stores, pick, inserted, deleted }: Storm): Promise<void> {
  const id = inserted.at(-1 - pick(300));
  if (id === undefined) return;
  const kind = pick(10);
  if (kind < 4) await dare(() => stores.cancelJob(id));
  else if (kind < 9) await dare(() => stores.requeueJob(id));
  else {
    const outcome = await dare(() => stores.deleteJob(id));
    if (!answered(outcome) || outcome.kind === "deleted") deleted.add(id);
  }
}

async function plan({ stores, pick }: Storm): Promise<void> {
  await dare(() => stores.promoteDue(100));
  const due = await dare(() => stores.loadDueSchedules(50));
  if (!answered(due)) return;
  const steps = due.schedules.map(({ name, nextFireAt, timingHash }) => ({
    name,
    expected: { nextFireAt, timingHash },
    fires: [{ at: nextFireAt, jobId: ids.jobId() }],
    skips: [],
    olderSkips: 0,
    nextFireAt: new Date(nextFireAt.getTime() + 100),
  }));
  await dare(() => stores.applySteps(steps));
  if (pick(4) === 0) await dare(() => stores.triggerSchedule("allowing", ids.jobId()));
}

async function keepHouse({ stores, pick }: Storm): Promise<void> {
  await dare(() => stores.foldCounters(signal));
  if (pick(5) === 0) await dare(() => stores.dropExpired(signal));
  if (pick(5) === 0) await dare(() => stores.preparePartitions());
}

async function endSessions(): Promise<void> {
  await calm.query(
    `select pg_terminate_backend(pid) from (
       select pid from pg_stat_activity
       where datname = current_database() and application_name = 'storm' order by random() limit 2) as unlucky`,
  );
  // A round trip or two is how long the others are left in peace.
  for (let read = 0; read < 100; read++) await calm.query("select 1");
}

/** Everybody that was in the storm is gone: what they left is taken back, run and finished. */
async function clearUp(stores: Stores): Promise<void> {
  const me = ids.workerId();
  const finishAll = (jobs: readonly ClaimedJob[]) =>
    Promise.all(jobs.map((job) => stores.finishJob(me, finishOf({ ...job, jobId: job.id }, { result: "true" }))));
  await calm.query("update turno.recurring_jobs set suspended = true");
  for (;;) {
    const [live] = await calm.query<{ jobs: number }>("select count(*)::int as jobs from turno.jobs_live");
    if (live?.jobs === 0) return;
    await stores.recoverJobs(await stores.observeLeases());
    await stores.promoteDue(1_000);
    for (const queue of QUEUES) {
      const request: Parameters<ExecutionStore["claimRecovered"]>[0] = { workerId: me, queue, exceptTypes: [] };
      for (let job = await stores.claimRecovered(request); job !== null; job = await stores.claimRecovered(request))
        await finishAll([job]);
      await finishAll((await stores.claimJobs({ ...request, limit: 500, after: null })).jobs);
    }
  }
}

/** At every instant, whatever is under way. */
async function watchKeys(): Promise<void> {
  const shared = await calm.query(
    `select concurrency_key from turno.jobs_live
     where concurrency_key is not null and state in ('Enqueued', 'Processing') group by concurrency_key having count(*) > 1`,
  );
  expect(shared, "a concurrency key has one owner").toEqual([]);
  const astray = await calm.query(
    `select j.id from turno.jobs_live j left join turno.concurrency_keys k on k.key = j.concurrency_key and k.job_id = j.id
     where j.concurrency_key is not null and j.state in ('Enqueued', 'Processing') and k.key is null`,
  );
  expect(astray, "who is in its queue has its key").toEqual([]);
}

/** Rows that must not be, by the sentence they break. */
const BROKEN: Readonly<Record<string, string>> = {
  "a job is in one place": "select id from turno.jobs group by id having count(*) > 1",
  "an execution is recorded once":
    "select job_id from turno.job_executions group by job_id, dispatch_id having count(*) > 1",
  "attempts lie with their job": `select a.job_id from turno.job_executions a left join turno.jobs j on j.id = a.job_id
     where j.id is null or a.final <> j.final or a.expires_on <> j.expires_on`,
  "a timeline lies with its job": `select c.job_id from turno.job_timeline c left join turno.jobs j on j.id = c.job_id
     where j.id is null or c.final <> j.final or c.expires_on <> j.expires_on`,
  "payloads are there for those who need them": `select coalesce(j.id, p.job_id) from turno.jobs j full join turno.job_payloads p on p.job_id = j.id
     where j.id is null or (j.payload_external and p.job_id is null)`,
  "failures are what the attempts tell": `select j.id from turno.jobs j
     where j.state <> 'Cancelled' and j.failures <> (
       select count(*) from turno.job_executions a where a.job_id = j.id and a.generation = j.generation and a.outcome in ('failed', 'timed-out'))`,
  "a success has its result and its attempt": `select j.id from turno.jobs j
     where j.state = 'Succeeded' and (j.result is null or not exists (
       select from turno.job_executions a where a.job_id = j.id and a.dispatch_id = j.dispatch_id and a.outcome = 'succeeded'))`,
  "a timeline has no gap": `select job_id from (
       select job_id, from_state, lag(to_state) over (
         partition by job_id order by at, case to_state when 'Enqueued' then 1 when 'Processing' then 2 else 3 end) as before
       from turno.job_timeline) as moves
     where before is not null and from_state is distinct from before`,
  "under Forbid a fire waits for the one before": `select id from (
       select j.id, f.decided_at, lag(coalesce(j.finished_at, 'infinity')) over (partition by j.schedule order by f.decided_at) as ended
       from turno.jobs j join turno.schedule_fires f on f.job_id = j.id where j.schedule = 'forbidding' and j.generation = 0) as runs
     where ended > decided_at`,
  "no key is left of jobs that have ended": "select key from turno.concurrency_keys",
  "counters are what lies in the tables": `select queue from turno.queue_counts where scheduled <> 0 or enqueued <> 0 or processing <> 0`,
};

it("a storm of workers, operators, losses and ended sessions loses nothing, runs nothing twice and leaves nothing behind", async () => {
  const random = seededRandom(20_260_105);
  const pick = (below: number) => Math.floor(random.next() * below);
  const storm: Storm = {
    stores: storesOn(database),
    pick,
    inserted: [],
    deleted: new Set(),
    claimed: new Set(),
    landed: new Map(),
    children: { born: [], unborn: [] },
    dare,
  };
  for (const [name, concurrencyPolicy] of [
    ["forbidding", "Forbid"],
    ["allowing", "Allow"],
  ] as const) {
    const spec = scheduleSpec({ job: "work", concurrencyPolicy, payload: LARGE });
    await declareSchedule(calm, { name, nextFireAt: new Date(), spec });
  }
  let acting = 0;
  const act = async (rounds: number, round: () => Promise<unknown>): Promise<void> => {
    acting += 1;
    for (let done = 0; done < rounds; done++) await round();
    acting -= 1;
  };
  const actors = [
    act(80, () => insertJobs(storm)),
    ...Array.from({ length: 5 }, () => act(70, worker(storm))),
    act(60, recovery(storm)),
    ...Array.from({ length: 2 }, () => act(150, () => operate(storm))),
    ...Array.from({ length: 2 }, () => act(60, () => plan(storm))),
    act(40, () => keepHouse(storm)),
  ];
  const endingSessions = (async () => {
    while (acting > 0) await endSessions();
  })();
  const watching = (async () => {
    while (acting > 0) await watchKeys();
  })();
  await Promise.all([...actors, endingSessions, watching]);

  const stores = storesOn(calm);
  await clearUp(stores);
  await stores.dropExpired(signal);
  await stores.foldCounters(signal);
  expect(storm.inserted.length).toBeGreaterThan(300);
  expect(storm.landed.size).toBeGreaterThan(100);
  const present = new Set((await calm.query<{ id: JobId }>("select id from turno.jobs")).map(({ id }) => id));
  expect(storm.children.born.length).toBeGreaterThan(5);
  expect(storm.children.unborn.filter((id) => present.has(id))).toEqual([]);
  expect(storm.children.born.filter((id) => !present.has(id))).toEqual([]);
  expect(storm.inserted.filter((id) => !present.has(id) && !storm.deleted.has(id))).toEqual([]);
  for (const [sentence, rows] of Object.entries(BROKEN))
    expect({ sentence, broken: await calm.query(rows) }).toEqual({ sentence, broken: [] });
  const attempts = await calm.query<{ dispatch_id: string; outcome: string }>(
    "select dispatch_id, outcome from turno.job_executions",
  );
  const recorded = new Set(attempts.map(({ dispatch_id: token, outcome }) => `${token} ${outcome}`));
  const unrecorded = [...storm.landed].filter(
    ([token, { jobId, outcome, ranMs }]) =>
      ranMs !== null && !storm.deleted.has(jobId) && present.has(jobId) && !recorded.has(`${token} ${outcome}`),
  );
  expect(unrecorded).toEqual([]);
  const moves = await calm.query<{ from_state: string; to_state: string; reason: string }>(
    "select distinct from_state, to_state, reason from turno.job_timeline",
  );
  const allowed = new Set(TRANSITIONS.map(([from, to, reason]) => `${from} ${to} ${reason}`));
  expect(moves.filter((move) => !allowed.has(`${move.from_state} ${move.to_state} ${move.reason}`))).toEqual([]);
}, 90_000);
