import { describe, expect, it } from "vitest";
import type { DeclaredObject } from "../../runtime/config/objects.ts";
import type { AppliedState } from "../../runtime/protocol/ports/revisions.ts";
import type { Desired } from "../../runtime/reconcile/desired.ts";
import { hideSecrets } from "../../runtime/reconcile/field-changes.ts";
import { hasChanges, planChanges } from "../../runtime/reconcile/plan.ts";
import { renderPlan } from "../../runtime/reconcile/plan-text.ts";
import { hashTiming } from "../../runtime/time/timing-hash.ts";
import { cron, desire, job, nothingApplied, policy, project, queue, schedule } from "./desired-fixture.ts";

const NOW = "2026-07-06T15:00:00Z";

/** What is in force after an apply of `desired`, each schedule at the given next fire. */
function inForce(desired: Desired, nextFireAt: string | null = null): AppliedState {
  return {
    ...nothingApplied(NOW),
    owner: { name: "local", origin: "/srv/ops" },
    inForce: {
      number: 12,
      source: { name: "local", origin: "/srv/ops" },
      contentHash: desired.contentHash,
      commit: null,
      baseCommit: null,
      author: null,
      committedAt: null,
      message: null,
      appliedAt: new Date("2026-07-01T00:00:00Z"),
      appliedBy: "test",
      rollbackOf: null,
      heldContent: null,
    },
    project: desired.project,
    objects: desired.objects,
    jobTypes: [...desired.definitions].map(([name, { hash, definition }]) => ({
      name,
      definitionHash: hash,
      definition,
      removed: false,
    })),
    schedules: desired.objects.flatMap((object) =>
      object.kind === "Schedule"
        ? [
            {
              name: object.name,
              timingHash: hashTiming(object.spec.timing),
              suspended: object.spec.suspend,
              nextFireAt: nextFireAt === null ? null : new Date(nextFireAt),
            },
          ]
        : [],
    ),
  };
}

function planOf(before: readonly DeclaredObject[], after: readonly DeclaredObject[], nextFireAt: string | null = null) {
  return planChanges(desire(after), inForce(desire(before), nextFireAt));
}

