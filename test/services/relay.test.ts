import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { seededRandom } from "../../runtime/adapters/memory/seeded.ts";
import type { EngineEvent } from "../../runtime/protocol/ports/surroundings.ts";
import type { Broker, BrokerMessage, PublishOutcome } from "../../runtime/protocol/ports/transport.ts";
import { type Relay, startRelay } from "../../runtime/services/relay.ts";
import { Engine, type Machine } from "./engine.ts";

let engine: Engine;
let relays: Relay[];
beforeEach(async () => {
  engine = new Engine();
  relays = [];
  await engine.store.setTransport("rabbitmq");
});
afterEach(async () => {
  const stopped = Promise.all(relays.map((relay) => relay.stop()));
  await engine.clock.advance(60_000);
  await stopped;
  await engine.close();
});

function relayOf(machine: Machine, broker: Pick<Broker, "publish"> = machine.broker): Relay {
  const condition = machine.broker.condition.bind(machine.broker);
  const relay = startRelay({
    store: machine.connection.store,
    broker: { publish: broker.publish.bind(broker), condition },
    clock: machine.clock,
    random: seededRandom(3),
    observer: { observe: (event) => void machine.events.push(event) },
  });
  relays.push(relay);
  return relay;
}

/** Answers by message, and remembers what it was given. */
function scripted(answer: (message: BrokerMessage) => PublishOutcome) {
  const batches: (readonly BrokerMessage[])[] = [];
  return {
    batches,
    async publish(messages: readonly BrokerMessage[]) {
      batches.push(messages);
      return messages.map(answer);
    },
  };
}

function waiting(): number {
  return engine.database.outbox.messages.size;
}

function of(machine: Machine, kind: EngineEvent["kind"]): readonly EngineEvent[] {
  return machine.events.filter((event) => event.kind === kind);
}

