import type pg from "pg";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { createRevisionStore } from "../../runtime/adapters/postgres/revision-store.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import { NO_PROVENANCE, type Provenance, type RevisionStore } from "../../runtime/protocol/ports/revisions.ts";
import { type ApplyRequest, applyDesired } from "../../runtime/reconcile/apply.ts";
import { hasChanges, planChanges } from "../../runtime/reconcile/plan.ts";
import { cron, desire, job, queue, schedule } from "../reconcile/desired-fixture.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { insertJob, insertWorker, testId } from "../web/seed.ts";

const SOURCE = { name: "local", origin: "/srv/ops" };
const COMMITTED: Provenance = {
  commit: "0123456789abcdef0123456789abcdef01234567",
  baseCommit: null,
  author: "Ada",
  committedAt: new Date("2026-07-01T10:00:00Z"),
  message: "Close the month",
};

let test: TestDatabase;
let database: Database;
let store: RevisionStore;

beforeEach(async () => {
  test = await createTestDatabase();
  database = openDatabase({
    address: test.address,
    applicationName: "test",
    size: 4,
    statementTimeoutMs: 10_000,
    logger: silentLogger,
  });
  store = createRevisionStore(database);
});
afterEach(async () => {
  await database.close();
  await test.drop();
});

async function apply(desired: ApplyRequest["desired"], options: Partial<ApplyRequest> = {}) {
  const base = (await store.revisionInForce())?.number ?? null;
  return applyDesired(store, {
    desired,
    source: SOURCE,
    provenance: NO_PROVENANCE,
    appliedBy: "test",
    base,
    confirmDeletes: false,
    takeOver: false,
    ...options,
  });
}

function rows<Row extends pg.QueryResultRow>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
  return database.query<Row>(text, values);
}

async function nextFire(name: string): Promise<Date | null> {
  const [row] = await rows<{ next_fire_at: Date | null }>(
    "select next_fire_at from turno.recurring_jobs where name = $1",
    [name],
  );
  if (row === undefined) throw new Error(`no schedule ${name}`);
  return row.next_fire_at;
}

/** Everything a revision writes, to compare before and after. */
async function everything(): Promise<string> {
  const tables = [
    "sources",
    "revisions",
    "objects",
    "handler_bundles",
    "job_definitions",
    "job_types",
    "queues",
    "recurring_jobs",
  ];
  const contents = await Promise.all(tables.map((table) => rows(`select * from turno.${table} order by 1, 2`)));
  return JSON.stringify(contents);
}

