import type { Context } from "hono";
import type { Child } from "hono/jsx";
import type { PulseTopic, RevisionView, SyncView } from "../../runtime/protocol/ports/panel.ts";
import type { WebEnv } from "../ports.ts";
import type { AssetUrl } from "../static-files.ts";
import { shortCommit } from "./format.ts";
import { Counted, State } from "./marks.tsx";

const PLACES = [
  { name: "Overview", path: "/" },
  { name: "Jobs", path: "/jobs" },
  { name: "Schedules", path: "/schedules" },
  { name: "Queues", path: "/queues" },
  { name: "Workers", path: "/workers" },
] as const;
export type Place = (typeof PLACES)[number]["name"];

/** What surrounds a page's content. */
export interface Frame {
  readonly title: string;
  readonly place: Place;
  /** What makes the page fetch itself again; none: it stays as it is. */
  readonly topics: readonly PulseTopic[];
  /** The database's clock; elapsed times count on from it. */
  readonly now: Date;
  readonly revision: RevisionView | null;
  readonly sync: SyncView | null;
}

// Nothing is evaluated, nothing styled inline, requests go to this server only; a failed refresh keeps what is shown.
const HTMX_CONFIG = JSON.stringify({
  extensions: "sse",
  history: false,
  includeIndicatorCSS: false,
  mode: "same-origin",
  noSwap: [204, 304, "4xx", "5xx"],
  sse: { reconnectDelay: 500, reconnectMaxDelay: 10_000 },
});

/** A whole page, or only its changing part when the page fetches itself again. */
export function renderPage(c: Context<WebEnv>, assets: AssetUrl, frame: Frame, content: Child): Response {
  c.header("Vary", "HX-Request");
  const { pathname, search } = new URL(c.req.url);
  const page = (
    <div
      id="page"
      data-now={frame.now.toISOString()}
      hx-get={frame.topics.length > 0 ? pathname + search : undefined}
      hx-trigger="refresh from:#feed"
      hx-swap="outerMorph"
      hx-sync="this:queue last"
    >
      <Header frame={frame} loggedIn={c.get("client") !== null} />
      <main id="content">{content}</main>
    </div>
  );
  if (c.req.header("hx-request") === "true") return c.html(String(page));
  return c.html(
    `<!doctype html>${String(
      <Document title={frame.title} assets={assets} feed={frame.topics}>
        {page}
      </Document>,
    )}`,
  );
}

/** A page of its own, without the way around: log in, errors. */
export function renderAlone(assets: AssetUrl, title: string, content: Child): string {
  return `<!doctype html>${String(
    <Document title={title} assets={assets} feed={[]}>
      <main class="alone" id="content">
        <section class="panel">{content}</section>
      </main>
    </Document>,
  )}`;
}

function Document(props: {
  readonly title: string;
  readonly assets: AssetUrl;
  readonly feed: readonly PulseTopic[];
  readonly children?: Child;
}) {
  const { title, assets, feed } = props;
  return (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="htmx-config" content={HTMX_CONFIG} />
        <title>{`${title} · Turno`}</title>
        <link rel="icon" href={assets("icon.svg")} type="image/svg+xml" />
        <link rel="stylesheet" href={assets("panel.css")} />
        <script src={assets("theme.js")} />
        {/* Not deferred: htmx would start by a timer then, and could do so before its extension is there. */}
        <script src={assets("htmx.js")} />
        <script src={assets("hx-sse.js")} />
        <script src={assets("panel.js")} defer />
      </head>
      <body>
        <a class="skip" href="#content">
          Skip to the content
        </a>
        {props.children}
        {feed.length > 0 ? <div id="feed" hx-sse:connect={`/panel/events?topics=${feed.join(",")}`} /> : null}
      </body>
    </html>
  );
}

