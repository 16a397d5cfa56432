import { once } from "node:events";
import { request } from "node:http";
import { connect } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "../../runtime/adapters/system/clock.ts";
import { TurnoError } from "../../runtime/core/errors.ts";
import type { Pulse } from "../../runtime/protocol/ports/panel.ts";
import { startWebServer, type WebServer } from "../../web/server.ts";
import { createTestApp, fakePanel } from "./fake-ports.ts";

const running: WebServer[] = [];
afterEach(async () => {
  for (const server of running.splice(0)) await server.close();
});

async function start(overrides: Parameters<typeof createTestApp>[0] = {}): Promise<WebServer> {
  const server = await startWebServer({
    app: createTestApp({ clock: systemClock, ...overrides }).app,
    host: "127.0.0.1",
    port: 0,
    clock: systemClock,
  });
  running.push(server);
  return server;
}

/** Sends bytes as they are and gives back the whole answer. */
function sendRaw(port: number, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    let answer = "";
    socket.on("data", (chunk) => {
      answer += chunk.toString();
    });
    socket.on("end", () => resolve(answer));
    socket.on("error", reject);
    socket.write(text);
  });
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}

describe("the server", () => {
  it("takes a free port, and says when a port is taken", async () => {
    const server = await start();
    expect(server.url).toBe(`http://localhost:${server.port}`);
    expect((await fetch(`${server.url}/health/live`)).status).toBe(200);
    const listen = (host: string, port: number) =>
      startWebServer({ app: createTestApp().app, host, port, clock: systemClock }).catch((thrown: unknown) => thrown);
    const error = await listen("127.0.0.1", server.port);
    expect(error).toBeInstanceOf(TurnoError);
    expect(error).toMatchObject({ code: "TURNO_PORT_BUSY" });
    // An address of documentation (RFC 5737) is none of this machine.
    expect(await listen("192.0.2.1", 0)).toMatchObject({ code: "TURNO_API_LISTEN" });
  });

  it("closes without waiting for connections that ask for nothing or stopped in the middle", async () => {
    const slow = { ...systemClock, sleep: (_: number, signal: AbortSignal) => untilAborted(signal) };
    const server = await startWebServer({ app: createTestApp().app, host: "127.0.0.1", port: 0, clock: slow });
    const silent = connect(server.port, "127.0.0.1");
    const half = connect(server.port, "127.0.0.1");
    half.write(
      "POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
    );
    const idle = connect(server.port, "127.0.0.1");
    idle.write("GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await once(idle, "data");
    const ended = [silent, half, idle].map((socket) =>
      once(
        socket.on("error", () => {}),
        "close",
      ),
    );
    await server.close();
    await Promise.all(ended);
  });

  it("lets a request that came whole finish before it closes", async () => {
    let seen = (): void => {};
    let answer = (): void => {};
    const asked = new Promise<void>((resolve) => {
      seen = resolve;
    });
    const listQueues = () =>
      new Promise<{ now: Date; items: [] }>((resolve) => {
        answer = () => resolve({ now: new Date(0), items: [] });
        seen();
      });
    const server = await start({ panel: { ...fakePanel, listQueues } });
    const response = fetch(`${server.url}/api/queues`);
    await asked;
    const closed = server.close();
    answer();
    expect((await response).status).toBe(200);
    await closed;
    running.splice(0);
  });

  it("answers a request that is no HTTP with a problem and the security headers", async () => {
    const { port } = await start();
    for (const length of ["abc", "-1"]) {
      const answer = await sendRaw(
        port,
        `POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${length}\r\n\r\n`,
      );
      expect(answer).toMatch(/^HTTP\/1\.1 400 /);
      expect(answer).toContain("application/problem+json");
      expect(answer.toLowerCase()).toContain("content-security-policy");
    }
  });

  it("reads chunked bodies up to the limit and not beyond", async () => {
    const { port } = await start();
    const post = (bytes: number) =>
      new Promise<number>((resolve, reject) => {
        const headers = { "content-type": "application/json", "transfer-encoding": "chunked" };
        const outgoing = request({ port, host: "127.0.0.1", path: "/api/jobs", method: "POST", headers }, (answer) => {
          answer.resume();
          resolve(answer.statusCode ?? 0);
        });
        // The server may end the connection before it has all of it.
        outgoing.on("error", (error: NodeJS.ErrnoException) =>
          error.code === "EPIPE" || error.code === "ECONNRESET" ? undefined : reject(error),
        );
        const frame = `{"type":"file.process","payload":{"a":"${"x".repeat(200_000)}"},"queue":"default"`;
        outgoing.write(frame);
        for (let sent = frame.length; sent < bytes; sent += 65_536) outgoing.write(" ".repeat(65_536));
        outgoing.end("}");
      });
    expect(await post(900_000)).toBe(201);
    expect(await post(5_000_000)).toBe(413);
    expect((await fetch(`http://127.0.0.1:${port}/health/live`)).status).toBe(200);
  });

  it("does not leave its folder of static files", async () => {
    const { port } = await start();
    for (const path of ["/assets/../package.json", "/assets/%2e%2e/package.json", "/assets/..%2f..%2fpackage.json"]) {
      const answer = await sendRaw(port, `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
      expect(answer).toMatch(/^HTTP\/1\.1 404 /);
    }
  });
});

describe("server-sent events", () => {
  async function* readEvents(response: Response): AsyncGenerator<string> {
    const decoder = new TextDecoder();
    let buffer = "";
    for await (const chunk of response.body ?? []) {
      buffer += decoder.decode(chunk, { stream: true });
      for (let end = buffer.indexOf("\n\n"); end >= 0; end = buffer.indexOf("\n\n")) {
        yield buffer.slice(0, end);
        buffer = buffer.slice(end + 2);
      }
    }
  }

  it("name what changed, are asked for once for all listeners, and end with the server", async () => {
    let pulse: Pulse = { jobs: "1", workers: "1", sync: "1" };
    let asked = 0;
    let release = () => {};
    let next = new Promise<void>((resolve) => {
      release = resolve;
    });
    const clock = {
      monotonicMs: () => 0,
      // One look at the database for each release; heartbeats never come.
      sleep: (ms: number, signal: AbortSignal) =>
        ms > 1_000 ? new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve())) : next,
    };
    const look = () => {
      const done = release;
      next = new Promise<void>((resolve) => {
        release = resolve;
      });
      done();
    };
    const panel = {
      ...fakePanel,
      loadPulse: async () => {
        asked += 1;
        return pulse;
      },
    };
    const server = await start({ panel, clock });
    const streams = await Promise.all([
      fetch(`${server.url}/api/events`),
      fetch(`${server.url}/panel/events?topics=jobs,sync`),
    ]);
    const [api, page] = streams.map(readEvents);
    expect((await api?.next())?.value).toContain("event: ready");
    expect((await page?.next())?.value).toContain("event: refresh");
    const before = asked;
    pulse = { jobs: "2", workers: "2", sync: "1" };
    look();
    expect((await api?.next())?.value).toBe('event: jobs\ndata: {"changed":"jobs"}');
    expect((await api?.next())?.value).toBe('event: workers\ndata: {"changed":"workers"}');
    expect((await page?.next())?.value).toBe("event: refresh\ndata: jobs");
    expect(asked).toBe(before + 1);
    const ends = [api?.next(), page?.next()].map((end) => end?.catch(() => ({ done: true })));
    await running.splice(0)[0]?.close();
    for (const end of await Promise.all(ends)) expect(end?.done).toBe(true);
  });
});
