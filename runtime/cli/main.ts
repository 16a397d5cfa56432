import { type CommandIo, EXIT } from "./io.ts";
import { runCli } from "./run-cli.ts";

/** The process behind `bin/turno.js`: Ctrl-C, SIGTERM and a dead supervisor ask to stop; a second Ctrl-C ends at once. */
const stop = new AbortController();

function requestStop(): void {
  if (stop.signal.aborted) process.exit(EXIT.failed);
  stop.abort();
}

process.on("SIGINT", requestStop);
process.on("SIGTERM", () => stop.abort());
process.on("SIGHUP", () => stop.abort());
process.on("disconnect", () => stop.abort());
// A reader that went away, such as `head`, is no error; output that could not be written is one, and no crash.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") return;
  if (process.exitCode === undefined || process.exitCode === EXIT.done) process.exitCode = EXIT.failed;
  process.stderr.write(`turno: the output could not be written: ${error.message}\n`);
});
// A role outlives the supervisor that reads its log: it has to drain, whoever listens.
process.stderr.on("error", () => {});

const io: CommandIo = {
  cwd: process.cwd(),
  env: process.env,
  colour: process.stdout.isTTY === true && !process.env.NO_COLOR,
  errIsTerminal: process.stderr.isTTY === true,
  interactive: process.stdin.isTTY === true && process.stdout.isTTY === true,
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  signal: stop.signal,
};

const exitCode = await runCli(process.argv.slice(2), io);
if (exitCode !== EXIT.done) process.exitCode = exitCode;
// The supervisor's channel would keep a role that has stopped alive.
if (process.connected) process.disconnect();
