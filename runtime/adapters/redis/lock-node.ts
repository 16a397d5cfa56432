import { Redis } from "ioredis";
import type { Client } from "redlock";
import { describeError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import { LATE, withDeadline } from "./deadline.ts";
import type { NodeAddress } from "./node-address.ts";
import { RELEASE_HASH, RELEASE_SCRIPT } from "./scripts.ts";

/** A connection without an answer for this long is given up, and another one is made. */
const GIVE_UP_MS = 3_000;
const RECONNECT_MS = { first: 50, most: 2_000 };
/** How long a closing socket may take to say goodbye. */
const GOODBYE_MS = 200;
/** Releases kept for a node that is away; beyond that locks run out by themselves. */
const OWED_LIMIT = 1_000;

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
  let isClosed = false;
  const owed: (readonly (string | number)[])[] = [];

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
    if (isClosed) return;
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
    for (const keysAndValue of owed.splice(0)) releaseLater(keysAndValue);
    tell();
  });
  client.on("close", () => {
    reason ??= "the connection was closed";
    tell();
  });

  function hear(): void {
    if (silentSince === null) return;
    silentSince = null;
    tell();
  }

  function hearError(error: unknown): void {
    if (!isReply(error)) return;
    silentSince = null;
    if (!error.message.startsWith("NOSCRIPT")) refusal = error.message.slice(0, 200);
    tell();
  }

  /** A late answer is an answer too: it says that the node is there again. */
  async function ask(reply: Promise<unknown>): Promise<unknown> {
    reply.then(hear, hearError);
    const answer = await withDeadline(reply, commandMs);
    if (answer !== LATE) return answer;
    silentSince ??= monotonicMs();
    reason = null;
    tell();
    throw SILENT;
  }

  async function askWhenThere(command: () => Promise<unknown>): Promise<unknown> {
    if (opening !== null) await withDeadline(opening, commandMs);
    if (client.status !== "ready" || silentSince !== null) throw AWAY;
    return await ask(command());
  }

  /** What a try has locked that was given up must not stay locked until it runs out: it is sent when that can be done. */
  function releaseLater(keysAndValue: readonly (string | number)[]): void {
    if (client.status === "ready") {
      client
        .eval(RELEASE_SCRIPT, 1, ...keysAndValue)
        .then(hear, (error) => isReply(error) || releaseLater(keysAndValue));
    } else if (owed.length < OWED_LIMIT) {
      owed.push(keysAndValue);
    }
  }

  async function release(keysAndValue: readonly (string | number)[]): Promise<unknown> {
    if (client.status !== "ready" || silentSince !== null) {
      releaseLater(keysAndValue);
      throw AWAY;
    }
    const reply = client.evalsha(RELEASE_HASH, 1, ...keysAndValue);
    reply.catch((error) => isReply(error) || releaseLater(keysAndValue));
    return await ask(reply);
  }

  return {
    evalsha: (hash, keyCount, rest) =>
      hash === RELEASE_HASH ? release(rest) : askWhenThere(() => client.evalsha(hash, keyCount, ...rest)),
    eval: (script, keyCount, rest) => askWhenThere(() => client.eval(script, keyCount, ...rest)),
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
        ask(client.set(probeKey, "1", "PX", GIVE_UP_MS)).then(
          () => {
            refusal = null;
            tell();
          },
          () => {},
        );
      }
    },
    close() {
      isClosed = true;
      client.disconnect();
    },
  };
}

/** An error that the node answered with; others come from the connection. */
function isReply(error: unknown): error is Error {
  return error instanceof Error && error.name === "ReplyError";
}
