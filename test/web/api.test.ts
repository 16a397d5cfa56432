import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { JobId } from "../../runtime/core/ids.ts";
import { RejectedError } from "../../runtime/protocol/ports/errors.ts";
import type { CreatedJob } from "../../runtime/protocol/ports/jobs.ts";
import { parseApiKeys } from "../../web/auth.ts";
import { createTestApp, fakePanel, JOB, NOW } from "./fake-ports.ts";
import { testId } from "./seed.ts";

const json = (body: unknown, headers: Record<string, string> = {}) => ({
  method: "POST",
  headers: { "content-type": "application/json", ...headers },
  body: typeof body === "string" ? body : JSON.stringify(body),
});

async function problemOf(response: Response) {
  expect(response.headers.get("content-type")).toBe("application/problem+json");
  const body = (await response.json()) as {
    status: number;
    title: string;
    detail: string;
    code: string;
    errors?: { pointer: string; detail: string }[];
  };
  expect(body.status).toBe(response.status);
  return body;
}

describe("creating jobs", () => {
  it("answers 201 with the job and where it is", async () => {
    const { app, inserted } = createTestApp();
    const response = await app.request(
      "/api/jobs",
      json({ type: "file.process", payload: { lote: 7 }, queue: "reports", priority: 5, delay: "10m", timeout: "20m" }),
    );
    expect(response.status).toBe(201);
    expect(response.headers.get("location")).toBe(`/api/jobs/${testId(0x100)}`);
    expect(await response.json()).toEqual({
      type: "file.process",
      id: testId(0x100),
      state: "Enqueued",
      queue: "reports",
    });
    expect(inserted).toMatchObject([
      {
        type: "file.process",
        payload: { lote: 7 },
        queue: "reports",
        priority: 5,
        due: { afterMs: 600_000 },
        timeoutMs: 1_200_000,
      },
    ]);
  });

  it("takes an instant with its offset, and no other spelling of a time", async () => {
    const { app, inserted } = createTestApp();
    const at = (runAt: string) => app.request("/api/jobs", json({ type: "file.process", runAt }));
    expect((await at("2026-10-01T18:20:00-03:00")).status).toBe(201);
    expect(inserted[0]?.due).toEqual({ at: new Date("2026-10-01T21:20:00Z") });
    for (const runAt of ["2026-10-01T18:20:00", "2026-02-30T00:00:00Z", "tomorrow", "2026-10-01"]) {
      expect((await problemOf(await at(runAt))).errors?.[0]?.pointer).toBe("/runAt");
    }
  });

  it("names every member that is wrong, and creates nothing", async () => {
    const { app, inserted } = createTestApp();
    const response = await app.request(
      "/api/jobs",
      json({ type: 7, maxAttemps: 3, delay: "soon", runAt: "2026-10-01T18:20:00Z", priority: "high" }),
    );
    expect(response.status).toBe(422);
    const { errors } = await problemOf(response);
    expect(errors?.map((error) => error.pointer).sort()).toEqual(["/delay", "/maxAttemps", "/priority", "/type"]);
    expect(inserted).toEqual([]);
  });

  it("refuses a type that is not declared", async () => {
    const { app } = createTestApp();
    const problem = await problemOf(await app.request("/api/jobs", json({ type: "no.such" })));
    expect(problem).toMatchObject({ status: 422, code: "TURNO_JOB_UNKNOWN_TYPE", errors: [{ pointer: "/type" }] });
  });

  it("points into a payload that does not fit its schema", async () => {
    const { app } = createTestApp();
    const problem = await problemOf(
      await app.request("/api/jobs", json({ type: "file.process", payload: { lote: 0 } })),
    );
    expect(problem).toMatchObject({ status: 422, code: "TURNO_JOB_PAYLOAD", errors: [{ pointer: "/payload/lote" }] });
  });

  it("refuses what the database cannot store, and keeps what only looks like it", async () => {
    const { app, inserted } = createTestApp();
    const refused = {
      '{"a":"x\\u0000y"}': "/payload/a",
      '{"a":"\\ud83d"}': "/payload/a",
      '{"a":"\\ude00"}': "/payload/a",
      '{"\\u0000k":1}': "/payload/\ufffdk",
      '{"a":[1,9007199254740993]}': "/payload/a/1",
      '{"n":1970670598291982291}': "/payload/n",
      [`{"n":1${"0".repeat(10_000)}}`]: "/payload/n",
    };
    for (const [payload, pointer] of Object.entries(refused)) {
      const response = await app.request("/api/jobs", json(`{"type":"file.process","payload":${payload}}`));
      expect(response.status).toBe(422);
      expect((await problemOf(response)).errors?.[0]?.pointer).toBe(pointer);
    }
    expect(inserted).toEqual([]);
    for (const payload of ['{"a":"\\ud83d\\ude00"}', '{"a":"\\\\u0000"}', '{"n":9007199254740991,"f":0.1}']) {
      const response = await app.request("/api/jobs", json(`{"type":"file.process","payload":${payload}}`));
      expect(response.status).toBe(201);
      expect(inserted.at(-1)?.payload).toEqual(JSON.parse(payload));
    }
  });

  it("counts the last of duplicate members, so that what was checked is what is stored", async () => {
    const { app, inserted } = createTestApp();
    await app.request("/api/jobs", json('{"type":"file.process","payload":{"lote":0,"lote":2}}'));
    expect(inserted[0]?.payload).toEqual({ lote: 2 });
  });

  it("limits the size and the depth of a payload", async () => {
    const { app } = createTestApp();
    const large = await app.request("/api/jobs", json({ type: "file.process", payload: { a: "x".repeat(262_144) } }));
    expect((await problemOf(large)).errors?.[0]).toMatchObject({ pointer: "/payload" });
    const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
    const response = await app.request("/api/jobs", json(`{"type":"file.process","payload":{"a":${deep}}}`));
    expect(response.status).toBe(422);
    await problemOf(response);
  });

  it("takes a concurrency key, and refuses what is none", async () => {
    const { app, inserted } = createTestApp();
    const post = (concurrencyKey: unknown) => app.request("/api/jobs", json({ type: "file.process", concurrencyKey }));
    expect((await post("customer-7")).status).toBe(201);
    expect(inserted[0]?.concurrencyKey).toBe("customer-7");
    for (const key of ["", "x".repeat(401), 7, "a\u0000"]) {
      expect((await problemOf(await post(key))).errors?.[0]?.pointer).toBe("/concurrencyKey");
    }
    expect(inserted).toHaveLength(1);
  });

  it("answers a duplicate of a unique job with the job that is there, and 200", async () => {
    const there = { id: testId(5) as JobId, state: "Processing", queue: "default", duplicate: true } as const;
    const fresh = { id: testId(6) as JobId, state: "Enqueued", queue: "default" } as const;
    let jobs: readonly CreatedJob[] = [there];
    const submit = async () => ({ kind: "created", replayed: false, jobs }) as const;
    const { app } = createTestApp({ intake: { submit } });
    const response = await app.request("/api/jobs", json({ type: "file.process" }));
    expect(response.status).toBe(200);
    expect(response.headers.get("location")).toBe(`/api/jobs/${testId(5)}`);
    expect(await response.json()).toEqual({ type: "file.process", ...there });
    const batch = () => app.request("/api/jobs/batch", json({ jobs: jobs.map(() => ({ type: "file.process" })) }));
    expect((await batch()).status).toBe(200);
    jobs = [there, fresh];
    expect((await batch()).status).toBe(201);
  });
});

