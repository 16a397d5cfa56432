import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, cp, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type Databases, startDatabases } from "./databases.ts";
import { countOpenJobs, readProductFacts, readSinkFacts } from "./facts.ts";
import { Slot } from "./fleet.ts";
import {
  type ClientLine,
  type ExecutionLine,
  LedgerWriter,
  type NemesisLine,
  readFolder,
  readLines,
} from "./ledger.ts";
import { Nemesis } from "./nemesis.ts";
import type { ChaosOptions } from "./options.ts";
import { judge } from "./oracle.ts";
import { planFaults, SERVER_SLOT } from "./plan.ts";
import { claimPorts, freePort } from "./ports.ts";
import { createProject, expectedSchedules, type ProjectSettings, typesOf, writeRevision } from "./project-files.ts";
import { FaultProxy, type Upstream } from "./proxy.ts";
import type { RunSummary } from "./report.ts";
import { type Services, startServices } from "./services.ts";
import { runWorkload } from "./workload.ts";

export { readOptions, UsageError } from "./options.ts";
export { isGreen, renderSummary, renderWrongs } from "./report.ts";

const START_LIMIT_MS = 60_000;
const COMMAND_LIMIT_MS = 60_000;
/** Shorter than what the lease leaves, so that graceful stops stay graceful. */
const SHUTDOWN_TIMEOUT = "4s";
const QUIET_MS = 15_000;
/** A schedule's last fire before the end may be that old: its longest interval and a change of leader. */
const FIRE_SLACK_MS = 30_000 + 20_000;

export interface RunPorts {
  readonly turnoRoot: string;
  /** Path of pgbouncer; null: the run goes without. */
  readonly pgbouncer: string | null;
  readonly progress: (text: string) => void;
  /** Aborts on Ctrl-C: everything is ended, nothing is judged. */
  readonly signal: AbortSignal;
}

export interface ChaosResult {
  readonly summary: RunSummary;
  /** Ledgers and logs; the caller removes it. */
  readonly folder: string;
  readonly executionFolder: string;
}

interface Site {
  readonly options: ChaosOptions;
  readonly ports: RunPorts;
  readonly folder: string;
  /** Turno's entry file. */
  readonly program: string;
  readonly databases: Databases;
  readonly services: Services | null;
  readonly project: ProjectSettings;
  readonly ledger: LedgerWriter;
  readonly slots: ReadonlyMap<string, Slot>;
  readonly tools: FaultProxy;
  readonly serverUrl: string;
  readonly notes: string[];
}

/** One run from the first process to the verdict. Whatever it started has ended when it settles. */
export async function runChaos(options: ChaosOptions, ports: RunPorts): Promise<ChaosResult> {
  const folder = await mkdtemp(join(tmpdir(), "turno-chaos-"));
  // As root the databases run as another user, who has to pass through here.
  await chmod(folder, 0o755);
  const ends: (() => Promise<void>)[] = [];
  try {
    const site = await prepare(options, ports, folder, ends);
    const summary = await shake(site);
    return { summary, folder, executionFolder: join(folder, "executions") };
  } catch (error) {
    ports.progress(`ledgers and logs are in ${folder}`);
    throw error;
  } finally {
    for (const end of ends.reverse()) {
      await end().catch((error: unknown) =>
        ports.progress(`an end failed: ${error instanceof Error ? error.message : error}`),
      );
    }
  }
}

