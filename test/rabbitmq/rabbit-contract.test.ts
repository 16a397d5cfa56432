import { brokerContract } from "../contract/broker-contract.ts";
import { rabbitForTests } from "../support/services/for-tests.ts";
import { openRabbitUnderTest } from "./rabbit-under-test.ts";

brokerContract("RabbitMQ", async () => openRabbitUnderTest((await rabbitForTests()).url));
