import { describe, expect, test } from "vitest";
import { hashObject } from "../../runtime/config/hash.ts";
import { loadProject } from "../../runtime/config/load-project.ts";
import { standardPolicy } from "../../runtime/config/normalize.ts";
import { declare, find, load, PROJECT, places } from "./project-files.ts";

const JOB = declare("Job", "x", "{ handler: builtin/command }");
const codes = (text: string, options: Parameters<typeof load>[1] = {}): readonly string[] =>
  load(text, options).problems.map(({ code }) => code);

describe("a valid project", () => {
  test("becomes frozen objects with defaults, milliseconds and positions, sorted by kind and name", () => {
    const { state, problems } = load(`${declare("Schedule", "nightly", "{ job: x, cron: 0 2 * * * }")}---
${declare("Policy", "patient", "{ retry: { maxAttempts: 8, backoff: { initial: 30s, max: 1h } }, timeout: 30m }")}---
${declare("Queue", "default", "{ concurrency: 4 }")}---
${declare("Job", "x", "{ handler: builtin/command, policy: patient, timeout: 20m, retention: { succeeded: 30d } }")}`);
    expect(problems).toEqual([]);
    expect(state?.objects.map(({ kind, name, line }) => `${kind}/${name}:${line}`)).toEqual([
      "Job/x:17",
      "Policy/patient:7",
      "Queue/default:12",
      "Schedule/nightly:2",
    ]);
    expect(find(state?.objects, "Job", "x").spec).toEqual({
      handler: "builtin/command",
      queue: "default",
      policy: "patient",
      timeoutMs: 1_200_000,
      settings: {},
      isolation: "thread",
      payloadSchema: null,
      retention: { succeededMs: 30 * 86_400_000, cancelledMs: 7 * 86_400_000, failedMs: 30 * 86_400_000 },
    });
    expect(find(state?.objects, "Schedule", "nightly").spec).toEqual({
      job: "x",
      timing: { kind: "cron", expression: "0 2 * * *", timeZone: "UTC" },
      timeZone: "UTC",
      payload: {},
      concurrencyPolicy: "Forbid",
      misfirePolicy: "latest",
      runOnStart: false,
      suspend: false,
    });
    expect(find(state?.objects, "Policy", "patient").spec.retry).toEqual({
      maxAttempts: 8,
      backoff: { type: "exponential", initialMs: 30_000, maxMs: 3_600_000, jitter: 0.2 },
    });
    expect(Object.isFrozen(find(state?.objects, "Job", "x").spec.settings)).toBe(true);
    expect(Object.isFrozen(state?.objects)).toBe(true);
  });

  test("gives the same hash for the same files in another order, and another one for another content", () => {
    const queue = declare("Queue", "default", "{ concurrency: 4 }");
    const hash = (...files: [string, string][]): string | undefined =>
      loadProject(new Map([["turno.yaml", PROJECT], ...files])).state?.contentHash;
    const first = hash(["turno.d/a.yaml", JOB], ["turno.d/b.yaml", queue]);
    expect(first).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(hash(["turno.d/b.yaml", queue], ["turno.d/a.yaml", JOB])).toBe(first);
    expect(hash(["turno.d/b.yaml", queue.replace("4", "5")], ["turno.d/a.yaml", JOB])).not.toBe(first);
  });

  test("an object's own hash does not change with its place", () => {
    const here = find(load(JOB).state?.objects, "Job", "x");
    const below = find(load(`# a comment\n\n${JOB}`).state?.objects, "Job", "x");
    expect(below.line).not.toBe(here.line);
    expect(hashObject(below)).toBe(hashObject(here));
  });

  test("the built-in policy has the defaults of the semantics", () => {
    expect(standardPolicy()).toEqual({
      immediateRetry: { attempts: 2, initialMs: 500 },
      retry: { maxAttempts: 5, backoff: { type: "exponential", initialMs: 15_000, maxMs: 900_000, jitter: 0.2 } },
      timeoutMs: 600_000,
      maxLost: 3,
      maxLostUnstarted: 20,
      maxReturns: 20,
    });
  });

  test("spec.defaults stand in for what documents don't say", () => {
    const defaults = "defaults: { Job: { timeout: 3m, isolation: process }, Schedule: { misfirePolicy: none } }";
    const { state } = load(
      `${JOB}---\n${declare("Job", "y", "{ handler: builtin/command, timeout: 1m }")}---\n${declare("Schedule", "s", "{ job: x, every: 5m }")}`,
      { project: PROJECT.replace("UTC }", `UTC, ${defaults} }`) },
    );
    expect(find(state?.objects, "Job", "x").spec).toMatchObject({ timeoutMs: 180_000, isolation: "process" });
    expect(find(state?.objects, "Job", "y").spec).toMatchObject({ timeoutMs: 60_000, isolation: "process" });
    expect(find(state?.objects, "Schedule", "s").spec.misfirePolicy).toBe("none");
  });

  test("samples can be switched off in the files and from outside", () => {
    const sample = JOB.replace("{ name: x }", '{ name: x, labels: { turno.sample: "true" } }');
    const project = PROJECT.replace("UTC }", "UTC, runtime: { samples: false } }");
    expect(load(sample).state?.objects).toHaveLength(1);
    expect(load(sample, { environment: { TURNO_RUNTIME_SAMPLES: "false" } }).state?.objects).toEqual([]);
    expect(load(sample, { project }).state?.objects).toEqual([]);
    expect(load(sample, { project, environment: { TURNO_RUNTIME_SAMPLES: "true" } }).state?.objects).toHaveLength(1);
  });
});

