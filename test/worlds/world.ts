import { MemoryDatabase } from "../../runtime/adapters/memory/database.ts";
import { createExecutionStore } from "../../runtime/adapters/memory/execution-store.ts";
import { createJobStore } from "../../runtime/adapters/memory/job-store.ts";
import { createLeaseStore } from "../../runtime/adapters/memory/lease-store.ts";
import { createScheduleStore } from "../../runtime/adapters/memory/schedule-store.ts";
import { countingIds } from "../../runtime/adapters/memory/seeded.ts";
import type { JobDefinition } from "../../runtime/config/objects.ts";
import type { DispatchToken, WorkerId } from "../../runtime/core/ids.ts";
import type { Execution } from "../../runtime/protocol/execution.ts";
import type { JobStore } from "../../runtime/protocol/ports/jobs.ts";
import type { LeaseObservation, LeaseStore } from "../../runtime/protocol/ports/leases.ts";
import type { ScheduleStore } from "../../runtime/protocol/ports/schedules.ts";
import type { Clock } from "../../runtime/protocol/ports/surroundings.ts";
import { isFinal } from "../../runtime/protocol/states.ts";
import { startRecovery } from "../../runtime/services/recovery.ts";
import { jobDefinition } from "../contract/definitions.ts";
import { type Call, Network, settle } from "./network.ts";
import { type HandlerEnd, LEASE_MS, type ProcessStore, WorldProcess } from "./process.ts";
import { MAX_ATTEMPTS, MAX_LOST, Safety, Violation } from "./safety.ts";

export type WorldStore = ProcessStore &
  Pick<LeaseStore, "observeLeases" | "recoverJobs"> &
  Pick<JobStore, "insertJobs" | "cancelJob" | "requeueJob"> &
  Pick<ScheduleStore, "promoteDue">;

/** What may happen in a world, and how often. */
export interface WorldRules {
  readonly name: string;
  /** How jobs reach workers: taken from the queue, or named by a broker's messages, old ones and duplicates included. */
  readonly transport: "queue" | "broker";
  /** Crashes of a process and connections that break under a call, together. */
  readonly faults: number;
  /** Calls that may be under way while something else happens. */
  readonly callsUnderWay: number;
  readonly ends: readonly HandlerEnd[];
  readonly aborts: readonly ("shutdown" | "time-out")[];
  readonly requeues: number;
  /** Names of actions that have happened when the counting begins. */
  readonly begin: readonly string[];
}

const TICK_MS = 30_000;
const RECOVERY_INTERVAL_MS = 30_000;
const EPOCH_MS = Date.UTC(2026, 0, 5);
const DEFINITION: JobDefinition = jobDefinition({
  type: "work",
  policy: {
    ...jobDefinition({ type: "work" }).policy,
    retry: {
      maxAttempts: MAX_ATTEMPTS,
      backoff: { type: "fixed", initialMs: TICK_MS, maxMs: TICK_MS, jitter: 0 },
    },
    maxLost: MAX_LOST,
  },
});

/** One thing that can happen next; `name` tells it, the same in every world that has come the same way. */
export interface Action {
  readonly name: string;
  /** In any world that has come the same way. */
  readonly run: (world: World) => void;
  /** The calls that it sends run and are answered before anything else happens. */
  readonly atOnce: boolean;
}

/** Two worker processes, one observer that leads recovery, one job: real code on ports that move when they are told to. */
export class World {
  readonly rules: WorldRules;
  readonly network: Network;
  readonly database: MemoryDatabase;
  readonly processes: WorldProcess[] = [];
  readonly safety: Safety;
  /** Tokens of messages; the broker may deliver each at any time and again. */
  readonly messages: DispatchToken[] = [];
  /** Looks of the observer since something changed, newest last. */
  readonly looks: { readonly askedMs: number; readonly answeredMs: number; readonly seen: LeaseObservation | null }[] =
    [];
  nowMs = 0;
  faults = 0;
  requeues = 0;
  readonly #store: WorldStore;
  readonly #ids = countingIds();
  readonly #everyProcess: WorldProcess[] = [];
  #wakeObserver: (() => void) | null = null;
  #problem: unknown = null;

