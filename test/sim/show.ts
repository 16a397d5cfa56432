import type { Plan } from "./plan.ts";
import type { SeedResult } from "./run-seed.ts";
import type { TraceEntry } from "./trace.ts";

/** The faults and wishes that are left, one a line. */
export function showPlan({ work, faults, settings }: Plan, only: ReadonlySet<string>): string {
  const { slots, concurrency, leaseMs } = settings;
  const items = [...work, ...faults].filter(({ id }) => only.has(id));
  return [
    `  ${slots} processes with ${concurrency} slots a queue, leases of ${leaseMs / 1000} s`,
    ...items.map(({ id, ...rest }) => `  ${id}: ${JSON.stringify(rest, (_key, value) => round(value))}`),
    "",
  ].join("\n");
}

/** A table of time, process, call and result; looks that found nothing are left out. */
export function showTrace({ trace }: Pick<SeedResult, "trace">, { last }: { readonly last: number }): string {
  const told = (trace ?? []).filter(isTelling);
  const rows = told.slice(Math.max(0, told.length - last));
  return rows
    .map(
      ({ atMs, who, call, result }) =>
        `${(atMs / 1000).toFixed(4).padStart(10)} s  ${who.padEnd(11)}  ${call.padEnd(16)} ${result}\n`,
    )
    .join("");
}

function isTelling({ call, result }: TraceEntry): boolean {
  return result !== "" && call !== "holdTerm" && result !== "job-started" && result !== "job-finished";
}

function round(value: unknown): unknown {
  return typeof value === "number" ? Math.round(value * 10) / 10 : value;
}
