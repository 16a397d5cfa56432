import { EventEmitter, once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { createRevisionStore } from "../../runtime/adapters/postgres/revision-store.ts";
import { systemClock } from "../../runtime/adapters/system/clock.ts";
import { openProjectSource } from "../../runtime/compose/source.ts";
import { loadProject } from "../../runtime/config/load-project.ts";
import type { SourceSpec } from "../../runtime/config/objects.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import type { DoorbellTopic } from "../../runtime/protocol/ports/transport.ts";
import { createLook } from "../../runtime/reconcile/look.ts";
import { loadDesired, rollBack } from "../../runtime/reconcile/rollback.ts";
import { createReconciler, type ReconcilerOptions } from "../../runtime/services/reconciler.ts";
import { declare } from "../reconcile/reconcile-project.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type Content, type GitServer, startGitServer } from "../support/git-server.ts";

const never = new AbortController().signal;
const PROJECT = "apiVersion: turno/v1\nkind: Project\nmetadata: { name: test }\nspec: { timeZone: UTC }\n";
const HANDLER = "export default async () => 1;\n";

let server: GitServer;
let test: TestDatabase;
let root: string;
let closing: (() => Promise<void>)[];
let database: ReturnType<typeof openDatabase>;
let store: ReturnType<typeof createRevisionStore>;
beforeEach(async () => {
  server = await startGitServer();
  test = await createTestDatabase();
  root = mkdtempSync(join(tmpdir(), "turno-ops-"));
  const address = test.address;
  database = openDatabase({
    address,
    applicationName: "test",
    size: 4,
    statementTimeoutMs: 10_000,
    logger: silentLogger,
  });
  store = createRevisionStore(database);
  closing = [];
});
afterEach(async () => {
  for (const close of closing.reverse()) await close();
  await database.close();
  await test.drop();
  await server.close();
  rmSync(root, { recursive: true, force: true });
});

const files = (cron: string, more: Readonly<Record<string, Content>> = {}): Readonly<Record<string, Content>> => ({
  "turno.yaml": PROJECT,
  "turno.d/a.yaml": declare({ cron }),
  "handlers/a.ts": HANDLER,
  ...more,
});

interface Opening extends Partial<ReconcilerOptions> {
  readonly git?: Partial<SourceSpec["git"]>;
  readonly nonFastForward?: SourceSpec["nonFastForward"];
  readonly onParse?: () => void;
}

async function open({ git, nonFastForward = "allow", onParse, ...options }: Opening = {}) {
  const auth = { tokenFrom: null, sshKeyFrom: null, knownHostsFrom: null };
  const source = await openProjectSource({
    root,
    stateDir: join(root, ".turno"),
    source: {
      git: { url: server.url, ref: "main", path: null, intervalMs: 1, auth, signers: null, ...git },
      nonFastForward,
    },
    environment: {},
    loadBy: () => (found) => {
      onParse?.();
      return loadProject(found);
    },
    logger: silentLogger,
  });
  closing.push(() => source.close());
  return createReconciler({
    source: source.look.source,
    look: createLook(source.look),
    store,
    doorbell: { ring: () => {} },
    logger: silentLogger,
    appliedBy: "test",
    ...options,
  });
}

async function hourInForce(): Promise<number | undefined> {
  return (await store.loadApplied()).schedules[0]?.nextFireAt?.getUTCHours();
}

async function status() {
  const [found] = await store.loadSyncStatus();
  return found;
}

describe("a pushed commit", () => {
  it("comes into force with its commit and author, its handlers bundled and every object's file and line", async () => {
    const commit = server.commit(files("0 1 * * *"), { message: "Fire at one" });
    const reconciler = await open();
    expect((await reconciler.syncOnce(never)).kind).toBe("applied");
    const { inForce, objects, jobTypes } = await store.loadApplied();
    expect(inForce).toMatchObject({ commit, author: "Ada Lovelace", message: "Fire at one", source: { name: "git" } });
    expect(objects.find(({ kind }) => kind === "Schedule")).toMatchObject({ file: "turno.d/a.yaml", line: 7 });
    expect(await store.loadBundle(jobTypes[0]?.definition.bundleHash ?? "")).toContain("async () => 1");
    expect(await status()).toMatchObject({ status: "Synced", commit });
    server.commit(files("0 2 * * *"));
    expect((await reconciler.syncOnce(never)).kind).toBe("applied");
    expect(await hourInForce()).toBe(2);
  });

  it("is in force by itself within the interval, and at once when somebody asks for a look", async () => {
    server.commit(files("0 1 * * *"));
    const applied = new EventEmitter();
    const rings = new EventEmitter();
    const reconciler = await open({
      git: { intervalMs: 3_600_000 },
      doorbell: { ring: () => void applied.emit("applied") },
      requests: {
        listen: ({ onRing }) => void rings.on("ring", (topic: DoorbellTopic) => onRing(topic)),
      },
    });
    const first = once(applied, "applied");
    const following = await reconciler.start({
      clock: systemClock,
      random: { next: () => 0.5 },
      observer: { observe: () => {} },
    });
    closing.push(() => following.stop());
    await first;
    const second = once(applied, "applied");
    server.commit(files("0 2 * * *"));
    rings.emit("ring", { kind: "sync" });
    await second;
    expect(await hourInForce()).toBe(2);
  });

  it("that is broken changes nothing and says where; the last good one stays in force", async () => {
    server.commit(files("0 1 * * *"));
    const reconciler = await open();
    await reconciler.syncOnce(never);
    const commit = server.commit(files("0 99 * * *"));
    expect((await reconciler.syncOnce(never)).kind).toBe("invalid");
    expect(await hourInForce()).toBe(1);
    expect(await status()).toMatchObject({
      status: "Invalid",
      ok: false,
      commit,
      problems: [{ code: "TURNO_CRON_INVALID", file: "turno.d/a.yaml", line: 9 }],
    });
    server.commit({ ...files("0 2 * * *"), "turno.d/x.yaml": { mode: "120000", content: "/etc/passwd" } });
    expect((await reconciler.syncOnce(never)).kind).toBe("refused");
    expect(await status()).toMatchObject({ status: "Invalid", problems: [{ file: "turno.d/x.yaml" }] });
    expect(await hourInForce()).toBe(1);
  });

  it("that is no change costs no parse, and neither does a look without one", async () => {
    server.commit(files("0 1 * * *"));
    let parsed = 0;
    const reconciler = await open({ onParse: () => (parsed += 1) });
    await reconciler.syncOnce(never);
    await reconciler.syncOnce(never);
    const commit = server.commit(files("0 1 * * *"), { message: "The same tree" });
    expect((await reconciler.syncOnce(never)).kind).toBe("unchanged");
    expect(parsed).toBe(1);
    expect(await status()).toMatchObject({ status: "Synced", commit });
  });

  it("wins over reconcilers that are behind: after twenty pushes and two reconcilers the last one is in force", async () => {
    server.commit(files("0 1 * * *"));
    const both = await Promise.all([open(), open()]);
    const syncs: Promise<unknown>[] = [];
    for (let push = 1; push <= 20; push++) {
      server.commit(files(`${push} 2 * * *`));
      syncs.push(...both.map((reconciler) => reconciler.syncOnce(never)));
    }
    await Promise.all(syncs);
    for (const reconciler of both) await reconciler.syncOnce(never);
    const { schedules } = await store.loadApplied();
    expect(schedules[0]?.nextFireAt?.getUTCMinutes()).toBe(20);
    const numbers = (await store.listRevisions({ before: null, limit: 100 })).length;
    expect(numbers).toBeLessThanOrEqual(21);
  });
});

describe("a remote that is away", () => {
  it("changes nothing but the age, and is stale after a while", async () => {
    server.commit(files("0 1 * * *"));
    const reconciler = await open({ staleAfterMs: 60_000 });
    await reconciler.syncOnce(never);
    const before = await status();
    await server.down();
    expect((await reconciler.syncOnce(never)).kind).toBe("refused");
    const away = await status();
    expect(away).toMatchObject({ status: "Synced", problems: [{ code: "TURNO_SOURCE_UNREACHABLE" }] });
    expect(away?.reachedAt).toEqual(before?.reachedAt);
    await database.query("update turno.sync_status set reached_at = now() - interval '2 minutes'");
    expect((await status())?.status).toBe("Stale");
    await server.up();
    await reconciler.syncOnce(never);
    expect(await status()).toMatchObject({ status: "Synced", problems: [] });
    expect(await hourInForce()).toBe(1);
  });
});

describe("a rewritten history", () => {
  it("is held until somebody confirms it", async () => {
    const first = server.commit(files("0 1 * * *"));
    server.commit(files("0 2 * * *"));
    const reconciler = await open({ nonFastForward: "hold" });
    await reconciler.syncOnce(never);
    server.commit(files("0 3 * * *"), { onto: first });
    expect((await reconciler.syncOnce(never)).kind).toBe("refused");
    expect(await status()).toMatchObject({ status: "Held", problems: [{ code: "TURNO_SOURCE_REWRITTEN" }] });
    expect(await hourInForce()).toBe(2);
    const confirmed = await open({ nonFastForward: "hold", confirm: true });
    expect((await confirmed.syncOnce(never)).kind).toBe("applied");
    expect((await reconciler.syncOnce(never)).kind).toBe("unchanged");
    expect(await hourInForce()).toBe(3);
  });

  it("comes into force where that is allowed", async () => {
    const first = server.commit(files("0 1 * * *"));
    server.commit(files("0 2 * * *"));
    const reconciler = await open();
    await reconciler.syncOnce(never);
    server.git("update-ref", "refs/heads/main", first);
    expect((await reconciler.syncOnce(never)).kind).toBe("applied");
    expect(await hourInForce()).toBe(1);
  });
});

describe("a rollback", () => {
  async function rollBackTo(number: number) {
    const { content, desired } = await loadDesired(store, number);
    const inForce = await store.revisionInForce();
    if (inForce === null) throw new Error("nothing is in force");
    return rollBack(store, desired, content.revision, { number, appliedBy: "ada", inForce });
  }

  it("is a revision of its own, with objects and code of then, and holds the source until it moves on", async () => {
    const first = server.commit(files("0 1 * * *"));
    const reconciler = await open();
    await reconciler.syncOnce(never);
    server.commit({ ...files("0 2 * * *"), "handlers/a.ts": "export default async () => 2;\n" });
    await reconciler.syncOnce(never);
    expect((await rollBackTo(1)).kind).toBe("applied");
    const { inForce, jobTypes } = await store.loadApplied();
    expect(inForce).toMatchObject({ number: 3, rollbackOf: 1, commit: first, appliedBy: "ada" });
    expect(await hourInForce()).toBe(1);
    expect(await store.loadBundle(jobTypes[0]?.definition.bundleHash ?? "")).toContain("async () => 1");

    for (const each of [reconciler, await open()]) {
      expect(await each.syncOnce(never)).toMatchObject({ kind: "refused", error: { code: "TURNO_SOURCE_HELD" } });
    }
    expect(await status()).toMatchObject({ status: "Held", revision: 3 });
    server.commit(files("0 4 * * *"));
    expect((await reconciler.syncOnce(never)).kind).toBe("applied");
    expect(await hourInForce()).toBe(4);
    expect(await status()).toMatchObject({ status: "Synced" });
  });

  it("of a rollback still holds the source, and one to what the source says lets it go", async () => {
    const reconciler = await open();
    for (const hour of [1, 2, 3]) {
      server.commit(files(`0 ${hour} * * *`));
      await reconciler.syncOnce(never);
    }
    await rollBackTo(2);
    await rollBackTo(1);
    expect((await reconciler.syncOnce(never)).kind).toBe("refused");
    await rollBackTo(3);
    expect((await reconciler.syncOnce(never)).kind).toBe("unchanged");
    const revisions = await store.listRevisions({ before: null, limit: 10 });
    expect(revisions.map(({ number, rollbackOf }) => [number, rollbackOf])).toEqual([
      [6, 3],
      [5, 1],
      [4, 2],
      [3, null],
      [2, null],
      [1, null],
    ]);
  });

  it("can be released by hand", async () => {
    server.commit(files("0 1 * * *"));
    const reconciler = await open();
    await reconciler.syncOnce(never);
    server.commit(files("0 2 * * *"));
    await reconciler.syncOnce(never);
    await rollBackTo(1);
    const released = await open({ confirm: true });
    expect((await released.syncOnce(never)).kind).toBe("applied");
    expect(await hourInForce()).toBe(2);
    expect((await reconciler.syncOnce(never)).kind).toBe("unchanged");
  });

  it("to a revision that never was is refused", async () => {
    await expect(loadDesired(store, 7)).rejects.toMatchObject({ code: "TURNO_REVISION_UNKNOWN" });
  });
});

describe("guards", () => {
  const guarded = `${PROJECT.replace("timeZone: UTC", "timeZone: UTC, sync: { guard: { maxDeletes: 1, maxFireLossPercent: 60 } }")}`;
  const schedule = (name: string, more = "", metadata = "") =>
    `apiVersion: turno/v1\nkind: Schedule\nmetadata: { name: ${name}${metadata} }\nspec: { job: a, cron: "0 5 * * *"${more} }\n`;

  it("hold a revision that removes too much; a trailer of the commit confirms it", async () => {
    const all = { "turno.yaml": guarded, "turno.d/b.yaml": schedule("b"), "turno.d/c.yaml": schedule("c") };
    server.commit(files("0 1 * * *", all));
    const reconciler = await open();
    await reconciler.syncOnce(never);
    // Relaxing the guard in the same commit does not help: the rules in force decide.
    server.commit(files("0 1 * * *"));
    expect(await reconciler.syncOnce(never)).toMatchObject({
      kind: "refused",
      error: { code: "TURNO_GUARD_DELETES", message: expect.stringContaining("Schedule/b, Schedule/c") },
    });
    expect(await status()).toMatchObject({ status: "Held", problems: [{ code: "TURNO_GUARD_DELETES" }] });
    server.commit(files("0 1 * * *"), { message: "Remove b and c\n\nTurno-Confirm: deletes\n" });
    expect((await reconciler.syncOnce(never)).kind).toBe("applied");
    expect((await store.loadApplied()).schedules.map(({ name }) => name)).toEqual(["s"]);
  });

  it("hold a branch that points at a commit without files, and a folder that is not there changes nothing", async () => {
    server.commit(files("0 1 * * *"));
    const reconciler = await open();
    await reconciler.syncOnce(never);
    server.commit({ "turno.yaml": PROJECT }, { onto: null });
    expect(await reconciler.syncOnce(never)).toMatchObject({ error: { code: "TURNO_INCLUDE_EMPTY" } });
    expect(await status()).toMatchObject({ status: "Held" });
    server.commit({ "README.md": "nothing here" }, { onto: null });
    expect(await reconciler.syncOnce(never)).toMatchObject({ error: { code: "TURNO_PROJECT_MISSING" } });
    const elsewhere = await open({ git: { path: "prod" } });
    expect(await elsewhere.syncOnce(never)).toMatchObject({ error: { code: "TURNO_PROJECT_MISSING" } });
    expect(await hourInForce()).toBe(1);
  });

  it("hold a revision whose schedules would never fire again", async () => {
    server.commit(files("0 1 * * *", { "turno.yaml": guarded }));
    const reconciler = await open();
    await reconciler.syncOnce(never);
    server.commit(files("0 1 30 2 *", { "turno.yaml": guarded }));
    expect(await reconciler.syncOnce(never)).toMatchObject({ error: { code: "TURNO_GUARD_FIRES" } });
  });

  it("keep a protected schedule, confirmed or not, until its protection was lifted", async () => {
    const protect = { "turno.d/b.yaml": schedule("b", ", deletionPolicy: Protect") };
    server.commit(files("0 1 * * *", protect));
    const reconciler = await open({ confirm: true });
    await reconciler.syncOnce(never);
    server.commit(files("0 1 * * *"));
    expect(await reconciler.syncOnce(never)).toMatchObject({ error: { code: "TURNO_GUARD_PROTECTED" } });
    server.commit(files("0 1 * * *", { "turno.d/b.yaml": schedule("b") }));
    expect((await reconciler.syncOnce(never)).kind).toBe("applied");
    server.commit(files("0 1 * * *"));
    expect((await reconciler.syncOnce(never)).kind).toBe("applied");
  });

  it("see a rename as one: next fire, pause and recorded fires go on under the new name", async () => {
    server.commit(files("0 1 * * *", { "turno.yaml": guarded, "turno.d/b.yaml": schedule("b") }));
    const reconciler = await open();
    await reconciler.syncOnce(never);
    await database.query("update turno.recurring_jobs set next_fire_at = '2031-01-01T05:00:00Z' where name = 'b'");
    await database.query("insert into turno.overlays (kind, name, paused_by) values ('Schedule', 'b', 'ada')");
    await database.query(
      "insert into turno.schedule_fires (schedule, fire_at, outcome) values ('b', '2026-01-01T05:00:00Z', 'fired')",
    );
    server.commit(
      files("0 1 * * *", { "turno.yaml": guarded, "turno.d/b.yaml": schedule("new", "", ", previousNames: [b]") }),
    );
    const outcome = await reconciler.syncOnce(never);
    expect(outcome.kind === "applied" && outcome.plan.changes.filter(({ action }) => action !== "none")).toEqual([
      {
        action: "rename",
        object: "Schedule/new",
        fields: [
          { path: "/metadata/name", before: "b", after: "new" },
          { path: "/metadata/previousNames", before: null, after: ["b"] },
        ],
      },
    ]);
    const { schedules, objects } = await store.loadApplied();
    expect(schedules[0]).toMatchObject({ name: "new", paused: true, nextFireAt: new Date("2031-01-01T05:00:00Z") });
    expect(objects.map(({ name }) => name)).toEqual(["a", "new", "s"]);
    expect(await database.query("select schedule from turno.schedule_fires")).toEqual([{ schedule: "new" }]);
  });
});

it("leaves nothing behind when it ends", async () => {
  server.commit(files("0 1 * * *"));
  const reconciler = await open();
  await reconciler.syncOnce(never);
  expect(readdirSync(join(root, ".turno", "git"))).toHaveLength(1);
  await closing.pop()?.();
  expect(readdirSync(join(root, ".turno", "git"))).toEqual([]);
});
