import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Server } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { bundleHandlers } from "../../runtime/adapters/handlers/bundle.ts";
import { createHandlerHost } from "../../runtime/adapters/handlers/host.ts";
import { openDatabase } from "../../runtime/adapters/postgres/pool.ts";
import { loadProject } from "../../runtime/config/load-project.ts";
import type { JsonObject } from "../../runtime/core/json.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import type { HandlerOutcome } from "../../runtime/protocol/ports/handlers.ts";
import { createTestDatabase } from "../support/database.ts";
import {
  makeDefinition,
  makeFolder,
  makeRequest,
  type RunOptions,
  refuseChildren,
  writeProjectFile,
} from "./support.ts";

const REPOSITORY = fileURLToPath(new URL("../../", import.meta.url));

/** Runs a sample as a worker does: bundled, in a thread, with the environment a worker gives. */
async function runSample(
  handler: string,
  options: RunOptions & { readonly root: string; readonly env?: Readonly<Record<string, string>> },
): Promise<HandlerOutcome> {
  const { bundles, problems } = await bundleHandlers({ root: REPOSITORY, handlersDir: "handlers", entries: [handler] });
  expect(problems).toEqual([]);
  const { hash = "", code = null } = bundles[0] ?? {};
  const host = createHandlerHost({
    projectRoot: options.root,
    bundlesDir: join(options.root, ".turno", "bundles"),
    loadBundle: async () => code,
    prepareChild: refuseChildren,
    logger: silentLogger,
    clock: { monotonicMs: () => performance.now() },
    threads: 1,
    threadEnv: options.env ?? {},
  });
  onTestFinished(() => host.close());
  return host.run(makeRequest(makeDefinition({ ...options, handler, bundleHash: hash }), options)).outcome;
}

async function resultOf(...parameters: Parameters<typeof runSample>) {
  const outcome = await runSample(...parameters);
  if (outcome.kind !== "returned" || outcome.result === null) throw new Error(JSON.stringify(outcome));
  return JSON.parse(outcome.result);
}

describe("file.process", () => {
  const files = {
    "data/empty.txt": "",
    "data/one.txt": "a\nlonger line\nb",
    "data/deep/two.txt": "é\n\n",
    "data/node_modules/skipped.txt": "x",
  };

  test("gives size, hash, lines and the longest line of every file, and the totals", async () => {
    const root = makeFolder(files);
    const progress: number[] = [];
    const result = await resultOf("file-process.ts", {
      root,
      payload: { folder: "data" },
      onProgress: (percent) => progress.push(percent),
    });
    expect(result).toEqual({
      folder: "data",
      files: 3,
      bytes: 19,
      lines: 5,
      longestLine: { file: "one.txt", line: 2, bytes: 11 },
      vanished: [],
      omitted: 0,
      listed: [
        {
          path: "deep/two.txt",
          bytes: 4,
          sha256: "0274f696852310bd0806bb25c4b6bba8b0eec68f36769d872db742a89ac96b8c",
          lines: 2,
          longestLine: { line: 1, bytes: 2 },
        },
        {
          path: "empty.txt",
          bytes: 0,
          sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
          lines: 0,
          longestLine: { line: 0, bytes: 0 },
        },
        {
          path: "one.txt",
          bytes: 15,
          sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
          lines: 3,
          longestLine: { line: 2, bytes: 11 },
        },
      ],
    });
    expect(progress.at(-1)).toBe(100);
  });

  test("lists as many files as its settings say and counts the rest", async () => {
    const result = await resultOf("file-process.ts", {
      root: makeFolder(files),
      payload: { folder: "data" },
      settings: { listed: 1, exclude: [] },
    });
    expect(result).toMatchObject({ files: 4, omitted: 3 });
    expect(result.listed).toHaveLength(1);
  });

  test("finds lines that span the chunks of a large file", async () => {
    const root = makeFolder({ "data/large.txt": `${"x".repeat(200_000)}\n`.repeat(3) });
    const result = await resultOf("file-process.ts", { root, payload: { folder: "data" } });
    expect(result).toMatchObject({ lines: 3, longestLine: { line: 1, bytes: 200_000 } });
  });

  test("a folder outside of the project is refused, however it is written", async () => {
    const root = makeFolder({ "data/a": "x" });
    for (const folder of ["..", "../x", "/etc", "data/../../x"]) {
      const outcome = await runSample("file-process.ts", { root, payload: { folder } });
      expect(outcome).toMatchObject({ kind: "threw", error: { permanent: true } });
      expect(JSON.stringify(outcome)).toContain("expected a folder of the project");
    }
  });

  test("a folder that is not there is permanent", async () => {
    const outcome = await runSample("file-process.ts", { root: makeFolder(), payload: { folder: "nowhere" } });
    expect(outcome).toMatchObject({
      kind: "threw",
      error: { permanent: true, message: expect.stringMatching(/nowhere/) },
    });
  });
});