test("the environment's settings decide retention and served queues as they decide what a process runs with", () => {
  const job = declare("Job", "x", "{ handler: x.ts, queue: extra, retention: { failed: 1h } }");
  const environment = {
    TURNO_RUNTIME_RETENTION_SUCCEEDED: "2d",
    TURNO_RUNTIME_RETENTION_FAILED: "3d",
    TURNO_RUNTIME_WORKER_QUEUES_1_NAME: "extra",
  };
  expect(codes(job)).toEqual(["TURNO_CONFIG_UNKNOWN_OBJECT"]);
  const { state, problems } = load(job, { environment });
  expect(problems).toEqual([]);
  expect(find(state?.objects, "Job", "x").spec.retention).toMatchObject({
    succeededMs: 172_800_000,
    failedMs: 3_600_000,
  });
  // What the revision keeps of the project is what its file says.
  expect(state?.project.spec.runtime.retention.succeededMs).toBe(604_800_000);
});

test("a variable that does not go with the files is a problem of theirs", () => {
  expect(load(JOB, { environment: { TURNO_RUNTIME_WORKER_QUEUES_4_NAME: "far" } }).problems).toMatchObject([
    { code: "TURNO_CONFIG_SETTING", file: "turno.yaml", message: expect.stringContaining("without gaps") },
  ]);
});

