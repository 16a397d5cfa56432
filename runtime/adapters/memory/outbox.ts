import type { JobId } from "../../core/ids.ts";
import type { Transport } from "../../protocol/ports/outbox.ts";
import type { BrokerMessage, DeadLetterMessage } from "../../protocol/ports/transport.ts";

export interface OutboxRow {
  readonly id: number;
  readonly message: BrokerMessage;
  readonly createdAtMs: number;
  dueAtMs: number;
  tries: number;
}

export interface MarkerRow {
  readonly id: number;
  readonly queue: string;
  readonly uptoToken: bigint;
  readonly agedAtMs: number;
  readonly createdAtMs: number;
  doneToken: bigint;
  consumedAtMs: number | null;
  shownAtMs: number | null;
}

/** The outbox's tables; what is written here is part of the step that writes it. */
export class MemoryOutbox {
  transport: Transport = "postgres";
  /** Somebody publishes. */
  relaying = false;
  readonly messages = new Map<number, OutboxRow>();
  readonly markers = new Map<number, MarkerRow>();
  readonly #nowMs: () => number;
  #id = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  nextId(): number {
    this.#id += 1;
    return this.#id;
  }

  /** Nothing while the database is the transport. */
  write(message: BrokerMessage): void {
    if (this.transport === "postgres") return;
    const id = this.nextId();
    const nowMs = this.#nowMs();
    this.messages.set(id, { id, message, createdAtMs: nowMs, dueAtMs: nowMs, tries: 0 });
  }
}

interface FailedJob {
  readonly id: JobId;
  readonly type: string;
  readonly queue: string;
  readonly error: string | null;
}

export function deadLetterOf({ id, type, queue, error }: FailedJob, reason: string): DeadLetterMessage {
  return { kind: "dead-letter", jobId: id, body: { jobId: id, type, queue, reason, error } };
}