describe("the relay", () => {
  it("publishes what is written when it is woken, and within a second by itself, and removes it then", async () => {
    const machine = engine.machine();
    const relay = relayOf(machine);
    await engine.clock.settle();
    await engine.enqueueMany(3);
    expect(waiting()).toBe(3);
    relay.wake();
    await engine.clock.settle();
    expect([engine.broker.waiting("default"), waiting()]).toEqual([3, 0]);
    await engine.enqueue();
    await engine.clock.advance(1_000);
    expect([engine.broker.waiting("default"), waiting()]).toEqual([4, 0]);
    expect(of(machine, "relayed")).toEqual([
      { kind: "relayed", taken: 3, removed: 3 },
      { kind: "relayed", taken: 1, removed: 1 },
    ]);
  });

  it("goes through a long outbox in batches without a wait, dead letters among them", async () => {
    const machine = engine.machine();
    await engine.enqueueMany(1_200);
    const broker = scripted(() => "confirmed");
    relayOf(machine, broker);
    await engine.clock.settle();
    expect(broker.batches.map(({ length }) => length)).toEqual([500, 500, 200]);
    expect(waiting()).toBe(0);
  });

  it("removes nothing that was not confirmed, and tries it again with growing waits, told once", async () => {
    const machine = engine.machine();
    engine.broker.setState("away");
    relayOf(machine);
    await engine.enqueueMany(3);
    await engine.clock.advance(60_000);
    expect(waiting()).toBe(3);
    expect(of(machine, "publishing-fails")).toHaveLength(1);
    const tries = machine.connection.calls.filter((name) => name === "relayBatch").length;
    expect(tries).toBeGreaterThan(8);
    expect(tries).toBeLessThan(40);
    engine.broker.setState("up");
    await engine.clock.advance(15_000);
    expect([engine.broker.waiting("default"), waiting()]).toEqual([3, 0]);
    expect(of(machine, "publishing-again")).toHaveLength(1);
    expect(of(machine, "relayed").at(-1)).toEqual({ kind: "relayed", taken: 3, removed: 3 });
  });

  it("publishes again what may have arrived, with the same token", async () => {
    const machine = engine.machine();
    engine.broker.faults.loseConfirm = 1;
    relayOf(machine);
    await engine.enqueue();
    await engine.clock.advance(1_000);
    expect(waiting()).toBe(1);
    engine.broker.faults.loseConfirm = 0;
    const before = [...engine.database.outbox.messages.values()].map(({ message }) => message);
    const broker = scripted(() => "confirmed");
    const other = engine.machine();
    relayOf(other, broker);
    await engine.clock.advance(15_000);
    expect(waiting()).toBe(0);
    expect(engine.broker.waiting("default")).toBeGreaterThanOrEqual(1);
    for (const message of broker.batches.flat()) expect(before).toContainEqual(message);
  });

  it("takes a broker that does not answer in time for one of unknown outcome", async () => {
    const machine = engine.machine();
    relayOf(machine, { publish: () => new Promise(() => {}) });
    await engine.enqueue();
    await engine.clock.advance(9_000);
    expect(of(machine, "publishing-fails")).toEqual([]);
    await engine.clock.advance(3_000);
    expect(of(machine, "publishing-fails")).toEqual([{ kind: "publishing-fails", messages: 1 }]);
    expect(waiting()).toBe(1);
  });

  it("lets others by what the broker has no queue for, and tells of it once a minute", async () => {
    const machine = engine.machine();
    await engine.enqueueMany(2, { queue: "nowhere" });
    await engine.enqueue();
    const broker = scripted((message) =>
      message.kind === "dispatch" && message.queue === "nowhere" ? "unroutable" : "confirmed",
    );
    const relay = relayOf(machine, broker);
    await engine.clock.settle();
    expect(waiting()).toBe(2);
    await engine.enqueue();
    relay.wake();
    await engine.clock.settle();
    expect(broker.batches.at(-1)).toHaveLength(1);
    expect(waiting()).toBe(2);
    await engine.clock.advance(50_000);
    expect(of(machine, "unroutable")).toMatchObject([{ queue: "nowhere", messages: 2 }]);
    expect(broker.batches.filter((batch) => batch.length === 2).length).toBeLessThan(8);
    await engine.clock.advance(120_000);
    expect(of(machine, "unroutable").length).toBeGreaterThanOrEqual(2);
    expect(of(machine, "unroutable").length).toBeLessThanOrEqual(3);
  });

  it("gets by a message that fails whatever it is published with", async () => {
    const machine = engine.machine();
    const ids = await engine.enqueueMany(20);
    const bad = ids[3];
    const batches: number[] = [];
    relayOf(machine, {
      async publish(messages) {
        batches.push(messages.length);
        const isSpoiled = messages.some((message) => message.kind === "dispatch" && message.jobId === bad);
        return messages.map(() => (isSpoiled ? "unknown" : "confirmed"));
      },
    });
    await engine.clock.advance(60_000);
    expect([...engine.database.outbox.messages.values()].map(({ message }) => message)).toMatchObject([{ jobId: bad }]);
    expect(batches[0]).toBe(20);
  });

  it("publishes one at a time among many processes, and nobody presses while another has the turn", async () => {
    let open: () => void = () => {};
    const holder = engine.machine();
    relayOf(holder, {
      publish: (messages) =>
        new Promise((resolve) => {
          open = () => resolve(messages.map(() => "confirmed"));
        }),
    });
    await engine.enqueueMany(2);
    await engine.clock.advance(1_000);
    const other = engine.machine();
    const broker = scripted(() => "confirmed");
    const late = relayOf(other, broker);
    await engine.enqueue();
    for (let ring = 0; ring < 500; ring += 1) {
      late.wake();
      await engine.clock.advance(2);
    }
    expect(other.connection.calls.length).toBeLessThan(25);
    expect(broker.batches).toEqual([]);
    open();
    await engine.clock.advance(1_200);
    open();
    await engine.clock.settle();
    expect(waiting()).toBe(0);
  });

  it("finds within a moment what was written while another had its last turn", async () => {
    let open: () => void = () => {};
    const holder = engine.machine();
    relayOf(holder, {
      publish: (messages) =>
        new Promise((resolve) => {
          open = () => resolve(messages.map(() => "confirmed"));
        }),
    });
    await engine.enqueue();
    await engine.clock.advance(1_000);
    const other = engine.machine();
    const late = relayOf(other);
    late.wake();
    await engine.clock.settle();
    void relays.shift()?.stop();
    await engine.enqueue();
    late.wake();
    await engine.clock.advance(200);
    open();
    await engine.clock.advance(200);
    expect(waiting()).toBe(0);
  });

  it("ends after the batch that is under way", async () => {
    const machine = engine.machine();
    const broker = scripted(() => "confirmed");
    await engine.enqueueMany(1_200);
    const relay = relayOf(machine, {
      async publish(messages) {
        await engine.clock.sleep(100, new AbortController().signal);
        return broker.publish(messages);
      },
    });
    await engine.clock.advance(50);
    const stopped = relay.stop();
    await engine.clock.advance(100);
    await stopped;
    expect(broker.batches).toHaveLength(1);
    expect(waiting()).toBe(700);
  });

  it("goes on when the database was away", async () => {
    const machine = engine.machine();
    machine.connection.weather = "away";
    relayOf(machine);
    await engine.enqueue();
    await engine.clock.advance(5_000);
    expect(waiting()).toBe(1);
    machine.connection.weather = "up";
    await engine.clock.advance(6_000);
    expect(waiting()).toBe(0);
  });
});
