import { EventEmitter, once } from "node:events";
import { readFileSync, rmSync, unlinkSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../runtime/adapters/system/clock.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import { RejectedError } from "../../runtime/protocol/ports/errors.ts";
import type { RevisionStore } from "../../runtime/protocol/ports/revisions.ts";
import type { EngineEvent } from "../../runtime/protocol/ports/surroundings.ts";
import { applyDesired } from "../../runtime/reconcile/apply.ts";
import { createLook } from "../../runtime/reconcile/look.ts";
import type { Reconciler } from "../../runtime/services/reconciler.ts";
import { bundleByContent, declare, openReconcileProject, type ReconcileProject } from "./reconcile-project.ts";

const never = new AbortController().signal;

let project: ReconcileProject;
beforeEach(async () => {
  project = await openReconcileProject();
});
afterEach(() => project.close());

async function nextFireHour(): Promise<number | undefined> {
  const { schedules } = await project.store.loadApplied();
  return schedules[0]?.nextFireAt?.getUTCHours();
}

async function bundleInForce(): Promise<string | null | undefined> {
  const { jobTypes } = await project.store.loadApplied();
  const hash = jobTypes[0]?.definition.bundleHash ?? "";
  return project.store.loadBundle(hash);
}

describe("one pass", () => {
  it("applies the files, rings, and then has nothing to do", async () => {
    const reconciler = project.reconciler();
    const first = await reconciler.syncOnce(never);
    expect(first.kind).toBe("applied");
    expect(project.rings).toEqual([{ kind: "revision" }]);
    expect((await reconciler.syncOnce(never)).kind).toBe("unchanged");
    expect((await project.reconciler().syncOnce(never)).kind).toBe("unchanged");
    expect(project.rings).toHaveLength(1);
    expect(await project.store.loadSyncStatus()).toMatchObject([
      { ok: true, problems: [], source: { origin: project.root } },
    ]);
  });

  it("brings an edited cron and an edited handler into force", async () => {
    const reconciler = project.reconciler();
    await reconciler.syncOnce(never);
    project.write("turno.d/a.yaml", declare({ cron: "0 2 * * *" }));
    const edited = await reconciler.syncOnce(never);
    expect(edited).toMatchObject({
      kind: "applied",
      plan: { consequences: [expect.stringMatching(/next fire moves from/)] },
    });
    expect(await nextFireHour()).toBe(2);
    project.write("handlers/a.ts", "export default 2;\n");
    expect((await reconciler.syncOnce(never)).kind).toBe("applied");
    expect(await bundleInForce()).toBe("export default 2;\n");
  });

  it("changes nothing for a broken file and says where; the repaired file comes into force", async () => {
    const reconciler = project.reconciler();
    await reconciler.syncOnce(never);
    project.write("turno.d/a.yaml", declare({ cron: "0 99 * * *" }));
    expect((await reconciler.syncOnce(never)).kind).toBe("invalid");
    expect(await nextFireHour()).toBe(1);
    const [status] = await project.store.loadSyncStatus();
    expect(status).toMatchObject({
      ok: false,
      problems: [{ code: "TURNO_CRON_INVALID", file: "turno.d/a.yaml", line: 9 }],
    });
    expect(status?.lastOkAt).not.toBe(null);
    project.write("turno.d/a.yaml", declare({ cron: "0 3 * * *" }));
    expect((await reconciler.syncOnce(never)).kind).toBe("applied");
    expect(await nextFireHour()).toBe(3);
  });

  it("takes a handler that does not bundle for an invalid revision, also when only the handler changed", async () => {
    const reconciler = project.reconciler();
    await reconciler.syncOnce(never);
    project.write("handlers/a.ts", "broken");
    const outcome = await reconciler.syncOnce(never);
    expect(outcome).toMatchObject({
      kind: "invalid",
      problems: [{ code: "TURNO_HANDLER_BUNDLE", file: "handlers/a.ts", message: "it is broken" }],
    });
    expect(await bundleInForce()).toBe("export default 1;\n");
  });

  it("takes files for valid once they are, though nobody wrote them meanwhile", async () => {
    const bundle = bundleByContent(project.root);
    let isInstalled = false;
    const reconciler = project.reconciler({
      bundleHandlers: async (request) => {
        if (isInstalled) return bundle(request);
        const problem = { file: "handlers/a.ts", line: 1, column: 1, message: "the package is not there yet" };
        return { bundles: [], problems: [problem] };
      },
    });
    expect((await reconciler.syncOnce(never)).kind).toBe("invalid");
    expect((await reconciler.syncOnce(never)).kind).toBe("invalid");
    isInstalled = true;
    expect((await reconciler.syncOnce(never)).kind).toBe("applied");
    expect(await nextFireHour()).toBe(1);
  });

  it("is content when somebody else brought the same files into force, after it refused to", async () => {
    const reconciler = project.reconciler();
    await reconciler.syncOnce(never);
    rmSync(join(project.root, "turno.d"), { recursive: true });
    expect((await reconciler.syncOnce(never)).kind).toBe("refused");
    const look = project.lookOptions();
    const found = await createLook(look)(never);
    if (found.kind !== "ready") throw new Error("expected valid files");
    const { snapshot, desired } = found;
    const inForce = await project.store.revisionInForce();
    await applyDesired(project.store, {
      ...{ desired, source: look.source.identity, provenance: snapshot.provenance, appliedBy: "a person" },
      ...{ base: inForce?.number ?? null, confirmDeletes: true, takeOver: false },
    });
    expect(await reconciler.syncOnce(never)).toMatchObject({ kind: "unchanged", revision: { appliedBy: "a person" } });
    expect(await project.store.loadSyncStatus()).toMatchObject([{ ok: true }]);
  });

  it("keeps what is broken apart from what is merely worth a look", async () => {
    project.write("turno.d/0.yaml", "apiVersion: turno/v1\nkind: Queue\nmetadata: { name: unserved }\n");
    project.write("turno.d/a.yaml", declare({ cron: "0 99 * * *" }));
    await project.reconciler().syncOnce(never);
    const [status] = await project.store.loadSyncStatus();
    expect(status?.problems.map(({ code }) => code)).toEqual(["TURNO_CRON_INVALID", "TURNO_CONFIG_UNSERVED_QUEUE"]);
  });

  it("tells once when files are broken, and once when they are what is in force again", async () => {
    const lines: string[] = [];
    const note = (message: string) => void lines.push(message);
    const reconciler = project.reconciler({ logger: { ...silentLogger, info: note, error: note } });
    await reconciler.syncOnce(never);
    project.write("turno.d/a.yaml", declare({ cron: "0 99 * * *" }));
    await reconciler.syncOnce(never);
    await reconciler.syncOnce(never);
    project.write("turno.d/a.yaml", declare({ cron: "0 1 * * *" }));
    await reconciler.syncOnce(never);
    await reconciler.syncOnce(never);
    expect(lines).toEqual([
      "revision 1 is in force",
      "the files were not applied, the last good revision stays in force",
      expect.stringMatching(/^turno.d\/a.yaml:9:/),
      "the files are what is in force again, revision 1",
    ]);
  });

  it("tells that a changed spec.runtime needs a restart", async () => {
    const lines: string[] = [];
    const logger = { ...silentLogger, warn: (message: string) => void lines.push(message) };
    const reconciler = project.reconciler({ logger });
    await reconciler.syncOnce(never);
    expect(lines).toEqual([]);
    project.write(
      "turno.yaml",
      "apiVersion: turno/v1\nkind: Project\nmetadata: { name: test }\nspec: { timeZone: UTC, include: [turno.d/*.yaml], runtime: { samples: false } }\n",
    );
    await reconciler.syncOnce(never);
    expect(lines).toEqual([expect.stringMatching(/^spec.runtime changed: restart needed/)]);
  });

  it("looks again when a handler changed while it was bundled", async () => {
    const bundle = bundleByContent(project.root);
    let edits = 0;
    const reconciler = project.reconciler({
      bundleHandlers: async (request) => {
        const bundled = await bundle(request);
        if (edits++ === 0) project.write("handlers/a.ts", "export default 'edited';\n");
        return bundled;
      },
    });
    await reconciler.syncOnce(never);
    expect(await bundleInForce()).toBe("export default 'edited';\n");
    expect(edits).toBe(2);
  });

  it("bundles again only when a handler's source changed", async () => {
    const bundle = bundleByContent(project.root);
    let calls = 0;
    const reconciler = project.reconciler({
      bundleHandlers: (request) => {
        calls += 1;
        return bundle(request);
      },
    });
    await reconciler.syncOnce(never);
    project.write("turno.d/a.yaml", declare({ cron: "0 2 * * *" }));
    expect((await reconciler.syncOnce(never)).kind).toBe("applied");
    expect(calls).toBe(1);
  });

  it("refuses a folder that lost its turno.yaml or all its declarations, and keeps what is in force", async () => {
    const reconciler = project.reconciler();
    await reconciler.syncOnce(never);
    rmSync(join(project.root, "turno.d"), { recursive: true });
    expect(await reconciler.syncOnce(never)).toMatchObject({ kind: "refused", error: { code: "TURNO_INCLUDE_EMPTY" } });
    unlinkSync(join(project.root, "turno.yaml"));
    expect(await reconciler.syncOnce(never)).toMatchObject({
      kind: "refused",
      error: { code: "TURNO_PROJECT_MISSING" },
    });
    expect(await nextFireHour()).toBe(1);
    expect(await project.store.loadSyncStatus()).toMatchObject([
      { ok: false, problems: [{ code: "TURNO_PROJECT_MISSING" }] },
    ]);
  });

  it("removes what its files no longer declare, down to the last object", async () => {
    const reconciler = project.reconciler();
    await reconciler.syncOnce(never);
    project.write("turno.d/a.yaml", "# nothing any more\n");
    expect((await reconciler.syncOnce(never)).kind).toBe("applied");
    expect((await project.store.loadApplied()).objects).toEqual([]);
  });

  it("lets everything move into turno.yaml", async () => {
    const reconciler = project.reconciler();
    await reconciler.syncOnce(never);
    const own = readFileSync(join(project.root, "turno.yaml"), "utf8");
    project.write("turno.yaml", `${own}---\n${declare({ cron: "0 1 * * *" })}`);
    rmSync(join(project.root, "turno.d"), { recursive: true });
    expect((await reconciler.syncOnce(never)).kind).toBe("applied");
    expect((await project.store.loadApplied()).objects.map(({ file }) => file)).toEqual(["turno.yaml", "turno.yaml"]);
  });

  it("never writes over a newer revision while its own files stay the same (B11)", async () => {
    const behind = project.reconciler();
    await behind.syncOnce(never);
    project.write("turno.d/a.yaml", declare({ cron: "30 2 * * *" }));
    await project.reconciler().syncOnce(never);
    project.write("turno.d/a.yaml", declare({ cron: "0 1 * * *" }));
    expect(await behind.syncOnce(never)).toMatchObject({ kind: "refused", error: { code: "TURNO_SOURCE_STALE" } });
    expect(await nextFireHour()).toBe(2);
    project.write("turno.d/a.yaml", declare({ cron: "0 4 * * *" }));
    expect((await behind.syncOnce(never)).kind).toBe("applied");
    expect(await nextFireHour()).toBe(4);
  });

  it("does not bring an old copy back when it is started, unless its files were written since", async () => {
    await project.reconciler().syncOnce(never);
    project.write("turno.d/a.yaml", declare({ cron: "0 2 * * *" }));
    await project.reconciler().syncOnce(never);
    project.write("turno.d/a.yaml", declare({ cron: "0 1 * * *" }));
    const old = new Date("2026-01-01T00:00:00Z");
    for (const path of ["turno.yaml", "turno.d/a.yaml", "handlers/a.ts"])
      utimesSync(join(project.root, path), old, old);
    expect(await project.reconciler().syncOnce(never)).toMatchObject({
      kind: "refused",
      error: { code: "TURNO_SOURCE_STALE" },
    });
    expect(await nextFireHour()).toBe(2);
    project.write("turno.d/a.yaml", declare({ cron: "0 1 * * *" }));
    expect((await project.reconciler().syncOnce(never)).kind).toBe("applied");
    expect(await nextFireHour()).toBe(1);
  });

  it("leaves the objects of another folder alone", async () => {
    await project.reconciler().syncOnce(never);
    await project.database.query("update turno.sources set origin = '/elsewhere'");
    project.write("turno.d/a.yaml", declare({ cron: "0 2 * * *" }));
    expect(await project.reconciler().syncOnce(never)).toMatchObject({
      kind: "refused",
      error: { code: "TURNO_SOURCE_OWNED" },
    });
    expect((await project.reconciler({ takeOver: true }).syncOnce(never)).kind).toBe("applied");
  });
});

describe("the loop", () => {
  const events = new EventEmitter();
  let stop: (() => Promise<void>) | null = null;
  afterEach(async () => {
    await stop?.();
    stop = null;
  });

  async function start(reconciler: Reconciler, seen: EngineEvent[] = []): Promise<void> {
    const loop = await reconciler.start({
      clock: systemClock,
      random: { next: () => 0 },
      observer: { observe: (event) => void seen.push(event) },
    });
    stop = loop.stop;
  }

  /** Tells of every pass that ended. */
  function watched(store: RevisionStore): RevisionStore {
    return {
      ...store,
      async recordSync(status) {
        await store.recordSync(status);
        events.emit("pass");
      },
    };
  }

  async function until(condition: () => Promise<boolean>): Promise<void> {
    while (!(await condition())) await once(events, "pass");
  }

  it("brings an edit into force without being asked", async () => {
    await start(project.reconciler({ store: watched(project.store) }));
    await until(async () => (await nextFireHour()) === 1);
    project.write("turno.d/a.yaml", declare({ cron: "0 2 * * *" }));
    await until(async () => (await nextFireHour()) === 2);
    project.write("handlers/a.ts", "export default 2;\n");
    await until(async () => (await bundleInForce()) === "export default 2;\n");
  });

  it("tries again when the database was away, and tells of it once", async () => {
    let failures = 3;
    const store: RevisionStore = {
      ...watched(project.store),
      async revisionInForce() {
        if (failures-- > 0) throw new RejectedError("PostgreSQL did not answer: it is away");
        return project.store.revisionInForce();
      },
    };
    const seen: EngineEvent[] = [];
    await start(project.reconciler({ store }), seen);
    await until(async () => (await nextFireHour()) === 1);
    expect(seen.filter(({ kind }) => kind === "database-away")).toHaveLength(1);
  });
});
