/** What has to see a mutant: the states of small worlds, seeds of the simulation, tests in memory, or tests on PostgreSQL. */
export type Level = "worlds" | "simulation" | "memory" | "postgres";

/** A bug of one place. It exists only in a copy that is made for its run. */
export interface Mutant {
  readonly name: string;
  readonly level: Level;
  readonly file: string;
  /** Stands in the file exactly once. */
  readonly find: string;
  readonly replace: string;
  /** Of the levels with test files: those that are to see it, and which of their tests. */
  readonly tests?: { readonly files: readonly string[]; readonly names?: string };
}

const OWNED = 'row !== undefined && row.state === "Processing" && row.token === token && row.workerId === workerId';

/** The protocol and the store in memory, where every interleaving of few steps can be gone through. */
const IN_SMALL_WORLDS: readonly Omit<Mutant, "level">[] = [
  {
    name: "the fence does not look at the token",
    file: "runtime/adapters/memory/database.ts",
    find: OWNED,
    replace: 'row !== undefined && row.state === "Processing" && row.workerId === workerId',
  },
  {
    name: "the fence does not look at the state",
    file: "runtime/adapters/memory/database.ts",
    find: OWNED,
    replace: "row !== undefined && row.token === token && row.workerId === workerId",
  },
  {
    name: "a token for each generation instead of each dispatch",
    file: "runtime/adapters/memory/database.ts",
    find: "this.#token += 1n;",
    replace: "this.#token = BigInt(row.generation + 1);",
  },
  {
    name: "recovery hands out the same token again",
    file: "runtime/adapters/memory/database.ts",
    find: "this.#token += 1n;",
    replace: "if (!row.recovered) this.#token += 1n;",
  },
  {
    name: "a failure for good leaves no dead letter",
    file: "runtime/adapters/memory/database.ts",
    find: 'if (state === "Failed") this.deadLetters.push(',
    replace: 'if (state === "Failed" && row.lost === 0) this.deadLetters.push(',
  },
  {
    name: "a repeated finish that has landed is called fenced",
    file: "runtime/adapters/memory/execution-store.ts",
    find: "if (row === null) return readBack(database, workerId, finish);",
    replace: 'if (row === null) return "fenced";',
  },
  {
    name: "a fenced finish is called landed when any attempt is there",
    file: "runtime/adapters/memory/execution-store.ts",
    find: "row.attempts.find(({ token }) => token === finish.token)",
    replace: "row.attempts.at(-1)",
  },
  {
    name: "the loss that recovery recorded passes for one's own",
    file: "runtime/adapters/memory/execution-store.ts",
    find: " && !isOfRecovery(attempt)",
    replace: "",
  },
  {
    name: "a finish does not look at the cancel request",
    file: "runtime/adapters/memory/execution-store.ts",
    find: 'row.cancelRequested && finish.next !== "Succeeded"',
    replace: "false",
  },
  {
    name: "a cancel request beats a success",
    file: "runtime/adapters/memory/execution-store.ts",
    find: 'row.cancelRequested && finish.next !== "Succeeded"',
    replace: "row.cancelRequested",
  },
  {
    name: "a claim is given back although it is to be cancelled",
    file: "runtime/adapters/memory/execution-store.ts",
    find: 'if (row.cancelRequested) database.end(row, "Cancelled", "cancelled");',
    replace: 'if (row.hold !== null) database.end(row, "Cancelled", "cancelled");',
  },
  {
    name: "a lost worker that was noticed is not charged",
    file: "runtime/adapters/memory/execution-store.ts",
    find: 'else if (finish.charge === "lost") row.lost += 1;',
    replace: "",
  },
  {
    name: "a start is written without the fence",
    file: "runtime/adapters/memory/execution-store.ts",
    find: "const row = database.owned(workerId, start);",
    replace: "const row = database.jobs.get(start.jobId) ?? null;",
  },
  {
    name: "a message claims whatever token it has",
    file: "runtime/adapters/memory/execution-store.ts",
    find: 'if (row === undefined || row.state !== "Enqueued" || row.token !== token) return null;',
    replace: 'if (row === undefined || row.state !== "Enqueued") return null;',
  },
  {
    name: "a message is put off without the claim's predicate",
    file: "runtime/adapters/memory/execution-store.ts",
    find: 'if (row === undefined || row.state !== "Enqueued" || row.token !== token) return false;',
    replace: "if (row === undefined || row.token !== token) return false;",
  },
  {
    name: "renewal by worker, whatever the token",
    file: "runtime/adapters/memory/lease-store.ts",
    find: "const row = database.owned(workerId, { jobId, token });",
    replace:
      "const row = [...database.processing].find((one) => one.id === jobId && one.workerId === workerId) ?? null;",
  },
  {
    name: "recovery does not look at the lease counter",
    file: "runtime/adapters/memory/lease-store.ts",
    find: " || row.leaseCounter !== leaseCounter",
    replace: "",
  },
  {
    name: "recovery does not look at the token",
    file: "runtime/adapters/memory/lease-store.ts",
    find: " || row.token !== token ||",
    replace: " ||",
  },
  {
    name: "recovery does not look at the state",
    file: "runtime/adapters/memory/lease-store.ts",
    find: 'row.state !== "Processing" || row.token',
    replace: "row.token",
  },
  {
    name: "recovery runs again what is to be cancelled",
    file: "runtime/adapters/memory/lease-store.ts",
    find: 'row.cancelRequested ? "Cancelled" : started',
    replace: "started",
  },
  {
    name: "a loss before the start is charged like one after it",
    file: "runtime/adapters/memory/lease-store.ts",
    find: "if (started) row.lost += 1;",
    replace: "if (row.execution > 0) row.lost += 1;",
  },
  {
    name: "a requeue does not raise the generation",
    file: "runtime/adapters/memory/job-store.ts",
    find: "row.generation += 1;",
    replace: "",
  },
  {
    name: "a requeue forgets the attempts",
    file: "runtime/adapters/memory/job-store.ts",
    find: "Object.assign(row, FRESH);",
    replace: "Object.assign(row, FRESH, { attempts: [] });",
  },
  {
    name: "a requeue keeps the spent budgets",
    file: "runtime/adapters/memory/job-store.ts",
    find: "Object.assign(row, FRESH);",
    replace: "Object.assign(row, FRESH, { failures: row.failures });",
  },
  {
    name: "cancel ends a job that runs",
    file: "runtime/adapters/memory/job-store.ts",
    find: 'if (row.state === "Processing") {\n        row.cancelRequested = true;',
    replace: "if (row.cancelRequested) {\n        row.cancelRequested = true;",
  },
  {
    name: "the lease counts from the answer of the renewal",
    file: "runtime/protocol/leases.ts",
    find: "execution.confirmedMs = sentMs;",
    replace: "execution.confirmedMs = nowMs;",
  },
  {
    name: "a renewal of unknown outcome extends the lease",
    file: "runtime/protocol/leases.ts",
    find: "// Perhaps applied, perhaps not: nothing is known, so nothing is extended.",
    replace: "for (const execution of asked) execution.confirmedMs = sentMs;",
  },
  {
    name: "the own deadline lies behind the lease",
    file: "runtime/protocol/leases.ts",
    find: "this.#deadlineMs = options.settings.leaseMs - this.#leftMs;",
    replace: "this.#deadlineMs = options.settings.leaseMs + this.#leftMs;",
  },
  {
    name: "a claim's lease counts from its answer",
    file: "runtime/protocol/execution.ts",
    find: "this.confirmedMs = claimSentMs;",
    replace: "this.confirmedMs = claimedMs;",
  },
  {
    name: "recovery after half of a lease",
    file: "runtime/services/lease-watch.ts",
    find: "at.askedMs - before.sinceMs >= this.#leaseMs",
    replace: "at.askedMs - before.sinceMs >= this.#leaseMs / 2",
  },
  {
    name: "renewals are not taken for a sign of life",
    file: "runtime/services/lease-watch.ts",
    find: " && before.leaseCounter === lease.leaseCounter",
    replace: "",
  },
  {
    name: "the first look counts from its question",
    file: "runtime/services/lease-watch.ts",
    find: "sinceMs: at.answeredMs",
    replace: "sinceMs: at.askedMs",
  },
  {
    name: "a look that failed leaves the ones before it",
    file: "runtime/services/recovery.ts",
    find: "        watch.forget();",
    replace: "",
  },
  {
    name: "a gap between looks leaves the ones before it",
    file: "runtime/services/lease-watch.ts",
    find: "at.answeredMs - at.askedMs) > this.#longestGapMs",
    replace: "at.answeredMs - at.askedMs) < 0",
  },
  {
    name: "a return before the handler has settled",
    file: "runtime/protocol/fencing.ts",
    find: "const outcome = await ports.startHandler(execution);",
    replace: 'void ports.startHandler(execution);\n  const outcome: HandlerOutcome = { kind: "cut-off" };',
  },
  {
    name: "an error of the claim is taken for a stale message",
    file: "runtime/protocol/fencing.ts",
    find: "await deliveries.claimDelivery(workerId, delivery.message);",
    replace: "await deliveries.claimDelivery(workerId, delivery.message).catch(() => null);",
  },
  {
    name: "a message is acknowledged before its claim",
    file: "runtime/protocol/fencing.ts",
    find: 'const held = lock.kind === "busy"',
    replace: 'await delivery.acknowledge();\n    const held = lock.kind === "busy"',
  },
  {
    name: "a final write is offered once",
    file: "runtime/protocol/fencing.ts",
    find: 'if (refusals >= MAX_REFUSALS) return "left";',
    replace: 'if (refusals < MAX_REFUSALS) return "left";',
  },
  {
    name: "a late result is taken after a time-out",
    file: "runtime/protocol/settle.ts",
    find: 'if (abort === "time-out") {',
    replace: 'if (abort === "time-out" && outcome.kind !== "returned") {',
  },
  {
    name: "a return by shutdown is charged as a failure",
    file: "runtime/protocol/settle.ts",
    find: 'const charge = abort === "shutdown" ? "return" : null;',
    replace: 'const charge = abort === "shutdown" ? "failure" : null;',
  },
  {
    name: "a return by shutdown is not counted",
    file: "runtime/protocol/settle.ts",
    find: 'const charge = abort === "shutdown" ? "return" : null;',
    replace: "const charge = abort === null ? null : null;",
  },
  {
    name: "a handler that throws after its abort is charged",
    file: "runtime/protocol/settle.ts",
    find: "return abort === null ? fail(settlement, failure(outcome.error)) : giveBack(abort);",
    replace: "return fail(settlement, failure(outcome.error));",
  },
  {
    name: "one attempt too many",
    file: "runtime/protocol/settle.ts",
    find: "failures >= maxAttempts",
    replace: "failures > maxAttempts",
  },
  {
    name: "one loss too many",
    file: "runtime/protocol/settle.ts",
    find: "lost >= policy.maxLost",
    replace: "lost > policy.maxLost",
  },
];

