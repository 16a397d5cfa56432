import type { DispatchToken, JobId } from "../../core/ids.ts";
import type { Json } from "../../core/json.ts";
import type { ClaimedJob } from "../../protocol/ports/jobs.ts";

/** What claims answer: a row a job, the columns that most jobs have nothing in folded into one, and `once` on the last. */
export interface ClaimedRow {
  readonly id: JobId;
  readonly dispatch_id: string;
  readonly type: string;
  readonly payload: Json;
  readonly execution: number;
  readonly more: More | null;
  readonly once: Once | null;
}

interface More {
  readonly failures: number;
  readonly lost: number;
  readonly lostUnstarted: number;
  readonly returns: number;
  readonly maxAttempts: number | null;
  readonly timeoutMs: number | null;
  readonly concurrencyKey: string | null;
  readonly schedule: string | null;
  readonly fireAt: string | null;
  readonly fireLateMs: number | null;
  readonly recovered: boolean;
}

/** What is the same for all rows, or about all of them. */
interface Once {
  readonly queue: string;
  /** Place of the last row in the queue, in µs of the epoch. */
  readonly positionUs: string;
  readonly definitions: Definitions | null;
}

/** Hash and revision by job type; types that were never declared are absent. */
type Definitions = Readonly<Record<string, readonly [hash: string, revision: number]>>;

const NOTHING_MORE: More = {
  failures: 0,
  lost: 0,
  lostUnstarted: 0,
  returns: 0,
  maxAttempts: null,
  timeoutMs: null,
  concurrencyKey: null,
  schedule: null,
  fireAt: null,
  fireLateMs: null,
  recovered: false,
};

export interface ClaimAnswer {
  readonly jobs: readonly ClaimedJob[];
  /** Where the next claim goes on; null: nothing was claimed. */
  readonly last: { readonly positionUs: string; readonly id: JobId } | null;
}

export function readClaim(rows: readonly ClaimedRow[]): ClaimAnswer {
  const last = rows.at(-1);
  if (last === undefined || last.once === null) return { jobs: [], last: null };
  const { queue, positionUs, definitions } = last.once;
  const types = typesOf(definitions);
  return { jobs: rows.map((row) => toJob(row, queue, types)), last: { positionUs, id: last.id } };
}

/** What a claim of deliveries answers; `type` is null where the queue keeps the job from being claimed. */
export type DeliveredRow = { readonly queue: string } & (
  | (Omit<ClaimedRow, "once"> & { readonly definitions: Definitions | null })
  | { readonly dispatch_id: string; readonly type: null }
);

/** By token. */
export function readDeliveries(rows: readonly DeliveredRow[]): ReadonlyMap<DispatchToken, ClaimedJob | "limited"> {
  const claimed = rows.flatMap((row) => (row.type === null ? [] : [row]));
  const types = typesOf(claimed.find(({ definitions }) => definitions !== null)?.definitions ?? null);
  return new Map(
    rows.map((row) => [toToken(row.dispatch_id), row.type === null ? "limited" : toJob(row, row.queue, types)]),
  );
}

type Types = ReadonlyMap<string, { readonly type: string; readonly hash: string; readonly revision: number }>;

/** Jobs wait for a slot and for their final write: one string a type, not one a job, is what they hold on to. */
function typesOf(definitions: Definitions | null): Types {
  return new Map(Object.entries(definitions ?? {}).map(([type, [hash, revision]]) => [type, { type, hash, revision }]));
}

function toJob(row: Omit<ClaimedRow, "once">, queue: string, types: Types): ClaimedJob {
  const declared = types.get(row.type);
  const more = row.more ?? NOTHING_MORE;
  return {
    id: row.id,
    token: toToken(row.dispatch_id),
    type: declared?.type ?? row.type,
    queue,
    payload: row.payload,
    definitionHash: declared?.hash ?? null,
    revision: declared?.revision ?? null,
    failures: more.failures,
    execution: row.execution,
    lost: more.lost,
    lostUnstarted: more.lostUnstarted,
    returns: more.returns,
    maxAttempts: more.maxAttempts,
    timeoutMs: more.timeoutMs,
    concurrencyKey: more.concurrencyKey,
    schedule:
      more.schedule === null || more.fireAt === null
        ? null
        : { name: more.schedule, firedFor: new Date(more.fireAt), lateByMs: more.fireLateMs ?? 0 },
    recovered: more.recovered,
  };
}

export function toToken(text: string): DispatchToken {
  return BigInt(text) as DispatchToken;
}
