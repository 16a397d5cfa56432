import { existsSync } from "node:fs";
import { access, constants, statfs } from "node:fs/promises";
import type { Command } from "commander";
import { migrate } from "../../adapters/postgres/migrate.ts";
import { openDatabase } from "../../adapters/postgres/pool.ts";
import { checkSchema } from "../../adapters/postgres/schema-range.ts";
import { openStores } from "../../compose.ts";
import { hasErrors } from "../../config/problems.ts";
import { humanDuration } from "../../core/duration.ts";
import { describeError, TurnoError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import type { SyncView } from "../../protocol/ports/panel.ts";
import { VERSION } from "../../version.ts";
import { openDatabaseAddress } from "../database-address.ts";
import { examineTransport, type Finding } from "../examine-transport.ts";
import { type CommandIo, EXIT, type ExitCode, printJson } from "../io.ts";
import { openProcessLogger } from "../process-logger.ts";
import { expectSettings, loadWholeProject, openProject, type Project } from "../project.ts";

interface DatabaseOptions {
  readonly dir?: string;
  readonly data?: string;
  readonly json?: boolean;
}

const MIN_FREE_BYTES = 1_000_000_000;
const MAX_SKEW_MS = 1_000;

/** `migrate` and `doctor`. */
export function addDatabaseCommands(program: Command, io: CommandIo, setExitCode: (code: ExitCode) => void): void {
  program
    .command("migrate")
    .description("bring the database's schema to this version")
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--data <folder>", "where the state lies, as for turno up (default: .turno)")
    .option("--json", "print JSON")
    .action(async (options: DatabaseOptions) => {
      const logger = openProcessLogger(io, { level: "warn" });
      const project = await openProject(io, { dir: options.dir, data: options.data, filesOptional: true });
      const opened = await openDatabaseAddress(project, { start: true, logger, signal: io.signal });
      try {
        const report = await migrate(opened.address, logger);
        if (options.json === true) printJson(io, report);
        else if (report.applied.length === 0) io.out(`the schema is at version ${report.version}; nothing to do\n`);
        else
          io.out(
            `${report.applied.map((name) => `applied ${name}\n`).join("")}the schema is at version ${report.version}\n`,
          );
      } finally {
        await opened.close();
      }
    });

  program
    .command("doctor")
    .description("check what Turno needs here: Node, files, disk, database, workers, broker and locks")
    .option("--dir <folder>", "the project's folder (default: here)")
    .option("--data <folder>", "where the state lies, as up was told (default: .turno)")
    .option("--json", "print JSON")
    .action(async (options: DatabaseOptions) => {
      const logger = openProcessLogger(io, { level: "error" });
      const findings = await examine(io, options, logger);
      if (options.json === true) printJson(io, findings);
      else
        io.out(
          findings
            .map((finding) => `${finding.status.padEnd(8)} ${finding.check.padEnd(10)} ${finding.detail}\n`)
            .join(""),
        );
      if (findings.some((finding) => finding.status === "failed")) setExitCode(EXIT.failed);
    });
}

async function examine(io: CommandIo, options: DatabaseOptions, logger: Logger): Promise<readonly Finding[]> {
  const findings: Finding[] = [
    {
      check: "version",
      status: "ok",
      detail: `Turno ${VERSION} on Node ${process.versions.node}, ${process.platform} ${process.arch}`,
    },
  ];
  const look = async (check: string, run: () => Promise<Omit<Finding, "check">>): Promise<void> => {
    findings.push({
      check,
      ...(await run().catch((error: unknown) => ({ status: "failed" as const, detail: describe(error) }))),
    });
  };
  let project: Project | null = null;
  await look("project", async () => {
    project = await openProject(io, { dir: options.dir, data: options.data });
    const { state, problems } = await loadWholeProject(project);
    if (hasErrors(problems)) return { status: "failed", detail: `${problems.length} problems; run turno validate` };
    return { status: "ok", detail: `${state?.objects.length ?? 0} objects in ${project.paths.root}` };
  });
  if (project === null) return findings;
  const { paths } = project as Project;
  await look("disk", async () => {
    // The state may lie on a disk of its own.
    const folder = existsSync(paths.turno) ? paths.turno : paths.root;
    const disk = await statfs(folder);
    const free = disk.bavail * disk.bsize;
    const space = `${(free / 1e9).toFixed(1)} GB free`;
    const isWritable = await access(paths.root, constants.W_OK).then(
      () => true,
      () => false,
    );
    if (!isWritable) return { status: "warning", detail: `${space}; ${paths.root} cannot be written to` };
    return { status: free < MIN_FREE_BYTES ? "warning" : "ok", detail: space };
  });
  await look("database", () => examineDatabase(io, project as Project, { logger, findings }));
  return findings;
}

async function examineDatabase(
  io: CommandIo,
  project: Project,
  context: { readonly logger: Logger; readonly findings: Finding[] },
): Promise<Omit<Finding, "check">> {
  const { logger, findings } = context;
  expectSettings(project);
  const opened = await openDatabaseAddress(project, { start: false, logger, signal: io.signal });
  const probe = openDatabase({
    address: opened.address,
    applicationName: "turno doctor",
    size: 1,
    statementTimeoutMs: 5_000,
    logger,
  });
  try {
    const before = Date.now();
    const [row] = await probe.query<{ version: string; now: Date }>(
      "select current_setting('server_version') as version, clock_timestamp() as now",
    );
    const after = Date.now();
    await checkSchema(probe);
    const skewMs = Math.abs((row?.now.getTime() ?? before) - (before + after) / 2) - (after - before) / 2;
    findings.push({
      check: "clock",
      status: skewMs > MAX_SKEW_MS ? "warning" : "ok",
      detail: `${Math.max(0, Math.round(skewMs))} ms away from the database's clock`,
    });
    findings.push(...(await examineFleet(opened.address, project, logger)));
    return {
      status: "ok",
      detail: `PostgreSQL ${row?.version ?? "?"}${opened.embedded ? ", embedded" : ""}, answers in ${after - before} ms`,
    };
  } finally {
    await probe.close();
    await opened.close();
  }
}

async function examineFleet(
  address: { readonly connectionString: string },
  { settings }: Project,
  logger: Logger,
): Promise<readonly Finding[]> {
  const stores = openStores({ address, role: "doctor", poolSize: 1, logger });
  try {
    const { items } = await stores.panel.listWorkers();
    const live = items.filter((worker) => worker.status === "live").length;
    const workers: Finding = {
      check: "workers",
      status: live === 0 ? "warning" : "ok",
      detail: `${live} live of ${items.length} registered`,
    };
    const sync = await stores.panel.loadSync();
    const transport = await examineTransport(stores, settings, logger);
    return [workers, ...(sync === null ? [] : [examineSync(sync)]), ...transport];
  } finally {
    await stores.close();
  }
}

/** Whether what the watched files say is in force. */
function examineSync({ problem, silent, checkedAt, lastOkAt }: SyncView): Finding {
  const age = (at: Date | null) =>
    at === null ? "never" : `${humanDuration(Math.max(0, Date.now() - at.getTime()))} ago`;
  const looked = `looked at ${age(checkedAt)}`;
  if (problem === null) {
    return { check: "sync", status: silent ? "warning" : "ok", detail: `the files are in force, ${looked}` };
  }
  const place = problem.file === null ? "" : `${problem.file}:${problem.line ?? 1}: `;
  return {
    check: "sync",
    status: "warning",
    detail: `edits are not in force, last good sync ${age(lastOkAt)}: ${place}${problem.message}`,
  };
}

function describe(error: unknown): string {
  const hint = error instanceof TurnoError ? error.hint : null;
  return hint === null ? describeError(error) : `${describeError(error)} (${hint})`;
}