describe("an apply", () => {
  it("puts objects, code, job types, queues and schedules into force with their place and commit", async () => {
    const outcome = await apply(desire([job("a"), queue("reports", 2), schedule("s")]), { provenance: COMMITTED });
    expect(outcome.kind).toBe("applied");
    const number = outcome.revision.number;
    const [place] = await rows(
      `select r.number::integer, o.file, o.line, r.commit_id, r.author, r.message
       from turno.recurring_jobs s join turno.objects o on o.id = s.object_id
       join turno.revisions r on r.source = o.source and r.number = o.introduced_in where s.name = 's'`,
    );
    expect(place).toEqual({
      number,
      file: "turno.d/a.yaml",
      line: 20,
      commit_id: COMMITTED.commit,
      author: "Ada",
      message: "Close the month",
    });
    expect(await rows("select name, concurrency, suspended from turno.queues order by name")).toEqual([
      { name: "default", concurrency: null, suspended: false },
      { name: "reports", concurrency: 2, suspended: false },
    ]);
    const { jobTypes } = await store.loadApplied();
    expect(jobTypes).toMatchObject([
      { name: "a", removed: false, definition: { timeoutMs: 600_000, bundleHash: "sha256:a.ts:export default 1;" } },
    ]);
    expect(await store.loadBundle("sha256:a.ts:export default 1;")).toBe("export default 1;");
    expect(await store.loadBundle("sha256:other")).toBe(null);
    expect(await store.revisionInForce()).toEqual(outcome.revision);
  });

  it("is a no-op for the same content, and the plan after it is empty", async () => {
    const desired = desire([job("a"), queue("reports", 2), schedule("s")]);
    await apply(desired);
    const before = await everything();
    expect((await apply(desired)).kind).toBe("unchanged");
    expect(await everything()).toBe(before);
    const plan = planChanges(desired, await store.loadApplied());
    expect(hasChanges(plan)).toBe(false);
    expect(plan).toMatchObject({ consequences: [], warnings: [] });
  });

  it("writes only what changed", async () => {
    await apply(desire([job("a"), job("b"), schedule("s"), schedule("t")]));
    const { revision } = await apply(
      desire([job("a"), job("b", { timeoutMs: 1_000 }), schedule("s"), schedule("t", cron("0 2 * * *"))]),
    );
    const written = (table: string) => rows(`select name from turno.${table} where revision = $1`, [revision.number]);
    expect(await written("job_types")).toEqual([{ name: "b" }]);
    expect(await written("recurring_jobs")).toEqual([{ name: "t" }]);
    const versions = await rows("select kind, name from turno.objects where introduced_in = $1 order by kind", [
      revision.number,
    ]);
    expect(versions).toEqual([
      { kind: "Job", name: "b" },
      { kind: "Schedule", name: "t" },
    ]);
  });

  it("keeps the old versions, and follows objects that only moved without calling it a change", async () => {
    await apply(desire([job("a"), schedule("s")]));
    const outcome = await apply(desire([job("a"), { ...schedule("s"), line: 44 }]));
    expect(outcome.kind === "applied" && hasChanges(outcome.plan)).toBe(false);
    const versions = await rows(
      "select line, removed_in is null as current from turno.objects where name = 's' order by id",
    );
    expect(versions).toEqual([
      { line: 20, current: false },
      { line: 44, current: true },
    ]);
    const [place] = await rows("select o.line from turno.recurring_jobs s join turno.objects o on o.id = s.object_id");
    expect(place).toEqual({ line: 44 });
    const [changes] = await rows("select changes from turno.revisions order by number desc limit 1");
    expect(changes).toEqual({ changes: [] });
  });

  it("is all or nothing when its last statement fails", async () => {
    await apply(desire([job("a"), schedule("s"), schedule("gone")]));
    const before = await everything();
    await rows(
      "create function turno.refuse() returns trigger language plpgsql as $$ begin raise 'injected failure'; end $$",
    );
    await rows(
      "create trigger refuse before delete on turno.recurring_jobs for each row execute function turno.refuse()",
    );
    await expect(
      apply(desire([job("a", { timeoutMs: 5 }), job("b"), queue("q", 1), schedule("s", cron("0 2 * * *"))])),
    ).rejects.toThrow(/injected failure/);
    expect(await everything()).toBe(before);
  });

  it("refuses a base that is no longer in force", async () => {
    const first = await apply(desire([job("a")]));
    await apply(desire([job("a"), job("b")]));
    const before = await everything();
    const late = apply(desire([job("c")]), { base: first.revision.number });
    await expect(late).rejects.toMatchObject({ code: "TURNO_SOURCE_STALE" });
    await expect(apply(desire([job("c")]), { base: null })).rejects.toMatchObject({ code: "TURNO_SOURCE_STALE" });
    expect(await everything()).toBe(before);
  });

  it("refuses another source until it takes over", async () => {
    await apply(desire([job("a")]));
    const other = { source: { name: "local", origin: "/home/ada/copy" } };
    await expect(apply(desire([job("b")]), other)).rejects.toMatchObject({ code: "TURNO_SOURCE_OWNED" });
    await expect(apply(desire([job("a")]), other)).rejects.toMatchObject({ code: "TURNO_SOURCE_OWNED" });
    expect((await apply(desire([job("a")]), { ...other, takeOver: true })).kind).toBe("applied");
    await expect(apply(desire([job("b")]))).rejects.toMatchObject({ code: "TURNO_SOURCE_OWNED" });
  });

  it("asks before it removes everything that the includes declared", async () => {
    await apply(desire([job("a"), schedule("s")]));
    const empty = desire([
      { ...job("kept"), file: "turno.yaml" },
      { ...queue("q", 1), file: "turno.yaml" },
    ]);
    const withoutIncluded = { ...empty, objects: empty.objects.filter(({ file }) => file === "turno.yaml") };
    await expect(apply(withoutIncluded)).rejects.toMatchObject({ code: "TURNO_INCLUDE_EMPTY" });
    expect((await store.loadApplied()).objects).toHaveLength(2);
    expect((await apply(withoutIncluded, { confirmDeletes: true })).kind).toBe("applied");
    expect(await rows("select name from turno.recurring_jobs")).toEqual([]);
  });

  it("lets one of several concurrent appliers win and tells the others that they are stale", async () => {
    await apply(desire([job("a")]));
    const base = (await store.revisionInForce())?.number ?? null;
    const wanted = ["b", "c", "d", "e"].map((name) => desire([job("a"), job(name)]));
    const outcomes = await Promise.allSettled(wanted.map((desired) => apply(desired, { base })));
    const refused = outcomes.flatMap((outcome) =>
      outcome.status === "rejected" ? [(outcome.reason as { code: string }).code] : [],
    );
    expect(refused).toEqual(["TURNO_SOURCE_STALE", "TURNO_SOURCE_STALE", "TURNO_SOURCE_STALE"]);
    const { inForce, jobTypes } = await store.loadApplied();
    const winner = outcomes.findIndex(({ status }) => status === "fulfilled");
    expect(inForce?.contentHash).toBe(wanted[winner]?.contentHash);
    expect(jobTypes.map(({ name }) => name)).toEqual(["a", ["b", "c", "d", "e"][winner]]);
  });

  it("makes one revision of the same files applied by several at once", async () => {
    const desired = desire([job("a")]);
    const outcomes = await Promise.all([1, 2, 3, 4].map(() => apply(desired, { base: null })));
    expect(outcomes.map(({ kind }) => kind).sort()).toEqual(["applied", "unchanged", "unchanged", "unchanged"]);
    expect(await rows("select number from turno.revisions")).toHaveLength(1);
  });

  it("marks a removed job type, brings it back, and lets a removed queue's limits fall away", async () => {
    await apply(desire([job("a"), job("b", { queue: "q" }), queue("q", 1, true)]));
    await apply(desire([job("a")]));
    expect(await rows("select name, removed from turno.job_types order by name")).toEqual([
      { name: "a", removed: false },
      { name: "b", removed: true },
    ]);
    expect(await rows("select concurrency, suspended, object_id from turno.queues where name = 'q'")).toEqual([
      { concurrency: null, suspended: false, object_id: null },
    ]);
    await apply(desire([job("a"), job("b", { queue: "q" })]));
    expect(await rows("select removed from turno.job_types where name = 'b'")).toEqual([{ removed: false }]);
  });

  it("finds the newest revision with a content", async () => {
    const old = desire([job("a")]);
    await apply(old);
    await apply(desire([job("b")]));
    const back = await apply(old);
    const found = await store.findRevision({ source: "local", contentHash: old.contentHash });
    expect(found?.number).toBe(back.revision.number);
    expect(await store.findRevision({ source: "local", contentHash: "sha256:none" })).toBe(null);
  });
});

