import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { TurnoError } from "../../core/errors.ts";

export interface Migration {
  readonly version: number;
  readonly name: string;
  readonly text: string;
  readonly sha256: string;
  /** For a contract: the newest schema that the oldest code knows which still works afterwards. Null: it only adds. */
  readonly oldestCode: number | null;
}

const FILE_NAME = /^(\d{4})-[a-z0-9-]+\.sql$/;
const CONTRACT = /^-- contract: works with code of schema (\d+) and newer$/m;

/** Where the numbered .sql files lie; beside this module, in the sources as in the build. */
export const MIGRATIONS_DIR = fileURLToPath(new URL("./migrations/", import.meta.url));

/** All migrations of a folder in their order. Throws TURNO_DATABASE_SCHEMA for a gap or an impossible contract. */
export async function readMigrations(directory: string): Promise<Migration[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith(".sql")).sort();
  return Promise.all(
    names.map(async (name, index) => {
      const version = Number(FILE_NAME.exec(name)?.[1]);
      if (version !== index + 1) {
        throw new TurnoError(
          "TURNO_DATABASE_SCHEMA",
          `expected migration ${index + 1} as ${String(index + 1).padStart(4, "0")}-<name>.sql in ${directory}, found ${name}`,
        );
      }
      const text = (await readFile(`${directory}/${name}`, "utf8")).replaceAll("\r\n", "\n");
      const contract = CONTRACT.exec(text)?.[1];
      const oldestCode = contract === undefined ? null : Number(contract);
      if (oldestCode !== null && oldestCode >= version) {
        throw new TurnoError(
          "TURNO_DATABASE_SCHEMA",
          `expected the contract in ${name} to leave code of an older schema working, found ${oldestCode}`,
        );
      }
      const sha256 = createHash("sha256").update(text).digest("hex");
      return { version, name: name.slice(0, -4), text, sha256, oldestCode };
    }),
  );
}
