import type { Command } from "commander";
import { TurnoError } from "../../core/errors.ts";
import type { FireHistory, FireRecord } from "../../protocol/ports/fire-history.ts";
import type { ScheduleView } from "../../protocol/ports/panel.ts";
import type { Ids } from "../../protocol/ports/surroundings.ts";
import { collectFires, hasForeseeableFires, instantText } from "../../time/fire-set.ts";
import { parseInstant } from "../../time/next-fire.ts";
import { formatLocal } from "../../time/time-zone.ts";
import { type CommandIo, EXIT, type ExitCode, printJson } from "../io.ts";
import { usage } from "../usage.ts";

/** The database of a project, for looking back. */
export interface HistorySession {
  readonly history: FireHistory;
  readonly ids: Pick<Ids, "jobId">;
  close(): Promise<void>;
}

export type OpenHistory = (options: { readonly dir: string | undefined }) => Promise<HistorySession>;

interface BackfillOptions {
  readonly dir?: string;
  readonly from: string;
  readonly to?: string;
  readonly max: string;
  readonly yes?: boolean;
  readonly json?: boolean;
}

const DEFAULT_MAX = "100";
const MOST_FIRES = 1_000;
/** As long as fires are remembered: beyond, nobody knows whether an instant has fired. */
const REMEMBERED_MS = 400 * 86_400_000;
/** Records of a stretch that are read; each is an instant, so as many as there may be fires and skips between. */
const MOST_RECORDS = 100_000;
const SHOWN_FIRES = 10;

/** `turno backfill`: fires past instants of a schedule that have not fired. Without --yes it only shows them. */
export function addBackfillCommand(
  program: Command,
  io: CommandIo,
  setExitCode: (code: ExitCode) => void,
  openHistory: OpenHistory,
): void {
  program
    .command("backfill <schedule>")
    .description("fire past instants of a schedule that have not fired; shows them, unless --yes is given")
    .requiredOption("--from <instant>", "the first instant that may fire, such as 2026-12-01T00:00:00Z")
    .option("--to <instant>", "the last instant that may fire (default: now)")
    .option("--max <n>", `refuse to fire more instants than this, at most ${MOST_FIRES}`, DEFAULT_MAX)
    .option("--yes", "fire them")
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--json", "print JSON")
    .action(async (name: string, options: BackfillOptions) => {
      const range = readRange(options);
      const max = readMax(options.max);
      const session = await openHistory({ dir: options.dir });
      try {
        setExitCode(await backfill({ name, range, max, options, session, io }));
      } finally {
        await session.close();
      }
    });
}

interface Range {
  readonly from: Date;
  /** Null: the database's now. */
  readonly to: Date | null;
}

function readRange(options: BackfillOptions): Range {
  const from = usage("--from", () => parseInstant(options.from));
  const to = options.to === undefined ? null : usage("--to", () => parseInstant(options.to ?? ""));
  if (to !== null && to < from) throw new TurnoError("TURNO_USAGE", "expected --to not before --from");
  return { from, to };
}

function readMax(text: string): number {
  const max = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (max >= 1 && max <= MOST_FIRES) return max;
  throw new TurnoError("TURNO_USAGE", `expected --max from 1 to ${MOST_FIRES}, found "${text}"`);
}

async function backfill(request: {
  readonly name: string;
  readonly range: Range;
  readonly max: number;
  readonly options: BackfillOptions;
  readonly session: HistorySession;
  readonly io: CommandIo;
}): Promise<ExitCode> {
  const { name, range, max, options, session, io } = request;
  const found = await session.history.loadSchedule(name);
  if (found === null) throw new TurnoError("TURNO_SCHEDULE_NOT_FOUND", `no schedule "${name}" is in force`);
  const { now, schedule } = found;
  const preview = await previewBackfill(session.history, { schedule, now, range, max });
  const dryRun = options.yes !== true;
  const made = dryRun || preview.missing.length === 0 ? [] : await insert(session, schedule, preview.missing);
  if (options.json === true) {
    printJson(io, {
      schedule: name,
      from: instantText(range.from),
      to: instantText(range.to ?? now),
      dryRun,
      fires: preview.missing.map(instantText),
      alreadyFired: preview.fired,
      jobs: made.map(({ at, jobId }) => ({ at: instantText(at), jobId })),
    });
  } else {
    io.out(previewText(schedule, preview));
    if (!dryRun) io.out(`${made.length} fired\n`);
    else if (preview.missing.length > 0) io.out("Nothing was fired: --yes does it.\n");
  }
  return EXIT.done;
}

