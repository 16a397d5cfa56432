import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { startRabbitServer } from "./rabbitmq-server.ts";
import { startRedisServers } from "./redis-servers.ts";

/** What tests may ask for; each is started once a run, when the first test file asks. */
export type ServiceName = "rabbitmq" | "redis";

export interface ServiceDesk {
  /** Where test files ask. */
  readonly url: string;
  /** Ends what was started. */
  close(): Promise<void>;
}

interface Started {
  readonly urls: readonly string[];
  remove(): Promise<void>;
}

const REDIS_NODES = 3;

/** Runs in the process of the whole run, for the processes of its test files. */
export async function openServiceDesk(): Promise<ServiceDesk> {
  const started = new Map<string, Promise<Started>>();
  const server = createServer((request, response) => {
    const name = (request.url ?? "").slice(1);
    const service = started.get(name) ?? start(name);
    started.set(name, service);
    service.then(
      ({ urls }) => response.end(JSON.stringify({ urls })),
      (error: unknown) =>
        response.end(JSON.stringify({ error: error instanceof Error ? error.message : String(error) })),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  server.unref();
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.closeAllConnections();
      server.close();
      await Promise.all(
        [...started.values()].map((service) =>
          service.then(
            ({ remove }) => remove(),
            () => {},
          ),
        ),
      );
    },
  };
}

async function start(name: string): Promise<Started> {
  const given = givenUrls(name);
  if (given !== null) return { urls: given, remove: () => Promise.resolve() };
  if (name === "redis") return startRedisServers(REDIS_NODES);
  if (name !== "rabbitmq") throw new Error(`no service is called ${name}`);
  const server = await startRabbitServer();
  return { urls: [server.url], remove: server.remove };
}

/** Addresses in the environment, one after another with commas between. */
function givenUrls(name: string): readonly string[] | null {
  const variable = { rabbitmq: process.env.TURNO_TEST_RABBITMQ, redis: process.env.TURNO_TEST_REDIS }[name];
  if (variable === undefined || variable === "") return null;
  return variable.split(",").map((url) => url.trim());
}
