import { startEmbeddedPostgres } from "../../runtime/adapters/embedded/embedded-postgres.ts";
import { silentLogger } from "../../runtime/core/logger.ts";

// Owns an embedded server until it is killed; prints the server's process and address.
const [, , dataDir = ""] = process.argv;
const { signal } = new AbortController();
const server = await startEmbeddedPostgres({ dataDir, logger: silentLogger, durable: true, signal });
console.log(JSON.stringify({ pid: server.pid, dataDir: server.dataDir, ...server.address }));
setInterval(() => {}, 60_000);
