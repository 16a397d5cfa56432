import type { Context, Hono } from "hono";
import type { WebEnv } from "./ports.ts";
import { ProblemError } from "./problem.ts";

export type Handle = (c: Context<WebEnv>) => Response | Promise<Response>;

/** Registers the methods of one path; any other method is answered with 405 and the ones that exist. */
export function addPath(
  app: Hono<WebEnv>,
  path: string,
  handlers: { readonly get?: Handle; readonly post?: Handle; readonly delete?: Handle },
): void {
  const allowed: string[] = [];
  if (handlers.get !== undefined) {
    app.get(path, handlers.get);
    allowed.push("GET", "HEAD");
  }
  if (handlers.post !== undefined) {
    app.post(path, handlers.post);
    allowed.push("POST");
  }
  if (handlers.delete !== undefined) {
    app.delete(path, handlers.delete);
    allowed.push("DELETE");
  }
  app.all(path, (c) => {
    throw new ProblemError(405, `${c.req.method} is not for ${c.req.path}; it takes ${allowed.join(", ")}.`, {
      headers: { Allow: allowed.join(", ") },
    });
  });
}
