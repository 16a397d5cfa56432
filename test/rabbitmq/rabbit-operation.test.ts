import { connect } from "amqplib";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { openRabbitBroker } from "../../runtime/adapters/rabbitmq/broker.ts";
import type { DispatchToken, JobId } from "../../runtime/core/ids.ts";
import type { Broker, Delivery, DispatchMessage } from "../../runtime/protocol/ports/transport.ts";
import { recordLogger } from "../support/log-recorder.ts";
import { type RabbitServer, startRabbitServer } from "../support/services/rabbitmq-server.ts";
import { eventually } from "../support/up.ts";
import { rabbitOptions } from "./rabbit-under-test.ts";

/** One that may be restarted and starved, which the run's broker may not. */
let server: RabbitServer;
const brokers: Broker[] = [];

beforeAll(async () => {
  server = await startRabbitServer();
}, 120_000);
afterEach(async () => {
  await Promise.all(brokers.splice(0).map((broker) => broker.close()));
});
afterAll(() => server?.remove(), 60_000);

test("a broker that is low on memory is shown as blocked, deliveries go on, and publishing does after it", async () => {
  const broker = await open("blocked");
  const deliveries = collect(broker);
  expect(await broker.publish([dispatch(1), dispatch(2)])).toEqual(["confirmed", "confirmed"]);
  await server.control("set_vm_memory_high_watermark", "0");
  try {
    await eventually("blocked", async () => {
      const [outcome] = await broker.publish([dispatch(3)]);
      return outcome === "unknown" && broker.condition().state === "blocked";
    });
    expect(broker.condition().reason).toContain("memory");
    const began = performance.now();
    expect(await broker.publish([dispatch(4)])).toEqual(["unknown"]);
    expect(performance.now() - began).toBeLessThan(500);
    await deliveries[0]?.acknowledge();
    await eventually("the second delivery", async () => deliveries.length >= 2);
  } finally {
    await server.control("set_vm_memory_high_watermark", "0.4");
  }
  await eventually("a confirmation", async () => (await broker.publish([dispatch(5)]))[0] === "confirmed");
  expect(broker.condition()).toEqual({ state: "connected", reason: null });
}, 60_000);

test.each(["stop", "kill"] as const)(
  "after a broker's %s what was confirmed is delivered, and work goes on",
  async (how) => {
    const [producer, worker] = [await open(`restart-${how}`), await open(`restart-${how}`)];
    expect(await producer.publish([dispatch(1), dispatch(2)])).toEqual(["confirmed", "confirmed"]);
    const deliveries = collect(worker, 10);
    await eventually("deliveries", async () => deliveries.length === 2);
    await deliveries[0]?.acknowledge();
    // RabbitMQ writes the tables in which a new queue finds its log within moments only; a kill before that loses the queue.
    await server.control("eval", "[dets:sync(T) || T <- dets:all()], mnesia:sync_log().");
    await server.halt(how);
    await eventually("away", async () => producer.condition().state === "away" && worker.condition().state === "away");
    expect(await producer.publish([dispatch(3)])).toEqual(["unknown"]);
    await server.start();
    await eventually("a confirmation", async () => (await producer.publish([dispatch(3)]))[0] === "confirmed");
    await eventually("the message that was not acknowledged, and the new one", async () => {
      const tokens = deliveries.slice(2).map(({ message }) => message.kind === "dispatch" && message.token);
      return tokens.includes(2n as DispatchToken) && tokens.includes(3n as DispatchToken);
    });
  },
  120_000,
);

test("a broker that is away when Turno starts is used as soon as it answers", async () => {
  await server.halt("stop");
  const { logger, lines } = recordLogger();
  const broker = await openRabbitBroker({ ...rabbitOptions(server.url, "late"), logger });
  brokers.push(broker);
  expect(broker.condition().state).toBe("away");
  expect(broker.condition().reason).toMatch(/did not answer.*ECONNREFUSED/);
  const deliveries = collect(broker);
  await server.start();
  await eventually("a confirmation", async () => (await broker.publish([dispatch(1)]))[0] === "confirmed");
  await eventually("a delivery", async () => deliveries.length === 1);
  const away = lines.filter(({ message }) => message === "RabbitMQ is away; trying again");
  // Once for each of the two connections, however often they try.
  expect(away.map(({ fields }) => fields.connection)).toEqual(["publish", "consume"]);
}, 120_000);

