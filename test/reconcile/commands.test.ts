import { rmSync } from "node:fs";
import { join } from "node:path";
import { Command } from "commander";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Ask, addApplyCommand } from "../../runtime/cli/commands/apply.ts";
import { addPlanCommand, type OpenReconcile } from "../../runtime/cli/commands/plan.ts";
import type { CommandIo } from "../../runtime/cli/io.ts";
import { createLook } from "../../runtime/reconcile/look.ts";
import { declare, openReconcileProject, type ReconcileProject } from "./reconcile-project.ts";

let project: ReconcileProject;
beforeEach(async () => {
  project = await openReconcileProject();
});
afterEach(() => project.close());

interface Run {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

async function run(args: readonly string[], options: { interactive?: boolean; answer?: string } = {}): Promise<Run> {
  const result = { code: null as number | null, out: "", err: "" };
  const io: CommandIo = {
    cwd: project.root,
    env: {},
    colour: false,
    interactive: options.interactive ?? false,
    errIsTerminal: false,
    out: (text) => void (result.out += text),
    err: (text) => void (result.err += text),
    signal: new AbortController().signal,
  };
  const open: OpenReconcile = async () => {
    const look = project.lookOptions();
    return {
      source: look.source,
      look: createLook(look),
      store: project.store,
      doorbell: { ring: (topic) => void project.rings.push(topic) },
      appliedBy: "test",
      version: "0.0.0",
      close: async () => {},
    };
  };
  const ask: Ask = async () => options.answer ?? "";
  const program = new Command();
  const setExitCode = (code: number) => void (result.code = code);
  const files = async () => {
    throw new Error("no other files here");
  };
  addPlanCommand(program, io, setExitCode, { database: open, files });
  addApplyCommand(program, io, setExitCode, open, ask);
  await program.parseAsync(args, { from: "user" });
  return result;
}

describe("turno plan", () => {
  it("exits with 2 when there are changes and with 0 after they were applied", async () => {
    const before = await run(["plan"]);
    expect(before.code).toBe(2);
    expect(before.out).toMatch(
      /\+ Job\/a\n[\s\S]*Plan against nothing applied yet: 3 to create, 0 to update, 0 to delete\.\n$/,
    );
    expect((await run(["apply", "--yes"])).code).toBe(0);
    const after = await run(["plan"]);
    expect(after.code).toBe(0);
    expect(after.out).toMatch(/^No changes/);
  });

  it("prints the contract's JSON", async () => {
    await run(["apply", "--yes"]);
    const base = (await project.store.revisionInForce())?.number;
    project.write("turno.d/a.yaml", declare({ cron: "0 2 * * *" }));
    const from = "2026-07-01T00:00:00Z";
    const { out, code } = await run(["plan", "--json", "--fires", "2d", "--from", from]);
    expect(code).toBe(2);
    const peak = (at: string) => ({ at, fires: 1 });
    const cells = expect.any(Array);
    expect(JSON.parse(out)).toEqual({
      base: { revision: base },
      changes: [
        { action: "none", object: "Job/a", fields: [] },
        { action: "none", object: "Project/test", fields: [] },
        {
          action: "update",
          object: "Schedule/s",
          fields: [{ path: "/spec/cron", before: "0 1 * * *", after: "0 2 * * *" }],
        },
      ],
      fires: {
        from,
        to: "2026-07-03T00:00:00Z",
        added: 0,
        removed: 0,
        moved: 2,
        schedules: [
          {
            name: "s",
            timeZone: "UTC",
            before: 2,
            after: 2,
            added: [],
            removed: [],
            moved: [
              { from: "2026-07-01T01:00:00Z", to: "2026-07-01T02:00:00Z" },
              { from: "2026-07-02T01:00:00Z", to: "2026-07-02T02:00:00Z" },
            ],
            counts: { added: 0, removed: 0, moved: 2 },
            comparedUntil: null,
            notes: [],
          },
        ],
        load: {
          before: { fires: 2, peak: peak("2026-07-01T01:00:00Z"), sharedInstants: 0, cells },
          after: { fires: 2, peak: peak("2026-07-01T02:00:00Z"), sharedInstants: 0, cells },
        },
        collisions: [],
        uncounted: 0,
      },
      consequences: [expect.stringMatching(/^Schedule\/s: next fire moves from .* 01:00 UTC to .* 02:00 UTC\.$/)],
      warnings: [],
    });
  });

  it("counts the waiting jobs that a new payload schema does not fit", async () => {
    await run(["apply", "--yes"]);
    await project.database.query(
      `insert into turno.jobs (id, type, queue, state, sort_at, run_at, dispatch_id, payload)
       select gen_random_uuid(), 'a', 'default', 'Enqueued', now(), now(), n, jsonb_build_object('n', n)
       from generate_series(1, 5) as n`,
    );
    const declareWith = (payload: string) =>
      project.write("turno.d/a.yaml", declare({ cron: "0 1 * * *" }).replace("timeout: 10m", `payload: ${payload}`));
    declareWith("{ type: object }");
    expect((await run(["plan"])).out).not.toContain("payload schema");
    declareWith("{ type: object, properties: { n: { maximum: 3 } } }");
    expect((await run(["plan"])).out).toContain(
      "Warning: Job/a: 2 of the 5 newest waiting jobs do not fit the new payload schema; they end as Failed when taken.",
    );
    await run(["apply", "--yes"]);
    expect((await run(["plan"])).out).toMatch(/^No changes/);
  });

  it("exits with 1 and the problems when the files are not valid", async () => {
    project.write("turno.d/a.yaml", declare({ cron: "0 99 * * *" }));
    const text = await run(["plan"]);
    expect(text).toMatchObject({ code: 1, out: "", err: expect.stringMatching(/turno\.d\/a\.yaml:9:\d+ error/) });
    const json = await run(["plan", "--json"]);
    expect(json.code).toBe(1);
    expect(JSON.parse(json.out)).toMatchObject({ ok: false, problems: [{ code: "TURNO_CRON_INVALID" }] });
  });

  it("exits with 64 for a format it does not know", async () => {
    expect(await run(["plan", "--format", "yaml"])).toMatchObject({ code: 64, out: "" });
  });
});

describe("turno apply", () => {
  it("asks on a terminal, and takes only yes for a yes", async () => {
    expect(await run(["apply"], { interactive: true, answer: "y" })).toMatchObject({
      code: 1,
      err: "Nothing was applied.\n",
    });
    expect(await project.store.revisionInForce()).toBe(null);
    const applied = await run(["apply"], { interactive: true, answer: "yes" });
    expect(applied.code).toBe(0);
    expect(applied.out).toMatch(/\nRevision \d+ is in force\.\n$/);
    expect(project.rings).toEqual([{ kind: "revision" }]);
  });

  it("exits with 64 when nobody can be asked", async () => {
    expect(await run(["apply"])).toMatchObject({ code: 64, out: "" });
    expect(await project.store.revisionInForce()).toBe(null);
  });

  it("exits with 3 when a guard refuses, and applies what was confirmed", async () => {
    await run(["apply", "--yes"]);
    rmSync(join(project.root, "turno.d"), { recursive: true });
    const refused = await run(["apply", "--yes"]);
    expect(refused).toMatchObject({ code: 3, err: expect.stringContaining("--confirm-deletes") });
    expect((await project.store.loadApplied()).objects).toHaveLength(2);
    expect((await run(["apply", "--yes", "--confirm-deletes"])).code).toBe(0);
    expect((await project.store.loadApplied()).objects).toEqual([]);
  });

  it("exits with 3 for another source's installation until it takes over", async () => {
    await run(["apply", "--yes"]);
    await project.database.query("update turno.sources set origin = '/elsewhere'");
    const plan = await run(["plan"]);
    expect(plan.out).toContain(
      "Warning: the objects in force were applied from /elsewhere: an apply from here needs --take-over.",
    );
    expect(await run(["apply", "--yes"])).toMatchObject({ code: 3, err: expect.stringContaining("/elsewhere") });
    expect((await run(["apply", "--yes", "--take-over"])).code).toBe(0);
    expect((await project.store.revisionInForce())?.source.origin).toBe(project.root);
  });

  it("prints the plan and the revision as JSON", async () => {
    const { out } = await run(["apply", "--yes", "--json"]);
    const number = (await project.store.revisionInForce())?.number;
    expect(JSON.parse(out)).toMatchObject({ base: { revision: null }, revision: { number, commit: null } });
  });
});
