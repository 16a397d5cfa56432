import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createPanelQueries } from "../../runtime/adapters/postgres/panel-queries.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import type { PanelQueries } from "../../runtime/protocol/ports/panel.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { declareObject, insertRow, insertWorker } from "../web/seed.ts";

const WORKER = "11111111-1111-4111-8111-111111111111";

let testDatabase: TestDatabase;
let database: Database;
let panel: PanelQueries;

beforeEach(async () => {
  testDatabase = await createTestDatabase();
  database = openDatabase({
    address: testDatabase.address,
    applicationName: "test",
    size: 2,
    statementTimeoutMs: 5_000,
    logger: silentLogger,
  });
  panel = createPanelQueries(database);
});
afterEach(async () => {
  await database.close();
  await testDatabase.drop();
});

describe("the last look at the files", () => {
  const look = (values: Readonly<Record<string, unknown>>) =>
    insertRow(database, "sync_status", { source: "local", origin: "/project", ok: true, ...values });
  const problem = {
    code: "TURNO_CRON_INVALID",
    message: "the cron",
    file: "turno.d/a.yaml",
    line: 7,
    column: 3,
    hint: null,
  };

  it("tells what keeps an edit from being in force, and since when", async () => {
    expect(await panel.loadSync()).toBeNull();
    await declareObject(database, { kind: "Queue", name: "q", file: "turno.d/q.yaml", line: 1 });
    const before = (await panel.loadPulse()).sync;
    const lastOkAt = new Date("2026-11-30T10:00:00Z");
    await look({ ok: false, last_ok_at: lastOkAt, problems: JSON.stringify([problem, { ...problem, line: 9 }]) });
    expect(await panel.loadSync()).toMatchObject({
      ok: false,
      silent: false,
      lastOkAt,
      problem: { code: "TURNO_CRON_INVALID", message: "the cron", file: "turno.d/a.yaml", line: 7, count: 2 },
    });
    const broken = (await panel.loadPulse()).sync;
    expect(broken).not.toBe(before);
    // Another look that finds the same is no news.
    await database.query("update turno.sync_status set checked_at = clock_timestamp(), last_ok_at = now()");
    expect((await panel.loadPulse()).sync).toBe(broken);
    await database.query("update turno.sync_status set ok = true, problems = '[]'");
    expect((await panel.loadPulse()).sync).not.toBe(broken);
    expect(await panel.loadSync()).toMatchObject({ ok: true, problem: null });
  });

  it("is outdated by an apply that came after it, and silent when nobody looks any more", async () => {
    await look({ ok: false, checked_at: "sql:now() - interval '3 minutes'", problems: JSON.stringify([problem]) });
    expect(await panel.loadSync()).toMatchObject({ silent: true, problem: { line: 7 } });
    await declareObject(database, { kind: "Queue", name: "q", file: "turno.d/q.yaml", line: 1 });
    expect(await panel.loadSync()).toBeNull();
  });
});

describe("settings that changed", () => {
  it("name the workers that still run on those of before", async () => {
    const old = "44444444-4444-4444-8444-444444444444";
    await insertWorker(database, old, { name: "worker-old", registered_at: "sql:now() - interval '1 hour'" });
    await insertWorker(database, WORKER, { registered_at: "sql:clock_timestamp() + interval '1 minute'" });
    const declare = async (number: number, runtime: unknown, ago: string) => {
      await database.query(
        `insert into turno.revisions (source, number, content_hash, applied_by, changes, applied_at)
         values ('local', $1, 'x', 'test', '[]', now() - $2::interval)`,
        [number, ago],
      );
      await database.query("update turno.objects set removed_in = $1 where kind = 'Project' and removed_in is null", [
        number,
      ]);
      await database.query(
        `insert into turno.objects (source, kind, name, spec, spec_hash, file, line, introduced_in)
         values ('local', 'Project', 'acme', $1, 'x', 'turno.yaml', 2, $2)`,
        [JSON.stringify({ runtime }), number],
      );
    };
    await database.query(
      "insert into turno.sources (name, origin) values ('local', '/project') on conflict do nothing",
    );
    await declare(1, { samples: true }, "30 minutes");
    await declare(2, { samples: true }, "20 minutes");
    // The first revision and one that changed something else need no restart.
    expect(await panel.listConcerns()).toEqual([]);
    await declare(3, { samples: false }, "10 minutes");
    await declare(4, { samples: false }, "5 minutes");
    const [concern] = await panel.listConcerns();
    expect(concern).toMatchObject({ kind: "restart-needed", workers: ["worker-old"] });
    expect(concern?.kind === "restart-needed" && Date.now() - concern.since.getTime()).toBeGreaterThan(540_000);
  });
});
