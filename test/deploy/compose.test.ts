import { readFileSync } from "node:fs";
import { Ajv } from "ajv";
import { describe, expect, test } from "vitest";
import { loadProject } from "../../runtime/config/load-project.ts";
import { resolveRuntimeSettings } from "../../runtime/config/runtime-settings.ts";
import { parseDuration } from "../../runtime/core/duration.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import { createHealthApp } from "../../web/health-app.ts";
import { COMPOSE_SCHEMA } from "./compose-schema.ts";
import {
  type ComposeService,
  ROOT,
  readCompose,
  readEnvFile,
  readReferences,
  readRootFile,
  unknownWords,
} from "./deployment-files.ts";

const SECRET = "0123456789abcdef";
const example = readEnvFile(readRootFile(".env.example"));
const filled = new Map(
  [...example].map(([name, value]) => [
    name,
    name === "TURNO_API_KEYS" ? `owner:admin:${"a".repeat(64)}` : value === "" ? SECRET : value,
  ]),
);
const compose = readCompose(filled);
const services = Object.entries(compose.services);
const ours = services.filter(([, { image }]) => image.startsWith("turno:"));

/** Each service for which it does not hold. */
const without = (holds: (service: ComposeService, name: string) => boolean): readonly string[] =>
  services.filter(([name, service]) => !holds(service, name)).map(([name]) => name);

test("the compose file is one, in every key", () => {
  const validate = new Ajv({ allErrors: true, strict: true }).compile(COMPOSE_SCHEMA);
  validate(compose);
  expect(validate.errors ?? []).toEqual([]);
});

test("it has the API, a reconciler, three workers, PostgreSQL, RabbitMQ with its panel, and Redis", () => {
  expect(services.map(([name]) => name)).toEqual(["server", "reconciler", "worker", "postgres", "rabbitmq", "redis"]);
  expect(compose.services.worker?.deploy.replicas).toBe(3);
  expect(compose.services.rabbitmq?.image).toMatch(/-management$/);
  expect(compose.services.rabbitmq?.ports).toContain("127.0.0.1:15672:15672");
  expect(compose.services.server?.ports).toEqual(["127.0.0.1:8080:8080"]);
});

test("workers scale: no name, port or host name of theirs can be taken twice", () => {
  const { worker } = compose.services;
  expect(worker?.container_name).toBeUndefined();
  expect(worker?.ports).toBeUndefined();
  expect(worker).not.toHaveProperty("hostname");
});

describe("ports", () => {
  test("are all bound to this machine by default", () => {
    for (const variables of [filled, new Map([...filled].filter(([name]) => !/(PORT|HOST)$/.test(name)))]) {
      const ports = Object.values(readCompose(variables).services).flatMap((service) => service.ports ?? []);
      expect(ports.length).toBeGreaterThan(4);
      expect(ports.filter((port) => !port.startsWith("127.0.0.1:"))).toEqual([]);
    }
  });

  test("of the API alone can be exposed", () => {
    const exposed = new Map([
      ...filled,
      ...[...example.keys()].filter((name) => name.endsWith("HOST")).map((name) => [name, "0.0.0.0"] as const),
    ]);
    const open = Object.entries(readCompose(exposed).services).filter(([, { ports = [] }]) =>
      ports.some((port) => !port.startsWith("127.0.0.1:")),
    );
    expect(open.map(([name]) => name)).toEqual(["server"]);
  });
});

describe("secrets", () => {
  test("stand in no committed file: every password, key and cookie is a variable without a default", () => {
    expect([...example].filter(([name, value]) => /PASSWORD|KEY|COOKIE/.test(name) && value !== "")).toEqual([]);
    const text = readRootFile("docker-compose.yml");
    const named = [...text.matchAll(/^ +\w*(?:PASS|PASSWORD|COOKIE|KEYS?): (.*)$/gm)].map(([, value = ""]) => value);
    expect(named.length).toBeGreaterThan(5);
    expect(named.filter((value) => !/^\$\{[A-Z_]+:\?[^}]+\}$/.test(value))).toEqual([]);
    const addresses = [...text.matchAll(/\/\/\w*:([^@\s]+)@|\/\/\w*:(\$\{[^}]+\})@/g)];
    expect(addresses).toHaveLength(3);
    expect(text.match(/:\/\/\w*:(?!\$\{)[^/@\s]+@/g)).toBeNull();
  });

  test("are needed: without one compose names start.sh", () => {
    for (const name of [...example].filter(([, value]) => value === "").map(([name]) => name)) {
      const rest = new Map([...filled].filter(([other]) => other !== name));
      // The person's own key is given to no container.
      if (name === "TURNO_API_KEY") readCompose(rest);
      else expect(() => readCompose(rest)).toThrow(/start\.sh/);
    }
  });

  test("of the person reach no container: the server knows the hash of the key", () => {
    const marked = readCompose(new Map([...filled, ["TURNO_API_KEY", "the-key-itself"]]));
    expect(JSON.stringify(marked)).not.toContain("the-key-itself");
  });
});

