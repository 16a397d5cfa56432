import type { Hono } from "hono";
import { describeError } from "../../runtime/core/errors.ts";
import type { HealthReport } from "../../runtime/protocol/ports/panel.ts";
import { addPath } from "../methods.ts";
import type { WebEnv, WebPorts } from "../ports.ts";

/** What anybody may ask, with or without a key. */
export function addPublicRoutes(app: Hono<WebEnv>, { health, keys, settings, logger }: WebPorts): void {
  addPath(app, "/api/info", {
    get: (c) => c.json({ name: "turno", version: settings.version, authentication: keys === null ? "none" : "key" }),
  });

  addPath(app, "/health/live", { get: (c) => c.json({ status: "live" }) });

  addPath(app, "/health/ready", {
    async get(c) {
      const checks = await look();
      const ready = Object.values(checks).every((check) => check.status === "up");
      return c.json({ status: ready ? "ready" : "unavailable", checks }, ready ? 200 : 503);
    },
  });

  async function look(): Promise<HealthReport> {
    try {
      return await health();
    } catch (error) {
      logger.warn("the health check failed", { error: describeError(error) });
      return { database: { status: "down", detail: "the check failed" } };
    }
  }
}
