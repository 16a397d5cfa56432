import { connect } from "amqplib";
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { rabbitForTests, redisForTests } from "../support/services/for-tests.ts";

test("the run has one RabbitMQ, whoever asks and how often", async () => {
  const [first, second] = await Promise.all([rabbitForTests(), rabbitForTests()]);
  expect(second).toEqual(first);
  const connection = await connect(first.url);
  expect(connection.connection.serverProperties.product).toBe("RabbitMQ");
  await connection.close();
});

test("the run has three Redis nodes that do not know of one another", async () => {
  const { urls } = await redisForTests();
  expect(new Set(urls).size).toBe(3);
  const nodes = urls.map((url) => new Redis(url));
  await nodes[0]?.set("turno-test:seen", "1", "PX", 10_000);
  expect(await Promise.all(nodes.map((node) => node.get("turno-test:seen")))).toEqual(["1", null, null]);
  for (const node of nodes) node.disconnect();
});
