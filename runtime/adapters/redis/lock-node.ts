import { Redis } from "ioredis";
import type { Client } from "redlock";
import { describeError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import { LATE, withDeadline } from "./deadline.ts";
import type { NodeAddress } from "./node-address.ts";

/** A connection without an answer for this long is given up, and another one is made. */
const GIVE_UP_MS = 3_000;
const RECONNECT_MS = { first: 50, most: 2_000 };
/** How long a closing socket may take to say goodbye. */
const GOODBYE_MS = 200;

/** One Redis as Redlock calls it: what it cannot answer now, it refuses at once. */
export interface LockNode extends Client {
  answers(): boolean;
  /** Sees whether it still answers, or answers again; called about once a second. */
  probe(): void;
  close(): void;
}

export interface LockNodeOptions {
  readonly address: NodeAddress;
  /** Written now and then to see that the node takes writes; expires by itself. */
  readonly probeKey: string;
  /** Text of the certificate of an authority of one's own; null: those that Node knows. */
  readonly ca: string | null;
  /** A command that takes longer has failed, and the node counts as silent until it is heard again. */
  readonly commandMs: number;
  readonly monotonicMs: () => number;
  readonly logger: Logger;
}

// One for all: making an error costs more than the refusal, and redlock only looks at its class.
const AWAY = new Error("the node is away");
const SILENT = new Error("the node did not answer in time");

/** Connects at once and reconnects by itself. */
export function openLockNode({ address, probeKey, ca, commandMs, monotonicMs, logger }: LockNodeOptions): LockNode {
  let silentSince: number | null = null;
  let connectedAt = monotonicMs();
  /** Why it answers, but takes no locks: read-only, out of memory, … */
  let refusal: string | null = null;
  let reason: string | null = null;
  let toldAway = false;

  const client = new Redis(address.url, {
    enableAutoPipelining: true,
    // What was asked of a node that is away must fail now, and never be done later.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    disableClientInfo: true,
    connectTimeout: GIVE_UP_MS,
    disconnectTimeout: GOODBYE_MS,
    retryStrategy: (times) => Math.min(RECONNECT_MS.first * 2 ** Math.min(times - 1, 10), RECONNECT_MS.most),
    ...(ca === null || !address.isTls ? {} : { tls: { ca } }),
  });
  /** Settles with the first connection, or the first failure of it: whoever asks before waits for that. */
  let opening: Promise<void> | null = new Promise<void>((opened) => {
    client.once("ready", opened);
    client.once("close", opened);
  });
  void opening.then(() => {
    opening = null;
  });

  const answers = () => client.status === "ready" && silentSince === null && refusal === null;

  function tell(): void {
    if (answers()) {
      if (toldAway) logger.info("a lock node answers again", { node: address.name });
      toldAway = false;
    } else if (!toldAway) {
      toldAway = true;
      logger.warn("a lock node is away", { node: address.name, reason: refusal ?? reason ?? "no answer in time" });
    }
  }

  client.on("error", (error: unknown) => {
    // ioredis hangs the failed command on its errors, the password of AUTH included: only the text is kept.
    reason = describeError(error);
  });
  client.on("connect", () => {
    connectedAt = monotonicMs();
  });
  client.on("ready", () => {
    silentSince = null;
    refusal = null;
    reason = null;
    tell();
  });
  client.on("close", () => {
    reason ??= "the connection was closed";
    tell();
  });

  function hear(): void {
    if (silentSince === null && refusal === null) return;
    silentSince = null;
    refusal = null;
    tell();
  }

  function hearError(error: unknown): void {
    if (!(error instanceof Error) || error.name !== "ReplyError") return;
    silentSince = null;
    refusal = error.message.startsWith("NOSCRIPT") ? null : error.message.slice(0, 200);
    tell();
  }

  async function ask(command: () => Promise<unknown>): Promise<unknown> {
    if (opening !== null) await withDeadline(opening, commandMs);
    if (client.status !== "ready" || silentSince !== null) throw AWAY;
    const reply = command();
    // A late answer is an answer too: it says that the node is there again.
    reply.then(hear, hearError);
    const answer = await withDeadline(reply, commandMs);
    if (answer !== LATE) return answer;
    silentSince ??= monotonicMs();
    reason = null;
    tell();
    throw SILENT;
  }

  return {
    evalsha: (hash, keyCount, rest) => ask(() => client.evalsha(hash, keyCount, ...rest)),
    eval: (script, keyCount, rest) => ask(() => client.eval(script, keyCount, ...rest)),
    answers,
    probe() {
      const now = monotonicMs();
      const stuck =
        client.status === "connect"
          ? connectedAt
          : client.status === "ready" && silentSince !== null
            ? silentSince
            : now;
      if (now - stuck >= GIVE_UP_MS) {
        client.disconnect(true);
      } else if (client.status === "ready" && silentSince === null) {
        // A write, since a node that is read-only or out of memory answers pings.
        ask(() => client.set(probeKey, "1", "PX", GIVE_UP_MS)).catch(() => {});
      }
    },
    close: () => client.disconnect(),
  };
}
