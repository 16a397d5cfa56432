import { describe, expect, test } from "vitest";
import type { JobRow } from "../../chaos/facts.ts";
import type { ClientLine, ExecutionLine, NemesisLine } from "../../chaos/ledger.ts";
import { type Evidence, judge } from "../../chaos/oracle.ts";

const LEASE_MS = 6_000;
const SECOND = 1_000_000;
const WORKER_ONE = 101;
const WORKER_TWO = 102;

/** One job that was accepted, ran once in a thread of worker one and succeeded. */
function honest(): Evidence {
  return {
    client: [
      { e: "request", at: 0, request: 1, kind: "job", tags: ["t1"], expect: "Succeeded" },
      { e: "answer", at: 10, request: 1, outcome: "ok", status: 201, jobs: ["a"] },
    ],
    executions: run({ fence: "5", pid: WORKER_ONE, from: 1 * SECOND, to: 2 * SECOND }),
    nemesis: [spawned("worker-1", WORKER_ONE), spawned("worker-2", WORKER_TWO)],
    product: {
      jobs: [job({})],
      executions: [{ job: "a", execution: 1, generation: 0, token: "5", outcome: "succeeded" }],
      fires: [],
    },
    sink: { offers: [{ job: "a", fence: "5", accepted: true }], fenced: [{ job: "a", fence: "5" }] },
    schedules: [],
    leaseMs: LEASE_MS,
  };
}

/** The same job, lost once: worker one's run with token 5 was taken over by worker two with token 9. */
function takenOver(older: { readonly to: number; readonly closes: boolean; readonly pid?: number }): Evidence {
  const before = honest();
  return {
    ...before,
    executions: [
      ...run({ fence: "5", pid: older.pid ?? WORKER_ONE, from: 1 * SECOND, to: older.to, closes: older.closes }),
      ...run({ fence: "9", pid: WORKER_TWO, from: 10 * SECOND, to: 11 * SECOND, execution: 2 }),
    ],
    product: {
      ...before.product,
      jobs: [job({ token: "9", result_fence: "9" })],
      executions: [
        { job: "a", execution: 1, generation: 0, token: "5", outcome: "lost" },
        { job: "a", execution: 2, generation: 0, token: "9", outcome: "succeeded" },
      ],
    },
    sink: { offers: [{ job: "a", fence: "9", accepted: true }], fenced: [{ job: "a", fence: "9" }] },
  };
}

test("an honest ledger has no wrong, and is counted", () => {
  const { wrongs, counts } = judge(honest());
  expect(wrongs).toEqual([]);
  expect(counts).toMatchObject({
    attempted: 1,
    accepted: 1,
    unknown: 0,
    completed: 1,
    executions: 1,
    lost: 0,
    recovered: 0,
  });
});

test("a killed worker's job that another one ran is recovered and no wrong", () => {
  const evidence = takenOver({ to: 2 * SECOND, closes: false });
  const killed: NemesisLine = { e: "exited", at: 3 * SECOND, slot: "worker-1", pid: WORKER_ONE, detail: "SIGKILL" };
  const { wrongs, counts, recoveryMs } = judge({ ...evidence, nemesis: [...evidence.nemesis, killed] });
  expect(wrongs).toEqual([]);
  expect(counts.recovered).toBe(1);
  expect(recoveryMs).toEqual({ p50: 7_000, max: 7_000 });
});

describe("lost", () => {
  test("an accepted job that is not in the database", () => {
    const evidence = honest();
    const found = kindsOf({ ...evidence, executions: [], product: { ...evidence.product, jobs: [], executions: [] } });
    expect(found).toEqual(["lost"]);
  });

  test("an accepted job that has not ended", () => {
    expect(kindsOf(withJob({ state: "Scheduled", hold: "no-handler" }))).toEqual(["lost"]);
  });

  test("a job that ended otherwise than it was meant to", () => {
    expect(kindsOf(withJob({ state: "Failed", error: "worker lost" }))).toEqual(["lost"]);
    expect(kindsOf(withJob({ state: "Cancelled" }))).toEqual(["lost"]);
  });

  test("a success whose handler never came to its end, or had no effect", () => {
    const evidence = honest();
    const cut = run({ fence: "5", pid: WORKER_ONE, from: SECOND, to: 2 * SECOND, closes: false });
    expect(kindsOf({ ...evidence, executions: cut })).toEqual(["lost"]);
    expect(kindsOf({ ...evidence, sink: { offers: [], fenced: [] } })).toEqual(["lost"]);
  });

  test("half a batch, whose outcome is unknown", () => {
    const evidence = honest();
    const client: ClientLine[] = [
      { e: "request", at: 0, request: 1, kind: "batch", tags: ["t1", "t2"], expect: "Succeeded" },
      { e: "answer", at: 10, request: 1, outcome: "unknown", status: null },
    ];
    expect(kindsOf({ ...evidence, client })).toEqual(["lost"]);
  });

  test("an instant of a schedule that was never decided, and one whose job is gone", () => {
    expect(kindsOf(scheduled([0, 5, 15, 20]))).toEqual(["lost"]);
    const evidence = scheduled([0, 5, 10, 15, 20]);
    const jobs = evidence.product.jobs.filter(({ fire_at }) => fire_at !== 10_000);
    expect(kindsOf({ ...evidence, product: { ...evidence.product, jobs } })).toEqual(["phantom", "lost"]);
  });

  test("a schedule that stopped firing", () => {
    expect(kindsOf(scheduled([0, 5, 10]))).toEqual(["lost"]);
  });
});

