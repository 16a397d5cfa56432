import { execFileSync } from "node:child_process";
import { EventEmitter, once } from "node:events";
import {
  closeSync,
  copyFileSync,
  fsyncSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type FolderSourceOptions, openFolderSource } from "../../runtime/adapters/files/folder-source.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import type { ProjectSnapshot, ProjectSource } from "../../runtime/protocol/ports/revisions.ts";

const PROJECT =
  "apiVersion: turno/v1\nkind: Project\nmetadata: { name: p }\nspec: { include: [turno.d/*.yaml], handlers: handlers }\n";
const QUICK = { settleMs: 25, removalSettleMs: 60, rescanMs: 100 };
const never = new AbortController().signal;

let folder = "";
let root = "";
let closing: (() => Promise<void>)[] = [];

beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "turno source ")));
  root = join(folder, "project");
  makeProject(root, "old");
});
afterEach(async () => {
  for (const close of closing.reverse()) await close();
  closing = [];
  rmSync(folder, { recursive: true, force: true });
});

function makeProject(at: string, jobs: string): void {
  mkdirSync(join(at, "turno.d"), { recursive: true });
  mkdirSync(join(at, "handlers"), { recursive: true });
  writeFileSync(join(at, "turno.yaml"), PROJECT);
  writeFileSync(join(at, "turno.d/jobs.yaml"), jobs);
  writeFileSync(join(at, "handlers/a.ts"), "export default 1;\n");
}

function open(options: Partial<FolderSourceOptions> = {}): ProjectSource {
  return openFolderSource({ root, logger: silentLogger, ...QUICK, ...options });
}

function jobsOf(snapshot: ProjectSnapshot): string | null {
  const bytes = snapshot.files.get("turno.d/jobs.yaml");
  return bytes === undefined ? null : new TextDecoder().decode(bytes);
}

/** Reads at every change, as a reconciler does, and keeps what it found whenever that is new. */
async function follow(source: ProjectSource) {
  const events = new EventEmitter();
  const snapshots: ProjectSnapshot[] = [];
  const failures: unknown[] = [];
  let wake: () => void = () => {};
  let woken = false;
  let closed = false;
  const aborter = new AbortController();
  const watch = await source.watch(() => {
    woken = true;
    events.emit("change");
    wake();
  });
  const loop = (async () => {
    while (!closed) {
      if (!woken) await new Promise<void>((resolve) => (wake = resolve));
      if (closed) break;
      woken = false;
      try {
        const snapshot = await source.read(aborter.signal);
        if (snapshot.fingerprint !== snapshots.at(-1)?.fingerprint) snapshots.push(snapshot);
      } catch (error) {
        if (!closed) failures.push(error);
      }
      events.emit("read");
    }
  })();
  closing.push(async () => {
    closed = true;
    aborter.abort();
    wake();
    await loop;
    await watch.close();
  });
  const until = async (condition: () => boolean): Promise<void> => {
    while (!condition()) await once(events, "read");
  };
  const state = {
    snapshots,
    failures,
    until,
    untilJobs: (text: string | null) =>
      until(() => {
        const last = snapshots.at(-1);
        return last !== undefined && jobsOf(last) === text;
      }),
    nextChange: () => once(events, "change"),
  };
  await until(() => snapshots.length > 0);
  return state;
}

