import { readdirSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { openWorkbench, writeProjectFile } from "./support.ts";

const READY = "await ctx.progress(1);";
const HANDLERS = {
  "echo.ts": "export default async (payload) => payload;",
  "blocked.ts": `export default async (payload, ctx) => { ${READY} for (;;); };`,
  "deaf.ts": `export default async (payload, ctx) => { ${READY} await new Promise(() => setInterval(() => {}, 1000)); };`,
  "waiting.ts": `export default async (payload, ctx) => {
    ${READY}
    await new Promise((resolve) => ctx.signal.addEventListener("abort", resolve, { once: true }));
    return ctx.signal.reason.code;
  };`,
  "thread.ts": 'import { threadId } from "node:worker_threads"; export default () => threadId;',
  "exits.ts": `export default async (payload, ctx) => { ${READY} process.exit(3); };`,
  "rejects.ts": `export default async (payload, ctx) => { ${READY} Promise.reject(new Error("nobody waits")); await new Promise(() => {}); };`,
};
const ONE_THREAD = { threads: 1 };

describe("jobs in threads", () => {
  test("a thousand at once all come back with their own result", async () => {
    const bench = openWorkbench(HANDLERS);
    await bench.run("echo.ts");
    const runs = await Promise.all(Array.from({ length: 1000 }, (_, n) => bench.start("echo.ts", { payload: { n } })));
    const outcomes = await Promise.all(runs.map((run) => run.outcome));
    expect(outcomes).toEqual(
      Array.from({ length: 1000 }, (_, n) => ({ kind: "returned", result: JSON.stringify({ n }), resultError: null })),
    );
  });

  test("an aborted handler sees why and may finish in its own way", async () => {
    const bench = openWorkbench(HANDLERS);
    const run = await bench.startAndWait("waiting.ts");
    run.abort("cancelled");
    expect(await run.outcome).toMatchObject({ kind: "returned", result: '"cancelled"' });
  });

  test("a handler that asks for its signal after the abort finds it aborted", async () => {
    const bench = openWorkbench({
      "late.ts": `export default async (payload, ctx) => {
        await ctx.progress(1);
        await new Promise((resolve) => setImmediate(resolve));
        return ctx.signal.aborted ? ctx.signal.reason.message : "not aborted";
      };`,
    });
    // The abort arrives in the same batch as the run, before the handler's first turn ends.
    const run = await bench.start("late.ts");
    run.abort("shutdown");
    expect(await run.outcome).toMatchObject({ result: '"the job was asked to stop: shutdown"' });
  });
});

describe("a handler that has to be cut off", () => {
  test.each(["blocked.ts", "deaf.ts"])(
    "%s ends with its thread, and the thread's other jobs are said to be neighbours",
    async (file) => {
      const bench = openWorkbench(HANDLERS, ONE_THREAD);
      const neighbour = await bench.startAndWait("waiting.ts");
      const culprit = await bench.startAndWait(file);
      culprit.abort("time-out");
      culprit.end();
      expect(await culprit.outcome).toEqual({ kind: "cut-off" });
      expect(await neighbour.outcome).toEqual({ kind: "neighbour-ended" });
      expect(await bench.run("echo.ts", { payload: 1 })).toMatchObject({ kind: "returned", result: "1" });
    },
  );

  test("no longer shares a thread with other types", async () => {
    const bench = openWorkbench(HANDLERS, ONE_THREAD);
    const first = await bench.startAndWait("blocked.ts");
    first.end();
    await first.outcome;
    const second = await bench.startAndWait("blocked.ts");
    const neighbour = await bench.startAndWait("waiting.ts");
    second.end();
    expect(await second.outcome).toEqual({ kind: "cut-off" });
    neighbour.abort("shutdown");
    expect(await neighbour.outcome).toMatchObject({ kind: "returned" });
  });

  test("is not the job that waits behind it: that one is uncharged, and the one in front is set apart", async () => {
    const bench = openWorkbench(HANDLERS, ONE_THREAD);
    await bench.run("echo.ts");
    const front = await bench.startAndWait("blocked.ts");
    const behind = await bench.start("echo.ts");
    behind.end();
    expect(await behind.outcome).toEqual({ kind: "neighbour-ended" });
    expect(await front.outcome).toEqual({ kind: "neighbour-ended" });
    const again = await bench.startAndWait("blocked.ts");
    expect(await bench.run("echo.ts", { payload: 1 })).toMatchObject({ kind: "returned" });
    again.end();
    await again.outcome;
  });

  test("may end itself before: its result stands", async () => {
    const bench = openWorkbench(HANDLERS, ONE_THREAD);
    const run = await bench.start("echo.ts", { payload: 1 });
    await run.outcome;
    run.end();
    expect(await run.outcome).toMatchObject({ kind: "returned" });
    expect(await bench.run("echo.ts", { payload: 2 })).toMatchObject({ result: "2" });
  });
});

describe("a thread that dies under its jobs", () => {
  test.each([
    ["exits.ts", /exit code 3/],
    ["rejects.ts", /nobody waits/],
  ])("by %s: the job is told how", async (file, detail) => {
    const bench = openWorkbench(HANDLERS, ONE_THREAD);
    const outcome = await bench.run(file);
    expect(outcome).toMatchObject({ kind: "crashed", detail: expect.stringMatching(detail) });
  });

  test("takes two types only once: afterwards each has threads of its own", async () => {
    const bench = openWorkbench(HANDLERS, ONE_THREAD);
    const neighbour = await bench.startAndWait("waiting.ts");
    expect(await bench.run("exits.ts")).toMatchObject({ kind: "crashed" });
    expect(await neighbour.outcome).toMatchObject({ kind: "crashed" });
    const again = await bench.startAndWait("waiting.ts");
    expect(await bench.run("exits.ts")).toMatchObject({ kind: "crashed" });
    again.abort("shutdown");
    expect(await again.outcome).toMatchObject({ kind: "returned" });
  });

  test("is replaced by one that works", async () => {
    const bench = openWorkbench(HANDLERS, ONE_THREAD);
    await bench.run("exits.ts");
    expect(await bench.run("echo.ts", { payload: 7 })).toMatchObject({ result: "7" });
  });
});

describe("hot reload", () => {
  test("the next run has the new code while a running one finishes on its old code", async () => {
    const text = (answer: string) => `export default async (payload, ctx) => {
      if (payload.wait) { ${READY} await new Promise((resolve) => ctx.signal.addEventListener("abort", resolve)); }
      return ${JSON.stringify(answer)};
    };`;
    const bench = openWorkbench({ "versioned.ts": text("old") }, ONE_THREAD);
    const running = await bench.startAndWait("versioned.ts", { payload: { wait: true } });
    writeProjectFile(bench.root, "handlers/versioned.ts", text("new"));
    expect(await bench.run("versioned.ts")).toMatchObject({ result: '"new"' });
    running.abort("shutdown");
    expect(await running.outcome).toMatchObject({ result: '"old"' });
  });

  test("a thread that holds many replaced bundles drains: its running job finishes, new ones go elsewhere", async () => {
    const bench = openWorkbench(HANDLERS, ONE_THREAD);
    const running = await bench.startAndWait("waiting.ts");
    const threads = new Set<string | null>();
    for (let version = 0; version < 12; version++) {
      writeProjectFile(
        bench.root,
        "handlers/thread.ts",
        `import { threadId } from "node:worker_threads"; export default () => [threadId, ${version}][0];`,
      );
      const outcome = await bench.run("thread.ts");
      if (outcome.kind === "returned") threads.add(outcome.result);
    }
    expect(threads.size).toBeGreaterThan(1);
    expect(threads.size).toBeLessThan(6);
    running.abort("cancelled");
    expect(await running.outcome).toMatchObject({ kind: "returned" });
  });

  test("memory stays flat over fifty reloads of a heavy module", async () => {
    const bench = openWorkbench({}, ONE_THREAD);
    const reload = async (version: number) => {
      const text = `export const weight = Array.from({ length: 250_000 }, (_, n) => "v${version}-" + n);
        export default () => weight.length;`;
      writeProjectFile(bench.root, "handlers/heavy.ts", text);
      expect(await bench.run("heavy.ts")).toMatchObject({ result: "250000" });
    };
    for (let version = 0; version < 12; version++) await reload(version);
    const before = process.memoryUsage().rss;
    for (let version = 12; version < 62; version++) await reload(version);
    // Kept, every version would cost about 10 MB.
    expect(process.memoryUsage().rss - before).toBeLessThan(150 * 1024 * 1024);
  });
});

describe("a run that ends before its code arrived", () => {
  test("is charged nothing and never begins", async () => {
    let deliver: (code: string | null) => void = () => {};
    const code = new Promise<string | null>((resolve) => {
      deliver = resolve;
    });
    const bench = openWorkbench(HANDLERS, { loadBundle: () => code });
    const run = await bench.start("exits.ts");
    run.end();
    expect(await run.outcome).toEqual({ kind: "neighbour-ended" });
    deliver(null);
  });
});

describe("a module that cannot be loaded", () => {
  test.each([
    ["throws while it loads", 'throw new Error("no licence"); export default () => 1;', /no licence/],
    ["exports no function", "export default 42;", /expected a default export made by defineHandler/],
  ])("that %s is reported, and remembered by its hash", async (_, text, detail) => {
    const bench = openWorkbench({ "bad.ts": text, "echo.ts": HANDLERS["echo.ts"] });
    expect(await bench.run("bad.ts")).toMatchObject({ kind: "unloadable", detail: expect.stringMatching(detail) });
    expect(bench.host.unloadableBundles()).toEqual([expect.stringMatching(/^sha256:/)]);
    expect(await bench.run("echo.ts", { payload: 1 })).toMatchObject({ kind: "returned" });
  });

  test.each(["thread", "process"] as const)("is tried again until it loads, without a job (%s)", async (isolation) => {
    const bench = openWorkbench(
      {
        "late.ts": `const name = "late-" + "package";
          const { value } = await import(name);
          export default () => value;`,
      },
      { firstProbeMs: 10 },
    );
    expect(await bench.run("late.ts", { isolation })).toMatchObject({ kind: "unloadable" });
    expect(await bench.run("late.ts", { isolation })).toMatchObject({
      kind: "unloadable",
      detail: expect.stringContaining("late-package"),
    });
    writeProjectFile(
      bench.root,
      "node_modules/late-package/package.json",
      '{"name":"late-package","type":"module","main":"index.js"}',
    );
    writeProjectFile(bench.root, "node_modules/late-package/index.js", "export const value = 7;");
    await bench.logged("a handler can be loaded here again");
    expect(bench.host.unloadableBundles()).toEqual([]);
    expect(await bench.run("late.ts", { isolation })).toMatchObject({ kind: "returned", result: "7" });
  });

  test("is tried again at once when it is asked for, and stays what it is when nothing has changed", async () => {
    const bench = openWorkbench({
      "strict.ts": `import { existsSync } from "node:fs";
        if (!existsSync(process.env.TURNO_PROJECT_ROOT + "/licence")) throw new Error("no licence");
        export default () => 1;`,
    });
    expect(await bench.run("strict.ts")).toMatchObject({ kind: "unloadable" });
    bench.host.retryUnloadable();
    expect(bench.host.unloadableBundles()).toHaveLength(1);
    writeProjectFile(bench.root, "licence", "yes");
    await expect
      .poll(() => {
        bench.host.retryUnloadable();
        return bench.host.unloadableBundles();
      })
      .toEqual([]);
    expect(await bench.run("strict.ts")).toMatchObject({ kind: "returned" });
  });

  test("is one that nobody has; a store that is away condemns nothing", async () => {
    const gone = openWorkbench(HANDLERS, { loadBundle: async () => null });
    expect(await gone.run("echo.ts")).toMatchObject({ kind: "unloadable" });
    expect(gone.host.unloadableBundles()).toHaveLength(1);
    const away = openWorkbench(HANDLERS, { loadBundle: () => Promise.reject(new Error("database away")) });
    expect(await away.run("echo.ts")).toMatchObject({
      kind: "unloadable",
      detail: expect.stringMatching(/database away/),
    });
    expect(away.host.unloadableBundles()).toEqual([]);
  });

  test("is never code that does not have the hash it is kept under", async () => {
    const bench = openWorkbench(HANDLERS, { loadBundle: async () => "export default () => 'forged';" });
    expect(await bench.run("echo.ts")).toMatchObject({
      kind: "unloadable",
      detail: expect.stringMatching(/another hash/),
    });
  });

  test("a bundle that a crash cut short on disk is fetched again", async () => {
    const bench = openWorkbench(HANDLERS);
    const run = await bench.start("echo.ts", { payload: 5 });
    await run.outcome;
    const [file = ""] = readdirSync(`${bench.root}/.turno/bundles`);
    const second = openWorkbench(HANDLERS);
    writeProjectFile(second.root, `.turno/bundles/${file}`, "export default () =>");
    expect(await second.run("echo.ts", { payload: 6 })).toMatchObject({ result: "6" });
  });
});

test("closing the host ends what still runs", async () => {
  const bench = openWorkbench(HANDLERS);
  const blocked = await bench.startAndWait("blocked.ts");
  await bench.host.close();
  expect(await blocked.outcome).toEqual({ kind: "cut-off" });
  expect(await bench.run("echo.ts")).toEqual({ kind: "neighbour-ended" });
});