test("every variable of .env.example is used, and every variable used stands there", () => {
  const used = [...readReferences(), "TURNO_API_KEY"].sort();
  expect([...example.keys()].sort()).toEqual(used);
  expect(readFileSync(`${ROOT}.gitignore`, "utf8").split("\n")).toContain(".env");
});

test("images are pinned by version, Turno's by that of the package", () => {
  const { version } = JSON.parse(readRootFile("package.json")) as { version: string };
  expect(without(({ image }) => /:\d+\.\d+(\.\d+)?(-[a-z]+)?$/.test(image))).toEqual([]);
  expect(ours.map(([, { image }]) => image)).toEqual(Array(3).fill(`turno:${version}`));
});

test("every service runs without rights it does not need, and within limits", () => {
  expect(without(({ user }) => user !== "" && user !== "root" && !user.startsWith("0"))).toEqual([]);
  expect(without(({ read_only }) => read_only)).toEqual([]);
  expect(without(({ cap_drop }) => cap_drop.includes("ALL"))).toEqual([]);
  expect(without(({ security_opt }) => security_opt.includes("no-new-privileges:true"))).toEqual([]);
  expect(without(({ tmpfs }) => tmpfs.includes("/tmp"))).toEqual([]);
  expect(without(({ deploy }) => deploy.resources.limits.memory !== "" && deploy.resources.limits.cpus !== "")).toEqual(
    [],
  );
  expect(without(({ restart }) => restart === "unless-stopped")).toEqual([]);
  expect(without(({ healthcheck }) => healthcheck.test.length > 1)).toEqual([]);
});

test("what is mounted from this machine can only be read, and every volume is declared", () => {
  const mounts = services.flatMap(([, { volumes = [] }]) => volumes);
  expect(mounts.filter(({ type, read_only }) => type === "bind" && read_only !== true)).toEqual([]);
  const named = mounts.filter(({ type }) => type === "volume").map(({ source }) => source);
  expect(new Set(named)).toEqual(new Set(Object.keys(compose.volumes)));
});

test("a service starts after the ones it needs are healthy, and every one of them is there", () => {
  for (const [name, { depends_on: needed }] of ours) {
    const names = Object.keys(needed ?? {});
    expect(names).toEqual(expect.arrayContaining(["postgres", "rabbitmq", "redis"]));
    if (name !== "server") expect(names).toContain("server");
    expect(Object.values(needed ?? {}).filter(({ condition }) => condition !== "service_healthy")).toEqual([]);
    expect(names.filter((other) => compose.services[other] === undefined)).toEqual([]);
  }
});

describe("what Turno is told", () => {
  test("are commands and options that it has", async () => {
    expect(ours).toHaveLength(3);
    for (const [name, { command }] of ours) {
      expect(command[0]).toBe(name);
      expect(await unknownWords(command)).toEqual([]);
    }
    expect(await unknownWords(["worker", "--health-prot", "1"])).toEqual(["--health-prot"]);
    expect(await unknownWords(["wroker"])).toEqual(["wroker"]);
  });

  test("are settings that it has: RabbitMQ and Redlock at the services' own addresses", () => {
    const { project } = loadProject(new Map([["turno.yaml", readRootFile("turno.yaml")]]));
    if (project === null) throw new Error("turno.yaml has problems");
    for (const [, { environment }] of ours) {
      const settings = resolveRuntimeSettings(project.spec, environment, () => "");
      expect(settings.database.url).toBe(`postgresql://turno:${SECRET}@postgres:5432/turno`);
      expect(settings.broker).toMatchObject({
        transport: "rabbitmq",
        rabbitmq: { url: `amqp://turno:${SECRET}@rabbitmq:5672/turno` },
      });
      expect(settings.locks).toMatchObject({ driver: "redlock", redlock: { urls: [`redis://:${SECRET}@redis:6379`] } });
    }
  });

  test("leave a worker time to drain: longer than shutdownTimeout and the end of its handlers", () => {
    const { project } = loadProject(new Map([["turno.yaml", readRootFile("turno.yaml")]]));
    const drainMs = (project?.spec.runtime.worker.shutdownTimeoutMs ?? Number.NaN) + 15_000;
    for (const [, { stop_grace_period: grace }] of ours) expect(parseDuration(grace)).toBeGreaterThan(drainMs);
  });

  test("makes each role answer where its health is asked for", async () => {
    const app = createHealthApp({
      logger: silentLogger,
      health: async () => ({ database: { status: "up", detail: null } }),
    });
    for (const [, { command, healthcheck }] of ours) {
      const url = new URL(healthcheck.test.at(-1) ?? "");
      const port = command[command.findIndex((word) => /^--(health-)?port$/.test(word)) + 1];
      expect(url.port).toBe(port);
      expect((await app.request(url.pathname)).status).toBe(200);
    }
  });
});
