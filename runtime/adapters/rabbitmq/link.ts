import type { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { type ChannelModel, connect } from "amqplib";
import type { TurnoError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import type { BrokerCondition } from "../../protocol/ports/transport.ts";
import type { RabbitAddress } from "./address.ts";
import { explainRefusal, isLasting } from "./failures.ts";

const RECONNECT_MS = { first: 250, most: 10_000 };
/** A connection that was this long up begins with short waits again. */
const STEADY_MS = 30_000;

export interface LinkOptions {
  readonly address: RabbitAddress;
  /** `publish` or `consume`, for the broker's list of connections and the log. */
  readonly purpose: string;
  readonly logger: Logger;
  /** Of a connection that is new; when it throws, the connection is given up and another one is made. */
  onUp(model: ChannelModel): Promise<void>;
  onDown(): void;
}

/** One connection to RabbitMQ that comes again by itself. */
export interface RabbitLink {
  /** Settles with the first attempt: null, or why there is no connection yet. */
  readonly firstAttempt: Promise<TurnoError | null>;
  condition(): BrokerCondition;
  /** Says goodbye, and goes without an answer after so long. */
  close(limitMs: number): Promise<void>;
  /** Breaks the connection that is; for one that is up and does not answer. */
  reset(reason: string): void;
}

export function openLink(options: LinkOptions): RabbitLink {
  const { address, purpose, logger } = options;
  const closing = new AbortController();
  let condition: BrokerCondition = { state: "away", reason: "not connected yet" };
  let current: ChannelModel | null = null;
  let tellFirst: (failure: TurnoError | null) => void = () => {};
  const firstAttempt = new Promise<TurnoError | null>((resolve) => {
    tellFirst = resolve;
  });

  /** Resolves when the connection is over, to its reason. */
  const serve = async (model: ChannelModel): Promise<unknown> => {
    let failure: unknown = null;
    const over = new Promise<unknown>((resolve) => {
      model.on("error", (error) => {
        failure ??= error;
      });
      model.once("close", (error) => resolve(failure ?? error ?? new Error("the connection was closed")));
    });
    model.on("blocked", (reason) => {
      condition = { state: "blocked", reason };
      logger.warn("RabbitMQ takes no messages for now", { connection: purpose, reason });
    });
    model.on("unblocked", () => {
      condition = { state: "connected", reason: null };
      logger.info("RabbitMQ takes messages again", { connection: purpose });
    });
    current = model;
    try {
      await Promise.race([options.onUp(model), over.then((reason) => Promise.reject(reason))]);
      condition = { state: "connected", reason: null };
      tellFirst(null);
      return await over;
    } finally {
      current = null;
      breakSocket(model, "the connection is over");
      options.onDown();
    }
  };

  const keep = async (): Promise<void> => {
    let waitMs = RECONNECT_MS.first;
    let complaint: string | null = null;
    while (!closing.signal.aborted) {
      let upSince: number | null = null;
      let reason: unknown;
      try {
        const model = await connect(address.connect, {
          ...address.socket,
          clientProperties: { connection_name: `turno ${purpose}`, product: "turno" },
        });
        model.on("error", () => {});
        if (closing.signal.aborted) {
          breakSocket(model, "closing");
          return;
        }
        upSince = performance.now();
        if (complaint !== null) logger.info("RabbitMQ answers again", { connection: purpose });
        complaint = null;
        reason = await serve(model);
      } catch (error) {
        reason = error;
      }
      if (closing.signal.aborted) return;
      const failure = explainRefusal(reason, address.shown);
      condition = { state: "away", reason: failure.message };
      tellFirst(failure);
      if (complaint !== failure.message) {
        const fields = { connection: purpose, error: failure.message, code: failure.code, hint: failure.hint };
        if (isLasting(failure)) logger.error("RabbitMQ refuses; trying again", fields);
        else logger.warn("RabbitMQ is away; trying again", fields);
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
      logger.warn("the connection to RabbitMQ is given up", { connection: purpose, reason });
      breakSocket(current, reason);
    },
    async close(limitMs) {
      closing.abort();
      const model = current;
      if (model === null) return;
      const gone = new AbortController();
      await Promise.race([
        model.close().catch(() => {}),
        delay(limitMs, undefined, { signal: gone.signal, ref: false }).catch(() => {}),
      ]);
      gone.abort();
      breakSocket(model, "closing");
      await Promise.race([kept, delay(limitMs, undefined, { ref: false })]);
    },
  };
}

/** The client leaves the socket of a silent peer open, and without an error it does not see that it is gone. */
export function breakSocket(model: ChannelModel, reason: string): void {
  const { stream } = model.connection as unknown as { readonly stream: Socket };
  stream.destroy(new Error(reason));
}