describe("an Idempotency-Key", () => {
  const post = (app: ReturnType<typeof createTestApp>["app"], key: string, body: unknown, headers = {}) =>
    app.request("/api/jobs", json(body, { "idempotency-key": key, ...headers }));

  it("gives the same request its first answer", async () => {
    const { app, inserted } = createTestApp();
    const first = await post(app, "k", { type: "file.process", payload: { lote: 7, a: 1 }, delay: "10m" });
    expect([first.status, first.headers.get("idempotent-replay")]).toEqual([201, null]);
    const again = await post(app, "k", { delay: "600s", payload: { a: 1, lote: 7 }, type: "file.process" });
    expect([again.status, again.headers.get("idempotent-replay")]).toEqual([201, "true"]);
    expect(again.headers.get("location")).toBe(first.headers.get("location"));
    expect(await again.json()).toEqual(await first.json());
    expect(inserted).toHaveLength(1);
  });

  it("is refused with another request, or while the first is not over", async () => {
    const { app, inserted } = createTestApp();
    await post(app, "k", { type: "file.process", payload: { lote: 7 } });
    const other = await post(app, "k", { type: "file.process", payload: { lote: 8 } });
    expect(await problemOf(other)).toMatchObject({ status: 422, code: "TURNO_API_KEY_REUSED" });
    expect(inserted).toHaveLength(1);
    const waiting = createTestApp({ intake: { submit: async () => ({ kind: "conflict", reason: "in-progress" }) } });
    const parallel = await post(waiting.app, "k", { type: "file.process" });
    expect(await problemOf(parallel)).toMatchObject({ status: 409, code: "TURNO_API_IN_PROGRESS" });
    expect(parallel.headers.get("retry-after")).toBe("1");
  });

  it("holds for a whole batch", async () => {
    const { app, inserted } = createTestApp();
    const body = { jobs: [{ type: "file.process", payload: { lote: 1 } }, { type: "file.process" }] };
    const batch = () => app.request("/api/jobs/batch", json(body, { "idempotency-key": "b" }));
    const first = await batch();
    const again = await batch();
    expect(again.headers.get("idempotent-replay")).toBe("true");
    expect(await again.json()).toEqual(await first.json());
    expect(inserted).toHaveLength(2);
  });

  it("belongs to the client that sent it", async () => {
    const hash = (key: string) => createHash("sha256").update(key).digest("hex");
    const keys = parseApiKeys(`one:operate:${hash("k1")},two:operate:${hash("k2")}`);
    const { app, inserted } = createTestApp({ keys });
    for (const key of ["k1", "k2", "k1"])
      expect((await post(app, "same", { type: "file.process" }, { "x-turno-key": key })).status).toBe(201);
    expect(inserted).toHaveLength(2);
  });

  it("is visible ASCII", async () => {
    const { app, inserted } = createTestApp();
    for (const key of ["a b", "é", "x".repeat(256)])
      expect((await post(app, key, { type: "file.process" })).status).toBe(400);
    expect(inserted).toEqual([]);
  });
});

