import { setTimeout as delay } from "node:timers/promises";
import type { ServiceBusClient } from "@azure/service-bus";
import { TurnoError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import type { BrokerCondition } from "../../protocol/ports/transport.ts";
import type { ServiceBusAddress } from "./address.ts";
import { breakSocket, connectionOf, type MakeClient } from "./client.ts";
import { explainRefusal, isLasting } from "./failures.ts";

const RECONNECT_MS = { first: 250, most: 10_000 };
/** A connection that was this long up begins with short waits again. */
const STEADY_MS = 30_000;

export interface LinkOptions {
  readonly address: ServiceBusAddress;
  readonly makeClient: MakeClient;
  readonly logger: Logger;
  /** A connection that is not up by then is given up. */
  readonly connectMs: number;
  /** Of a connection that is new, which it has to use; when it throws, another one is made. */
  onUp(client: ServiceBusClient): Promise<void>;
  onDown(): void;
}

/** One connection to Service Bus that comes again by itself: a new client each time, so that nothing of the old one counts. */
export interface ServiceBusLink {
  /** Settles with the first attempt: null, or why there is no connection yet. */
  readonly firstAttempt: Promise<TurnoError | null>;
  condition(): BrokerCondition;
  /** Says goodbye, and goes without an answer after so long. */
  close(limitMs: number): Promise<void>;
  /** Breaks the connection that is; for one that is up and does not answer. */
  reset(reason: string): void;
}

interface Current {
  readonly client: ServiceBusClient;
  end(reason: Error): void;
}

export function openLink(options: LinkOptions): ServiceBusLink {
  const { address, logger } = options;
  const closing = new AbortController();
  let condition: BrokerCondition = { state: "away", reason: "not connected yet" };
  let current: Current | null = null;
  let tellFirst: (failure: TurnoError | null) => void = () => {};
  const firstAttempt = new Promise<TurnoError | null>((resolve) => {
    tellFirst = resolve;
  });

  /** Resolves when the connection is over, to its reason. */
  const serve = async (onConnected: () => void): Promise<unknown> => {
    const client = options.makeClient();
    const connection = connectionOf(client);
    const over = new Promise<Error>((resolve) => {
      connection.on("disconnected", () => resolve(new Error("the connection was closed")));
      current = { client, end: resolve };
    });
    const limit = new AbortController();
    const tooLate = delay(options.connectMs, undefined, { signal: limit.signal, ref: false });
    try {
      await Promise.race([
        options.onUp(client),
        over.then((reason) => Promise.reject(reason)),
        tooLate.then(() => Promise.reject(new Error(`nothing was heard within ${options.connectMs} ms`))),
      ]);
      limit.abort();
      condition = { state: "connected", reason: null };
      onConnected();
      tellFirst(null);
      return await over;
    } finally {
      limit.abort();
      tooLate.catch(() => {});
      current = null;
      options.onDown();
      // It closes what it has, or the client would connect again by itself.
      client.close().catch(() => {});
      breakSocket(connection, "the connection is over");
    }
  };

  const keep = async (): Promise<void> => {
    let waitMs = RECONNECT_MS.first;
    let complaint: string | null = null;
    while (!closing.signal.aborted) {
      let upSince: number | null = null;
      const reason = await serve(() => {
        upSince = performance.now();
        if (complaint !== null) logger.info("Service Bus answers again");
        complaint = null;
      }).catch((error: unknown) => error);
      if (closing.signal.aborted) return;
      const failure = reason instanceof TurnoError ? reason : explainRefusal(reason, address);
      condition = { state: "away", reason: failure.message };
      tellFirst(failure);
      if (complaint !== failure.message) {
        const fields = { error: failure.message, code: failure.code, hint: failure.hint };
        if (isLasting(failure)) logger.error("Service Bus refuses; trying again", fields);
        else logger.warn("Service Bus is away; trying again", fields);
      }
      complaint = failure.message;
      if (upSince !== null && performance.now() - upSince > STEADY_MS) waitMs = RECONNECT_MS.first;
      // All processes lose the broker at once and must not come back at once.
      await delay(waitMs * (0.5 + Math.random() / 2), undefined, { signal: closing.signal, ref: false }).catch(
        () => {},
      );
      waitMs = Math.min(RECONNECT_MS.most, waitMs * 2);
    }
  };
  const kept = keep().finally(() => {
    condition = { state: "away", reason: "closed" };
  });

  return {
    firstAttempt,
    condition: () => condition,
    reset(reason) {
      if (current === null) return;
      logger.warn("the connection to Service Bus is given up", { reason });
      current.end(new Error(reason));
    },
    async close(limitMs) {
      closing.abort();
      const ended = current;
      if (ended !== null) {
        const gone = new AbortController();
        const limit = delay(limitMs, undefined, { signal: gone.signal, ref: false }).catch(() => {});
        await Promise.race([ended.client.close().catch(() => {}), limit]);
        gone.abort();
        ended.end(new Error("closing"));
      }
      await Promise.race([kept, delay(limitMs, undefined, { ref: false })]);
    },
  };
}
