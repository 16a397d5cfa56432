import type { WorkerId } from "../core/ids.ts";
import type { DispatchDelivery, Ending } from "../protocol/fencing.ts";
import type { ExecutionStore } from "../protocol/ports/jobs.ts";
import type { OutboxStore } from "../protocol/ports/outbox.ts";
import type { Clock } from "../protocol/ports/surroundings.ts";
import type { Broker, Delivery, MarkerMessage, Subscription } from "../protocol/ports/transport.ts";
import type { ClaimDoubt } from "./claim-doubt.ts";
import type { Supply } from "./supply.ts";
import type { WorkQueue } from "./work-queue.ts";

export interface ConsumerOptions {
  readonly broker: Pick<Broker, "subscribe">;
  readonly store: Pick<ExecutionStore, "claimJobs"> & Pick<OutboxStore, "consumeMarker">;
  readonly workerId: WorkerId;
  readonly queues: readonly WorkQueue[];
  readonly clock: Clock;
  readonly claims: ClaimDoubt;
  /** Takes what no message brings: jobs of lost workers, and those of queues with a limit. */
  readonly claimer: Supply;
  /** From the claim to the final write; `onHeld` when the claim is certain. Rejects when the database cannot say. */
  readonly play: (delivery: DispatchDelivery, onHeld: () => void) => Promise<Ending>;
}

/** A delivery without a slot in sight goes to other workers after this. */
const WAITS_AT_MOST_MS = 1_000;
/** And while the database is away after this: to others who reach it, or to come again. */
const WAITS_FOR_DATABASE_MS = 30_000;
/** A limit of a queue is noticed by a revision's ring, its jobs' messages, or this. */
const LIMIT_LOOK_MS = 5_000;

interface Lane {
  readonly queue: WorkQueue;
  subscription: Subscription | null;
  prefetch: number;
  /** Delivered and not claimed, in the order of their arrival. */
  pending: Pending[];
  lookedMs: number;
}

interface Pending {
  readonly delivery: Delivery;
  readonly arrivedMs: number;
}

/**
 * Supplies from a broker: a subscription a queue, whose prefetch follows the free slots and the pace. A message only
 * wakes: the claim by its token decides. While the database cannot be asked, deliveries wait here for a bounded time.
 */
export class Consumer implements Supply {
  readonly #options: ConsumerOptions;
  readonly #lanes: readonly Lane[];
  /** The database tells the broker of jobs. */
  #told = false;
  #stopped = false;

