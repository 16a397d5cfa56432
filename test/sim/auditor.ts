import type { JobRow } from "../../runtime/adapters/memory/database.ts";
import type { DispatchToken, JobId } from "../../runtime/core/ids.ts";
import { writeBrokerMessage } from "../../runtime/protocol/ports/broker-text.ts";
import type { CancelOutcome, ClaimedJob, Finish, Ownership } from "../../runtime/protocol/ports/jobs.ts";
import type { LeaseObservation } from "../../runtime/protocol/ports/leases.ts";
import type { StepOutcome } from "../../runtime/protocol/ports/schedules.ts";
import type { EngineEvent } from "../../runtime/protocol/ports/surroundings.ts";
import type { DispatchMessage } from "../../runtime/protocol/ports/transport.ts";
import { isFinal, TRANSITIONS } from "../../runtime/protocol/states.ts";
import { shortId } from "./answers.ts";
import type { Call } from "./connection.ts";
import type { Invariant, Violation } from "./invariants.ts";
import { judgeSchedules } from "./schedule-audit.ts";
import { readShadow, type Shadow } from "./shadow.ts";
import type { ActiveRun } from "./simulated-host.ts";
import { stepOf } from "./simulated-host.ts";
import type { SimulatedProcess } from "./simulated-process.ts";
import type { SimulatedTransport } from "./simulated-transport.ts";
import type { Simulation } from "./simulation.ts";

/** Calls that write nothing. */
const READS = new Set([
  "observeLeases",
  "nextDueInMs",
  "loadDueSchedules",
  "findOwned",
  "loadDefinitions",
  "loadBundle",
  "loadJobTypes",
  "loadInstallation",
  "readOutbox",
]);
/** Calls that write, and never to a job. */
const OTHER_TABLES = new Set([
  "holdTerm",
  "releaseTerm",
  "registerWorker",
  "heartbeat",
  "deregisterWorker",
  "foldCounters",
  "pruneWorkers",
  "preparePartitions",
  "dropExpired",
]);
const MOVES = new Set(TRANSITIONS.map(([from, to, reason]) => `${from} ${to} ${reason}`));
/** A process that was held may not have got round to an abort for so long after. */
const CATCH_UP_MS = 300;
/** Errors that faults bring on purpose and that are not the database being away. */
const EXPECTED_FAILURE = /could not serialize|Unicode escape/;
/** Budgets are small here; whoever needs more executions is in a loop. */
const MOST_EXECUTIONS = 150;

/**
 * Looks at the tables after every call that can have written, compares them with what it saw before, and judges every
 * change by the call that made it. It keeps its own books and asks the engine nothing.
 */
