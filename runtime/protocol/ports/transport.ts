import type { DispatchToken, JobId } from "../../core/ids.ts";
import type { JsonObject } from "../../core/json.ts";

/** What travels to a worker on broker transports: the row is the truth, this only wakes somebody. */
export interface DispatchMessage {
  readonly kind: "dispatch";
  readonly jobId: JobId;
  readonly token: DispatchToken;
  readonly queue: string;
}

/** Put behind what a queue holds; that it was consumed says that everything before it was delivered. */
export interface MarkerMessage {
  readonly kind: "marker";
  readonly marker: string;
  readonly queue: string;
}

/** Tells other systems of a job that has exhausted its attempts; nobody in Turno reads it. */
export interface DeadLetterMessage {
  readonly kind: "dead-letter";
  readonly jobId: JobId;
  readonly body: JsonObject;
}

export type BrokerMessage = DispatchMessage | MarkerMessage | DeadLetterMessage;

/** `unroutable`: the broker has no queue for it. `unknown`: it may have arrived or not, as after a lost connection. */
export type PublishOutcome = "confirmed" | "unroutable" | "unknown";

export interface Delivery {
  readonly message: DispatchMessage | MarkerMessage;
  /** Never rejects: an acknowledgement of a dead channel is a no-op, the claim absorbs the duplicate. */
  acknowledge(): Promise<void>;
  /** Gives it back unclaimed, for anybody; never rejects. */
  release(): Promise<void>;
}

export interface Subscription {
  /** How many deliveries may be here that are neither acknowledged nor released. */
  prefetch(count: number): void;
  /** No more deliveries begin; those that are open can still be acknowledged. */
  stop(): Promise<void>;
}

export interface BrokerCondition {
  /** `blocked`: it takes no messages for now, short of memory or disk. */
  readonly state: "connected" | "blocked" | "away";
  readonly reason: string | null;
}

/** A message broker; the PostgreSQL transport has none and claims by queue instead. Reconnects by itself. */
export interface Broker {
  /** An outcome a message, in their order; never rejects. */
  publish(messages: readonly BrokerMessage[]): Promise<readonly PublishOutcome[]>;
  /** Delivers until stopped, across lost connections. What it cannot read it puts in the error queue. */
  subscribe(queue: string, prefetch: number, onDelivery: (delivery: Delivery) => void): Subscription;
  /** Messages waiting in a queue; null: not known now. */
  depth(queue: string): Promise<number | null>;
  condition(): BrokerCondition;
  close(): Promise<void>;
}

export type LockOutcome =
  /** Extended until it is released; losing it meanwhile changes nothing. Releasing never rejects. */
  | { readonly kind: "acquired"; release(): Promise<void> }
  /** Somebody else works on it. */
  | { readonly kind: "busy" }
  /** The lock service is away: go on without, the fence is the safety. */
  | { readonly kind: "unavailable" };

export interface LockManager {
  /** Tries once, with its own deadline; never rejects. */
  acquire(resource: string): Promise<LockOutcome>;
  /** How many of its nodes answer; for health, never for safety. */
  condition(): { readonly nodes: number; readonly answering: number };
  close(): Promise<void>;
}

export type DoorbellTopic =
  | { readonly kind: "queue"; readonly queue: string }
  | { readonly kind: "cancel"; readonly jobId: JobId }
  | { readonly kind: "schedules" }
  | { readonly kind: "revision" }
  /** Somebody asks the reconcilers to look at their source now. */
  | { readonly kind: "sync" };

/** A hint that something changed, coalesced and lossy; polling is the net beneath it. */
export interface Doorbell {
  ring(topic: DoorbellTopic): void;
  /** Calls back until the signal aborts; reconnects by itself and calls `onGap` when rings may have been missed. */
  listen(listener: { onRing(topic: DoorbellTopic): void; onGap(): void }, signal: AbortSignal): void;
  close(): Promise<void>;
}
