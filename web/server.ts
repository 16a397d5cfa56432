import type { Server as HttpServer, IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { createAdaptorServer, type HttpBindings } from "@hono/node-server";
import type { Hono } from "hono";
import { TurnoError } from "../runtime/core/errors.ts";
import type { Clock } from "../runtime/protocol/ports/surroundings.ts";
import type { WebEnv } from "./ports.ts";
import { ProblemError, problemBody } from "./problem.ts";
import { SECURITY_HEADERS } from "./security.ts";

export interface WebServer {
  /** Address for people, with a loopback name where it listens on one. */
  readonly url: string;
  readonly port: number;
  /** Ends event streams and connections that ask for nothing, lets running requests finish for a while, then closes. */
  close(): Promise<void>;
}

/** How long a request that has come whole may take to its end when the server closes. */
const FINISH_MS = 10_000;

/** Listens; port 0 takes a free one. Throws TURNO_PORT_BUSY, TURNO_API_LISTEN. Call checkListenAddress first. */
export async function startWebServer(options: {
  readonly app: Hono<WebEnv>;
  readonly host: string;
  readonly port: number;
  readonly clock: Pick<Clock, "sleep">;
}): Promise<WebServer> {
  const { app, host } = options;
  const streams = new Set<ServerResponse>();
  const note = (response: Response, outgoing: ServerResponse) => {
    if (response.headers.get("content-type")?.startsWith("text/event-stream")) {
      streams.add(outgoing);
      outgoing.on("close", () => streams.delete(outgoing));
    }
    return response;
  };
  const server = createAdaptorServer({
    hostname: host,
    fetch(request, bindings) {
      const { outgoing } = bindings as HttpBindings;
      const response = app.fetch(request, bindings);
      return response instanceof Promise ? response.then((value) => note(value, outgoing)) : note(response, outgoing);
    },
  }) as HttpServer;
  server.on("clientError", (_error: Error, socket: Socket) => answerUnreadable(socket));
  const connections = followConnections(server);

  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => reject(explain(error, options)));
    server.listen(options.port, host, resolve);
  });
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : options.port;
  return {
    url: `http://${urlHost(host)}:${port}`,
    port,
    async close() {
      const closed = new AbortController();
      server.close(() => closed.abort());
      // A stream never ends by itself; whoever listens comes back to the next server.
      for (const stream of streams) stream.destroy();
      connections.endUnasked();
      await options.clock.sleep(FINISH_MS, closed.signal);
      server.closeAllConnections();
    },
  };
}

/**
 * Node counts a connection that has never sent a request, as browsers open them ahead, and one that stopped in the
 * middle of a request as busy: without this each would hold a closing server for minutes.
 */
function followConnections(server: HttpServer): { endUnasked(): void } {
  const busy = new Map<Socket, IncomingMessage | null>();
  let closing = false;
  server.on("connection", (socket: Socket) => {
    busy.set(socket, null);
    socket.once("close", () => busy.delete(socket));
  });
  server.on("request", (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const { socket } = incoming;
    busy.set(socket, incoming);
    outgoing.once("finish", () => {
      if (closing) socket.end();
      else if (busy.has(socket)) busy.set(socket, null);
    });
  });
  return {
    endUnasked() {
      closing = true;
      for (const [socket, incoming] of busy) if (incoming?.complete !== true) socket.destroy();
    },
  };
}

function explain(
  error: NodeJS.ErrnoException,
  { host, port }: { readonly host: string; readonly port: number },
): Error {
  if (error.code === "EADDRINUSE") {
    return new TurnoError("TURNO_PORT_BUSY", `port ${port} of ${host} is taken by another process`, {
      cause: error,
      hint: "choose another one with --port, or 0 for a free one",
    });
  }
  return new TurnoError("TURNO_API_LISTEN", `the server cannot listen on ${host}, port ${port}: ${error.message}`, {
    cause: error,
    hint: "choose an address of this machine with --host and a port above 1023 with --port",
  });
}

/** What Node cannot read as HTTP never reaches the application: answered here, in the same words and headers. */
function answerUnreadable(socket: Socket): void {
  if (!socket.writable) return;
  const body = JSON.stringify(problemBody(new ProblemError(400, "This is no HTTP request that Turno can read.")));
  const headers = Object.entries({
    ...SECURITY_HEADERS,
    "Content-Type": "application/problem+json",
    "Content-Length": String(Buffer.byteLength(body)),
    Connection: "close",
  });
  socket.end(
    `HTTP/1.1 400 Bad Request\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n${body}`,
  );
}

function urlHost(host: string): string {
  if (host === "0.0.0.0" || host === "::" || host === "127.0.0.1") return "localhost";
  return host.includes(":") ? `[${host}]` : host;
}
