import { createHash } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import { defineHandler, type HandlerContext, PermanentError, RetryAfter } from "turno";

interface Payload {
  /** Pages read at most; the API's next cursor ends it before. */
  readonly maxPages?: number;
  readonly pageSize?: number;
}

interface Settings {
  readonly path?: string;
  /** Tries of one page before the attempt fails. */
  readonly tries?: number;
}

interface Page {
  readonly items: readonly { readonly id: string; readonly state?: string; readonly type?: string }[];
  readonly nextCursor: string | null;
}

/** Longer waits than this are left to the queue, so that no slot is held for nothing. */
const LONGEST_WAIT_MS = 10_000;
const REQUEST_MS = 15_000;
const MAX_BODY_BYTES = 8 * 1024 * 1024;

/** Reads all pages of a JSON API; the sample asks Turno's own for its jobs and counts them. */
export default defineHandler<Payload>(async ({ maxPages = 20, pageSize = 100 }, ctx) => {
  const { path = "/api/jobs", tries = 4 } = ctx.settings as Settings;
  const base = apiBase();
  const states: Record<string, number> = {};
  const types: Record<string, number> = {};
  const ids = new Set<string>();
  const cursors = new Set<string>();
  const digest = createHash("sha256");
  let cursor: string | null = null;
  let pages = 0;
  do {
    const url: URL = pageUrl(base, path, { limit: String(pageSize), ...(cursor === null ? {} : { cursor }) });
    const page: Page = await fetchPage(url, tries, ctx);
    for (const { id, state = "unknown", type = "unknown" } of page.items) {
      // Lists move while they are read: a row may come twice.
      if (ids.has(id)) continue;
      ids.add(id);
      digest.update(`${id} ${state}\n`);
      states[state] = (states[state] ?? 0) + 1;
      types[type] = (types[type] ?? 0) + 1;
    }
    pages++;
    cursor = page.nextCursor;
    if (cursor !== null && cursors.has(cursor)) throw new PermanentError("the API gave the same cursor twice");
    if (cursor !== null) cursors.add(cursor);
    await ctx.progress((pages / maxPages) * 100, `${ids.size} items`);
  } while (cursor !== null && pages < maxPages);
  return {
    source: base.origin,
    pages,
    complete: cursor === null,
    items: ids.size,
    states,
    types,
    digest: digest.digest("hex"),
  };
});

function apiBase(): URL {
  const text = process.env.TURNO_API_URL;
  if (text === undefined || !URL.canParse(text)) {
    throw new PermanentError("expected the API's address in TURNO_API_URL, which Turno sets in handler threads");
  }
  const base = new URL(text);
  if (base.protocol !== "http:" && base.protocol !== "https:") {
    throw new PermanentError(`expected an http or https address in TURNO_API_URL, found ${base.protocol}`);
  }
  return base;
}

/** Only the configured server is asked, whatever the path and the cursor are. */
function pageUrl(base: URL, path: string, query: Readonly<Record<string, string>>): URL {
  const url = new URL(path, base);
  if (url.origin !== base.origin) throw new PermanentError(`expected a path on ${base.origin}, found ${path}`);
  url.search = new URLSearchParams(query).toString();
  return url;
}

async function fetchPage(url: URL, tries: number, ctx: HandlerContext): Promise<Page> {
  for (let attempt = 1; ; attempt++) {
    const answer = await request(url, ctx.signal);
    if ("page" in answer) return answer.page;
    const waitMs = answer.retryAfter === null ? 250 * 2 ** (attempt - 1) : readWait(answer.retryAfter);
    // A date, or more than a slot should be held for: the queue waits.
    if (answer.retryAfter !== null && (waitMs === null || waitMs > LONGEST_WAIT_MS)) {
      throw new RetryAfter(answer.retryAfter, answer.reason);
    }
    if (attempt >= tries) throw new Error(`${answer.reason}, ${attempt} times`);
    ctx.log.warn("asking again", { reason: answer.reason, attempt, waitMs });
    await wait(waitMs ?? LONGEST_WAIT_MS, undefined, { signal: ctx.signal });
  }
}

type Answer = { readonly page: Page } | { readonly reason: string; readonly retryAfter: string | null };

async function request(url: URL, signal: AbortSignal): Promise<Answer> {
  const key = process.env.TURNO_API_KEY;
  let response: Response;
  let text: string;
  try {
    response = await fetch(url, {
      redirect: "manual",
      headers: { accept: "application/json", ...(key === undefined ? {} : { "x-turno-key": key }) },
      signal: AbortSignal.any([signal, AbortSignal.timeout(REQUEST_MS)]),
    });
    text = await readBody(response);
  } catch (error) {
    if (signal.aborted || error instanceof PermanentError) throw error;
    return {
      reason: `${url.origin} did not answer (${error instanceof Error ? error.message : error})`,
      retryAfter: null,
    };
  }
  if (response.status >= 500 || response.status === 429) {
    return { reason: `${url.origin} answered ${response.status}`, retryAfter: response.headers.get("retry-after") };
  }
  if (response.status >= 300 && response.status < 400) {
    throw new PermanentError(`${url.origin} answered with a redirect, which is not followed`);
  }
  if (!response.ok) throw new PermanentError(`${url.origin} answered ${response.status}: ${text.slice(0, 200)}`);
  return { page: parsePage(text, url) };
}

async function readBody(response: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of response.body ?? []) {
    bytes += (part as Uint8Array).length;
    if (bytes > MAX_BODY_BYTES) throw new PermanentError(`a page is larger than ${MAX_BODY_BYTES} bytes`);
    parts.push(part as Uint8Array);
  }
  return Buffer.concat(parts).toString("utf8");
}

function parsePage(text: string, url: URL): Page {
  let page: Page;
  try {
    page = JSON.parse(text) as Page;
  } catch {
    throw new PermanentError(`${url.origin} did not answer with JSON`);
  }
  const isPage = Array.isArray(page?.items) && page.items.every((item) => typeof item?.id === "string");
  if (!isPage) throw new PermanentError(`${url.origin} answered with JSON that is not { items: [{ id }], nextCursor }`);
  return { items: page.items, nextCursor: page.nextCursor ?? null };
}

/** Seconds of a Retry-After header as milliseconds; null for a date. */
function readWait(header: string): number | null {
  return /^\d+$/.test(header.trim()) ? Number(header) * 1000 : null;
}
