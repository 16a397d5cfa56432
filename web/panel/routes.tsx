import type { Context, Hono } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import { NAME_PATTERN } from "../../runtime/core/ids.ts";
import type { ScheduleView, WorkerView } from "../../runtime/protocol/ports/panel.ts";
import type { Actions } from "../actions.ts";
import { layPause, takePauseAway } from "../api/pauses.ts";
import { readName, scheduleNotFound } from "../api/schedules.ts";
import { allows, createSessions, SESSION_MS, type Sessions } from "../auth.ts";
import { readForm } from "../body.ts";
import type { EventStreams } from "../events.ts";
import { JOB_PARAMETERS, jobNotFound, readCursor, readJobFilter, readJobId, readQuery } from "../listing.ts";
import { PULSE_TOPICS } from "../live.ts";
import { addPath, type Handle } from "../methods.ts";
import type { WebEnv, WebPorts } from "../ports.ts";
import { ProblemError } from "../problem.ts";
import type { SharedReads } from "../shared-reads.ts";
import type { AssetUrl } from "../static-files.ts";
import { LoginForm, ProblemPage } from "./alone-pages.tsx";
import { CalendarPage } from "./calendar-page.tsx";
import { QueuesPage, WorkersPage } from "./fleet-pages.tsx";
import { JobPageContent } from "./job-page.tsx";
import { JobsPage } from "./jobs-page.tsx";
import { type Frame, renderAlone, renderPage } from "./layout.tsx";
import { Overview } from "./overview.tsx";
import { COMING_SHOWN, PAST_SHOWN, SchedulePage } from "./schedule-page.tsx";
import { FIRES_SHOWN, SchedulesPage } from "./schedules-page.tsx";

export interface PanelParts {
  readonly ports: WebPorts;
  readonly actions: Actions;
  readonly streams: EventStreams;
  readonly reads: SharedReads;
  readonly assets: AssetUrl;
}

const SESSION_COOKIE = "turno_session";
const SCHEDULES_A_PAGE = 100;
const DAY_MS = 86_400_000;
const END_OF_TIME = new Date(Date.UTC(9999, 11, 31));
/** A silent worker leaves the board after this; the page of workers shows it until it is cleaned up. */
const BOARD_SILENCE_MS = 5 * 60_000;

export function addPanelRoutes(app: Hono<WebEnv>, parts: PanelParts): void {
  const { ports } = parts;
  const sessions =
    ports.keys === null ? null : createSessions({ secret: ports.sessionSecret, clock: ports.clock, keys: ports.keys });
  if (sessions !== null) addLogin(app, parts, sessions);
  // Everything that is no API, health check, static file or login.
  const guard = (handle: Handle): Handle => (sessions === null ? handle : (c) => withSession(c, sessions, handle));
  addPages(app, parts, guard);
  addButtons(app, parts, guard);
  addPath(app, "/panel/events", {
    get: guard((c) => {
      const asked = readQuery(c, ["topics"]).topics?.split(",") ?? [];
      return parts.streams.open(c, {
        topics: PULSE_TOPICS.filter((topic) => asked.includes(topic)),
        greeting: { event: "refresh", data: "connected" },
        messages: (topics) => (topics.length === 0 ? [] : [{ event: "refresh", data: topics.join(",") }]),
      });
    }),
  });
}

/** The page of an error; the API answers with Problem Details instead. */
export function renderProblem(assets: AssetUrl, problem: ProblemError): string {
  return renderAlone(assets, problem.title, <ProblemPage problem={problem} />);
}

function withSession(c: Context<WebEnv>, sessions: Sessions, handle: Handle): Response | Promise<Response> {
  const client = sessions.read(getCookie(c, SESSION_COOKIE) ?? "");
  if (client !== null) {
    c.set("client", client);
    return handle(c);
  }
  const { pathname, search } = new URL(c.req.url);
  // A page that refreshes itself after its session ended goes to the login as a whole.
  if (c.req.header("hx-request") === "true") return c.body(null, 401, { "HX-Redirect": "/login" });
  if (c.req.method !== "GET") return c.redirect("/login", 303);
  return c.redirect(`/login?next=${encodeURIComponent(pathname + search)}`, 303);
}

