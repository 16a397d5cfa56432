import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { chmod, copyFile, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { parseApiKeys } from "../../web/auth.ts";
import { eventually } from "../support/up.ts";
import { ROOT, readCompose, readEnvFile, readRootFile } from "./deployment-files.ts";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "turno start "));
  for (const name of ["start.sh", ".env.example"]) await copyFile(join(ROOT, name), join(folder, name));
  await writeProgram("docker", 'echo "docker $*" >> calls\n[ "$1" != volume ]');
  await writeProgram("xdg-open", 'echo "browser $*" >> calls');
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** A program of the PATH that writes down how it was called, in the folder that start.sh works in. */
async function writeProgram(name: string, body: string): Promise<void> {
  await writeFile(join(folder, name), `#!/bin/sh\n${body}\n`);
  await chmod(join(folder, name), 0o755);
}

async function start(
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<{ readonly code: number | null; readonly out: string; readonly err: string }> {
  const { TURNO_API_KEY: _, ...rest } = process.env;
  // From another folder, by its path, and with the loosest umask: none of it may matter.
  const child = spawn("sh", ["-c", 'umask 0 && cd / && "$0" "$@"', join(folder, "start.sh"), ...args], {
    env: { ...rest, PATH: `${folder}${delimiter}${process.env.PATH ?? ""}`, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let out = "";
  let err = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text));
  const [code] = (await once(child, "close")) as [number | null];
  return { code, out, err };
}

const readCalls = async () => (await readFile(join(folder, "calls"), "utf8")).trimEnd().split("\n");
const readEnv = async () => readEnvFile(await readFile(join(folder, ".env"), "utf8"));

describe("the first start", () => {
  test("makes every secret, of its own and random, in a file for its owner only", async () => {
    expect(await start()).toMatchObject({ code: 0, err: "" });
    const env = await readEnv();
    const example = readEnvFile(await readFile(join(folder, ".env.example"), "utf8"));
    expect([...env.keys()]).toEqual([...example.keys()]);
    for (const [name, value] of example) if (value !== "") expect(env.get(name)).toBe(value);
    const made = [...example].flatMap(([name, value]) =>
      value === "" && name !== "TURNO_API_KEYS" ? [env.get(name)] : [],
    );
    expect(made.length).toBeGreaterThan(5);
    for (const secret of made) expect(secret).toMatch(/^[0-9a-f]{48}$/);
    expect(new Set(made).size).toBe(made.length);
    expect((await stat(join(folder, ".env"))).mode & 0o777).toBe(0o600);
    expect((await readdir(folder)).filter((name) => name.startsWith(".env")).sort()).toEqual([".env", ".env.example"]);
    readCompose(env);
  });

  test("prints the key once, and gives the server its hash alone", async () => {
    const { out } = await start();
    const env = await readEnv();
    const key = env.get("TURNO_API_KEY") ?? "";
    expect(out.split(key)).toHaveLength(2);
    for (const [name, value] of env) {
      if (/PASSWORD|COOKIE|SAMPLES/.test(name)) expect(out).not.toContain(value);
    }
    const keys = parseApiKeys(env.get("TURNO_API_KEYS") ?? null);
    expect(keys?.authenticate(key)).toEqual({ name: "owner", scope: "admin" });
    expect(keys?.authenticate(env.get("SAMPLES_API_KEY") ?? "")).toEqual({ name: "samples", scope: "read" });
    expect(env.get("TURNO_API_KEYS")).toContain(createHash("sha256").update(key).digest("hex"));
  });

  test("starts everything, waits until it is healthy, then opens the panel", async () => {
    const { out } = await start();
    expect(out).toMatch(/Turno is ready: http:\/\/127\.0\.0\.1:8080\n/);
    // The script does not wait for the browser.
    await eventually("the browser", async () => (await readCalls()).length > 3);
    expect(await readCalls()).toEqual([
      "docker compose version",
      "docker volume inspect turno_postgres",
      "docker compose up --detach --build --wait --wait-timeout 900",
      "browser http://127.0.0.1:8080",
    ]);
  });

  test("computes the hash with what the machine has", async () => {
    // With OpenSSL alone.
    const script = (await readFile(join(folder, "start.sh"), "utf8")).replaceAll("sha256sum", "no-such-program");
    await writeFile(join(folder, "start.sh"), script.replaceAll("command -v shasum", "command -v no-such-program"));
    expect(await start()).toMatchObject({ code: 0 });
    const env = await readEnv();
    const keys = parseApiKeys(env.get("TURNO_API_KEYS") ?? null);
    expect(keys?.authenticate(env.get("TURNO_API_KEY") ?? "")?.name).toBe("owner");
  });
});

describe("a later start", () => {
  test("keeps .env as it is, shows no key, and passes its arguments on", async () => {
    await start();
    const before = await readFile(join(folder, ".env"), "utf8");
    const { code, out } = await start(["--scale", "worker=8"]);
    expect(code).toBe(0);
    expect(await readFile(join(folder, ".env"), "utf8")).toBe(before);
    expect(out).not.toMatch(/[0-9a-f]{48}/);
    expect(await readCalls()).toContain(
      "docker compose up --detach --build --wait --wait-timeout 900 --scale worker=8",
    );
  });

  test("opens the address of the settings: the environment's before those of .env", async () => {
    await start();
    const env = (await readFile(join(folder, ".env"), "utf8")).replace("API_PORT=8080", "API_PORT=9090");
    await writeFile(join(folder, ".env"), env.replace("API_HOST=127.0.0.1", "API_HOST=0.0.0.0"));
    expect((await start()).out).toContain("Turno is ready: http://localhost:9090\n");
    expect((await start([], { API_PORT: "7070" })).out).toContain("Turno is ready: http://localhost:7070\n");
  });

  test("opens no browser where none is wanted", async () => {
    await start([], { NO_BROWSER: "1" });
    expect((await readCalls()).filter((call) => call.startsWith("browser"))).toEqual([]);
  });
});

describe("a start that cannot be", () => {
  test("without Docker says what is needed, and makes nothing", async () => {
    await writeProgram("docker", "exit 1");
    const { code, err } = await start();
    expect(code).toBe(1);
    expect(err).toMatch(/Docker with its compose plugin is needed/);
    expect(await readdir(folder)).not.toContain(".env");
  });

  test("with a database of an earlier start and no .env makes no new password, which that would refuse", async () => {
    await writeProgram("docker", 'echo "docker $*" >> calls');
    const { code, err } = await start();
    expect(code).toBe(1);
    expect(err).toMatch(/no \.env here, but a database of an earlier start/);
    expect(await readdir(folder)).not.toContain(".env");
    expect(await readCalls()).not.toContain("docker compose up --detach --build --wait --wait-timeout 900");
  });

  test("ends with the failure of compose, and opens nothing", async () => {
    await writeProgram("docker", 'echo "docker $*" >> calls\n[ "$2" = version ]');
    const { code, out } = await start();
    expect(code).toBe(1);
    expect(out).not.toContain("Turno is ready");
    expect((await readCalls()).filter((call) => call.startsWith("browser"))).toEqual([]);
  });
});

describe("start.cmd", () => {
  test("runs the same by PowerShell: the same file, secrets, hash, refusals and command", () => {
    expect(readRootFile("start.cmd")).toContain("deploy\\start.ps1");
    const [sh, ps1] = [readRootFile("start.sh"), readRootFile("deploy/start.ps1")];
    for (const shared of [
      "docker compose up --detach --build --wait --wait-timeout 900",
      "owner:admin:",
      "samples:read:",
      "TURNO_API_KEY=",
      "TURNO_API_KEYS=",
      "SAMPLES_API_KEY=",
      "turno_postgres",
      ".env.example",
      "NO_BROWSER",
      "shown this once (it stays in .env)",
    ]) {
      expect(sh).toContain(shared);
      expect(ps1).toContain(shared);
    }
  });
});
