import { mkdir, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import type { Command } from "commander";
import { describeError, TurnoError } from "../../core/errors.ts";
import { type CommandIo, EXIT, type ExitCode } from "../io.ts";

/** `turno init`: the files of a new project; one that is there already is left as it is. */
export function addInitCommand(program: Command, io: CommandIo, setExitCode: (code: ExitCode) => void): void {
  program
    .command("init")
    .description("make a new project with one schedule")
    .option("--dir <folder>", "where to make it (default: here)")
    .action(async (options: { readonly dir?: string }) => {
      const root = resolve(io.cwd, options.dir ?? ".");
      for (const [path, text] of Object.entries(newProject(nameFor(root)))) {
        const written = await writeNew(join(root, path), text).catch((error: unknown) => {
          throw new TurnoError(
            "TURNO_PROJECT_UNWRITABLE",
            `no project can be made in ${root}: ${describeError(error)}`,
            {
              cause: error,
              hint: "choose another folder with --dir",
            },
          );
        });
        io.out(written ? `wrote ${path}\n` : `left ${path} as it is\n`);
      }
      io.out("\nNext: turno validate, then turno up\n");
      setExitCode(EXIT.done);
    });
}

/** A name that fits, from the folder's. */
function nameFor(root: string): string {
  const name = basename(root)
    .normalize("NFKD")
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, "-")
    .replace(/^[^a-z0-9]+/, "")
    .replace(/-+$/, "")
    .slice(0, 100);
  return name === "" ? "project" : name;
}

function newProject(name: string): Readonly<Record<string, string>> {
  const schema = "node_modules/turno/schemas/turno/turno.schema.json";
  return {
    "turno.yaml": `# yaml-language-server: $schema=./${schema}
apiVersion: turno/v1
kind: Project
metadata:
  name: "${name}"
spec:
  include: [turno.d/**/*.yaml]
  timeZone: UTC
`,
    "turno.d/hello.yaml": `# yaml-language-server: $schema=../${schema}
apiVersion: turno/v1
kind: Job
metadata:
  name: hello
  description: Greets somebody
spec:
  handler: hello.ts
  timeout: 1m
  payload:
    type: object
    required: [name]
    properties:
      name: { type: string, minLength: 1 }
---
apiVersion: turno/v1
kind: Schedule
metadata:
  name: hello-every-minute
spec:
  job: hello
  cron: "* * * * *"
  payload: { name: world }
`,
    "handlers/hello.ts": `import { defineHandler } from "turno";

export default defineHandler<{ name: string }>((payload, ctx) => {
  ctx.log.info("greeting", { name: payload.name });
  return { greeting: \`Hello, \${payload.name}!\` };
});
`,
    ".gitignore": ".turno/\nnode_modules/\n.env\n",
  };
}

async function writeNew(path: string, text: string): Promise<boolean> {
  await mkdir(dirname(path), { recursive: true });
  try {
    await writeFile(path, text, { flag: "wx" });
    return true;
  } catch (error) {
    if ((error as { code?: unknown }).code === "EEXIST") return false;
    throw error;
  }
}
