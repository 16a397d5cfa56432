import { Hono, type MiddlewareHandler } from "hono";
import { cors } from "hono/cors";
import { HTTPException } from "hono/http-exception";
import { describeError } from "../runtime/core/errors.ts";
import { createActions } from "./actions.ts";
import { addGitHook } from "./api/git-hook.ts";
import { addPublicRoutes } from "./api/health.ts";
import { addJobRoutes } from "./api/jobs.ts";
import { addPauseRoutes } from "./api/pauses.ts";
import { addReadingRoutes } from "./api/readings.ts";
import { addRevisionRoutes } from "./api/revisions.ts";
import { addScheduleRoutes } from "./api/schedules.ts";
import { type ApiKeys, allows, presentedKey } from "./auth.ts";
import { createEventStreams } from "./events.ts";
import { createLiveFeed } from "./live.ts";
import { addMetrics } from "./metrics.ts";
import { addPanelRoutes, renderProblem } from "./panel/routes.tsx";
import type { WebEnv, WebPorts } from "./ports.ts";
import { ProblemError, problemResponse, toProblem } from "./problem.ts";
import { loopbackNamesOnly, sameOriginWrites, secureResponses } from "./security.ts";
import { shareReads } from "./shared-reads.ts";
import { addStaticFiles } from "./static-files.ts";

/** The API, the panel and the health checks in one application; it reaches everything through its ports. */
export function createWebApp(ports: WebPorts): Hono<WebEnv> {
  const { keys, clock, logger, panel, settings } = ports;
  const feed = createLiveFeed({ panel, clock, logger });
  const streams = createEventStreams({ feed, clock });
  const actions = createActions(ports);
  const reads = shareReads({ panel, forecastFires: ports.forecastFires, clock, feed });

  const app = new Hono<WebEnv>();
  app.use(secureResponses());
  app.use(async (c, next) => {
    c.set("client", null);
    await next();
  });
  if (keys === null) app.use(loopbackNamesOnly());
  if (settings.allowedOrigins.length > 0) app.use("/api/*", allowOrigins(settings.allowedOrigins));
  app.use(sameOriginWrites(settings.allowedOrigins));
  addPublicRoutes(app, ports);
  addGitHook(app, ports);
  if (keys !== null) {
    app.use("/api/*", expectKey(keys));
    app.use("/metrics", expectKey(keys));
  }
  if (ports.metrics !== undefined) addMetrics(app, { metrics: ports.metrics });
  addJobRoutes(app, ports, actions);
  addReadingRoutes(app, ports, actions, streams);
  addScheduleRoutes(app, ports);
  addPauseRoutes(app, ports);
  addRevisionRoutes(app, ports);
  const assets = addStaticFiles(app);
  addPanelRoutes(app, { ports, actions, streams, reads, assets });

  app.notFound((c) => {
    throw new ProblemError(404, `There is nothing at ${c.req.path}.`);
  });
  app.onError((error, c) => {
    const problem = error instanceof HTTPException ? new ProblemError(400, error.message) : toProblem(error);
    if (problem.status >= 500) {
      logger.error("a request failed", { method: c.req.method, path: c.req.path, error: describeError(error) });
    }
    const forPeople = !isForPrograms(c.req.path) && (c.req.header("accept") ?? "").includes("text/html");
    if (!forPeople) return problemResponse(c, problem);
    return c.html(renderProblem(assets, problem), problem.status, problem.headers);
  });
  return app;
}

function isForPrograms(path: string): boolean {
  return (
    path === "/api" ||
    path.startsWith("/api/") ||
    path.startsWith("/hooks/") ||
    path.startsWith("/health/") ||
    path === "/metrics"
  );
}

function allowOrigins(origins: readonly string[]): MiddlewareHandler<WebEnv> {
  return cors({
    origin: [...origins],
    allowMethods: ["GET", "HEAD", "POST", "DELETE"],
    allowHeaders: ["Content-Type", "Authorization", "X-Turno-Key"],
    exposeHeaders: ["Location"],
    maxAge: 600,
  });
}

/** Asks for a key whose scope covers the method. */
export function expectKey(keys: ApiKeys): MiddlewareHandler<WebEnv> {
  return async (c, next) => {
    const key = presentedKey(c.req.raw.headers);
    const client = key === null ? null : keys.authenticate(key);
    if (client === null) {
      const found = key === null ? "no key" : "a key that is not known";
      throw new ProblemError(401, `Expected an API key in X-Turno-Key or Authorization: Bearer, found ${found}.`, {
        code: "TURNO_API_ACCESS",
        headers: { "WWW-Authenticate": 'Bearer realm="turno"' },
      });
    }
    const needed = c.req.method === "GET" || c.req.method === "HEAD" ? "read" : "operate";
    if (!allows(client, needed)) {
      throw new ProblemError(403, `The key "${client.name}" has the scope ${client.scope}; this needs ${needed}.`, {
        code: "TURNO_API_ACCESS",
      });
    }
    c.set("client", client);
    await next();
  };
}