/** What a broker is told, and when it is told again. */
const AROUND_A_BROKER: readonly Omit<Mutant, "level">[] = [
  ...seenBy("test/services/relay.test.ts", [
    {
      name: "the relay removes what was not confirmed",
      file: "runtime/services/relay.ts",
      find: 'if (outcome === "confirmed") return "remove";',
      replace: 'if (outcome !== "unroutable") return "remove";',
    },
    {
      name: "the relay removes what the broker has no queue for",
      file: "runtime/services/relay.ts",
      find: 'if (outcome === "confirmed") return "remove";',
      replace: 'if (outcome !== "unknown") return "remove";',
    },
    {
      name: "the relay takes silence for a confirmation",
      file: "runtime/services/relay.ts",
      find: 'outcomes[index] ?? "unknown"',
      replace: 'outcomes[index] ?? "confirmed"',
    },
    {
      name: "the relay forgets news that came while another had its turn",
      file: "runtime/services/relay.ts",
      find: "wanted ||= wasWanted;",
      replace: "",
    },
    {
      name: "a message that always fails holds up all others",
      file: "runtime/services/relay.ts",
      find: 'return outcome === "unroutable" || isSuspect ? "put-off" : "keep";',
      replace: 'return outcome === "unroutable" ? "put-off" : "keep";',
    },
  ]),
  ...seenBy("test/contract/memory-store.test.ts", [
    {
      name: "the memory outbox is relayed by two at a time",
      file: "runtime/adapters/memory/outbox-store.ts",
      find: "if (outbox.relaying) return null;",
      replace: "",
    },
    {
      name: "a marker stands for what is in the outbox still",
      file: "runtime/adapters/memory/outbox-store.ts",
      find: "upto = message.token - 1n;",
      replace: "upto = lastToken;",
    },
    {
      name: "messages are written again for their age alone",
      file: "runtime/adapters/memory/outbox-store.ts",
      find: "consumedAtMs !== null && consumedAtMs <= settledAtMs && shownAtMs === null,",
      replace: "(consumedAtMs ?? 0) <= settledAtMs && shownAtMs === null,",
    },
  ]),
  ...seenBy("test/services/redispatch.test.ts", [
    {
      name: "a lost message is written again with another token",
      file: "runtime/adapters/memory/outbox-store.ts",
      find: 'return { kind: "dispatch", jobId: id, token, queue } as const;',
      replace: 'return { kind: "dispatch", jobId: id, token: (token + 1_000n) as DispatchToken, queue } as const;',
    },
  ]),
];

