import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import type {
  JobDetail,
  PanelQueries,
  ScheduleView,
  SyncView,
  WorkerView,
} from "../../runtime/protocol/ports/panel.ts";
import { createTestApp, fakePanel, JOB, NOW } from "./fake-ports.ts";

const HTML = { headers: { accept: "text/html" } };
const IMG = "<img src=x onerror=alert(1)>";
const ACTIVE = `<button hx-delete="/jobs/1" hx-trigger="load"><div data-hx-on:click="alert(1)">`;
const EVIL = `${IMG}${ACTIVE}"'`;

const evilJob: JobDetail = {
  ...JOB,
  type: EVIL,
  queue: EVIL,
  error: EVIL,
  resultError: EVIL,
  worker: EVIL,
  schedule: EVIL,
  progressMessage: EVIL,
  payload: { [EVIL]: EVIL },
  commitMessage: EVIL,
  committedAt: NOW,
  source: { revision: 1, file: EVIL, line: 1, commit: EVIL, author: EVIL },
  attempts: [
    {
      ...JOB.attempts[0],
      execution: 1,
      worker: EVIL,
      outcome: "failed",
      startedAt: NOW,
      finishedAt: NOW,
      durationMs: 1,
      error: EVIL,
      stack: EVIL,
      bundle: EVIL,
      revision: 1,
    },
  ],
  timeline: [{ at: NOW, from: "Enqueued", to: "Failed", reason: EVIL }],
  parent: { id: JOB.id, type: EVIL, state: "Succeeded" },
  children: [{ id: JOB.id, type: EVIL, state: "Enqueued" }],
};

const worker: WorkerView = {
  id: "w",
  name: EVIL,
  host: EVIL,
  pid: 1,
  version: EVIL,
  status: "live",
  queues: [{ name: EVIL, concurrency: 2 }],
  registeredAt: NOW,
  heartbeatAt: NOW,
  duties: [EVIL],
  unloadableBundles: [EVIL],
  clockSkewMs: null,
  handlersCutOff: 0,
  handlersStuck: 0,
  leasesFailing: false,
  running: [
    {
      id: JOB.id,
      type: EVIL,
      queue: EVIL,
      startedAt: NOW,
      progress: 62,
      progressMessage: EVIL,
      timeoutMs: 1,
      cancelRequested: true,
    },
  ],
};

const schedule: ScheduleView = {
  name: EVIL,
  description: EVIL,
  jobType: `${EVIL}2`,
  queue: EVIL,
  spec: {
    job: EVIL,
    timing: { kind: "cron", expression: EVIL, timeZone: "UTC" },
    timeZone: "UTC",
    payload: null,
    concurrencyPolicy: "Forbid",
    misfirePolicy: "latest",
    runOnStart: false,
    suspend: false,
  },
  timingHash: "t",
  suspended: false,
  nextFireAt: new Date(NOW.getTime() + 41_000),
  lastFireAt: null,
  lastJobId: null,
  awaitsFinish: false,
  source: evilJob.source,
};

const evilPanel: PanelQueries = {
  ...fakePanel,
  listJobs: async () => ({ now: NOW, items: [evilJob, { ...evilJob, state: "Processing" }], next: JOB.id }),
  loadJob: async () => evilJob,
  listWorkers: async () => ({ now: NOW, items: [worker] }),
  listQueues: async () => ({
    now: NOW,
    items: [
      {
        name: EVIL,
        concurrency: 1,
        suspended: true,
        scheduled: 0,
        queued: 0,
        running: 0,
        slots: 0,
        lastDay: { executions: 0, failures: 0, meanMs: null },
        source: evilJob.source,
      },
    ],
  }),
  listSchedules: async () => ({ now: NOW, items: [schedule], next: null }),
  listFires: async () =>
    new Map([[EVIL, [{ at: NOW, outcome: "fired", jobId: JOB.id, state: "Failed", lateByMs: 0 }]]]),
  listConcerns: async () => [
    { kind: "no-worker", queue: EVIL, queued: 1 },
    { kind: "restart-needed", workers: [EVIL], since: NOW },
    { kind: "worker-silent", worker: EVIL, since: NOW },
    { kind: "worker-ailing", worker: EVIL, leasesFailing: false, handlersStuck: 0, clockSkewMs: -7_000 },
    { kind: "held", type: EVIL, hold: "no-handler", count: 1, since: NOW },
    { kind: "dead-letters", type: EVIL, count: 2, last: NOW },
    { kind: "missed", schedule: EVIL, count: 2, last: NOW },
  ],
  loadRevision: async () => ({ number: 3, commit: EVIL, author: EVIL, message: EVIL, appliedAt: NOW }),
  loadSync: async () => ({
    ok: false,
    checkedAt: NOW,
    silent: false,
    lastOkAt: NOW,
    problem: { code: EVIL, message: EVIL, file: EVIL, line: 1, count: 2 },
  }),
};

