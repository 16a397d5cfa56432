import { type Figure, MOST_LABEL_VALUES, type ProcessFigures } from "../../protocol/ports/metrics.ts";
import type { Observer } from "../../protocol/ports/surroundings.ts";

/** Counts what a worker process does, and passes each event on. */
export function createEventCounters(next: Observer): Observer & { read(): ProcessFigures } {
  const types = new Set<string>();
  const started = new Map<string, number>();
  const executions = new Map<string, Map<string, number>>();
  let lost = 0;
  let renewalsFailing = false;

  const nameOf = (type: string): string => {
    if (types.size < MOST_LABEL_VALUES) types.add(type);
    return types.has(type) ? type : "other";
  };
  const countEnd = (type: string, outcome: string) => {
    const name = nameOf(type);
    const outcomes = executions.get(name) ?? new Map<string, number>();
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    executions.set(name, outcomes);
  };

  return {
    observe(event) {
      if (event.kind === "job-started") {
        const name = nameOf(event.type);
        started.set(name, (started.get(name) ?? 0) + 1);
      } else if (event.kind === "job-finished") countEnd(event.type, event.outcome);
      else if (event.kind === "fenced") countEnd(event.type, "fenced");
      else if (event.kind === "lease-lost") countEnd(event.type, "lost-lease");
      else if (event.kind === "worker-lost") lost += 1;
      else if (event.kind === "leases-failing") renewalsFailing = true;
      else if (event.kind === "leases-renewed") renewalsFailing = false;
      next.observe(event);
    },
    read: () => ({
      started: [...started].map(([type, value]): Figure => ({ labels: [type], value })),
      executions: [...executions].flatMap(([type, outcomes]) =>
        [...outcomes].map(([outcome, value]): Figure => ({ labels: [type, outcome], value })),
      ),
      lost,
      renewalsFailing,
    }),
  };
}