  constructor(options: ConsumerOptions) {
    this.#options = options;
    for (const queue of options.queues) queue.inTurn = false;
    this.#lanes = options.queues.map((queue) => ({
      queue,
      subscription: null,
      prefetch: 0,
      pending: [],
      lookedMs: Number.NEGATIVE_INFINITY,
    }));
  }

  /**
   * The transport by the database's word. While it is another one, jobs are claimed from the database: no message would
   * come. Messages are taken either way; those that are left from before are stale and go with their claim.
   */
  follow(told: boolean): void {
    if (this.#stopped) return;
    this.#told = told;
    for (const { queue } of this.#lanes) {
      queue.byMessage = told;
      if (!told) queue.inTurn = true;
    }
    this.lookAtLimits();
    this.pump();
  }

  /** A revision came into force, or the broker's word began: queues may have limits now. */
  lookAtLimits(): void {
    for (const lane of this.#lanes) void this.#look(lane);
  }

  pump(): void {
    this.#options.claimer.pump();
    for (const lane of this.#lanes) this.#pumpLane(lane);
  }

  poll(): void {
    const nowMs = this.#options.clock.monotonicMs();
    this.#options.claimer.poll();
    for (const lane of this.#lanes) {
      this.#releaseOverdue(lane, nowMs);
      this.#pumpLane(lane);
      if (nowMs - lane.lookedMs >= LIMIT_LOOK_MS) void this.#look(lane);
    }
  }

  ring(queue: WorkQueue): void {
    this.#options.claimer.ring(queue);
  }

  landed(queue: WorkQueue): void {
    this.#options.claimer.landed(queue);
    for (const lane of this.#lanes) if (lane.queue === queue && lane.pending.length > 0) this.#pumpLane(lane);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    const still = this.#options.claimer.stop();
    for (const lane of this.#lanes) {
      const stopped = lane.subscription?.stop();
      this.#release(lane, lane.pending.length);
      await stopped;
    }
    await still;
  }

  #pumpLane(lane: Lane): void {
    if (this.#stopped) return;
    while (!this.#options.claims.blocked) {
      const [next] = lane.pending;
      if (next === undefined) break;
      const { delivery } = next;
      const { message } = delivery;
      if (message.kind === "dispatch" && !this.#mayClaim(lane.queue)) break;
      lane.pending.shift();
      if (message.kind === "marker") void this.#consume(lane, next, message);
      else void this.#claim(lane, next, { message, acknowledge: () => delivery.acknowledge() });
    }
    this.#adaptPrefetch(lane);
  }

  /**
   * In their turn jobs are not claimed by their messages, which are to go all the same: a few at a time, since what is
   * left of another transport, or of a limit that is lifted, claims.
   */
  #mayClaim({ inTurn, isFull, room, slots }: WorkQueue): boolean {
    return room > (inTurn ? -slots : 0) && !isFull;
  }

  async #claim(lane: Lane, pending: Pending, delivery: DispatchDelivery): Promise<void> {
    const { claims, play } = this.#options;
    const { queue } = lane;
    let underWay = true;
    const over = (): void => {
      if (!underWay) return;
      underWay = false;
      queue.claiming -= 1;
      claims.ended();
    };
    queue.claiming += 1;
    claims.began();
    try {
      const ending = await play(delivery, () => {
        claims.succeeded();
        over();
      });
      over();
      if (ending === "limited") this.#enterTurn(queue);
    } catch (error) {
      this.#failed(lane, pending, error);
      over();
    }
    this.#pumpLane(lane);
  }

  /** Everything that was before it in its queue has been delivered: whoever redispatches wants to know. */
  async #consume(lane: Lane, pending: Pending, { marker }: MarkerMessage): Promise<void> {
    try {
      await this.#options.store.consumeMarker(marker);
      await pending.delivery.acknowledge();
    } catch (error) {
      this.#failed(lane, pending, error);
    }
  }

  /** The database could not be asked: the delivery waits for the next poll. */
  #failed(lane: Lane, pending: Pending, error: unknown): void {
    this.#options.claims.failed(error);
    if (this.#stopped) void pending.delivery.release();
    else lane.pending.unshift(pending);
  }

  #receive(lane: Lane, delivery: Delivery): void {
    if (this.#stopped) {
      void delivery.release();
      return;
    }
    // Somebody has moved it in the broker: its job has no slots here, and is told of again where it belongs.
    if (delivery.message.queue !== lane.queue.name) {
      void delivery.acknowledge();
      return;
    }
    lane.pending.push({ delivery, arrivedMs: this.#options.clock.monotonicMs() });
    this.#pumpLane(lane);
  }

  #releaseOverdue(lane: Lane, nowMs: number): void {
    const patienceMs = this.#options.claims.blocked ? WAITS_FOR_DATABASE_MS : WAITS_AT_MOST_MS;
    let overdue = 0;
    for (const { arrivedMs } of lane.pending) {
      if (nowMs - arrivedMs < patienceMs) break;
      overdue += 1;
    }
    if (overdue === 0) return;
    // What runs now is slower than what ran before.
    if (!this.#options.claims.blocked) lane.queue.pace.distrust();
    this.#adaptPrefetch(lane);
    this.#release(lane, overdue);
  }

  #release(lane: Lane, count: number): void {
    for (const { delivery } of lane.pending.splice(0, count)) void delivery.release();
  }

  /**
   * As many unclaimed messages as may be claimed. Where runs are short the slots are free again before a broker could
   * be told that they are taken, and only a large change of the pace is worth telling it: each makes it begin anew.
   */
  #adaptPrefetch(lane: Lane): void {
    const { slots, free, pace } = lane.queue;
    const ahead = pace.ahead(slots);
    const isQuick = ahead >= slots;
    const wanted = isQuick ? slots + ahead : Math.max(0, free + ahead);
    const isNear = wanted * 2 > lane.prefetch && wanted < lane.prefetch * 2;
    if (wanted === lane.prefetch || (isQuick && isNear)) return;
    lane.prefetch = wanted;
    if (lane.subscription !== null) lane.subscription.prefetch(wanted);
    else if (wanted > 0) this.#subscribe(lane);
  }

  #subscribe(lane: Lane): void {
    const { broker } = this.#options;
    lane.subscription = broker.subscribe(lane.queue.name, lane.prefetch, (delivery) => this.#receive(lane, delivery));
  }

  #enterTurn(queue: WorkQueue): void {
    queue.inTurn = true;
    this.#options.claimer.ring(queue);
  }

  /** Whether the queue has a limit for the fleet, or is suspended; asks for no job. */
  async #look(lane: Lane): Promise<void> {
    if (this.#stopped || !this.#told) return;
    const { store, workerId, clock, claims } = this.#options;
    lane.lookedMs = clock.monotonicMs();
    const request = { workerId, queue: lane.queue.name, limit: 0, after: null, exceptTypes: [] };
    try {
      const { limited } = await store.claimJobs(request);
      if (limited === true && !this.#stopped) this.#enterTurn(lane.queue);
    } catch (error) {
      claims.failed(error);
    }
  }
}
