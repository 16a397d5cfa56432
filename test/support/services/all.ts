import { findRabbitPrograms, findRedisProgram, RABBITMQ_MISSING, REDIS_MISSING } from "./programs-of-services.ts";

export { findOnPath } from "./programs-of-services.ts";
export { startRabbitServer } from "./rabbitmq-server.ts";
export { startRedisServers } from "./redis-servers.ts";

/** What to install, by the service's name. */
export const MISSING: Readonly<Record<string, string>> = { rabbitmq: RABBITMQ_MISSING, redis: REDIS_MISSING };

export function isInstalled(name: string): boolean {
  return (name === "rabbitmq" ? findRabbitPrograms() : findRedisProgram()) !== null;
}
