import type { DispatchToken, JobId } from "../../core/ids.ts";

/** What travels to a worker on broker transports: the row is the truth, this only wakes somebody. */
export interface DispatchMessage {
  readonly jobId: JobId;
  readonly token: DispatchToken;
  readonly queue: string;
}

export interface Delivery extends DispatchMessage {
  /** Never rejects: an acknowledgement of a dead channel is a no-op, the claim absorbs the duplicate. */
  acknowledge(): Promise<void>;
}

/** A message broker; the PostgreSQL transport has none and claims by queue instead. */
export interface Broker {
  /** Resolves when the broker confirmed and routed the message. */
  publish(message: DispatchMessage): Promise<void>;
  consume(queue: string, handle: (delivery: Delivery) => Promise<void>, signal: AbortSignal): Promise<void>;
  /** Messages waiting in a queue. */
  depth(queue: string): Promise<number>;
}

export type LockOutcome =
  | { readonly kind: "acquired"; release(): Promise<void> }
  /** Somebody else works on it. */
  | { readonly kind: "busy" }
  /** The lock service is away: go on without, the fence is the safety. */
  | { readonly kind: "unavailable" };

export interface LockManager {
  /** Tries once, with its own deadline; never rejects. */
  acquire(resource: string): Promise<LockOutcome>;
}

export type DoorbellTopic =
  | { readonly kind: "queue"; readonly queue: string }
  | { readonly kind: "cancel"; readonly jobId: JobId }
  | { readonly kind: "schedules" }
  | { readonly kind: "revision" };

/** A hint that something changed, coalesced and lossy; polling is the net beneath it. */
export interface Doorbell {
  ring(topic: DoorbellTopic): void;
  /** Calls back until the signal aborts; reconnects by itself and calls `onGap` when rings may have been missed. */
  listen(listener: { onRing(topic: DoorbellTopic): void; onGap(): void }, signal: AbortSignal): void;
  close(): Promise<void>;
}