describe("a watched folder", () => {
  it("gives the new content after a save, on an event and with the settle time of every day", async () => {
    const source = await follow(open({ settleMs: 250, removalSettleMs: 1_000, rescanMs: 60_000 }));
    const saved = performance.now();
    writeFileSync(join(root, "turno.d/jobs.yaml"), "new");
    await source.untilJobs("new");
    expect(performance.now() - saved).toBeLessThan(5_000);
  });

  it("moves once, from old to new, while a file is emptied and written in two halves (C15)", async () => {
    const halves = ["kind: Queue\nname: a\n", "---\nkind: Queue\nname: b\n"] as const;
    const path = join(root, "turno.d/jobs.yaml");
    writeFileSync(path, halves.join(""));
    const source = await follow(open({ settleMs: 250, removalSettleMs: 1_000, rescanMs: 60_000 }));
    const heard = source.nextChange();
    truncateSync(path, 0);
    await heard;
    const heardHalf = source.nextChange();
    writeFileSync(path, halves[0]);
    await heardHalf;
    const final = `${halves.join("")}# edited\n`;
    writeFileSync(path, final);
    await source.untilJobs(final);
    expect(source.snapshots.map(jobsOf)).toEqual([halves.join(""), final]);
    expect(source.failures).toEqual([]);
  });

  it("sees every save by rename, with editor litter beside the file (C17)", async () => {
    const source = await follow(open({ rescanMs: 60_000 }));
    const path = join(root, "turno.d/jobs.yaml");
    for (let save = 1; save <= 30; save++) {
      for (const name of [".jobs.yaml.swp", "jobs.yaml~", "4913", "#jobs.yaml#"])
        writeFileSync(join(root, "turno.d", name), `${save}`);
      const file = openSync(`${path}.tmp`, "w");
      writeSync(file, `save ${save}`);
      fsyncSync(file);
      closeSync(file);
      renameSync(`${path}.tmp`, path);
      await source.untilJobs(`save ${save}`);
    }
    expect(source.snapshots).toHaveLength(31);
    expect([...(source.snapshots.at(-1)?.files.keys() ?? [])]).toEqual(["turno.d/jobs.yaml", "turno.yaml"]);
  });

  it("sees every file that is deleted and made again, and never takes it for removed (C17)", async () => {
    const source = await follow(open({ rescanMs: 60_000, removalSettleMs: 500 }));
    const path = join(root, "turno.d/jobs.yaml");
    for (let round = 1; round <= 30; round++) {
      writeFileSync(join(folder, "copy.yaml"), `round ${round}`);
      unlinkSync(path);
      copyFileSync(join(folder, "copy.yaml"), path);
      await source.untilJobs(`round ${round}`);
    }
    expect(source.snapshots.map(jobsOf)).not.toContain(null);
  });

  it("takes a deleted file for removed once it stays away", async () => {
    const source = await follow(open({ rescanMs: 60_000 }));
    unlinkSync(join(root, "turno.d/jobs.yaml"));
    await source.untilJobs(null);
    writeFileSync(join(root, "turno.d/jobs.yaml"), "back");
    await source.untilJobs("back");
  });

  it("follows a root that is a link when the link is swapped (C17)", async () => {
    const link = join(folder, "current");
    makeProject(join(folder, "release 2"), "two");
    symlinkSync(root, link);
    const source = await follow(open({ root: link }));
    symlinkSync(join(folder, "release 2"), `${link}.new`);
    renameSync(`${link}.new`, link);
    await source.untilJobs("two");
    writeFileSync(join(folder, "release 2/turno.d/jobs.yaml"), "two, edited");
    await source.untilJobs("two, edited");
  });

  it("hears edits again after its root was deleted and made again", async () => {
    const source = await follow(open());
    rmSync(root, { recursive: true });
    await source.until(() => source.failures.length > 0);
    expect(source.failures[0]).toMatchObject({ code: "TURNO_PROJECT_MISSING" });
    makeProject(root, "again");
    await source.untilJobs("again");
    writeFileSync(join(root, "turno.d/jobs.yaml"), "edited");
    await source.untilJobs("edited");
  });

  it("gives another fingerprint for an edited handler and for an added input, and the same for a touched file", async () => {
    const source = open();
    const first = await source.read(never);
    writeFileSync(join(root, "turno.d/jobs.yaml"), "old");
    expect((await source.read(never)).fingerprint).toBe(first.fingerprint);
    writeFileSync(join(root, "handlers/a.ts"), "export default 2;\n");
    const second = await source.read(never);
    expect(second.fingerprint).not.toBe(first.fingerprint);
    mkdirSync(join(root, "lib"));
    writeFileSync(join(root, "lib/x.ts"), "1");
    expect((await source.read(never)).fingerprint).toBe(second.fingerprint);
    source.addInputs(["lib/x.ts"]);
    const third = await source.read(never);
    expect(third.fingerprint).not.toBe(second.fingerprint);
  });

  it("hears edits of handlers and of their inputs elsewhere", async () => {
    mkdirSync(join(root, "lib"));
    writeFileSync(join(root, "lib/x.ts"), "1");
    const folderSource = open({ rescanMs: 60_000 });
    folderSource.addInputs(["lib/x.ts"]);
    const source = await follow(folderSource);
    writeFileSync(join(root, "handlers/a.ts"), "export default 2;\n");
    await source.until(() => source.snapshots.length === 2);
    writeFileSync(join(root, "lib/x.ts"), "2");
    await source.until(() => source.snapshots.length === 3);
  });

  it("says so when files never settle", async () => {
    const source = open({ settleMs: 30, patienceMs: 100 });
    const path = join(root, "turno.d/jobs.yaml");
    let writes = 0;
    let stopped = false;
    const rewrite = () => {
      if (stopped) return;
      writeFileSync(path, `${writes++}`);
      setImmediate(rewrite);
    };
    try {
      rewrite();
      await expect(source.read(never)).rejects.toThrow(/still changing|changes while it is read/);
    } finally {
      stopped = true;
    }
  });
});

