import { inject } from "vitest";
import type { ServiceName } from "./service-desk.ts";

/** The run's RabbitMQ, which all test files share: give every test an installation of its own. Ten seconds the first time. */
export async function rabbitForTests(): Promise<{ readonly url: string }> {
  const [url] = await ask("rabbitmq");
  if (url === undefined) throw new Error("there is no address of RabbitMQ");
  return { url };
}

/** The run's three Redis nodes, which all test files share: give every test a prefix of its own. */
export async function redisForTests(): Promise<{ readonly urls: readonly string[] }> {
  return { urls: await ask("redis") };
}

async function ask(name: ServiceName): Promise<readonly string[]> {
  const answer = await fetch(`${inject("services")}/${name}`);
  const { urls, error } = (await answer.json()) as { urls?: readonly string[]; error?: string };
  if (urls === undefined) throw new Error(error ?? `${name} could not be started`);
  return urls;
}

declare module "vitest" {
  export interface ProvidedContext {
    /** Address of the run's service desk. */
    services: string;
  }
}