async function prepare(
  options: ChaosOptions,
  ports: RunPorts,
  folder: string,
  ends: (() => Promise<void>)[],
): Promise<Site> {
  ports.progress("starting two PostgreSQL servers ...");
  const databases = await startDatabases(folder, { pgbouncer: options.pgbouncer ? ports.pgbouncer : null });
  ends.push(() => databases.stop());
  let services: Services | null = null;
  if (options.isFull) {
    ports.progress("starting RabbitMQ and three Redis nodes ...");
    const started = await startServices(options);
    ends.push(() => started.stop());
    services = started;
  }
  const folders = { project: join(folder, "project"), logs: join(folder, "logs") };
  const executions = join(folder, "executions");
  for (const path of [folders.project, folders.logs, executions]) await mkdir(path, { recursive: true });
  const ledger = new LedgerWriter(join(folder, "nemesis.ndjson"));
  const project: ProjectSettings = {
    turnoRoot: ports.turnoRoot,
    folder: folders.project,
    ledger: executions,
    sink: databases.sinkAddress,
    isolation: options.isolation,
  };
  await createProject(project);
  const block = await claimPorts();
  ends.push(() => block.release());
  const proxies: FaultProxy[] = [];
  ends.push(async () => {
    for (const proxy of proxies) await proxy.close();
  });
  const openProxy = async (upstream: Upstream): Promise<FaultProxy> => {
    const proxy = await FaultProxy.open(upstream, { first: block.first + 5, last: block.last });
    proxies.push(proxy);
    return proxy;
  };
  const database = { path: databases.productSocket };
  const tools = await openProxy(database);
  const serverPort = await freePort({ first: block.first, last: block.first + 4 });
  const slots = new Map<string, Slot>();
  ends.push(async () => {
    await Promise.all(
      [...slots.values()].map(async (slot) => {
        slot.signal("SIGCONT", { andChildren: true });
        if (!(await slot.end("SIGTERM", 20_000))) await slot.end("SIGKILL", 20_000);
      }),
    );
  });
  const program = options.program ?? (await copyProgram(ports.turnoRoot, join(folder, "turno")));
  const names = [SERVER_SLOT, ...Array.from({ length: options.workers }, (_, index) => `worker-${index + 1}`)];
  for (const name of names) {
    const proxy = await openProxy(database);
    const brokerProxy = services === null ? null : await openProxy({ port: services.brokerPort });
    const args = name === SERVER_SLOT ? ["server", "--port", String(serverPort)] : ["worker", "--queue", "default=6"];
    const env = {
      ...environment(options, databases, proxy),
      ...(brokerProxy === null ? {} : services?.environment(brokerProxy.port)),
    };
    const settings = { name, proxy, brokerProxy, args, env };
    slots.set(name, new Slot({ settings, program: [process.execPath, program], folders, ledger }));
  }
  const serverUrl = `http://127.0.0.1:${serverPort}`;
  const site: Site = {
    options,
    ports,
    folder,
    program,
    databases,
    services,
    project,
    ledger,
    slots,
    tools,
    serverUrl,
    notes: [],
  };
  await runTurno(site, ["migrate"]);
  await runTurno(site, ["apply", "--yes"]);
  for (const slot of slots.values()) slot.start();
  await waitUntilReady(serverUrl, ports.signal);
  return site;
}

/** Workload and faults together, then healing, draining, and the judgement. */
async function shake(site: Site): Promise<RunSummary> {
  const { options, ports, databases, services, slots, ledger } = site;
  const workers = [...slots.keys()].filter((name) => name !== SERVER_SLOT);
  const plan = planFaults({
    seed: options.seed,
    minutes: options.minutes,
    leaseMs: options.leaseMs,
    workers,
    hasPooler: options.pgbouncer,
    freezes: options.isolation !== "process",
    isFull: options.isFull,
  });
  let version = 0;
  const nemesis = new Nemesis({
    slots,
    databases,
    services,
    ledger,
    note: (text) => site.notes.push(text),
    async applyRevision() {
      version += 1;
      await writeRevision(site.project, { version, suspended: false });
      await runTurno(site, ["apply", "--yes"]);
    },
  });
  const clientLedger = new LedgerWriter(join(site.folder, "client.ndjson"));
  const timeUp = new AbortController();
  const endTimer = setTimeout(() => timeUp.abort(), options.minutes * 60_000);
  ports.signal.addEventListener("abort", () => timeUp.abort(), { once: true });
  const { types, keyed } = typesOf(options.isolation);
  const progress = setInterval(() => ports.progress(progressLine(nemesis)), 30_000);
  try {
    ports.progress(`${plan.length} faults planned with seed ${options.seed}; ledgers in ${site.folder}`);
    await Promise.all([
      nemesis.run(plan, timeUp.signal),
      runWorkload(
        {
          seed: options.seed,
          serverUrl: site.serverUrl,
          types,
          keyedTypes: keyed,
          jobsPerSecond: options.jobsPerSecond,
          leaseMs: options.leaseMs,
          ledger: clientLedger,
        },
        timeUp.signal,
      ),
    ]);
  } finally {
    clearInterval(progress);
    clearTimeout(endTimer);
    await nemesis.heal();
  }
  ports.signal.throwIfAborted();
  const endedAtMs = Date.now();
  ports.progress(`healed; ${progressLine(nemesis)}`);
  // The schedules fire on while everything is well again, and then stop.
  await delay(20_000, undefined, { signal: ports.signal });
  version += 1;
  await writeRevision(site.project, { version, suspended: true });
  await runTurno(site, ["apply", "--yes"]);
  const drainSeconds = await drain(site);
  clientLedger.close();
  return judgeRun(site, { counts: nemesis.counts, drainSeconds, untilMs: endedAtMs - FIRE_SLACK_MS });
}

