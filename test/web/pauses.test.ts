import { describe, expect, it } from "vitest";
import type { QueueView } from "../../runtime/protocol/ports/panel.ts";
import type { PauseOutcome, PauseRequest, ResumeOutcome } from "../../runtime/protocol/ports/pauses.ts";
import { createTestApp, fakePanel, NOW, OPERATE_KEY, READ_KEY, testKeys } from "./fake-ports.ts";

function open(outcomes: { readonly pause?: PauseOutcome; readonly resume?: ResumeOutcome } = {}, withKeys = false) {
  const asked: PauseRequest[] = [];
  const pauses = {
    pause: async (request: PauseRequest): Promise<PauseOutcome> => {
      asked.push(request);
      const { by, reason, until } = request;
      return outcomes.pause ?? { kind: "paused", pause: { by, reason, until, pausedAt: NOW } };
    },
    resume: async (): Promise<ResumeOutcome> => outcomes.resume ?? { kind: "resumed", nextFireAt: NOW },
  };
  const { app } = createTestApp({ pauses, ...(withKeys ? { keys: testKeys() } : {}) });
  const post = (path: string, body?: unknown, headers: Record<string, string> = {}) =>
    app.request(path, {
      method: "POST",
      headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  return { post, asked };
}

describe("pausing over the API", () => {
  it("keeps who, why and until when", async () => {
    const { post, asked } = open();
    const body = { by: "maria", reason: "audit", until: "2026-12-24T18:00:00-03:00" };
    const response = await post("/api/recurring-jobs/nightly/disable", body);
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ by: "maria", reason: "audit", until: "2026-12-24T21:00:00.000Z" });
    await post("/api/queues/default/disable");
    expect(asked).toMatchObject([
      { kind: "Schedule", name: "nightly", by: "maria" },
      { kind: "Queue", name: "default", by: "somebody at this machine", reason: null, until: null },
    ]);
  });

  it("puts down a key's own name, whatever the body says, and asks for the scope operate", async () => {
    const { post, asked } = open({}, true);
    const path = "/api/recurring-jobs/nightly/disable";
    expect((await post(path, { by: "somebody else" }, { "x-turno-key": OPERATE_KEY })).status).toBe(200);
    expect(asked[0]?.by).not.toBe("somebody else");
    expect((await post(path, {}, { "x-turno-key": READ_KEY })).status).toBe(403);
  });

  it.each([
    [{ until: "tomorrow" }, "/until"],
    [{ reason: "" }, "/reason"],
    [{ reason: "x".repeat(501) }, "/reason"],
    [{ by: 7 }, "/by"],
    [{ untill: "2026-12-24T18:00:00Z" }, "/untill"],
    [[], ""],
  ])("refuses %j with the member named", async (body, pointer) => {
    const { post, asked } = open();
    const response = await post("/api/recurring-jobs/nightly/disable", body);
    expect(response.status).toBe(422);
    expect(((await response.json()) as { errors: { pointer: string }[] }).errors[0]?.pointer).toBe(pointer);
    expect(asked).toEqual([]);
  });

  it.each([
    [{ pause: { kind: "not-found" } } as const, "disable", 404, "TURNO_SCHEDULE_NOT_FOUND"],
    [{ pause: { kind: "over" } } as const, "disable", 422, "TURNO_API_REQUEST"],
    [{ resume: { kind: "not-found" } } as const, "enable", 404, "TURNO_SCHEDULE_NOT_FOUND"],
    [{ resume: { kind: "not-paused" } } as const, "enable", 409, "TURNO_PAUSE_STATE"],
    [{ resume: { kind: "suspended-in-files" } } as const, "enable", 409, "TURNO_PAUSE_STATE"],
  ])("answers %j of %s with %i", async (outcomes, action, status, code) => {
    const response = await open(outcomes).post(`/api/recurring-jobs/nightly/${action}`);
    expect(response.status).toBe(status);
    expect(await response.json()).toMatchObject({ code });
  });

  it("resumes with the next fire", async () => {
    const response = await open().post("/api/recurring-jobs/nightly/enable");
    expect(await response.json()).toEqual({ nextFireAt: NOW.toISOString() });
    expect((await open().post("/api/recurring-jobs/Not%20A%20Name/enable")).status).toBe(404);
  });
});

