import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { createAdaptorServer, type HttpBindings } from "@hono/node-server";
import type { Hono } from "hono";
import { TurnoError } from "../runtime/core/errors.ts";
import type { WebEnv } from "./ports.ts";
import { ProblemError, problemBody } from "./problem.ts";
import { SECURITY_HEADERS } from "./security.ts";

export interface WebServer {
  /** Address for people, with a loopback name where it listens on one. */
  readonly url: string;
  readonly port: number;
  /** Ends event streams, lets running requests finish, then closes. */
  close(): Promise<void>;
}

/** Listens; port 0 takes a free one. Throws TURNO_PORT_BUSY. Call checkListenAddress first. */
export async function startWebServer(options: {
  readonly app: Hono<WebEnv>;
  readonly host: string;
  readonly port: number;
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
  });
  server.on("clientError", (_error: Error, socket: Socket) => answerUnreadable(socket));

  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => reject(explain(error, options)));
    server.listen(options.port, host, resolve);
  });
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : options.port;
  return {
    url: `http://${urlHost(host)}:${port}`,
    port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        // A stream never ends by itself; whoever listens comes back to the next server.
        for (const stream of streams) stream.destroy();
        if ("closeIdleConnections" in server) server.closeIdleConnections();
      }),
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
  return error;
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
