import { assert, unreachable } from "../../core/assert.ts";
import type { JobId } from "../../core/ids.ts";
import type { JsonObject } from "../../core/json.ts";
import {
  COUNTED_MESSAGES,
  type Installation,
  type OutboxStore,
  type RelayVerdict,
  type Transport,
} from "../../protocol/ports/outbox.ts";
import type { BrokerMessage } from "../../protocol/ports/transport.ts";
import { toToken } from "./claim-answer.ts";
import {
  CONSUME_MARKER,
  CREATE_TRIGGERS,
  DROP_TRIGGERS,
  EMPTY_OUTBOX,
  LOAD_INSTALLATION,
  LOCK_SOURCES,
  LOCK_TRANSPORT,
  READ_OUTBOX,
  RECORD_TRANSPORT,
  REDISPATCH,
  SETTLE_OUTBOX,
  TAKE_OUTBOX,
  TELL_OF_ALL,
  TRY_RELAY_LOCK,
  WAIT_FOR_RELAY_LOCK,
  WRITE_MARKERS,
} from "./outbox-statements.ts";
import { type Database, isLockTimeout } from "./pool.ts";

interface OutboxRow {
  readonly id: string;
  readonly kind: BrokerMessage["kind"];
  readonly job_id: JobId;
  readonly token: string;
  readonly queue: string;
  readonly body: JsonObject;
  readonly due_at: Date;
}

export interface OutboxStoreOptions {
  /** Monotonic milliseconds. */
  readonly monotonicMs?: () => number;
}

/**
 * What was removed stands at the head of the index as long as some session may still see it: a dump, a forgotten transaction. So a
 * look begins where the last one ended, less what a transaction may have taken longer than those after it, and goes over all of it this often.
 */
const OVERLAP_MS = 1_000;
const LOOK_AT_ALL_MS = 5_000;
const FROM_THE_START = new Date(0);

/** Everybody who puts jobs in a queue waits behind a change of the transport, so it waits a second at a time. */
const TABLE_WAIT_MS = 1_000;
const TABLE_WAITS = 60;
/** What PostgreSQL takes as a bigint, and the form of it that is written here. */
const MARKER = /^\d{1,18}$/;

/** The outbox on PostgreSQL. Whoever relays holds a transaction open while the broker confirms, so that a crash frees its turn at once. */
export function createOutboxStore(
  database: Database,
  { monotonicMs = () => performance.now() }: OutboxStoreOptions = {},
): OutboxStore {
  let from = FROM_THE_START;
  let lookAtAllMs = 0;

  async function loadInstallation(): Promise<Installation> {
    const [row] = await database.query<Installation & { id: string }>(LOAD_INSTALLATION);
    assert(row !== undefined, "the installation has its one row");
    return row;
  }

  return {
    loadInstallation,

    async setTransport(transport) {
      if ((await loadInstallation()).transport === transport) return false;
      for (let left = TABLE_WAITS; ; left -= 1) {
        try {
          return await database.transaction((query) => switchTransport(query, transport), {
            lockTimeoutMs: TABLE_WAIT_MS,
          });
        } catch (error) {
          if (left === 0 || !isLockTimeout(error)) throw error;
        }
      }
    },

    async relayBatch(limit, publish) {
      const nowMs = monotonicMs();
      if (nowMs >= lookAtAllMs) {
        lookAtAllMs = nowMs + LOOK_AT_ALL_MS;
        from = FROM_THE_START;
      }
      const after = from;
      // Where the turn does not come to its end, and where something stays, the next look is at all of it.
      from = FROM_THE_START;
      const turn = await database.transaction(async (query) => {
        if ((await query(TRY_RELAY_LOCK)).length === 0) return null;
        const rows = await query<OutboxRow & { id: string }>(TAKE_OUTBOX, [limit, after]);
        if (rows.length === 0) return { batch: { taken: 0, removed: 0 }, next: after };
        const verdicts = await publish(rows.map(toMessage));
        const judged = (verdict: RelayVerdict) => rows.filter((_, index) => verdicts[index] === verdict);
        const confirmed = judged("remove").map(({ id }) => id);
        const putOff = judged("put-off").map(({ id }) => id);
        if (confirmed.length + putOff.length > 0) await query(SETTLE_OUTBOX, [confirmed, putOff]);
        const isSettled = confirmed.length + putOff.length === rows.length;
        return { batch: { taken: rows.length, removed: confirmed.length }, next: isSettled ? beyond(rows) : after };
      });
      from = turn?.next ?? after;
      return turn?.batch ?? null;
    },

    async readOutbox() {
      const [row] = await database.query<{ messages: number; oldest_ms: number | null }>(READ_OUTBOX, [
        COUNTED_MESSAGES,
      ]);
      return { messages: row?.messages ?? 0, oldestMs: row?.oldest_ms ?? null };
    },

    async writeMarkers({ agedMs, againMs, longestMs }) {
      return (await database.query(WRITE_MARKERS, [agedMs, againMs, longestMs])).length;
    },

    async consumeMarker(marker) {
      if (MARKER.test(marker)) await database.query(CONSUME_MARKER, [marker]);
    },

    async redispatchJobs({ settledMs, limit }) {
      const [shown] = await database.query<{ queue: string; jobs: number }>(REDISPATCH, [settledMs, limit]);
      return shown ?? null;
    },
  };
}

/** In this order, which nobody else has: the relay's turn, the installation, the tables. */
async function switchTransport(query: Database["query"], transport: Transport): Promise<boolean> {
  await query(WAIT_FOR_RELAY_LOCK);
  const [before] = await query<{ transport: Transport }>(LOCK_TRANSPORT);
  if (before?.transport === transport) return false;
  await query(LOCK_SOURCES);
  for (const statement of DROP_TRIGGERS) await query(statement);
  await query(EMPTY_OUTBOX, [transport === "postgres"]);
  if (transport !== "postgres") {
    for (const statement of CREATE_TRIGGERS) await query(statement);
    await query(TELL_OF_ALL);
  }
  await query(RECORD_TRANSPORT, [transport]);
  return true;
}

function beyond(rows: readonly OutboxRow[]): Date {
  return new Date((rows.at(-1)?.due_at.getTime() ?? OVERLAP_MS) - OVERLAP_MS);
}

function toMessage({ kind, job_id: jobId, token, queue, body }: OutboxRow): BrokerMessage {
  switch (kind) {
    case "dispatch":
      return { kind, jobId, token: toToken(token), queue };
    case "marker":
      return { kind, marker: token, queue };
    case "dead-letter":
      return { kind, jobId, body };
    default:
      return unreachable(kind);
  }
}