describe("an edited schedule", () => {
  it("fires first strictly after the apply by the database's clock, and nothing before it is missed (B01)", async () => {
    await apply(desire([job("a"), schedule("s", cron("0 1 * * *"))]));
    await rows("update turno.recurring_jobs set last_fire_at = date_trunc('day', now()) + interval '1 hour'");
    await apply(desire([job("a"), schedule("s", cron("0 2 * * *"))]));
    const [check] = await rows(
      `select next_fire_at > now() and next_fire_at <= now() + interval '1 day' and extract(hour from next_fire_at at time zone 'UTC') = 2 as right
       from turno.recurring_jobs`,
    );
    expect(check).toEqual({ right: true });
    expect(await rows("select * from turno.schedule_fires")).toEqual([]);
  });

  it("is in force at once: the old tick is gone (B03)", async () => {
    await apply(desire([job("a"), schedule("s", cron("0 0 3 * * *"))]));
    const { revision } = await apply(desire([job("a"), schedule("s", cron("*/10 * * * * *"))]));
    const next = await nextFire("s");
    const wait = (next?.getTime() ?? 0) - revision.appliedAt.getTime();
    expect(wait).toBeGreaterThan(0);
    expect(wait).toBeLessThanOrEqual(10_000);
  });

  it("keeps its next fire, and a fire already due, when only its payload changes (B05)", async () => {
    await apply(desire([job("a"), schedule("s", { payload: { region: "a" } })]));
    const due = new Date("2026-01-01T01:00:00Z");
    await rows("update turno.recurring_jobs set next_fire_at = $1", [due]);
    const { revision } = await apply(
      desire([job("a"), schedule("s", { payload: { region: "b" }, misfirePolicy: "none" })]),
    );
    const [row] = await rows(
      "select next_fire_at, spec -> 'payload' as payload, revision::integer from turno.recurring_jobs",
    );
    expect(row).toEqual({ next_fire_at: due, payload: { region: "b" }, revision: revision.number });
  });

  it("has one rule at a time: a reconciler that is behind can't bring its own back (B11)", async () => {
    const seven = desire([job("a"), schedule("s", cron("0 * * * *"))]);
    const { revision } = await apply(seven);
    await apply(desire([job("a"), schedule("s", cron("30 * * * *"))]));
    await expect(apply(seven, { base: revision.number })).rejects.toMatchObject({ code: "TURNO_SOURCE_STALE" });
    expect((await nextFire("s"))?.getUTCMinutes()).toBe(30);
  });

  it("starts anew when its suspend is lifted, and is not set while it is suspended", async () => {
    await apply(desire([job("a"), schedule("s", { suspend: true })]));
    expect(await nextFire("s")).toBe(null);
    await rows("update turno.recurring_jobs set next_fire_at = '2026-01-01T01:00:00Z'");
    const { revision } = await apply(desire([job("a"), schedule("s")]));
    expect((await nextFire("s"))?.getTime()).toBeGreaterThan(revision.appliedAt.getTime());
  });

  it("waits no longer for its run to end once its timing is another one", async () => {
    const every = (intervalMs: number) => ({ timing: { kind: "every", intervalMs, from: "finish" } }) as const;
    await apply(desire([job("a"), schedule("s", every(60_000)), schedule("t", every(60_000))]));
    await rows("update turno.recurring_jobs set next_fire_at = null, awaits_finish = true");
    await apply(desire([job("a"), schedule("s", every(30_000)), schedule("t", { ...every(60_000), payload: 1 })]));
    expect(
      await rows("select name, awaits_finish, next_fire_at is null as waits from turno.recurring_jobs order by name"),
    ).toEqual([
      { name: "s", awaits_finish: false, waits: false },
      { name: "t", awaits_finish: true, waits: true },
    ]);
  });

  it("is never run on start because of the apply alone", async () => {
    await rows("update turno.installation set cold_starts = 3");
    const onStart = { runOnStart: true };
    await apply(desire([job("a"), schedule("first", onStart), schedule("later")]));
    await apply(
      desire([
        job("a"),
        schedule("first", { ...onStart, payload: 1 }),
        schedule("later", onStart),
        schedule("new", onStart),
      ]),
    );
    const fired = () => rows("select name, fired_cold_start::integer as fired from turno.recurring_jobs order by name");
    expect(await fired()).toEqual([
      { name: "first", fired: 0 },
      { name: "later", fired: 3 },
      { name: "new", fired: 3 },
    ]);
    await apply(desire([job("a"), schedule("new", { ...onStart, suspend: true })]));
    await rows("update turno.installation set cold_starts = 4");
    await apply(desire([job("a"), schedule("new", onStart)]));
    expect(await fired()).toEqual([{ name: "new", fired: 4 }]);
  });
});

