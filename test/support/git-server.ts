import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A file's text, or a mode with what it holds: `120000` a link, `160000` a submodule with the commit's id. */
export type Content = string | Buffer | { readonly mode: string; readonly content: string };

/** A bare repository behind `git http-backend` on loopback. */
export interface GitServer {
  readonly url: string;
  readonly folder: string;
  /** Requests that were answered so far. */
  readonly requests: () => number;
  /** Commits a whole tree to a branch, on its tip or on `onto`, and gives the commit's id. */
  commit(files: Readonly<Record<string, Content>>, options?: CommitOptions): string;
  git(...args: readonly string[]): string;
  /** A command of git's with a standard input. */
  write(args: readonly string[], input: string): string;
  /** Refuses connections until `up` is called. */
  down(): Promise<void>;
  up(): Promise<void>;
  close(): Promise<void>;
}

export interface CommitOptions {
  readonly message?: string;
  readonly branch?: string;
  /** Null: a commit without a parent. */
  readonly onto?: string | null;
}

/** `token`: what https clients must present. */
export async function startGitServer(options: { readonly token?: string } = {}): Promise<GitServer> {
  const root = mkdtempSync(join(tmpdir(), "turno-git-"));
  const folder = join(root, "ops.git");
  const git = (args: readonly string[], input?: Buffer) =>
    execFileSync("git", ["-C", folder, ...args], {
      input,
      env: AUTHOR,
      encoding: "utf8",
      stdio: ["pipe", "pipe", "pipe"],
    });
  execFileSync("git", ["init", "--quiet", "--bare", "--initial-branch=main", folder], { env: AUTHOR });
  let requests = 0;
  let server: Server | null = null;
  let port = 0;
  const up = async (): Promise<void> => {
    const next = createServer((request, response) => {
      requests += 1;
      answer({ request, response, root, token: options.token ?? null });
    });
    await new Promise<void>((resolve) => next.listen(port, "127.0.0.1", resolve));
    server = next;
    port = (next.address() as AddressInfo).port;
  };
  const down = async (): Promise<void> => {
    const open = server;
    server = null;
    open?.closeAllConnections();
    await new Promise<void>((resolve) => (open === null ? resolve() : open.close(() => resolve())));
  };
  await up();
  let clock = 1_700_000_000;
  return {
    url: `http://127.0.0.1:${port}/ops.git`,
    folder,
    requests: () => requests,
    git: (...args) => git(args),
    write: (args, input) => git(args, Buffer.from(input)),
    up,
    down,
    commit(files, { message = "Change", branch = "main", onto } = {}) {
      const ref = `refs/heads/${branch}`;
      const tip = git(["for-each-ref", "--format=%(objectname)", ref]).trim();
      const parent = onto === undefined ? tip : (onto ?? "");
      clock += 60;
      const who = `Ada Lovelace <ada@example.com> ${clock} +0000`;
      const parts: Buffer[] = [];
      const text = (line: string) => parts.push(Buffer.from(line));
      text(
        `commit refs/turno-test/new\nauthor ${who}\ncommitter ${who}\ndata ${Buffer.byteLength(message)}\n${message}\n`,
      );
      if (parent !== "") text(`from ${parent}\n`);
      text("deleteall\n");
      for (const [path, file] of Object.entries(files)) {
        const plain = typeof file === "string" || Buffer.isBuffer(file);
        const mode = plain ? "100644" : file.mode;
        const content = Buffer.from(plain ? file : file.content);
        if (mode === "160000") text(`M 160000 ${content.toString()} ${JSON.stringify(path)}\n`);
        else {
          text(`M ${mode} inline ${JSON.stringify(path)}\ndata ${content.length}\n`);
          parts.push(content, Buffer.from("\n"));
        }
      }
      git(["fast-import", "--quiet", "--force"], Buffer.concat(parts));
      const commit = git(["rev-parse", "refs/turno-test/new"]).trim();
      git(["update-ref", "-d", "refs/turno-test/new"]);
      git(["update-ref", ref, commit]);
      return commit;
    },
    async close() {
      await down();
      rmSync(root, { recursive: true, force: true });
    },
  };
}

const AUTHOR = {
  PATH: process.env.PATH,
  HOME: "/nonexistent",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_AUTHOR_NAME: "Ada Lovelace",
  GIT_AUTHOR_EMAIL: "ada@example.com",
  GIT_COMMITTER_NAME: "Ada Lovelace",
  GIT_COMMITTER_EMAIL: "ada@example.com",
};

function answer(request: {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly root: string;
  readonly token: string | null;
}): void {
  const { request: incoming, response, root, token } = request;
  const expected = `Basic ${Buffer.from(`x-access-token:${token}`).toString("base64")}`;
  if (token !== null && incoming.headers.authorization !== expected) {
    response.writeHead(401, { "www-authenticate": 'Basic realm="git"' }).end("no\n");
    return;
  }
  const url = new URL(incoming.url ?? "/", "http://localhost");
  const child = spawn("git", ["http-backend"], {
    env: {
      ...AUTHOR,
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: "1",
      PATH_INFO: url.pathname,
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: incoming.method,
      CONTENT_TYPE: incoming.headers["content-type"] ?? "",
      HTTP_CONTENT_ENCODING: incoming.headers["content-encoding"] ?? "",
      GIT_PROTOCOL: String(incoming.headers["git-protocol"] ?? ""),
    },
  });
  incoming.pipe(child.stdin);
  child.stdin.on("error", () => {});
  let head: Buffer | null = Buffer.alloc(0);
  child.stdout.on("data", (chunk: Buffer) => {
    if (head === null) {
      response.write(chunk);
      return;
    }
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf("\r\n\r\n");
    if (end < 0) return;
    const lines = head.subarray(0, end).toString().split("\r\n");
    const headers = lines.map((line) => line.split(": ", 2) as [string, string]);
    const status = Number(headers.find(([name]) => name === "Status")?.[1].slice(0, 3) ?? 200);
    response.writeHead(status, Object.fromEntries(headers.filter(([name]) => name !== "Status")));
    response.write(head.subarray(end + 4));
    head = null;
  });
  child.on("close", () => response.end());
}
