import { compileGlobs } from "../core/glob.ts";
import { type AssertionResult, checkAssertion } from "../time/assertions.ts";
import type { CalendarObject, DesiredState, ScheduleObject } from "./objects.ts";
import { addSpan, type TimeTest } from "./time-tests.ts";

/** How one expectation came out. */
export interface TimeTestResult extends AssertionResult {
  readonly test: TimeTest;
  readonly ok: boolean;
  readonly schedules: number;
  readonly from: Date;
  readonly to: Date;
}

/** Checks every expectation against the schedules of valid files. Suspended ones don't fire, and are left out. */
export function runTimeTests(
  tests: readonly TimeTest[],
  state: Pick<DesiredState, "objects">,
  now: Date,
): readonly TimeTestResult[] {
  const schedules = state.objects.flatMap((object) => (object.kind === "Schedule" ? [object] : []));
  const calendars = state.objects.flatMap((object) => (object.kind === "Calendar" ? [object] : []));
  return tests.map((test) => runOne(test, { schedules, calendars, now }));
}

function runOne(
  test: TimeTest,
  context: {
    readonly schedules: readonly ScheduleObject[];
    readonly calendars: readonly CalendarObject[];
    readonly now: Date;
  },
): TimeTestResult {
  const chosen = chooseSchedules(test, context.schedules);
  const from = test.from ?? context.now;
  const to = addSpan(from, test.over);
  const unknownCalendars = test.holidays.filter(
    (name) => !context.calendars.some((calendar) => calendar.name === name),
  );
  const result = checkAssertion({
    assertion: test.assertion,
    schedules: chosen
      .filter(({ spec }) => !spec.suspend)
      .map(({ name, spec }) => ({ name, timing: spec.timing, timeZone: spec.timeZone })),
    from,
    to,
    timeZone: test.timeZone,
    holidays: context.calendars
      .filter(({ name }) => test.holidays.includes(name))
      .map(({ name, spec }) => ({ ...spec, name })),
  });
  const unknown = [
    ...describeChoice(test, chosen),
    ...unknownCalendars.map((name) => `there is no Calendar/${name}`),
    ...result.unknown,
  ];
  return {
    ...result,
    unknown,
    test,
    ok: result.failureCount === 0 && unknown.length === 0,
    schedules: chosen.length,
    from,
    to,
  };
}

/** By name and by labels; both when both are given. */
function chooseSchedules({ schedules, labels }: TimeTest, all: readonly ScheduleObject[]): readonly ScheduleObject[] {
  const names = schedules === null ? null : compileGlobs(schedules);
  const wanted = Object.entries(labels);
  return all.filter(
    (schedule) =>
      (names === null || names.matches(schedule.name)) &&
      wanted.every(([key, value]) => schedule.labels[key] === value),
  );
}

/** An expectation about nothing holds for the wrong reason: a schedule was renamed, or lost its label. */
function describeChoice({ schedules, labels }: TimeTest, chosen: readonly ScheduleObject[]): readonly string[] {
  const missing = (schedules ?? []).filter((pattern) => {
    const { matches } = compileGlobs([pattern]);
    return !chosen.some(({ name }) => matches(name));
  });
  if (missing.length > 0) return missing.map((pattern) => `no schedule is named ${pattern}`);
  if (chosen.length > 0) return [];
  return Object.keys(labels).length === 0 ? ["no schedule is declared"] : ["no schedule has these labels"];
}
