import { setTimeout as delay } from "node:timers/promises";
import { type OpenedTransport, openTransport } from "../compose/transport.ts";
import type { Stores } from "../compose.ts";
import type { RuntimeSettings } from "../config/objects.ts";
import { humanDuration } from "../core/duration.ts";
import { describeError, TurnoError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import { COUNTED_MESSAGES } from "../protocol/ports/outbox.ts";

/** One line of `turno doctor`. */
export interface Finding {
  readonly check: string;
  readonly status: "ok" | "warning" | "failed";
  readonly detail: string;
}

const CONNECT_LIMIT_MS = 3_000;
const LOOK_MS = 50;
/** An outbox that is older is behind. */
const BEHIND_MS = 60_000;

/** The broker, its queues, the locks and the outbox, as this machine's settings reach them; nothing on PostgreSQL alone. */
export async function examineTransport(
  stores: Stores,
  settings: RuntimeSettings,
  logger: Logger,
): Promise<readonly Finding[]> {
  const { transport: recorded } = await stores.outbox.loadInstallation();
  const { transport: configured } = settings.broker;
  const findings: Finding[] = [];
  if (recorded !== configured) {
    const detail = `the settings say ${configured}, the installation has ${recorded}; turno server changes it at its start`;
    findings.push({ check: "transport", status: "warning", detail });
  }
  if (recorded !== "postgres") findings.push(await examineOutbox(stores));
  if (configured === "postgres") return findings;
  try {
    const transport = await openTransport({ settings, outbox: stores.outbox, logger });
    try {
      findings.push(...(await examineOpened(transport, settings)));
    } finally {
      await transport.close();
    }
  } catch (error) {
    const hint = error instanceof TurnoError && error.hint !== null ? ` (${error.hint})` : "";
    findings.push({ check: "broker", status: "failed", detail: `${describeError(error)}${hint}` });
  }
  return findings;
}

async function examineOpened(
  { transport, broker, locks }: OpenedTransport,
  settings: RuntimeSettings,
): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  if (broker !== null) {
    const { state, reason } = broker.condition();
    const depths = await Promise.all(
      settings.worker.queues.map(async ({ name }) => `${name} ${(await broker.depth(name)) ?? "?"}`),
    );
    const status = state === "connected" ? "ok" : state === "blocked" ? "warning" : "failed";
    const waiting = state === "away" ? "" : `; messages waiting: ${depths.join(", ")}`;
    findings.push({
      check: "broker",
      status,
      detail: `${transport} ${state}${reason === null ? "" : `: ${reason}`}${waiting}`,
    });
  }
  const { nodes } = locks.condition();
  if (nodes > 0) {
    const answering = await countAnswering(locks);
    const status = answering === nodes ? "ok" : "warning";
    const without = answering * 2 > nodes ? "" : "; jobs run without locks, the fence is the safety";
    findings.push({ check: "locks", status, detail: `${answering} of ${nodes} Redis nodes answer${without}` });
  }
  return findings;
}

/** Its connections are only being made. */
async function countAnswering(locks: OpenedTransport["locks"]): Promise<number> {
  const giveUpAt = performance.now() + CONNECT_LIMIT_MS;
  for (;;) {
    const { nodes, answering } = locks.condition();
    if (answering === nodes || performance.now() > giveUpAt) return answering;
    await delay(LOOK_MS);
  }
}

async function examineOutbox({ outbox }: Stores): Promise<Finding> {
  const { messages, oldestMs } = await outbox.readOutbox();
  const count = messages >= COUNTED_MESSAGES ? `${COUNTED_MESSAGES} or more` : String(messages);
  const age = oldestMs === null ? "" : `, the oldest for ${humanDuration(Math.round(oldestMs))}`;
  const isBehind = oldestMs !== null && oldestMs > BEHIND_MS;
  return { check: "outbox", status: isBehind ? "warning" : "ok", detail: `${count} messages to be published${age}` };
}