async function judgeRun(
  site: Site,
  run: { readonly counts: ReadonlyMap<string, number>; readonly drainSeconds: number; readonly untilMs: number },
): Promise<RunSummary> {
  const { options, databases } = site;
  site.ports.progress("judging ...");
  const product = await databases.connect("product");
  const sink = await databases.connect("sink");
  try {
    const verdict = judge({
      client: readLines<ClientLine>(join(site.folder, "client.ndjson")),
      executions: readFolder<ExecutionLine>(join(site.folder, "executions")),
      nemesis: readLines<NemesisLine>(join(site.folder, "nemesis.ndjson")),
      product: await readProductFacts(product),
      sink: await readSinkFacts(sink),
      schedules: expectedSchedules(run.untilMs),
      leaseMs: options.leaseMs,
    });
    const { minutes, seed, lease, isolation, workers } = options;
    return {
      command: `npm run chaos -- --minutes ${minutes} --seed ${seed} --lease ${lease} --isolation ${isolation} --workers ${workers}${options.pgbouncer ? " --pgbouncer" : ""}${options.isFull ? " --full" : ""}`,
      seed,
      minutes,
      lease,
      isolation,
      workers,
      pooler: options.pgbouncer,
      isFull: options.isFull,
      drainSeconds: run.drainSeconds,
      faults: Object.fromEntries(run.counts),
      notes: site.notes,
      verdict,
    };
  } finally {
    await product.end();
    await sink.end();
  }
}

/** Waits until no job is open, for as long as jobs end: those of one key end one after another. Then the oracle names what is open. */
async function drain(site: Site): Promise<number> {
  const began = performance.now();
  const stillMs = 120_000 + 6 * site.options.leaseMs;
  const limitMs = 10 * stillMs + site.options.minutes * 120_000;
  const client = await site.databases.connect("product");
  try {
    let told = began;
    let fewest = Number.POSITIVE_INFINITY;
    let movedAt = began;
    for (;;) {
      const open = await countOpenJobs(client);
      const now = performance.now();
      if (open < fewest) movedAt = now;
      fewest = Math.min(fewest, open);
      if (open === 0 || now - movedAt > stillMs || now - began > limitMs) {
        // A late write of a process that was about to end could still come.
        await delay(Math.min(QUIET_MS, site.options.leaseMs), undefined, { signal: site.ports.signal });
        return (now - began) / 1_000;
      }
      if (now - told > 10_000) {
        told = now;
        site.ports.progress(`${open} jobs are open ...`);
      }
      await delay(500, undefined, { signal: site.ports.signal });
    }
  } finally {
    await client.end();
  }
}

function environment(options: ChaosOptions, databases: Databases, proxy: FaultProxy): Record<string, string> {
  const settings = {
    TURNO_DATABASE_URL: `postgresql://turno@127.0.0.1:${proxy.port}/${databases.databaseName}`,
    TURNO_RUNTIME_DATABASE_POOL_SIZE: "4",
    TURNO_RUNTIME_WORKER_SHUTDOWN_TIMEOUT: SHUTDOWN_TIMEOUT,
    TURNO_RUNTIME_WORKER_LEASE_DURATION: options.lease,
  };
  if (options.leaseMs > 30_000) return settings;
  return {
    ...settings,
    TURNO_RUNTIME_WORKER_LEASE_RENEWAL: "1s",
    TURNO_RUNTIME_WORKER_HEARTBEAT: "1s",
    TURNO_RUNTIME_RECOVERY_INTERVAL: "1s",
  };
}

/** What was built, as it is now: a build during the run must not change what restarted processes are. */
async function copyProgram(turnoRoot: string, folder: string): Promise<string> {
  await mkdir(folder);
  for (const name of ["bin", "dist", "schemas", "package.json"]) {
    await cp(join(turnoRoot, name), join(folder, name), { recursive: true });
  }
  await mkdir(join(folder, "web"));
  await cp(join(turnoRoot, "web", "assets"), join(folder, "web", "assets"), { recursive: true });
  await symlink(join(turnoRoot, "node_modules"), join(folder, "node_modules"));
  return join(folder, "bin", "turno.js");
}

/** Runs a command of Turno to its end, its database connection through a proxy of its own. */
async function runTurno(
  { options, program, databases, services, project, tools }: Site,
  args: readonly string[],
): Promise<void> {
  const child = spawn(process.execPath, [program, ...args], {
    cwd: project.folder,
    env: {
      ...process.env,
      ...environment(options, databases, tools),
      ...services?.environment(services.brokerPort),
      NO_COLOR: "1",
    },
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    timeout: COMMAND_LIMIT_MS,
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`turno ${args.join(" ")} ended with ${code}: ${output.trim().slice(0, 2_000)}`);
}

async function waitUntilReady(url: string, signal: AbortSignal): Promise<void> {
  const giveUpAt = performance.now() + START_LIMIT_MS;
  for (;;) {
    const isReady = await fetch(`${url}/health/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isReady) return;
    if (performance.now() > giveUpAt) throw new Error(`the server did not become ready at ${url} within 60 s`);
    await delay(200, undefined, { signal });
  }
}

function progressLine(nemesis: Nemesis): string {
  const total = [...nemesis.counts.values()].reduce((sum, count) => sum + count, 0);
  return `${total} faults so far`;
}

/** Writes the summary as JSON. */
export async function writeResult(path: string, summary: RunSummary): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, `${JSON.stringify(summary, null, 2)}\n`);
}

export async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 200 });
}
