import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isLitter } from "../../runtime/adapters/files/litter.ts";
import { readLayout } from "../../runtime/adapters/files/project-layout.ts";
import { readProjectFiles } from "../../runtime/adapters/files/read-project.ts";
import { type GitSourceOptions, openGitSource, treeRoot } from "../../runtime/adapters/git/git-source.ts";
import { silentLogger } from "../../runtime/core/logger.ts";
import type { ProjectSource, RevisionSummary } from "../../runtime/protocol/ports/revisions.ts";
import { type Content, type GitServer, startGitServer } from "../support/git-server.ts";

const never = new AbortController().signal;
const PROJECT = "apiVersion: turno/v1\nkind: Project\nmetadata: { name: test }\nspec: { timeZone: UTC }\n";
const FILES = { "turno.yaml": PROJECT, "turno.d/a.yaml": "a: 1\n", "handlers/a.ts": "export default 1;\n" };

let server: GitServer;
let folder: string;
beforeEach(async () => {
  server = await startGitServer();
  folder = mkdtempSync(join(tmpdir(), "turno-source-"));
});
afterEach(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

function open(options: Partial<GitSourceOptions> = {}): Required<ProjectSource> {
  return openGitSource({
    access: { url: server.url, token: null, sshKeyFile: null, knownHostsFile: null },
    ref: "main",
    path: null,
    intervalMs: 0,
    nonFastForward: "allow",
    signers: null,
    folder,
    packages: null,
    project: { readFiles: readProjectFiles, readLayout, isLitter },
    logger: silentLogger,
    ...options,
  }) as Required<ProjectSource>;
}

const inForce = (commit: string) => ({ commit }) as RevisionSummary;
const textOf = (bytes: Uint8Array | undefined) => new TextDecoder().decode(bytes);

describe("a branch that is followed", () => {
  it("gives its files with commit, author, time and the message's first line", async () => {
    const commit = server.commit(FILES, {
      message: "Fire at two\n\nBecause of the night.\n\nTurno-Confirm: deletes\n",
    });
    const found = await open().read(never);
    expect([...found.files.keys()]).toEqual(["turno.d/a.yaml", "turno.yaml"]);
    expect(found.provenance).toEqual({
      commit,
      baseCommit: null,
      author: "Ada Lovelace",
      committedAt: expect.any(Date),
      message: "Fire at two",
    });
    expect(found.confirms).toEqual(["deletes"]);
    expect(readFileSync(join(treeRoot(folder), "handlers/a.ts"), "utf8")).toBe("export default 1;\n");
  });

  it("takes what is pushed, writes changed files only, and removes those that are gone", async () => {
    server.commit({ ...FILES, "turno.d/deep/b.yaml": "b: 1\n" });
    const source = open();
    await source.read(never);
    writeFileSync(join(treeRoot(folder), "handlers/a.ts"), "untouched");
    server.commit({ ...FILES, "turno.d/a.yaml": "a: 2\n" });
    const found = await source.read(never);
    expect(textOf(found.files.get("turno.d/a.yaml"))).toBe("a: 2\n");
    expect(readFileSync(join(treeRoot(folder), "handlers/a.ts"), "utf8")).toBe("untouched");
    expect(readdirSync(join(treeRoot(folder), "turno.d"))).toEqual(["a.yaml"]);
  });

  it("gives the very same files for the same tree, with the new commit's name", async () => {
    server.commit(FILES);
    const source = open();
    const first = await source.read(never);
    expect(await source.read(never)).toBe(first);
    const commit = server.commit(FILES, { message: "Nothing changed" });
    const second = await source.read(never);
    expect(second.files).toBe(first.files);
    expect(second.provenance.commit).toBe(commit);
  });

  it("asks the remote once an interval, and at once when it is told to", async () => {
    server.commit(FILES);
    const source = open({ intervalMs: 3_600_000 });
    await source.read(never);
    const before = server.requests();
    await Promise.all([source.read(never), source.read(never)]);
    expect(server.requests()).toBe(before);
    const commit = server.commit({ ...FILES, "turno.d/a.yaml": "a: 2\n" });
    source.expire();
    const [left, right] = await Promise.all([source.read(never), source.read(never)]);
    expect(left).toBe(right);
    expect(left?.provenance.commit).toBe(commit);
  });

  it("reads a folder of the repository alone", async () => {
    const below = Object.fromEntries(Object.entries(FILES).map(([path, text]) => [`prod/${path}`, text]));
    server.commit({
      ...below,
      "turno.yaml": "other: true\n",
      "turno.d/evil.yaml": { mode: "120000", content: "/etc" },
    });
    const source = open({ path: "prod" });
    const found = await source.read(never);
    expect(source.identity).toEqual({ name: "git", origin: `${server.url}//prod` });
    expect([...found.files.keys()]).toEqual(["turno.d/a.yaml", "turno.yaml"]);
  });

  it("gives a token to the repository's host, and says nothing of it where it is refused", async () => {
    await server.close();
    server = await startGitServer({ token: "s3cret-token" });
    server.commit(FILES);
    const access = { url: server.url, token: "s3cret-token", sshKeyFile: null, knownHostsFile: null };
    expect((await open({ access }).read(never)).files.size).toBe(2);
    rmSync(folder, { recursive: true });
    const wrong = open({ access: { ...access, token: "other-token" } }).read(never);
    await expect(wrong).rejects.toMatchObject({ code: "TURNO_SOURCE_UNREACHABLE" });
    await expect(wrong).rejects.not.toThrow(/token/);
  });

  it("goes by ssh with the declared key and known hosts, takes no settings of the user's and asks nothing", async () => {
    const commit = server.commit(FILES);
    const programs = mkdtempSync(join(tmpdir(), "turno-ssh-"));
    const said = join(programs, "said");
    // Stands in for ssh: what it would run on the host runs here, below the server's folder.
    const script = `#!/bin/sh\nprintf '%s\\n' "$@" > '${said}'\nexec git upload-pack '${server.folder}'\n`;
    writeFileSync(join(programs, "ssh"), script, { mode: 0o755 });
    const path = process.env.PATH;
    process.env.PATH = `${programs}:${path}`;
    try {
      const access = {
        ...{ url: "ssh://git@git.example.com/ops.git", token: null },
        ...{ sshKeyFile: join(programs, "the key"), knownHostsFile: join(programs, "hosts") },
      };
      expect((await open({ access }).read(never)).provenance.commit).toBe(commit);
    } finally {
      process.env.PATH = path;
    }
    const options = readFileSync(said, "utf8").split("\n");
    expect(options).toEqual(expect.arrayContaining(["-F", "/dev/null", "BatchMode=yes", "StrictHostKeyChecking=yes"]));
    expect(options).toEqual(expect.arrayContaining(["-i", join(programs, "the key"), "IdentitiesOnly=yes"]));
    expect(options).toContain(`UserKnownHostsFile=${join(programs, "hosts")}`);
    expect(options).toContain("git@git.example.com");
    rmSync(programs, { recursive: true });
  });

  it("names a branch, a folder or a turno.yaml that is not there", async () => {
    server.commit({ "a.txt": "a" });
    await expect(open({ ref: "other" }).read(never)).rejects.toMatchObject({
      code: "TURNO_SOURCE_REFUSED",
      message: expect.stringContaining("expected other"),
    });
    await expect(open({ path: "prod" }).read(never)).rejects.toMatchObject({ code: "TURNO_PROJECT_MISSING" });
    await expect(open().read(never)).rejects.toMatchObject({
      code: "TURNO_PROJECT_MISSING",
      message: expect.stringContaining("turno.yaml"),
    });
  });
});

describe("trouble on the way", () => {
  it("says that the remote is away, and goes on when it is back", async () => {
    server.commit(FILES);
    const source = open();
    await source.read(never);
    await server.down();
    await expect(source.read(never)).rejects.toMatchObject({ code: "TURNO_SOURCE_UNREACHABLE" });
    await server.up();
    const commit = server.commit({ ...FILES, "turno.d/a.yaml": "a: 2\n" });
    expect((await source.read(never)).provenance.commit).toBe(commit);
  });

  it("does not ask a remote that is away again and again", async () => {
    server.commit(FILES);
    const source = open({ intervalMs: 3_600_000 });
    await server.down();
    await expect(source.read(never)).rejects.toMatchObject({ code: "TURNO_SOURCE_UNREACHABLE" });
    await server.up();
    const before = server.requests();
    await expect(source.read(never)).rejects.toMatchObject({ code: "TURNO_SOURCE_UNREACHABLE" });
    expect(server.requests()).toBe(before);
    source.expire();
    expect((await source.read(never)).files.size).toBe(2);
  });

  it("does not mind the locks and the half of a repository that a killed git leaves behind", async () => {
    server.commit(FILES);
    const source = open();
    await source.read(never);
    const repository = join(folder, "repository.git");
    for (const lock of ["shallow.lock", "HEAD.lock", "config.lock", "packed-refs.lock", "refs/turno/tip.lock"]) {
      writeFileSync(join(repository, lock), "");
    }
    const second = server.commit({ ...FILES, "turno.d/a.yaml": "a: 2\n" });
    expect((await source.read(never)).provenance.commit).toBe(second);
    writeFileSync(join(repository, "HEAD"), "");
    rmSync(join(repository, "objects"), { recursive: true });
    const third = server.commit({ ...FILES, "turno.d/a.yaml": "a: 3\n" });
    expect((await source.read(never)).provenance.commit).toBe(third);
  });
});

describe("a rewritten history", () => {
  it("is taken where that is allowed, and held where it is not; what follows is no rewrite, however much was cut off", async () => {
    const first = server.commit(FILES);
    const second = server.commit({ ...FILES, "turno.d/a.yaml": "a: 2\n" });
    const third = server.commit({ ...FILES, "turno.d/a.yaml": "a: 3\n" });
    const holding = open({ nonFastForward: "hold" });
    await holding.read(never);
    expect(await holding.judgeSuccession(inForce(first), never)).toBe(null);
    expect(await holding.judgeSuccession(inForce(third), never)).toBe(null);
    server.commit({ ...FILES, "turno.d/a.yaml": "a: 4\n" }, { onto: second });
    await holding.read(never);
    expect(await holding.judgeSuccession(inForce(third), never)).toMatchObject({ code: "TURNO_SOURCE_REWRITTEN" });
    expect(await holding.judgeSuccession(inForce(second), never)).toBe(null);
    rmSync(folder, { recursive: true });
    const allowing = open();
    await allowing.read(never);
    expect(await allowing.judgeSuccession(inForce(third), never)).toBe(null);
  });

  it("does not let a source that is behind win over a newer commit", async () => {
    server.commit(FILES);
    const source = open({ intervalMs: 3_600_000 });
    await source.read(never);
    const newer = server.commit({ ...FILES, "turno.d/a.yaml": "a: 2\n" });
    expect(await source.judgeSuccession(inForce(newer), never)).toMatchObject({ code: "TURNO_SOURCE_STALE" });
    expect((await source.read(never)).provenance.commit).toBe(newer);
  });
});

describe("signed commits", () => {
  it("come into force when a declared signer made them, others are refused", async () => {
    const keys = mkdtempSync(join(tmpdir(), "turno-keys-"));
    const makeKey = (name: string) =>
      execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", join(keys, name)]);
    for (const name of ["ada", "eve"]) makeKey(name);
    const signers = join(keys, "allowed_signers");
    writeFileSync(signers, `ada@example.com ${readFileSync(join(keys, "ada.pub"), "utf8")}`);
    const sign = (name: string, files: Readonly<Record<string, Content>>): string => {
      const unsigned = server.commit(files);
      const by = ["-c", "gpg.format=ssh", "-c", `user.signingkey=${join(keys, name)}`];
      const signed = server.git(...by, "commit-tree", "-S", `${unsigned}^{tree}`, "-m", `By ${name}`).trim();
      server.git("update-ref", "refs/heads/main", signed);
      return signed;
    };
    const source = open({ signers });
    server.commit(FILES);
    await expect(source.read(never)).rejects.toMatchObject({ code: "TURNO_SOURCE_UNSIGNED" });
    const good = sign("ada", FILES);
    expect((await source.read(never)).provenance.commit).toBe(good);
    sign("eve", { ...FILES, "turno.d/a.yaml": "a: 2\n" });
    await expect(source.read(never)).rejects.toMatchObject({ code: "TURNO_SOURCE_UNSIGNED" });
    rmSync(keys, { recursive: true });
  });
});

describe("a hostile repository", () => {
  const link = (content: string): Content => ({ mode: "120000", content });

  it.each<[string, Readonly<Record<string, Content>>, RegExp]>([
    ["a link out of it", { "turno.d/x.yaml": link("/etc/passwd") }, /^turno\.d\/x\.yaml is a link that leaves/],
    ["a link upwards", { "turno.d/x.yaml": link("../../../etc/passwd") }, /^turno\.d\/x\.yaml is a link that leaves/],
    ["a link in place of the handlers", { handlers: link("/tmp") }, /^handlers is a link that leaves/],
    [
      "a link in place of the team's rules",
      { "turno.rules.yaml": link("/dev/null") },
      /^turno\.rules\.yaml is a link that/,
    ],
    ["a link to a folder", { "turno.d/x.yaml": link("../handlers") }, /^turno\.d\/x\.yaml is a link to/],
    ["a link to another link", { "turno.d/x.yaml": link("y.yaml"), "turno.d/y.yaml": link("x.yaml") }, /is a link to/],
    [
      "a submodule among the handlers",
      { "handlers/lib": { mode: "160000", content: "1".repeat(40) } },
      /^handlers\/lib is a submodule/,
    ],
    [
      "a large file among the declared",
      { "turno.d/x.yaml": "#".repeat(5 * 1024 * 1024) },
      /^turno\.d\/x\.yaml has 5242880 bytes/,
    ],
  ])("is refused for %s, with file and reason", async (_, files, reason) => {
    const base: Record<string, Content> = { ...FILES };
    if ("handlers" in files) delete base["handlers/a.ts"];
    server.commit({ ...base, ...files });
    await expect(open().read(never)).rejects.toMatchObject({
      code: "TURNO_SOURCE_REFUSED",
      message: expect.stringMatching(reason),
      position: { file: expect.stringMatching(/^(turno\.(d|rules)|handlers)/) },
    });
  });

  it("is read without what lies beside the project: links, submodules, large files, folders of packages", async () => {
    server.commit({
      ...FILES,
      "docs/x.yaml": link("/etc/passwd"),
      "vendor/lib": { mode: "160000", content: "1".repeat(40) },
      "docs/film.bin": Buffer.alloc(6 * 1024 * 1024),
      "node_modules/p/index.js": "module.exports = 1;\n",
      "turno.d/b.yaml": link("a.yaml"),
    });
    const found = await open().read(never);
    expect(textOf(found.files.get("turno.d/b.yaml"))).toBe("a: 1\n");
    expect(readdirSync(treeRoot(folder)).sort()).toEqual(["handlers", "turno.d", "turno.yaml"]);
  });

  it("runs no hook, filter or command of its own, and takes no settings from it", async () => {
    const mark = join(folder, "pwned");
    server.commit({
      ...FILES,
      ".gitattributes": "* filter=evil diff=evil merge=evil\n",
      ".gitconfig": `[filter "evil"]\n  smudge = touch ${mark}\n  clean = touch ${mark}\n`,
      ".lfsconfig": "[lfs]\n  url = http://127.0.0.1:1/\n",
      "hooks/post-checkout": { mode: "100755", content: `#!/bin/sh\ntouch ${mark}\n` },
      HEAD: "ref: refs/heads/main\n",
      config: `[core]\n  fsmonitor = touch ${mark}\n  sshCommand = touch ${mark}\n`,
    });
    expect((await open().read(never)).files.size).toBe(2);
    expect(existsSync(mark)).toBe(false);
  });

  it("is refused for a tree that unfolds into billions of files", async () => {
    const blob = server.write(["hash-object", "-w", "--stdin"], "").trim();
    let level = treeOf(Array.from({ length: 20 }, (_, index) => `100644 blob ${blob}\tf${index}`));
    for (let depth = 0; depth < 8; depth++) {
      level = treeOf(Array.from({ length: 20 }, (_, index) => `040000 tree ${level}\td${index}`));
    }
    const own = server.git("rev-parse", `${server.commit(FILES)}:turno.yaml`).trim();
    const root = treeOf([`100644 blob ${own}\tturno.yaml`, `040000 tree ${level}\tturno.d`]);
    server.git("update-ref", "refs/heads/main", server.git("commit-tree", root, "-m", "bomb").trim());
    await expect(open().read(never)).rejects.toMatchObject({
      code: "TURNO_SOURCE_REFUSED",
      message: expect.stringMatching(/more than 50000 entries/),
    });
  });

  it("is refused for a folder of very many files", async () => {
    const blob = server.git("rev-parse", `${server.commit(FILES)}:turno.yaml`).trim();
    const many = treeOf(
      Array.from({ length: 120_000 }, (_, index) => `100644 blob ${blob}\tfile-number-${index}.yaml`),
    );
    const root = treeOf([`100644 blob ${blob}\tturno.yaml`, `040000 tree ${many}\tturno.d`]);
    server.git("update-ref", "refs/heads/main", server.git("commit-tree", root, "-m", "many").trim());
    await expect(open().read(never)).rejects.toMatchObject({
      code: "TURNO_SOURCE_REFUSED",
      message: expect.stringMatching(/^turno\.d /),
    });
  });

  function treeOf(lines: readonly string[]): string {
    return server.write(["mktree"], `${lines.join("\n")}\n`).trim();
  }
});