describe("text from handlers and files", () => {
  it.each([
    "/",
    "/jobs",
    `/jobs?search=${encodeURIComponent(EVIL)}&type=${encodeURIComponent(EVIL)}&schedule=${encodeURIComponent(EVIL)}`,
    `/jobs/${JOB.id}`,
    "/schedules",
    "/queues",
    "/workers",
    `/${encodeURIComponent(EVIL)}`,
    `/jobs?state=${encodeURIComponent(EVIL)}`,
  ])("is shown as text on %s, page and fragment", async (path) => {
    const { app } = createTestApp({ panel: evilPanel });
    for (const headers of [{ accept: "text/html" }, { accept: "text/html", "hx-request": "true" }]) {
      const body = await (await app.request(path, { headers })).text();
      expect(body.length).toBeGreaterThan(200);
      expect(body).not.toContain("<img src=x");
      expect(body).not.toContain("<button hx-delete");
      expect(body).not.toMatch(/<div data-hx-on/);
    }
  });

  it("stays text in the API's answers to a browser", async () => {
    const { app } = createTestApp({ panel: evilPanel });
    const response = await app.request(`/api/jobs/${JOB.id}`, HTML);
    expect(response.headers.get("content-type")).toContain("application/json");
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
  });
});

describe("pages", () => {
  it("have no inline script, style or handler, and load nothing from elsewhere", async () => {
    const { app } = createTestApp({ panel: evilPanel });
    for (const path of ["/", "/jobs", `/jobs/${JOB.id}`, "/schedules", "/queues", "/workers", "/nothing"]) {
      const body = await (await app.request(path, HTML)).text();
      expect(body).not.toMatch(/<style|<script(?![^>]* src="\/assets\/)[^>]*>/);
      // Texts stand in quotes, where nothing runs.
      expect(body.replaceAll(/"[^"]*"/g, '""')).not.toMatch(/<[^>]+ (style|on[a-z]+|(data-)?hx-on[:a-z-]*)=/);
      expect(body).not.toMatch(/(src|href)="(https?:)?\/\//);
    }
  });

  it("only point to files that are there", async () => {
    const { app } = createTestApp();
    const body = await (await app.request("/", HTML)).text();
    const css = await (await app.request("/assets/panel.css")).text();
    const files = [
      ...[...body.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map((match) => match[1] ?? ""),
      ...[...css.matchAll(/url\("([^"]+)"\)/g)].map((match) => match[1] ?? ""),
      "/assets/fonts/red-hat-text-licence.txt",
      "/assets/fonts/red-hat-mono-licence.txt",
    ];
    expect(files.length).toBeGreaterThan(9);
    for (const file of files) expect((await app.request(file)).status).toBe(200);
    expect(await (await app.request("/assets/fonts/red-hat-mono-licence.txt")).text()).toContain(
      "SIL OPEN FONT LICENSE",
    );
  });

  it("mark the place in the navigation, and list no place that is not there", async () => {
    const { app } = createTestApp();
    const body = await (await app.request("/schedules", HTML)).text();
    expect(body).toContain('<a href="/schedules" aria-current="page">');
    const places = [...(/<nav class="places".*?<\/nav>/s.exec(body)?.[0].matchAll(/href="([^"]+)"/g) ?? [])];
    expect(places).toHaveLength(5);
    for (const [, path] of places) expect((await app.request(path ?? "")).status).toBe(200);
  });

  it("say what to do next where there is nothing", async () => {
    const { app } = createTestApp({
      panel: { ...fakePanel, listJobs: async () => ({ now: NOW, items: [], next: null }) },
    });
    expect(await (await app.request("/", HTML)).text()).toContain("No worker is on shift");
    expect(await (await app.request("/jobs", HTML)).text()).toContain("turno enqueue");
    expect(await (await app.request("/jobs?type=x", HTML)).text()).toContain("No job matches");
    expect(await (await app.request("/schedules", HTML)).text()).toContain("kind: Schedule");
    expect(await (await app.request("/queues", HTML)).text()).toContain("kind: Queue");
    expect(await (await app.request("/workers", HTML)).text()).toContain("turno worker");
  });

  it("answer a refresh with the changing part alone", async () => {
    const { app } = createTestApp();
    const body = await (await app.request("/jobs?type=x", { headers: { "hx-request": "true" } })).text();
    expect(body).toMatch(/^<div id="page"/);
    expect(body).toContain('hx-get="/jobs?type=x"');
    expect(body).not.toContain("<html");
  });

  it("show errors as pages to people", async () => {
    const { app } = createTestApp();
    const response = await app.request("/jobs/none", HTML);
    expect(response.status).toBe(404);
    expect(response.headers.get("content-type")).toContain("text/html");
    expect(await response.text()).toContain("There is no job with this id");
  });
});

describe("an edit that is not in force", () => {
  const sync = (view: Partial<SyncView>): PanelQueries => ({
    ...fakePanel,
    loadRevision: async () => ({ number: 3, commit: null, author: null, message: null, appliedAt: NOW }),
    loadSync: async () => ({
      ok: false,
      checkedAt: NOW,
      silent: false,
      lastOkAt: new Date(NOW.getTime() - 180_000),
      problem: { code: "TURNO_CRON_INVALID", message: "the hour 25", file: "turno.d/a.yaml", line: 7, count: 3 },
      ...view,
    }),
  });
  const show = async (path: string, view: Partial<SyncView>) => {
    const { app } = createTestApp({ panel: sync(view) });
    return (await (await app.request(path, HTML)).text()).replaceAll(/<[^>]+>/g, "").replaceAll(/\s+/g, " ");
  };

  it("is told at the top of every page, with its place and the age of the last good sync", async () => {
    for (const path of ["/", "/jobs", `/jobs/${JOB.id}`, "/schedules", "/queues", "/workers"]) {
      expect(await show(path, {})).toMatch(/Invalid: turno\.d\/a\.yaml:7\s*last good sync 3 m ago.*revision 3/);
      const { app } = createTestApp();
      expect(await (await app.request(path, HTML)).text()).toMatch(/panel\/events\?topics=[a-z,]*sync/);
    }
  });

  it("needs attention on the overview, with its reason", async () => {
    expect(await show("/", {})).toMatch(/Needs attention\s*1.*turno\.d\/a\.yaml:7 the hour 25 and 2 more.*for 3 m/);
    const refused = { code: "TURNO_SOURCE_OWNED", message: "owned", file: null, line: null, count: 1 };
    expect(await show("/", { problem: refused, lastOkAt: null })).toMatch(
      /Edits not in force owned.*never in force yet/,
    );
  });

  it("is nothing to tell once it is mended, and cannot be told when nobody looks", async () => {
    expect(await show("/", { ok: true, problem: null })).not.toMatch(/Invalid|last good/);
    expect(await show("/", { ok: true, problem: null, silent: true })).toMatch(/Files not watched/);
  });
});

describe("the buttons", () => {
  const post = { method: "POST", headers: { "content-type": "application/x-www-form-urlencoded" } };

  it("do what they say and lead to where it shows", async () => {
    const { app } = createTestApp();
    const target = async (path: string) => {
      const response = await app.request(path, post);
      return [response.status, response.headers.get("location")];
    };
    expect(await target(`/jobs/${JOB.id}/cancel`)).toEqual([303, `/jobs/${JOB.id}`]);
    expect(await target(`/jobs/${JOB.id}/requeue`)).toEqual([303, `/jobs/${JOB.id}`]);
    expect(await target(`/jobs/${JOB.id}/delete`)).toEqual([303, "/jobs"]);
    const [status, location] = await target("/schedules/nightly/trigger");
    expect([status, String(location).startsWith("/jobs/019")]).toEqual([303, true]);
    expect(await target("/schedules/nowhere/trigger")).toEqual([404, null]);
  });
});

describe("the panel's sources", () => {
  it("use nothing of htmx that evaluates text", async () => {
    const folder = fileURLToPath(new URL("../../web/panel/", import.meta.url));
    for (const file of await readdir(folder)) {
      const source = await readFile(join(folder, file), "utf8");
      expect([
        file,
        /hx-on|["'{]js:|javascript:|hx-vals|dangerouslySetInnerHTML|raw\(|style=/.exec(source)?.[0] ?? null,
      ]).toEqual([file, null]);
    }
  });
});
