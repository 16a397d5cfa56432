import { describe, expect, it } from "vitest";
import { TurnoError } from "../../runtime/core/errors.ts";
import { parseApiKeys, SESSION_MS } from "../../web/auth.ts";
import { checkListenAddress } from "../../web/security.ts";
import { createTestApp, fakePanel, JOB, OPERATE_KEY, READ_KEY, testKeys } from "./fake-ports.ts";

const FORM = { "content-type": "application/x-www-form-urlencoded" };

describe("every response", () => {
  it.each([
    ["/", 200],
    ["/jobs", 200],
    [`/jobs/${JOB.id}`, 200],
    ["/api/stats", 200],
    ["/api/nothing", 404],
    ["/nothing", 404],
    ["/api/jobs?limit=0", 400],
    ["/health/live", 200],
    ["/assets/panel.css", 200],
    ["/assets/htmx.js", 200],
  ])("of %s (%i) carries the security headers", async (path, status) => {
    const { app } = createTestApp();
    const response = await app.request(path);
    expect(response.status).toBe(status);
    const policy = response.headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'self'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|data:|\*/);
    expect(response.headers.get("x-frame-options")).toBe("DENY");
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    expect(response.headers.get("referrer-policy")).toBe("same-origin");
  });

  it("is kept by browsers only when it is a static file", async () => {
    const { app } = createTestApp();
    expect((await app.request("/")).headers.get("cache-control")).toBe("no-store");
    expect((await app.request("/api/stats")).headers.get("cache-control")).toBe("no-store");
    const page = await (await app.request("/")).text();
    const address = /href="(\/assets\/panel\.css\?v=[0-9a-f]+)"/.exec(page)?.[1] ?? "";
    const file = await app.request(address);
    expect(file.headers.get("cache-control")).toContain("immutable");
    const again = await app.request(address, { headers: { "if-none-match": file.headers.get("etag") ?? "" } });
    expect(again.status).toBe(304);
  });
});

describe("without keys", () => {
  it("answers only to loopback names", async () => {
    const { app } = createTestApp();
    const as = (host: string) => app.request("/api/stats", { headers: { host } });
    for (const host of ["localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:8080", "turno.localhost:80"]) {
      expect((await as(host)).status).toBe(200);
    }
    for (const host of [
      "evil.example",
      "evil.example:8080",
      "127.0.0.1.evil.example",
      "localhost.evil.example",
      "0.0.0.0",
      "",
    ]) {
      expect((await as(host)).status).toBe(421);
    }
  });

  it("refuses to listen where others reach it", () => {
    for (const host of ["0.0.0.0", "::", "192.0.2.7", "turno.example"]) {
      expect(() => checkListenAddress({ host, keys: null })).toThrow(TurnoError);
      expect(() => checkListenAddress({ host, keys: testKeys() })).not.toThrow();
    }
    for (const host of ["127.0.0.1", "localhost", "::1"]) checkListenAddress({ host, keys: null });
  });
});

