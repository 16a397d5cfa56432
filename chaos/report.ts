import { type ExecutionLine, readFolder } from "./ledger.ts";
import { type Verdict, WRONGS } from "./oracle.ts";

const SHOWN_WRONGS = 20;
const SHOWN_JOBS = 5;
const SHOWN_LINES = 30;

export interface RunSummary {
  readonly command: string;
  readonly seed: number;
  readonly minutes: number;
  readonly lease: string;
  readonly isolation: string;
  readonly workers: number;
  readonly pooler: boolean;
  /** With RabbitMQ and three Redis nodes. */
  readonly isFull: boolean;
  readonly drainSeconds: number;
  readonly faults: Readonly<Record<string, number>>;
  readonly notes: readonly string[];
  readonly verdict: Verdict;
}

export function isGreen({ verdict }: RunSummary): boolean {
  return verdict.wrongs.length === 0;
}

export function renderSummary(summary: RunSummary): string {
  const { counts, recoveryMs } = summary.verdict;
  const rows = Object.entries(counts).map(([name, count]) => `  ${name.padEnd(46)}${String(count).padStart(8)}`);
  const faults = Object.entries(summary.faults).sort(([left], [right]) => left.localeCompare(right));
  return [
    `seed ${summary.seed}, ${summary.minutes} minutes, lease ${summary.lease}, ${summary.workers} workers, isolation ${summary.isolation}, ${summary.pooler ? "through PgBouncer" : "no pooler"}${summary.isFull ? ", RabbitMQ, three Redis nodes" : ""}`,
    ...rows,
    `  recovery: ${seconds(recoveryMs.p50)} in the middle, ${seconds(recoveryMs.max)} at most; drained in ${summary.drainSeconds.toFixed(0)} s`,
    `  faults: ${faults.map(([name, count]) => `${name} ${count}`).join(", ")}`,
    ...summary.notes.map((note) => `  note: ${note}`),
    isGreen(summary) ? `  ${WRONGS.join(", ")}: none` : `  ${summary.verdict.wrongs.length} WRONGS`,
    "",
  ].join("\n");
}

/** The wrongs by name, and every ledger line of the first jobs among them. */
export function renderWrongs({ verdict }: RunSummary, executionFolder: string): string {
  const shown = verdict.wrongs.slice(0, SHOWN_WRONGS);
  const jobs = new Set(shown.flatMap(({ job }) => (job === null ? [] : [job])).slice(0, SHOWN_JOBS));
  const lines = new Map<string, ExecutionLine[]>([...jobs].map((job) => [job, []]));
  for (const line of readFolder<ExecutionLine>(executionFolder)) lines.get(line.job)?.push(line);
  const text = shown.map(({ kind, job, text: what }) => `${kind}: ${job === null ? "" : `job ${job} `}${what}`);
  if (verdict.wrongs.length > shown.length) text.push(`… and ${verdict.wrongs.length - shown.length} more`);
  for (const [job, found] of lines) {
    text.push(`ledger of job ${job}:`);
    const inOrder = found.filter(isTelling).sort((left, right) => left.at - right.at);
    text.push(...inOrder.slice(0, SHOWN_LINES).map((line) => `  ${JSON.stringify(line)}`));
  }
  return `${text.join("\n")}\n`;
}

/** Of a run's ticks only the first and last of each row tell something. */
function isTelling(line: ExecutionLine, index: number, all: readonly ExecutionLine[]): boolean {
  if (line.e !== "tick") return true;
  return all[index + 1]?.e !== "tick" || all[index + 1]?.fence !== line.fence;
}

function seconds(ms: number | null): string {
  return ms === null ? "none" : `${(ms / 1_000).toFixed(1)} s`;
}
