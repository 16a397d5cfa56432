import type { Command } from "commander";
import { readProjectFiles } from "../../adapters/files/read-project.ts";
import type { DesiredState, ScheduleObject } from "../../config/objects.ts";
import { humanDuration, parseDuration } from "../../core/duration.ts";
import { TurnoError } from "../../core/errors.ts";
import type { RecordedRun } from "../../protocol/ports/fire-history.ts";
import { instantText } from "../../time/fire-set.ts";
import { type SimulatedSchedule, type SimulationResult, simulate } from "../../time/simulation.ts";
import { type CommandIo, EXIT, type ExitCode, printJson } from "../io.ts";
import { loadBy, projectRoot } from "../project.ts";
import { formatTable, shortInstant } from "../table.ts";
import { usage } from "../usage.ts";
import type { OpenHistory } from "./backfill.ts";

interface SimulateOptions {
  readonly dir?: string;
  readonly since: string;
  readonly assume: string;
  readonly json?: boolean;
}

/** Records that are read; a longer past is looked at from where they begin. */
const MOST_RECORDS = 100_000;

/** `turno simulate`: what the files here would have done in the recorded past. */
export function addSimulateCommand(
  program: Command,
  io: CommandIo,
  setExitCode: (code: ExitCode) => void,
  sources: { readonly openHistory: OpenHistory; readonly now: () => Date },
): void {
  program
    .command("simulate")
    .description("play the files here through the recorded past: overlaps, skips, queue peaks")
    .option("--since <duration>", "how far back, at most 400d", "30d")
    .option("--assume <duration>", "length of runs of which none is recorded", "1m")
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--json", "print JSON")
    .action(async (options: SimulateOptions) => {
      const sinceMs = usage("--since", () => parseDuration(options.since));
      const assumedMs = usage("--assume", () => parseDuration(options.assume));
      const state = await readState(io, options.dir);
      const session = await sources.openHistory({ dir: options.dir });
      try {
        const to = sources.now();
        const asked = new Date(to.getTime() - sinceMs);
        const runs = await session.history.listRuns({ since: asked, limit: MOST_RECORDS });
        const from = runs.length < MOST_RECORDS ? asked : (runs.at(-1)?.at ?? asked);
        const facts = compare({ state, runs, from, to, assumedMs });
        if (options.json === true) printJson(io, { from: instantText(from), to: instantText(to), ...facts });
        else io.out(simulationText(facts, { from, to }));
        setExitCode(EXIT.done);
      } finally {
        await session.close();
      }
    });
}

async function readState(io: CommandIo, dir: string | undefined): Promise<DesiredState> {
  const root = projectRoot(io, dir);
  const { state, problems } = loadBy(root, io.env)(await readProjectFiles(root));
  if (state !== null) return state;
  const count = problems.filter(({ severity }) => severity === "error").length;
  throw new TurnoError("TURNO_PROJECT_INVALID", `the project's files have ${count} problems`, {
    hint: "turno validate shows all",
  });
}

interface Comparison {
  readonly schedules: readonly {
    readonly name: string;
    /** What was recorded of it. */
    readonly recorded: { readonly fires: number; readonly skipped: number; readonly runs: number };
    readonly simulated: { readonly fires: number; readonly skipped: number; readonly replaced: number };
    readonly medianRunMs: number;
    readonly longestRunMs: number;
    /** No run of it or of its job is recorded: the length is the assumed one. */
    readonly assumed: boolean;
    readonly complete: boolean;
  }[];
  readonly queues: SimulationResult["queues"];
  /** Schedules of the record that the files don't have, with their fires. */
  readonly gone: readonly { readonly name: string; readonly fires: number }[];
}

function compare(request: {
  readonly state: DesiredState;
  readonly runs: readonly RecordedRun[];
  readonly from: Date;
  readonly to: Date;
  readonly assumedMs: number;
}): Comparison {
  const { state, runs, from, to, assumedMs } = request;
  const schedules = state.objects.flatMap((object) =>
    object.kind === "Schedule" && !object.spec.suspend ? [object] : [],
  );
  const recorded = groupBySchedule(runs.filter(({ at }) => at > from && at <= to));
  const prepared = schedules.map((schedule) => prepare(schedule, { schedules, recorded, state, assumedMs }));
  const result = simulate({ schedules: prepared.map(({ facts }) => facts), slots: slotsOf(state), from, to });
  const names = new Set(schedules.map(({ name }) => name));
  return {
    schedules: result.schedules.map(({ name, fires, skipped, replaced, complete }, index) => {
      const { runMs = [], assumed = true } = { runMs: prepared[index]?.facts.runMs, assumed: prepared[index]?.assumed };
      const sorted = [...runMs].sort((left, right) => left - right);
      return {
        name,
        recorded: countRecorded(recorded.get(name) ?? []),
        simulated: { fires, skipped, replaced },
        medianRunMs: sorted[Math.floor(sorted.length / 2)] ?? 0,
        longestRunMs: sorted.at(-1) ?? 0,
        assumed,
        complete,
      };
    }),
    queues: result.queues,
    gone: [...recorded].flatMap(([name, own]) => (names.has(name) ? [] : [{ name, fires: countRecorded(own).fires }])),
  };
}