  constructor(rules: WorldRules) {
    this.rules = rules;
    this.network = new Network(() => this.nowMs);
    this.database = new MemoryDatabase(() => EPOCH_MS + this.nowMs);
    this.database.definitions.set("sha256:work", DEFINITION);
    this.database.types.set("work", { definition: DEFINITION, hash: "sha256:work", revision: 1 });
    this.#store = createWorldStore(this.database);
    const id = this.#ids.jobId();
    const plain = { queue: null, payload: null, priority: 0, due: null, maxAttempts: null, timeoutMs: null };
    void this.#store.insertJobs([{ id, type: "work", ...plain }]);
    this.safety = new Safety({
      row: this.row,
      database: this.database,
      handlerOf: (workerId, token) =>
        this.#everyProcess.find((process) => process.workerId === workerId)?.handlers.get(token) ?? null,
    });
    this.processes = [this.#spawn("A"), this.#spawn("B")];
    this.#noteMessage();
  }

  get row() {
    const [row] = this.database.jobs.values();
    if (row === undefined) throw new Violation("the job is gone");
    return row;
  }

  /** Has to be called once, before anything happens. */
  async open(): Promise<this> {
    const store = this.network.connect("observer", this.#store);
    startRecovery({
      store: {
        observeLeases: async () => {
          const askedMs = this.nowMs;
          try {
            const seen = await store.observeLeases();
            this.#noteLook({ askedMs, answeredMs: this.nowMs, seen: seen[0] ?? null });
            return seen;
          } catch (error) {
            this.looks.length = 0;
            throw error;
          }
        },
        recoverJobs: (suspects) => {
          if (!this.#hasWatched()) this.#problem ??= new Violation("recovery acts without a whole lease of looks");
          return store.recoverJobs(suspects);
        },
      },
      leaseMs: LEASE_MS,
      intervalMs: RECOVERY_INTERVAL_MS,
      isLeading: () => true,
      clock: {
        monotonicMs: () => this.nowMs,
        sleep: () => new Promise((wake) => (this.#wakeObserver = wake)),
      },
      random: { next: () => 0 },
      observer: { observe: () => {} },
    });
    // The loop begins with a look; nothing is claimed yet.
    await this.#finishCalls(0);
    for (const name of this.rules.begin) {
      const action = this.actions().find((one) => one.name === name);
      if (action === undefined) throw new Error(`nothing named "${name}" can happen now`);
      await this.perform(action);
    }
    return this;
  }

  /** Everything that can happen next. */
  actions(): Action[] {
    const actions: Action[] = [{ name: "30 s pass", run: (world) => void (world.nowMs += TICK_MS), atOnce: false }];
    for (const slot of this.processes.keys()) this.#actionsOf(slot, actions);
    if (this.#wakeObserver !== null) this.#sending(actions, "the observer looks", (world) => world.#look());
    this.#operatorActions(actions);
    for (const index of this.network.calls.keys()) this.#networkActions(index, actions);
    return actions;
  }

  /** Throws a Violation when an invariant does not hold afterwards. */
  async perform(action: Action): Promise<void> {
    const underWay = this.network.calls.length;
    action.run(this);
    await settle();
    if (action.atOnce) await this.#finishCalls(underWay);
    if (this.#problem !== null) throw this.#problem;
    this.#judgeBeliefs();
  }

  #actionsOf(slot: number, actions: Action[]): void {
    const process = this.#processAt(slot);
    const { name } = process;
    const isFree = !process.claiming && !process.doubt && process.executions.size < 2;
    if (isFree && this.rules.transport === "broker") this.#deliveries(slot, actions);
    else if (isFree && this.row.state === "Enqueued") {
      const { recovered } = this.row;
      this.#sending(actions, `${name} claims`, (world) => void world.#processAt(slot).claim({ recovered }));
    }
    if (process.doubt && !process.claiming && !process.clearing)
      this.#sending(actions, `${name} looks for strays`, (world) => void world.#processAt(slot).clearDoubt());
    for (const execution of process.executions) this.#executionActions(slot, execution, actions);
    if (process.leases.held().size > 0 && !this.#isUnderWay(process, "renewLeases"))
      this.#sending(actions, `${name} renews`, (world) => world.#processAt(slot).renew());
    const isIdle = process.executions.size === 0 && !process.claiming;
    if (this.faults < this.rules.faults && !isIdle)
      actions.push({ name: `${name} crashes`, run: (world) => world.#crash(slot), atOnce: false });
  }

  #deliveries(slot: number, actions: Action[]): void {
    const { name } = this.#processAt(slot);
    const { id: jobId } = this.row;
    for (const [index, token] of this.messages.entries()) {
      for (const busy of [false, true]) {
        const title = `${name} is delivered message ${index + 1}${busy ? " and finds the lock busy" : ""}`;
        this.#sending(actions, title, (world) => void world.#processAt(slot).deliver({ jobId, token, busy }));
      }
    }
  }

  #executionActions(slot: number, execution: Execution, actions: Action[]): void {
    const process = this.#processAt(slot);
    const { token, phase, abortReason } = execution;
    const title = `${process.name} #${execution.job.execution}`;
    const of = (act: (process: WorldProcess, execution: Execution) => void) => (world: World) => {
      const same = world.#processAt(slot);
      for (const one of same.executions) if (one.token === token) act(same, one);
    };
    if (phase === "waiting") {
      const start = of((same, one) => same.start(one));
      this.#sending(actions, `${title} starts`, start);
      const giveBack = of((same, one) => void same.giveBack(one));
      if (!execution.job.recovered) this.#sending(actions, `${title} is given back`, giveBack);
    }
    if (phase !== "running" || process.handlers.get(token)?.ended !== null) return;
    for (const end of this.rules.ends) {
      if (end === "is-cut-off" && abortReason === null) continue;
      this.#sending(actions, `${title} ${end}`, (world) => world.#processAt(slot).endHandler(token, end));
    }
    for (const reason of abortReason === null ? this.rules.aborts : []) {
      const run = of((same, one) => same.abort(one, reason));
      actions.push({ name: `${title} is aborted: ${reason}`, run, atOnce: false });
    }
    const note = of((same, one) => void same.note(one));
    if (!execution.startWritten) actions.push({ name: `${title} writes its start`, run: note, atOnce: true });
  }

  #operatorActions(actions: Action[]): void {
    const { row } = this;
    const operate = (name: string, method: "cancelJob" | "requeueJob" | "promoteDue"): void => {
      actions.push({ name, run: (world) => void world.#operate(method), atOnce: true });
    };
    if (!isFinal(row.state) && !row.cancelRequested) operate("an operator cancels", "cancelJob");
    if (isFinal(row.state) && this.requeues < this.rules.requeues) operate("an operator requeues", "requeueJob");
    if (row.state === "Scheduled" && row.runAtMs <= EPOCH_MS + this.nowMs) operate("the job is due", "promoteDue");
  }

  #networkActions(index: number, actions: Action[]): void {
    const call = this.#callAt(index);
    const name = `call ${index + 1} (${call.method})`;
    const push = (end: string, run: (world: World) => void): void => {
      actions.push({ name: `${name} ${end}`, run, atOnce: false });
    };
    if (call.answer !== null) push("is answered", (world) => world.network.deliver(world.#callAt(index)));
    else {
      push("runs", (world) => void world.#apply(world.#callAt(index)));
      if (call.waiting) push("runs and is answered", (world) => void world.#complete(world.#callAt(index)));
    }
    if (!call.waiting || this.faults >= this.rules.faults) return;
    push("breaks", (world) => {
      world.faults += 1;
      world.network.cut(world.#callAt(index));
    });
  }

  /** An act that sends a call: with all that follows from it at once, and with the call left under way. */
  #sending(actions: Action[], name: string, run: Action["run"]): void {
    actions.push({ name, run, atOnce: true });
    if (this.network.calls.length < this.rules.callsUnderWay)
      actions.push({ name: `${name} (call sent)`, run, atOnce: false });
  }

  async #finishCalls(underWay: number): Promise<void> {
    await settle();
    while (this.network.calls.length > underWay && this.#problem === null) {
      await this.#complete(this.#callAt(underWay));
      await settle();
    }
  }

  async #apply(call: Call): Promise<void> {
    try {
      await this.network.apply(call);
      const { method, parameters, answer } = call;
      this.#judge({ method, parameters, answer: answer?.settled });
    } catch (error) {
      this.#problem ??= error;
    }
  }

  async #complete(call: Call): Promise<void> {
    await this.#apply(call);
    this.network.deliver(call);
  }

  async #operate(method: "cancelJob" | "requeueJob" | "promoteDue"): Promise<void> {
    const { id } = this.row;
    if (method === "requeueJob") this.requeues += 1;
    try {
      const answer = await (method === "promoteDue" ? this.#store.promoteDue(10) : this.#store[method](id));
      this.#judge({ method, parameters: [], answer });
    } catch (error) {
      this.#problem ??= error;
    }
  }

  #judge(cause: Parameters<Safety["check"]>[0]): void {
    this.safety.check(cause);
    this.#noteMessage();
  }

  #judgeBeliefs(): void {
    for (const { leases, workerId } of this.processes) {
      for (const execution of leases.held()) {
        const isOpen = execution.phase === "waiting" || execution.phase === "running";
        if (isOpen && leases.isCertain(execution, this.nowMs)) this.safety.believes({ execution, workerId });
      }
    }
  }

  #spawn(name: string): WorldProcess {
    const workerId = this.#ids.workerId();
    const clock: Clock = { monotonicMs: () => this.nowMs, sleep: () => Promise.resolve() };
    const process = new WorldProcess({
      name,
      workerId,
      store: this.network.connect(workerId, this.#store),
      definition: DEFINITION,
      clock,
      onStart: (execution) => this.#guard(() => this.safety.started({ execution, workerId })),
      onAcknowledged: (token) => this.#guard(() => this.safety.acknowledged(token)),
      onEnding: (ending) => this.#guard(() => this.safety.ended(ending)),
    });
    this.#everyProcess.push(process);
    return process;
  }

  /** All that it knew is gone; its next life has another id. */
  #crash(slot: number): void {
    const process = this.#processAt(slot);
    this.faults += 1;
    this.network.orphan(process.workerId);
    for (const record of process.handlers.values()) record.ended ??= "dies";
    this.processes[slot] = this.#spawn(process.name);
  }

  #processAt(slot: number): WorldProcess {
    const process = this.processes[slot];
    if (process === undefined) throw new Error(`there is no process ${slot}`);
    return process;
  }

  #callAt(index: number): Call {
    const call = this.network.calls[index];
    if (call === undefined) throw new Error(`there is no call ${index}`);
    return call;
  }

  #look(): void {
    const wake = this.#wakeObserver;
    this.#wakeObserver = null;
    wake?.();
  }

  #noteLook(look: World["looks"][number]): void {
    const last = this.looks.at(-1)?.seen ?? null;
    const { seen } = look;
    if (last?.token !== seen?.token || last?.leaseCounter !== seen?.leaseCounter) this.looks.length = 0;
    this.looks.push(look);
  }

  /** The same was seen for a whole lease, and no look in between failed or was long in coming. */
  #hasWatched(): boolean {
    const last = this.looks.at(-1);
    let first = last;
    for (const look of this.looks.toReversed()) {
      if (first === undefined || first.askedMs - look.answeredMs > RECOVERY_INTERVAL_MS * 2.5) break;
      first = look;
    }
    return first !== undefined && last !== undefined && last.askedMs - first.answeredMs >= LEASE_MS;
  }

