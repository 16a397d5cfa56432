import { chmod, chown, readdir, readFile, stat } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { TurnoError } from "../../core/errors.ts";

/** Whom the database runs as when Turno itself is root, which PostgreSQL refuses. */
export interface Account {
  readonly uid: number;
  readonly gid: number;
}

/** What Turno keeps in its state folder; a folder with anything else in it is not opened for another user. */
const STATE_FOLDER_ENTRIES = /^(postgres.*|bundles|reports|outbox|run|logs|.*\.log|.*\.json|\.gitignore)$/;

/** Null: the database runs as the user of this process. As root: the owner of existing data, else a low user. */
export async function chooseAccount(dataDir: string): Promise<Account | null> {
  if (process.getuid?.() !== 0) return null;
  const owner = await stat(dataDir).catch(() => null);
  if (owner !== null && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid };
  const users = parsePasswd(await readFile("/etc/passwd", "utf8").catch(() => ""));
  // initdb looks its user up, so the number alone is not enough.
  const user =
    users.find(({ uid }) => uid === 65_534) ?? users.find(({ name }) => name === "postgres" || name === "daemon");
  if (user === undefined) {
    throw new TurnoError(
      "TURNO_EMBEDDED_START",
      "PostgreSQL does not run as root, and there is no user nobody, postgres or daemon to run it as",
      {
        hint: "run Turno as another user, or set TURNO_DATABASE_URL to a PostgreSQL server",
      },
    );
  }
  return { uid: user.uid, gid: user.gid };
}

/** Whether the account may pass through a folder and all folders above it. */
export async function canEnter(folder: string, account: Account | null): Promise<boolean> {
  if (account === null) return true;
  for (let path = folder; ; path = dirname(path)) {
    const facts = await stat(path).catch(() => null);
    if (facts !== null) {
      const bit = facts.uid === account.uid ? 0o100 : facts.gid === account.gid ? 0o010 : 0o001;
      if ((facts.mode & bit) === 0) return false;
    }
    if (path === dirname(path)) return true;
  }
}

/** Lets the account pass through, and not look into, the state folder of Turno: group of the account, mode 0710. */
export async function openStateFolder(folder: string, account: Account): Promise<void> {
  const facts = await stat(folder);
  if (facts.uid !== 0 || (await canEnter(folder, account)) || !(await canEnter(dirname(folder), account))) return;
  const entries = await readdir(folder);
  if (basename(folder) !== ".turno" && !entries.every((entry) => STATE_FOLDER_ENTRIES.test(entry))) return;
  await chown(folder, 0, account.gid);
  await chmod(folder, 0o710);
}

function parsePasswd(text: string): { name: string; uid: number; gid: number }[] {
  return text
    .split("\n")
    .map((line) => line.split(":"))
    .filter((fields) => fields.length >= 4)
    .map(([name = "", , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }));
}