describe("the project file", () => {
  test("must be there, with a hint when its name is another one", () => {
    const { state, problems } = loadProject(new Map([["turno.yml", PROJECT]]));
    expect(state).toBeNull();
    expect(problems).toMatchObject([{ code: "TURNO_PROJECT_MISSING", hint: "Rename turno.yml to turno.yaml." }]);
  });

  test("must hold exactly one Project, and other files none", () => {
    expect(codes(JOB, { project: declare("Queue", "default", "{}") })).toContain("TURNO_CONFIG_PROJECT");
    expect(codes(JOB, { project: `${PROJECT}---\n${PROJECT}` })).toEqual(["TURNO_CONFIG_PROJECT"]);
    expect(places(load(`${JOB}---\n${PROJECT}`).problems)).toEqual(["turno.d/a.yaml:7:1 TURNO_CONFIG_PROJECT"]);
  });

  test("is given when it is valid, whatever the other documents are", () => {
    expect(load("a: [").project?.name).toBe("acme");
    expect(load(JOB, { project: PROJECT.replace("UTC", "Mars/Base") }).project).toBeNull();
    expect(load(JOB, { project: "a: [" }).project).toBeNull();
  });

  test("may hold other documents too", () => {
    const { state } = load(declare("Schedule", "s", "{ job: x, every: 5m }"), { project: `${PROJECT}---\n${JOB}` });
    expect(find(state?.objects, "Job", "x").file).toBe("turno.yaml");
  });

  test("warns when its includes match nothing", () => {
    const { state, problems } = loadProject(new Map([["turno.yaml", PROJECT]]));
    expect(state?.objects).toEqual([]);
    expect(problems).toMatchObject([{ code: "TURNO_INCLUDE_EMPTY", severity: "warning" }]);
  });

  test("refuses includes that leave the folder, zones that don't exist and leases that can't be renewed", () => {
    const bad = (spec: string): readonly string[] =>
      load(JOB, { project: declare("Project", "acme", spec) })
        .problems.filter(({ severity }) => severity === "error")
        .map(({ path }) => path);
    expect(bad("{ timeZone: UTC, include: [../x/*.yaml] }")).toEqual(["/spec/include/0"]);
    expect(bad("{ timeZone: America/Sao_Paolo }")).toEqual(["/spec/timeZone"]);
    expect(bad("{ timeZone: UTC, runtime: { worker: { leaseRenewal: 30s } } }")).toEqual([
      "/spec/runtime/worker/leaseRenewal",
    ]);
    expect(bad("{ timeZone: UTC, runtime: { worker: { queues: [{ name: default }, { name: default }] } } }")).toEqual([
      "/spec/runtime/worker/queues/1/name",
    ]);
  });
});