describe("creating a batch", () => {
  it("creates all of it", async () => {
    const { app, inserted } = createTestApp();
    const jobs = Array.from({ length: 1000 }, (_, lote) => ({ type: "file.process", payload: { lote: lote + 1 } }));
    const response = await app.request("/api/jobs/batch", json({ jobs }));
    expect(response.status).toBe(201);
    const { items } = (await response.json()) as { items: unknown[] };
    expect(items).toHaveLength(1000);
    expect(inserted).toHaveLength(1000);
  });

  it("creates none of it when one is wrong, and says which", async () => {
    const { app, inserted } = createTestApp();
    const jobs = [{ type: "file.process" }, { type: "file.process", payload: { lote: 0 } }, { type: "no.such" }];
    const problem = await problemOf(await app.request("/api/jobs/batch", json({ jobs })));
    expect(problem.errors?.map((error) => error.pointer)).toEqual(["/jobs/1/payload/lote", "/jobs/2/type"]);
    expect(inserted).toEqual([]);
  });

  it("has between 1 and 1000 jobs", async () => {
    const { app } = createTestApp();
    const none = await app.request("/api/jobs/batch", json({ jobs: [] }));
    expect((await problemOf(none)).errors?.[0]?.pointer).toBe("/jobs");
    const many = await app.request(
      "/api/jobs/batch",
      json({ jobs: Array.from({ length: 1001 }, () => ({ type: "x" })) }),
    );
    expect(many.status).toBe(422);
    expect((await app.request("/api/jobs/batch", json([{ type: "file.process" }]))).status).toBe(422);
  });
});

