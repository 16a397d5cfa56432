import { expect, test } from "vitest";
import { readServiceBusAddress } from "../../runtime/adapters/servicebus/address.ts";
import { loadClients } from "../../runtime/adapters/servicebus/client.ts";
import { explainQueueRefusal, explainRefusal } from "../../runtime/adapters/servicebus/failures.ts";
import { queueNames } from "../../runtime/adapters/servicebus/topology.ts";

const KEYED = "Endpoint=sb://jobs.servicebus.windows.net/;SharedAccessKeyName=turno;SharedAccessKey=s3cret=";

test("a connection string gives the namespace, and only one without a key asks for an identity", () => {
  expect(readServiceBusAddress(KEYED)).toMatchObject({
    kind: "key",
    shown: "jobs.servicebus.windows.net",
    secrets: ["s3cret="],
  });
  expect(readServiceBusAddress("Endpoint=sb://jobs.servicebus.windows.net/")).toMatchObject({
    kind: "identity",
    host: "jobs.servicebus.windows.net",
  });
});

test.each([
  ["s3cret", /not name=value/],
  ["SharedAccessKeyName=turno;SharedAccessKey=s3cret", /no Endpoint/],
  ["Endpoint=s3cret;SharedAccessKeyName=a;SharedAccessKey=s3cret", /Endpoint is no address/],
  ["Endpoint=https://host/;SharedAccessKeyName=a;SharedAccessKey=s3cret", /begin with sb:/],
  ["Endpoint=sb://host/;SharedAccessKey=s3cret", /only one of/],
  ["Endpoint=sb://host/;SharedAccessKeyName=s3cret", /only one of/],
  [`${KEYED};EntityPath=s3cret`, /single queue/],
  [`${KEYED};TransportType=s3cret`, /not known/],
])("what is no connection string of a namespace is refused without being shown: %s", (text, found) => {
  expect(() => readServiceBusAddress(text)).toThrow(
    expect.objectContaining({ code: "TURNO_BROKER_ADDRESS", message: expect.stringMatching(found) }),
  );
  expect(() => readServiceBusAddress(text)).not.toThrow(/s3cret/);
});

test("a package that is not installed is named with how to install it", async () => {
  const absent = (name: string) => (missing: string) =>
    missing === name
      ? Promise.reject(new Error(`Cannot find package '${missing}'`))
      : Promise.resolve({ ServiceBusClient: class {} });
  await expect(loadClients(readServiceBusAddress(KEYED), 1, absent("@azure/service-bus"))).rejects.toMatchObject({
    code: "TURNO_BROKER_PACKAGE",
    hint: expect.stringContaining("npm install @azure/service-bus"),
  });
  const identity = readServiceBusAddress("Endpoint=sb://jobs.servicebus.windows.net/");
  await expect(loadClients(identity, 1, absent("@azure/identity"))).rejects.toMatchObject({
    code: "TURNO_BROKER_PACKAGE",
    message: expect.stringContaining("a connection string without a key needs the package @azure/identity"),
  });
});

test("a machine's identity is asked for by the namespace's host", async () => {
  const made: unknown[][] = [];
  const identity = readServiceBusAddress("Endpoint=sb://jobs.servicebus.windows.net/");
  class DefaultAzureCredential {}
  class ServiceBusClient {
    constructor(...parts: unknown[]) {
      made.push(parts);
    }
  }
  const makeClient = await loadClients(identity, 7, (name) =>
    Promise.resolve(name === "@azure/identity" ? { DefaultAzureCredential } : { ServiceBusClient }),
  );
  makeClient();
  expect(made).toEqual([
    [
      "jobs.servicebus.windows.net",
      expect.any(DefaultAzureCredential),
      { retryOptions: { maxRetries: 0, timeoutInMs: 7 } },
    ],
  ]);
});

test("a refusal is told without the key, and a right that is missing names its queue", () => {
  const address = readServiceBusAddress(KEYED);
  const unauthorized = Object.assign(new Error("the key s3cret= is wrong"), { code: "UnauthorizedAccess" });
  expect(explainRefusal(unauthorized, address).message).toBe(
    "Service Bus at jobs.servicebus.windows.net refused access: the key *** is wrong",
  );
  expect(explainRefusal(new Error("ENOTFOUND"), address).code).toBe("TURNO_BROKER_UNREACHABLE");
  expect(explainQueueRefusal(unauthorized, "turno-a-email", address)).toMatchObject({
    code: "TURNO_BROKER_ACCESS",
    message: expect.stringContaining("turno-a-email"),
  });
  const disabled = Object.assign(new Error("no"), { code: "MessagingEntityDisabled" });
  expect(explainQueueRefusal(disabled, "turno-a-email", address)?.hint).toContain("--status Active");
  expect(explainQueueRefusal(new Error("no"), "turno-a-email", address)).toBeNull();
});

test("queues are named after the installation, and a prefix that Service Bus would not take is refused", () => {
  const names = queueNames({ prefix: "turno", installation: "abc" });
  expect([names.work("email"), names.deadLetter]).toEqual(["turno-abc-email", "turno-dead-letter"]);
  for (const prefix of ["-turno", "tur no", "t".repeat(60)]) {
    expect(() => queueNames({ prefix, installation: "abc" })).toThrow(/broker\.prefix/);
  }
});