describe("what later versions have", () => {
  test.each([
    ["Policy", "{ circuitBreaker: {} }", "/spec/circuitBreaker"],
    ["Queue", "{ rateLimit: {} }", "/spec/rateLimit"],
    ["Job", "{ handler: builtin/command, settingsSchema: {} }", "/spec/settingsSchema"],
    ["Job", "{ script: x }", "/spec/script"],
    ["Job", "{ handler: builtin/command, isolation: sandbox }", "/spec/isolation"],
    ["Schedule", "{ workflow: x, cron: 0 2 * * * }", "/spec/workflow"],
  ] as const)("a %s with %s is refused and says so", (kind, spec, path) => {
    const { problems } = load(`${declare(kind, "z", spec)}---\n${JOB}`);
    expect(problems[0]).toMatchObject({ path });
    expect(problems[0]?.message).toContain("comes in a later version");
  });

  test.each(["Trigger", "Workflow"])("the kind %s is refused and says so", (kind) => {
    const { problems } = load(`apiVersion: turno/v1\nkind: ${kind}\nmetadata: { name: z }\n`);
    expect(problems).toMatchObject([{ code: "TURNO_CONFIG_UNKNOWN_KIND", line: 2 }]);
    expect(problems[0]?.message).toContain("comes in a later version");
  });

  test("brokers and locks are those that work", () => {
    const project = (runtime: string): readonly string[] =>
      codes(JOB, { project: declare("Project", "acme", `{ timeZone: UTC, runtime: ${runtime} }`) });
    expect(project("{ broker: { transport: postgres }, locks: { driver: none } }")).toEqual([]);
    expect(project("{ broker: { transport: rabbitmq, rabbitmq: { url: 'amqps://mq/turno' } } }")).toEqual([]);
    expect(project("{ broker: { transport: kafka } }")).toEqual(["TURNO_CONFIG_VALUE"]);
    expect(project("{ connections: {} }")).toEqual(["TURNO_CONFIG_UNKNOWN_KEY"]);
  });

  test("an even number of Redis nodes is refused where it stands", () => {
    const runtime =
      "{ broker: { transport: rabbitmq }, locks: { driver: redlock, redlock: { urls: ['redis://a', 'redis://b'] } } }";
    const { problems } = load(JOB, {
      project: declare("Project", "acme", `{ timeZone: UTC, runtime: ${runtime} }`),
    });
    expect(problems).toMatchObject([
      { code: "TURNO_CONFIG_VALUE", path: "/spec/runtime/locks/redlock/urls", severity: "error" },
    ]);
    expect(problems[0]?.message).toContain("odd number of Redis nodes");
  });

  test("locks without a broker are a warning: nothing asks for them", () => {
    const runtime = "{ locks: { driver: redlock, redlock: { urls: ['redis://a'] } } }";
    const { problems, state } = load(JOB, {
      project: declare("Project", "acme", `{ timeZone: UTC, runtime: ${runtime} }`),
    });
    expect(problems).toMatchObject([{ path: "/spec/runtime/locks/driver", severity: "warning" }]);
    expect(state).not.toBeNull();
  });

  test("a certificate without its key, and a key that stands in a file, are refused", () => {
    const tls = (text: string): readonly string[] =>
      codes(JOB, {
        project: declare("Project", "acme", `{ timeZone: UTC, runtime: { broker: { rabbitmq: { tls: ${text} } } } }`),
      });
    const reference = (text: string): string => "$".concat(`{${text}}`);
    expect(tls(`{ cert: "${reference("file:/c")}" }`)).toEqual(["TURNO_CONFIG_VALUE"]);
    expect(tls(`{ cert: "${reference("file:/c")}", key: "${reference("file:/k")}" }`)).toEqual([]);
    expect(tls('{ cert: x, key: "-----BEGIN PRIVATE KEY-----" }')).toEqual(["TURNO_CONFIG_SECRET"]);
  });

  test.each([
    ["rabbitmq: { url: 'amqp://turno:secret@mq' }"],
    ["servicebus: { connectionString: 'Endpoint=sb://x/;SharedAccessKeyName=a;SharedAccessKey=b64=' }"],
  ])("credentials of a broker in a file are refused: %s", (broker) => {
    const project = declare("Project", "acme", `{ timeZone: UTC, runtime: { broker: { ${broker} } } }`);
    expect(codes(JOB, { project })).toEqual(["TURNO_CONFIG_SECRET"]);
  });

  test("expressions are refused where none may stand", () => {
    const expression = "$".concat("{{ payload.x }}");
    expect(
      codes(`${JOB}---\n${declare("Schedule", "s", `{ job: x, every: 5m, payload: { a: "${expression}" } }`)}`),
    ).toEqual(["TURNO_CONFIG_EXPRESSION"]);
  });
});

