const text = { type: "string", minLength: 1 } as const;
const texts = { type: "array", items: text, minItems: 1 } as const;
const duration = { type: "string", pattern: "^(\\d+(ms|s|m|h))+$" } as const;
const bytes = { type: "string", pattern: "^\\d+[kmgKMG]$" } as const;

const closed = (properties: Readonly<Record<string, unknown>>, required: readonly string[] = []) => ({
  type: "object",
  additionalProperties: false,
  required,
  properties,
});

const healthcheck = closed(
  {
    test: texts,
    interval: duration,
    timeout: duration,
    retries: { type: "integer" },
    start_period: duration,
    start_interval: duration,
  },
  ["test", "interval", "timeout", "retries", "start_period"],
);

const mount = closed(
  {
    type: { enum: ["bind", "volume"] },
    source: text,
    target: { type: "string", pattern: "^/" },
    read_only: { type: "boolean" },
  },
  ["type", "source", "target"],
);

const service = closed(
  {
    image: text,
    build: closed({ context: text, dockerfile: text }, ["context"]),
    user: text,
    hostname: text,
    init: { type: "boolean" },
    command: texts,
    environment: { type: "object", additionalProperties: text },
    ports: { type: "array", items: { type: "string", pattern: "^[\\d.]+:\\d+:\\d+$" } },
    volumes: { type: "array", items: mount },
    tmpfs: texts,
    shm_size: bytes,
    depends_on: {
      type: "object",
      additionalProperties: closed(
        { condition: { enum: ["service_started", "service_healthy", "service_completed_successfully"] } },
        ["condition"],
      ),
    },
    healthcheck,
    stop_signal: { type: "string", pattern: "^SIG[A-Z]+$" },
    stop_grace_period: duration,
    restart: { enum: ["no", "always", "on-failure", "unless-stopped"] },
    read_only: { type: "boolean" },
    cap_drop: texts,
    security_opt: texts,
    logging: closed({ driver: text, options: { type: "object", additionalProperties: { type: "string" } } }, [
      "driver",
    ]),
    deploy: closed({
      replicas: { type: "integer", minimum: 1 },
      resources: closed({ limits: closed({ cpus: { type: "string", pattern: "^\\d+(\\.\\d+)?$" }, memory: bytes }) }),
    }),
  },
  ["image", "healthcheck"],
);

/** What of the Compose Specification the project's file uses; a misspelt key is none of it. */
export const COMPOSE_SCHEMA = {
  type: "object",
  additionalProperties: false,
  required: ["name", "services"],
  properties: {
    name: { type: "string", pattern: "^[a-z0-9][a-z0-9_-]*$" },
    services: { type: "object", additionalProperties: service },
    volumes: { type: "object", additionalProperties: { anyOf: [{ type: "null" }, closed({ name: text })] } },
  },
  patternProperties: { "^x-": {} },
};
