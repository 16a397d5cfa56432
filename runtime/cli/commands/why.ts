import type { Command } from "commander";
import { humanDuration } from "../../core/duration.ts";
import { TurnoError } from "../../core/errors.ts";
import type { FireView } from "../../protocol/ports/panel.ts";
import { explainInstant, readWallTime } from "../../time/explain.ts";
import { instantText } from "../../time/fire-set.ts";
import { parseInstant } from "../../time/next-fire.ts";
import { findFirstInstant, formatLocal } from "../../time/time-zone.ts";
import type { Timing } from "../../time/timing.ts";
import { type CommandIo, EXIT, type ExitCode } from "../io.ts";
import { usage } from "../usage.ts";
import { type ClientOptions, closing, type OpenClient, show, withClientOptions } from "./jobs.ts";
import type { LoadSchedule } from "./next.ts";

interface WhyOptions extends ClientOptions {
  readonly at: string;
  readonly files?: boolean;
}

/** A schedule as the API gives it. */
interface ScheduleBody {
  readonly timing: Timing;
  readonly timeZone: string;
  readonly suspended: boolean;
  readonly nextFireAt: string | null;
  readonly declaredAt: string | null;
  readonly now: string;
}

interface RecordBody {
  readonly at: string;
  readonly outcome: FireView["outcome"];
  readonly jobId: string | null;
  readonly state: string | null;
  readonly lateByMs: number;
  readonly blockedBy: string | null;
  readonly olderSkips: number;
}

export type Verdict = "fired" | "skipped" | "will-fire" | "does-not-fire" | "no-record";

/** What `turno why --json` prints. */
export interface Why {
  readonly schedule: string;
  readonly at: string;
  readonly local: string;
  readonly timeZone: string;
  readonly verdict: Verdict;
  /** Why, a sentence each. */
  readonly reasons: readonly string[];
  readonly jobId: string | null;
  readonly previous: string | null;
  readonly next: string | null;
}

/** `turno why`: whether a schedule fired at an instant or will, and why or why not. */
export function addWhyCommand(
  program: Command,
  io: CommandIo,
  setExitCode: (code: ExitCode) => void,
  sources: { readonly openClient: OpenClient; readonly loadSchedule: LoadSchedule },
): void {
  withClientOptions(
    program.command("why <schedule>").description("tell why a schedule fired at an instant, or did not, or will not"),
  )
    .requiredOption("--at <instant>", "2026-03-29T03:00:00Z, or in the schedule's zone 2026-03-29T02:30")
    .option("--files", "by the files alone, without what was recorded")
    .action(async (name: string, options: WhyOptions) => {
      const answers =
        options.files === true
          ? await explainFromFiles({ name, options, loadSchedule: sources.loadSchedule })
          : await explainFromRecord({ name, options, openClient: sources.openClient });
      show(io, options, answers, answers.map(whyText).join("\n"));
      setExitCode(EXIT.done);
    });
}

async function explainFromFiles(request: {
  readonly name: string;
  readonly options: WhyOptions;
  readonly loadSchedule: LoadSchedule;
}): Promise<readonly Why[]> {
  const { name, options } = request;
  const loaded = await request.loadSchedule(name, options.dir);
  if (loaded === null) throw new TurnoError("TURNO_SCHEDULE_NOT_FOUND", `the files declare no schedule "${name}"`);
  const { instants, remark } = readAt(options.at, loaded);
  return instants.map((at) => {
    const { isFire, reasons } = explainInstant(loaded.timing, loaded.timeZone, at);
    const verdict = isFire === false ? "does-not-fire" : "will-fire";
    return answer({ name, at, ...loaded, verdict, reasons: [...remark, ...reasons], jobId: null });
  });
}

async function explainFromRecord(request: {
  readonly name: string;
  readonly options: WhyOptions;
  readonly openClient: OpenClient;
}): Promise<readonly Why[]> {
  const { name, options } = request;
  await using client = closing(await request.openClient(options));
  const path = `/api/recurring-jobs/${encodeURIComponent(name)}`;
  const schedule = await client.get<ScheduleBody>(path);
  const { instants, remark } = readAt(options.at, schedule);
  const answers: Why[] = [];
  for (const at of instants) {
    const text = encodeURIComponent(at.toISOString());
    const { items } = await client.get<{ items: readonly RecordBody[] }>(
      `${path}/fires?from=${text}&to=${text}&limit=1`,
    );
    const judged = judge(schedule, at, items[0] ?? null);
    answers.push(answer({ name, at, ...schedule, ...judged, reasons: [...remark, ...judged.reasons] }));
  }
  return answers;
}

/** An instant, or what a wall time of the schedule's zone names: two in a repeated hour, the end of a gap. */
function readAt(
  text: string,
  { timeZone }: Pick<ScheduleBody, "timeZone">,
): { readonly instants: readonly Date[]; readonly remark: readonly string[] } {
  const wall = usage("--at", () => readWallTime(text, timeZone));
  if (wall === null) return { instants: [usage("--at", () => parseInstant(text))], remark: [] };
  if (wall.length === 0) {
    const end = new Date(
      findFirstInstant(timeZone, parseInstant(`${text.replace(" ", "T").padEnd(19, ":00")}Z`).getTime()),
    );
    return {
      instants: [end],
      remark: [`${text} does not exist in ${timeZone}: clocks go forward to ${formatLocal(end, timeZone)}`],
    };
  }
  return { instants: wall, remark: [] };
}

