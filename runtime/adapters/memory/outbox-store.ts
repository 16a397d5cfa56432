import type { DispatchToken } from "../../core/ids.ts";
import { COUNTED_MESSAGES, type OutboxStore } from "../../protocol/ports/outbox.ts";
import type { JobRow, MemoryDatabase } from "./database.ts";
import type { MarkerRow } from "./outbox.ts";

export function createOutboxStore(database: MemoryDatabase): OutboxStore {
  const { outbox } = database;
  return {
    async loadInstallation() {
      return { id: "memory", transport: outbox.transport };
    },

    async setTransport(transport) {
      if (outbox.transport === transport) return false;
      outbox.transport = transport;
      outbox.markers.clear();
      for (const [id, { message }] of outbox.messages) {
        if (transport === "postgres" || message.kind !== "dead-letter") outbox.messages.delete(id);
      }
      for (const row of enqueued(database)) outbox.write(dispatchOf(row));
      return true;
    },

    async relayBatch(limit, publish) {
      if (outbox.relaying) return null;
      outbox.relaying = true;
      try {
        const nowMs = database.nowMs();
        const due = [...outbox.messages.values()].filter((row) => row.dueAtMs <= nowMs);
        const batch = due.sort((left, right) => left.dueAtMs - right.dueAtMs || left.id - right.id).slice(0, limit);
        if (batch.length === 0) return { taken: 0, removed: 0 };
        const verdicts = await publish(batch.map(({ message }) => message));
        let removed = 0;
        for (const [index, row] of batch.entries()) {
          if (verdicts[index] === "remove") removed += outbox.messages.delete(row.id) ? 1 : 0;
          if (verdicts[index] !== "put-off") continue;
          row.dueAtMs = database.nowMs() + Math.min(60, 2 ** row.tries) * 1_000;
          row.tries += 1;
        }
        return { taken: batch.length, removed };
      } finally {
        outbox.relaying = false;
      }
    },

    async readOutbox() {
      const [oldest] = outbox.messages.values();
      const oldestMs = oldest === undefined ? null : database.nowMs() - oldest.createdAtMs;
      return { messages: Math.min(COUNTED_MESSAGES, outbox.messages.size), oldestMs };
    },

    async writeMarkers({ agedMs, againMs, longestMs }) {
      if (outbox.transport === "postgres") return 0;
      const nowMs = database.nowMs();
      const agedAtMs = nowMs - agedMs;
      let written = 0;
      for (const queue of new Set(enqueued(database).map((row) => row.queue))) {
        // There jobs are claimed by the queue, and their messages only wake somebody.
        if (isLimited(database, queue)) continue;
        const before = [...outbox.markers.values()].filter((marker) => marker.queue === queue);
        const underWay = before.filter(({ consumedAtMs }) => consumedAtMs === null);
        const oldestMs = Math.max(...underWay.map(({ createdAtMs }) => nowMs - createdAtMs));
        const waitMs = underWay.length === 0 ? agedMs : Math.min(longestMs, Math.max(againMs, oldestMs / 2));
        if (before.some(({ createdAtMs }) => nowMs - createdAtMs < waitMs)) continue;
        const marker: Omit<MarkerRow, "id"> = {
          queue,
          uptoToken: uptoToken(database, queue),
          agedAtMs,
          createdAtMs: nowMs,
          doneToken: 0n,
          consumedAtMs: null,
          shownAtMs: null,
        };
        if (behind(database, marker).length === 0) continue;
        const id = outbox.nextId();
        outbox.markers.set(id, { id, ...marker });
        outbox.write({ kind: "marker", marker: String(id), queue });
        written += 1;
      }
      return written;
    },

    async consumeMarker(marker) {
      const row = outbox.markers.get(Number(marker));
      if (row !== undefined) row.consumedAtMs ??= database.nowMs();
    },

    async redispatchJobs({ settledMs, limit }) {
      const settledAtMs = database.nowMs() - settledMs;
      const settled = [...outbox.markers.values()].filter(
        ({ consumedAtMs, shownAtMs }) => consumedAtMs !== null && consumedAtMs <= settledAtMs && shownAtMs === null,
      );
      const [shown] = settled.sort(byQueueNewestFirst);
      if (shown === undefined) return null;
      const missing = behind(database, shown).slice(0, limit);
      for (const row of missing) outbox.write(dispatchOf(row));
      for (const { id, queue } of [...outbox.markers.values()]) {
        if (queue === shown.queue && (id < shown.id || (id > shown.id && missing.length > 0)))
          outbox.markers.delete(id);
      }
      shown.doneToken = missing.at(-1)?.token ?? shown.doneToken;
      if (missing.length < limit) shown.shownAtMs = database.nowMs();
      return { queue: shown.queue, jobs: missing.length };
    },
  };
}

function isLimited({ queues, pauses }: MemoryDatabase, queue: string): boolean {
  const { concurrency = null, suspended = false } = queues.get(queue) ?? {};
  return concurrency !== null || suspended || pauses.has(`Queue/${queue}`);
}

type EnqueuedRow = JobRow & { readonly token: DispatchToken; readonly enqueuedAtMs: number };

function enqueued(database: MemoryDatabase): readonly EnqueuedRow[] {
  return [...database.jobs.values()].filter((row): row is EnqueuedRow => row.state === "Enqueued");
}

function dispatchOf({ id, token, queue }: EnqueuedRow) {
  return { kind: "dispatch", jobId: id, token, queue } as const;
}

/** Tokens that were given out by now, up to the first that is in the outbox still. */
function uptoToken({ outbox, lastToken }: MemoryDatabase, queue: string): bigint {
  let upto = lastToken;
  for (const { message } of outbox.messages.values()) {
    if (message.kind === "dispatch" && message.queue === queue && message.token <= upto) upto = message.token - 1n;
  }
  return upto;
}

/** Jobs that were to come out of their queue before the marker and are in it, by token. */
function behind(database: MemoryDatabase, marker: Omit<MarkerRow, "id">): readonly EnqueuedRow[] {
  return enqueued(database)
    .filter((row) => row.queue === marker.queue && row.enqueuedAtMs <= marker.agedAtMs)
    .filter(({ token }) => token > marker.doneToken && token <= marker.uptoToken)
    .sort((left, right) => (left.token < right.token ? -1 : 1));
}

function byQueueNewestFirst(left: MarkerRow, right: MarkerRow): number {
  return left.queue === right.queue ? right.id - left.id : left.queue < right.queue ? -1 : 1;
}