export class Auditor {
  violation: Violation | null = null;
  readonly #simulation: Simulation;
  readonly #shadows = new Map<JobId, Shadow>();
  readonly #claimedTokens = new Set<DispatchToken>();
  readonly #startedTokens = new Set<DispatchToken>();
  /** Jobs about which the database has forgotten something. */
  readonly #forgiven = new Set<JobId>();
  /** Asked to stop, for whatever reason came first: nobody is asked twice. */
  readonly #toldTokens = new Set<DispatchToken>();
  readonly #requestedAtMs = new Map<JobId, number>();
  readonly #lateTokens = new Set<DispatchToken>();
  readonly #landedTokens = new Set<DispatchToken>();
  readonly #writtenTokens = new Set<DispatchToken>();
  readonly #nextFires = new Map<string, number>();
  readonly #cancelled = new Map<JobId, number>();
  readonly #leaders = new Map<string, Map<number, number>>();
  /** On a broker transport: current tokens whose message the broker has lost. */
  readonly #lostTokens = new Set<DispatchToken>();
  readonly #withoutLock = new Map<JobId, string>();
  #largestToken = 0n;
  /** Before the call that is being judged: one call may mint several. */
  #largestBefore = 0n;
  readonly #mintedTokens = new Set<DispatchToken>();
  #deadLetters = 0;
  #fires = 0;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
  }

  /** Right after a call was carried out, before anybody hears of it. */
  applied(call: Call): void {
    if (call.isLate) this.#noteLate(call);
    if (call.method === "observeLeases") this.#simulation.slots.noteLook(call);
    if (READS.has(call.method) || OTHER_TABLES.has(call.method)) return;
    const { database, client } = this.#simulation;
    this.#largestBefore = this.#largestToken;
    for (const row of database.jobs.values()) {
      const shadow = this.#shadows.get(row.id);
      if (shadow === undefined) this.#born(row, call);
      else if (hasChanged(row, shadow)) this.#judge(row, shadow, call);
    }
    if (database.jobs.size !== this.#shadows.size) {
      for (const id of this.#shadows.keys()) {
        if (!database.jobs.has(id)) this.fail("S8", `the job ${shortId(id)} is gone`);
      }
    }
    for (; this.#deadLetters < database.deadLetters.length; this.#deadLetters++) {
      const letter = database.deadLetters[this.#deadLetters];
      const shadow = letter && this.#shadows.get(letter.jobId);
      if (shadow) shadow.deadLetters += 1;
    }
    for (const [id, answer] of client.ledger) {
      if (answer === "refused" && database.jobs.has(id)) this.fail("S13", `${shortId(id)} was refused and exists`);
      if (answer === "accepted" && !database.jobs.has(id))
        this.fail("S8", `the accepted job ${shortId(id)} is not there`);
    }
    this.#judgeTables();
    for (const { name, nextFireAtMs, spec } of database.schedules.values()) {
      // What counts from a finish goes back with a clock that is set back.
      if (nextFireAtMs === null || (spec.timing.kind === "every" && spec.timing.from === "finish")) continue;
      if (nextFireAtMs < (this.#nextFires.get(name) ?? 0)) this.fail("S10", `the next fire of ${name} went back`);
      this.#nextFires.set(name, nextFireAtMs);
    }
    if (database.fires.length !== this.#fires) {
      this.#fires = database.fires.length;
      const problem = judgeSchedules(database);
      if (problem !== null) this.fail("S10", problem);
    }
  }

  /** What a call gave back; its caller may never hear of it. */
  answered({ caller, method, args }: Call, answer: unknown): void {
    const { reach } = this.#simulation;
    if (method === "finishJob") {
      const finish = args[1] as Finish;
      if (answer === "landed") {
        if (!this.#writtenTokens.has(finish.token) && !this.#forgiven.has(finish.jobId))
          this.fail("S3", `#${finish.token} was told that its end has landed, and it has not`);
        if (this.#landedTokens.has(finish.token)) reach.met("finish offered again and read back");
        this.#landedTokens.add(finish.token);
      } else this.#judgeRefused(finish);
      if (answer === "fenced") {
        reach.met("write of a zombie refused");
        if (finish.next === "Succeeded") reach.met("lease lost after the handler had succeeded");
        if (finish.charge === "return") reach.met("graceful return that lost to another write");
      }
    } else if (method === "recoverJobs") {
      if ((answer as readonly unknown[]).length < (args[0] as readonly unknown[]).length)
        reach.met("recovery that came too late");
    } else if (method === "findOwned") {
      if ((answer as readonly unknown[]).length > 0) reach.met("strays of an unknown claim given back");
    } else if (method === "applySteps") {
      for (const { kind, overlapped } of answer as readonly StepOutcome[]) {
        if (kind === "stale") reach.met("step of a schedule that came too late");
        if (overlapped.length > 0) reach.met("fire skipped for overlap");
      }
      for (const { skips } of args[0] as readonly { readonly skips: readonly unknown[] }[])
        if (skips.length > 0) reach.met("fire superseded or missed");
    } else if (method === "claimJobs") {
      const { jobs } = answer as { readonly jobs: readonly ClaimedJob[] };
      if (jobs.length > this.#simulation.plan.settings.concurrency) reach.met("claim ahead of the slots");
    } else if (method === "claimDelivery") {
      this.#noteDelivery(caller, args[1] as DispatchMessage, answer as ClaimedJob | "limited" | null);
    } else if (method === "deferDelivery") {
      if (answer === true) reach.met("lock busy deferred");
    } else if (method === "setTransport") {
      const { jobs } = this.#simulation.database;
      if (answer === true && [...jobs.values()].some(({ state }) => state === "Enqueued"))
        reach.met("transport switched with jobs waiting");
    } else if (method === "cancelJob") {
      if ((answer as CancelOutcome).kind === "requested") reach.met("cancel that was a request");
      if ((answer as CancelOutcome).kind === "finished") reach.met("cancel that lost to a success");
    } else if (method === "requeueJob") {
      if ((answer as { readonly kind: string }).kind === "requeued") reach.met("requeue of a finished job");
    } else if (method === "holdTerm" && answer === true) {
      this.#noteLeader((args[0] as { readonly duty: string }).duty, caller.slot);
    }
  }

  #noteDelivery(
    { name }: Call["caller"],
    { jobId, token }: DispatchMessage,
    answer: ClaimedJob | "limited" | null,
  ): void {
    const { database, reach } = this.#simulation;
    const row = database.jobs.get(jobId);
    if (answer === null)
      reach.met(
        row?.state === "Processing" && row.token === token ? "duplicate claim refused" : "stale delivery dropped",
      );
    else if (answer !== "limited") {
      if (this.#lostTokens.has(token)) reach.met("redispatch brought a lost message back");
      if (this.#withoutLock.get(jobId) === name) reach.met("lock unavailable went on");
      this.#withoutLock.delete(jobId);
    }
  }

  lockUnavailable({ name }: SimulatedProcess, resource: string): void {
    this.#withoutLock.set(resource.replace(/^job:/, "") as JobId, name);
  }

  #judgeRefused({ jobId, children = [] }: Finish): void {
    const { database, reach } = this.#simulation;
    if (children.length === 0 || this.#forgiven.has(jobId)) return;
    reach.met("children of an end that was refused");
    for (const { id } of children)
      if (database.jobs.has(id)) this.fail("S13", `${shortId(id)} is the child of an end that was refused`);
  }

  outcomeUnknown({ method }: Call, isApplied: boolean): void {
    const { reach } = this.#simulation;
    if (method === "claimJobs" || method === "claimRecovered" || method === "claimDelivery")
      reach.met(isApplied ? "unknown claim that was carried out" : "unknown claim that was not carried out");
    if (method === "finishJob")
      reach.met(isApplied ? "unknown finish that was carried out" : "unknown finish that was not carried out");
  }

  handlerStarted(process: SimulatedProcess, run: ActiveRun): void {
    const { reach, database, slots } = this.#simulation;
    if (run.isAlone) reach.met("job run alone");
    if (this.#forgiven.has(run.jobId)) return;
    if ((database.jobs.get(run.jobId)?.lost ?? 0) > 0 && !run.isAlone)
      this.fail("S18", `#${run.token} was lost before and does not run alone`);
    if (this.#startedTokens.has(run.token)) this.fail("S1", `a handler starts again for #${run.token}`);
    this.#startedTokens.add(run.token);
    if (!this.#isCertain(process, run.token))
      this.fail("S2", `${process.name} starts #${run.token} without a certain lease`);
    const row = database.jobs.get(run.jobId);
    if (row?.state !== "Processing" || row.token !== run.token || row.workerId !== process.workerId)
      this.fail("S2", `${process.name} starts #${run.token}, which it does not own`);
    for (const other of slots.alive()) {
      for (const active of other.host.running)
        if (active !== run && active.jobId === run.jobId) {
          reach.met("handler still running beside its successor");
          if (active.hasProcess)
            this.fail("S22", `#${run.token} starts beside #${active.token}, which has a process of its own`);
        }
    }
  }

  handlerAsked({ token }: ActiveRun): void {
    this.#toldTokens.add(token);
  }

  cancelAnswered(id: JobId, outcome: CancelOutcome): void {
    const row = this.#simulation.database.jobs.get(id);
    if (outcome.kind !== "cancelled" || row === undefined || this.#forgiven.has(id)) return;
    // A requeue may have come between the statement and its answer.
    if (row.state === "Cancelled") this.#cancelled.set(id, row.generation);
  }

  calledAfterEnd({ caller, method }: Call): void {
    if (!caller.crashed) this.fail("S17", `${caller.name} has ended and calls ${method}`);
  }

  portUsedAfterEnd({ name, crashed }: SimulatedProcess, port: string): void {
    if (!crashed) this.fail("S17", `${name} has ended and uses ${port}`);
  }

  storeBroke({ caller, method }: Call, error: unknown): void {
    this.fail("S3", `${method} of ${caller.name} broke the store: ${error instanceof Error ? error.message : error}`);
  }

  unhandled(error: unknown): void {
    this.fail("S17", `an error went unhandled: ${error instanceof Error ? (error.stack ?? error.message) : error}`);
  }

  stopped(process: SimulatedProcess): void {
    if (process.host.running.size > 0) this.fail("L5", `${process.name} has stopped while handlers run`);
  }

  observed(process: SimulatedProcess, event: EngineEvent): void {
    const { reach } = this.#simulation;
    if (event.kind === "lease-doubtful") reach.met("lease in doubt while the handler ran");
    if (event.kind === "loop-failed" && !EXPECTED_FAILURE.test(event.message))
      this.fail("S17", `${event.loop} of ${process.name} failed: ${event.message}`);
    if (event.kind === "schedule-broken") this.fail("S17", `the schedule ${event.schedule} broke: ${event.message}`);
  }

  /** The database has forgotten its last commits: what it forgot about these jobs proves nothing against anybody. */
  rolledBack(changed: ReadonlySet<JobId>): void {
    const { database, client, reach } = this.#simulation;
    for (const id of changed) this.#forgiven.add(id);
    client.forgotten();
    for (const [id, answer] of client.ledger) {
      if (database.jobs.has(id) || answer === "refused") continue;
      if (answer === "accepted") reach.met("accepted job forgotten by the database");
      client.ledger.set(id, "unknown");
    }
    this.#shadows.clear();
    this.#nextFires.clear();
    for (const row of database.jobs.values()) {
      const shadow = readShadow(row);
      shadow.deadLetters = database.deadLetters.filter(({ jobId }) => jobId === row.id).length;
      shadow.failedEnds = row.timeline.filter(({ to }) => to === "Failed").length;
      this.#shadows.set(row.id, shadow);
    }
    this.#deadLetters = database.deadLetters.length;
    this.#fires = database.fires.length;
  }

  fail(invariant: Invariant, message: string): void {
    this.violation ??= { invariant, message, atMs: this.#simulation.world.nowMs };
  }

  #born(row: JobRow, call: Call): void {
    const { client, database } = this.#simulation;
    const isAsked =
      client.ledger.has(row.id) ||
      database.fires.some(({ jobId }) => jobId === row.id) ||
      this.#isChildOfSuccess(row, call);
    if (!isAsked) this.fail("S13", `nobody asked for ${shortId(row.id)}, made by ${call.method}`);
    this.#judgeAlone(row);
    if (row.timeline[0]?.from !== null) this.fail("S3", `${shortId(row.id)} begins in the middle`);
    this.#shadows.set(row.id, readShadow(row));
    if (row.token !== null) this.#minted(row, row.token);
  }

  /** It came with the very write that ended its parent well. */
  #isChildOfSuccess(row: JobRow, { method, args }: Call): boolean {
    const { database, reach } = this.#simulation;
    if (method !== "finishJob") return false;
    const { jobId, token, children } = args[1] as Finish;
    const parent = database.jobs.get(jobId);
    if (children?.some(({ id }) => id === row.id) !== true || parent?.state !== "Succeeded") return false;
    reach.met("child born with the success of its parent");
    return parent.attempts.at(-1)?.token === token;
  }

  /** One job for a request with a key, however often it was sent, and one that counts for a unique key. */
  #judgeAlone(row: JobRow): void {
    const { client, database } = this.#simulation;
    for (const id of client.sameRequest.get(row.id) ?? []) {
      if (id !== row.id && database.jobs.has(id))
        this.fail("S21", `one request made both ${shortId(id)} and ${shortId(row.id)}`);
    }
    const key = client.uniqueKeys.get(row.id);
    if (key === undefined) return;
    for (const [id, otherKey] of client.uniqueKeys) {
      const other = database.jobs.get(id);
      if (other === undefined || other === row || otherKey !== key || other.type !== row.type) continue;
      const counts = !isFinal(other.state) && (key === "until finished" || other.execution === 0);
      // A requeued job is an operator's wish, and asks nobody.
      if (counts && other.generation === 0 && !this.#forgiven.has(id))
        this.fail("S21", `${shortId(row.id)} was made although ${shortId(id)} counts for "${key}"`);
    }
  }

  #judge(row: JobRow, shadow: Shadow, call: Call): void {
    const name = shortId(row.id);
    const moves = row.timeline.slice(shadow.moves);
    if (row.timeline.length < shadow.moves) this.fail("S4", `the timeline of ${name} was cut`);
    if (moves.length === 0) this.#judgeStill(row, shadow, call);
    // Whoever frees a concurrency key may be the first in its line.
    if (
      moves.length >
      ((row.concurrencyKey ?? null) !== null && /^(hold released|held)$/.test(moves[1]?.reason ?? "") ? 2 : 1)
    )
      this.fail("S3", `${name} made ${moves.length} moves in one ${call.method}`);
    let state = shadow.state;
    for (const { from, to, reason } of moves) {
      if (from !== state || !MOVES.has(`${from} ${to} ${reason}`))
        this.fail("S3", `${name} went from ${state} to ${to} as "${from} → ${to}, ${reason}"`);
      state = to;
    }
    if (state !== row.state) this.fail("S3", `${name} is ${row.state}, and its timeline says ${state}`);
    const [first] = moves;
    if (first !== undefined) this.#judgeMove(row, shadow, { call, reason: first.reason });
    this.#judgeAttempts(row, shadow);
    const deadLetters = shadow.deadLetters;
    const failedEnds = shadow.failedEnds + moves.filter(({ to }) => to === "Failed").length;
    this.#shadows.set(row.id, { ...readShadow(row), deadLetters, failedEnds });
  }

  #judgeMove(row: JobRow, shadow: Shadow, { call, reason }: { readonly call: Call; readonly reason: string }): void {
    const { reach } = this.#simulation;
    const name = shortId(row.id);
    if (shadow.state === "Processing") this.#judgeEnd(row, shadow, call);
    else if (shadow.isFinal && call.method !== "requeueJob")
      this.fail("S4", `${name} left ${shadow.state} by ${call.method}`);
    if (
      shadow.state === "Processing" &&
      shadow.cancelRequested &&
      row.state !== "Succeeded" &&
      row.state !== "Cancelled"
    )
      this.fail("S11", `${name} goes on as ${row.state} although its cancel was asked for`);
    const generations = row.generation - shadow.generation;
    if (generations !== (call.method === "requeueJob" ? 1 : 0))
      this.fail("S4", `the generation of ${name} rose by ${generations} in ${call.method}`);
    if (call.method !== "requeueJob") this.#judgeBudgets(row, shadow, call, reason);
    switch (row.state) {
      case "Enqueued":
        this.#minted(row, row.token);
        if (reason === "hold released") reach.met("hold released");
        return;
      case "Processing":
        this.#claimed(row, call);
        return;
      case "Scheduled":
        if (row.hold === "no-handler") reach.met("hold for want of a handler");
        if (reason === "retry") reach.met("retry after a failure");
        if (reason === "snoozed") reach.met("snoozed");
        if (reason === "returned" && call.method === "returnClaims") reach.met("claim given back unstarted");
        if (row.returns > shadow.returns) reach.met("graceful return by shutdown");
        return;
      case "Succeeded":
        if (!this.#forgiven.has(row.id) && this.#cancelled.get(row.id) === row.generation)
          this.fail("S11", `${name} succeeded after its cancel was answered`);
        if (row.result === null && row.resultError === null)
          this.fail("S6", `${name} succeeded without the result it had`);
        if (
          row.result !== null &&
          (JSON.parse(row.result) as { readonly token: string }).token !== String(shadow.token)
        )
          this.fail("S6", `${name} has the result ${row.result} of another execution than #${shadow.token}`);
        for (const { id } of (call.args[1] as Finish).children ?? []) {
          if (!this.#simulation.database.jobs.has(id))
            this.fail("S13", `${name} succeeded without its child ${shortId(id)}`);
        }
        if (row.resultError !== null) reach.met("result that could not be stored");
        if (row.cancelRequested) reach.met("cancel that lost to a success");
        return;
      case "Failed":
        if (reason === "worker lost") reach.met("lost too often, ended as Failed");
        if (row.error === null) this.fail("S7", `${name} failed without an error`);
        return;
      case "Cancelled":
        if (shadow.state !== "Processing") return;
        reach.met("cancel that turned another end into Cancelled");
        if (call.method === "recoverJobs") reach.met("cancel of a running job that was lost");
        // A database that rolled back may have forgotten the request; the worker that heard of it has not.
        if (!row.cancelRequested && !(this.#forgiven.has(row.id) && this.#requestedAtMs.has(row.id)))
          this.fail("S3", `${name} was cancelled while it ran, and nobody had asked`);
    }
  }

  /** Out of Processing: whoever wrote it has shown what it must. */
  #judgeEnd(row: JobRow, shadow: Shadow, call: Call): void {
    const { caller, method, args } = call;
    const name = shortId(row.id);
    if (method === "recoverJobs") {
      const seen = (args[0] as readonly LeaseObservation[]).find(({ jobId }) => jobId === row.id);
      if (seen?.token !== shadow.token || seen.leaseCounter !== shadow.leaseCounter)
        this.fail("S3", `${name}#${shadow.token} was recovered on the strength of what had changed`);
      this.#judgeRecovery(row, shadow, call);
      return;
    }
    const shown: readonly Ownership[] =
      method === "finishJob" ? [args[1] as Finish] : method === "returnClaims" ? (args[1] as readonly Ownership[]) : [];
    const isShown = shown.some(({ jobId, token }) => jobId === row.id && token === shadow.token);
    if (!isShown || args[0] !== shadow.workerId)
      this.fail("S3", `${caller.name} moved ${name}#${shadow.token} out of Processing by ${method} without owning it`);
    if (shadow.token !== null && method === "finishJob") this.#writtenTokens.add(shadow.token);
    const owner = this.#processOf(shadow);
    if (owner !== null && method === "finishJob") this.#judgeCancel(row, shadow, owner);
    for (const run of owner?.host.running ?? []) {
      if (run.token === shadow.token && !this.#forgiven.has(row.id))
        this.fail("S16", `${name}#${run.token} was written off by ${method} while its handler runs`);
    }
  }

  #judgeCancel(row: JobRow, shadow: Shadow, owner: SimulatedProcess): void {
    const { world, health, plan } = this.#simulation;
    const requestedAtMs = this.#requestedAtMs.get(row.id);
    if (!shadow.cancelRequested || requestedAtMs === undefined || shadow.token === null) return;
    const sinceMs = Math.max(requestedAtMs, health.wellSinceMs(owner.slot));
    const heard = this.#toldTokens.has(shadow.token) || !this.#startedTokens.has(shadow.token);
    if (!heard && world.nowMs - sinceMs > 2 * plan.settings.renewalMs + 2_000 && !this.#forgiven.has(row.id))
      this.fail("L6", `${owner.name} ended ${shortId(row.id)}#${shadow.token} without having heard of its cancel`);
  }

  /** Whoever takes a job back has looked long enough, and nobody loses one who could still be certain of its lease. */
  #judgeRecovery(row: JobRow, shadow: Shadow, { caller, isLate, sentAtMs }: Call): void {
    const { reach, health, plan, world, slots } = this.#simulation;
    const looker = slots.all.find(({ name }) => name === caller.name);
    if (looker !== undefined && !isLate) {
      const seesSinceMs = Math.max(looker.bornAtMs, health.seesSinceMs(looker.slot));
      if (looker.lookedAtMs >= seesSinceMs && sentAtMs - seesSinceMs < 0.98 * plan.settings.leaseMs)
        this.fail(
          "S19",
          `${looker.name} takes ${shortId(row.id)} back after looking for ${Math.round(sentAtMs - seesSinceMs)} ms`,
        );
    }
    reach.met(shadow.startedAtMs === null ? "claim lost before its start" : "worker lost after its start");
    const owner = this.#processOf(shadow);
    if (owner === null || this.#forgiven.has(row.id) || shadow.token === null) return;
    const isWell = world.nowMs - Math.max(owner.bornAtMs, health.wellSinceMs(owner.slot)) > 1.2 * plan.settings.leaseMs;
    if (isWell && !this.#lateTokens.has(shadow.token))
      this.fail("S20", `${shortId(row.id)}#${shadow.token} was taken from ${owner.name}, which is well`);
    if (this.#isCertain(owner, shadow.token))
      this.fail("S2", `${shortId(row.id)}#${shadow.token} was taken from ${owner.name} while its lease was certain`);
  }

  #claimed(row: JobRow, call: Call): void {
    const { slots, world } = this.#simulation;
    const name = shortId(row.id);
    const token = row.token as DispatchToken;
    if (call.isLate) this.#lateTokens.add(token);
    if (row.recovered && (!/^claim(Recovered|Delivery)$/.test(call.method) || row.startedAtMs === null))
      this.fail("S18", `${name}, which was recovered, was claimed by ${call.method}`);
    if (!/^claim/.test(call.method)) this.fail("S3", `${name} was claimed by ${call.method}`);
    if (row.execution > MOST_EXECUTIONS) this.fail("L2", `${name} was executed ${row.execution} times`);
    if (this.#forgiven.has(row.id)) return;
    if (this.#claimedTokens.has(token)) this.fail("S1", `#${token} was claimed again`);
    this.#claimedTokens.add(token);
    const cancelled = this.#cancelled.get(row.id);
    if (cancelled === row.generation) this.fail("S11", `${name} was claimed after its cancel was answered`);
    for (const process of slots.alive()) {
      for (const run of process.host.running) {
        if (run.jobId !== row.id || run.abortedFor !== null) continue;
        if (this.#isCertain(process, run.token))
          this.fail("S2", `${name} was claimed while ${process.name} was certain of #${run.token}`);
        const heldUntilMs = process.heldUntilMs(false);
        if (heldUntilMs + CATCH_UP_MS < world.nowMs)
          this.fail("S2", `${name} was claimed while ${process.name} ran #${run.token} and had not asked it to stop`);
      }
    }
  }

  #minted(row: JobRow, token: DispatchToken | null): void {
    if (token === null || token <= this.#largestBefore || this.#mintedTokens.has(token)) {
      this.fail("S5", `${shortId(row.id)} entered its queue with #${token} after #${this.#largestBefore}`);
      return;
    }
    this.#mintedTokens.add(token);
    if (token > this.#largestToken) this.#largestToken = token;
  }

  /** No move was made: a renewal, a start, progress or a cancel request. */
  #judgeStill(row: JobRow, shadow: Shadow, { caller, method, args }: Call): void {
    const name = shortId(row.id);
    const owns = (pairs: unknown): boolean =>
      args[0] === shadow.workerId &&
      (pairs as readonly Ownership[]).some(({ jobId, token }) => jobId === row.id && token === shadow.token);
    const changed = (what: string): void =>
      this.fail("S12", `${method} of ${caller.name} changed the ${what} of ${name}#${shadow.token}`);
    if (row.token !== shadow.token || row.workerId !== shadow.workerId) changed("owner");
    if (row.leaseCounter !== shadow.leaseCounter && !(method === "renewLeases" && owns(args[1]))) changed("lease");
    if (row.startedAtMs !== shadow.startedAtMs) {
      if (!(/^(renewLeases|markStarted)$/.test(method) && owns(args[1]))) changed("start");
    }
    if (row.progress !== shadow.progress && !(method === "reportProgress" && owns(args[1]))) changed("progress");
    if (row.result !== shadow.result) changed("result");
    if (row.cancelRequested !== shadow.cancelRequested) {
      if (method !== "cancelJob") changed("cancel request");
      this.#requestedAtMs.set(row.id, this.#simulation.world.nowMs);
    }
    this.#judgeBudgets(row, shadow, { caller, method: "nothing", args, isLate: false, sentAtMs: 0 }, "");
  }

  #judgeBudgets(row: JobRow, shadow: Shadow, { method, args }: Call, reason: string): void {
    const { database } = this.#simulation;
    const name = shortId(row.id);
    const wasProcessing = shadow.state === "Processing";
    const charge = method === "finishJob" && wasProcessing ? (args[1] as Finish).charge : null;
    const started = shadow.startedAtMs !== null;
    const recovered = method === "recoverJobs" && wasProcessing;
    const due = {
      failures: shadow.failures + Number(charge === "failure"),
      lost: shadow.lost + Number(charge === "lost" || (recovered && started)),
      lostUnstarted: shadow.lostUnstarted + Number(recovered && !started),
      returns: shadow.returns + Number(charge === "return"),
    };
    for (const budget of ["failures", "lost", "lostUnstarted", "returns"] as const) {
      if (row[budget] !== due[budget])
        this.fail(
          "S7",
          `${budget} of ${name} went from ${shadow[budget]} to ${row[budget]} in ${method}, expected ${due[budget]}`,
        );
    }
    const policy = database.types.get(row.type)?.definition.policy;
    if (policy === undefined || !wasProcessing) return;
    const most = row.maxAttempts ?? policy.retry.maxAttempts;
    if (reason === "retry" && row.failures >= most)
      this.fail("S7", `${name} is tried again after ${row.failures} failures of ${most}`);
    if (reason === "worker lost" && row.state !== "Failed" && row.lost >= policy.maxLost)
      this.fail("S7", `${name} goes on after ${row.lost} losses of ${policy.maxLost}`);
    if (reason === "failed") {
      const permanent = stepOf({ job: { ...row, token: shadow.token as DispatchToken } as never }).ends === "permanent";
      if (row.failures < most && !permanent)
        this.fail("S7", `${name} failed for good after ${row.failures} failures of ${most}`);
      if (row.failures >= most) this.#simulation.reach.met("attempts exhausted");
    }
  }

  #judgeAttempts(row: JobRow, shadow: Shadow): void {
    const added = row.attempts.slice(shadow.attempts);
    const leaves = shadow.state === "Processing" && row.state !== "Processing";
    if (row.attempts.length < shadow.attempts || added.length > (leaves ? 1 : 0))
      this.fail("S15", `${shortId(row.id)} has ${row.attempts.length} attempts after ${shadow.attempts}`);
    for (const attempt of added) {
      const isTwice = row.attempts.some((other) => other !== attempt && other.execution === attempt.execution);
      if (isTwice || attempt.token !== shadow.token || attempt.execution !== shadow.execution)
        this.fail("S15", `${shortId(row.id)} has an attempt of #${attempt.token}, which is not the one that ended`);
    }
  }

  /** What must hold of every job at any instant, whatever happened to it. */
  #judgeTables(): void {
    const { database, plan, transport } = this.#simulation;
    let narrow = 0;
    let waiting: Set<JobRow> | null = null;
    let texts: ReadonlySet<string> | null = null;
    const keys = new Set<string>();
    for (const row of database.jobs.values()) {
      const shadow = this.#shadows.get(row.id);
      if (shadow !== undefined && shadow.deadLetters !== shadow.failedEnds)
        this.fail(
          "S14",
          `${shortId(row.id)} failed ${shadow.failedEnds} times and has ${shadow.deadLetters} dead letters`,
        );
      const key = row.concurrencyKey ?? null;
      if (key !== null && (row.state === "Enqueued" || row.state === "Processing")) {
        if (keys.has(key)) this.fail("S9", `the key ${key} has two owners`);
        if (database.keys.get(key) !== row.id) this.fail("S9", `${shortId(row.id)} goes on without its key ${key}`);
        keys.add(key);
      }
      if (row.hold === "key") {
        this.#simulation.reach.met("wait for a concurrency key");
        const owner = database.jobs.get(database.keys.get(key ?? "") as JobId);
        if (owner === undefined || !(owner.state === "Enqueued" || owner.state === "Processing"))
          this.fail("S8", `${shortId(row.id)} waits for the key ${key}, which nobody has`);
      }
      if (row.state === "Scheduled") {
        if (!database.scheduled.has(row) || !Number.isFinite(row.runAtMs))
          this.fail("S8", `nothing will wake ${shortId(row.id)}, which is Scheduled`);
      } else if (row.state === "Enqueued") {
        waiting ??= new Set([...database.queues.keys(), "default"].flatMap((queue) => this.#runnable(queue)));
        if (!waiting.has(row)) this.fail("S8", `nobody will find ${shortId(row.id)}#${row.token}, which is Enqueued`);
        if (transport !== null && database.outbox.transport !== "postgres") {
          texts ??= transport.texts();
          this.#judgeMessage(row, texts, transport);
        }
      } else if (row.state === "Processing") {
        if (!database.processing.has(row) || row.workerId === null || row.token === null)
          this.fail("S8", `nobody watches ${shortId(row.id)}#${row.token}, which is Processing on ${row.workerId}`);
        if (row.queue === "narrow") narrow += 1;
      }
    }
    if (narrow > plan.settings.narrow)
      this.fail("S9", `${narrow} jobs of a queue run of which ${plan.settings.narrow} may`);
  }

  /** A queue with a limit is claimed in its own order. */
  #judgeMessage(
    { id, token, queue, enqueuedAtMs }: JobRow,
    texts: ReadonlySet<string>,
    books: SimulatedTransport,
  ): void {
    if (token === null || queue === "narrow" || this.#forgiven.has(id)) return;
    if (texts.has(writeBrokerMessage({ kind: "dispatch", jobId: id, token, queue }))) return;
    const isLost = books.confirmed.has(token) && !books.acknowledged.has(token);
    if (isLost && enqueuedAtMs !== null) this.#lostTokens.add(token);
    else this.fail("S8", `no message tells of ${shortId(id)}#${token}, which is Enqueued, and the broker lost none`);
  }

  #runnable(queue: string): JobRow[] {
    const { usual, recovered } = this.#simulation.database.runnable(queue);
    const everything = { after: null, limit: Number.POSITIVE_INFINITY, wanted: () => true };
    return [...usual.take(everything), ...recovered.take(everything)];
  }

  /** The owner may count on its lease by its own clock: what it was answered, less what is left for hearing of it. */
  #isCertain(process: SimulatedProcess, token: DispatchToken): boolean {
    const { leaseMs } = this.#simulation.plan.settings;
    const confirmedMs = process.confirmedMs.get(token);
    return confirmedMs !== undefined && process.monotonicMs() - confirmedMs < leaseMs - Math.min(3_000, leaseMs / 10);
  }

  #processOf({ workerId }: Shadow): SimulatedProcess | null {
    return this.#simulation.slots.alive().find((process) => process.workerId === workerId) ?? null;
  }

  #noteLate({ caller }: Call): void {
    this.#simulation.reach.met(
      caller.alive ? "statement carried out after its caller gave up" : "statement carried out after its caller died",
    );
  }

  #noteLeader(duty: string, slot: number): void {
    const { world, reach, slots } = this.#simulation;
    const leaders = this.#leaders.get(duty) ?? new Map<number, number>();
    this.#leaders.set(duty, leaders);
    for (const [other, sinceMs] of leaders) {
      if (other === slot || slots.at(other) === null) continue;
      if (world.nowMs - sinceMs < 15_000) reach.met("two leaders of one duty");
    }
    leaders.set(slot, world.nowMs);
  }
}

function hasChanged(row: JobRow, shadow: Shadow): boolean {
  return (
    row.timeline.length !== shadow.moves ||
    row.attempts.length !== shadow.attempts ||
    row.state !== shadow.state ||
    row.token !== shadow.token ||
    row.workerId !== shadow.workerId ||
    row.leaseCounter !== shadow.leaseCounter ||
    row.startedAtMs !== shadow.startedAtMs ||
    row.progress !== shadow.progress ||
    row.result !== shadow.result ||
    row.cancelRequested !== shadow.cancelRequested ||
    row.failures !== shadow.failures ||
    row.lost !== shadow.lost ||
    row.lostUnstarted !== shadow.lostUnstarted ||
    row.returns !== shadow.returns ||
    row.generation !== shadow.generation ||
    row.execution !== shadow.execution
  );
}