describe("phantom", () => {
  test("a job that was refused and exists", () => {
    const evidence = honest();
    const refused: ClientLine = { e: "answer", at: 10, request: 1, outcome: "fail", status: 503 };
    expect(kindsOf({ ...evidence, client: [...evidence.client.slice(0, 1), refused] })).toEqual(["phantom"]);
  });

  test("a job that nobody asked for", () => {
    expect(kindsOf({ ...honest(), client: [] })).toEqual(["phantom"]);
  });

  test("a run of a job that is not in the database, and one with a token the database never gave to it", () => {
    const evidence = honest();
    const stranger = run({ job: "b", fence: "6", pid: WORKER_ONE, from: SECOND, to: 2 * SECOND });
    expect(kindsOf({ ...evidence, executions: [...evidence.executions, ...stranger] })).toEqual(["phantom"]);
    const unrecorded = run({ fence: "4", pid: WORKER_ONE, from: 0, to: SECOND / 2, execution: 0 });
    expect(kindsOf({ ...evidence, executions: [...unrecorded, ...evidence.executions] })).toEqual(["phantom"]);
  });

  test("a begin after an immediate cancel", () => {
    const evidence = withJob({ state: "Cancelled" });
    const client: ClientLine[] = [
      ...evidence.client,
      { e: "request", at: 20, request: 2, kind: "cancel", job: "a" },
      { e: "answer", at: 30, request: 2, outcome: "ok", status: 200 },
    ];
    expect(kindsOf({ ...evidence, client })).toEqual(["phantom"]);
  });

  test("a fire at an instant that is none, and a scheduled job without a fire", () => {
    expect(kindsOf(scheduled([0, 5, 7, 10, 15, 20]))).toContain("phantom");
    const evidence = honest();
    const jobs = [...evidence.product.jobs, job({ id: "s", tag: null, schedule: "every-five", fire_at: 5_000 })];
    expect(kindsOf({ ...evidence, product: { ...evidence.product, jobs } })).toContain("phantom");
  });
});

describe("duplicated", () => {
  test("one request that became two jobs", () => {
    const evidence = honest();
    const twin = job({ id: "b", token: "6", result_fence: "6" });
    const found = kindsOf({
      ...evidence,
      executions: [
        ...evidence.executions,
        ...run({ job: "b", fence: "6", pid: WORKER_ONE, from: 3 * SECOND, to: 4 * SECOND }),
      ],
      product: {
        ...evidence.product,
        jobs: [...evidence.product.jobs, twin],
        executions: [
          ...evidence.product.executions,
          { job: "b", execution: 1, generation: 0, token: "6", outcome: "succeeded" },
        ],
      },
      sink: {
        offers: [...evidence.sink.offers, { job: "b", fence: "6", accepted: true }],
        fenced: [...evidence.sink.fenced, { job: "b", fence: "6" }],
      },
    });
    expect(found).toEqual(["duplicated"]);
  });

  test("a request with an idempotency key that was answered with other jobs the second time", () => {
    const evidence = honest();
    const answer: ClientLine = {
      e: "answer",
      at: 10,
      request: 1,
      outcome: "ok",
      status: 201,
      jobs: ["a"],
      again: ["b"],
    };
    expect(kindsOf({ ...evidence, client: [...evidence.client.slice(0, 1), answer] })).toEqual(["duplicated"]);
    const same: ClientLine = { ...answer, again: ["a"] };
    expect(kindsOf({ ...evidence, client: [...evidence.client.slice(0, 1), same] })).toEqual([]);
  });

  test("two accepted successes of one job", () => {
    const evidence = takenOver({ to: 2 * SECOND, closes: true });
    const executions = evidence.product.executions.map((row) => ({ ...row, outcome: "succeeded" }));
    expect(kindsOf({ ...evidence, product: { ...evidence.product, executions } })).toEqual(["duplicated"]);
  });

  test("two runs with one token, and two effects with one token", () => {
    const evidence = honest();
    const again = run({ fence: "5", pid: WORKER_ONE, from: 3 * SECOND, to: 4 * SECOND });
    expect(kindsOf({ ...evidence, executions: [...evidence.executions, ...again] })).toEqual(["duplicated"]);
    const offers = [...evidence.sink.offers, ...evidence.sink.offers];
    expect(kindsOf({ ...evidence, sink: { ...evidence.sink, offers } })).toEqual(["duplicated"]);
  });

  test("two jobs of one instant", () => {
    const evidence = scheduled([0, 5, 10, 15, 20]);
    const fires = [
      ...evidence.product.fires,
      { schedule: "every-five", fire_at: 10_000, outcome: "fired", job: "s-again", older_skips: 0 },
    ];
    const jobs = [...evidence.product.jobs, job({ ...scheduledJob(10), id: "s-again" })];
    expect(kindsOf({ ...evidence, product: { ...evidence.product, fires, jobs } })).toContain("duplicated");
  });
});