describe("report.generate", () => {
  async function openStatistics() {
    const database = await createTestDatabase();
    const connection = openDatabase({
      address: database.address,
      applicationName: "test",
      size: 1,
      statementTimeoutMs: 10_000,
      logger: silentLogger,
    });
    onTestFinished(async () => {
      await connection.close();
      await database.drop();
    });
    return { connection, env: { TURNO_DATABASE_URL: database.address.connectionString } };
  }

  test("writes a CSV and a page of its own from folded and unfolded statistics", async () => {
    const { connection, env } = await openStatistics();
    await connection.query(
      `insert into turno.minute_statistics (minute, queue, succeeded, failed, cancelled, executions, ran_ms)
       values (date_trunc('minute', now()) - interval '1 hour', 'default', 40, 1, 0, 42, 4200),
              (date_trunc('minute', now()) - interval '9 hours', 'default', 1000, 0, 0, 1000, 1)`,
    );
    await connection.query(
      `insert into turno.counter_deltas (queue, succeeded, executions, ran_ms) values ('a "b", <c>', 2, 2, 10), ('idle', 0, 0, 0)`,
    );
    const root = makeFolder();
    const result = await resultOf("report-generate.ts", { root, env, payload: { hours: 6 } });
    expect(result).toMatchObject({ rows: 2, succeeded: 42, failed: 1, cancelled: 0 });

    const csv = readFileSync(join(root, result.csv), "utf8").split("\r\n");
    expect(csv[0]).toBe("minute,queue,succeeded,failed,cancelled,executions,average_ms");
    expect(csv[1]).toMatch(/^\d{4}-.*Z,default,40,1,0,42,100$/);
    expect(csv[2]).toMatch(/^\d{4}-.*Z,"a ""b"", <c>",2,0,0,2,5$/);
    const page = readFileSync(join(root, result.html), "utf8");
    expect(result.html).toMatch(/^\.turno\/reports\/executions-.*\.html$/);
    expect(page.match(/<rect /g)).toHaveLength(3);
    expect(page).toContain("&#60;c&#62;");
    expect(page).not.toMatch(/<script|https?:|<c>/);
  });

  test("keeps the newest reports, and writes the same names in every attempt", async () => {
    const { env } = await openStatistics();
    const root = makeFolder();
    const schedule = { name: "s", firedFor: new Date("2026-03-01T10:05:00Z"), lateByMs: 0 };
    for (const stamp of ["2026-01-01T0000Z-1", "2026-01-02T0000Z-1", "2026-01-03T0000Z-1"]) {
      writeProjectFile(root, `.turno/reports/executions-${stamp}.html`, "");
      writeProjectFile(root, `.turno/reports/executions-${stamp}.csv`, "");
    }
    const result = await resultOf("report-generate.ts", { root, env, schedule, payload: {}, settings: { keep: 2 } });
    expect(result.html).toMatch(/executions-2026-03-01T1005Z-\d{8}\.html$/);
    const left = readdirSync(join(root, ".turno/reports")).filter((name) => name.endsWith(".html"));
    expect(left).toEqual(["executions-2026-01-03T0000Z-1.html", expect.stringMatching(/2026-03-01/)]);
    expect(existsSync(join(root, ".turno/reports/executions-2026-01-01T0000Z-1.csv"))).toBe(false);
  });

  test("without the database's address it is permanent", async () => {
    const outcome = await runSample("report-generate.ts", { root: makeFolder(), payload: {} });
    expect(outcome).toMatchObject({ kind: "threw", error: { permanent: true } });
  });
});

