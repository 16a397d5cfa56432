import { accessSync, constants, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";

/** Debian's and Fedora's packages keep the server's own scripts here; what they put on the PATH asks for another user. */
const RABBITMQ_PACKAGES = "/usr/lib/rabbitmq/lib";
const RABBITMQ_ON_PATH = ["/opt/homebrew/sbin", "/usr/local/sbin", "/usr/sbin"];

/** Folder of `rabbitmq-server` and `rabbitmqctl`; null when there is none. */
export function findRabbitPrograms(): string | null {
  const packaged = listFolder(RABBITMQ_PACKAGES)
    .sort()
    .reverse()
    .map((version) => join(RABBITMQ_PACKAGES, version, "sbin"));
  return (
    [...packaged, ...pathFolders(), ...RABBITMQ_ON_PATH].find((folder) => isProgram(join(folder, "rabbitmq-server"))) ??
    null
  );
}

/** `redis-server`, or `valkey-server`, which is the same for tests; null when there is none. */
export function findRedisProgram(): string | null {
  return findOnPath("redis-server") ?? findOnPath("valkey-server");
}

export function findOnPath(name: string): string | null {
  return (
    pathFolders()
      .map((folder) => join(folder, name))
      .find(isProgram) ?? null
  );
}

export const RABBITMQ_MISSING =
  "The tests of RabbitMQ need RabbitMQ 3.10 or newer, and there is none here. Install it:\n" +
  "  Debian, Ubuntu   sudo apt-get install rabbitmq-server\n" +
  "  Fedora           sudo dnf install rabbitmq-server\n" +
  "  macOS            brew install rabbitmq\n" +
  "or set TURNO_TEST_RABBITMQ to the address of one that tests may use (amqp://user:password@host:5672).";

export const REDIS_MISSING =
  "The tests of locks need Redis 6 or newer, and there is no redis-server on the PATH. Install it:\n" +
  "  Debian, Ubuntu   sudo apt-get install redis-server\n" +
  "  Fedora           sudo dnf install redis\n" +
  "  macOS            brew install redis\n" +
  "or set TURNO_TEST_REDIS to the addresses of three that tests may use (redis://host:6379,redis://…).";

function pathFolders(): readonly string[] {
  return (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
}

function listFolder(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
