import { userInfo } from "node:os";
import type { Command } from "commander";
import { TurnoError } from "../../core/errors.ts";
import { parseInstant } from "../../time/next-fire.ts";
import type { CommandIo } from "../io.ts";
import { shortInstant } from "../table.ts";
import { usage } from "../usage.ts";
import { type ClientOptions, closing, type OpenClient, show, withClientOptions } from "./jobs.ts";

interface PauseOptions extends ClientOptions {
  readonly queue?: boolean;
  readonly until?: string;
  readonly reason?: string;
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
      .option("--reason <text>", "why, for those who wonder"),
  ).action(async (name: string, options: PauseOptions) => {
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
