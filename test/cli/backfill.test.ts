import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createFireHistory } from "../../runtime/adapters/postgres/fire-history.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { createScheduleStore } from "../../runtime/adapters/postgres/schedule-store.ts";
import { systemIds } from "../../runtime/adapters/system/ids.ts";
import { EXIT } from "../../runtime/cli/io.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type CommandProject, createCommandProject } from "./run.ts";

const DAY_MS = 86_400_000;
const schedule = (name: string, timing: string, more = "") => `apiVersion: turno/v1
kind: Schedule
metadata: { name: ${name} }
spec: { job: greet, ${timing}, payload: { name: ${"Ada".repeat(1_000)} }${more} }
`;

let database: TestDatabase;
let db: Database;
let project: CommandProject;
beforeAll(async () => {
  database = await createTestDatabase();
  const limits = { size: 2, statementTimeoutMs: 10_000 };
  db = openDatabase({ address: database.address, applicationName: "test", logger: silentLogger, ...limits });
  project = await createCommandProject({ TURNO_DATABASE_URL: database.address.connectionString });
  const documents = [
    schedule("nightly", 'cron: "30 2 * * *"'),
    schedule("freely", 'cron: "30 2 * * *"', ", concurrencyPolicy: Allow"),
    schedule("often", 'cron: "* * * * *"'),
    schedule("after-runs", "every: { interval: 40s, from: finish }"),
  ];
  await project.write("turno.d/s.yaml", documents.join("---\n"));
  expect(await project.run("apply", "--yes")).toMatchObject({ code: EXIT.done });
});
beforeEach(async () => {
  await db.query("delete from turno.schedule_fires");
  await db.query("delete from turno.jobs");
});
afterAll(async () => {
  await project?.remove();
  await db?.close();
  await database?.drop();
});

/** The last nights at 02:30 UTC, oldest first, by the database's clock. */
async function lastNights(count: number): Promise<readonly string[]> {
  const [row] = await db.query<{ now: Date }>("select now() as now");
  const now = row?.now.getTime() ?? 0;
  const last = Math.floor((now - 2.5 * 3_600_000) / DAY_MS) * DAY_MS + 2.5 * 3_600_000;
  const nights = Array.from({ length: count }, (_, index) => new Date(last - index * DAY_MS).toISOString());
  return nights.map((at) => at.replace(".000Z", "Z")).reverse();
}

const fire = (name: string, at: string, outcome: string, jobId: string | null = null) =>
  db.query("insert into turno.schedule_fires (schedule, fire_at, outcome, job_id) values ($1, $2, $3, $4)", [
    name,
    at,
    outcome,
    jobId,
  ]);

