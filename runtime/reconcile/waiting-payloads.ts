import { compilePayloadSchema } from "../config/payload.ts";
import { canonicalJson } from "../core/json.ts";
import type { AppliedState, RevisionStore } from "../protocol/ports/revisions.ts";
import type { Desired } from "./desired.ts";

/** Waiting jobs that a new payload schema does not fit, of those that were looked at: the newest ones. */
export interface Misfits {
  readonly misfits: number;
  readonly looked: number;
}

/** Waiting jobs of one type that a plan looks at. */
const LOOKED_JOBS = 1_000;

/** Job types whose payload schema changes, with the waiting jobs that would end as Failed by it; others are absent. */
export async function countMisfits(
  store: Pick<RevisionStore, "loadWaitingPayloads">,
  desired: Desired,
  applied: Pick<AppliedState, "jobTypes">,
): Promise<ReadonlyMap<string, Misfits>> {
  const found = new Map<string, Misfits>();
  for (const { name, definition: before } of applied.jobTypes) {
    const schema = desired.definitions.get(name)?.definition.payloadSchema ?? null;
    if (schema === null || canonicalJson(schema) === canonicalJson(before.payloadSchema)) continue;
    const compiled = compilePayloadSchema(schema);
    if (!compiled.ok) continue;
    const payloads = await store.loadWaitingPayloads(name, LOOKED_JOBS);
    const misfits = payloads.filter((payload) => compiled.validate(payload).length > 0).length;
    if (misfits > 0) found.set(name, { misfits, looked: payloads.length });
  }
  return found;
}