/** What only shows with several jobs, queues, schedules or slots. */
const IN_MEMORY: readonly Omit<Mutant, "level">[] = [
  ...seenBy("test/protocol/leases.test.ts", [
    {
      name: "a handler process is not told of renewals",
      file: "runtime/protocol/leases.ts",
      find: "execution.run?.keepUntil?.(this.keepUntilMs(execution));",
      replace: "",
    },
    {
      name: "a handler process may run until a lease after the answer to the renewal",
      file: "runtime/protocol/leases.ts",
      find: "return execution.confirmedMs + this.#deadlineMs + this.#leftMs / 2;",
      replace: "return this.#clock.monotonicMs() + this.#deadlineMs + this.#leftMs / 2;",
    },
    {
      name: "a handler process may run until its lease has ended and others look",
      file: "runtime/protocol/leases.ts",
      find: "return execution.confirmedMs + this.#deadlineMs + this.#leftMs / 2;",
      replace: "return execution.confirmedMs + this.#deadlineMs + this.#leftMs * 2;",
    },
  ]),
  ...seenBy("test/contract/memory-store.test.ts", [
    {
      name: "the fence does not look at the worker",
      file: "runtime/adapters/memory/database.ts",
      find: OWNED,
      replace: 'row !== undefined && row.state === "Processing" && row.token === token',
    },
    {
      name: "progress is written without the fence",
      file: "runtime/adapters/memory/execution-store.ts",
      find: "const row = database.owned(workerId, report);",
      replace: "const row = database.jobs.get(report.jobId) ?? null;",
    },
    {
      name: "the start of a recovered job is not written with its claim",
      file: "runtime/adapters/memory/database.ts",
      find: "row.startedAtMs = row.recovered ? this.nowMs() : null;",
      replace: "row.startedAtMs = null;",
    },
    {
      name: "the queue takes an entry of an earlier dispatch",
      file: "runtime/adapters/memory/runnable-order.ts",
      find: 'return row.state === "Enqueued" && row.token === token;',
      replace: 'return row.state === "Enqueued";',
    },
    {
      name: "a recovered job does not obey the queue's limit",
      file: "runtime/adapters/memory/execution-store.ts",
      find: "limit: Math.min(1, roomIn(database, queue)),",
      replace: "limit: 1,",
    },
    {
      name: "children come into being although a cancel came first",
      file: "runtime/adapters/memory/execution-store.ts",
      find: "if (!cancelled) {",
      replace: "if (cancelled || !cancelled) {",
    },
    {
      name: "a key stays with a job that has ended",
      file: "runtime/adapters/memory/database.ts",
      find: "this.keys.delete(row.concurrencyKey);",
      replace: "",
    },
    {
      name: "a key goes to a second owner",
      file: "runtime/adapters/memory/database.ts",
      find: "if (owner !== undefined && owner !== row.id) return false;",
      replace: "if (owner !== undefined && owner === row.id) return false;",
    },
    {
      name: "a schedule moves on from whatever next fire it has",
      file: "runtime/adapters/memory/schedule-store.ts",
      find: "schedule.timingHash === expected.timingHash &&\n    schedule.nextFireAtMs === (expected.nextFireAt?.getTime() ?? null)",
      replace: "schedule.timingHash === expected.timingHash",
    },
    {
      name: "a schedule fires by a rule that was edited since",
      file: "runtime/adapters/memory/schedule-store.ts",
      find: "schedule.timingHash === expected.timingHash &&",
      replace: "",
    },
    {
      name: "an instant may fire twice",
      file: "runtime/adapters/memory/schedule-store.ts",
      find: "return database.fires.some((fire) => fire.schedule === schedule && fire.atMs === atMs);",
      replace:
        "return database.fires.some((fire) => fire.schedule === schedule && fire.atMs === atMs && fire.jobId === null);",
    },
  ]),
  ...seenBy("test/services/outage.test.ts", [
    {
      name: "what a claim of unknown outcome brought is forgotten",
      file: "runtime/services/claim-doubt.ts",
      find: "if (error instanceof UnknownOutcomeError) this.#doubt = true;",
      replace: "if (error instanceof TypeError) this.#doubt = true;",
    },
  ]),
  ...seenBy("test/services/claimer.test.ts", [
    {
      name: "strays are looked for while claims are under way",
      file: "runtime/services/claim-doubt.ts",
      find: "await this.still();\n    this.#underWay += 1;",
      replace: "this.#underWay += 1;",
    },
  ]),
  ...seenBy("test/services/stop.test.ts", [
    {
      name: "what is claimed ahead is kept at shutdown",
      file: "runtime/services/worker.ts",
      find: "for (const queue of this.#queues) this.#sweep.giveBack(queue.takeStale(Number.POSITIVE_INFINITY));",
      replace: "",
    },
    {
      name: "a stopping worker does not abort what runs",
      file: "runtime/services/worker.ts",
      find: 'for (const execution of this.#running) execution.abort("shutdown", clock.monotonicMs());',
      replace: "",
    },
  ]),
  ...seenBy("test/services/worker.test.ts", [
    {
      name: "a cancel request does not reach the handler",
      file: "runtime/protocol/leases.ts",
      find: 'if (cancelRequested) execution.abort("cancelled", nowMs);',
      replace: "",
    },
  ]),
  ...seenBy("test/protocol/leases.test.ts", [
    {
      name: "a lease in doubt does not reach the handler",
      file: "runtime/protocol/leases.ts",
      find: "    this.#doubtOverdue(nowMs);\n",
      replace: "",
    },
    {
      name: "a lost lease does not reach the handler",
      file: "runtime/protocol/leases.ts",
      find: "if (execution !== undefined) this.#lose(execution, nowMs);",
      replace: "",
    },
  ]),
];