function judge(
  schedule: ScheduleBody,
  at: Date,
  record: RecordBody | null,
): { readonly verdict: Verdict; readonly reasons: readonly string[]; readonly jobId: string | null } {
  const { timing, timeZone } = schedule;
  const now = new Date(schedule.now);
  const { isFire, reasons } = explainInstant(timing, timeZone, at);
  if (record !== null) {
    const told = describeRecord(record);
    return {
      verdict: told.fired ? "fired" : "skipped",
      reasons: [told.reason, ...(isFire === true ? reasons : [])],
      jobId: record.jobId,
    };
  }
  if (isFire === false) return { verdict: "does-not-fire", reasons, jobId: null };
  if (at > now) {
    if (schedule.suspended) {
      return { verdict: "does-not-fire", reasons: ["the schedule is suspended", ...reasons], jobId: null };
    }
    return { verdict: "will-fire", reasons, jobId: null };
  }
  return { verdict: "no-record", reasons: [...describeAbsence(schedule, at, now), ...reasons], jobId: null };
}

const SKIPS: Partial<Record<FireView["outcome"], string>> = {
  missed: "missed: nobody led when it was due, and the misfire policy or its deadline let it go",
  superseded: "missed: nobody led when it was due, and a newer instant ran in its place (misfirePolicy latest)",
  calendar: "a calendar leaves it out",
};
const FIRES: Partial<Record<FireView["outcome"], string>> = {
  manual: "fired by hand",
  "on-start": "fired by runOnStart",
  backfill: "made up for by a backfill",
};

function describeRecord(record: RecordBody): { readonly fired: boolean; readonly reason: string } {
  const older = record.olderSkips > 0 ? `; ${record.olderSkips} instants before it were skipped with it` : "";
  const skip = SKIPS[record.outcome];
  if (skip !== undefined) return { fired: false, reason: `${skip}${older}` };
  if (record.outcome === "overlapped") {
    const blocker = record.blockedBy === null ? "a run" : `job ${record.blockedBy}`;
    return { fired: false, reason: `skipped: ${blocker} of the schedule was in its way (concurrencyPolicy)` };
  }
  const late = record.lateByMs >= 1_000 ? `, ${humanDuration(record.lateByMs)} late` : "";
  const job =
    record.jobId === null ? "" : `: job ${record.jobId}${record.state === null ? ", cleaned up" : `, ${record.state}`}`;
  return { fired: true, reason: `${FIRES[record.outcome] ?? "fired"}${job}${late}` };
}

const REMEMBERED_MS = 400 * 86_400_000;

function describeAbsence(
  { timing, declaredAt, nextFireAt, suspended }: ScheduleBody,
  at: Date,
  now: Date,
): readonly string[] {
  if (declaredAt !== null && at <= new Date(declaredAt)) {
    return [`the schedule is declared as it is since ${instantText(new Date(declaredAt))}, after this instant`];
  }
  if (now.getTime() - at.getTime() > REMEMBERED_MS) return ["fires are remembered for 400 days"];
  if (suspended) return ["the schedule is suspended, and nothing is owed for that time"];
  if (nextFireAt !== null && new Date(nextFireAt) <= at) {
    return ["it is due, and nobody has decided on it yet: does a worker run?"];
  }
  const kind =
    timing.kind === "every" && timing.from === "finish"
      ? "no run ended at the right time"
      : "it was suspended or not in force then";
  return [`nothing is recorded of it: ${kind}, or it was one of many that were skipped together`];
}

function answer(facts: {
  readonly name: string;
  readonly at: Date;
  readonly timing: Timing;
  readonly timeZone: string;
  readonly verdict: Verdict;
  readonly reasons: readonly string[];
  readonly jobId: string | null;
}): Why {
  const { name, at, timing, timeZone, verdict, reasons, jobId } = facts;
  const { previous, next } = explainInstant(timing, timeZone, at);
  const show = (fire: Date | null) => (fire === null ? null : instantText(fire));
  return {
    schedule: name,
    at: instantText(at),
    local: formatLocal(at, timeZone),
    timeZone,
    verdict,
    reasons,
    jobId,
    previous: show(previous),
    next: show(next),
  };
}

const VERDICTS: Readonly<Record<Verdict, string>> = {
  fired: "fired",
  skipped: "did not run",
  "will-fire": "fires",
  "does-not-fire": "does not fire",
  "no-record": "did not run, as far as is known",
};

function whyText({ schedule, at, local, timeZone, verdict, reasons, previous, next }: Why): string {
  const around = (fire: string | null) =>
    fire === null ? "none" : `${formatLocal(new Date(fire), timeZone)}  ${fire}`;
  return [
    `Schedule/${schedule} ${VERDICTS[verdict]} at ${local} ${timeZone} (${at})`,
    ...reasons.map((reason) => `  ${reason}`),
    `  before it: ${around(previous)}`,
    `  after it:  ${around(next)}`,
    "",
  ].join("\n");
}