describe("one job", () => {
  it("has the members of the contract, in their order", async () => {
    const { app } = createTestApp();
    const body = await (await app.request(`/api/jobs/${JOB.id}`)).text();
    expect(JSON.parse(body)).toMatchObject({
      id: JOB.id,
      error: "502",
      createdAt: NOW.toISOString(),
      source: { line: 4 },
    });
    expect(Object.keys(JSON.parse(body))).toEqual(
      "id type queue state hold priority payload result error progress progressMessage attempt maxAttempts execution lost generation concurrencyKey runAt createdAt startedAt finishedAt cancelRequested worker schedule source attempts timeline parent children hasMoreChildren runsAlone".split(
        " ",
      ),
    );
    expect(Object.keys(JSON.parse(body).attempts[0])).toEqual(
      "execution worker outcome startedAt finishedAt durationMs error stack bundle revision".split(" "),
    );
    expect(JSON.parse(body).timeline).toEqual([
      { at: NOW.toISOString(), from: null, to: "Enqueued", reason: "created" },
    ]);
  });

  it("is not found under an id that is none, or nobody's", async () => {
    const { app } = createTestApp();
    for (const id of ["9007199254740993", testId(2), "%00", "..%2F.."]) {
      const response = await app.request(`/api/jobs/${id}`);
      expect(response.status).toBe(404);
      expect((await problemOf(response)).code).toBe("TURNO_JOB_NOT_FOUND");
    }
  });

  it("is cancelled at once, or asked to stop, or refused when it has ended", async () => {
    const cancelWith = async (
      outcome: { kind: "cancelled" | "requested" | "not-found" } | { kind: "finished"; state: "Failed" },
    ) => {
      const { app } = createTestApp({
        jobs: {
          cancelJob: async () => outcome,
          requeueJob: async () => ({ kind: "refused", state: "Processing" }),
          deleteJob: async () => ({ kind: "not-found" }),
        },
      });
      return app.request(`/api/jobs/${JOB.id}/cancel`, { method: "POST" });
    };
    const cancelled = await cancelWith({ kind: "cancelled" });
    expect([cancelled.status, await cancelled.json()]).toEqual([
      200,
      { id: JOB.id, state: "Cancelled", cancelRequested: false },
    ]);
    const requested = await cancelWith({ kind: "requested" });
    expect([requested.status, await requested.json()]).toEqual([
      202,
      { id: JOB.id, state: "Processing", cancelRequested: true },
    ]);
    expect((await problemOf(await cancelWith({ kind: "finished", state: "Failed" }))).code).toBe("TURNO_JOB_STATE");
    expect((await cancelWith({ kind: "not-found" })).status).toBe(404);
  });

  it("is requeued and deleted, or the refusal says in which state it is", async () => {
    const { app } = createTestApp();
    const requeued = await app.request(`/api/jobs/${JOB.id}/requeue`, { method: "POST" });
    expect([requeued.status, await requeued.json()]).toEqual([200, { id: JOB.id, state: "Enqueued" }]);
    expect((await app.request(`/api/jobs/${JOB.id}`, { method: "DELETE" })).status).toBe(204);
    const waiting = createTestApp({
      jobs: {
        cancelJob: async () => ({ kind: "not-found" }),
        requeueJob: async () => ({ kind: "requeued", held: true }),
        deleteJob: async () => ({ kind: "not-found" }),
      },
    }).app;
    const held = await waiting.request(`/api/jobs/${JOB.id}/requeue`, { method: "POST" });
    expect(await held.json()).toEqual({ id: JOB.id, state: "Scheduled" });
    const refusing = createTestApp({
      jobs: {
        cancelJob: async () => ({ kind: "cancelled" }),
        requeueJob: async () => ({ kind: "refused", state: "Processing" }),
        deleteJob: async () => ({ kind: "refused", state: "Enqueued" }),
      },
    }).app;
    const requeue = await problemOf(await refusing.request(`/api/jobs/${JOB.id}/requeue`, { method: "POST" }));
    expect(requeue).toMatchObject({ status: 409, code: "TURNO_JOB_STATE" });
    expect(requeue.detail).toContain("Processing");
    expect((await refusing.request(`/api/jobs/${JOB.id}`, { method: "DELETE" })).status).toBe(409);
  });
});

