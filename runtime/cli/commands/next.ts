import type { Command } from "commander";
import { humanDuration } from "../../core/duration.ts";
import { TurnoError } from "../../core/errors.ts";
import { parseCron } from "../../time/cron.ts";
import { firesBetween, nextFire, noteClockChange, parseInstant } from "../../time/next-fire.ts";
import { formatLocal, isTimeZone } from "../../time/time-zone.ts";
import type { Timing } from "../../time/timing.ts";
import { type CommandIo, EXIT, type ExitCode, printJson } from "../io.ts";
import { usage } from "../usage.ts";

/** When a declared schedule fires, and the zone its fires are shown in; null: the files declare no such schedule. */
export type LoadSchedule = (
  name: string,
  dir: string | undefined,
) => Promise<{ readonly timing: Timing; readonly timeZone: string } | null>;

/** One line of `turno next --json`. */
export interface NextFire {
  /** RFC 3339 in UTC. */
  readonly at: string;
  /** RFC 3339 in the schedule's zone. */
  readonly local: string;
  /** What a clock change did to this fire. */
  readonly note: string | null;
}

interface NextOptions {
  readonly dir?: string;
  readonly cron?: string;
  readonly tz?: string;
  readonly from?: string;
  readonly count: string;
  readonly json?: boolean;
}

const MAX_COUNT = 1_000;
const LAST_INSTANT = new Date(Date.UTC(9999, 11, 31, 23, 59, 59));

/** `turno next`: the next fires of a declared schedule or of any cron expression. `now` is the default of `--from`. */
export function addNextCommand(
  program: Command,
  io: CommandIo,
  setExitCode: (code: ExitCode) => void,
  loadSchedule: LoadSchedule,
  now: () => Date,
): void {
  program
    .command("next")
    .description("show the next fires of a schedule or of a cron expression")
    .argument("[schedule]", "name of a declared schedule")
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--cron <expression>", "a cron expression in place of a schedule")
    .option("--tz <zone>", "time zone of the cron expression, such as Europe/Berlin")
    .option("--from <instant>", "list fires after this instant, such as 2026-03-28T00:00:00Z (default: now)")
    .option("--count <number>", "how many fires, 1 to 1000", "5")
    .option("--json", "print JSON")
    .action(async (schedule: string | undefined, options: NextOptions) => {
      const problem = findUsageProblem(schedule, options);
      if (problem !== null) {
        io.err(`turno next: ${problem}\n`);
        setExitCode(EXIT.usage);
        return;
      }
      const { timing, timeZone } = await readTiming(schedule, options, loadSchedule);
      const from = options.from === undefined ? now() : usage("--from", () => parseInstant(options.from ?? ""));
      const fires = listFires(timing, timeZone, from, Number(options.count));
      if (options.json === true) printJson(io, fires);
      else io.out(formatFires(timing, fires, from));
      setExitCode(EXIT.done);
    });
}

function findUsageProblem(schedule: string | undefined, options: NextOptions): string | null {
  if (schedule !== undefined && options.cron !== undefined) return "give the name of a schedule or --cron, not both";
  if (schedule === undefined && options.cron === undefined) return "give the name of a schedule, or --cron and --tz";
  if (schedule !== undefined && options.tz !== undefined) return "--tz goes with --cron; a schedule has its own zone";
  if (options.cron !== undefined && options.tz === undefined) {
    return "--cron needs --tz, for example --tz Europe/Berlin; there is no default zone";
  }
  const count = /^\d{1,4}$/.test(options.count) ? Number(options.count) : 0;
  if (count < 1 || count > MAX_COUNT) return `expected --count from 1 to ${MAX_COUNT}, found "${options.count}"`;
  return null;
}

async function readTiming(
  schedule: string | undefined,
  options: NextOptions,
  loadSchedule: LoadSchedule,
): Promise<{ readonly timing: Timing; readonly timeZone: string }> {
  if (schedule === undefined) {
    const { cron: expression = "", tz: timeZone = "" } = options;
    if (!isTimeZone(timeZone)) {
      throw new TurnoError(
        "TURNO_USAGE",
        `expected a time zone such as Europe/Berlin or UTC after --tz, found "${timeZone}"`,
      );
    }
    const cron = parseCron(expression);
    if (!cron.ok) {
      const field = cron.field === "expression" ? "" : `${cron.field}: `;
      const hint = cron.hint === undefined || cron.hint === null ? {} : { hint: cron.hint };
      throw new TurnoError("TURNO_USAGE", `--cron is not valid: ${field}${cron.message}`, hint);
    }
    return { timing: { kind: "cron", expression, timeZone }, timeZone };
  }
  const loaded = await loadSchedule(schedule, options.dir);
  if (loaded !== null) return loaded;
  throw new TurnoError("TURNO_SCHEDULE_NOT_FOUND", `the files declare no schedule "${schedule}"`, {
    hint: "look at the names in the folder the project includes",
  });
}

function listFires(timing: Timing, timeZone: string, from: Date, count: number): readonly NextFire[] {
  return firesBetween(timing, from, LAST_INSTANT, count).map((fire) => ({
    at: fire.toISOString().replace(".000Z", "Z"),
    local: formatLocal(fire, timeZone),
    note: noteClockChange(timing, fire),
  }));
}

function formatFires(timing: Timing, fires: readonly NextFire[], from: Date): string {
  if (timing.kind === "every" && timing.from === "finish") {
    const wait = humanDuration(timing.intervalMs);
    return `fires ${wait} after the end of each run; the instant is known when a run has ended\n`;
  }
  if (fires.length === 0) return nextFire(timing, new Date(0)) === null ? "never fires\n" : "never fires again\n";
  const lines = fires.map(({ at, local, note }) => {
    const wait = `in ${humanDuration(Date.parse(at) - from.getTime())}`;
    return `${local}  ${at}  ${wait}${note === null ? "" : `  (${note})`}`;
  });
  return `${lines.join("\n")}\n`;
}