describe("what git says about the files", () => {
  function git(...args: string[]): string {
    return execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", ...args], {
      cwd: root,
      encoding: "utf8",
    }).trim();
  }

  it("is the commit with its author, time and message when every file equals it", async () => {
    git("init", "-q");
    git("add", ".");
    git("commit", "-q", "-m", "First shift");
    writeFileSync(join(root, "README.md"), "not part of the project");
    const { provenance } = await open().read(never);
    expect(provenance).toMatchObject({
      commit: git("rev-parse", "HEAD"),
      baseCommit: null,
      author: "Ada",
      message: "First shift",
    });
    expect(provenance.committedAt?.toISOString()).toBe(new Date(git("log", "-1", "--format=%cI")).toISOString());
  });

  it.each([
    ["edited", () => writeFileSync(join(root, "turno.d/jobs.yaml"), "edited")],
    ["untracked", () => writeFileSync(join(root, "turno.d/more.yaml"), "more")],
    ["deleted", () => unlinkSync(join(root, "turno.d/jobs.yaml"))],
    ["an edited handler", () => writeFileSync(join(root, "handlers/a.ts"), "edited")],
    ["ignored by git", () => writeFileSync(join(root, "turno.d/local.yaml"), "local")],
  ])("names only the commit they stand on when a file is %s", async (_, change) => {
    writeFileSync(join(root, ".gitignore"), "local.yaml\n");
    git("init", "-q");
    git("add", ".");
    git("commit", "-q", "-m", "First shift");
    change();
    const { provenance } = await open().read(never);
    expect(provenance).toEqual({
      commit: null,
      baseCommit: git("rev-parse", "HEAD"),
      author: null,
      committedAt: null,
      message: null,
    });
  });

  it("is nothing outside of a work tree and before the first commit", async () => {
    const nothing = { commit: null, baseCommit: null, author: null, committedAt: null, message: null };
    expect((await open().read(never)).provenance).toEqual(nothing);
    git("init", "-q");
    expect((await open().read(never)).provenance).toEqual(nothing);
  });

  it("works below a sub-folder of the work tree", async () => {
    const top = root;
    root = join(root, "ops");
    makeProject(root, "old");
    execFileSync("git", ["init", "-q"], { cwd: top });
    git("add", ".");
    git("commit", "-q", "-m", "First shift");
    writeFileSync(join(top, "elsewhere.txt"), "not below the project");
    expect((await open().read(never)).provenance.commit).not.toBe(null);
    writeFileSync(join(root, "turno.d/jobs.yaml"), "edited");
    expect((await open().read(never)).provenance.commit).toBe(null);
  });
});
