import { listClockChanges } from "./clock-change-notes.ts";
import { parseCron } from "./cron.ts";
import type { NamedFires } from "./fire-load.ts";
import { collectFires, hasForeseeableFires, instantText } from "./fire-set.ts";
import { firesBetween, nextFire, noteClockChange } from "./next-fire.ts";
import { formatLocal } from "./time-zone.ts";
import type { Timing } from "./timing.ts";

/** A schedule as lint looks at it. */
export interface LintedSchedule {
  readonly name: string;
  readonly timing: Timing;
  readonly timeZone: string;
}

export type LintRule = "NEVER_FIRES" | "EITHER_DAY" | "CLOCK_CHANGE" | "TOP_OF_HOUR" | "SAME_SECOND";

/** Something that works as it is written, and probably is not what was meant. */
export interface LintFinding {
  readonly rule: LintRule;
  readonly schedule: string;
  /** Member of `spec` that it is about. */
  readonly member: "cron" | "every" | "at";
  readonly message: string;
  readonly hint: string | null;
}

export interface LintOptions {
  readonly now: Date;
  /** Schedules at one instant from which on it is a pile-up. */
  readonly pileUp: number;
}

const DAY_MS = 86_400_000;
/** Both clock changes of a year, wherever it begins. */
const CLOCK_CHANGE_SPAN_MS = 400 * DAY_MS;
const LOAD_SPAN_MS = 7 * DAY_MS;
/** Schedules that fire more often than twice an hour meet every other one anyhow. */
const SPARSE_FIRES = 7 * 24 * 2;
const LOOKED_FIRES = 5_000;
/** From every third hour on, one more or less is no event. */
const REGULAR_HOURS = 8;

/** Looks at each schedule by itself and at all of them together. Pure. */
export function lintSchedules(schedules: readonly LintedSchedule[], options: LintOptions): readonly LintFinding[] {
  const alone = schedules.flatMap((schedule) => {
    const never = findNeverFires(schedule, options.now);
    return [...(never ?? findClockChange(schedule, options.now)), ...findEitherDay(schedule)];
  });
  return [...alone, ...findPileUps(schedules, options)];
}

function findNeverFires({ name, timing }: LintedSchedule, now: Date): readonly LintFinding[] | null {
  if (!hasForeseeableFires(timing) || nextFire(timing, now) !== null) return null;
  const member = timing.kind;
  const message =
    timing.kind === "at"
      ? `${timing.at} has passed: Schedule/${name} fires no more`
      : `Schedule/${name} never fires: no instant of its timing lies ahead`;
  return [{ rule: "NEVER_FIRES", schedule: name, member, message, hint: "Correct its timing, or remove it." }];
}

function findEitherDay({ name, timing }: LintedSchedule): readonly LintFinding[] {
  return parseExpressions(timing).flatMap(({ expression, cron }): LintFinding[] => {
    if (!cron.dayOfMonth.restricted || !cron.dayOfWeek.restricted) return [];
    return [
      {
        rule: "EITHER_DAY",
        schedule: name,
        member: "cron",
        message: `"${expression}" restricts both the day of the month and the day of the week: it fires on days that match either of them`,
        hint: "Write * for one of them; for a weekday of the month write FRI#2 or FRIL.",
      },
    ];
  });
}

/** Fixed times that a clock change moves or drops, where the schedule does not say what is to happen. */
function findClockChange(schedule: LintedSchedule, now: Date): readonly LintFinding[] {
  const { name, timing, timeZone } = schedule;
  if (timing.kind !== "cron" || timing.dst !== undefined) return [];
  // What fires through the whole day follows real time, and is meant to.
  if (parseExpressions(timing).every(({ cron }) => cron.open && cron.hours.length >= REGULAR_HOURS)) return [];
  const stretch = { after: now, until: new Date(now.getTime() + CLOCK_CHANGE_SPAN_MS) };
  const effects = listClockChanges(timeZone, stretch, 4).flatMap(({ at, day, before, after }) => {
    const around = firesBetween(
      timing,
      new Date(at.getTime() - DAY_MS / 4),
      new Date(at.getTime() + DAY_MS / 4),
      LOOKED_FIRES,
    );
    const noted = around.find((fire) => noteClockChange(timing, fire) !== null);
    const note = noted === undefined ? null : noteClockChange(timing, noted);
    if (noted !== undefined && note !== null) {
      return [`${day} (clocks ${before} → ${after}): ${note}, at ${formatLocal(noted, timeZone)}`];
    }
    const week = 7 * DAY_MS;
    const usual = countFires(timing, new Date(at.getTime() - week));
    const that = countFires(timing, at);
    if (usual === that || usual === 0) return [];
    return [`${day} (clocks ${before} → ${after}): fires ${that} times around it instead of ${usual}`];
  });
  const [first] = effects;
  if (first === undefined) return [];
  return [
    {
      rule: "CLOCK_CHANGE",
      schedule: name,
      member: "cron",
      message: `the times of Schedule/${name} meet the clock changes of ${timeZone}. ${first}`,
      hint: "Choose a time that no clock change touches, or a zone without them such as UTC.",
    },
  ];
}

/** Fires in the six hours around an instant. */
function countFires(timing: Timing, around: Date): number {
  const [after, until] = [-3, 3].map((hours) => new Date(around.getTime() + hours * 3_600_000 - 1));
  return after === undefined || until === undefined ? 0 : firesBetween(timing, after, until, LOOKED_FIRES).length;
}

function findPileUps(schedules: readonly LintedSchedule[], { now, pileUp }: LintOptions): readonly LintFinding[] {
  const stretch = { after: now, until: new Date(now.getTime() + LOAD_SPAN_MS) };
  const sparse = schedules.flatMap(({ name, timing }): NamedFires[] => {
    const { fires, complete } = collectFires(timing, stretch, SPARSE_FIRES);
    return complete ? [{ name, fires }] : [];
  });
  const crowds = measureCrowds(sparse, pileUp);
  return schedules.flatMap(({ name, timing }): LintFinding[] => {
    const crowd = crowds.get(name);
    if (crowd === undefined) return [];
    const isTop = crowd.at % 3_600_000 === 0;
    return [
      {
        rule: isTop ? "TOP_OF_HOUR" : "SAME_SECOND",
        schedule: name,
        member: timing.kind,
        message: `Schedule/${name} fires together with ${crowd.count - 1} ${crowd.count === 2 ? "other" : "others"} at ${instantText(crowd.at)}${isTop ? ", the top of the hour" : ""}`,
        hint: "Spread them: with H for the minute each gets one of its own, by its name.",
      },
    ];
  });
}

/** The largest crowd that each schedule stands in, where one has as many as `pileUp`. */
function measureCrowds(
  schedules: readonly NamedFires[],
  pileUp: number,
): ReadonlyMap<string, { readonly at: number; readonly count: number }> {
  const counts = new Map<number, number>();
  for (const { fires } of schedules) for (const at of fires) counts.set(at, (counts.get(at) ?? 0) + 1);
  const crowds = new Map<string, { at: number; count: number }>();
  for (const { name, fires } of schedules) {
    for (const at of fires) {
      const count = counts.get(at) ?? 0;
      if (count >= pileUp && count > (crowds.get(name)?.count ?? 0)) crowds.set(name, { at, count });
    }
  }
  return crowds;
}

function parseExpressions(timing: Timing) {
  if (timing.kind !== "cron") return [];
  return [timing.expression, ...(timing.others ?? [])].flatMap((expression) => {
    const parsed = parseCron(expression, timing.seed);
    return parsed.ok ? [{ expression, cron: parsed.cron }] : [];
  });
}
