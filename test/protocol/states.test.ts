import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { ATTEMPT_OUTCOMES } from "../../runtime/protocol/ports/jobs.ts";
import {
  assertMove,
  FINAL_STATES,
  HOLDS,
  isFinal,
  JOB_STATES,
  mayMove,
  TRANSITIONS,
} from "../../runtime/protocol/states.ts";

const read = (path: string): string => readFileSync(new URL(`../../runtime/${path}`, import.meta.url), "utf8");

describe("the state table", () => {
  it("stands in the documentation as it stands in the code", () => {
    const rows = [
      ...read("protocol/README.md").matchAll(/^\| (\(new\)|\w+) \| (\w+) \| ([\w ]+?) \| (\w+ )?\|$/gm),
    ].map(([, from, to, reason, charge]) => [from === "(new)" ? null : from, to, reason, charge?.trim() ?? null]);
    expect(rows.slice(1)).toEqual(TRANSITIONS);
  });

  it("stands in the database's constraints", () => {
    const sql = read("adapters/postgres/migrations/0001-core.sql");
    const later = read("adapters/postgres/migrations/0009-parent-jobs.sql");
    const list = (values: readonly string[]): string => `(${values.map((value) => `'${value}'`).join(", ")})`;
    expect(sql).toContain(`check (state in ${list(JOB_STATES)})`);
    expect(sql).toContain(`check (hold in ${list(HOLDS)})`);
    expect(later).toContain(`check (outcome in ${list(ATTEMPT_OUTCOMES)})`);
    expect(sql).toContain(`check (final = (state in ${list(FINAL_STATES)}))`);
  });

  it("lets a job leave a final state only by a new generation", () => {
    for (const [from, , reason, charge] of TRANSITIONS) {
      if (from !== null && isFinal(from)) expect([reason, charge]).toEqual(["requeued", "generation"]);
    }
  });

  it("leads from every state to an end", () => {
    for (const state of JOB_STATES) {
      const reached = new Set([state]);
      for (const from of reached) for (const to of JOB_STATES) if (mayMove({ from, to })) reached.add(to);
      expect(FINAL_STATES.some((final) => reached.has(final))).toBe(true);
    }
  });

  it("stops the program that asks for a move it does not have", () => {
    expect(() => assertMove({ from: "Scheduled", to: "Processing" })).toThrow(
      "no transition from Scheduled to Processing",
    );
    expect(() => assertMove({ from: "Enqueued", to: "Processing" })).not.toThrow();
  });
});
