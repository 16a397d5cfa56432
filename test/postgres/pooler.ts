import { connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";

export interface Pooler {
  readonly connectionString: string;
  /** Names of the statements that were prepared. */
  readonly parsed: string[];
  /** The next session is ended with the same packet that says it is ready. */
  endNext: boolean;
  /** Breaks every connection; new ones are taken. */
  cut(): void;
  close(): Promise<void>;
}

/** What PgBouncer in transaction mode lets into a session: its startup parameters. */
const KEPT_APART = [
  "user",
  "database",
  "application_name",
  "client_encoding",
  "DateStyle",
  "TimeZone",
  "standard_conforming_strings",
];

/** Passes everything on to PostgreSQL, but refuses sessions as PgBouncer does, and takes note of what is prepared. */
export async function startPooler(upstream: string): Promise<Pooler> {
  const target = new URL(upstream);
  const socketDir = target.searchParams.get("host");
  const sockets = new Set<Socket>();
  const parsed: string[] = [];
  const server: Server = createServer((client) => {
    sockets.add(client);
    client.on("error", () => {});
    client.once("data", (startup) => {
      const refused = parametersOf(startup).find((name) => !KEPT_APART.includes(name));
      if (refused !== undefined) {
        client.end(errorResponse("08P01", `unsupported startup parameter: ${refused}`));
        return;
      }
      const backend =
        socketDir === null ? connect(Number(target.port), target.hostname) : connect(join(socketDir, ".s.PGSQL.5432"));
      sockets.add(backend);
      backend.on("error", () => {});
      backend.on("close", () => client.destroy());
      client.on("close", () => backend.destroy());
      client.on("data", (chunk) => parsed.push(...preparedIn(chunk)));
      backend.write(startup);
      client.pipe(backend);
      backend.on("data", (chunk) => {
        if (!pooler.endNext || !isReady(chunk)) return void client.write(chunk);
        pooler.endNext = false;
        client.end(
          Buffer.concat([chunk, errorResponse("57P01", "terminating connection due to administrator command")]),
        );
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = new URL(upstream);
  address.search = "";
  address.host = `127.0.0.1:${(server.address() as { port: number }).port}`;
  const pooler: Pooler = {
    connectionString: address.href,
    parsed,
    endNext: false,
    cut() {
      for (const socket of sockets) socket.destroy();
      sockets.clear();
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return pooler;
}

/** Whether a chunk ends with ReadyForQuery ("Z", length 5, state). */
function isReady(chunk: Buffer): boolean {
  return chunk.at(-6) === 0x5a && chunk.readInt32BE(chunk.length - 5) === 5;
}

/** Names in a startup message: after length and version, pairs of texts that end with NUL. */
function parametersOf(startup: Buffer): string[] {
  const texts = startup.subarray(8).toString().split("\0");
  return texts.filter((text, index) => index % 2 === 0 && text !== "");
}

/** Names in the Parse messages ("P", length, name, text) of what a client has sent; the messages come whole here. */
function preparedIn(chunk: Buffer): string[] {
  const names: string[] = [];
  for (let at = 0; at + 5 <= chunk.length; at += 1 + chunk.readInt32BE(at + 1)) {
    if (chunk[at] === 0x50) names.push(chunk.subarray(at + 5, chunk.indexOf(0, at + 5)).toString());
  }
  return names;
}

function errorResponse(code: string, message: string): Buffer {
  const fields = Buffer.from(`SFATAL\0C${code}\0M${message}\0\0`);
  const head = Buffer.alloc(5, "E");
  head.writeInt32BE(4 + fields.length, 1);
  return Buffer.concat([head, fields]);
}