function addLogin(app: Hono<WebEnv>, { assets, ports }: PanelParts, sessions: Sessions): void {
  addPath(app, "/login", {
    get: (c) =>
      c.html(renderAlone(assets, "Log in", <LoginForm next={localPath(c.req.query("next"))} wrong={false} />)),
    async post(c) {
      const form = await readForm(c);
      const next = localPath(form.get("next"));
      const client = ports.keys?.authenticate(form.get("key") ?? "") ?? null;
      if (client === null) return c.html(renderAlone(assets, "Log in", <LoginForm next={next} wrong={true} />), 401);
      setCookie(c, SESSION_COOKIE, sessions.open(client), {
        path: "/",
        httpOnly: true,
        sameSite: "Strict",
        secure: new URL(c.req.url).protocol === "https:",
        maxAge: SESSION_MS / 1000,
      });
      return c.redirect(next, 303);
    },
  });
  addPath(app, "/logout", {
    post(c) {
      deleteCookie(c, SESSION_COOKIE, { path: "/" });
      return c.redirect("/login", 303);
    },
  });
}

/** A path of this server and nothing that a browser could take for another one. */
function localPath(text: string | undefined): string {
  return text !== undefined && /^\/(?![/\\])[\x21-\x7e]*$/.test(text) && !text.includes("\\") ? text : "/";
}

function addPages(app: Hono<WebEnv>, { ports, reads, assets }: PanelParts, guard: (handle: Handle) => Handle): void {
  const { panel, history } = ports;
  const mayOperate = (c: Context<WebEnv>) => allows(c.get("client"), "operate");
  const render = async (
    c: Context<WebEnv>,
    frame: Omit<Frame, "revision" | "sync">,
    content: Parameters<typeof renderPage>[3],
  ) => {
    const [revision, sync] = await Promise.all([reads.loadRevision(), reads.loadSync()]);
    return renderPage(c, assets, { ...frame, revision, sync }, content);
  };

  addPath(app, "/", {
    get: guard(async (c) => {
      const [figures, workers, concerns, coming, sync] = await Promise.all([
        reads.loadStatistics(),
        reads.listWorkers(),
        reads.listConcerns(),
        reads.loadComingUp(),
        reads.loadSync(),
      ]);
      const onBoard = workers.items.filter((worker) => belongsOnBoard(worker, workers.now));
      const frame = { title: "Overview", place: "Overview", topics: PULSE_TOPICS, now: figures.now } as const;
      const facts = { figures, workers: onBoard, concerns, coming, sync };
      return render(c, frame, <Overview {...facts} />);
    }),
  });

  addPath(app, "/jobs", {
    get: guard(async (c) => {
      const query = readQuery(c, JOB_PARAMETERS);
      const page = await panel.listJobs(readJobFilter(query, false));
      const frame = { title: "Jobs", place: "Jobs", topics: ["jobs", "sync"], now: page.now } as const;
      return render(c, frame, <JobsPage page={page} query={query} />);
    }),
  });

  addPath(app, "/jobs/:id", {
    get: guard(async (c) => {
      const job = await panel.loadJob(readJobId(c));
      if (job === null) throw jobNotFound();
      const frame = { title: job.type, place: "Jobs", topics: ["jobs", "sync"], now: job.now } as const;
      return render(c, frame, <JobPageContent job={job} mayOperate={mayOperate(c)} />);
    }),
  });

  addPath(app, "/schedules", {
    get: guard(async (c) => {
      const after = readCursor(readQuery(c, ["cursor"]).cursor, (key) => NAME_PATTERN.test(key));
      const page = await panel.listSchedules({ after, limit: SCHEDULES_A_PAGE });
      const fires = await panel.listFires({
        schedules: page.items.map((schedule) => schedule.name),
        each: FIRES_SHOWN,
      });
      const frame = { title: "Schedules", place: "Schedules", topics: ["jobs", "sync"], now: page.now } as const;
      const facts = { now: page.now, schedules: page.items, fires, next: page.next, firstPage: after === null };
      return render(c, frame, <SchedulesPage {...facts} mayOperate={mayOperate(c)} />);
    }),
  });

  addPath(app, "/schedules/:name", {
    get: guard(async (c) => {
      readQuery(c, []);
      const name = readName(c);
      const record = await history.loadSchedule(name);
      if (record === null) throw scheduleNotFound();
      const { now, schedule } = record;
      const range = { schedule: name, from: new Date(0), to: new Date(now.getTime() + DAY_MS), limit: PAST_SHOWN };
      const facts = {
        record,
        past: await history.listRecords(range),
        coming: comingFires(schedule, ports.forecastFires),
      };
      const frame = { title: name, place: "Schedules", topics: ["jobs", "sync"], now } as const;
      return render(c, frame, <SchedulePage {...facts} mayOperate={mayOperate(c)} />);
    }),
  });

  addPath(app, "/calendar", {
    get: guard(async (c) => {
      const asked = readQuery(c, ["tz"]).tz;
      if (asked !== undefined && !isZone(asked)) {
        throw new ProblemError(400, `Expected a time zone such as Europe/Berlin as "tz", found "${asked}".`);
      }
      const load = await reads.loadFireLoad();
      const timeZone = asked ?? load.timeZones.find(isZone) ?? "UTC";
      const frame = { title: "Calendar", place: "Schedules", topics: ["sync"], now: load.from } as const;
      return render(c, frame, <CalendarPage load={load} timeZone={timeZone} />);
    }),
  });

  addPath(app, "/queues", {
    get: guard(async (c) => {
      const { now, items } = await reads.listQueues();
      const frame = { title: "Queues", place: "Queues", topics: PULSE_TOPICS, now } as const;
      const mayOperate = allows(c.get("client"), "operate");
      const pausing = c.req.query("pause") ?? null;
      return render(c, frame, <QueuesPage queues={items} mayOperate={mayOperate} pausing={pausing} />);
    }),
  });

  addPath(app, "/workers", {
    get: guard(async (c) => {
      const { now, items } = await reads.listWorkers();
      const frame = { title: "Workers", place: "Workers", topics: PULSE_TOPICS, now } as const;
      return render(c, frame, <WorkersPage workers={items} now={now} />);
    }),
  });
}

