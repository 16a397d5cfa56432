import type { ScheduleObject } from "../config/objects.ts";
import { TurnoError } from "../core/errors.ts";
import type { AppliedState } from "../protocol/ports/revisions.ts";
import { collectFires } from "../time/fire-set.ts";
import { nextFire, waitsForFinish } from "../time/next-fire.ts";
import type { Desired } from "./desired.ts";
import { addressOf } from "./object-changes.ts";
import { findRenames } from "./renames.ts";

const WEEK_MS = 7 * 86_400_000;
/** Fires that are counted of one schedule: one that fires every second would outweigh all others. */
const COUNTED_FIRES = 10_080;
const NAMED_OBJECTS = 5;

/**
 * What keeps these files from being applied unless somebody confirms it. The rules in force decide: files that relax
 * them are not yet. A protected object can't be confirmed away, its protection is lifted first.
 */
export function findRefusals(desired: Desired, applied: AppliedState): readonly TurnoError[] {
  const { maxDeletes = null, maxFireLossPercent = null } = (applied.project ?? desired.project).spec.sync?.guard ?? {};
  const kept = new Set(desired.objects.map(addressOf));
  const renamed = new Set(findRenames(desired, applied).map(({ from }) => `Schedule/${from}`));
  const removed = applied.objects.filter((object) => !kept.has(addressOf(object)) && !renamed.has(addressOf(object)));
  const refusals: TurnoError[] = [];
  const isProtected = removed.filter(
    (object) => object.kind === "Schedule" && object.spec.deletionPolicy === "Protect",
  );
  if (isProtected.length > 0) {
    refusals.push(
      new TurnoError(
        "TURNO_GUARD_PROTECTED",
        `expected protected objects to stay, found ${nameSome(isProtected.map(addressOf))} removed`,
        {
          hint: "apply them with deletionPolicy: Delete first, then remove them",
        },
      ),
    );
  }
  if (maxDeletes !== null && removed.length > maxDeletes) {
    refusals.push(
      new TurnoError(
        "TURNO_GUARD_DELETES",
        `expected at most ${maxDeletes} objects to be removed (sync.guard.maxDeletes), found ${removed.length}: ${nameSome(removed.map(addressOf))}`,
        { hint: CONFIRM },
      ),
    );
  }
  if (maxFireLossPercent !== null) {
    const loss = measureLoss(desired, applied, renamed);
    if (loss !== null && loss.percent > maxFireLossPercent) {
      refusals.push(
        new TurnoError(
          "TURNO_GUARD_FIRES",
          `expected at most ${maxFireLossPercent} % of the next seven days' fires to go (sync.guard.maxFireLossPercent), found ${Math.round(loss.percent)} %: ${nameSome(loss.schedules)}`,
          { hint: CONFIRM },
        ),
      );
    }
  }
  return refusals;
}

const CONFIRM =
  "if that is meant, apply with --confirm-deletes, run turno sync --confirm, or commit with the trailer Turno-Confirm: deletes";

/** Fires of schedules that go, or that would never fire again, among all fires of what is in force. */
function measureLoss(desired: Desired, applied: AppliedState, renamed: ReadonlySet<string>) {
  const after = new Map(desired.objects.map((object) => [addressOf(object), object]));
  const stretch = { after: applied.now, until: new Date(applied.now.getTime() + WEEK_MS) };
  const isLost = (schedule: ScheduleObject): boolean => {
    if (renamed.has(addressOf(schedule))) return false;
    const next = after.get(addressOf(schedule));
    if (next?.kind !== "Schedule") return true;
    const { timing, suspend } = next.spec;
    return !suspend && !waitsForFinish(timing) && nextFire(timing, applied.now) === null;
  };
  const inForce = applied.objects.filter((object): object is ScheduleObject => object.kind === "Schedule");
  const lost = new Set(inForce.filter((schedule) => !schedule.spec.suspend && isLost(schedule)));
  if (lost.size === 0) return null;
  let all = 0;
  let gone = 0;
  for (const schedule of inForce) {
    if (schedule.spec.suspend) continue;
    const { length } = collectFires(schedule.spec.timing, stretch, COUNTED_FIRES).fires;
    all += length;
    if (lost.has(schedule)) gone += length;
  }
  return all === 0 ? null : { percent: (gone / all) * 100, schedules: [...lost].map(addressOf) };
}

function nameSome(names: readonly string[]): string {
  const more = names.length > NAMED_OBJECTS ? ` and ${names.length - NAMED_OBJECTS} more` : "";
  return `${names.slice(0, NAMED_OBJECTS).join(", ")}${more}`;
}