describe("schedules", () => {
  const schedule = (spec: string): ReturnType<typeof load> => load(`${JOB}---\n${declare("Schedule", "s", spec)}`);

  test("have exactly one of cron, every and at, told as one problem", () => {
    expect(schedule("{ job: x }").problems).toMatchObject([{ code: "TURNO_CONFIG_MISSING_KEY", path: "/spec" }]);
    expect(schedule("{ job: x, cron: 0 2 * * *, every: 5m }").problems).toMatchObject([{ code: "TURNO_CONFIG_VALUE" }]);
  });

  test("read every form of timing", () => {
    const timing = (spec: string): unknown => find(schedule(spec).state?.objects, "Schedule", "s").spec.timing;
    expect(timing("{ job: x, every: 5m }")).toEqual({ kind: "every", intervalMs: 300_000, from: "epoch" });
    expect(timing("{ job: x, every: { interval: 40s, from: finish } }")).toEqual({
      kind: "every",
      intervalMs: 40_000,
      from: "finish",
    });
    expect(timing("{ job: x, at: 2026-12-24T18:00:00-03:00 }")).toEqual({ kind: "at", at: "2026-12-24T21:00:00.000Z" });
    expect(timing("{ job: x, cron: '0 0 6 * * 1-5', timeZone: America/Sao_Paulo }")).toEqual({
      kind: "cron",
      expression: "0 0 6 * * 1-5",
      timeZone: "America/Sao_Paulo",
    });
  });

  test("refuse timings that mean nothing, at their own place", () => {
    expect(places(schedule("{ job: x, cron: 0 25 * * * }").problems)).toEqual([
      "turno.d/a.yaml:9:23 TURNO_CRON_INVALID",
    ]);
    for (const spec of ["at: 2026-02-30T00:00:00Z", "at: tomorrow", "at: 2026-12-24T18:00:00"]) {
      expect(schedule(`{ job: x, ${spec} }`).problems).toMatchObject([
        { code: "TURNO_TIME_INVALID", path: "/spec/at" },
      ]);
    }
    for (const spec of [
      "every: 5",
      "every: 100ms",
      "every: 500d",
      "every: {}",
      "every: { interval: 1s, from: start }",
    ]) {
      expect(schedule(`{ job: x, ${spec} }`).problems).toHaveLength(1);
    }
  });

  test("must have a time zone of the database, with the nearest one as a hint", () => {
    expect(schedule("{ job: x, every: 5m, timeZone: Europe/Lisbonn }").problems).toMatchObject([
      { code: "TURNO_TIME_INVALID", hint: "Europe/Lisbon" },
    ]);
    const { problems } = load(`${JOB}---\n${declare("Schedule", "s", "{ job: x, every: 5m }")}`, {
      project: declare("Project", "acme", "{}"),
    });
    expect(problems).toMatchObject([{ code: "TURNO_CONFIG_MISSING_KEY", path: "/spec/timeZone" }]);
  });

  test("a date that never comes is a warning", () => {
    const { state, problems } = schedule("{ job: x, cron: 0 0 30 2 * }");
    expect(state).not.toBeNull();
    expect(problems).toMatchObject([{ code: "TURNO_CRON_INVALID", severity: "warning" }]);
  });

  test("several mistakes of one document are told together", () => {
    expect(
      schedule("{ job: x, cron: 0 25 * * *, timeZone: Mars/Base, runOnStart: maybe }").problems.map(({ path }) => path),
    ).toEqual(["/spec/cron", "/spec/timeZone", "/spec/runOnStart"]);
  });
});

describe("references between objects", () => {
  test("must lead somewhere, with the nearest name as a hint", () => {
    const { problems } = load(
      `${declare("Job", "boletos.gerar", "{ handler: builtin/command, policy: standart, queue: defalt }")}---
${declare("Schedule", "s", "{ job: boletos.gera, every: 5m }")}`,
    );
    expect(problems.map(({ code, path, hint }) => [code, path, hint])).toEqual([
      ["TURNO_CONFIG_UNKNOWN_OBJECT", "/spec/policy", "standard"],
      ["TURNO_CONFIG_UNKNOWN_OBJECT", "/spec/queue", "default"],
      ["TURNO_CONFIG_UNKNOWN_OBJECT", "/spec/job", "boletos.gerar"],
    ]);
  });

  test("to an object that has a mistake of its own are not a second mistake", () => {
    const { problems } = load(
      `${declare("Job", "x", "{ handler: builtin/command, timeout: soon }")}---\n${declare("Schedule", "s", "{ job: x, every: 5m }")}`,
    );
    expect(problems.map(({ path }) => path)).toEqual(["/spec/timeout"]);
  });

  test("a queue that a worker serves needs no document, and one that none serves is a warning", () => {
    const project = PROJECT.replace("UTC }", "UTC, runtime: { worker: { queues: [{ name: fast }] } } }");
    expect(codes(declare("Job", "x", "{ handler: builtin/command, queue: fast }"), { project })).toEqual([]);
    const { state, problems } = load(
      `${declare("Queue", "slow", "{}")}---\n${declare("Job", "x", "{ handler: builtin/command, queue: slow }")}`,
      { project },
    );
    expect(state).not.toBeNull();
    expect(problems).toMatchObject([{ code: "TURNO_CONFIG_UNSERVED_QUEUE", severity: "warning" }]);
  });
});