describe("listing", () => {
  it("hands filters on and pages by an opaque cursor", async () => {
    const { app, filters } = createTestApp({
      panel: { ...fakePanel, listJobs: async () => ({ now: NOW, items: [JOB], next: JOB.id }) },
    });
    const first = await app.request(
      "/api/jobs?state=Failed,Cancelled&type=file.process&queue=default&schedule=nightly&revision=3&search=a_b%25&limit=1",
    );
    const { items, nextCursor } = (await first.json()) as { items: object[]; nextCursor: string };
    expect(Object.keys(items[0] ?? {})).not.toContain("attempts");
    expect(filters[0]).toEqual({
      states: ["Failed", "Cancelled"],
      type: "file.process",
      queue: "default",
      schedule: "nightly",
      revision: 3,
      search: "a_b%",
      before: null,
      limit: 1,
      withData: true,
    });
    await app.request(`/api/jobs?cursor=${nextCursor}`);
    expect(filters[1]?.before).toBe(JOB.id);
  });

  it.each([
    "cursor=garbage",
    "cursor=Zm9v",
    "limit=0",
    "limit=201",
    "limit=1e2",
    "state=Running",
    "revision=-1",
    "page=2",
    "type=a&type=b",
    "search=%00",
  ])("refuses ?%s", async (query) => {
    const { app } = createTestApp();
    const response = await app.request(`/api/jobs?${query}`);
    expect(response.status).toBe(400);
    await problemOf(response);
  });

  it("has figures, workers, types, queues and schedules", async () => {
    const { app } = createTestApp();
    expect(await (await app.request("/api/stats")).json()).toMatchObject({ queued: 1204, lastDay: { meanMs: 1800 } });
    for (const path of ["workers", "job-types", "queues", "recurring-jobs"]) {
      expect(await (await app.request(`/api/${path}`)).json()).toEqual({ items: [], nextCursor: null });
    }
  });

  it("triggers a schedule that is there", async () => {
    const { app } = createTestApp();
    const response = await app.request("/api/recurring-jobs/nightly/trigger", { method: "POST" });
    expect([response.status, await response.json()]).toEqual([201, { jobId: testId(0x100) }]);
    expect(response.headers.get("location")).toBe(`/api/jobs/${testId(0x100)}`);
    for (const name of ["nowhere", "%00", "%E0%A4%A", "a%2Fb"]) {
      const missing = await app.request(`/api/recurring-jobs/${name}/trigger`, { method: "POST" });
      expect((await problemOf(missing)).code).toBe("TURNO_SCHEDULE_NOT_FOUND");
    }
  });
});