  #noteMessage(): void {
    const { state, token } = this.row;
    if (state === "Enqueued" && token !== null && !this.messages.includes(token)) this.messages.push(token);
    // Older ones than the last two are like the one before.
    if (this.messages.length > 2) this.messages.shift();
  }

  #isUnderWay({ workerId }: { readonly workerId: WorkerId }, method: string): boolean {
    return this.network.calls.some((call) => call.caller === workerId && call.method === method && call.waiting);
  }

  #guard(judge: () => void): void {
    try {
      judge();
    } catch (error) {
      this.#problem ??= error;
    }
  }
}

/** The memory store's own methods; only those that a world calls, since a world is made for every step. */
function createWorldStore(database: MemoryDatabase): WorldStore {
  const silent = { ring: () => {} };
  const jobs = createJobStore(database, silent);
  const executions = createExecutionStore(database);
  const leases = createLeaseStore(database, silent);
  return {
    insertJobs: jobs.insertJobs,
    cancelJob: jobs.cancelJob,
    requeueJob: jobs.requeueJob,
    claimJobs: executions.claimJobs,
    claimRecovered: executions.claimRecovered,
    claimDelivery: executions.claimDelivery,
    deferDelivery: executions.deferDelivery,
    findOwned: executions.findOwned,
    finishJob: executions.finishJob,
    returnClaims: executions.returnClaims,
    markStarted: executions.markStarted,
    renewLeases: leases.renewLeases,
    observeLeases: leases.observeLeases,
    recoverJobs: leases.recoverJobs,
    promoteDue: createScheduleStore(database, silent).promoteDue,
  };
}
