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
      broker: {
        transport: "postgres",
        prefix: "turno",
        rabbitmq: { url: null, vhost: null, tls: { ca: null, cert: null, key: null, serverName: null } },
        servicebus: { connectionString: null },
      },
      locks: { driver: "none", redlock: { urls: [], prefix: "turno", expiryMs: 30_000 } },
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
    ["TURNO_RUNTIME_BROKER_TRANSPORT", "kafka", null],
    ["TURNO_RUNTIME_BROKER_RABBITMQ_ADDRESS", "amqp://mq", "Did you mean TURNO_RUNTIME_BROKER_RABBITMQ_URL?"],
  ])("%s=%s is refused", (name, value, hint) => {
    expect(() => resolve("{}", { [name]: value })).toThrow(
      expect.objectContaining({ code: "TURNO_CONFIG_SETTING", hint }),
    );
  });

  test("switch to a broker and to locks by the environment alone, as on a machine without the files", () => {
    const settings = resolve("{}", {
      TURNO_RUNTIME_BROKER_TRANSPORT: "rabbitmq",
      TURNO_RUNTIME_BROKER_PREFIX: "acme",
      TURNO_RUNTIME_BROKER_RABBITMQ_VHOST: "ops",
      TURNO_RUNTIME_BROKER_RABBITMQ_TLS_SERVER_NAME: "mq.internal",
      TURNO_RABBITMQ_URL: "amqps://turno:s3cret@mq",
      TURNO_RUNTIME_LOCKS_DRIVER: "redlock",
      TURNO_RUNTIME_LOCKS_REDLOCK_URLS_0: "redis://a",
      TURNO_RUNTIME_LOCKS_REDLOCK_URLS_1: "redis://b",
      TURNO_RUNTIME_LOCKS_REDLOCK_URLS_2: "redis://c",
      TURNO_RUNTIME_LOCKS_REDLOCK_EXPIRY: "10s",
      TURNO_SERVICEBUS_CONNECTION_STRING: "Endpoint=sb://x/",
    });
    expect(settings.broker).toMatchObject({
      transport: "rabbitmq",
      prefix: "acme",
      rabbitmq: { url: "amqps://turno:s3cret@mq", vhost: "ops", tls: { serverName: "mq.internal" } },
      servicebus: { connectionString: "Endpoint=sb://x/" },
    });
    expect(settings.locks).toEqual({
      driver: "redlock",
      redlock: { urls: ["redis://a", "redis://b", "redis://c"], prefix: "turno", expiryMs: 10_000 },
    });
  });

  test("refuse an even number of Redis nodes by the variable's name", () => {
    const env = { TURNO_RUNTIME_LOCKS_REDLOCK_URLS_0: "redis://a", TURNO_RUNTIME_LOCKS_REDLOCK_URLS_1: "redis://b" };
    expect(() => resolve("{}", env)).toThrow(/spec\.runtime\.locks\.redlock\.urls: expected an odd number/);
  });

  test("take a broker's secrets by reference, and none of them when a supervisor hands the settings down", () => {
    const runtime = `{ broker: { transport: rabbitmq, rabbitmq: { url: "amqps://turno:${reference("env:PW")}@mq", tls: { ca: "${reference("file:/ca.pem")}" } } }, locks: { driver: redlock, redlock: { urls: ["redis://:${reference("env:PW")}@r"] } } }`;
    const settings = resolve(runtime, { PW: "s3cret" }, (path) => `content of ${path}\n`);
    expect(settings.broker.rabbitmq).toMatchObject({
      url: "amqps://turno:s3cret@mq",
      tls: { ca: "content of /ca.pem" },
    });
    expect(settings.locks.redlock.urls).toEqual(["redis://:s3cret@r"]);
    expect(JSON.stringify(writeRuntime(project(runtime).runtime))).not.toContain("s3cret");
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
          broker: {
            ...base.runtime.broker,
            transport: "servicebus" as const,
            rabbitmq: {
              url: samples ? "amqp://mq" : null,
              vhost: "v",
              tls: { ca: "c", cert: "d", key: reference("file:/k"), serverName: samples ? null : "n" },
            },
          },
          locks: { driver: "redlock" as const, redlock: { urls: ["redis://a"], prefix: "p", expiryMs: other + 1_000 } },
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