describe("requests that cannot be read", () => {
  it("are problems: malformed JSON, other media types, encodings, bytes that are no text", async () => {
    const { app } = createTestApp();
    expect((await problemOf(await app.request("/api/jobs", json("{")))).status).toBe(400);
    expect((await problemOf(await app.request("/api/jobs", json('{"a":NaN}')))).status).toBe(400);
    expect((await problemOf(await app.request("/api/jobs", json("[]")))).status).toBe(422);
    const text = { method: "POST", headers: { "content-type": "text/plain" }, body: "{}" };
    expect((await problemOf(await app.request("/api/jobs", text))).status).toBe(415);
    const gzip = json("{}", { "content-encoding": "gzip" });
    expect((await problemOf(await app.request("/api/jobs", gzip))).status).toBe(415);
    const bytes = { ...json("{}"), body: new Uint8Array([0x7b, 0xff, 0x7d]) };
    expect((await problemOf(await app.request("/api/jobs", bytes))).status).toBe(400);
  });

  it("are problems when their body is over 1 MiB, announced or not", async () => {
    const { app } = createTestApp();
    const announced = await app.request("/api/jobs", json("x".repeat(1_048_577), { "content-length": "1048577" }));
    expect((await problemOf(announced)).status).toBe(413);
    let sent = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        sent += 65_536;
        controller.enqueue(new Uint8Array(65_536));
      },
    });
    const chunked = new Request("http://localhost/api/jobs", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: endless,
      duplex: "half",
    } as RequestInit);
    expect((await problemOf(await app.request(chunked))).status).toBe(413);
    expect(sent).toBeLessThan(2_000_000);
  });

  it("are problems when an action gets a body it does not take", async () => {
    const { app } = createTestApp();
    const response = await app.request(`/api/jobs/${JOB.id}/cancel`, json({ force: true }));
    expect((await problemOf(response)).status).toBe(422);
    expect((await app.request(`/api/jobs/${JOB.id}/cancel`, json({}))).status).toBe(200);
  });

  it("are problems where there is nothing, or not by this method", async () => {
    const { app } = createTestApp();
    expect((await problemOf(await app.request("/api/nothing"))).status).toBe(404);
    expect((await problemOf(await app.request("/nothing"))).status).toBe(404);
    for (const [method, path, allow] of [
      ["PUT", "/api/jobs", "GET, HEAD, POST"],
      ["GET", "/api/jobs/batch", "POST"],
      ["PUT", "/api/recurring-jobs", "GET, HEAD"],
      ["POST", "/health/live", "GET, HEAD"],
      ["DELETE", "/", "GET, HEAD"],
    ] as const) {
      const response = await app.request(path, { method });
      expect(response.headers.get("allow")).toBe(allow);
      expect((await problemOf(response)).status).toBe(405);
    }
  });
});

describe("when things are away", () => {
  it("says that nothing was changed, and tells no secret of the inside", async () => {
    const { app } = createTestApp({
      panel: {
        ...fakePanel,
        loadStatistics: () => Promise.reject(new RejectedError("connect ECONNREFUSED postgres://u:secret@db")),
        listJobTypes: () => Promise.reject(new Error("secret path /root")),
      },
    });
    const away = await app.request("/api/stats");
    const problem = await problemOf(away);
    expect(problem).toMatchObject({ status: 503, code: "TURNO_DATABASE_REJECTED" });
    expect(JSON.stringify(problem)).not.toContain("secret");
    const broken = await problemOf(await app.request("/api/job-types"));
    expect(broken.status).toBe(500);
    expect(JSON.stringify(broken)).not.toContain("secret");
  });

  it("is live without a database, and ready with one", async () => {
    const { app } = createTestApp();
    expect(await (await app.request("/health/live")).json()).toEqual({ status: "live" });
    const ready = await app.request("/health/ready");
    expect([ready.status, await ready.json()]).toEqual([
      200,
      { status: "ready", checks: { database: { status: "up", detail: null } } },
    ]);
    const away = createTestApp({ health: () => Promise.reject(new Error("away")) }).app;
    const response = await away.request("/health/ready");
    expect(response.status).toBe(503);
    expect(await response.json()).toMatchObject({ status: "unavailable", checks: { database: { status: "down" } } });
    expect((await away.request("/health/live")).status).toBe(200);
    expect(await (await away.request("/api/info")).json()).toEqual({
      name: "turno",
      version: "0.1.0",
      authentication: "none",
    });
  });
});
