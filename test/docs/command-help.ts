import { runCli } from "../../runtime/cli/run-cli.ts";

/** What a command prints with `--help`, in-process. */
export async function readHelp(command: readonly string[]): Promise<string> {
  let text = "";
  await runCli([...command, "--help"], {
    cwd: "/",
    env: {},
    colour: false,
    errIsTerminal: false,
    interactive: false,
    out: (part) => {
      text += part;
    },
    err: (part) => {
      text += part;
    },
    signal: new AbortController().signal,
  });
  return text;
}

/** Names of all commands, but for `help`. */
export async function listCommands(): Promise<readonly string[]> {
  const [, listed = ""] = (await readHelp([])).split("Commands:\n");
  return [...listed.matchAll(/^ {2}([a-z][a-z-]*)/gm)].flatMap(([, name = ""]) => (name === "help" ? [] : [name]));
}