describe("pausing in the panel", () => {
  it("keeps the reason and the end, by the key's name, and shows the schedule again", async () => {
    const { app, asked } = openPanel();
    const form = "reason=stock+taking&until=2026-12-24T18%3A00%3A00Z";
    const response = await app.request("/schedules/nightly/pause", { method: "POST", ...formOf(form) });
    expect([response.status, response.headers.get("location")]).toEqual([303, "/schedules/nightly"]);
    expect(asked).toMatchObject([
      { kind: "Schedule", name: "nightly", reason: "stock taking", until: new Date("2026-12-24T18:00:00Z") },
    ]);
    const resumed = await app.request("/schedules/nightly/resume", { method: "POST", ...formOf("") });
    expect([resumed.status, resumed.headers.get("location")]).toEqual([303, "/schedules/nightly"]);
  });

  it("is refused without a reason, with an end that is no instant, and for a page of another site", async () => {
    const { app, asked } = openPanel();
    for (const form of ["", "reason=+", "reason=why&until=tomorrow"]) {
      expect((await app.request("/schedules/nightly/pause", { method: "POST", ...formOf(form) })).status).toBe(422);
    }
    const foreign = formOf("reason=why", { origin: "https://evil.example" });
    expect((await app.request("/schedules/nightly/pause", { method: "POST", ...foreign })).status).toBe(403);
    expect(asked).toEqual([]);
  });
});

describe("a queue's pause in the panel", () => {
  const HTML = { headers: { accept: "text/html" } };
  const queue = {
    name: "reports",
    concurrency: null,
    suspended: false,
    scheduled: 0,
    queued: 0,
    running: 0,
    slots: 1,
    lastDay: { executions: 0, failures: 0, meanMs: null },
    source: null,
  };
  const pause = { by: "maria", reason: "stock taking", pausedAt: NOW.toISOString(), until: null };
  const page = async (changes: Partial<QueueView>, query = "") => {
    const panel = { ...fakePanel, listQueues: async () => ({ now: NOW, items: [{ ...queue, ...changes }] }) };
    const { app } = createTestApp({ panel });
    return (await app.request(`/queues${query}`, HTML)).text();
  };

  it("is laid and taken away with its buttons, which show the queues again", async () => {
    const { app, asked } = openPanel();
    const paused = await app.request("/queues/reports/pause", { method: "POST", ...formOf("reason=stock+taking") });
    expect([paused.status, paused.headers.get("location")]).toEqual([303, "/queues"]);
    expect(asked).toMatchObject([{ kind: "Queue", name: "reports", reason: "stock taking", until: null }]);
    const resumed = await app.request("/queues/reports/resume", { method: "POST", ...formOf("") });
    expect([resumed.status, resumed.headers.get("location")]).toEqual([303, "/queues"]);
  });

  it("shows who paused it and why, and the button that resumes it", async () => {
    const text = await page({ suspended: true, pause });
    expect(text).toContain("by maria: stock taking");
    expect(text).toContain('action="/queues/reports/resume"');
    expect(text).not.toContain('action="/queues/reports/pause"');
  });

  it("has its form at an address that keeps it open, and no button where the file suspends the queue", async () => {
    expect(await page({})).toContain('href="/queues?pause=reports"');
    expect(await page({}, "?pause=reports")).toContain('action="/queues/reports/pause"');
    expect(await page({}, "?pause=other")).not.toContain("<form");
    const suspended = await page({ suspended: true }, "?pause=reports");
    expect(suspended).toContain("suspended");
    expect(suspended).not.toMatch(/<form|href="[^"]*pause=reports/);
  });
});

function openPanel() {
  const asked: PauseRequest[] = [];
  const { app } = createTestApp({
    pauses: {
      async pause(request) {
        asked.push(request);
        const { by, reason, until } = request;
        return { kind: "paused", pause: { by, reason, until, pausedAt: NOW } };
      },
      resume: async () => ({ kind: "resumed", nextFireAt: NOW }),
    },
  });
  return { app, asked };
}

function formOf(body: string, headers: Record<string, string> = {}) {
  return { body, headers: { "content-type": "application/x-www-form-urlencoded", ...headers } };
}
