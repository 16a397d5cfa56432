import type { Broker } from "../../runtime/protocol/ports/transport.ts";

/** What one process has of the broker, with a network between that can be broken. */
export interface BrokerProcess {
  readonly broker: Broker;
  /** Breaks its connections; new ones can be made. */
  cut(): Promise<void>;
  /** Nothing passes and nothing is broken, until `mend`. */
  silence(): Promise<void>;
  /** There is no way to the broker, until `mend`. */
  isolate(): Promise<void>;
  mend(): Promise<void>;
  /** As when the process dies: whatever it had is gone from one moment to the next. */
  kill(): Promise<void>;
}

/** A broker, and what the suite needs beside its port. Queues begin empty for each `installation`. */
export interface BrokerUnderTest {
  open(installation: string): Promise<BrokerProcess>;
  /** Lets time pass: a moment for real, or a step of a virtual clock. */
  pass(): Promise<void>;
  /** Puts a text in a work queue, as nobody of Turno would. */
  putText(installation: string, queue: string, text: string): Promise<void>;
  /** Texts in the error queue, in their order. */
  readErrors(installation: string): Promise<readonly string[]>;
  readDeadLetters(installation: string): Promise<readonly string[]>;
  /** Deletes a queue under the running system; null: queues of this broker are made by hand and stay. */
  readonly removeQueue: ((installation: string, queue: string) => Promise<void>) | null;
  /** Lets the broker take no messages, or again; null: it has no such state, or it is tested elsewhere. */
  readonly block: ((isBlocked: boolean) => Promise<void>) | null;
  /** False: `depth` also counts what is delivered and not acknowledged. */
  readonly countsWaitingOnly: boolean;
  /** False: `depth` is always null. */
  readonly knowsDepth: boolean;
  close(): Promise<void>;
}
