import { describe, expect, it } from "vitest";
import { assumeApplied } from "../../runtime/reconcile/applied-from-files.ts";
import { describeChanges, readWords } from "../../runtime/reconcile/change-words.ts";
import type { ObjectChange } from "../../runtime/reconcile/object-changes.ts";
import { planChanges } from "../../runtime/reconcile/plan.ts";
import { cron, desire, job, policy, schedule } from "./desired-fixture.ts";

const NOW = new Date("2026-07-06T15:00:00Z");

function words(before: Parameters<typeof desire>, after: Parameters<typeof desire>): readonly string[] {
  const { changes } = planChanges(desire(...after), assumeApplied(desire(...before), NOW));
  return describeChanges(changes, (object) => (object === "Schedule/night" ? "Europe/Berlin" : null));
}

describe("changes in words", () => {
  it("say times of the day with their zone, and other fields by name", () => {
    const night = (expression: string) => schedule("night", cron(expression, "Europe/Berlin"));
    const retrying = (maxAttempts: number) => {
      const base = policy("calm");
      return policy("calm", { retry: { ...base.spec.retry, maxAttempts } });
    };
    expect(
      words(
        [[job("a", { timeoutMs: 300_000 }), night("0 2 * * *"), retrying(3)]],
        [[job("a", { timeoutMs: 600_000 }), night("0 3 * * *"), retrying(5)]],
      ),
    ).toEqual(["Job/a timeout 5m → 10m", "Policy/calm attempts 3 → 5", "Schedule/night 02:00 → 03:00 Europe/Berlin"]);
    expect(words([[job("a"), night("0 2 * * *")]], [[job("a"), night("0 2 * * 1-5")]])).toEqual([
      "Schedule/night cron 0 2 * * * → 0 2 * * 1-5 Europe/Berlin",
    ]);
  });

  it("tell what is new, gone, renamed, and of new code", () => {
    const before = [job("a"), schedule("old"), schedule("gone")];
    const after = [job("a"), schedule("new", { previousNames: ["old"] }), schedule("more", cron("*/5 * * * *"))];
    expect(words([before], [after, { code: "export default 2;" }])).toEqual([
      "Job/a new code",
      "Schedule/gone removed",
      "Schedule/more created (cron */5 * * * *)",
      "Schedule/new renamed from old",
    ]);
  });

  it("stay one short line whatever a value holds", () => {
    const change: ObjectChange = {
      action: "update",
      object: "Schedule/s",
      fields: Array.from({ length: 9 }, (_, index) => ({
        path: `/spec/payload/f${index}`,
        before: "x\u001b[2J\n",
        after: "y".repeat(500),
      })),
    };
    const [line = "", ...more] = describeChanges([change]);
    expect(more).toEqual([]);
    expect(line).not.toMatch(/\p{Cc}/u);
    expect(line).toMatch(/, and 3 more fields$/);
    expect(line.length).toBeLessThan(700);
  });

  it("are none for what an older version kept in another shape", () => {
    expect(readWords({ odd: true })).toEqual([]);
  });
});