describe("integration.sync", () => {
  type Respond = (request: IncomingMessage, response: ServerResponse, call: number) => void;

  async function openApi(respond: Respond) {
    const urls: string[] = [];
    const server = createServer((request, response) => {
      urls.push(request.url ?? "");
      respond(request, response, urls.length);
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    return { urls, env: { TURNO_API_URL: `http://127.0.0.1:${port}` } };
  }

  const sendJson = (response: ServerResponse, value: unknown) => {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(value));
  };

  test("reads page after page and counts every item once", async () => {
    const { urls, env } = await openApi((_, response, call) => {
      if (call === 1)
        sendJson(response, { items: [{ id: "1", state: "Succeeded", type: "a" }], nextCursor: "next&x=1" });
      else
        sendJson(response, {
          items: [
            { id: "1", state: "Succeeded", type: "a" },
            { id: "2", state: "Failed", type: "a" },
          ],
          nextCursor: null,
        });
    });
    const result = await resultOf("integration-sync.ts", { root: makeFolder(), env, payload: { pageSize: 7 } });
    expect(result).toMatchObject({
      pages: 2,
      complete: true,
      items: 2,
      states: { Succeeded: 1, Failed: 1 },
      types: { a: 2 },
    });
    expect(urls).toEqual(["/api/jobs?limit=7", "/api/jobs?limit=7&cursor=next%26x%3D1"]);
  });

  test("asks again after 5xx and after a short Retry-After", async () => {
    const { urls, env } = await openApi((_, response, call) => {
      if (call === 1) response.writeHead(503, { "retry-after": "0" }).end();
      else if (call === 2) response.writeHead(500).end();
      else sendJson(response, { items: [], nextCursor: null });
    });
    expect(await resultOf("integration-sync.ts", { root: makeFolder(), env, payload: {} })).toMatchObject({ items: 0 });
    expect(urls).toHaveLength(3);
  });

  test("leaves a long Retry-After to the queue", async () => {
    const { env } = await openApi((_, response) => response.writeHead(429, { "retry-after": "120" }).end());
    const outcome = await runSample("integration-sync.ts", { root: makeFolder(), env, payload: {} });
    expect(outcome).toMatchObject({
      kind: "threw",
      error: { name: "RetryAfter", retryAfterMs: 120_000, permanent: false },
    });
  });

  test("gives up after its tries, as a failure that is retried later", async () => {
    const { urls, env } = await openApi((_, response) => response.writeHead(502).end());
    const settings: JsonObject = { tries: 2 };
    const outcome = await runSample("integration-sync.ts", { root: makeFolder(), env, payload: {}, settings });
    expect(outcome).toMatchObject({
      kind: "threw",
      error: { permanent: false, message: expect.stringMatching(/502, 2 times/) },
    });
    expect(urls).toHaveLength(2);
  });

  test.each<[string, Respond, RegExp]>([
    ["a redirect", (_, response) => response.writeHead(302, { location: "http://169.254.169.254/" }).end(), /redirect/],
    ["a refusal", (_, response) => response.writeHead(401).end("no key"), /401: no key/],
    ["something else than JSON", (_, response) => response.end("<html>"), /did not answer with JSON/],
    ["JSON of another shape", (_, response) => response.end("{}"), /nextCursor/],
    ["the same cursor for ever", (_, response) => response.end('{"items":[],"nextCursor":"x"}'), /same cursor/],
  ])("%s is permanent", async (_, respond, message) => {
    const { env } = await openApi(respond);
    const outcome = await runSample("integration-sync.ts", { root: makeFolder(), env, payload: {} });
    expect(outcome).toMatchObject({
      kind: "threw",
      error: { permanent: true, message: expect.stringMatching(message) },
    });
  });

  test("never asks another server than the configured one", async () => {
    const { urls, env } = await openApi((_, response) => response.end());
    const settings = { path: "//other.example.com/api" };
    const outcome = await runSample("integration-sync.ts", { root: makeFolder(), env, payload: {}, settings });
    expect(outcome).toMatchObject({ kind: "threw", error: { permanent: true } });
    expect(urls).toEqual([]);
  });
});

describe("notification.send", () => {
  const payload = { to: "ana.souza@example.com", subject: "Fechamento – março", text: "Olá\nfim" };

  test("without a mail server leaves one file per job in the outbox, and masks the recipient", async () => {
    const root = makeFolder();
    const result = await resultOf("notification-send.ts", { root, payload });
    expect(result).toMatchObject({ sent: "outbox", to: "a***@example.com" });
    expect(JSON.stringify(result)).not.toContain("souza");
    const mail = readFileSync(join(root, result.file), "utf8");
    expect(mail).toContain("To: ana.souza@example.com\r\n");
    expect(mail).toContain(`Message-ID: ${result.messageId}\r\n`);
    expect(mail).toContain("Subject: =?UTF-8?");
  });

  test("hands the mail to the server of TURNO_SMTP_URL", async () => {
    const { server, received } = await openSmtp("250 accepted");
    const result = await resultOf("notification-send.ts", { root: makeFolder(), payload, env: smtpEnv(server) });
    expect(result).toMatchObject({ sent: "smtp", to: "a***@example.com", response: "250 accepted" });
    expect(received.join("")).toContain("To: ana.souza@example.com");
  });

  test.each([
    ["550 no such user", true],
    ["451 try again later", false],
  ])("the answer %s is permanent: %s", async (answer, permanent) => {
    const { server } = await openSmtp(answer);
    const outcome = await runSample("notification-send.ts", { root: makeFolder(), payload, env: smtpEnv(server) });
    expect(outcome).toMatchObject({ kind: "threw", error: { permanent } });
  });

  function smtpEnv(server: Server) {
    return { TURNO_SMTP_URL: `smtp://127.0.0.1:${(server.address() as AddressInfo).port}` };
  }

  /** As much of RFC 5321 as one mail needs. */
  async function openSmtp(answerToData: string) {
    const received: string[] = [];
    const server = createTcpServer((socket) => {
      let inData = false;
      socket.write("220 test\r\n");
      socket.on("error", () => {});
      socket.on("data", (chunk) => {
        for (const line of chunk.toString("utf8").split(/(?<=\r\n)/)) {
          if (inData && line === ".\r\n") {
            inData = false;
            socket.write(`${answerToData}\r\n`);
          } else if (inData) received.push(line);
          else if (/^DATA/i.test(line)) {
            inData = true;
            socket.write("354 go on\r\n");
          } else if (/^QUIT/i.test(line)) socket.end("221 bye\r\n");
          else socket.write("250 ok\r\n");
        }
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => {
      server.close();
    });
    return { server, received };
  }
});

describe("the samples' declarations", () => {
  const files = new Map<string, string>([
    ["turno.yaml", "apiVersion: turno/v1\nkind: Project\nmetadata: { name: samples }\nspec: {}\n"],
    ...["turno.d", "schemas/jobs"].flatMap((folder) =>
      readdirSync(join(REPOSITORY, folder)).map(
        (name) => [`${folder}/${name}`, readFileSync(join(REPOSITORY, folder, name), "utf8")] as const,
      ),
    ),
  ]);
  const load = (samples: boolean) =>
    loadProject(files, {
      environment: { TURNO_RUNTIME_SAMPLES: String(samples) },
      handlerExists: (path) => existsSync(join(REPOSITORY, path)),
    });

  test("are valid, with their handlers and payload schemas", () => {
    const { state, problems } = load(true);
    expect(problems).toEqual([]);
    expect(state?.objects.map(({ kind, name }) => `${kind}/${name}`)).toEqual([
      "Job/file.process",
      "Job/integration.sync",
      "Job/notification.send",
      "Job/report.generate",
      "Policy/samples",
      "Schedule/executions-report",
      "Schedule/nightly-inventory",
    ]);
  });

  test("are gone when samples are off", () => {
    expect(load(false).state?.objects).toEqual([]);
  });

  test("name reserved addresses only", () => {
    const texts = [
      ...files.values(),
      ...readdirSync(join(REPOSITORY, "handlers"), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => readFileSync(join(entry.parentPath, entry.name), "utf8")),
    ];
    const addresses = texts.flatMap((text) => text.match(/[\w.+-]+@[\w-]+(\.[\w-]+)+/g) ?? []);
    expect(addresses.length).toBeGreaterThan(0);
    expect(addresses.filter((address) => !address.endsWith("@example.com"))).toEqual([]);
  });
});
