import { noLocks } from "../adapters/memory/locks.ts";
import { openRabbitBroker } from "../adapters/rabbitmq/broker.ts";
import { openRedisLocks } from "../adapters/redis/locks.ts";
import { openServiceBusBroker } from "../adapters/servicebus/broker.ts";
import type { BrokerSettings, LockSettings, RuntimeSettings } from "../config/objects.ts";
import { TurnoError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { OutboxStore, Transport } from "../protocol/ports/outbox.ts";
import type { HealthCheck } from "../protocol/ports/panel.ts";
import type { Broker, LockManager } from "../protocol/ports/transport.ts";

/** The broker and the locks that a process's settings name. */
export interface OpenedTransport {
  readonly transport: Transport;
  /** Null: the transport is PostgreSQL. */
  readonly broker: Broker | null;
  readonly locks: LockManager;
  close(): Promise<void>;
}

export interface TransportOptions {
  readonly settings: Pick<RuntimeSettings, "broker" | "locks">;
  readonly outbox: Pick<OutboxStore, "loadInstallation">;
  readonly logger: Logger;
}

/** Nothing is connected to. */
export const NO_TRANSPORT: OpenedTransport = {
  transport: "postgres",
  broker: null,
  locks: noLocks,
  close: () => Promise.resolve(),
};

/**
 * Connects, or goes on trying when nobody is there yet. Throws for settings that waiting does not heal:
 * TURNO_CONFIG_SETTING, TURNO_BROKER_ADDRESS, TURNO_BROKER_PACKAGE, TURNO_BROKER_ACCESS.
 */
export async function openTransport({ settings, outbox, logger }: TransportOptions): Promise<OpenedTransport> {
  const { broker: chosen, locks: lockSettings } = settings;
  // Locks are a courtesy of broker transports: claims by the queue lock rows.
  if (chosen.transport === "postgres") return NO_TRANSPORT;
  const addresses = expectAddresses(chosen, lockSettings);
  const { id: installation } = await outbox.loadInstallation();
  const locks =
    lockSettings.driver === "none" ? noLocks : openRedisLocks({ ...lockSettings.redlock, installation, logger });
  try {
    const broker = await openBroker(addresses, { prefix: chosen.prefix, installation, logger });
    return {
      transport: chosen.transport,
      broker,
      locks,
      async close() {
        await Promise.all([broker.close(), locks.close()]);
      },
    };
  } catch (error) {
    await locks.close();
    throw error;
  }
}

type Addresses =
  | { readonly transport: "rabbitmq"; readonly rabbitmq: BrokerSettings["rabbitmq"] & { readonly url: string } }
  | { readonly transport: "servicebus"; readonly connectionString: string };

function expectAddresses(broker: BrokerSettings, locks: LockSettings): Addresses {
  if (locks.driver === "redlock" && locks.redlock.urls.length === 0) {
    throw missing("locks.driver is redlock, and locks.redlock.urls names no Redis", {
      hint: "name 1, 3 or 5 nodes, as in TURNO_RUNTIME_LOCKS_REDLOCK_URLS_0=redis://host:6379",
    });
  }
  if (broker.transport === "rabbitmq") {
    const { url } = broker.rabbitmq;
    if (url !== null) return { transport: "rabbitmq", rabbitmq: { ...broker.rabbitmq, url } };
    throw missing("broker.transport is rabbitmq, and broker.rabbitmq.url is not set", {
      hint: "set it, or TURNO_RABBITMQ_URL, as amqp://user:password@host:5672",
    });
  }
  const { connectionString } = broker.servicebus;
  if (connectionString !== null) return { transport: "servicebus", connectionString };
  throw missing("broker.transport is servicebus, and broker.servicebus.connectionString is not set", {
    hint: "set TURNO_SERVICEBUS_CONNECTION_STRING to the namespace's connection string",
  });
}

function missing(what: string, options: { readonly hint: string }): TurnoError {
  return new TurnoError("TURNO_CONFIG_SETTING", `spec.runtime.${what}`, options);
}

async function openBroker(
  addresses: Addresses,
  named: { readonly prefix: string; readonly installation: string; readonly logger: Logger },
): Promise<Broker> {
  if (addresses.transport === "rabbitmq") return openRabbitBroker({ ...addresses.rabbitmq, ...named });
  return openServiceBusBroker({ connectionString: addresses.connectionString, ...named });
}

/** Records the settings' transport in the database; processes with others go on by the database meanwhile. */
export async function recordTransport(
  outbox: Pick<OutboxStore, "loadInstallation" | "setTransport">,
  { transport }: Pick<OpenedTransport, "transport">,
  logger: Logger,
): Promise<void> {
  const { transport: before } = await outbox.loadInstallation();
  if (before === transport) return;
  if (await outbox.setTransport(transport)) logger.info("the transport was changed", { from: before, to: transport });
}

/** What of the transport a health check looks at; nothing on PostgreSQL. A lock service that is away degrades, no more. */
export function checkTransport({ broker, locks }: OpenedTransport): Readonly<Record<string, HealthCheck>> {
  if (broker === null) return {};
  const { state, reason } = broker.condition();
  const { nodes, answering } = locks.condition();
  const brokerCheck: HealthCheck = {
    status: state === "away" ? "down" : state === "blocked" ? "degraded" : "up",
    detail: state === "connected" ? reason : `${state}: ${reason ?? "no reason is known"}`,
  };
  if (nodes === 0) return { broker: brokerCheck };
  const detail = answering === nodes ? null : `${answering} of ${nodes} Redis nodes answer`;
  return { broker: brokerCheck, locks: { status: answering === nodes ? "up" : "degraded", detail } };
}
