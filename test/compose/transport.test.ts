import { describe, expect, it } from "vitest";
import { MemoryDatabase } from "../../runtime/adapters/memory/database.ts";
import { createMemoryStore } from "../../runtime/adapters/memory/store.ts";
import { NO_TRANSPORT, openTransport, recordTransport } from "../../runtime/compose/transport.ts";
import type { BrokerSettings, LockSettings } from "../../runtime/config/objects.ts";
import { silentLogger } from "../../runtime/core/logger.ts";

const outbox = createMemoryStore(new MemoryDatabase(() => 0));
const settings = (broker: Partial<BrokerSettings>, locks: Partial<LockSettings> = {}) => ({
  broker: {
    transport: "postgres" as const,
    prefix: "turno",
    rabbitmq: { url: null, vhost: null, tls: { ca: null, cert: null, key: null, serverName: null } },
    servicebus: { connectionString: null },
    ...broker,
  },
  locks: { driver: "none" as const, redlock: { urls: [], prefix: "turno", expiryMs: 30_000 }, ...locks },
});
const open = (...parts: Parameters<typeof settings>) =>
  openTransport({ settings: settings(...parts), outbox, logger: silentLogger });

describe("the transport of a process", () => {
  it("is the database alone by default, whatever the locks say", async () => {
    expect(await open({})).toBe(NO_TRANSPORT);
    expect(await open({}, { driver: "redlock" })).toBe(NO_TRANSPORT);
  });

  it.each([
    [{ transport: "rabbitmq" as const }, {}, /rabbitmq, and broker\.rabbitmq\.url is not set/],
    [{ transport: "servicebus" as const }, {}, /servicebus\.connectionString is not set/],
    [{ transport: "rabbitmq" as const }, { driver: "redlock" as const }, /urls names no Redis/],
  ])("is refused where its address is missing: %j %j", async (broker, locks, message) => {
    await expect(open(broker, locks)).rejects.toThrow(
      expect.objectContaining({ code: "TURNO_CONFIG_SETTING", message: expect.stringMatching(message) }),
    );
  });

  it("is refused without showing the address when that cannot be used", async () => {
    const url = "http://turno:s3cret@mq";
    const refused = open({ transport: "rabbitmq", rabbitmq: { ...settings({}).broker.rabbitmq, url } });
    await expect(refused).rejects.toThrow(expect.objectContaining({ message: expect.not.stringContaining("s3cret") }));
  });

  it("is recorded once, with a line in the log", async () => {
    const lines: unknown[] = [];
    const logger = { ...silentLogger, info: (...line: unknown[]) => void lines.push(line) };
    await recordTransport(outbox, { transport: "rabbitmq" }, logger);
    await recordTransport(outbox, { transport: "rabbitmq" }, logger);
    expect((await outbox.loadInstallation()).transport).toBe("rabbitmq");
    expect(lines).toEqual([["the transport was changed", { from: "postgres", to: "rabbitmq" }]]);
  });
});
