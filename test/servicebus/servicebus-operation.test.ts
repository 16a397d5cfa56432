import { afterEach, beforeEach, expect, test } from "vitest";
import { openServiceBusBroker, type ServiceBusBrokerOptions } from "../../runtime/adapters/servicebus/broker.ts";
import type { DispatchToken, JobId } from "../../runtime/core/ids.ts";
import type { Broker, Delivery, DispatchMessage } from "../../runtime/protocol/ports/transport.ts";
import { recordLogger } from "../support/log-recorder.ts";
import { type ServiceBusServer, startServiceBusServer } from "../support/servicebus-server.ts";
import { eventually } from "../support/up.ts";
import { serviceBusOptions } from "./servicebus-under-test.ts";

const QUEUE = "turno-test-one-email";

let server: ServiceBusServer;
const brokers: Broker[] = [];

beforeEach(async () => {
  server = await startServiceBusServer({ lockMs: 1_500 });
  server.createQueue("turno-test-dead-letter");
});
afterEach(async () => {
  await Promise.all(brokers.splice(0).map((broker) => broker.close()));
  await server.close();
});

test("a queue that is not there stops only its own messages, is named with how to make it, and is used once it is made", async () => {
  server.createQueue("turno-test-one-reports");
  const { broker, lines } = await open();
  const deliveries = collect(broker);
  const reports: DispatchMessage = { ...dispatch(2), queue: "reports" };
  expect(await broker.publish([dispatch(1), reports])).toEqual(["unroutable", "confirmed"]);
  expect(broker.condition()).toMatchObject({ state: "connected", reason: expect.stringContaining(QUEUE) });
  const told = () => lines.filter(({ level }) => level !== "debug");
  await eventually("both complaints", async () => told().length >= 2);
  const complaints = told().map(({ level, message, fields }) => [level, message, fields.queue, fields.code]);
  expect(complaints.sort()).toEqual([
    ["error", "a queue of Service Bus cannot be consumed; trying again", QUEUE, "TURNO_BROKER_QUEUE"],
    ["error", "a queue of Service Bus cannot be used; trying again", QUEUE, "TURNO_BROKER_QUEUE"],
  ]);
  expect(String(told()[0]?.fields.hint)).toMatch(
    /^Make it: az servicebus queue create .* --name turno-test-one-email /,
  );
  server.createQueue(QUEUE);
  await eventually("a confirmation", async () => (await broker.publish([dispatch(1)]))[0] === "confirmed");
  await eventually("a delivery", async () => deliveries.length >= 1);
  expect(broker.condition()).toEqual({ state: "connected", reason: null });
  await eventually("the good news", async () => lines.some(({ message }) => message.endsWith("can be consumed again")));
}, 60_000);

test("work goes on when a queue was deleted and made again, and when its idle links were closed", async () => {
  server.createQueue(QUEUE);
  const { broker } = await open();
  const deliveries = collect(broker);
  await broker.publish([dispatch(1)]);
  await eventually("a delivery", async () => deliveries.length === 1);
  await deliveries[0]?.acknowledge();
  server.detachReceivers(QUEUE);
  await broker.publish([dispatch(2)]);
  await eventually("a delivery over another link", async () => deliveries.length === 2);
  await deliveries[1]?.acknowledge();
  server.deleteQueue(QUEUE);
  await eventually("no queue", async () => (await broker.publish([dispatch(3)]))[0] === "unroutable");
  server.createQueue(QUEUE);
  await eventually("a confirmation", async () => (await broker.publish([dispatch(4)]))[0] === "confirmed");
  await eventually("a delivery from the new queue", async () => deliveries.length === 3);
}, 60_000);

test("a message whose lock ran out comes again, and the late acknowledgement does not settle it", async () => {
  server.createQueue(QUEUE);
  const { broker } = await open();
  const deliveries = collect(broker);
  await broker.publish([dispatch(1)]);
  await eventually("the second delivery", async () => deliveries.length === 2);
  await deliveries[0]?.acknowledge();
  expect(server.locked(QUEUE)).toBe(1);
  await deliveries[1]?.acknowledge();
  expect(server.locked(QUEUE) + server.messages(QUEUE).length).toBe(0);
}, 60_000);

