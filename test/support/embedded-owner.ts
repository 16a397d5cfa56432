import { startEmbeddedPostgres } from "../../runtime/adapters/embedded/embedded-postgres.ts";
import { silentLogger } from "../../runtime/core/logger.ts";

// Owns an embedded server until it is killed, or stops it at SIGTERM; prints the server's process and address.
const [, , dataDir = ""] = process.argv;
const { signal } = new AbortController();
const server = await startEmbeddedPostgres({ dataDir, logger: silentLogger, durable: true, signal });
const alive = setInterval(() => {}, 60_000);
process.once("SIGTERM", async () => {
  clearInterval(alive);
  await server.stop();
  console.log("stopped");
});
// Last: whoever reads it may send the signal at once.
console.log(JSON.stringify({ pid: server.pid, dataDir: server.dataDir, ...server.address }));
