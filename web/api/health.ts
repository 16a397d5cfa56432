import type { Hono } from "hono";
import { describeError } from "../../runtime/core/errors.ts";
import type { HealthReport } from "../../runtime/protocol/ports/panel.ts";
import { addPath } from "../methods.ts";
import type { WebEnv, WebPorts } from "../ports.ts";

/** What anybody may ask, with or without a key. */
export function addPublicRoutes(app: Hono<WebEnv>, ports: WebPorts): void {
  const { keys, settings } = ports;
  addPath(app, "/api/info", {
    get: (c) => c.json({ name: "turno", version: settings.version, authentication: keys === null ? "none" : "key" }),
  });

  addHealthRoutes(app, { ...ports, showsDetails: keys === null });
}

/** Whether the process answers, and whether it can do its work. */
export function addHealthRoutes(
  app: Hono<WebEnv>,
  {
    health,
    logger,
    showsDetails,
  }: Pick<WebPorts, "health" | "logger"> & {
    /** Only to who has been let in: details name addresses and users. */
    readonly showsDetails: boolean;
  },
): void {
  addPath(app, "/health/live", { get: (c) => c.json({ status: "live" }) });

  addPath(app, "/health/ready", {
    async get(c) {
      const checks = await look();
      const statuses = Object.values(checks).map((check) => check.status);
      if (statuses.includes("down")) return c.json({ status: "unavailable", checks }, 503);
      return c.json({ status: statuses.includes("degraded") ? "degraded" : "ready", checks });
    },
  });

  async function look(): Promise<HealthReport> {
    try {
      const report = await health();
      // Who shows no key learns that something is away, and not its address or user: that is in the log.
      return showsDetails ? report : withoutDetails(report);
    } catch (error) {
      logger.warn("the health check failed", { error: describeError(error) });
      return { database: { status: "down", detail: "the check failed" } };
    }
  }
}

function withoutDetails(report: HealthReport): HealthReport {
  const { database, ...others } = report;
  const rest = Object.entries(others).map(([name, { status }]) => [name, { status, detail: null }] as const);
  return { ...Object.fromEntries(rest), database: { status: database.status, detail: null } };
}
