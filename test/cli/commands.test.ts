import { existsSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { EXIT } from "../../runtime/cli/io.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type CommandProject, createCommandProject, PROJECT } from "./run.ts";

/** As the API gives it. */
const JOB = {
  ...{ id: "j", type: "greet", queue: "default", hold: null, result: null, error: null, worker: null, schedule: null },
  ...{
    progress: 0,
    progressMessage: null,
    attempt: 1,
    maxAttempts: 5,
    execution: 1,
    source: null,
    concurrencyKey: null,
  },
  ...{ createdAt: "2026-01-01T00:00:00Z", startedAt: null, finishedAt: null },
};

let database: TestDatabase;
let project: CommandProject;
let bare: CommandProject;

beforeAll(async () => {
  database = await createTestDatabase();
  project = await createCommandProject({ TURNO_DATABASE_URL: database.address.connectionString });
  bare = await createCommandProject();
  expect(await project.run("apply", "--yes")).toMatchObject({ code: EXIT.done });
});
afterAll(async () => {
  await project?.remove();
  await bare?.remove();
  await database?.drop();
});

describe("wrong usage", () => {
  test.each([
    [[], /Usage: turno/],
    [["bogus"], /unknown command 'bogus'\n\(--help/],
    [["apply", "--yess"], /unknown option '--yess'\n\(Did you mean --yes\?\)/],
    [["up", "extra"], /too many arguments/],
    [["up", "--port", "70000"], /a port from 0 to 65535, found "70000"/],
    [["up", "--workers", "many"], /--workers from 0 to 99, found "many"/],
    [["server", "--port", "x"], /a port from 0 to 65535/],
    [["worker", "--queue", "default"], /NAME=SLOTS/],
    [["worker", "--queue", "default=0"], /NAME=SLOTS/],
    [["worker", "--queue", "a=1", "a=2"], /the queue a is named twice/],
    [["validate", "--format", "xml"], /Allowed choices are text, json, github, sarif/],
    [["plan", "--format", "xml"], /--format text, json or markdown, found xml/],
    [["plan", "--fires", "soon"], /--fires: expected a duration/],
    [["plan", "--from", "noon"], /--from: expected an instant/],
    [["apply"], /--yes/],
    [["next"], /name of a schedule/],
    [["schema", "Jobb"], /did you mean Job\?/],
    [["trigger"], /missing required argument 'schedule'/],
    [["enqueue"], /missing required argument 'type'/],
    [["enqueue", "greet", "--payload", "{"], /expected JSON in --payload/],
    [["enqueue", "greet", "--payload", "@none.json"], /the file of --payload could not be read/],
    [["enqueue", "greet", "--delay", "soon"], /--delay: expected a duration/],
    [["enqueue", "greet", "--timeout", "1w"], /--timeout: expected a duration/],
    [["enqueue", "greet", "--priority", "high"], /a whole number after --priority/],
    [["jobs", "--server", "localhost"], /an address such as http:\/\/localhost:8080 after --server/],
    [["jobs", "--server", "ftp://localhost"], /an address such as/],
  ])("%j exits with 64 before anything is opened, and says what is expected", async (args, message) => {
    const { code, out, err } = await bare.run(...args);
    expect(err).toMatch(message);
    expect({ code, out }).toEqual({ code: EXIT.usage, out: "" });
    expect(existsSync(join(bare.root, ".turno"))).toBe(false);
  });

  test.each([
    [["jobs", "--state", "Done"], /Unknown state "Done"; expected Scheduled/],
    [["jobs", "--limit", "0"], /a limit from 1 to 200, found "0"/],
    [["jobs", "--cursor", "x"], /This cursor is none/],
    [["enqueue", "greet", "--payload", '{"name":"a"}', "--priority", "1000"], /-100 to 100/],
    [["enqueue", "greet", "--payload", '{"name":"a"}', "--at", "noon"], /expected an instant/],
  ])("%j that only the API can tell exits with 64 too", async (args, message) => {
    const { code, err } = await project.run(...args);
    expect(err).toMatch(message);
    expect(code).toBe(EXIT.usage);
  });
});

describe("what is not there or not allowed", () => {
  test.each([
    [["job", "x"], "TURNO_JOB_NOT_FOUND"],
    [["cancel", "019c0000-0000-7000-8000-000000000000"], "TURNO_JOB_NOT_FOUND"],
    [["trigger", "nightly"], "TURNO_SCHEDULE_NOT_FOUND"],
    [["enqueue", "greeet"], "TURNO_JOB_UNKNOWN_TYPE"],
    [["enqueue", "greet"], "TURNO_JOB_PAYLOAD"],
    [["next", "nightly"], "TURNO_SCHEDULE_NOT_FOUND"],
  ])("%j exits with 1 and the code %s", async (args, code) => {
    const ran = await project.run(...args);
    expect(ran.err).toContain(`[${code}]`);
    expect(ran).toMatchObject({ code: EXIT.failed, out: "" });
  });

  test("a folder without a project gets no database, whatever is asked of it", async () => {
    const folder = join(bare.root, "mistyped");
    for (const command of ["migrate", "plan", "up", "reconciler"]) {
      const { code, err } = await bare.run(command, "--dir", folder);
      expect(err).toContain("TURNO_PROJECT_MISSING");
      expect(code).toBe(EXIT.failed);
    }
    expect(existsSync(folder)).toBe(false);
  });

  test("commands without a running Turno say how to start it", async () => {
    for (const command of ["jobs", "workers", "worker", "server"]) {
      expect((await bare.run(command)).err).toMatch(/Turno does not run in .*\n {2}start it with turno up/);
    }
  });
});

describe("the database's address", () => {
  afterEach(() => {
    delete bare.env.TURNO_DATABASE_URL;
  });

  test("that is none is refused without being shown", async () => {
    for (const address of ["geheim", "mysql://u:geheim@h/d", "postgres://u:ge#heim@h:x/d"]) {
      bare.env.TURNO_DATABASE_URL = address;
      for (const command of ["jobs", "plan", "worker", "up"]) {
        const { code, out, err } = await bare.run(command);
        expect(err).toContain("[TURNO_CONFIG_SETTING]");
        expect(out + err).not.toMatch(/geheim|ge#heim/);
        expect(code).toBe(EXIT.failed);
      }
    }
  });

  test("where nobody answers is told with what to look at", async () => {
    bare.env.TURNO_DATABASE_URL = "postgres://u:geheim@127.0.0.1:1/d";
    for (const command of ["jobs", "plan", "migrate", "worker", "server", "reconciler"]) {
      const { code, out, err } = await bare.run(command);
      expect(err).toMatch(/ECONNREFUSED.*\n {2}is PostgreSQL running, and is its address right/);
      expect(out + err).not.toContain("geheim");
      expect(code).toBe(EXIT.failed);
    }
  });

  test("of a database without a schema leads to turno migrate", async () => {
    const empty = await createTestDatabase({ migrated: false });
    bare.env.TURNO_DATABASE_URL = empty.address.connectionString;
    for (const command of ["jobs", "plan", "sync", "history"]) {
      expect((await bare.run(command)).err).toMatch(/TURNO_DATABASE_SCHEMA\]\n {2}run turno migrate/);
    }
    await empty.drop();
  });
});

describe("a turno.yaml with mistakes", () => {
  const broken = (runtime: string) => `${PROJECT.replace("UTC }", `UTC, bogus: 1${runtime} }`)}`;
  afterEach(() => bare.write("turno.yaml", PROJECT));

  test("stops every process when it has settings that cannot be read", async () => {
    for (const text of [
      broken(", runtime: { worker: { queues: 4 } }"),
      `${PROJECT}  runtime: { database: { url: "\${env:OTHER}" } }\n`,
    ]) {
      await bare.write("turno.yaml", text);
      for (const command of ["up", "worker", "server", "reconciler", "migrate", "plan"]) {
        const { code, err } = await bare.run(command);
        expect(err).toMatch(/^turno: turno.yaml:\d+:\d+: the settings in turno.yaml cannot be read: .*INVALID\]/);
        expect(code).toBe(EXIT.failed);
      }
    }
    expect(existsSync(join(bare.root, ".turno", "postgres"))).toBe(false);
  });

  test("still gives the settings that have none", async () => {
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is what stands in the file.
    await bare.write("turno.yaml", broken(', runtime: { database: { url: "${env:ELSEWHERE}" } }'));
    bare.env.ELSEWHERE = database.address.connectionString;
    expect(await bare.run("jobs", "--json")).toMatchObject({ code: EXIT.done, err: "" });
    delete bare.env.ELSEWHERE;
  });

  test("leaves the next fires alone, which need no settings", async () => {
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is what stands in the file.
    await bare.write("turno.yaml", PROJECT.replace("UTC }", 'UTC, runtime: { database: { url: "${env:UNSET}" } } }'));
    await bare.write(
      "turno.d/s.yaml",
      "apiVersion: turno/v1\nkind: Schedule\nmetadata: { name: s }\nspec: { job: greet, every: 1h, payload: { name: a } }\n",
    );
    expect(await bare.run("next", "s", "--dir", bare.root, "--count", "1", "--json")).toMatchObject({
      code: EXIT.done,
    });
    expect((await bare.run("jobs")).err).toMatch(/refers to env:UNSET/);
  });
});