describe("handlers", () => {
  test("must be files below the handlers' folder", () => {
    for (const handler of ["../x.ts", "/x.ts", "x", "a//b.ts", "./x.ts", "a/../b.ts", "a\\b.ts", "builtin/x.ts"]) {
      expect(load(declare("Job", "x", `{ handler: '${handler}' }`)).state).toBeNull();
    }
    const seen: string[] = [];
    const handlerExists = (path: string): boolean => seen.push(path) > 1;
    expect(codes(declare("Job", "x", "{ handler: a/b.ts }"), { handlerExists })).toEqual(["TURNO_CONFIG_HANDLER"]);
    expect(codes(declare("Job", "x", "{ handler: a/b.ts }"), { handlerExists })).toEqual([]);
    expect(seen).toEqual(["handlers/a/b.ts", "handlers/a/b.ts"]);
  });

  test("that ship with Turno are known by name, and their settings are checked", () => {
    expect(load(declare("Job", "x", "{ handler: builtin/comand }")).problems).toMatchObject([
      { code: "TURNO_CONFIG_HANDLER", hint: "builtin/command" },
    ]);
    const builtinSettings = new Map([
      ["builtin/command", { type: "object", required: ["command"], properties: { command: { type: "array" } } }],
    ]);
    expect(load(JOB, { builtinSettings }).problems).toMatchObject([
      { code: "TURNO_CONFIG_VALUE", path: "/spec/settings/command", line: 4 },
    ]);
    expect(
      codes(declare("Job", "x", "{ handler: builtin/command, settings: { command: [ls] } }"), { builtinSettings }),
    ).toEqual([]);
  });
});

describe("payloads", () => {
  const typed =
    "{ handler: builtin/command, payload: { type: object, required: [lote], properties: { lote: { type: integer } }, additionalProperties: false } }";

  test("of a schedule are checked against the job's schema, at their own place", () => {
    const { problems } = load(
      `${declare("Job", "x", typed)}---\n${declare("Schedule", "s", "{ job: x, every: 5m, payload: { lote: seven, more: 1 } }")}`,
    );
    expect(problems.map(({ code, path }) => [code, path])).toEqual([
      ["TURNO_CONFIG_PAYLOAD", "/spec/payload/lote"],
      ["TURNO_CONFIG_PAYLOAD", "/spec/payload/more"],
    ]);
    expect(codes(`${declare("Job", "x", typed)}---\n${declare("Schedule", "s", "{ job: x, every: 5m }")}`)).toEqual([
      "TURNO_CONFIG_PAYLOAD",
    ]);
  });

  test("can be described by a file, which may refer to others", () => {
    const job = declare("Job", "x", "{ handler: builtin/command, payload: { $ref: ../schemas/lote.json } }");
    const { state, problems } = load(
      `${job}---\n${declare("Schedule", "s", "{ job: x, every: 5m, payload: { lote: 0 } }")}`,
      {
        others: {
          "schemas/lote.json": `{\n\t"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.com/lote",\n\t"type": "object", "properties": { "lote": { "$ref": "parts/number.json#/$defs/positive" }, "next": { "$ref": "#" } } }`,
          "schemas/parts/number.json":
            '{ "$defs": { "positive": { "allOf": [{ "$ref": "#/$defs/whole" }], "minimum": 1 }, "whole": { "type": "integer" } } }',
        },
      },
    );
    expect(state).toBeNull();
    expect(problems).toMatchObject([{ code: "TURNO_CONFIG_PAYLOAD", path: "/spec/payload/lote" }]);
  });

  test("schemas that can't be used are refused where they stand", () => {
    const schema = (text: string, others: Record<string, string> = {}): readonly (readonly [string, string])[] =>
      load(declare("Job", "x", `{ handler: builtin/command, payload: ${text} }`), { others }).problems.map(
        ({ file, path }) => [file, path],
      );
    const here = "turno.d/a.yaml";
    expect(schema("{ type: objekt }")).toEqual([[here, "/spec/payload/type"]]);
    expect(schema("{ properties: { a: { requird: [b] } } }")).toEqual([[here, "/spec/payload/properties/a/requird"]]);
    expect(schema("{ properties: { a: { pattern: '(a+)+$' } } }")).toEqual([
      [here, "/spec/payload/properties/a/pattern"],
    ]);
    expect(schema("{ $ref: ../missing.json }")).toEqual([[here, "/spec/payload/$ref"]]);
    expect(schema("{ $ref: ../../outside.json }")).toEqual([[here, "/spec/payload/$ref"]]);
    expect(schema("{ $ref: 'https://example.com/x.json' }")).toEqual([[here, "/spec/payload/$ref"]]);
    expect(schema("{ $ref: '#/$defs/none' }")).toEqual([[here, "/spec/payload"]]);
    expect(schema("{ $schema: 'http://json-schema.org/draft-07/schema#' }")).toEqual([[here, "/spec/payload"]]);
    expect(schema("{ $ref: x.json }", { "turno.d/x.json": '{ "type": ' })).toEqual([["turno.d/x.json", ""]]);
  });
});