describe("writes from another site's page", () => {
  const trigger = (headers: Record<string, string>, allowedOrigins: readonly string[] = []) => {
    const { app } = createTestApp({ settings: { version: "0.1.0", allowedOrigins } });
    return app.request(`/api/jobs/${JOB.id}/cancel`, {
      method: "POST",
      headers: { host: "localhost:8080", ...headers },
    });
  };

  it("are refused by where they come from", async () => {
    expect((await trigger({ origin: "https://evil.example" })).status).toBe(403);
    expect((await trigger({ origin: "null" })).status).toBe(403);
    expect((await trigger({ origin: "http://localhost:9999" })).status).toBe(403);
    expect((await trigger({ "sec-fetch-site": "cross-site" })).status).toBe(403);
    expect((await trigger({ "sec-fetch-site": "same-site" })).status).toBe(403);
  });

  it("pass from the panel itself, from programs, and from origins that are allowed", async () => {
    expect((await trigger({ origin: "http://localhost:8080", "sec-fetch-site": "same-origin" })).status).toBe(200);
    expect((await trigger({ origin: "http://localhost:8080" })).status).toBe(200);
    expect((await trigger({ origin: "null", "sec-fetch-site": "same-origin" })).status).toBe(200);
    expect((await trigger({})).status).toBe(200);
    const allowed = await trigger({ origin: "https://ops.example", "sec-fetch-site": "cross-site" }, [
      "https://ops.example",
    ]);
    expect(allowed.status).toBe(200);
    expect(allowed.headers.get("access-control-allow-origin")).toBe("https://ops.example");
    expect((await trigger({ origin: "https://evil.example" }, ["https://ops.example"])).status).toBe(403);
  });

  it("are refused on the panel's buttons, whatever the list of origins", async () => {
    const { app } = createTestApp({ settings: { version: "0.1.0", allowedOrigins: ["https://ops.example"] } });
    for (const path of [
      `/jobs/${JOB.id}/cancel`,
      `/jobs/${JOB.id}/requeue`,
      `/jobs/${JOB.id}/delete`,
      "/schedules/nightly/trigger",
    ]) {
      const response = await app.request(path, { method: "POST", headers: { ...FORM, origin: "https://ops.example" } });
      expect(response.status).toBe(403);
    }
  });
});

describe("keys", () => {
  it("are parsed strictly and never shown", () => {
    const hash = "a".repeat(64);
    expect(parseApiKeys(null)).toBeNull();
    expect(parseApiKeys(" ")).toBeNull();
    for (const text of [
      "secret",
      `a:root:${hash}`,
      "a:read:secret",
      `a:read:${hash}:x`,
      `a:read:${hash},a:admin:${"b".repeat(64)}`,
      `a:read:${hash},b:admin:${hash}`,
      `:read:${hash}`,
    ]) {
      const message = (() => {
        try {
          parseApiKeys(text);
          return "accepted";
        } catch (error) {
          return error instanceof TurnoError ? error.message : "another error";
        }
      })();
      expect(message).toMatch(/^(API key \d|expected every API key)/);
      expect(message).not.toContain("secret");
    }
  });

  it("keep where the database lies from those who show none", async () => {
    const health = async () => ({
      database: { status: "down", detail: "connect ECONNREFUSED 10.1.2.3:5432" } as const,
    });
    const check = async (keys: ReturnType<typeof testKeys> | null) =>
      (await createTestApp({ keys, health }).app.request("/health/ready")).json();
    expect(await check(testKeys())).toEqual({
      status: "unavailable",
      checks: { database: { status: "down", detail: null } },
    });
    // Without keys only this machine can ask.
    expect(JSON.stringify(await check(null))).toContain("10.1.2.3");
  });

  it("are asked for by every route but the public ones", async () => {
    const { app } = createTestApp({ keys: testKeys() });
    for (const path of ["/api/info", "/health/live", "/health/ready", "/assets/panel.css", "/login"]) {
      expect((await app.request(path)).status).toBe(200);
    }
    for (const path of ["/api/jobs", "/api/stats", "/api/events", "/api/nothing"]) {
      const response = await app.request(path);
      expect(response.status).toBe(401);
      expect(response.headers.get("www-authenticate")).toContain("Bearer");
      expect(response.headers.get("content-type")).toBe("application/problem+json");
    }
    for (const path of ["/", "/jobs", `/jobs/${JOB.id}`, "/schedules", "/queues", "/workers", "/panel/events"]) {
      const response = await app.request(path);
      expect(response.status).toBe(303);
      expect(response.headers.get("location")).toMatch(/^\/login/);
    }
  });

  it("open the API by either header, within their scope", async () => {
    const { app } = createTestApp({ keys: testKeys() });
    const ask = (headers: Record<string, string>, method = "GET", path = "/api/stats") =>
      app.request(path, { method, headers });
    expect((await ask({ "x-turno-key": READ_KEY })).status).toBe(200);
    expect((await ask({ authorization: `Bearer ${READ_KEY}` })).status).toBe(200);
    expect((await ask({ "x-turno-key": "wrong" })).status).toBe(401);
    expect((await ask({ "x-turno-key": "" })).status).toBe(401);
    const cancel = `/api/jobs/${JOB.id}/cancel`;
    expect((await ask({ "x-turno-key": READ_KEY }, "POST", cancel)).status).toBe(403);
    expect((await ask({ "x-turno-key": OPERATE_KEY }, "POST", cancel)).status).toBe(200);
  });

  it("answer to any host name", async () => {
    const { app } = createTestApp({ keys: testKeys() });
    const headers = { host: "turno.example", "x-turno-key": READ_KEY };
    expect((await app.request("/api/stats", { headers })).status).toBe(200);
  });
});