const CONTRACT = "test/postgres/store-contract.test.ts";
const INTERLEAVINGS = "test/postgres/interleavings.test.ts";
const EXECUTIONS = "runtime/adapters/postgres/execution-statements.ts";
const LEASES = "runtime/adapters/postgres/lease-statements.ts";

/** The statements, on PostgreSQL. */
const ON_POSTGRESQL: readonly Omit<Mutant, "level">[] = [
  {
    name: "SQL: a success lands with any token",
    file: EXECUTIONS,
    find: "where j.id = i.job and j.dispatch_id = i.token and j.worker_id = $1::uuid\n  returning k.expires",
    replace: "where j.id = i.job and j.worker_id = $1::uuid\n  returning k.expires",
    tests: { files: [CONTRACT], names: "refuses a finish with another token" },
  },
  {
    name: "SQL: a success lands from any worker",
    file: EXECUTIONS,
    find: "where j.id = i.job and j.dispatch_id = i.token and j.worker_id = $1::uuid\n  returning k.expires",
    replace: "where j.id = i.job and j.dispatch_id = i.token and $1::uuid is not null\n  returning k.expires",
    tests: { files: [CONTRACT], names: "refuses a finish with another token" },
  },
  {
    name: "SQL: a failure lands with any token",
    file: EXECUTIONS,
    find: "select j.id, j.cancel_requested_at is not null as cancelled\n  from turno.jobs_live j\n  join input i on j.id = i.job and j.dispatch_id = i.token\n",
    replace:
      "select j.id, j.cancel_requested_at is not null as cancelled\n  from turno.jobs_live j\n  join input i on j.id = i.job\n",
    tests: {
      files: [CONTRACT],
      names: "keeps nothing of an execution whose job came back to its worker",
    },
  },
  {
    name: "SQL: a retry does not look at the cancel request",
    file: EXECUTIONS,
    find: "case when o.cancelled then 'Cancelled' else i.wanted end as next",
    replace: "i.wanted as next",
    tests: { files: [CONTRACT], names: "tells it of one that a cancel request came before" },
  },
  {
    name: "SQL: a repeated finish that has landed is called fenced",
    file: "runtime/adapters/postgres/execution-store.ts",
    find: "if (missing.length > 0) {",
    replace: "if (missing.length > finishes.length) {",
    tests: { files: [CONTRACT], names: "tells a finish that is offered again" },
  },
  {
    name: "SQL: the loss that recovery recorded passes for one's own",
    file: EXECUTIONS,
    find: "and not (a.outcome = 'lost' and a.error = 'worker lost'))",
    replace: ")",
    tests: { files: [CONTRACT], names: "does not take the loss that recovery has recorded" },
  },
  {
    name: "SQL: starts and progress are written without the fence",
    file: EXECUTIONS,
    find: "  where j.worker_id = $1::uuid and j.state = 'Processing'\n  for update of j skip locked\n),\nnoted as (",
    replace: "  where j.state = 'Processing'\n  for update of j skip locked\n),\nnoted as (",
    tests: { files: [CONTRACT], names: "keeps nothing of progress or a start" },
  },
  {
    name: "SQL: claims are given back by anybody",
    file: EXECUTIONS,
    find: "  join unnest($2::uuid[], $3::bigint[]) as i (job, token) on j.id = i.job and j.dispatch_id = i.token\n  where j.worker_id = $1::uuid and",
    replace:
      "  join unnest($2::uuid[], $3::bigint[]) as i (job, token) on j.id = i.job and j.dispatch_id = i.token\n  where $1::uuid is not null and",
    tests: { files: [CONTRACT], names: "leaves alone what the worker does not own" },
  },
  {
    name: "SQL: a message claims whatever token it has",
    file: "runtime/adapters/postgres/delivery-statements.ts",
    find: "where j.id = i.job and j.state = 'Enqueued' and j.dispatch_id = i.token and (g.closed",
    replace: "where j.id = i.job and j.state = 'Enqueued' and (g.closed",
    tests: { files: [CONTRACT], names: "claim for the dispatch that they name" },
  },
  {
    name: "SQL: a message is put off whatever token it has",
    file: "runtime/adapters/postgres/delivery-statements.ts",
    find: "where j.id = i.job and j.state = 'Enqueued' and j.dispatch_id = i.token\n  returning j.id, j.queue, j.concurrency_key",
    replace: "where j.id = i.job and j.state = 'Enqueued'\n  returning j.id, j.queue, j.concurrency_key",
    tests: { files: [CONTRACT], names: "put off a job of their dispatch that waits" },
  },
  {
    name: "SQL: a claim waits for rows that another claims",
    file: EXECUTIONS,
    find: "  order by sort_at, id\n  limit $4::bigint\n  for update skip locked",
    replace: "  order by sort_at, id\n  limit $4::bigint\n  for update",
    tests: { files: [INTERLEAVINGS], names: "a claim does not wait for what another claims" },
  },
  {
    name: "SQL: a recovered job is claimed with others",
    file: EXECUTIONS,
    find: '"not recovered and (sort_at, id) >',
    replace: '"(sort_at, id) >',
    tests: { files: [CONTRACT], names: "hands a recovered job out alone" },
  },
  {
    name: "SQL: renewal by worker, whatever the token",
    file: LEASES,
    find: "  join input i on j.id = i.job and j.dispatch_id = i.token\n  where j.worker_id = $1::uuid and j.state = 'Processing'\n  for update of j skip locked\n),\nrenewed as (",
    replace:
      "  join input i on j.id = i.job\n  where j.worker_id = $1::uuid and j.state = 'Processing'\n  for update of j skip locked\n),\nrenewed as (",
    tests: { files: [CONTRACT], names: "keeps nothing of an execution whose job came back to its worker" },
  },
  {
    name: "SQL: recovery does not look at the lease counter",
    file: LEASES,
    find: "j.dispatch_id = i.token and j.lease_counter = i.counter",
    replace: "j.dispatch_id = i.token",
    tests: { files: [CONTRACT], names: "recovers nothing whose owner renewed after the look" },
  },
  {
    name: "SQL: recovery waits for who is finishing",
    file: LEASES,
    find: "  where j.state = 'Processing'\n  for update of j skip locked\n),\nback as (",
    replace: "  where j.state = 'Processing'\n  for update of j\n),\nback as (",
    tests: { files: [INTERLEAVINGS], names: "a recovery of a job|do not wait" },
  },
  {
    name: "SQL: recovery runs again what is to be cancelled",
    file: LEASES,
    find: "when j.cancel_requested_at is not null then 'Cancelled'",
    replace: "when j.cancel_requested_at is null and false then 'Cancelled'",
    tests: { files: [CONTRACT], names: "ends a lost job as Cancelled" },
  },
  {
    name: "SQL: recovery hands out the same token again",
    file: LEASES,
    find: "dispatch_id = nextval('turno.dispatch_seq'), worker_id = null",
    replace: "dispatch_id = j.dispatch_id, worker_id = null",
    tests: { files: [CONTRACT], names: "hands a recovered job out alone" },
  },
  {
    name: "SQL: the loss of a worker is not charged",
    file: LEASES,
    find: "    lost = j.lost + (o.started is not null)::int, lost_unstarted",
    replace: "    lost_unstarted",
    tests: { files: [CONTRACT], names: "whose losses after a start have used up their budget" },
  },
  {
    name: "SQL: a requeue does not raise the generation",
    file: "runtime/adapters/postgres/job-statements.ts",
    find: "generation + 1",
    replace: "generation",
    tests: { files: [CONTRACT], names: "requeue" },
  },
  {
    name: "SQL: cancel ends a job that runs",
    file: "runtime/adapters/postgres/job-statements.ts",
    find: "t.state in ('Scheduled', 'Enqueued')",
    replace: "t.state in ('Scheduled', 'Enqueued', 'Processing')",
    tests: { files: [CONTRACT], names: "cancel" },
  },
  {
    name: "SQL: a schedule moves on from whatever next fire it has",
    file: "runtime/adapters/postgres/schedule-statements.ts",
    find: "and date_trunc('milliseconds', r.next_fire_at) is not distinct from s.expected\n",
    replace: "and s.expected is not null\n",
    tests: { files: [CONTRACT], names: "do nothing for a step that was decided from an older state" },
  },
  {
    name: "SQL: a schedule fires by a rule that was edited since",
    file: "runtime/adapters/postgres/schedule-statements.ts",
    find: "where not r.suspended and r.timing_hash = s.timing",
    replace: "where not r.suspended",
    tests: { files: [CONTRACT], names: "do nothing for a step that was decided from an older state" },
  },
  {
    name: "SQL: a schedule fires from a view older than its row",
    file: "runtime/adapters/postgres/schedule-statements.ts",
    find: ".last_job_id is not distinct from (select shown.last_job_id from",
    replace: ".name is not distinct from (select shown.name from",
    tests: { files: [INTERLEAVINGS], names: "a fire under Forbid does not miss" },
  },
  {
    name: "SQL: one bad row spoils its batch",
    file: "runtime/adapters/postgres/batcher.ts",
    find: "if (batch.length > 1 && isDataRefused(error)) {",
    replace: "if (batch.length > 1_000_000 && isDataRefused(error)) {",
    tests: { files: ["test/postgres/execution-store.test.ts"], names: "spoils neither its batch nor its job" },
  },
];