describe("a plan", () => {
  it("creates everything where nothing was applied, with the first fires", () => {
    const plan = planChanges(
      desire([job("a"), schedule("s", { ...cron("0 6 * * 1-5", "America/Sao_Paulo"), timeZone: "America/Sao_Paulo" })]),
      nothingApplied(NOW),
    );
    expect(plan.base).toEqual({ revision: null });
    expect(plan.changes.map(({ action, object }) => `${action} ${object}`)).toEqual([
      "create Job/a",
      "create Project/test",
      "create Schedule/s",
    ]);
    expect(plan.changes[2]?.fields).toContainEqual({ path: "/spec/cron", before: null, after: "0 6 * * 1-5" });
    expect(plan.consequences).toEqual(["Schedule/s: first fire 2026-07-07 06:00-03:00 America/Sao_Paulo."]);
  });

  it("has nothing but `none` for equal input, and no consequences", () => {
    const objects = [job("a"), queue("q", 2), policy("p"), schedule("s")];
    const plan = planOf(objects, objects, "2026-07-07T01:00:00Z");
    expect(plan.changes.every(({ action }) => action === "none")).toBe(true);
    expect(hasChanges(plan)).toBe(false);
    expect([...plan.consequences, ...plan.warnings]).toEqual([]);
  });

  it("names fields as their author writes them, before and after", () => {
    const every = { timing: { kind: "every", intervalMs: 300_000, from: "epoch" } } as const;
    const plan = planOf(
      [job("a", { timeoutMs: 600_000, settings: { pageSize: 50 } }), schedule("s")],
      [job("a", { timeoutMs: 1_200_000, settings: { pageSize: 60, dryRun: true } }), schedule("s", every)],
    );
    const fields = new Map(plan.changes.map(({ object, fields }) => [object, fields]));
    expect(fields.get("Job/a")).toEqual([
      { path: "/spec/settings/dryRun", before: null, after: true },
      { path: "/spec/settings/pageSize", before: 50, after: 60 },
      { path: "/spec/timeout", before: "10m", after: "20m" },
    ]);
    expect(fields.get("Schedule/s")).toEqual([
      { path: "/spec/cron", before: "0 1 * * *", after: null },
      { path: "/spec/every", before: null, after: "5m" },
    ]);
  });

  it("shows another handler code as a change of the job", () => {
    const before = desire([job("a")], { code: "export default 1;" });
    const plan = planChanges(desire([job("a")], { code: "export default 2;" }), inForce(before));
    expect(plan.changes.find(({ object }) => object === "Job/a")).toEqual({
      action: "update",
      object: "Job/a",
      fields: [{ path: "/bundle", before: "sha256:a.ts:export default 1;", after: "sha256:a.ts:export default 2;" }],
    });
    expect(plan.consequences.join()).toMatch(/Job\/a: waiting jobs and retries take the new code/);
  });

  it("does not call a new place in the files a change", () => {
    expect(hasChanges(planOf([job("a")], [{ ...job("a"), file: "turno.d/b.yaml", line: 99 }]))).toBe(false);
  });

  it("says how the next fire of an edited schedule moves, and nothing when its timing stays", () => {
    const edited = planOf(
      [job("a"), schedule("s")],
      [job("a"), schedule("s", cron("0 2 * * *"))],
      "2026-07-07T01:00:00Z",
    );
    expect(edited.consequences).toEqual([
      expect.stringMatching(/^Schedule\/s: next fire moves from 2026-07-07 01:00 UTC to 2026-07-07 02:00 UTC\.$/),
    ]);
    const payload = planOf(
      [job("a"), schedule("s")],
      [job("a"), schedule("s", { payload: 7 })],
      "2026-07-07T01:00:00Z",
    );
    expect(payload.consequences).toEqual([]);
    expect(hasChanges(payload)).toBe(true);
  });

  it("says what suspending, resuming and removing a schedule mean", () => {
    const [off, on] = [schedule("s", { suspend: true }), schedule("s")];
    const next = "2026-07-07T01:00:00Z";
    expect(planOf([job("a"), on], [job("a"), off], next).consequences).toEqual([
      "Schedule/s is suspended: it does not fire.",
    ]);
    expect(planOf([job("a"), off], [job("a"), on], next).consequences).toEqual([
      expect.stringMatching(/^Schedule\/s: first fire 2026-07-07 01:00/),
    ]);
    expect(planOf([job("a"), on], [job("a")], next).consequences).toEqual([
      expect.stringMatching(/^Schedule\/s fires no more; the next was due 2026-07-07 01:00/),
    ]);
  });

  it("warns about a schedule that never fires", () => {
    const past = { timing: { kind: "at", at: "2026-01-01T00:00:00Z" } } as const;
    expect(planOf([job("a")], [job("a"), schedule("s", past)]).warnings).toEqual([
      expect.stringMatching(/Schedule\/s never fires/),
    ]);
  });

  it("counts the jobs of a removed type that still run, and the users of an edited policy", () => {
    const plan = planChanges(
      desire([job("b", { policy: "p" }), policy("p", { maxLost: 9 })]),
      inForce(desire([job("a"), job("b", { policy: "p" }), policy("p")])),
      { live: new Map([["a", 3]]), misfits: new Map() },
    );
    expect(plan.consequences).toContain("Job/a: 3 waiting or running jobs of it still run to their end.");
    expect(plan.consequences).toContain("Policy/p applies to 1 job types from their next start.");
  });

  it("counts the queued jobs that a removal would cancel", () => {
    const gone = schedule("s", { onRemove: "cancel", job: "b" });
    const plan = planChanges(desire([job("b")]), inForce(desire([job("a", { onRemove: "cancel" }), job("b"), gone])), {
      live: new Map([["a", 4]]),
      cancelled: new Map([
        ["Job/a", 3],
        ["Schedule/s", 1],
      ]),
      misfits: new Map(),
    });
    expect(plan.consequences).toEqual([
      "Job/a: 3 queued jobs would be cancelled (onRemove: cancel); what runs finishes.",
      "Schedule/s fires no more.",
      "Schedule/s: 1 queued job would be cancelled (onRemove: cancel); what runs finishes.",
    ]);
  });

  it("says nothing of new code when only the removal of a job type is told otherwise", () => {
    expect(planOf([job("a")], [job("a", { onRemove: "cancel" })]).consequences).toEqual([]);
  });

  it("says that changed settings of the processes need a restart", () => {
    const plan = planChanges(
      desire([], { project: project({ scheduler: { intervalMs: 9_000, batchSize: 200 } }) }),
      inForce(desire([])),
    );
    expect(plan.changes[0]?.fields).toEqual([{ path: "/spec/runtime/scheduler/interval", before: "2s", after: "9s" }]);
    expect(plan.warnings).toEqual([expect.stringMatching(/spec\.runtime changed/)]);
  });

  it("shows no secret, in no form", () => {
    const secret = "hunter2";
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference, as files write it
    const reference = "${env:DB_PASSWORD}";
    const before = desire([], { project: project() });
    const after = desire(
      [
        job("a", {
          settings: { apiKey: secret, nested: { dbPassword: secret }, url: `https://me:${secret}@example.com/x` },
        }),
        schedule("s", { payload: { token: secret } }),
      ],
      {
        project: project({
          database: { url: `postgres://turno:${secret}@db/turno`, poolSize: 10 },
          api: { port: 8080, host: "127.0.0.1", keys: secret, allowedOrigins: [] },
        }),
      },
    );
    const plan = planChanges(after, inForce(before));
    expect(JSON.stringify(plan)).not.toContain(secret);
    expect(JSON.stringify(after.project)).not.toContain(secret);
    expect(renderPlan(plan, { colour: false })).not.toContain(secret);
    expect(hideSecrets(["password"], reference)).toBe(reference);
  });
});

describe("a plan as text", () => {
  it("lists changes field by field, consequences, and a last line that sums up", () => {
    const plan = planOf(
      [job("a"), job("gone"), schedule("s")],
      [job("a"), queue("reports", 4), schedule("s", cron("0 2 * * *"))],
      "2026-07-07T01:00:00Z",
    );
    const text = renderPlan(plan, { colour: false });
    expect(text).toContain("- Job/gone\n");
    expect(text).toMatch(/\+ Queue\/reports\n {4}\/spec\/concurrency {2}4\n/);
    expect(text).toMatch(/~ Schedule\/s\n {4}\/spec\/cron {2}0 1 \* \* \* → 0 2 \* \* \*\n/);
    expect(text).toMatch(/\n\nPlan against revision 12: 1 to create, 1 to update, 1 to delete\.\n$/);
  });

  it("says that there is nothing to do", () => {
    expect(renderPlan(planOf([job("a")], [job("a")]), { colour: false })).toBe(
      "No changes: the files are what is in force (revision 12).\n",
    );
  });

  it("keeps control characters of a value away from the terminal and cuts long ones", () => {
    const plan = planOf([job("a")], [job("a", { settings: { evil: "\u001b[2J\u009b", long: "x".repeat(500) } })]);
    const text = renderPlan(plan, { colour: false });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u0080-\u009f]/);
    expect(text).not.toContain("x".repeat(90));
  });
});
