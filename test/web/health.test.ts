import { describe, expect, it } from "vitest";
import { systemClock } from "../../runtime/adapters/system/clock.ts";
import { checkTransport, NO_TRANSPORT, type OpenedTransport } from "../../runtime/compose/transport.ts";
import { startWorkerHealth } from "../../runtime/compose.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import { createHealthApp } from "../../web/health-app.ts";
import { startWebServer } from "../../web/server.ts";

describe("the health checks of a worker", () => {
  it("are red before it has started, while the database does not hear it, and while leases cannot be renewed", async () => {
    let ready: { readonly database: boolean; readonly leases: boolean } | null = null;
    const server = await startWorkerHealth({
      readiness: () => ready,
      transport: () => NO_TRANSPORT,
      host: "127.0.0.1",
      port: 0,
      logger: silentLogger,
    });
    const ask = async () => {
      const response = await fetch(`${server.url}/health/ready`);
      const { status, checks } = (await response.json()) as {
        status: string;
        checks: Record<string, { status: string; detail: null }>;
      };
      expect(Object.values(checks).every(({ detail }) => detail === null)).toBe(true);
      return [response.status, status, checks.database?.status, checks.leases?.status];
    };
    expect(await ask()).toEqual([503, "unavailable", "down", "up"]);
    ready = { database: true, leases: true };
    expect(await ask()).toEqual([200, "ready", "up", "up"]);
    ready = { database: true, leases: false };
    expect(await ask()).toEqual([503, "unavailable", "up", "down"]);
    ready = { database: false, leases: true };
    expect(await ask()).toEqual([503, "unavailable", "down", "up"]);
    expect((await fetch(`${server.url}/health/live`)).status).toBe(200);
    expect((await fetch(`${server.url}/api/jobs`)).status).toBe(404);
    await server.close();
  });

  it("are red while the broker is away, and only degraded while it is blocked or a Redis is away", async () => {
    let state: "connected" | "blocked" | "away" = "connected";
    let answering = 3;
    const transport: OpenedTransport = {
      ...NO_TRANSPORT,
      transport: "rabbitmq",
      broker: {
        publish: () => Promise.resolve([]),
        subscribe: () => ({ prefetch: () => {}, stop: () => Promise.resolve() }),
        depth: () => Promise.resolve(null),
        condition: () => ({ state, reason: state === "connected" ? null : "at amqp.internal" }),
        close: () => Promise.resolve(),
      },
      locks: { ...NO_TRANSPORT.locks, condition: () => ({ nodes: 3, answering }) },
    };
    const server = await startWorkerHealth({
      readiness: () => ({ database: true, leases: true }),
      transport: () => transport,
      host: "127.0.0.1",
      port: 0,
      logger: silentLogger,
    });
    const ask = async () => {
      const response = await fetch(`${server.url}/health/ready`);
      const text = await response.text();
      expect(text).not.toContain("amqp.internal");
      const { status, checks } = JSON.parse(text) as { status: string; checks: Record<string, { status: string }> };
      return [response.status, status, checks.broker?.status, checks.locks?.status];
    };
    expect(await ask()).toEqual([200, "ready", "up", "up"]);
    answering = 2;
    expect(await ask()).toEqual([200, "degraded", "up", "degraded"]);
    answering = 0;
    state = "blocked";
    expect(await ask()).toEqual([200, "degraded", "degraded", "degraded"]);
    state = "away";
    expect(await ask()).toEqual([503, "unavailable", "down", "degraded"]);
    expect(checkTransport(transport).broker?.detail).toBe("away: at amqp.internal");
    await server.close();
  });

  it("are answered with the security headers, and with 503 when the look itself fails", async () => {
    const app = createHealthApp({ logger: silentLogger, health: () => Promise.reject(new Error("secret address")) });
    const server = await startWebServer({ app, host: "127.0.0.1", port: 0, clock: systemClock });
    const response = await fetch(`${server.url}/health/ready`);
    expect(response.status).toBe(503);
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    expect(await response.text()).not.toContain("secret");
    await server.close();
  });
});