const OUTBOX = "runtime/adapters/postgres/outbox-statements.ts";
const OUTBOX_STORE = "runtime/adapters/postgres/outbox-store.ts";
const OUTBOX_TEST = "test/postgres/outbox-store.test.ts";

/** The outbox and the claim of deliveries, as PostgreSQL has them. */
const WITH_AN_OUTBOX: readonly Omit<Mutant, "level">[] = [
  {
    name: "SQL: the outbox is relayed without its lock",
    file: OUTBOX_STORE,
    find: "if ((await query(TRY_RELAY_LOCK)).length === 0) return null;",
    replace: "",
    tests: { files: [OUTBOX_TEST], names: "is given to one relay at a time" },
  },
  {
    name: "SQL: a job that comes into its queue is not told of",
    file: OUTBOX_STORE,
    find: "for (const statement of CREATE_TRIGGERS) await query(statement);",
    replace: "for (const statement of CREATE_TRIGGERS.slice(2)) await query(statement);",
    tests: { files: [OUTBOX_TEST], names: "has nothing of a transaction that was rolled back" },
  },
  {
    name: "SQL: a job that is put back in its queue is not told of",
    file: OUTBOX,
    find: "for each row when (new.state = 'Enqueued' and new.dispatch_id is distinct from old.dispatch_id)",
    replace: "for each row when (new.state = 'Enqueued' and old.state = 'Processing')",
    tests: { files: [CONTRACT], names: "with its present token, whatever happened" },
  },
  {
    name: "SQL: the outbox is read behind the last message seen",
    file: OUTBOX,
    find: "where due_at <= now() and due_at >= $2::timestamptz\norder",
    replace:
      "where due_at <= now() and due_at >= $2::timestamptz and id > (select max(id) - 1 from turno.outbox_message)\norder",
    tests: { files: [CONTRACT], names: "keeps what was not confirmed" },
  },
  {
    name: "SQL: the outbox is never read from its start again",
    file: OUTBOX_STORE,
    find: "        from = FROM_THE_START;\n",
    replace: "",
    tests: { files: [OUTBOX_TEST], names: "is read from where the last look ended" },
  },
  {
    name: "SQL: the transport changes beside transactions that are under way",
    file: OUTBOX_STORE,
    find: "  await query(LOCK_SOURCES);\n",
    replace:
      '  if (transport !== "postgres") await query(TELL_OF_ALL);\n  if (transport !== "postgres") return (await query(RECORD_TRANSPORT, [transport])).length === 0;\n',
    tests: { files: [OUTBOX_TEST], names: "goes to a broker with every job" },
  },
  {
    name: "SQL: messages are written again for their age alone",
    file: OUTBOX,
    find: "where consumed_at <= now() - $1::bigint * interval '1 millisecond' and shown_at is null",
    replace:
      "where coalesce(consumed_at, created_at) <= now() - $1::bigint * interval '1 millisecond' and shown_at is null",
    tests: { files: [CONTRACT], names: "are found by a marker behind them" },
  },
  {
    name: "SQL: a marker stands for what is in the outbox still",
    file: OUTBOX,
    find: "coalesce(u.upto_token, d.last_value) as upto_token",
    replace: "d.last_value as upto_token",
    tests: { files: [CONTRACT], names: "are not suspected for their age" },
  },
  {
    name: "SQL: a lost message is written again with a new token",
    file: OUTBOX,
    find: "select 'dispatch', id, dispatch_id, queue from missing",
    replace: "select 'dispatch', id, nextval('turno.dispatch_seq'), queue from missing",
    tests: { files: [CONTRACT], names: "are found by a marker behind them" },
  },
  {
    name: "SQL: a delivery that comes twice in a batch is claimed for both",
    file: "runtime/adapters/postgres/delivery-store.ts",
    find: "for (const wish of own) claims.set(wish, answers.get(wish.token) ?? null);",
    replace: "for (const wish of wishes) claims.set(wish, answers.get(wish.token) ?? null);",
    tests: { files: [CONTRACT], names: "claim many at once" },
  },
];

