import { expect, test } from "vitest";
import { type RabbitTls, readRabbitAddress } from "../../runtime/adapters/rabbitmq/address.ts";
import { explainQueueRefusal, explainRefusal } from "../../runtime/adapters/rabbitmq/failures.ts";
import { queueNames, queueOptions } from "../../runtime/adapters/rabbitmq/topology.ts";

const NO_TLS: RabbitTls = { ca: null, cert: null, key: null, serverName: null };

test("an address gives host, port, user and virtual host, escapes undone, and is shown without the user", () => {
  const read = (url: string, vhost: string | null = null) => readRabbitAddress({ url, vhost, tls: NO_TLS });
  const address = read("amqp://ann:p%40%2Fss@rabbit.example/jobs%2Fone");
  expect(address.connect).toMatchObject({
    protocol: "amqp",
    hostname: "rabbit.example",
    port: 5672,
    username: "ann",
    password: "p@/ss",
    vhost: "jobs%2Fone",
  });
  expect(address.shown).toBe("rabbit.example:5672/jobs/one");
  expect(read("amqp://[::1]:7000").connect).toMatchObject({
    hostname: "::1",
    port: 7000,
    username: "guest",
    vhost: "%2F",
  });
  expect(read("amqp://rabbit.example/a", "b").connect.vhost).toBe("b");
  expect(read("amqps://rabbit.example").connect.port).toBe(5671);
});

test("TLS settings reach the socket, and the name to check is the host's unless another is set", () => {
  const tls = { ca: "CA", cert: "CERT", key: "KEY", serverName: null };
  expect(readRabbitAddress({ url: "amqps://rabbit.example", vhost: null, tls }).socket).toMatchObject({
    ca: "CA",
    cert: "CERT",
    key: "KEY",
    servername: "rabbit.example",
  });
  const named = { ...tls, serverName: "other.example" };
  expect(readRabbitAddress({ url: "amqps://10.0.0.1", vhost: null, tls: named }).socket.servername).toBe(
    "other.example",
  );
});

test.each([
  ["http://user:s3cret@host", /it begins with http:/],
  ["user:s3cret@host:5672", /begins with user:/],
  ["amqp:///s3cret", /names no host|is no URL/],
  ["amqp://user:s3cret%zz@host", /password has a %/],
])("what is no address is refused without being shown: %s", (url, found) => {
  const read = () => readRabbitAddress({ url, vhost: null, tls: NO_TLS });
  expect(read).toThrow(found);
  expect(read).not.toThrow(/s3cret/);
});

test("certificates for an address without TLS, and half a pair, are refused", () => {
  const read = (url: string, tls: Partial<RabbitTls>) => () =>
    readRabbitAddress({ url, vhost: null, tls: { ...NO_TLS, ...tls } });
  expect(read("amqp://host", { ca: "CA" })).toThrow(/begins with amqp:/);
  expect(read("amqps://host", { cert: "CERT" })).toThrow(/only one of/);
});

test("names that AMQP would not take are refused when the broker is opened", () => {
  expect(() => queueNames({ prefix: "p".repeat(46), installation: "12345678" })).toThrow(/at most 45 characters/);
  const names = queueNames({ prefix: "p".repeat(45), installation: "12345678" });
  expect(names.work("q".repeat(200)).length).toBe(255);
});

test("queues are declared as every earlier version declared them", () => {
  const names = queueNames({ prefix: "turno", installation: "a1" });
  expect([names.work("email"), names.error, names.deadLetter]).toEqual([
    "turno.a1.email",
    "turno.a1._error",
    "turno-dead-letter",
  ]);
  expect(queueOptions("turno.a1.email", names)).toEqual({
    durable: true,
    arguments: {
      "x-queue-type": "quorum",
      "x-delivery-limit": 1_000_000,
      "x-dead-letter-exchange": "",
      "x-dead-letter-routing-key": "turno.a1._error",
    },
  });
  expect(queueOptions("turno-dead-letter", names)).toEqual({
    durable: true,
    arguments: {
      "x-queue-type": "quorum",
      "x-overflow": "drop-head",
      "x-max-length": 100_000,
      "x-max-length-bytes": 268_435_456,
    },
  });
});

test("failures are told apart: what waiting heals, and what somebody has to mend", () => {
  const certificate = Object.assign(new Error("self-signed certificate"), { code: "DEPTH_ZERO_SELF_SIGNED_CERT" });
  expect(explainRefusal(certificate, "host:5671/").code).toBe("TURNO_BROKER_ADDRESS");
  expect(explainRefusal(new Error("connect ECONNREFUSED 127.0.0.1:1"), "host:1/").code).toBe(
    "TURNO_BROKER_UNREACHABLE",
  );
  const refused = new Error(
    'Operation failed: QueueDeclare; 406 (PRECONDITION-FAILED) with message "inequivalent arg"',
  );
  expect(explainQueueRefusal(refused, "q")).toMatchObject({ code: "TURNO_BROKER_QUEUE" });
});
