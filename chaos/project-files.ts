import { cp, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ExpectedSchedule } from "./schedule-check.ts";

export type Isolation = "thread" | "process" | "mixed";

export interface ProjectSettings {
  /** Turno's own folder, whose packages the handlers are bundled with. */
  readonly turnoRoot: string;
  readonly folder: string;
  readonly ledger: string;
  readonly sink: string;
  readonly isolation: Isolation;
}

export interface ProjectState {
  /** Goes into code and definitions, so that each number is another revision. */
  readonly version: number;
  readonly suspended: boolean;
}

const SCHEDULES = [
  { name: "every-five", timing: "every: 5s", isDue: (second: number) => second % 5 === 0 },
  { name: "cron-sevens", timing: 'cron: "*/7 * * * * *"', isDue: (second: number) => (second % 60) % 7 === 0 },
  {
    name: "cron-list",
    timing: 'cron: "3,33,48 * * * * *"',
    isDue: (second: number) => [3, 33, 48].includes(second % 60),
  },
] as const;

/** An expression of Turno's, not a template of this language. */
const KEY_EXPRESSION = ["$", "{{ payload.key }}"].join("");

/** The instants of the schedules, told by arithmetic on seconds: the project's zone is UTC. */
export function expectedSchedules(untilMs: number): readonly ExpectedSchedule[] {
  return SCHEDULES.map(({ name, isDue }) => ({ name, isDue, untilMs }));
}

export function typesOf(isolation: Isolation): {
  readonly types: readonly string[];
  readonly keyed: readonly string[];
} {
  const kinds = isolation === "mixed" ? ["thread", "process"] : [isolation];
  // Three of four in a mixed run share threads: a process for each job costs this machine much more.
  const types =
    isolation === "mixed"
      ? ["thread.work", "thread.work", "thread.work", "process.work"]
      : kinds.map((kind) => `${kind}.work`);
  return { types, keyed: kinds.map((kind) => `${kind}.keyed`) };
}

export async function createProject(settings: ProjectSettings): Promise<void> {
  await mkdir(join(settings.folder, "turno.d"), { recursive: true });
  await cp(join(settings.turnoRoot, "chaos", "project"), settings.folder, { recursive: true });
  await symlink(join(settings.turnoRoot, "node_modules"), join(settings.folder, "node_modules"));
  await writeFile(
    join(settings.folder, "turno.yaml"),
    `apiVersion: turno/v1
kind: Project
metadata: { name: chaos }
spec: { timeZone: UTC }
`,
  );
  await writeRevision(settings, { version: 0, suspended: false });
}

/** Writes the files of one revision: other code, other definitions, the same timings. */
export async function writeRevision(settings: ProjectSettings, { version, suspended }: ProjectState): Promise<void> {
  const handler = join(settings.folder, "handlers", "work.ts");
  const code = await readFile(handler, "utf8");
  await writeFile(handler, code.replace(/VERSION = \d+/, `VERSION = ${version}`));
  const kinds = settings.isolation === "mixed" ? (["thread", "process"] as const) : [settings.isolation];
  const documents = [
    document("Policy", "stubborn", {
      retry: { maxAttempts: 50, backoff: { type: "fixed", initial: "300ms", max: "300ms" } },
      maxLost: 900,
      maxLostUnstarted: 900,
      maxReturns: 900,
    }),
    ...kinds.flatMap((isolation) => [
      document("Job", `${isolation}.work`, jobSpec(settings, isolation, version)),
      document("Job", `${isolation}.keyed`, {
        ...jobSpec(settings, isolation, version),
        concurrencyKey: KEY_EXPRESSION,
      }),
    ]),
    ...SCHEDULES.map(
      ({ name, timing }) => `apiVersion: turno/v1
kind: Schedule
metadata: { name: ${name} }
spec:
  job: ${kinds[0]}.work
  ${timing}
  payload: { ms: 100 }
  concurrencyPolicy: Allow
  suspend: ${suspended}
`,
    ),
  ];
  await writeFile(join(settings.folder, "turno.d", "chaos.yaml"), documents.join("---\n"));
}

function jobSpec({ ledger, sink }: ProjectSettings, isolation: string, version: number) {
  return { handler: "work.ts", policy: "stubborn", isolation, timeout: "10m", settings: { ledger, sink, version } };
}

/** YAML is a superset of JSON. */
function document(kind: string, name: string, spec: unknown): string {
  return `${JSON.stringify({ apiVersion: "turno/v1", kind, metadata: { name }, spec })}\n`;
}
