import { mkdir, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { listPaths } from "../architecture/project-sources.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { eventually, getJson } from "../support/up.ts";
import { ROOT, readRootFile } from "./deployment-files.ts";
import { type PackedTurno, packTurno } from "./packed-turno.ts";

let packed: PackedTurno;
let database: TestDatabase;
let project: string;
let env: Record<string, string>;

beforeAll(async () => {
  packed = await packTurno();
  database = await createTestDatabase({ migrated: false });
  env = { TURNO_DATABASE_URL: database.address.connectionString };
  project = join(packed.folder, "project");
  await mkdir(project);
}, 120_000);

afterAll(async () => {
  await packed?.remove();
  await database?.drop();
});

describe("the package", () => {
  test("holds every schema, migration and file of the panel, and its two programs", async () => {
    const assets = await listPaths(["schemas", "web/assets", "bin"]);
    const migrations = await readdir(join(ROOT, "runtime/adapters/postgres/migrations"));
    const needed = [...assets, ...migrations.map((name) => `dist/runtime/adapters/postgres/migrations/${name}`)];
    expect(needed.length).toBeGreaterThan(25);
    expect(needed.filter((path) => !packed.files.includes(path))).toEqual([]);
    const { bin } = JSON.parse(readRootFile("package.json")) as { bin: Readonly<Record<string, string>> };
    expect(Object.values(bin).filter((path) => !packed.files.includes(path))).toEqual([]);
  });

  test("holds no sources, tests, state or secrets", () => {
    const sources = packed.files.filter((path) => /\.tsx?$/.test(path) && !path.endsWith(".d.ts"));
    expect(sources).toEqual([]);
    const tops = new Set(packed.files.map((path) => path.split("/")[0]));
    expect([...tops].sort()).toEqual([
      "CHANGELOG.md",
      "LICENSE",
      "README.md",
      "bin",
      "dist",
      "package.json",
      "schemas",
      "web",
    ]);
  });

  test("finds the packages of brokers and locks, and no development package", async () => {
    const look = `const found = [];
      for (const name of process.argv.slice(1)) await import(name).then(() => found.push(name), () => {});
      console.log(JSON.stringify(found));`;
    const names = ["amqplib", "ioredis", "redlock", "@azure/service-bus", "vitest", "typescript", "rhea/package.json"];
    const cwd = join(packed.folder, "node_modules", "turno");
    const { output } = await packed.run("--input-type=module", ["--eval", look, ...names], { cwd });
    expect(JSON.parse(output)).toEqual(names.slice(0, 4));
  });
});

describe("the program, installed with nothing else", () => {
  test("tells its version, makes a project and validates it", async () => {
    const { version } = JSON.parse(readRootFile("package.json")) as { version: string };
    const here = { cwd: project };
    expect(await packed.run(packed.program, ["--version"], here)).toEqual({ code: 0, output: `${version}\n` });
    expect(await packed.run(packed.program, ["init"], here)).toMatchObject({ code: 0 });
    expect(await packed.run(packed.program, ["validate"], here)).toMatchObject({ code: 0 });
  });

  test("says that the embedded PostgreSQL is not there, where no other is set", async () => {
    const { code, output } = await packed.run(packed.program, ["up", "--port", "0"], { cwd: project });
    expect(code).toBe(1);
    expect(output).toMatch(/TURNO_EMBEDDED_MISSING/);
  });

  test("serves as every role of the image, on an empty database and in any order, and stops on SIGTERM", async () => {
    const here = { cwd: project, env };
    // Both wait for a server to migrate; of two servers at once one does.
    const worker = packed.start(["worker", "--health-port", "0"], here);
    const reconciler = packed.start(["reconciler", "--health-port", "0"], here);
    for (const role of [worker, reconciler]) {
      await eventually("the role's waiting", async () => role.output().includes("waiting until it is migrated"));
    }
    const servers = [packed.start(["server", "--port", "0"], here), packed.start(["server", "--port", "0"], here)];
    const urls = await Promise.all(
      servers.map((server) => eventually("a server", async () => /http:\S+/.exec(server.output())?.[0])),
    );
    const checks = await Promise.all(
      [worker, reconciler].map((role) =>
        eventually("its health", async () => /its health: (\S+)/.exec(role.output())?.[1]),
      ),
    );
    for (const url of [...checks, `${urls[0]}/health/ready`]) {
      const healthy = join(packed.folder, "node_modules", "turno", "bin", "healthy.js");
      await eventually(url, async () => (await packed.run(healthy, [url], here)).code === 0);
    }

    const enqueued = ["enqueue", "hello", "--payload", '{"name":"Ana"}', "--wait", "--json"];
    const done = await eventually("the project's revision", async () => {
      const { code, output } = await packed.run(packed.program, enqueued, here);
      return code === 0 && (JSON.parse(output) as { state: string });
    });
    expect(done).toMatchObject({ state: "Succeeded" });

    for (const url of urls) {
      expect(await getJson<object>(`${url}/api/info`)).toMatchObject({ name: "turno" });
      const page = await (await fetch(url, { headers: { accept: "text/html" } })).text();
      const assets = [...page.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(([, path = ""]) => path);
      expect(assets.length).toBeGreaterThan(3);
      for (const path of assets) expect((await fetch(`${url}${path}`)).status).toBe(200);
    }
    for (const role of [worker, reconciler, ...servers]) expect(await role.stop()).toBe(0);
  }, 90_000);

  test("ends on SIGTERM also while it waits for a schema", async () => {
    const empty = await createTestDatabase({ migrated: false });
    const worker = packed.start(["worker"], {
      cwd: project,
      env: { TURNO_DATABASE_URL: empty.address.connectionString },
    });
    await eventually("the worker's waiting", async () => worker.output().includes("waiting until it is migrated"));
    expect(await worker.stop()).toBe(0);
    await empty.drop();
  });
});

test("the health check's program says what is wrong, and fails", async () => {
  const healthy = join(packed.folder, "node_modules", "turno", "bin", "healthy.js");
  const { code, output } = await packed.run(healthy, ["http://127.0.0.1:1/health/ready"], { cwd: project });
  expect(code).toBe(1);
  expect(output).toMatch(/does not answer/);
  expect(await readFile(healthy, "utf8")).toContain("http://127.0.0.1:8080/health/ready");
});