describe("overlapping", () => {
  test("two runs of one job at one time", () => {
    expect(kindsOf(takenOver({ to: 10.5 * SECOND, closes: false }))).toEqual(["overlapping"]);
  });

  test("two jobs with one concurrency key at one time", () => {
    const evidence = twoKeyed({ secondFrom: 1.5 * SECOND });
    expect(kindsOf(evidence)).toEqual(["overlapping"]);
    expect(kindsOf(twoKeyed({ secondFrom: 2.5 * SECOND }))).toEqual([]);
  });

  test("is excused in a thread while its worker was stopped for longer than the lease, and shortly after", () => {
    const evidence = takenOver({ to: 10.5 * SECOND, closes: false });
    const stop = window("stop", 2 * SECOND, 10.2 * SECOND);
    const { wrongs, counts } = judge({ ...evidence, nemesis: [...evidence.nemesis, stop] });
    expect(wrongs).toEqual([]);
    expect(counts.excused).toBe(1);
  });

  test("is not excused by a short stop, by another worker's, or long after", () => {
    const windows = [
      window("stop", 8 * SECOND, 10.2 * SECOND),
      { ...window("stop", 2 * SECOND, 10.2 * SECOND), slot: "worker-2" },
    ];
    for (const nothing of windows) {
      const evidence = takenOver({ to: 10.5 * SECOND, closes: false });
      expect(kindsOf({ ...evidence, nemesis: [...evidence.nemesis, nothing] })).toEqual(["overlapping"]);
    }
    const late = takenOver({ to: 30 * SECOND, closes: false });
    const nemesis = [...late.nemesis, window("stop", 2 * SECOND, 10.2 * SECOND)];
    expect(kindsOf({ ...late, nemesis })).toEqual(["overlapping"]);
  });

  test("is not excused in a process of its own, which nobody stopped", () => {
    const evidence = takenOver({ to: 10.5 * SECOND, closes: false, pid: 999 });
    const stopped = [...evidence.nemesis, window("stop", 2 * SECOND, 10.2 * SECOND)];
    expect(kindsOf({ ...evidence, nemesis: stopped })).toEqual(["overlapping"]);
    const frozen = [...evidence.nemesis, window("freeze", 2 * SECOND, 10.2 * SECOND)];
    expect(kindsOf({ ...evidence, nemesis: frozen })).toEqual([]);
  });
});

describe("stale", () => {
  test("a result of an execution that did not own the job any more", () => {
    const evidence = takenOver({ to: 2 * SECOND, closes: true });
    const jobs = [job({ token: "9", result_fence: "5" })];
    expect(kindsOf({ ...evidence, product: { ...evidence.product, jobs } })).toEqual(["stale", "stale"]);
  });

  test("a result that was accepted although a newer execution ran", () => {
    const evidence = takenOver({ to: 2 * SECOND, closes: true });
    const jobs = [job({ token: "5", result_fence: "5" })];
    const sink = { offers: [{ job: "a", fence: "5", accepted: true }], fenced: [{ job: "a", fence: "5" }] };
    expect(kindsOf({ ...evidence, sink, product: { ...evidence.product, jobs } })).toEqual(["stale"]);
  });

  test("an effect accepted after a newer token's", () => {
    const evidence = takenOver({ to: 2 * SECOND, closes: true });
    const offers = ["9", "5"].map((fence) => ({ job: "a", fence, accepted: true }));
    expect(kindsOf({ ...evidence, sink: { ...evidence.sink, offers } })).toEqual(["stale"]);
  });

  test("an effect of an older run after a newer one began, outside of any pause", () => {
    const evidence = takenOver({ to: 10.5 * SECOND, closes: true });
    expect(kindsOf(evidence)).toEqual(["overlapping", "stale"]);
  });

  test("a newer execution with a smaller token", () => {
    const evidence = takenOver({ to: 2 * SECOND, closes: true });
    const swapped = [...evidence.executions].map((line) =>
      line.e === "begin" ? { ...line, execution: line.fence === "5" ? 2 : 1 } : line,
    );
    expect(kindsOf({ ...evidence, executions: swapped })).toEqual(["stale"]);
  });
});