describe("secrets", () => {
  const runtime = (text: string): readonly string[] =>
    codes(JOB, { project: declare("Project", "acme", `{ timeZone: UTC, runtime: ${text} }`) });
  const reference = (text: string): string => "$".concat(`{${text}}`);

  test("are refused as literals and allowed as references under spec.runtime", () => {
    expect(runtime('{ database: { url: "postgres://turno:s3cret@db/turno" } }')).toEqual(["TURNO_CONFIG_SECRET"]);
    expect(runtime('{ database: { url: "postgres://db/turno?user=a&password=b" } }')).toEqual(["TURNO_CONFIG_SECRET"]);
    expect(runtime(`{ database: { url: "postgres://turno:${reference("env:PW")}@db/turno" } }`)).toEqual([]);
    expect(runtime(`{ database: { url: "${reference("file:/run/secrets/url")}" } }`)).toEqual([]);
    expect(runtime(`{ database: { url: "${reference("vault:x")}" } }`)).toEqual(["TURNO_CONFIG_REFERENCE"]);
    expect(runtime(`{ database: { url: "${reference("env:a b")}" } }`)).toEqual(["TURNO_CONFIG_REFERENCE"]);
  });

  test("references outside spec.runtime are refused, but for the environment of a command", () => {
    const job = (settings: string): readonly string[] =>
      codes(declare("Job", "x", `{ handler: builtin/command, settings: ${settings} }`));
    expect(job(`{ url: "${reference("env:URL")}" }`)).toEqual(["TURNO_CONFIG_REFERENCE"]);
    expect(job(`{ env: { TOKEN: "${reference("env:TOKEN")}" } }`)).toEqual([]);
    expect(job(`{ env: { TOKEN: "Bearer ${reference("env:TOKEN")}" } }`)).toEqual([]);
    // The command's environment is put together from the worker's alone.
    expect(job(`{ env: { TOKEN: "${reference("file:/run/token")}" } }`)).toEqual(["TURNO_CONFIG_REFERENCE"]);
    expect(job("{ password: hunter2 }")).toEqual(["TURNO_CONFIG_SECRET"]);
    expect(job("{ tokens: 5, secretary: Ann }")).toEqual([]);
  });
});
