import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ProjectSpec } from "../../runtime/config/objects.ts";
import { formatReport } from "../../runtime/config/report.ts";
import { readRuntime, writeRuntime } from "../../runtime/config/runtime-document.ts";
import { resolveRuntimeSettings, variableOf } from "../../runtime/config/runtime-settings.ts";
import { validateRuntime } from "../../runtime/config/validate.ts";
import { declare, load } from "./project-files.ts";

const reference = (text: string): string => "$".concat(`{${text}}`);

function project(runtime = "{}"): ProjectSpec {
  const { state } = load("# nothing\n", {
    project: declare("Project", "acme", `{ timeZone: UTC, runtime: ${runtime} }`),
  });
  if (state === null) throw new Error("expected a valid project");
  return state.project.spec;
}
const noFile = (path: string): string => {
  throw new Error(`ENOENT: ${path}`);
};
const resolve = (runtime: string, env: Record<string, string> = {}, readFile = noFile) =>
  resolveRuntimeSettings(project(runtime), env, readFile);

describe("settings of a process", () => {
  test("are the defaults when nobody says anything", () => {
    expect(resolve("{}")).toEqual({
      database: { url: null, poolSize: 10 },
      samples: true,
      worker: {
        queues: [{ name: "default", concurrency: 4 }],
        leaseDurationMs: 60_000,
        leaseRenewalMs: 10_000,
        heartbeatMs: 5_000,
        maxClockSkewMs: 30_000,
        shutdownTimeoutMs: 30_000,
      },
      scheduler: { intervalMs: 2_000, batchSize: 200 },
      recovery: { intervalMs: 10_000 },
      retention: { succeededMs: 604_800_000, cancelledMs: 604_800_000, failedMs: 2_592_000_000, workersMs: 86_400_000 },
      api: { port: 8080, host: "127.0.0.1", keys: null, allowedOrigins: [] },
    });
  });

  test("are overridden by the environment, leaf by leaf", () => {
    const settings = resolve("{ worker: { queues: [{ name: default }, { name: slow }] } }", {
      TURNO_RUNTIME_WORKER_QUEUES_0_CONCURRENCY: "8",
      TURNO_RUNTIME_WORKER_QUEUES_2_NAME: "extra",
      TURNO_RUNTIME_WORKER_LEASE_DURATION: "90s",
      TURNO_RUNTIME_DATABASE_POOL_SIZE: "20",
      TURNO_RUNTIME_SAMPLES: "false",
      TURNO_RUNTIME_API_ALLOWED_ORIGINS_0: "https://ops.example.com",
      TURNO_RUNTIME_API_PORT: "0",
      TURNO_ENV: "prod",
    });
    expect(settings.worker.queues).toEqual([
      { name: "default", concurrency: 8 },
      { name: "slow", concurrency: 4 },
      { name: "extra", concurrency: 4 },
    ]);
    expect(settings.worker.leaseDurationMs).toBe(90_000);
    expect(settings.database.poolSize).toBe(20);
    expect(settings.samples).toBe(false);
    expect(settings.api).toMatchObject({ port: 0, allowedOrigins: ["https://ops.example.com"] });
  });

  test.each([
    ["TURNO_RUNTIME_WORKER_LEASEDURATION", "60s", "Did you mean TURNO_RUNTIME_WORKER_LEASE_DURATION?"],
    ["TURNO_RUNTIME_WORKER_LEASE_DURATION", "soon", null],
    ["TURNO_RUNTIME_WORKER_LEASE_RENEWAL", "50s", null],
    ["TURNO_RUNTIME_API_PORT", "http", null],
    ["TURNO_RUNTIME_API_PORT", "70000", null],
    ["TURNO_RUNTIME_SAMPLES", "yes", null],
    ["TURNO_RUNTIME_WORKER_QUEUES_2_NAME", "x", null],
    ["TURNO_RUNTIME_WORKER_QUEUES_1_CONCURRENCY", "3", null],
    ["TURNO_RUNTIME_BROKER_TRANSPORT", "rabbitmq", null],
  ])("%s=%s is refused", (name, value, hint) => {
    expect(() => resolve("{}", { [name]: value })).toThrow(
      expect.objectContaining({ code: "TURNO_CONFIG_SETTING", hint }),
    );
  });

  test("take secrets from the environment and from files", () => {
    const runtime = `{ database: { url: "postgres://turno:${reference("env:PW")}@db/turno" }, api: { keysFrom: file:/run/keys, host: "${reference("env:HOST")}" } }`;
    const settings = resolve(runtime, { PW: "s3cret", HOST: "::1" }, (path) => `content of ${path}\n`);
    expect(settings.database.url).toBe("postgres://turno:s3cret@db/turno");
    expect(settings.api).toMatchObject({ keys: "content of /run/keys", host: "::1" });
  });

  test("fall back to the well-known variables", () => {
    const settings = resolve("{}", { TURNO_DATABASE_URL: "postgres://db/turno", TURNO_API_KEYS: "a:read:b" });
    expect([settings.database.url, settings.api.keys]).toEqual(["postgres://db/turno", "a:read:b"]);
    expect(resolve("{}", { TURNO_DATABASE_URL: "", TURNO_API_KEYS: "" }).database.url).toBeNull();
  });

  test("name the variable or file that is missing, and never run without it", () => {
    const refused = expect.objectContaining({ code: "TURNO_CONFIG_REFERENCE" });
    expect(() => resolve(`{ database: { url: "${reference("env:PW")}" } }`)).toThrow(refused);
    expect(() => resolve("{ api: { keysFrom: env:KEYS } }")).toThrow(/KEYS, which is not set/);
    expect(() => resolve("{ api: { keysFrom: file:/none } }")).toThrow(/ENOENT/);
  });

  test("a secret that stands where its place is to be named is never shown", () => {
    const secret = "ops:operate:Sup3rSecret";
    const text = declare("Project", "acme", `{ timeZone: UTC, runtime: { api: { keysFrom: "${secret}" } } }`);
    const { files, problems } = load("# nothing\n", { project: text });
    expect(problems.map(({ code }) => code)).toContain("TURNO_CONFIG_SECRET");
    for (const format of ["text", "json", "github", "sarif"] as const) {
      expect(formatReport(problems, format, { files, colour: false, version: "0" })).not.toContain("Sup3rSecret");
    }
    expect(() => resolve("{}", { TURNO_RUNTIME_API_KEYS_FROM: secret })).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining("Sup3rSecret") }),
    );
  });

  test("the files' own settings keep the text of references", () => {
    const { runtime } = project(`{ database: { url: "${reference("env:DB")}" }, api: { keysFrom: env:KEYS } }`);
    expect(runtime.database.url).toBe(reference("env:DB"));
    expect(runtime.api.keys).toBe(reference("env:KEYS"));
  });

  test("writing and reading settings gives them back", () => {
    const ms = fc.integer({ min: 100, max: 20_000 });
    fc.assert(
      fc.property(ms, ms, fc.boolean(), fc.integer({ min: 2, max: 1000 }), (lease, other, samples, poolSize) => {
        const base = project();
        const settings = {
          ...base.runtime,
          samples,
          database: { url: null, poolSize },
          worker: { ...base.runtime.worker, leaseDurationMs: lease + 1000, heartbeatMs: other },
          api: { ...base.runtime.api, keys: reference("env:KEYS") },
        };
        const checked = validateRuntime(writeRuntime(settings) as never);
        expect(checked.ok && readRuntime(checked.value)).toEqual(settings);
      }),
    );
  });

  test("variables are named by their path", () => {
    expect(variableOf(["worker", "queues", 0, "concurrency"])).toBe("TURNO_RUNTIME_WORKER_QUEUES_0_CONCURRENCY");
    expect(variableOf(["api", "keysFrom"])).toBe("TURNO_RUNTIME_API_KEYS_FROM");
  });
});
