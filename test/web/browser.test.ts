import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createFireHistory } from "../../runtime/adapters/postgres/fire-history.ts";
import { openPanelQueries } from "../../runtime/adapters/postgres/panel-queries.ts";
import { type Database, openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { systemClock } from "../../runtime/adapters/system/clock.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import type { PanelQueries } from "../../runtime/protocol/ports/panel.ts";
import { firesBetween } from "../../runtime/time/next-fire.ts";
import { startWebServer, type WebServer } from "../../web/server.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { createTestApp, READ_KEY, testKeys } from "./fake-ports.ts";
import { buildScene, FAILED_JOB, RUNNING_JOB } from "./panel-scene.ts";

/** Pictures for people go here when it is set. */
const PICTURES = process.env.TURNO_TEST_PICTURES;

/** A change shows after a look at the database, a refresh and a paint; the machine may be busy. */
const SHOWN = { timeout: 15_000 };

let testDatabase: TestDatabase;
let database: Database;
let panel: PanelQueries & { close(): Promise<void> };
let server: WebServer;
let browser: Browser;

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  database = openDatabase({
    address: testDatabase.address,
    applicationName: "test",
    size: 2,
    statementTimeoutMs: 5_000,
    logger: silentLogger,
  });
  await buildScene(database);
  panel = openPanelQueries({ address: testDatabase.address, logger: silentLogger });
  const { app } = createTestApp({
    panel,
    history: createFireHistory(database, { ring: () => {} }),
    clock: systemClock,
    forecastFires: (spec, { after, until, limit }) => firesBetween(spec.timing, after, until, limit),
  });
  server = await startWebServer({ app, host: "127.0.0.1", port: 0, clock: systemClock });
  browser = await chromium.launch({ executablePath: findChromium(), args: ["--no-sandbox"] });
});
afterAll(async () => {
  await browser.close();
  await server.close();
  await panel.close();
  await database.close();
  await testDatabase.drop();
});

function findChromium(): string {
  const folders = ["/usr/bin", ...(process.env.PATH ?? "").split(delimiter)];
  const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
  const found = [
    process.env.CHROMIUM ?? "",
    ...folders.flatMap((folder) => names.map((name) => join(folder, name))),
  ].find((path) => path !== "" && existsSync(path));
  if (found === undefined)
    throw new Error("expected Chromium for the browser test; install it (apt-get install chromium) or set CHROMIUM");
  return found;
}

/** A page that reports every complaint of the browser, a violated CSP among them. */
async function openPage(
  path: string,
  options: { readonly width?: number; readonly height?: number; readonly scheme?: "light" | "dark" } = {},
) {
  const context = await browser.newContext({
    viewport: { width: options.width ?? 1440, height: options.height ?? 1180 },
    colorScheme: options.scheme ?? "light",
    timezoneId: "America/Sao_Paulo",
    permissions: ["clipboard-read", "clipboard-write"],
  });
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("requestfailed", (request) => {
    if (!request.url().includes("/panel/events")) complaints.push(`${request.url()}: ${request.failure()?.errorText}`);
  });
  await page.goto(new URL(path, server.url).href);
  await page.waitForSelector("html[data-live=on]", { state: "attached" });
  return { page, complaints, close: () => context.close() };
}

async function takePicture(page: Page, name: string): Promise<void> {
  if (PICTURES === undefined) return;
  await mkdir(PICTURES, { recursive: true });
  await page.evaluate(() => document.fonts.ready);
  await page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: true });
}

