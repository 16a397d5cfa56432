import type { Command } from "commander";
import { readProjectFiles } from "../../adapters/files/read-project.ts";
import type { DesiredState, ScheduleObject } from "../../config/objects.ts";
import { TurnoError } from "../../core/errors.ts";
import { addMonths, type CalendarMonth, layOutMonth } from "../../time/fire-calendar.ts";
import { instantText } from "../../time/fire-set.ts";
import { formatLocal, isTimeZone } from "../../time/time-zone.ts";
import { VERSION } from "../../version.ts";
import { writeICalendar } from "../icalendar.ts";
import { type CommandIo, EXIT, type ExitCode, printJson } from "../io.ts";
import { countFires, renderMonth } from "../month-text.ts";
import { loadBy, projectRoot } from "../project.ts";

interface CalendarOptions {
  readonly dir?: string;
  readonly month?: string;
  readonly months: string;
  readonly tz?: string;
  readonly ics?: boolean;
  readonly json?: boolean;
}

const MOST_MONTHS = 24;

/** `turno calendar`: the fires of a month, in the terminal or as an iCalendar. */
export function addCalendarCommand(
  program: Command,
  io: CommandIo,
  setExitCode: (code: ExitCode) => void,
  now: () => Date,
): void {
  program
    .command("calendar")
    .description("show a month of fires, of some schedules or of all")
    .argument("[schedules...]", "names of schedules (default: all)")
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--month <month>", "the first month, such as 2026-12 (default: this one)")
    .option("--months <n>", `how many months, 1 to ${MOST_MONTHS}`, "1")
    .option("--tz <zone>", "zone of the days (default: the schedule's when it is one, else the project's, else UTC)")
    .option("--ics", "print an iCalendar, for other programs")
    .option("--json", "print JSON")
    .action(async (names: readonly string[], options: CalendarOptions) => {
      checkUsage(options);
      const root = projectRoot(io, options.dir);
      const { state, problems } = loadBy(root, io.env)(await readProjectFiles(root));
      if (state === null) {
        const count = problems.filter(({ severity }) => severity === "error").length;
        throw new TurnoError("TURNO_PROJECT_INVALID", `the project's files have ${count} problems`, {
          hint: "turno validate shows all",
        });
      }
      const schedules = chooseSchedules(state, names);
      const timeZone = options.tz ?? defaultZone(state, schedules);
      const first = options.month ?? formatLocal(now(), timeZone).slice(0, 7);
      const months = Array.from({ length: Number(options.months) }, (_, index) =>
        layOutMonth(
          schedules.map(({ name, spec }) => ({ name, timing: spec.timing })),
          { month: addMonths(first, index), timeZone },
        ),
      );
      if (options.ics === true) printICalendar(io, months, { schedules, now: now() });
      else if (options.json === true)
        printJson(
          io,
          months.map((month) => ({ ...toJson(month), timeZone })),
        );
      else io.out(months.map((month) => renderMonth(month, timeZone)).join("\n"));
      setExitCode(EXIT.done);
    });
}

function checkUsage({ month, months, tz, ics, json }: CalendarOptions): void {
  const fail = (message: string): never => {
    throw new TurnoError("TURNO_USAGE", message);
  };
  if (month !== undefined && !/^[12]\d{3}-(0[1-9]|1[0-2])$/.test(month)) {
    fail(`expected a month such as 2026-12 after --month, found "${month}"`);
  }
  const count = /^\d{1,2}$/.test(months) ? Number(months) : 0;
  if (count < 1 || count > MOST_MONTHS) fail(`expected --months from 1 to ${MOST_MONTHS}, found "${months}"`);
  if (tz !== undefined && !isTimeZone(tz)) {
    fail(`expected a time zone such as Europe/Berlin or UTC after --tz, found "${tz}"`);
  }
  if (ics === true && json === true) fail("expected --ics or --json, found both");
}

/** Suspended ones don't fire, unless they are asked for by name. */
function chooseSchedules(state: DesiredState, names: readonly string[]): readonly ScheduleObject[] {
  const all = state.objects.flatMap((object) => (object.kind === "Schedule" ? [object] : []));
  if (names.length === 0) return all.filter(({ spec }) => !spec.suspend);
  return names.map((name) => {
    const found = all.find((schedule) => schedule.name === name);
    if (found !== undefined) return found;
    throw new TurnoError("TURNO_SCHEDULE_NOT_FOUND", `the files declare no schedule "${name}"`);
  });
}

function defaultZone(state: DesiredState, schedules: readonly ScheduleObject[]): string {
  const [only, ...others] = schedules;
  if (only !== undefined && others.length === 0) return only.spec.timeZone;
  return state.project.spec.timeZone ?? "UTC";
}

function printICalendar(
  io: CommandIo,
  months: readonly CalendarMonth[],
  { schedules, now }: { readonly schedules: readonly ScheduleObject[]; readonly now: Date },
): void {
  const descriptions = new Map(schedules.map(({ name, description }) => [name, description]));
  const { text, leftOut } = writeICalendar(months, {
    now,
    version: VERSION,
    describe: (name) => descriptions.get(name) ?? null,
  });
  io.out(text);
  if (leftOut.length > 0) io.err(`turno calendar: left out, since they fire too often: ${leftOut.join(", ")}\n`);
}

function toJson({ month, days, incomplete, unforeseeable }: CalendarMonth) {
  return {
    month,
    days: days.map((day) => ({
      date: day.date,
      fires: countFires(day),
      schedules: day.fires.map(({ name, instants }) => ({ name, fires: instants.map(instantText) })),
      clockChange: day.clockChange,
      leftOut: day.leftOut,
    })),
    incomplete,
    unforeseeable,
  };
}