function Header({ frame, loggedIn }: { readonly frame: Frame; readonly loggedIn: boolean }) {
  return (
    <header class="top">
      <a class="brand" href="/">
        <svg viewBox="0 0 20 20" aria-hidden="true">
          <rect x="1" y="1" width="18" height="18" rx="3" fill="none" stroke="currentColor" stroke-width="2" />
          <rect x="4.5" y="5" width="6" height="2.6" fill="currentColor" />
          <rect x="4.5" y="8.9" width="11" height="2.6" fill="currentColor" />
          <rect x="9.5" y="12.8" width="6" height="2.6" fill="currentColor" />
        </svg>
        Turno
      </a>
      <nav class="places" aria-label="Places">
        {PLACES.map(({ name, path }) => (
          <a href={path} aria-current={name === frame.place ? "page" : undefined}>
            {name}
          </a>
        ))}
      </nav>
      <div class="sync">
        <span class="live-off state" role="status">
          <i class="mark failed" />
          reconnecting
        </span>
        <SyncMark sync={frame.sync} now={frame.now} />
        <Applied revision={frame.revision} now={frame.now} />
        {loggedIn ? (
          <form method="post" action="/logout">
            <button class="button" type="submit">
              Log out
            </button>
          </form>
        ) : null}
        <ThemeSwitch />
      </div>
    </header>
  );
}

/** Whether the files are what is in force; nothing to say while they are. */
function SyncMark({ sync, now }: { readonly sync: SyncView | null; readonly now: Date }) {
  if (sync === null || (sync.ok && !sync.silent)) return null;
  const lastGood =
    sync.lastOkAt === null ? null : (
      <span class="wide">
        last good sync <Counted at={sync.lastOkAt} now={now} as="ago" />
      </span>
    );
  if (sync.problem === null || sync.silent) {
    return (
      <>
        <State tone="scheduled">Files not watched</State>
        {lastGood}
      </>
    );
  }
  return (
    <>
      <a href="/" title={sync.problem.message}>
        <State tone="failed">
          <span class="clip">{describeSync(sync)}</span>
        </State>
      </a>
      {lastGood}
    </>
  );
}

/** `Invalid: turno.d/a.yaml:3`, or that the files may not be applied. */
export function describeSync({ problem }: SyncView): string {
  if (problem === null) return "In force";
  return problem.file === null ? "Edits not in force" : `Invalid: ${problem.file}:${problem.line ?? 1}`;
}

function Applied({ revision, now }: { readonly revision: RevisionView | null; readonly now: Date }) {
  if (revision === null) return <State tone="enqueued">Nothing applied</State>;
  return (
    <>
      <span class="wide">
        <State tone="succeeded">Applied</State>
      </span>
      <b title={revision.message ?? undefined}>
        {revision.commit === null
          ? `revision ${revision.number}`
          : `${revision.number}@${shortCommit(revision.commit)}`}
      </b>
      <span class="wide">
        <Counted at={revision.appliedAt} now={now} as="ago" />
      </span>
    </>
  );
}

/** Auto, light, dark; the choice is kept in the browser. */
function ThemeSwitch() {
  return (
    <button
      class="button"
      type="button"
      data-theme-switch=""
      aria-label="Change the theme: auto, light or dark"
      title="Theme"
    >
      <svg viewBox="0 0 14 14" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.4">
        <g class="theme-auto">
          <circle cx="7" cy="7" r="5.4" />
          <path d="M7 1.6a5.4 5.4 0 0 1 0 10.8z" fill="currentColor" />
        </g>
        <g class="theme-light">
          <circle cx="7" cy="7" r="2.6" />
          <path d="M7 .6v1.6M7 11.8v1.6M.6 7h1.6M11.8 7h1.6M2.5 2.5l1.1 1.1M10.4 10.4l1.1 1.1M11.5 2.5l-1.1 1.1M3.6 10.4l-1.1 1.1" />
        </g>
        <path class="theme-dark" d="M11.9 8.8A5.4 5.4 0 0 1 5.2 2.1a5.4 5.4 0 1 0 6.7 6.7z" />
      </svg>
    </button>
  );
}

/** The word beside a heading that says that the page follows. */
export function LiveMark() {
  return <span class="end muted live-on">live</span>;
}
