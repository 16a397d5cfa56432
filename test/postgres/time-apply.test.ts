import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createPauseStore } from "../../runtime/adapters/postgres/pause-store.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { createRevisionStore } from "../../runtime/adapters/postgres/revision-store.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import { NO_PROVENANCE, type RevisionStore } from "../../runtime/protocol/ports/revisions.ts";
import { applyDesired } from "../../runtime/reconcile/apply.ts";
import { planChanges } from "../../runtime/reconcile/plan.ts";
import { createPauses } from "../../runtime/services/pauses.ts";
import { declare, load, places } from "../config/project-files.ts";
import { desire } from "../reconcile/desired-fixture.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

const JOB = declare("Job", "x", "{ handler: builtin/command, settings: { command: [ls] } }");
const SCHEDULE = declare("Schedule", "s", "{ job: x, cron: 0 6 1 1 *, calendars: { exclude: [days] } }");
const calendar = (year: number): string =>
  declare("Calendar", "days", `{ dates: ["${year}-01-01"], validUntil: 2099-12-31 }`);
const NEXT_YEAR = new Date().getUTCFullYear() + 1;

let test: TestDatabase;
let database: Database;
let store: RevisionStore;
beforeEach(async () => {
  test = await createTestDatabase();
  const options = { address: test.address, applicationName: "test", size: 2, statementTimeoutMs: 10_000 };
  database = openDatabase({ ...options, logger: silentLogger });
  store = createRevisionStore(database);
});
afterEach(async () => {
  await database.close();
  await test.drop();
});

function read(...documents: readonly string[]) {
  const { state, problems } = load(documents.join("---\n"));
  if (state === null) throw new Error(places(problems).join("; "));
  return desire(state.objects);
}

async function apply(...documents: readonly string[]): Promise<void> {
  await applyDesired(store, {
    desired: read(...documents),
    source: { name: "local", origin: "/srv/ops" },
    provenance: NO_PROVENANCE,
    appliedBy: "test",
    base: (await store.revisionInForce())?.number ?? null,
    confirmDeletes: false,
    takeOver: false,
  });
}

async function row() {
  const rows = await database.query<{ next_fire_at: Date; suspended: boolean; sla_due_at: Date | null }>(
    "select next_fire_at, suspended, sla_due_at from turno.recurring_jobs where name = 's'",
  );
  return rows[0];
}

const newYear = (year: number): Date => new Date(Date.UTC(year, 0, 1, 6));

describe("an edit of a calendar", () => {
  it("moves the next fire of the schedules that use it, as the plan shows", async () => {
    await apply(JOB, SCHEDULE, calendar(NEXT_YEAR + 1));
    expect((await row())?.next_fire_at).toEqual(newYear(NEXT_YEAR));
    const plan = planChanges(read(JOB, SCHEDULE, calendar(NEXT_YEAR)), await store.loadApplied());
    const changed = plan.changes.filter(({ action }) => action !== "none").map(({ object }) => object);
    expect(changed).toEqual(["Calendar/days", "Schedule/s"]);
    expect(plan.consequences.join()).toContain(`next fire moves from ${NEXT_YEAR}-01-01`);
    await apply(JOB, SCHEDULE, calendar(NEXT_YEAR));
    expect((await row())?.next_fire_at).toEqual(newYear(NEXT_YEAR + 1));
  });

  it("is no edit of a schedule that does not", async () => {
    const other = SCHEDULE.replace(", calendars: { exclude: [days] }", "");
    await apply(JOB, other, calendar(NEXT_YEAR));
    const plan = planChanges(read(JOB, other, calendar(NEXT_YEAR + 1)), await store.loadApplied());
    expect(plan.changes.filter(({ action }) => action !== "none").map(({ object }) => object)).toEqual([
      "Calendar/days",
    ]);
  });

  it("warns in the plan of a calendar that has run out", async () => {
    const ended = calendar(NEXT_YEAR).replace("2099-12-31", "2020-12-31");
    const plan = planChanges(read(JOB, SCHEDULE, ended), await store.loadApplied());
    expect(plan.warnings).toEqual([expect.stringContaining("Calendar/days ran out on 2020-12-31")]);
  });
});

describe("a pause", () => {
  const target = { kind: "Schedule", name: "s" } as const;

  it("stands over every apply, another timing and a removal that comes back included", async () => {
    await apply(JOB, SCHEDULE, calendar(NEXT_YEAR));
    const pauses = createPauses(createPauseStore(database, { ring: () => {} }));
    await pauses.pause({ ...target, by: "maria", reason: null, until: null });
    const edited = read(JOB, SCHEDULE.replace("0 6 1 1 *", "0 7 1 1 *"), calendar(NEXT_YEAR));
    const { consequences } = planChanges(edited, await store.loadApplied());
    expect(consequences).toEqual(["Schedule/s is paused: it fires by its new timing once it is resumed."]);
    await apply(JOB, SCHEDULE.replace("0 6 1 1 *", "0 7 1 1 *"), calendar(NEXT_YEAR));
    expect((await row())?.suspended).toBe(true);
    await apply(JOB, calendar(NEXT_YEAR));
    await apply(JOB, SCHEDULE, calendar(NEXT_YEAR));
    expect((await row())?.suspended).toBe(true);
    expect((await store.loadApplied()).schedules).toMatchObject([{ name: "s", suspended: false }]);
    expect(await pauses.resume(target)).toEqual({ kind: "resumed", nextFireAt: newYear(NEXT_YEAR + 1) });
    expect(await row()).toMatchObject({ suspended: false, next_fire_at: newYear(NEXT_YEAR + 1) });
  });

  it("of a queue stands over an apply of its limits", async () => {
    const queue = (concurrency: number) => declare("Queue", "default", `{ concurrency: ${concurrency} }`);
    await apply(JOB, queue(2));
    const pauses = createPauses(createPauseStore(database, { ring: () => {} }));
    await pauses.pause({ kind: "Queue", name: "default", by: "maria", reason: null, until: null });
    await apply(JOB, queue(3));
    const rows = await database.query("select concurrency, suspended, declared_suspended from turno.queues");
    expect(rows).toEqual([{ concurrency: 3, suspended: true, declared_suspended: false }]);
  });
});

describe("expectations", () => {
  it("count from the apply that declares them and end with the one that does not", async () => {
    const sla = SCHEDULE.replace("job: x", "job: x, sla: { maxAge: 1h }");
    await apply(JOB, SCHEDULE, calendar(NEXT_YEAR));
    expect((await row())?.sla_due_at).toBeNull();
    await apply(JOB, sla, calendar(NEXT_YEAR));
    expect((await row())?.sla_due_at).not.toBeNull();
    await apply(JOB, SCHEDULE, calendar(NEXT_YEAR));
    expect((await row())?.sla_due_at).toBeNull();
  });
});
