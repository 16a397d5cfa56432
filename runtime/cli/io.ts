/** What a command may touch of the process: handed in, so that commands are tested in-process. */
export interface CommandIo {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whether standard output is a terminal that wants colour (NO_COLOR unset). */
  readonly colour: boolean;
  /** Whether standard error is a terminal: logs are for people then. */
  readonly errIsTerminal: boolean;
  /** Whether a person can be asked on standard input. */
  readonly interactive: boolean;
  out(text: string): void;
  err(text: string): void;
  /** Aborts on Ctrl-C or SIGTERM. */
  readonly signal: AbortSignal;
}

/** Exit codes of every command. */
export const EXIT = { done: 0, failed: 1, changes: 2, refused: 3, usage: 64 } as const;

/** A command's verdict; thrown errors become `EXIT.failed` with their message. */
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

export function printJson(io: CommandIo, value: unknown): void {
  // JSON itself escapes what drives a terminal, but for DEL and the C1 controls.
  const text = JSON.stringify(value, null, 2).replaceAll(
    /[\u007f-\u009f]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  io.out(`${text}\n`);
}
