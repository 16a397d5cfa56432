import { createMemoryBroker, type MemoryBroker, type MemoryConnection } from "../../runtime/adapters/memory/broker.ts";
import type { DispatchToken } from "../../runtime/core/ids.ts";
import { writeBrokerMessage } from "../../runtime/protocol/ports/broker-text.ts";
import type { Broker, Delivery, LockManager } from "../../runtime/protocol/ports/transport.ts";
import type { TransportFault } from "./plan.ts";
import { type Stream, subStream } from "./random-streams.ts";
import { SimulatedLocks } from "./simulated-locks.ts";
import type { SimulatedProcess } from "./simulated-process.ts";
import type { Simulation } from "./simulation.ts";

/** From a process to the broker, and back. */
const HOP_MS = 0.3;
const NEVER = new Promise<never>(() => {});
/** While the database is away deliveries wait for longer than this; what goes back earlier found no slot. */
const SLOT_PATIENCE_MS = 25_000;

/** What a process has of the world's broker and locks. */
export interface ProcessTransport {
  readonly transport: "rabbitmq";
  readonly broker: Pick<Broker, "publish" | "condition" | "subscribe">;
  readonly locks: Pick<LockManager, "acquire">;
  readonly connection: MemoryConnection;
}

/** The world's broker and locks, what goes wrong with them, and books of what was confirmed and acknowledged. */
export class SimulatedTransport {
  /** Tokens of which the broker said that it has them. */
  readonly confirmed = new Set<DispatchToken>();
  readonly acknowledged = new Set<DispatchToken>();
  readonly #simulation: Simulation;
  readonly #broker: MemoryBroker;
  readonly #locks: SimulatedLocks;
  readonly #stream: Stream;

  constructor(simulation: Simulation) {
    const { world, plan } = simulation;
    this.#simulation = simulation;
    this.#stream = subStream(plan.seed, "broker");
    this.#locks = new SimulatedLocks(simulation, subStream(plan.seed, "locks"));
    this.#broker = createMemoryBroker({
      clock: {
        monotonicMs: () => world.nowMs,
        sleep: (ms) => new Promise((resolve) => void world.after(ms, resolve)),
      },
      random: this.#stream,
    });
  }

  /** Of every dispatch that is on its way to somebody: in the outbox, in the broker, or delivered and open. */
  texts(): ReadonlySet<string> {
    const { outbox } = this.#simulation.database;
    const written = [...outbox.messages.values()].map(({ message }) => writeBrokerMessage(message));
    return new Set([...written, ...this.#broker.texts()]);
  }

  connect(process: SimulatedProcess): ProcessTransport {
    const connection = this.#broker.connect();
    return {
      transport: "rabbitmq",
      connection,
      locks: { acquire: (resource) => this.#locks.acquire(process, resource) },
      broker: {
        condition: () => connection.condition(),
        publish: (messages) =>
          this.#call(process, "publish", async () => {
            const outcomes = await connection.publish(messages);
            for (const [index, message] of messages.entries()) {
              if (message.kind === "dispatch" && outcomes[index] === "confirmed") this.confirmed.add(message.token);
            }
            return outcomes;
          }),
        subscribe: (queue, prefetch, onDelivery) =>
          connection.subscribe(queue, prefetch, (delivery) => {
            this.#simulation.world.after(HOP_MS, () => onDelivery(this.#handOver(process, delivery)), process);
          }),
      },
    };
  }

  bringAbout(fault: TransportFault): void {
    const { world, slots, client } = this.#simulation;
    switch (fault.kind) {
      case "broker-messages":
        this.#broker.faults[fault.effect] = fault.strength;
        world.after(fault.forMs, () => (this.#broker.faults[fault.effect] = 0));
        return;
      case "broker-state":
        this.#broker.setState(fault.state);
        world.after(fault.forMs, () => this.#broker.setState("up"));
        return;
      case "queue-lost":
        if (fault.how === "purged") this.#broker.purge(fault.queue);
        else this.#broker.removeQueue(fault.queue);
        return;
      case "malformed":
        this.#broker.putText(fault.queue, this.#stream.pick(["", "{", '{"v":1}', '{"v":9,"kind":"dispatch"}']));
        return;
      case "broker-cut":
        slots.at(fault.slot)?.transport?.connection.cut();
        return;
      case "broker-network": {
        const connection = slots.at(fault.slot)?.transport?.connection;
        connection?.setNetwork(fault.mode);
        world.after(fault.forMs, () => connection?.setNetwork("up"));
        return;
      }
      case "locks":
        this.#locks.bringAbout(fault);
        return;
      case "transport":
        client.switchTransport(fault.to);
    }
  }

  heal(): void {
    Object.assign(this.#broker.faults, { drop: 0, duplicate: 0, reorder: 0, loseConfirm: 0, delayMs: 0 });
    this.#broker.setState("up");
    for (const process of this.#simulation.slots.alive()) process.transport?.connection.setNetwork("up");
    this.#locks.heal();
  }

  #handOver(process: SimulatedProcess, delivery: Delivery): Delivery {
    const { world, reach } = this.#simulation;
    const { message } = delivery;
    const arrivedMs = world.nowMs;
    return {
      message,
      acknowledge: () =>
        this.#call(process, "acknowledge", () => {
          if (message.kind === "dispatch") this.acknowledged.add(message.token);
          return delivery.acknowledge();
        }),
      release: () =>
        this.#call(process, "release", () => {
          if (!process.stopping && world.nowMs - arrivedMs < SLOT_PATIENCE_MS)
            reach.met("delivery released for lack of a slot");
          return delivery.release();
        }),
    };
  }

  /** A call of the broker by a process, which may die before it, at once, or when it has been carried out. */
  async #call<Answer>(process: SimulatedProcess, port: string, carryOut: () => Promise<Answer>): Promise<Answer> {
    const { world, auditor, faults } = this.#simulation;
    if (!process.alive) {
      auditor.portUsedAfterEnd(process, port);
      return NEVER;
    }
    const { crash } = faults.onCall(process.slot, port);
    if (crash?.when === "before") {
      process.crash(crash);
      return NEVER;
    }
    const carried = carryOut();
    if (crash?.when === "sent") process.crash(crash);
    const answer = await carried;
    if (crash?.when === "applied" && process.alive) process.crash(crash);
    return new Promise((resolve) => void world.after(HOP_MS, () => resolve(answer), process));
  }
}