describe("the panel with keys", () => {
  const login = (app: ReturnType<typeof createTestApp>["app"], key: string, next = "/jobs") =>
    app.request("/login", { method: "POST", headers: FORM, body: new URLSearchParams({ key, next }).toString() });
  const cookieOf = (response: Response) => (response.headers.get("set-cookie") ?? "").split(";")[0] ?? "";

  it("opens with a session that scripts and other sites do not get", async () => {
    const { app } = createTestApp({ keys: testKeys() });
    const response = await login(app, READ_KEY);
    expect([response.status, response.headers.get("location")]).toEqual([303, "/jobs"]);
    expect(response.headers.get("set-cookie")).toMatch(/HttpOnly; SameSite=Strict/);
    expect(response.headers.get("set-cookie")).not.toContain(READ_KEY);
    expect((await app.request("/jobs", { headers: { cookie: cookieOf(response) } })).status).toBe(200);
    expect((await app.request("/api/jobs", { headers: { cookie: cookieOf(response) } })).status).toBe(401);
  });

  it("stays closed for a wrong key, a forged session and one that has ended", async () => {
    let nowMs = 0;
    const clock = { monotonicMs: () => nowMs, sleep: () => new Promise<void>(() => undefined) };
    const { app } = createTestApp({ keys: testKeys(), clock });
    expect((await login(app, "wrong")).status).toBe(401);
    const cookie = cookieOf(await login(app, READ_KEY));
    const visit = (value: string) => app.request("/jobs", { headers: { cookie: value } });
    expect((await visit(cookie)).status).toBe(200);
    for (const forged of [
      cookie.replace("viewer", "robot"),
      `${cookie}x`,
      cookie.slice(0, -2),
      "turno_session=viewer~9e9~x",
    ]) {
      expect((await visit(forged)).status).toBe(303);
    }
    nowMs = SESSION_MS + 1;
    expect((await visit(cookie)).status).toBe(303);
    const refresh = await app.request("/jobs", { headers: { cookie, "hx-request": "true" } });
    expect([refresh.status, refresh.headers.get("hx-redirect")]).toEqual([401, "/login"]);
  });

  it("leads after the login only to itself", async () => {
    const { app } = createTestApp({ keys: testKeys() });
    for (const next of ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "jobs"]) {
      expect((await login(app, READ_KEY, next)).headers.get("location")).toBe("/");
    }
  });

  it("has buttons only for those who may press them", async () => {
    const { app } = createTestApp({ keys: testKeys(), panel: fakePanel });
    const viewer = cookieOf(await login(app, READ_KEY));
    const robot = cookieOf(await login(app, OPERATE_KEY));
    const page = (cookie: string) => app.request(`/jobs/${JOB.id}`, { headers: { cookie } });
    expect(await (await page(viewer)).text()).not.toContain("Requeue");
    expect(await (await page(robot)).text()).toContain("Requeue");
    const requeue = (cookie: string) =>
      app.request(`/jobs/${JOB.id}/requeue`, { method: "POST", headers: { ...FORM, cookie } });
    expect((await requeue(viewer)).status).toBe(403);
    const done = await requeue(robot);
    expect([done.status, done.headers.get("location")]).toEqual([303, `/jobs/${JOB.id}`]);
  });
});