interface Preview {
  readonly missing: readonly Date[];
  readonly skipped: number;
  readonly fired: number;
}

/** Instants of the timing in force that have not fired. Throws TURNO_BACKFILL_REFUSED for what cannot be bounded. */
async function previewBackfill(
  history: FireHistory,
  request: { readonly schedule: ScheduleView; readonly now: Date; readonly range: Range; readonly max: number },
): Promise<Preview> {
  const { schedule, now, max } = request;
  const { timing } = schedule.spec;
  const { from, to } = { from: request.range.from, to: request.range.to ?? now };
  const refuse = (message: string, hint: string): never => {
    throw new TurnoError("TURNO_BACKFILL_REFUSED", message, { hint });
  };
  if (!hasForeseeableFires(timing)) {
    refuse(`Schedule/${schedule.name} counts from the end of its runs: it has no past instants`, "trigger it instead");
  }
  if (to > now)
    refuse(`expected --to in the past, found ${instantText(to)}; it is ${instantText(now)}`, "leave --to out");
  if (now.getTime() - from.getTime() > REMEMBERED_MS) {
    refuse(
      `expected --from within the last 400 days, found ${instantText(from)}`,
      "fires are remembered for 400 days: before, nobody knows what has fired",
    );
  }
  const records = await history.listRecords({ schedule: schedule.name, from, to, limit: MOST_RECORDS });
  const { fires, complete } = collectFires(timing, { after: new Date(from.getTime() - 1), until: to }, MOST_RECORDS);
  const byInstant = new Map(records.map((record) => [record.at.getTime(), record]));
  const missing = fires.filter((at) => !hasFired(byInstant.get(at)));
  if (!complete || missing.length > max) {
    const count = complete ? String(missing.length) : `more than ${missing.length}`;
    refuse(
      `expected at most ${max} instants to fire, found ${count}`,
      "choose a shorter time, or allow more with --max",
    );
  }
  return {
    missing: missing.map((at) => new Date(at)),
    skipped: missing.filter((at) => byInstant.has(at)).length,
    fired: fires.length - missing.length,
  };
}

function hasFired(record: FireRecord | undefined): boolean {
  return record !== undefined && !["missed", "superseded", "overlapped", "calendar"].includes(record.outcome);
}

async function insert(session: HistorySession, schedule: ScheduleView, instants: readonly Date[]) {
  const outcome = await session.history.backfill({
    schedule: schedule.name,
    timingHash: schedule.timingHash,
    fires: instants.map((at) => ({ at, jobId: session.ids.jobId() })),
  });
  if (outcome.kind === "inserted") return outcome.made;
  throw new TurnoError(
    "TURNO_BACKFILL_REFUSED",
    `Schedule/${schedule.name} was ${outcome.kind === "edited" ? "edited" : "removed"} meanwhile; nothing was fired`,
    { hint: "look at it again" },
  );
}

function previewText({ name, spec }: ScheduleView, { missing, skipped, fired }: Preview): string {
  if (missing.length === 0) return `Schedule/${name}: nothing to fire, ${fired} instants of this time have fired.\n`;
  const show = (at: Date) => `  ${formatLocal(at, spec.timeZone)}  ${instantText(at)}\n`;
  const rest = missing.length - SHOWN_FIRES;
  return [
    `Schedule/${name}: ${missing.length} ${missing.length === 1 ? "instant" : "instants"} to fire, ${skipped} of them recorded as skipped; ${fired} have fired.\n`,
    ...missing.slice(0, SHOWN_FIRES).map(show),
    rest > 0 ? `  … and ${rest} more\n` : "",
    `${OVERLAP[spec.concurrencyPolicy] ?? ""}\n`,
  ].join("");
}

const OVERLAP: Readonly<Record<string, string>> = {
  Allow: "All of them are queued at once.",
  Replace:
    "All of them are queued at once; the schedule's next fire cancels those that still run (concurrencyPolicy Replace).",
  Queue: "They run one after another (concurrencyPolicy Queue).",
  Forbid: "They run one after another; while they do, the schedule's own fires are skipped (concurrencyPolicy Forbid).",
};