describe("the last look at a source", () => {
  it("is kept with its problems, and with the time when the files were last in force", async () => {
    const problem = {
      code: "TURNO_PROJECT_INVALID",
      message: "expected a number",
      file: "turno.d/a.yaml",
      line: 3,
      column: 5,
      hint: null,
    };
    const seen = { source: SOURCE, revision: 4, commit: null, staleAfterMs: 60_000 };
    await store.recordSync({ ...seen, ok: true, problems: [], status: "Synced" });
    const [good] = await store.loadSyncStatus();
    expect(good).toMatchObject({ source: SOURCE, ok: true, revision: 4, problems: [], lastOkAt: good?.checkedAt });
    await store.recordSync({ ...seen, ok: false, problems: [problem], status: "Invalid" });
    const [bad] = await store.loadSyncStatus();
    expect(bad).toMatchObject({ ok: false, revision: 4, problems: [problem], lastOkAt: good?.lastOkAt });
  });

  it("counts unfinished jobs by type, up to a limit", async () => {
    await rows(
      `insert into turno.jobs (id, type, queue, state, sort_at, run_at)
       select gen_random_uuid(), 'a', 'default', 'Scheduled', now(), now() from generate_series(1, 7)`,
    );
    expect(await store.countLiveJobs(["a", "b"], 5)).toEqual(new Map([["a", 5]]));
  });

  it("gives the payloads of waiting jobs, newest first, up to a number and a size", async () => {
    const worker = "11111111-1111-4111-8111-111111111111";
    await insertJob(database, testId(1), { type: "a", payload: '{"n":1}' });
    await insertWorker(database, worker);
    await insertJob(database, testId(2), { type: "a", state: "Processing", worker_id: worker, payload: '{"n":2}' });
    await insertJob(database, testId(3), { type: "a", state: "Scheduled", payload: null, payload_external: true });
    await rows("insert into turno.job_payloads (job_id, payload) values ($1, $2)", [testId(3), '{"n":3}']);
    expect(await store.loadWaitingPayloads("a", 10)).toEqual([{ n: 3 }, { n: 1 }]);
    expect(await store.loadWaitingPayloads("a", 1)).toEqual([{ n: 3 }]);
    expect(await store.loadWaitingPayloads("b", 10)).toEqual([]);
    await rows(
      "update turno.jobs set payload = jsonb_build_object('x', repeat('x', 40000000)) where payload ->> 'n' = '1'",
    );
    expect(await store.loadWaitingPayloads("a", 10)).toEqual([{ n: 3 }]);
  });
});
