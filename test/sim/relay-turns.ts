import type { PublishBatch } from "../../runtime/protocol/ports/outbox.ts";
import type { BrokerMessage } from "../../runtime/protocol/ports/transport.ts";
import type { Caller } from "./connection.ts";
import type { Simulation } from "./simulation.ts";

/** PostgreSQL ends a transaction in which nothing has happened for so long. */
const IDLE_MS = 30_000;

/** The transaction was rolled back before it ended. */
export class TransactionLostError extends Error {}

interface Turn {
  readonly caller: Caller;
  readonly messages: readonly BrokerMessage[];
  readonly lose: () => void;
}

/** Transactions of the relay: open at the database while their process publishes, and lost with it. */
export class RelayTurns {
  readonly #simulation: Simulation;
  readonly #open = new Set<Turn>();
  /** Of processes that died in their turn. */
  readonly #left = new Set<BrokerMessage>();

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
  }

  /** What the database asks of its caller in the middle of the transaction. */
  publishThrough(caller: Caller, publish: PublishBatch): PublishBatch {
    return (messages) =>
      new Promise((resolve, reject) => {
        const { world, reach } = this.#simulation;
        if (messages.some((message) => this.#left.has(message))) reach.met("relay taken over after a crash");
        for (const message of messages) this.#left.delete(message);
        const lose = (): void => {
          if (!this.#open.delete(turn)) return;
          reject(new TransactionLostError());
        };
        const turn: Turn = { caller, messages, lose };
        this.#open.add(turn);
        world.after(IDLE_MS, lose);
        if (!caller.alive) {
          lose();
          return;
        }
        world.after(
          this.#simulation.latencyMs(),
          () => void publish(messages).then((verdicts) => this.#answer(turn, () => resolve(verdicts))),
          caller,
        );
      });
  }

  /** Its process has died. */
  died(caller: Caller): void {
    for (const turn of [...this.#open]) {
      if (turn.caller !== caller) continue;
      for (const message of turn.messages) this.#left.add(message);
      turn.lose();
    }
  }

  /** The server has gone, and another has taken its place. */
  loseAll(): void {
    for (const turn of [...this.#open]) turn.lose();
  }

  #answer(turn: Turn, commit: () => void): void {
    const { world, faults } = this.#simulation;
    const { slot, alive } = turn.caller;
    if (!alive) return;
    world.after(this.#simulation.latencyMs(), () => {
      const outage = faults.outageOf(slot);
      // Nothing arrives: the server waits for it in vain.
      if (outage === "black-hole") return;
      if (outage === "refused") turn.lose();
      else if (this.#open.delete(turn)) commit();
    });
  }
}