/** The lengths its runs had; else those of other schedules of the same job; else the assumed one. */
function prepare(
  schedule: ScheduleObject,
  context: {
    readonly schedules: readonly ScheduleObject[];
    readonly recorded: ReadonlyMap<string, readonly RecordedRun[]>;
    readonly state: DesiredState;
    readonly assumedMs: number;
  },
): { readonly facts: SimulatedSchedule; readonly assumed: boolean } {
  const { schedules, recorded, state, assumedMs } = context;
  const { name, spec } = schedule;
  const own = lengthsOf(recorded.get(name) ?? []);
  const related = schedules.filter((other) => other.spec.job === spec.job);
  const lengths = own.length > 0 ? own : related.flatMap((other) => lengthsOf(recorded.get(other.name) ?? []));
  const job = state.objects.find((object) => object.kind === "Job" && object.name === spec.job);
  const facts = {
    name,
    timing: spec.timing,
    queue: job?.kind === "Job" ? job.spec.queue : "default",
    overlap: spec.concurrencyPolicy,
    runMs: lengths.length > 0 ? lengths : [assumedMs],
  };
  return { facts, assumed: lengths.length === 0 };
}

/** Oldest first, as the record has them newest first. */
function lengthsOf(runs: readonly RecordedRun[]): readonly number[] {
  return runs
    .flatMap(({ startedAt, finishedAt }) =>
      startedAt === null || finishedAt === null ? [] : [Math.max(0, finishedAt.getTime() - startedAt.getTime())],
    )
    .reverse();
}

/** What the fleet may run of a queue at once: its own limit, and the slots of one worker where the settings name them. */
function slotsOf({ project, objects }: DesiredState): ReadonlyMap<string, number> {
  const slots = new Map(project.spec.runtime.worker.queues.map(({ name, concurrency }) => [name, concurrency]));
  for (const object of objects) {
    if (object.kind !== "Queue" || object.spec.concurrency === null) continue;
    slots.set(object.name, Math.min(object.spec.concurrency, slots.get(object.name) ?? object.spec.concurrency));
  }
  return slots;
}

function groupBySchedule(runs: readonly RecordedRun[]): ReadonlyMap<string, readonly RecordedRun[]> {
  const groups = new Map<string, RecordedRun[]>();
  for (const run of runs) {
    const known = groups.get(run.schedule);
    if (known === undefined) groups.set(run.schedule, [run]);
    else known.push(run);
  }
  return groups;
}

const SKIPPED: readonly RecordedRun["outcome"][] = ["missed", "superseded", "overlapped", "calendar"];

function countRecorded(runs: readonly RecordedRun[]) {
  const skipped = runs.filter(({ outcome }) => SKIPPED.includes(outcome)).length;
  return { fires: runs.length, skipped, runs: runs.length - skipped };
}

function simulationText(
  { schedules, queues, gone }: Comparison,
  range: { readonly from: Date; readonly to: Date },
): string {
  const arrow = (before: number, after: number) => (before === after ? `${after}` : `${before} → ${after}`);
  const notes = [
    ...schedules
      .filter(({ assumed }) => assumed)
      .map(({ name }) => `${name}: no run is recorded, the assumed length counts`),
    ...schedules.filter(({ complete }) => !complete).map(({ name }) => `${name}: its fires cannot all be foreseen`),
    ...gone.map(({ name, fires }) => `${name}: recorded with ${fires} fires, and not in the files`),
  ];
  return [
    `The files here from ${shortInstant(range.from.toISOString())} to ${shortInstant(range.to.toISOString())}; recorded → simulated.\n\n`,
    formatTable({
      headings: ["SCHEDULE", "FIRES", "SKIPPED", "REPLACED", "RUN", "LONGEST"],
      rows: schedules.map(({ name, recorded, simulated, medianRunMs, longestRunMs }) => [
        name,
        arrow(recorded.fires, simulated.fires),
        arrow(recorded.skipped, simulated.skipped),
        String(simulated.replaced),
        humanDuration(medianRunMs),
        humanDuration(longestRunMs),
      ]),
      empty: "no schedules are declared",
    }),
    "\n",
    formatTable({
      headings: ["QUEUE", "SLOTS", "MOST RUNNING", "MOST WAITING", "LONGEST WAIT"],
      rows: queues.map(({ name, slots, mostRunning, mostWaiting, mostWaitingAt, longestWaitMs }) => [
        name,
        slots === null ? "any" : String(slots),
        String(mostRunning),
        mostWaitingAt === null ? "0" : `${mostWaiting} at ${shortInstant(new Date(mostWaitingAt).toISOString())}`,
        longestWaitMs === 0 ? "-" : humanDuration(longestWaitMs),
      ]),
      empty: "no queue got work",
    }),
    ...(notes.length === 0 ? [] : ["\n", ...notes.map((note) => `${note}\n`)]),
  ].join("");
}