describe("the panel in a browser", () => {
  it("follows what happens, cell by cell, without moving the focus", async () => {
    const { page, complaints, close } = await openPage("/");
    const cell = page.locator(`#cell-${RUNNING_JOB}`);
    await expect.poll(() => cell.locator("rect").getAttribute("width"), SHOWN).toBe("62.0");
    await cell.focus();
    await database.query("update turno.jobs_live set progress = 75 where id = $1", [RUNNING_JOB]);
    await expect.poll(() => cell.locator("rect").getAttribute("width"), SHOWN).toBe("75.0");
    expect(await page.evaluate(() => document.activeElement?.id)).toBe(`cell-${RUNNING_JOB}`);
    await database.query("delete from turno.jobs_live where id = $1", [RUNNING_JOB]);
    await expect.poll(() => cell.count(), SHOWN).toBe(0);
    expect(complaints).toEqual([]);
    await close();
  });

  it("counts elapsed times on without a request", async () => {
    const { page, complaints, close } = await openPage("/workers");
    const up = page.locator("time[data-count=since]").first();
    expect(await up.textContent()).toMatch(/^3 d/);
    const seconds = () => up.evaluate((time) => Number(/^(\d+) s$/.exec(time.textContent ?? "")?.[1] ?? -1));
    await page.evaluate(() => {
      const time = document.querySelector<HTMLTimeElement>("time[data-count=since]");
      if (time !== null) time.dateTime = new Date(Date.now() - 20_500).toISOString();
    });
    await expect.poll(seconds, SHOWN).toBeGreaterThanOrEqual(20);
    const first = await seconds();
    await expect.poll(seconds, SHOWN).toBeGreaterThan(first);
    expect(complaints).toEqual([]);
    await close();
  });

  it("shows instants in the reader's zone, also after it has refreshed itself", async () => {
    const { page, close } = await openPage("/");
    const clock = page.locator(".list time[data-shape=clock]").first();
    const inZone = async () => {
      const at = (await clock.getAttribute("datetime")) ?? "";
      return new Date(Date.parse(at) - 3 * 3_600_000).toISOString().slice(11, 19);
    };
    expect(await clock.textContent()).toBe(await inZone());
    await page.evaluate(() => document.getElementById("page")?.setAttribute("data-stale", "yes"));
    await database.query("insert into turno.counter_deltas (queue, enqueued) values ('default', 1)");
    await page.waitForSelector("#page:not([data-stale])", { state: "attached" });
    expect(await clock.textContent()).toBe(await inZone());
    await close();
  });

  it("comes back after the server was away, and says so meanwhile", async () => {
    const own = await startWebServer({
      app: createTestApp({ panel, clock: systemClock }).app,
      host: "127.0.0.1",
      port: 0,
      clock: systemClock,
    });
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(`${own.url}/`);
    await page.waitForSelector("html[data-live=on]", { state: "attached" });
    await own.close();
    await page.waitForSelector("html[data-live=off]", { state: "attached" });
    expect(await page.locator(".sync .live-off").isVisible()).toBe(true);
    const again = await startWebServer({
      app: createTestApp({ panel, clock: systemClock }).app,
      host: "127.0.0.1",
      port: own.port,
      clock: systemClock,
    });
    await page.waitForSelector("html[data-live=on]", { state: "attached" });
    await context.close();
    await again.close();
  });

  it("asks for the key again when the session has ended, and leads back to the page", async () => {
    const startWithKeys = (port: number, secret: number) =>
      startWebServer({
        app: createTestApp({
          panel,
          clock: systemClock,
          keys: testKeys(),
          sessionSecret: new Uint8Array(32).fill(secret),
        }).app,
        host: "127.0.0.1",
        port,
        clock: systemClock,
      });
    const before = await startWithKeys(0, 1);
    const context = await browser.newContext();
    const page = await context.newPage();
    const login = async () => {
      await page.locator("input[name=key]").fill(READ_KEY);
      await page.keyboard.press("Enter");
      await page.waitForSelector("html[data-live=on]", { state: "attached" });
    };
    await page.goto(`${before.url}/workers`);
    expect(await page.title()).toBe("Log in · Turno");
    await takePicture(page, "login");
    await login();
    expect(new URL(page.url()).pathname).toBe("/workers");
    await before.close();
    const after = await startWithKeys(before.port, 2);
    await page.waitForURL("**/login?next=%2Fworkers");
    await login();
    expect(new URL(page.url()).pathname).toBe("/workers");
    await context.close();
    await after.close();
  });

  it("keeps the chosen theme, and copies ids by a click", async () => {
    const { page, complaints, close } = await openPage(`/jobs/${FAILED_JOB}`, { scheme: "dark" });
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    expect(await background()).toBe("rgb(17, 20, 22)");
    await page.locator("[data-theme-switch]").click();
    expect(await background()).toBe("rgb(246, 247, 247)");
    await page.reload();
    expect(await background()).toBe("rgb(246, 247, 247)");
    await page.locator(".title .copy").click();
    await expect.poll(() => page.evaluate(() => navigator.clipboard.readText()), SHOWN).toBe(FAILED_JOB);
    expect(complaints).toEqual([]);
    await close();
  });

  it("carries out what its buttons say, and asks before it deletes", async () => {
    const done: string[] = [];
    const act =
      <Kind extends string>(kind: Kind) =>
      async (id: string) => {
        done.push(`${kind} ${id}`);
        return { kind };
      };
    const jobs = { cancelJob: act("cancelled"), requeueJob: act("requeued"), deleteJob: act("deleted") };
    const app = createTestApp({ panel, clock: systemClock, jobs }).app;
    const own = await startWebServer({ app, host: "127.0.0.1", port: 0, clock: systemClock });
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(`${own.url}/jobs/${FAILED_JOB}`);
    await page.getByRole("button", { name: "Requeue" }).click();
    await expect.poll(() => done, SHOWN).toEqual([`requeued ${FAILED_JOB}`]);
    await page.waitForURL(`**/jobs/${FAILED_JOB}`);
    page.once("dialog", (dialog) => void dialog.dismiss());
    await page.getByRole("button", { name: "Delete" }).click();
    page.once("dialog", (dialog) => void dialog.accept());
    await page.getByRole("button", { name: "Delete" }).click();
    await page.waitForURL("**/jobs");
    expect(done).toEqual([`requeued ${FAILED_JOB}`, `deleted ${FAILED_JOB}`]);
    await context.close();
    await own.close();
  });

  it("filters jobs by a form that leaves empty fields out of the address", async () => {
    const { page, complaints, close } = await openPage("/jobs?state=Processing");
    await page.locator("input[name=type]").fill("report.generate");
    await page.keyboard.press("Enter");
    await page.waitForURL("**/jobs?state=Processing&type=report.generate");
    await expect.poll(() => page.locator("tbody tr").count(), SHOWN).toBe(3);
    expect(complaints).toEqual([]);
    await close();
  });

  it.each([
    ["overview", "/", {}],
    ["overview-dark", "/", { scheme: "dark" }],
    ["overview-narrow", "/", { width: 500, height: 2300 }],
    ["jobs", "/jobs", {}],
    ["job-dark", `/jobs/${FAILED_JOB}`, { scheme: "dark", height: 980 }],
    ["job-narrow", `/jobs/${FAILED_JOB}`, { width: 500 }],
    ["schedules", "/schedules", { height: 820 }],
    ["schedules-narrow", "/schedules", { width: 500 }],
    ["schedule", "/schedules/fechamento-diario", { height: 980 }],
    ["schedule-narrow", "/schedules/fechamento-diario", { width: 500 }],
    ["calendar", "/calendar", { height: 820 }],
    ["calendar-dark", "/calendar", { scheme: "dark", height: 820 }],
    ["calendar-narrow", "/calendar", { width: 500 }],
    ["queues", "/queues", { height: 620 }],
    ["workers-dark", "/workers", { scheme: "dark", height: 620 }],
  ] as const)("draws %s without a complaint and without scrolling sideways", async (name, path, options) => {
    const { page, complaints, close } = await openPage(path, options);
    await takePicture(page, name);
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth)).toBe(true);
    expect(complaints).toEqual([]);
    await close();
  });
});