test("a user with the documented rights can do all that Turno does, and one without is told what is missing", async () => {
  await server.control("add_user", "turno", "p%40ss");
  const url = server.url.replace("guest:guest", "turno:p%2540ss");
  await expect(openRabbitBroker(rabbitOptions(url, "rights"))).rejects.toMatchObject({ code: "TURNO_BROKER_ACCESS" });
  await server.control("set_permissions", "turno", "^turno", "^(turno|amq\\.default$)", "^turno");
  const broker = await openRabbitBroker({ ...rabbitOptions(url, "rights"), prefix: "turno" });
  brokers.push(broker);
  const deliveries = collect(broker);
  expect(await broker.publish([dispatch(1)])).toEqual(["confirmed"]);
  await eventually("a delivery", async () => deliveries.length === 1);
  await deliveries[0]?.acknowledge();
  const { logger, lines } = recordLogger();
  const stranger = await openRabbitBroker({ ...rabbitOptions(url, "rights"), prefix: "other", logger });
  brokers.push(stranger);
  expect(await stranger.publish([dispatch(1)])).toEqual(["unroutable"]);
  expect(stranger.condition().reason).toMatch(/does not let the user use the queue other\./);
  expect(lines.some(({ fields }) => fields.code === "TURNO_BROKER_ACCESS")).toBe(true);
}, 120_000);

test("a wrong password and a virtual host that is not there are said at once, and no line shows the password", async () => {
  const { logger, lines } = recordLogger();
  const wrong = { ...rabbitOptions(server.url.replace("guest:guest", "guest:Wr0ngSecret"), "secret"), logger };
  const failure: unknown = await openRabbitBroker(wrong).catch((error: unknown) => error);
  expect(failure).toMatchObject({
    code: "TURNO_BROKER_ACCESS",
    message: expect.stringMatching(/refused the user or the password/),
  });
  expect(JSON.stringify([failure, lines, String((failure as Error).stack), (failure as Error).cause])).not.toContain(
    "Wr0ngSecret",
  );
  await expect(openRabbitBroker({ ...rabbitOptions(server.url, "x"), vhost: "nowhere" })).rejects.toMatchObject({
    code: "TURNO_BROKER_ACCESS",
    hint: expect.stringMatching(/add_vhost/),
  });
});

test("a queue that exists with other arguments stops only its own messages, and is used when it is as declared", async () => {
  const admin = await connect(server.url);
  const channel = await admin.createChannel();
  await channel.assertQueue("turno-test.other.email", { durable: false });
  const { logger, lines } = recordLogger();
  const broker = await openRabbitBroker({ ...rabbitOptions(server.url, "other"), logger });
  brokers.push(broker);
  const deliveries = collect(broker);
  const reports: DispatchMessage = { ...dispatch(2), queue: "reports" };
  expect(await broker.publish([dispatch(1), reports])).toEqual(["unroutable", "confirmed"]);
  expect(broker.condition()).toMatchObject({ state: "connected", reason: expect.stringMatching(/other arguments/) });
  await eventually("both complaints", async () => lines.length >= 2);
  const complaints = lines.map(({ message, fields }) => [message, fields.code]);
  expect(complaints.sort()).toEqual([
    ["a queue of RabbitMQ cannot be consumed; trying again", "TURNO_BROKER_QUEUE"],
    ["a queue of RabbitMQ cannot be used; trying again", "TURNO_BROKER_QUEUE"],
  ]);
  await channel.deleteQueue("turno-test.other.email");
  await eventually("a confirmation", async () => (await broker.publish([dispatch(1)]))[0] === "confirmed");
  await eventually("a delivery", async () => deliveries.length === 1);
  expect(broker.condition()).toEqual({ state: "connected", reason: null });
  await admin.close();
}, 60_000);

async function open(installation: string): Promise<Broker> {
  const broker = await openRabbitBroker({ ...rabbitOptions(server.url, installation), confirmMs: 3_000 });
  brokers.push(broker);
  return broker;
}

function collect(broker: Broker, prefetch = 1): Delivery[] {
  const deliveries: Delivery[] = [];
  broker.subscribe("email", prefetch, (delivery) => deliveries.push(delivery));
  return deliveries;
}

function dispatch(token: number): DispatchMessage {
  const jobId = `01900000-0000-7000-8000-${String(token).padStart(12, "0")}` as JobId;
  return { kind: "dispatch", jobId, token: BigInt(token) as DispatchToken, queue: "email" };
}