function kindsOf(evidence: Evidence): string[] {
  return judge(evidence).wrongs.map(({ kind }) => kind);
}

function job(changes: Partial<JobRow>): JobRow {
  return {
    id: "a",
    tag: "t1",
    type: "thread.work",
    state: "Succeeded",
    hold: null,
    token: "5",
    result_fence: "5",
    error: null,
    schedule: null,
    fire_at: null,
    ...changes,
  };
}

function withJob(changes: Partial<JobRow>): Evidence {
  const evidence = honest();
  return { ...evidence, product: { ...evidence.product, jobs: [job(changes)] } };
}

function run(options: {
  readonly job?: string;
  readonly fence: string;
  readonly pid: number;
  readonly from: number;
  readonly to: number;
  readonly execution?: number;
  readonly key?: string;
  readonly closes?: boolean;
}): ExecutionLine[] {
  const { fence, pid, from, to, key = null, execution = 1 } = options;
  const line = { job: options.job ?? "a", fence, pid };
  const isWorker = pid === WORKER_ONE || pid === WORKER_TWO;
  const last: ExecutionLine[] =
    options.closes === false
      ? [{ e: "tick", at: to, ...line }]
      : [
          { e: "effect", at: to, ...line },
          { e: "end", at: to, ...line },
        ];
  return [
    { e: "begin", at: from, ...line, tag: "t1", key, ppid: isWorker ? 1 : WORKER_ONE, execution, attempt: 1 },
    ...last,
  ];
}

function spawned(slot: string, pid: number): NemesisLine {
  return { e: "spawned", at: 0, slot, pid, detail: "" };
}

function window(kind: "stop" | "freeze", from: number, to: number): NemesisLine {
  return { e: "window", kind, slot: "worker-1", from, to };
}

function twoKeyed({ secondFrom }: { readonly secondFrom: number }): Evidence {
  const evidence = honest();
  return {
    ...evidence,
    client: [
      { e: "request", at: 0, request: 1, kind: "batch", tags: ["t1", "t2"], expect: "Succeeded" },
      { e: "answer", at: 10, request: 1, outcome: "ok", status: 201, jobs: ["a", "b"] },
    ],
    executions: [
      ...run({ fence: "5", pid: WORKER_ONE, from: SECOND, to: 2 * SECOND, key: "k" }),
      ...run({ job: "b", fence: "6", pid: WORKER_TWO, from: secondFrom, to: 3 * SECOND, key: "k" }),
    ],
    product: {
      ...evidence.product,
      jobs: [job({}), job({ id: "b", tag: "t2", token: "6", result_fence: "6" })],
      executions: [
        ...evidence.product.executions,
        { job: "b", execution: 1, generation: 0, token: "6", outcome: "succeeded" },
      ],
    },
    sink: {
      offers: ["5", "6"].map((fence) => ({ job: fence === "5" ? "a" : "b", fence, accepted: true })),
      fenced: ["5", "6"].map((fence) => ({ job: fence === "5" ? "a" : "b", fence })),
    },
  };
}

function scheduledJob(second: number): Partial<JobRow> {
  const token = String(100 + second);
  return { id: `s${second}`, tag: null, token, result_fence: token, schedule: "every-five", fire_at: second * 1_000 };
}

/** A schedule of every five seconds that fired at these seconds, expected to go on until second 20. */
function scheduled(seconds: readonly number[]): Evidence {
  const tokens = seconds.map((second) => ({ job: `s${second}`, fence: String(100 + second) }));
  return {
    client: [],
    executions: tokens.flatMap(({ job: id, fence }) =>
      run({ job: id, fence, pid: WORKER_ONE, from: SECOND, to: 2 * SECOND }),
    ),
    nemesis: [spawned("worker-1", WORKER_ONE)],
    product: {
      jobs: seconds.map((second) => job(scheduledJob(second))),
      executions: tokens.map(({ job: id, fence }) => ({
        job: id,
        execution: 1,
        generation: 0,
        token: fence,
        outcome: "succeeded",
      })),
      fires: seconds.map((second) => ({
        schedule: "every-five",
        fire_at: second * 1_000,
        outcome: "fired",
        job: `s${second}`,
        older_skips: 0,
      })),
    },
    sink: { offers: tokens.map((token) => ({ ...token, accepted: true })), fenced: tokens },
    schedules: [{ name: "every-five", isDue: (second) => second % 5 === 0, untilMs: 20_000 }],
    leaseMs: LEASE_MS,
  };
}
