import { parseArgs } from "node:util";
import type { Isolation } from "./project-files.ts";

export interface ChaosOptions {
  readonly minutes: number;
  readonly seed: number;
  readonly lease: string;
  readonly leaseMs: number;
  readonly workers: number;
  readonly isolation: Isolation;
  readonly pgbouncer: boolean;
  /** On RabbitMQ, with locks on three Redis nodes. */
  readonly isFull: boolean;
  readonly jobsPerSecond: number;
  /** Another entry file of Turno, for showing that the oracle sees what a broken one does. */
  readonly program: string | null;
  readonly out: string | null;
  readonly keep: boolean;
}

/** What was asked for cannot be done; the text says what to change. */
export class UsageError extends Error {}

const ISOLATIONS: readonly Isolation[] = ["thread", "process", "mixed"];
const JOBS_PER_SECOND = { thread: 8, mixed: 5, process: 3 } as const;

export function readOptions(args: readonly string[], drawnSeed: number): ChaosOptions {
  const { values } = parseWith(args);
  const isolation = ISOLATIONS.find((name) => name === values.isolation);
  if (isolation === undefined)
    throw new UsageError(`expected --isolation to be ${ISOLATIONS.join(", ")}, found "${values.isolation}"`);
  const lease = /^(\d+)s$/.exec(values.lease);
  const leaseMs = Number(lease?.[1]) * 1_000;
  if (!(leaseMs >= 3_000 && leaseMs <= 600_000))
    throw new UsageError(`expected --lease to be 3s to 600s, found "${values.lease}"`);
  return {
    minutes: readNumber("minutes", values.minutes, { low: 0.1, high: 10_000 }),
    seed: values.seed === undefined ? drawnSeed : readNumber("seed", values.seed, { low: 0, high: 4_294_967_295 }),
    lease: values.lease,
    leaseMs,
    workers: readNumber("workers", values.workers, { low: 2, high: 8 }),
    isolation,
    pgbouncer: values.pgbouncer,
    isFull: values.full,
    jobsPerSecond:
      values.rate === undefined ? JOBS_PER_SECOND[isolation] : readNumber("rate", values.rate, { low: 0.1, high: 200 }),
    program: values.program ?? null,
    out: values.out ?? null,
    keep: values.keep,
  };
}

function parseWith(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        minutes: { type: "string", default: "10" },
        seed: { type: "string" },
        lease: { type: "string", default: "6s" },
        workers: { type: "string", default: "4" },
        isolation: { type: "string", default: "thread" },
        pgbouncer: { type: "boolean", default: false },
        full: { type: "boolean", default: false },
        rate: { type: "string" },
        program: { type: "string" },
        out: { type: "string" },
        keep: { type: "boolean", default: false },
      },
    });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

function readNumber(name: string, text: string, range: { readonly low: number; readonly high: number }): number {
  const value = Number(text);
  if (text.trim() !== "" && value >= range.low && value <= range.high) return value;
  throw new UsageError(`expected --${name} to be a number from ${range.low} to ${range.high}, found "${text}"`);
}
