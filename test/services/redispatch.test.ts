import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { seededRandom } from "../../runtime/adapters/memory/seeded.ts";
import type { EngineEvent } from "../../runtime/protocol/ports/surroundings.ts";
import type { Delivery } from "../../runtime/protocol/ports/transport.ts";
import { startRedispatch } from "../../runtime/services/redispatch.ts";
import { startRelay } from "../../runtime/services/relay.ts";
import type { Loop } from "../../runtime/services/supervised-loop.ts";
import { Engine } from "./engine.ts";

let engine: Engine;
let events: EngineEvent[];
let loops: Loop[];

beforeEach(async () => {
  engine = new Engine();
  events = [];
  await engine.store.setTransport("rabbitmq");
  const surroundings = {
    clock: engine.clock,
    random: seededRandom(5),
    observer: { observe: (event: EngineEvent) => void events.push(event) },
  };
  const relay = startRelay({ ...surroundings, store: engine.store, broker: engine.broker.connect() });
  const redispatch = startRedispatch({ ...surroundings, store: engine.store, onWritten: relay.wake });
  loops = [redispatch, relay];
  await engine.clock.settle();
});
afterEach(async () => {
  const stopped = Promise.all(loops.map((loop) => loop.stop()));
  await engine.clock.advance(30_000);
  await stopped;
  await engine.close();
});

/** A worker that takes messages and lets jobs lie, or claims them. */
function take(onDispatch: (delivery: Delivery) => void = () => {}): readonly Delivery[] {
  const taken: Delivery[] = [];
  engine.broker.connect().subscribe("default", 1_000, (delivery) => {
    taken.push(delivery);
    if (delivery.message.kind === "marker") void engine.store.consumeMarker(delivery.message.marker);
    else onDispatch(delivery);
    void delivery.acknowledge();
  });
  return taken;
}

function redispatched(): readonly EngineEvent[] {
  return events.filter((event) => event.kind === "redispatched");
}

describe("redispatch", () => {
  it("publishes messages again that a purge has lost, with the tokens that they had", async () => {
    const ids = await engine.enqueueMany(3);
    await engine.clock.advance(2_000);
    const tokens = ids.map((id) => engine.database.jobs.get(id)?.token);
    engine.broker.purge("default");
    const claimed: unknown[] = [];
    const taken = take(({ message }) => {
      if (message.kind !== "dispatch") return;
      claimed.push(message.token);
      void engine.store.claimDelivery(engine.ids.workerId(), message);
    });
    await engine.clock.advance(120_000);
    expect(claimed).toEqual(tokens);
    expect(redispatched()).toEqual([{ kind: "redispatched", queue: "default", jobs: 3 }]);
    for (const id of ids) expect(engine.job(id).state).toBe("Processing");
    await engine.clock.advance(600_000);
    expect(redispatched()).toHaveLength(1);
    expect(taken.filter(({ message }) => message.kind === "marker").length).toBeLessThanOrEqual(2);
  });

  it("publishes nothing again of a long queue, however long its jobs wait", async () => {
    await engine.enqueueMany(50);
    await engine.clock.advance(3_600_000);
    expect(engine.broker.waiting("default")).toBeGreaterThan(50);
    expect(engine.broker.waiting("default")).toBeLessThan(65);
    expect(redispatched()).toEqual([]);
    const taken = take(({ message }) => {
      if (message.kind === "dispatch") void engine.store.claimDelivery(engine.ids.workerId(), message);
    });
    await engine.clock.advance(600_000);
    expect(redispatched()).toEqual([]);
    expect(taken.filter(({ message }) => message.kind === "dispatch")).toHaveLength(50);
  });

  it("publishes once more at a time what is not claimed again and again", async () => {
    await engine.enqueue();
    const taken = take();
    await engine.clock.advance(600_000);
    const dispatches = taken.filter(({ message }) => message.kind === "dispatch").length;
    expect(dispatches).toBeGreaterThan(3);
    expect(dispatches).toBeLessThanOrEqual(11);
  });

  it("finds what was lost together with its marker", async () => {
    const id = await engine.enqueue();
    await engine.clock.advance(70_000);
    expect(engine.broker.waiting("default")).toBe(2);
    engine.broker.purge("default");
    take(({ message }) => {
      if (message.kind === "dispatch") void engine.store.claimDelivery(engine.ids.workerId(), message);
    });
    await engine.clock.advance(200_000);
    expect(engine.job(id).state).toBe("Processing");
  });

  it("tells of an outbox that is behind once a minute, and when it has caught up", async () => {
    engine.broker.setState("away");
    await engine.enqueue();
    await engine.clock.advance(60_000);
    const told = () => events.filter(({ kind }) => kind === "outbox-behind" || kind === "outbox-caught-up");
    expect(told()).toEqual([]);
    await engine.clock.advance(15_000);
    expect(told()).toMatchObject([{ kind: "outbox-behind", messages: 1 }]);
    await engine.clock.advance(60_000);
    expect(told()).toHaveLength(2);
    engine.broker.setState("up");
    await engine.clock.advance(30_000);
    expect(told().at(-1)).toMatchObject({ kind: "outbox-caught-up" });
    expect(told()).toHaveLength(3);
  });
});
