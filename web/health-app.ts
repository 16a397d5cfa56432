import { Hono } from "hono";
import { addHealthRoutes } from "./api/health.ts";
import type { WebEnv, WebPorts } from "./ports.ts";
import { ProblemError, problemResponse, toProblem } from "./problem.ts";
import { secureResponses } from "./security.ts";

/** The health checks alone, for processes without an API. What they say is for anybody. */
export function createHealthApp(ports: Pick<WebPorts, "health" | "logger">): Hono<WebEnv> {
  const app = new Hono<WebEnv>();
  app.use(secureResponses());
  addHealthRoutes(app, { ...ports, showsDetails: false });
  app.notFound((c) => {
    throw new ProblemError(404, `There is nothing at ${c.req.path}.`);
  });
  app.onError((error, c) => problemResponse(c, toProblem(error)));
  return app;
}
