import { Hono } from "hono";
import { addHealthRoutes } from "./api/health.ts";
import { expectKey } from "./app.ts";
import { addMetrics, type MetricsSources } from "./metrics.ts";
import type { WebEnv, WebPorts } from "./ports.ts";
import { ProblemError, problemResponse, toProblem } from "./problem.ts";
import { loopbackNamesOnly, secureResponses } from "./security.ts";

/** The health checks, for processes without an API: what they say is for anybody. Metrics are for who may read the API. */
export function createHealthApp(
  ports: Pick<WebPorts, "health" | "logger"> & {
    readonly monitoring?: MetricsSources & Pick<WebPorts, "keys">;
  },
): Hono<WebEnv> {
  const app = new Hono<WebEnv>();
  app.use(secureResponses());
  addHealthRoutes(app, { ...ports, showsDetails: false });
  if (ports.monitoring !== undefined) {
    const { keys, ...sources } = ports.monitoring;
    app.use("/metrics", keys === null ? loopbackNamesOnly() : expectKey(keys));
    addMetrics(app, sources);
  }
  app.notFound((c) => {
    throw new ProblemError(404, `There is nothing at ${c.req.path}.`);
  });
  app.onError((error, c) => problemResponse(c, toProblem(error)));
  return app;
}
