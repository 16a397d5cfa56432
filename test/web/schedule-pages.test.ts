import { describe, expect, it } from "vitest";
import type { FireRecord, ScheduleRecord } from "../../runtime/protocol/ports/fire-history.ts";
import type { PanelQueries, ScheduleView } from "../../runtime/protocol/ports/panel.ts";
import type { WebPorts } from "../../web/ports.ts";
import { createTestApp, fakePanel, JOB, NOW } from "./fake-ports.ts";

const HOUR_MS = 3_600_000;
const EVIL = `<img src=x onerror=alert(1)>"'`;

const schedule = (name: string, more: Partial<ScheduleView> = {}): ScheduleView => ({
  name,
  description: EVIL,
  jobType: EVIL,
  queue: EVIL,
  spec: {
    job: "a",
    timing: { kind: "cron", expression: "0 * * * *", others: ["30 6 * * *"], timeZone: "Europe/Berlin" },
    timeZone: "Europe/Berlin",
    payload: null,
    concurrencyPolicy: "Forbid",
    misfirePolicy: "latest",
    runOnStart: false,
    suspend: false,
  } as ScheduleView["spec"],
  timingHash: "t",
  suspended: false,
  nextFireAt: new Date(NOW.getTime() + HOUR_MS),
  lastFireAt: null,
  lastJobId: null,
  awaitsFinish: false,
  source: { revision: 1, file: EVIL, line: 1, commit: EVIL, author: EVIL },
  ...more,
});

/** Every hour after the instant. */
const hourly: WebPorts["forecastFires"] = (_, { after, until, limit }) => {
  const fires: Date[] = [];
  for (let at = after.getTime() + HOUR_MS; at <= until.getTime() && fires.length < limit; at += HOUR_MS) {
    fires.push(new Date(at));
  }
  return fires;
};

const fire = (hoursAgo: number, more: Partial<FireRecord>): FireRecord => ({
  at: new Date(NOW.getTime() - hoursAgo * HOUR_MS),
  outcome: "fired",
  jobId: null,
  state: null,
  lateByMs: 0,
  blockedBy: null,
  decidedAt: NOW,
  olderSkips: 0,
  ...more,
});

const RECORDS = [
  fire(1, { jobId: JOB.id, state: "Succeeded", lateByMs: 61_000 }),
  fire(2, { outcome: "overlapped", blockedBy: JOB.id }),
  fire(3, { outcome: "superseded", olderSkips: 1200 }),
  fire(4, { outcome: "missed" }),
  fire(5, { outcome: "calendar" }),
  fire(6, { outcome: "backfill", jobId: JOB.id, state: "Failed" }),
];

function app(more: { record?: ScheduleRecord | null; schedules?: readonly ScheduleView[] } = {}) {
  const record = more.record === undefined ? { now: NOW, schedule: schedule("nightly"), declaredAt: NOW } : more.record;
  const panel: PanelQueries = {
    ...fakePanel,
    listSchedules: async () => ({ now: NOW, items: more.schedules ?? [schedule("a"), schedule("b")], next: null }),
  };
  const history = { loadSchedule: async () => record, listRecords: async () => RECORDS };
  return createTestApp({ panel, history, forecastFires: hourly }).app;
}

async function read(path: string, from = app()): Promise<{ status: number; body: string; text: string }> {
  const response = await from.request(path, { headers: { accept: "text/html" } });
  const body = await response.text();
  const text = body
    .replaceAll(/<title>[^<]*<\/title>/g, "")
    .replaceAll(/<[^>]+>/g, " ")
    .replaceAll(/\s+/g, " ");
  return { status: response.status, body, text };
}

describe("the page of a schedule", () => {
  it("shows what became of each instant, with the reason of every skip and the job behind it", async () => {
    const { text, body } = await read("/schedules/nightly");
    expect(text).toContain("succeeded , 1 m 1 s late".replace(" ,", ","));
    expect(text).toContain("skipped, another run of it was in its way the job in its way");
    expect(text).toContain("missed, a newer one ran in its place and 1,200 instants before it, skipped together");
    expect(text).toContain("missed: nobody led when it was due");
    expect(text).toContain("left out by a calendar");
    expect(text).toContain("backfilled, failed");
    expect(body).toContain(`href="/jobs/${JOB.id}"`);
  });

  it("shows the coming fires in the schedule's zone, and how it is declared", async () => {
    const { text } = await read("/schedules/nightly");
    expect(text).toContain("Thu 2026-10-01 21:20 in 1 h");
    expect(text).toContain("0 * * * *, 30 6 * * *");
    expect(text).toMatch(/Overlap Forbid Missed latest/);
  });

  it("says why there is none, and answers 404 where there is no schedule", async () => {
    const suspended = {
      now: NOW,
      schedule: schedule("nightly", { suspended: true, nextFireAt: null }),
      declaredAt: null,
    };
    expect((await read("/schedules/nightly", app({ record: suspended }))).text).toContain("It is suspended");
    const pause = { by: "maria", reason: "<b>audit</b>", pausedAt: NOW.toISOString(), until: null };
    const paused = { now: NOW, schedule: schedule("nightly", { suspended: true, pause }), declaredAt: null };
    const shown = (await read("/schedules/nightly", app({ record: paused }))).text;
    expect(shown).toMatch(/Paused By maria Why .*audit.* Since .* Until it is resumed Resume/);
    const listed = await read("/schedules", app({ schedules: [schedule("a"), paused.schedule] }));
    expect(listed.text).toContain("1 paused");
    expect(listed.text).not.toContain("1 suspended");
    expect(listed.text).toMatch(/paused by maria/);
    const never = { now: NOW, schedule: schedule("nightly", { nextFireAt: null }), declaredAt: null };
    expect((await read("/schedules/nightly", app({ record: never }))).text).toContain("It never fires");
    expect((await read("/schedules/nightly", app({ record: null }))).status).toBe(404);
    expect((await read("/schedules/NOT_A_NAME")).status).toBe(404);
  });
});