/** The stored next fire, then what its timing gives. */
function comingFires(schedule: ScheduleView, forecastFires: WebPorts["forecastFires"]): readonly Date[] {
  const { nextFireAt, suspended, spec } = schedule;
  if (suspended || nextFireAt === null) return [];
  return [nextFireAt, ...forecastFires(spec, { after: nextFireAt, until: END_OF_TIME, limit: COMING_SHOWN - 1 })];
}

function isZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    return /^[A-Za-z]/.test(name);
  } catch {
    return false;
  }
}

function belongsOnBoard(worker: WorkerView, now: Date): boolean {
  return (
    worker.status !== "silent" ||
    worker.running.length > 0 ||
    now.getTime() - worker.heartbeatAt.getTime() < BOARD_SILENCE_MS
  );
}

function readPause(form: ReadonlyMap<string, string>) {
  const until = form.get("until")?.trim() ?? "";
  return { reason: form.get("reason")?.trim() ?? "", ...(until === "" ? {} : { until }) };
}

function addButtons(app: Hono<WebEnv>, { ports, actions }: PanelParts, guard: (handle: Handle) => Handle): void {
  const operate = (action: (c: Context<WebEnv>, form: ReadonlyMap<string, string>) => Promise<string>): Handle =>
    guard(async (c) => {
      if (!allows(c.get("client"), "operate")) {
        throw new ProblemError(403, "Your key may look, but not change anything.", { code: "TURNO_API_ACCESS" });
      }
      const form = await readForm(c);
      const target = await action(c, form);
      const by = c.get("client")?.name ?? null;
      ports.logger.info("an operator acted in the panel", { action: c.req.path, by });
      return c.redirect(target, 303);
    });

  addPath(app, "/jobs/:id/cancel", {
    post: operate(async (c) => {
      const id = readJobId(c);
      await actions.cancel(id);
      return `/jobs/${id}`;
    }),
  });
  addPath(app, "/jobs/:id/requeue", {
    post: operate(async (c) => {
      const id = readJobId(c);
      await actions.requeue(id);
      return `/jobs/${id}`;
    }),
  });
  addPath(app, "/jobs/:id/delete", {
    post: operate(async (c) => {
      await actions.remove(readJobId(c));
      return "/jobs";
    }),
  });
  const { pauses } = ports;
  addPath(app, "/schedules/:name/pause", {
    post: operate(async (c, form) => {
      await layPause(c, { pauses, kind: "Schedule", body: readPause(form) });
      return `/schedules/${encodeURIComponent(readName(c))}`;
    }),
  });
  addPath(app, "/schedules/:name/resume", {
    post: operate(async (c) => {
      await takePauseAway(c, { pauses, kind: "Schedule" });
      return `/schedules/${encodeURIComponent(readName(c))}`;
    }),
  });
  addPath(app, "/queues/:name/pause", {
    post: operate(async (c, form) => {
      await layPause(c, { pauses, kind: "Queue", body: readPause(form) });
      return "/queues";
    }),
  });
  addPath(app, "/queues/:name/resume", {
    post: operate(async (c) => {
      await takePauseAway(c, { pauses, kind: "Queue" });
      return "/queues";
    }),
  });
  addPath(app, "/schedules/:name/trigger", {
    post: operate(async (c) => `/jobs/${await actions.trigger(c.req.param("name") ?? "")}`),
  });
}