test("what is sent again is another message, and many go in batches within the limit of a message's size", async () => {
  server.createQueue(QUEUE);
  const { broker } = await open();
  const many = Array.from({ length: 2_500 }, (_, index) => dispatch(index));
  const outcomes = [...(await broker.publish(many)), ...(await broker.publish([dispatch(1)]))];
  expect(new Set(outcomes)).toEqual(new Set(["confirmed"]));
  const stored = server.messages(QUEUE);
  expect(new Set(stored.map(({ id }) => id)).size).toBe(2_501);
  expect(stored.map(({ properties }) => properties["x-turno-installation"])).toContain("one");
  expect(server.batches.length).toBeGreaterThan(2);
  expect(Math.max(...server.batches)).toBeLessThanOrEqual(1_000);
});

test("a dead letter that the namespace would not take is shortened", async () => {
  const { broker } = await open();
  const body = { type: "a.b", error: "x".repeat(300_000) };
  expect(await broker.publish([{ kind: "dead-letter", jobId: dispatch(1).jobId, body }])).toEqual(["confirmed"]);
  const [letter] = server.messages("turno-test-dead-letter");
  expect(JSON.parse(letter?.body.toString() ?? "")).toMatchObject({ body: { shortenedFromBytes: expect.any(Number) } });
});

test("a namespace that is busy is shown as blocked until it takes messages again", async () => {
  server.createQueue(QUEUE);
  const { broker } = await open();
  server.setBusy(true);
  expect(await broker.publish([dispatch(1)])).toEqual(["unknown"]);
  expect(broker.condition()).toMatchObject({ state: "blocked", reason: expect.stringContaining("ServiceBusy") });
  server.setBusy(false);
  expect(await broker.publish([dispatch(1)])).toEqual(["confirmed"]);
  expect(broker.condition()).toEqual({ state: "connected", reason: null });
});

test("a wrong key is said at once, and neither the error nor a line shows it", async () => {
  const wrong = Buffer.from("a key that is wrong").toString("base64");
  const { logger, lines } = recordLogger();
  const refused = openServiceBusBroker({
    ...serviceBusOptions(server, "one"),
    connectionString: server.connectionString(server.port, wrong),
    logger,
  });
  const failure: unknown = await refused.catch((error: unknown) => error);
  expect(failure).toMatchObject({ code: "TURNO_BROKER_ACCESS", message: expect.stringContaining("refused access") });
  expect(JSON.stringify([failure, lines, String((failure as Error).stack)])).not.toContain(wrong);
});

test("what could not be read keeps its reason in the dead-letter sub-queue", async () => {
  server.createQueue(QUEUE);
  const { broker, lines } = await open();
  collect(broker);
  server.put(QUEUE, '{"v":99}');
  await eventually("the message", async () => server.deadLetters(QUEUE).length === 1);
  expect(server.deadLetters(QUEUE)[0]?.reason).toBe('its version "v" is not 1');
  expect(lines.filter(({ level }) => level !== "debug").map(({ message }) => message)).toEqual([
    "a message that Turno did not write goes to the dead-letter sub-queue",
  ]);
});

async function open(options: Partial<ServiceBusBrokerOptions> = {}) {
  const { logger, lines } = recordLogger();
  const broker = await openServiceBusBroker({ ...serviceBusOptions(server, "one"), logger, ...options });
  brokers.push(broker);
  return { broker, lines };
}

function collect(broker: Broker, prefetch = 5): Delivery[] {
  const deliveries: Delivery[] = [];
  broker.subscribe("email", prefetch, (delivery) => deliveries.push(delivery));
  return deliveries;
}

function dispatch(number: number): DispatchMessage {
  return {
    kind: "dispatch",
    jobId: `01900000-0000-7000-8000-${String(number).padStart(12, "0")}` as JobId,
    token: BigInt(number) as DispatchToken,
    queue: "email",
  };
}
