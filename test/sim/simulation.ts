import { MemoryDatabase } from "../../runtime/adapters/memory/database.ts";
import { countingIds } from "../../runtime/adapters/memory/seeded.ts";
import { createMemoryStore, type MemoryStore } from "../../runtime/adapters/memory/store.ts";
import type { DoorbellTopic } from "../../runtime/protocol/ports/transport.ts";
import { Auditor } from "./auditor.ts";
import { Client } from "./client.ts";
import { FaultDriver, Slots } from "./fault-driver.ts";
import { Health } from "./health.ts";
import type { Plan } from "./plan.ts";
import { Reach } from "./reach.ts";
import { RelayTurns } from "./relay-turns.ts";
import { declareTypes } from "./scene.ts";
import { SimulatedTransport } from "./simulated-transport.ts";
import { World } from "./world.ts";

/** One world with everything in it. */
export class Simulation {
  readonly plan: Plan;
  readonly world: World;
  readonly database: MemoryDatabase;
  readonly store: MemoryStore;
  readonly reach = new Reach();
  readonly ids = countingIds(0xc);
  readonly faults: FaultDriver;
  readonly health: Health;
  readonly slots: Slots;
  readonly auditor: Auditor;
  readonly client: Client;
  readonly turns: RelayTurns;
  /** Null: PostgreSQL alone. */
  readonly transport: SimulatedTransport | null;

  constructor(plan: Plan, options: { readonly keepTrace: boolean }) {
    this.plan = plan;
    this.world = new World(plan.seed, options.keepTrace);
    this.database = new MemoryDatabase(() => this.world.databaseNowMs());
    this.store = createMemoryStore(this.database, { ring: (topic) => this.ring(topic) });
    declareTypes(this.database, { revision: 1, ...plan.settings });
    this.faults = new FaultDriver(this);
    this.health = new Health({ slots: plan.settings.slots, blindMs: 3 * plan.settings.recoveryMs + 1_000 });
    this.slots = new Slots(this);
    this.auditor = new Auditor(this);
    this.client = new Client(this);
    this.turns = new RelayTurns(this);
    const { transport } = plan.settings;
    this.transport = transport === null ? null : new SimulatedTransport(this);
    if (transport !== null) this.database.outbox.transport = transport;
  }

  /** One way between a process and the database, this time. */
  latencyMs(): number {
    const { least, most } = this.plan.settings.latencyMs;
    return this.world.schedule.between(least, most);
  }

  /** Reaches every process that listens, a moment later. */
  ring(topic: DoorbellTopic): void {
    for (const process of this.slots.alive()) {
      if (process.deaf) continue;
      this.world.after(this.latencyMs(), () => process.ring(topic), process);
    }
  }
}