describe("a server named by --server", () => {
  let server: Server;
  let asked: string[];
  async function serve(answer: RequestListener): Promise<string> {
    asked = [];
    server = createServer((request, response) => {
      asked.push(`${request.url} ${request.headers["x-turno-key"] ?? ""}`.trim());
      answer(request, response);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }
  afterEach(() => {
    server?.close();
    delete bare.env.TURNO_API_KEY;
  });

  test("is asked below its path, with the key", async () => {
    const url = await serve((_, response) => response.end('{"items":[],"nextCursor":null}'));
    bare.env.TURNO_API_KEY = "k3y";
    expect(await bare.run("workers", "--server", `${url}/turno/`, "--json")).toMatchObject({ code: 0, out: "[]\n" });
    expect(asked).toEqual(["/turno/api/workers k3y"]);
  });

  test("that redirects gets the key alone, and is named as the reason", async () => {
    const url = await serve((_, response) => response.writeHead(302, { location: "http://localhost:1/" }).end());
    expect((await bare.run("jobs", "--server", url)).err).toMatch(
      /redirect, which is not followed.*\[TURNO_SERVER_ERROR\]/,
    );
  });

  test("that is no Turno is told from one that does not answer", async () => {
    const url = await serve((_, response) => response.writeHead(200, { "content-type": "text/html" }).end("<p>"));
    expect((await bare.run("jobs", "--server", url)).err).toMatch(
      /to answer with JSON, found status 200 with text\/html/,
    );
    server.close();
    server.closeAllConnections();
    expect((await bare.run("jobs", "--server", url)).err).toMatch(/no answer from .*ECONNREFUSED/);
  });

  test("may be away while a job is waited for", async () => {
    const job = { ...JOB, state: "Processing" };
    let looks = 0;
    const url = await serve((request, response) => {
      if (request.method === "POST") return response.writeHead(201).end(JSON.stringify(job));
      looks += 1;
      if (looks === 2) return response.writeHead(503).end('{"title":"Not available","detail":"The database is away."}');
      return response.end(JSON.stringify({ ...job, state: looks < 3 ? "Processing" : "Succeeded" }));
    });
    const { code, out, err } = await bare.run("enqueue", "greet", "--wait", "--json", "--server", url);
    expect(err).toBe("The database is away.; waiting on\n");
    expect({ code, state: (JSON.parse(out) as { state: string }).state }).toEqual({ code: 0, state: "Succeeded" });
  });

  test("cannot drive the terminal with what it answers", async () => {
    const evil = "\u001b]0;owned\u0007\u009b31m";
    const job = { ...JOB, state: "Failed", error: `a${evil}\nb` };
    const url = await serve((_, response) =>
      response.end(
        JSON.stringify({ ...job, attempts: [{ execution: 1, outcome: "failed", worker: "w", error: evil }] }),
      ),
    );
    for (const flags of [[], ["--json"]]) {
      const { out } = await bare.run("job", "j", "--server", url, ...flags);
      // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must not be there.
      expect(out).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
    }
  });

  test("is not asked at all with a key that no header can carry", async () => {
    bare.env.TURNO_API_KEY = "a\nb";
    expect(await bare.run("jobs", "--server", "http://localhost:1")).toMatchObject({ code: EXIT.usage });
  });
});