/** What timers, slots, shutdown and outages have to do with it. */
const IN_THE_SIMULATION: readonly Omit<Mutant, "level">[] = [
  {
    name: "a handler starts on a lease that may be over",
    file: "runtime/services/worker.ts",
    find: "if (!this.#leases.isCertain(execution, nowMs)) {",
    replace: "if (execution.abortedMs !== null) {",
  },
  {
    name: "an execution is not let go after its final write",
    file: "runtime/protocol/fencing.ts",
    find: "ports.leases.release(execution);",
    replace: "",
  },
  {
    name: "writes that failed are not tried again",
    file: "runtime/services/gathered-write.ts",
    find: "for (const item of items) gathered.add(item);",
    replace: "",
  },
  {
    name: "a worker that met an outage claims no more",
    file: "runtime/services/claim-doubt.ts",
    find: "  retry(): void {\n    this.#away = false;",
    replace: "  retry(): void {",
  },
  {
    name: "no handler is ever timed out",
    file: "runtime/services/execution-sweep.ts",
    find: 'execution.abort("time-out", nowMs);',
    replace: ";",
  },
  {
    name: "nobody looks for messages that a broker has lost",
    file: "runtime/services/worker-role.ts",
    find: "[startRedispatch({ ...surroundings, store, onWritten: () => dispatching.wake() })]",
    replace: "[]",
  },
  {
    name: "a message is dropped when the database does not answer its claim",
    file: "runtime/services/consumer.ts",
    find: "else lane.pending.unshift(pending);",
    replace: "else void pending.delivery.acknowledge();",
  },
  {
    name: "a job that comes back to its queue writes no message",
    file: "runtime/adapters/memory/database.ts",
    find: 'this.outbox.write({ kind: "dispatch"',
    replace: 'if (row.execution === 0) this.outbox.write({ kind: "dispatch"',
  },
  {
    name: "a change of the transport forgets the jobs that wait",
    file: "runtime/adapters/memory/outbox-store.ts",
    find: "for (const row of enqueued(database)) outbox.write(dispatchOf(row));",
    replace: "",
  },
  {
    name: "a request with a key is carried out again",
    file: "runtime/adapters/memory/job-store.ts",
    find: "first !== undefined && first.expiresAtMs > database.nowMs()",
    replace: "first !== undefined && first.requestHash !== requestHash",
  },
  {
    name: "a handler process may run for a minute after its lease",
    file: "runtime/protocol/leases.ts",
    find: "execution.confirmedMs + this.#deadlineMs + this.#leftMs / 2",
    replace: "execution.confirmedMs + this.#deadlineMs + 60_000",
  },
];

function seenBy(file: string, mutants: readonly Omit<Mutant, "level" | "tests">[]): readonly Omit<Mutant, "level">[] {
  return mutants.map((mutant) => ({ ...mutant, tests: { files: [file] } }));
}

function atLevel(level: Level, mutants: readonly Omit<Mutant, "level">[]): readonly Mutant[] {
  return mutants.map((mutant) => ({ ...mutant, level }));
}

export const MUTANTS: readonly Mutant[] = [
  ...atLevel("worlds", IN_SMALL_WORLDS),
  ...atLevel("simulation", IN_THE_SIMULATION),
  ...atLevel("memory", [...IN_MEMORY, ...AROUND_A_BROKER]),
  ...atLevel("postgres", [...ON_POSTGRESQL, ...WITH_AN_OUTBOX]),
];
