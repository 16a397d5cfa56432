import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import type { Hono } from "hono";
import { addPath } from "./methods.ts";
import type { WebEnv } from "./ports.ts";

const SCRIPT = "text/javascript; charset=utf-8";
const TEXT = "text/plain; charset=utf-8";
const FONT = "font/woff2";

const require = createRequire(import.meta.url);
const own = (name: string) => fileURLToPath(new URL(name, assetFolder()));
const fontFile = (family: string, subset: string) =>
  require.resolve(`@fontsource-variable/${family}/files/${family}-${subset}-wght-normal.woff2`);

/** Sources lie beside their assets; the built program lies in dist/web, the assets stay in web/assets. */
function assetFolder(): URL {
  const beside = new URL("./assets/", import.meta.url);
  return existsSync(beside) ? beside : new URL("../../web/assets/", import.meta.url);
}

/** Everything the panel loads, all from this machine. */
const FILES: readonly { readonly name: string; readonly type: string; readonly path: () => string }[] = [
  { name: "panel.css", type: "text/css; charset=utf-8", path: () => own("panel.css") },
  { name: "panel.js", type: SCRIPT, path: () => own("panel.js") },
  { name: "theme.js", type: SCRIPT, path: () => own("theme.js") },
  { name: "icon.svg", type: "image/svg+xml", path: () => own("icon.svg") },
  { name: "htmx.js", type: SCRIPT, path: () => require.resolve("htmx.org/dist/htmx.min.js") },
  { name: "hx-sse.js", type: SCRIPT, path: () => require.resolve("htmx.org/dist/ext/hx-sse.min.js") },
  { name: "htmx-licence.txt", type: TEXT, path: () => require.resolve("htmx.org/LICENSE") },
  ...["red-hat-text", "red-hat-mono"].flatMap((family) => [
    ...["latin", "latin-ext"].map((subset) => ({
      name: `fonts/${family}-${subset}.woff2`,
      type: FONT,
      path: () => fontFile(family, subset),
    })),
    {
      name: `fonts/${family}-licence.txt`,
      type: TEXT,
      path: () => require.resolve(`@fontsource-variable/${family}/LICENSE`),
    },
  ]),
];

/** Gives the address of a static file, with its content's hash, so that browsers keep it until it changes. */
export type AssetUrl = (name: string) => string;

/** Serves the files from memory; they are read once. */
export function addStaticFiles(app: Hono<WebEnv>): AssetUrl {
  const versions = new Map<string, string>();
  for (const { name, type, path } of FILES) {
    const body = new Uint8Array(readFileSync(path()));
    const version = createHash("sha256").update(body).digest("hex").slice(0, 12);
    versions.set(name, version);
    const etag = `"${version}"`;
    addPath(app, `/assets/${name}`, {
      get(c) {
        const current = c.req.query("v") === version;
        const headers = {
          ETag: etag,
          "Cache-Control": current ? "public, max-age=31536000, immutable" : "public, max-age=3600",
        };
        if (c.req.header("if-none-match") === etag) return c.body(null, 304, headers);
        return c.body(body, 200, { ...headers, "Content-Type": type });
      },
    });
  }
  return (name) => `/assets/${name}?v=${versions.get(name) ?? ""}`;
}
