import type { ScheduleObject } from "../config/objects.ts";
import type { AppliedState } from "../protocol/ports/revisions.ts";
import { firstFireAfterEdit } from "../time/due.ts";
import { hashTiming } from "../time/timing-hash.ts";

/** What becomes of a schedule's next fire. `keep` leaves it to the scheduler. */
export type FireDecision =
  | { readonly kind: "keep"; readonly at: Date | null }
  | { readonly kind: "set"; readonly at: Date | null; readonly before: Date | null };

/**
 * The edit rule: the same timing keeps its next fire whatever else changed; a new schedule, another timing or a lifted
 * suspend starts strictly after the apply. A suspended schedule has no next fire to set.
 */
export function decideNextFire(schedule: ScheduleObject, applied: AppliedState): FireDecision {
  const known = applied.schedules.find(({ name }) => name === schedule.name);
  const { timing, suspend } = schedule.spec;
  const sameTiming = known !== undefined && known.timingHash === hashTiming(timing);
  if (sameTiming && (suspend || !known.suspended)) return { kind: "keep", at: known.nextFireAt };
  const at = suspend ? null : firstFireAfterEdit(timing, applied.now);
  return { kind: "set", at, before: known === undefined || known.suspended ? null : known.nextFireAt };
}
