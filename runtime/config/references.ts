import { type ProblemAt, problemAt } from "./documents.ts";
import type { LoadedDocument } from "./load.ts";
import { STANDARD_POLICY } from "./normalize.ts";
import type { DeclaredObject, ProjectSpec } from "./objects.ts";
import { nearestName, type Problem } from "./problems.ts";

/**
 * What objects name and nobody declares, and queues that no worker serves. When some document could not be read,
 * only the queues are judged: the missing object may stand there.
 */
export function findReferenceProblems(context: {
  readonly objects: readonly DeclaredObject[];
  readonly sources: ReadonlyMap<DeclaredObject, LoadedDocument>;
  /** `Kind/name` of every document, valid or not. */
  readonly declared: ReadonlySet<string>;
  readonly complete: boolean;
  readonly settings: ProjectSpec | null;
}): readonly Problem[] {
  const { objects, sources, declared, complete, settings } = context;
  const served = settings === null ? null : new Set(settings.runtime.worker.queues.map(({ name }) => name));
  const problems: Problem[] = [];
  const namesOf = (kind: string): string[] =>
    [...declared].filter((id) => id.startsWith(`${kind}/`)).map((id) => id.slice(kind.length + 1));

  for (const object of objects) {
    const source = sources.get(object);
    if (source === undefined) continue;
    const report = (problem: ProblemAt): void => void problems.push(problemAt(source, problem));
    const missing = (kind: string, name: string, field: string, also: readonly string[] = []): void => {
      const message = `${object.kind}/${object.name} names ${kind}/${name}, which no document declares`;
      const hint = nearestName(name, [...namesOf(kind), ...also]);
      report({ code: "TURNO_CONFIG_UNKNOWN_OBJECT", path: ["spec", field], message, hint });
    };
    if (object.kind === "Schedule" && complete && !declared.has(`Job/${object.spec.job}`)) {
      missing("Job", object.spec.job, "job");
    }
    if (object.kind === "Schedule" && complete) {
      const { notify = null } = object.spec.sla ?? {};
      if (notify !== null && !declared.has(`Job/${notify}`)) missing("Job", notify, "sla");
    }
    if (object.kind === "Job") {
      const { policy, queue } = object.spec;
      if (complete && policy !== STANDARD_POLICY && !declared.has(`Policy/${policy}`)) {
        missing("Policy", policy, "policy", [STANDARD_POLICY]);
      }
      if (served !== null && complete && !served.has(queue) && !declared.has(`Queue/${queue}`)) {
        missing("Queue", queue, "queue", [...served]);
      }
    }
    if (object.kind === "Queue" && served !== null && !served.has(object.name)) {
      report({
        code: "TURNO_CONFIG_UNSERVED_QUEUE",
        path: ["metadata", "name"],
        message: `no worker takes from the queue ${object.name}; its jobs wait`,
        hint: "Add it to spec.runtime.worker.queues of the project.",
        severity: "warning",
      });
    }
  }
  return problems;
}
