import { brokerContract } from "../contract/broker-contract.ts";
import { openServiceBusUnderTest } from "./servicebus-under-test.ts";

brokerContract("Service Bus", openServiceBusUnderTest);
