import { userInfo } from "node:os";
import type { Command } from "commander";
import { readProjectFiles } from "../../adapters/files/read-project.ts";
import { suspendInText } from "../../config/suspend-edit.ts";
import { TurnoError } from "../../core/errors.ts";
import { unifiedDiff } from "../../core/unified-diff.ts";
import { parseInstant } from "../../time/next-fire.ts";
import type { CommandIo } from "../io.ts";
import { loadBy, projectRoot } from "../project.ts";
import { shortInstant } from "../table.ts";
import { usage } from "../usage.ts";
import { type ClientOptions, closing, type OpenClient, show, withClientOptions } from "./jobs.ts";

interface PauseOptions extends ClientOptions {
  readonly queue?: boolean;
  readonly until?: string;
  readonly reason?: string;
  readonly asPatch?: boolean;
}

interface PauseBody {
  readonly by: string;
  readonly reason: string | null;
  readonly until: string | null;
}

/** `pause`, `resume`: an overlay over the files, of a schedule or, with `--queue`, of a queue. */
export function addPauseCommands(program: Command, io: CommandIo, openClient: OpenClient): void {
  withClientOptions(
    program
      .command("pause <name>")
      .description("keep a schedule from firing, or a queue from being taken from, until it is resumed")
      .option("--queue", "the name is a queue's")
      .option("--until <instant>", "resume by itself at this instant, such as 2026-12-24T18:00:00Z")
      .option("--reason <text>", "why, for those who wonder")
      .option("--as-patch", "pause nothing; print the change of its file (suspend: true) for git apply"),
  ).action(async (name: string, options: PauseOptions) => {
    if (options.asPatch === true) {
      io.out(await writePatch(io, name, options));
      return;
    }
    const until = options.until === undefined ? null : usage("--until", () => parseInstant(options.until ?? ""));
    await using client = closing(await openClient(options));
    const pause = await client.post<PauseBody>(`${pathOf(name, options)}/disable`, {
      by: whoAmI(),
      ...(options.reason === undefined ? {} : { reason: options.reason }),
      ...(until === null ? {} : { until: until.toISOString() }),
    });
    const end = pause.until === null ? "until it is resumed" : `until ${shortInstant(pause.until)}`;
    show(io, options, pause, `${name}  paused by ${pause.by} ${end}\n`);
  });

  withClientOptions(
    program
      .command("resume <name>")
      .description("take a pause away; nothing is owed for the paused time")
      .option("--queue", "the name is a queue's"),
  ).action(async (name: string, options: PauseOptions) => {
    await using client = closing(await openClient(options));
    const answer = await client.post<{ readonly nextFireAt: string | null }>(`${pathOf(name, options)}/enable`);
    const next = answer.nextFireAt === null ? "" : `, next fire ${shortInstant(answer.nextFireAt)}`;
    show(io, options, answer, `${name}  resumed${next}\n`);
  });
}

/** What git would say instead of a pause. Throws where the files do not declare it, or suspend it already. */
async function writePatch(io: CommandIo, name: string, options: PauseOptions): Promise<string> {
  if (options.server !== undefined || options.until !== undefined || options.reason !== undefined) {
    throw new TurnoError("TURNO_USAGE", "expected --as-patch without --server, --until and --reason", {
      hint: "A patch is made of the files in --dir; who, why and until when stand in its commit.",
    });
  }
  const kind = options.queue === true ? "Queue" : "Schedule";
  const root = projectRoot(io, options.dir);
  const files = await readProjectFiles(root);
  const { state } = loadBy(root, io.env)(files);
  if (state === null) {
    throw new TurnoError("TURNO_PROJECT_INVALID", `expected valid files in ${root}, found problems`, {
      hint: "Run turno validate.",
    });
  }
  const object = state.objects.find((candidate) => candidate.kind === kind && candidate.name === name);
  const content = object === undefined ? undefined : files.get(object.file);
  if (object === undefined || content === undefined) {
    throw new TurnoError(
      kind === "Queue" ? "TURNO_QUEUE_NOT_FOUND" : "TURNO_SCHEDULE_NOT_FOUND",
      `expected a document ${kind}/${name} in the files of ${root}, found none`,
      { hint: "It may be declared by another source: run this in a checkout of it, or pause without --as-patch." },
    );
  }
  const position = { file: object.file, line: object.line, column: 1 };
  const before = new TextDecoder("utf-8", { ignoreBOM: true }).decode(content);
  const edit = suspendInText(before, { kind, name });
  if (edit.kind === "suspended") {
    throw new TurnoError("TURNO_PAUSE_STATE", `${kind}/${name} says suspend: true already`, { position });
  }
  if (edit.kind === "unwritable") {
    throw new TurnoError("TURNO_PAUSE_STATE", `expected ${kind}/${name} to have a spec with lines of its own`, {
      position,
      hint: "Write suspend: true into its spec by hand.",
    });
  }
  return unifiedDiff({ path: object.file, before, after: edit.text });
}

function pathOf(name: string, { queue }: PauseOptions): string {
  return `/api/${queue === true ? "queues" : "recurring-jobs"}/${encodeURIComponent(name)}`;
}

/** With API keys the key's name stands in its place. */
export function whoAmI(): string {
  try {
    return userInfo().username;
  } catch (error) {
    throw new TurnoError("TURNO_USAGE", "the account that this command runs as has no name", { cause: error });
  }
}