describe("the calendar", () => {
  it("draws every day and hour of the coming two weeks, with its number in words", async () => {
    const { body, text } = await read("/calendar");
    expect(text).toContain("fires of 2 schedules in 15 days");
    expect(body).toContain("<title>2026-10-02 00:00: 2 fires</title>");
    expect(body).toContain("<title>2026-10-01 00:00: 0 fires</title>");
    expect(body.match(/<rect class="heat-5"/g)?.length).toBeGreaterThan(300);
    expect(text).toContain("at most 2 a minute, Thu 2026-10-01 21:20");
  });

  it("names the schedules that fire at one instant", async () => {
    const { text, body } = await read("/calendar");
    expect(text).toMatch(/Thu 2026-10-01 21:20 a , b 2 schedules/);
    expect(body).toContain('href="/schedules/a"');
  });

  it("reads on the clocks of another zone, and refuses what is none", async () => {
    const { text } = await read("/calendar?tz=America/Sao_Paulo");
    expect(text).toContain("on the clocks of America/Sao_Paulo");
    expect(text).toContain("Thu 2026-10-01 16:20");
    expect((await read("/calendar?tz=Berlin")).status).toBe(400);
  });

  it("says what to do where there is nothing, and what is not counted", async () => {
    expect((await read("/calendar", app({ schedules: [] }))).text).toContain("Nothing fires in these days");
    const busy: WebPorts["forecastFires"] = (_, { after, limit }) =>
      Array.from({ length: limit }, (_, index) => new Date(after.getTime() + (index + 1) * 1_000));
    const panel = {
      ...fakePanel,
      listSchedules: async () => ({ now: NOW, items: [schedule("a")], next: null }),
    };
    const clock = { monotonicMs: () => 0, sleep: async () => {} };
    const { app: from } = createTestApp({ panel, forecastFires: busy, clock });
    expect((await read("/calendar", from)).text).toContain("Left out, since they fire all the time: a");
  });
});

it("shows text from files as text, without inline style or script", async () => {
  for (const path of ["/schedules/nightly", "/calendar"]) {
    const { body } = await read(path);
    expect(body).not.toContain("<img src=x");
    expect(body.replaceAll(/"[^"]*"/g, '""')).not.toMatch(/<[^>]+ (style|on[a-z]+)=/);
  }
});

describe("the API of a schedule", () => {
  const get = async (path: string, from = app()) => {
    const response = await from.request(path);
    return { status: response.status, body: await response.json() };
  };

  it("gives one schedule as the list does, with when it was declared and the time", async () => {
    const { body } = await get("/api/recurring-jobs/nightly");
    expect(body).toMatchObject({ name: "nightly", job: EVIL, timeZone: "Europe/Berlin" });
    expect(body).toMatchObject({ declaredAt: NOW.toISOString(), now: NOW.toISOString() });
    expect(body).not.toHaveProperty("timingHash");
    expect((await get("/api/recurring-jobs/nightly", app({ record: null }))).body).toMatchObject({
      code: "TURNO_SCHEDULE_NOT_FOUND",
    });
  });

  it("gives what became of its instants, page by page", async () => {
    const asked: unknown[] = [];
    const history = {
      loadSchedule: async () => null,
      listRecords: async (request: { readonly limit: number }) => {
        asked.push(request);
        return RECORDS.slice(0, request.limit);
      },
    };
    const { app: from } = createTestApp({ history });
    const path = "/api/recurring-jobs/nightly/fires";
    const first = await get(`${path}?from=2026-09-01T00:00:00Z&limit=2`, from);
    expect(first.body.items).toMatchObject([{ outcome: "fired" }, { outcome: "overlapped", blockedBy: JOB.id }]);
    await get(`${path}?cursor=${first.body.nextCursor}`, from);
    expect(asked).toMatchObject([
      { schedule: "nightly", from: new Date("2026-09-01T00:00:00Z"), limit: 2 },
      { to: new Date(NOW.getTime() - 2 * HOUR_MS - 1), limit: 50 },
    ]);
    expect((await get(path, from)).body.nextCursor).toBeNull();
    expect((await get(`${path}?from=noon`, from)).status).toBe(400);
    expect((await get(`${path}?cursor=x`, from)).status).toBe(400);
  });
});
