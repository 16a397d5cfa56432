import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { runCli } from "../../runtime/cli/run-cli.ts";

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** A project's folder in which commands run inside of this process. */
export interface CommandProject {
  readonly root: string;
  readonly env: Record<string, string>;
  write(path: string, text: string): Promise<void>;
  run(...args: readonly string[]): Promise<Ran>;
  remove(): Promise<void>;
}

export const PROJECT = `apiVersion: turno/v1
kind: Project
metadata: { name: test }
spec: { timeZone: UTC }
`;
export const JOB = `apiVersion: turno/v1
kind: Job
metadata: { name: greet }
spec:
  handler: greet.ts
  payload: { type: object, required: [name], properties: { name: { type: string } } }
`;
export const HANDLER = `import { defineHandler } from "turno";
export default defineHandler<{ name: string }>(({ name }) => ({ greeting: "Hello, " + name }));
`;

export async function createCommandProject(env: Readonly<Record<string, string>> = {}): Promise<CommandProject> {
  const root = await mkdtemp(join(tmpdir(), "turno cli ö "));
  const project: CommandProject = {
    root,
    env: { ...env },
    async write(path, text) {
      await mkdir(dirname(join(root, path)), { recursive: true });
      await writeFile(join(root, path), text);
    },
    async run(...args) {
      const ran = { out: "", err: "" };
      const code = await runCli(args, {
        cwd: root,
        env: project.env,
        colour: false,
        errIsTerminal: false,
        interactive: false,
        out: (text) => {
          ran.out += text;
        },
        err: (text) => {
          ran.err += text;
        },
        signal: AbortSignal.timeout(60_000),
      });
      return { code, ...ran };
    },
    remove: () => rm(root, { recursive: true, force: true }),
  };
  await project.write("turno.yaml", PROJECT);
  await project.write("turno.d/greet.yaml", JOB);
  await project.write("handlers/greet.ts", HANDLER);
  return project;
}
