import type { Socket } from "node:net";
import type { ServiceBusClient, ServiceBusReceivedMessage, TokenCredential } from "@azure/service-bus";
import { TurnoError } from "../../core/errors.ts";
import type { ServiceBusAddress } from "./address.ts";

export type ServiceBusPackage = Pick<typeof import("@azure/service-bus"), "ServiceBusClient">;

/** Makes a client for one connection; nothing is connected to before its first link. */
export type MakeClient = () => ServiceBusClient;

/**
 * The package is loaded only here, since only who chooses Service Bus has to install it.
 * Throws TURNO_BROKER_PACKAGE. `load` stands in for the import in tests.
 */
export async function loadClients(
  address: ServiceBusAddress,
  timeoutMs: number,
  load: (name: string) => Promise<unknown> = (name) => import(name),
): Promise<MakeClient> {
  const { ServiceBusClient } = (await expectPackage("@azure/service-bus", load)) as ServiceBusPackage;
  // Turno tries again by itself, and an outbox needs to know that an outcome is unknown.
  const options = { retryOptions: { maxRetries: 0, timeoutInMs: timeoutMs } };
  if (address.kind === "key") return () => new ServiceBusClient(address.connectionString, options);
  const { DefaultAzureCredential } = (await expectPackage("@azure/identity", load)) as {
    readonly DefaultAzureCredential: new () => TokenCredential;
  };
  const credential = new DefaultAzureCredential();
  return () => new ServiceBusClient(address.host, credential, options);
}

async function expectPackage(name: string, load: (name: string) => Promise<unknown>): Promise<unknown> {
  try {
    return await load(name);
  } catch (error) {
    const why = name === "@azure/identity" ? "a connection string without a key" : "the transport servicebus";
    throw new TurnoError("TURNO_BROKER_PACKAGE", `${why} needs the package ${name}, which is not installed`, {
      cause: error,
      hint: `Install it with "npm install ${name}", or choose another broker.transport.`,
    });
  }
}

/** The parts below the package's surface that Turno needs; its version is pinned. */
interface Inside {
  readonly _connectionContext: { readonly connection: AmqpConnection };
}

export interface AmqpConnection {
  on(event: "disconnected", listener: () => void): void;
  readonly _connection: { readonly socket?: Socket };
}

/** The connection that the client makes first; after its loss the client has another one. */
export function connectionOf(client: ServiceBusClient): AmqpConnection {
  return (client as unknown as Inside)._connectionContext.connection;
}

/** The package leaves the socket of a silent peer open. */
export function breakSocket(connection: AmqpConnection, reason: string): void {
  connection._connection.socket?.destroy(new Error(reason));
}

/** On a closed link the package would settle over another one that is made for it, and wait for that. */
export function isSettleable(message: ServiceBusReceivedMessage): boolean {
  const { delivery } = message as unknown as {
    readonly delivery: { readonly remote_settled: boolean; readonly link?: { is_open(): boolean } };
  };
  return !delivery.remote_settled && delivery.link?.is_open() === true;
}
