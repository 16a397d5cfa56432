import type { MiddlewareHandler } from "hono";
import { TurnoError } from "../runtime/core/errors.ts";
import type { ApiKeys } from "./auth.ts";
import type { WebEnv } from "./ports.ts";
import { ProblemError } from "./problem.ts";

/** On every response, errors and static files too. */
export const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  "Content-Security-Policy":
    "default-src 'self'; script-src 'self'; style-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  "X-Frame-Options": "DENY",
  "X-Content-Type-Options": "nosniff",
  // Nothing to other sites; no-referrer would also take the Origin from the forms of the panel itself.
  "Referrer-Policy": "same-origin",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
};

export function secureResponses(): MiddlewareHandler<WebEnv> {
  return async (c, next) => {
    await next();
    for (const [name, value] of Object.entries(SECURITY_HEADERS)) c.res.headers.set(name, value);
    if (!c.res.headers.has("Cache-Control")) c.res.headers.set("Cache-Control", "no-store");
  };
}

/** Without keys only the machine itself may ask: a page elsewhere that points its own name here is turned away. */
export function loopbackNamesOnly(): MiddlewareHandler<WebEnv> {
  return async (c, next) => {
    const url = new URL(c.req.url);
    const host = hostOf(c.req.header("host") ?? url.host);
    if (host === null || !isLoopback(host)) {
      throw new ProblemError(
        421,
        "Without API keys Turno answers only to localhost, 127.0.0.1 and [::1]. Use one of them, or set TURNO_API_KEYS.",
        { code: "TURNO_API_ORIGIN" },
      );
    }
    await next();
  };
}

/** Requests that change something must not come from another site's page. Programs send neither header. */
export function sameOriginWrites(allowedOrigins: readonly string[]): MiddlewareHandler<WebEnv> {
  return async (c, next) => {
    if (c.req.method !== "GET" && c.req.method !== "HEAD" && c.req.method !== "OPTIONS") {
      const origin = c.req.header("origin");
      const allowed = origin !== undefined && allowedOrigins.includes(origin) && c.req.path.startsWith("/api/");
      const site = c.req.header("sec-fetch-site");
      const host = c.req.header("host") ?? new URL(c.req.url).host;
      // The browser's own word where it gives one (secure contexts, localhost), else the page's address.
      const ours =
        site === undefined
          ? origin === undefined || originHost(origin) === host
          : site === "same-origin" || site === "none";
      if (!allowed && !ours) {
        throw new ProblemError(403, "This request was made by a page of another site; it was not carried out.", {
          code: "TURNO_API_ORIGIN",
        });
      }
    }
    await next();
  };
}

/** Throws TURNO_API_REFUSED for an address that others reach while there are no keys. */
export function checkListenAddress(options: { readonly host: string; readonly keys: ApiKeys | null }): void {
  if (options.keys !== null || isLoopback(options.host)) return;
  throw new TurnoError(
    "TURNO_API_REFUSED",
    `expected API keys before listening on ${options.host}, where other machines reach it; found none`,
    { hint: "set TURNO_API_KEYS=name:scope:sha256-of-key, or listen on 127.0.0.1" },
  );
}

function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[(.*)\]$/, "$1");
  return name === "localhost" || name.endsWith(".localhost") || name === "::1" || /^127(\.\d{1,3}){3}$/.test(name);
}

/** The host name of a `Host` header without its port; null when it is none. */
function hostOf(header: string): string | null {
  return /^(\[[0-9a-f:.]+\]|[^:/@\s]+)(:\d{1,5})?$/i.exec(header)?.[1] ?? null;
}

function originHost(origin: string): string | null {
  return URL.canParse(origin) ? new URL(origin).host : null;
}