describe("turno backfill", () => {
  test("shows what it would fire, and fires nothing without --yes", async () => {
    const [first = "", second = "", third = ""] = await lastNights(3);
    await fire("nightly", first, "fired", "019c0000-0000-7000-8000-000000000001");
    await fire("nightly", second, "superseded");
    const ran = await project.run("backfill", "nightly", "--from", first);
    expect(ran).toMatchObject({ code: EXIT.done, err: "" });
    expect(ran.out).toContain("2 instants to fire, 1 of them recorded as skipped; 1 have fired.\n");
    expect(ran.out).toContain(second);
    expect(ran.out).toContain(third);
    expect(ran.out).toMatch(/the schedule's own fires are skipped.*\nNothing was fired: --yes does it\.\n$/);
    expect(await db.query("select 1 as one from turno.jobs")).toEqual([]);
  });

  test("fires each instant once, whoever asks again, and records it as a backfill", async () => {
    const [first = "", second = ""] = await lastNights(2);
    await fire("freely", first, "overlapped");
    const ran = await project.run("backfill", "freely", "--from", first, "--yes", "--json");
    expect(JSON.parse(ran.out)).toMatchObject({ dryRun: false, fires: [first, second], alreadyFired: 0 });
    const again = await project.run("backfill", "freely", "--from", first, "--yes");
    expect(again.out).toBe("Schedule/freely: nothing to fire, 2 instants of this time have fired.\n0 fired\n");
    const fires = await db.query(
      `select f.fire_at, f.outcome, f.blocked_by, j.state, j.fire_at as job_fire_at, j.fire_late_ms > 0 as late, p.payload ->> 'name' as name
       from turno.schedule_fires f join turno.jobs j on j.id = f.job_id join turno.job_payloads p on p.job_id = j.id order by f.fire_at`,
    );
    const row = (at: string) => ({
      ...{ fire_at: new Date(at), outcome: "backfill", blocked_by: null, state: "Enqueued" },
      ...{ job_fire_at: new Date(at), late: true, name: "Ada".repeat(1_000) },
    });
    expect(fires).toEqual([row(first), row(second)]);
  });

  test("lets runs of a schedule that forbids overlap go one after another, oldest first", async () => {
    const nights = await lastNights(3);
    await project.run("backfill", "nightly", "--from", nights[0] ?? "", "--yes");
    const states = () =>
      db.query<{ state: string; hold: string | null }>("select state, hold from turno.jobs order by fire_at");
    expect(await states()).toEqual(Array(3).fill({ state: "Scheduled", hold: "overlap" }));
    const rung: unknown[] = [];
    const store = createScheduleStore(db, { ring: (topic) => void rung.push(topic) });
    expect(await store.settleOverlaps(100)).toEqual({ cancelled: 0, released: 1 });
    expect(await states()).toEqual([
      { state: "Enqueued", hold: null },
      ...Array(2).fill({ state: "Scheduled", hold: "overlap" }),
    ]);
    expect(rung).toEqual([{ kind: "queue", queue: "default" }]);
  });

  test("counts its jobs, so that figures stay right", async () => {
    await db.query("delete from turno.counter_deltas");
    const nights = await lastNights(3);
    await project.run("backfill", "freely", "--from", nights[0] ?? "", "--yes");
    const [sum] = await db.query(
      "select sum(enqueued)::int as enqueued, sum(scheduled)::int as scheduled from turno.counter_deltas",
    );
    expect(sum).toEqual({ enqueued: 3, scheduled: 0 });
  });

  test("is refused when the schedule was edited meanwhile, or is gone", async () => {
    const history = createFireHistory(db, { ring: () => {} });
    const fires = [{ at: new Date("2026-01-01T02:30:00Z"), jobId: systemIds.jobId() }];
    expect(await history.backfill({ schedule: "nightly", timingHash: "sha256:other", fires })).toEqual({
      kind: "edited",
    });
    expect(await history.backfill({ schedule: "none", timingHash: "x", fires })).toEqual({ kind: "no-schedule" });
    expect(await db.query("select 1 as one from turno.schedule_fires")).toEqual([]);
  });

  test("two that ask at the same time fire an instant once", async () => {
    const [night = ""] = await lastNights(1);
    const runs = await Promise.all([1, 2].map(() => project.run("backfill", "freely", "--from", night, "--yes")));
    expect(runs.map(({ code }) => code)).toEqual([EXIT.done, EXIT.done]);
    expect(await db.query("select 1 as one from turno.jobs")).toHaveLength(1);
  });

  test.each([
    [
      ["nightly", "--from", "2020-01-01T00:00:00Z"],
      /within the last 400 days.*\[TURNO_BACKFILL_REFUSED\]/,
      EXIT.failed,
    ],
    [["after-runs", "--from", "2026-11-01T00:00:00Z"], /counts from the end of its runs/, EXIT.failed],
    [
      ["nightly", "--from", "2026-11-01T00:00:00Z", "--to", "2100-01-01T00:00:00Z"],
      /expected --to in the past/,
      EXIT.failed,
    ],
    [["none", "--from", "2026-11-01T00:00:00Z"], /\[TURNO_SCHEDULE_NOT_FOUND\]/, EXIT.failed],
    [["nightly"], /required option '--from <instant>'/, EXIT.usage],
    [["nightly", "--from", "noon"], /--from: expected an instant/, EXIT.usage],
    [
      ["nightly", "--from", "2026-11-02T00:00:00Z", "--to", "2026-11-01T00:00:00Z"],
      /--to not before --from/,
      EXIT.usage,
    ],
    [["nightly", "--from", "2026-11-02T00:00:00Z", "--max", "0"], /--max from 1 to 1000/, EXIT.usage],
  ])("%j is refused", async (args, message, code) => {
    const ran = await project.run("backfill", ...args);
    expect(ran.err).toMatch(message);
    expect(ran).toMatchObject({ code, out: "" });
  });

  test("more instants than --max are refused, and nothing of them is fired", async () => {
    const [night = ""] = await lastNights(2);
    const ran = await project.run("backfill", "often", "--from", night, "--yes");
    expect(ran).toMatchObject({ code: EXIT.failed, out: "" });
    expect(ran.err).toMatch(/at most 100 instants to fire, found \d{4}/);
    expect(await db.query("select 1 as one from turno.jobs")).toEqual([]);
  });
});
