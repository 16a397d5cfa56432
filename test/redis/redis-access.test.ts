import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { claimPorts, freePort } from "../../chaos/ports.ts";
import { openRedisLocks } from "../../runtime/adapters/redis/locks.ts";
import { acquire } from "../contract/lock-contract.ts";
import { recordLogger } from "../support/log-recorder.ts";
import { startRedis } from "../support/redis.ts";
import { eventually } from "../support/up.ts";

const SECRET = "hidden-word-of-the-test";

function open(url: string, ca?: string) {
  const { logger, lines } = recordLogger();
  const options = { urls: [url], prefix: "turno", installation: "access", expiryMs: 30_000, logger };
  const locks = openRedisLocks(ca === undefined ? options : { ...options, ca });
  onTestFinished(() => locks.close());
  return { locks, lines };
}

test("credentials of the URL are used, and a wrong password is told without being shown", async () => {
  const redis = await startRedis({ password: SECRET });
  onTestFinished(() => redis.stop());
  const { locks } = open(`redis://default:${SECRET}@127.0.0.1:${redis.port}`);
  await acquire(locks, "job:1");

  const { locks: refused, lines } = open(`redis://default:${SECRET}-not@127.0.0.1:${redis.port}`);
  expect((await refused.acquire("job:2")).kind).toBe("unavailable");
  const line = await eventually("it was told", async () => lines[0]);
  expect(line).toMatchObject({ level: "warn", message: "a lock node is away" });
  expect(String(line.fields.reason)).toContain("WRONGPASS");
  expect(JSON.stringify(lines)).not.toContain(SECRET);
});

test("rediss:// speaks TLS, and believes only an authority that it was told of", async () => {
  const folder = mkdtempSync(join(tmpdir(), "turno-redis-tls-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const request = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
  const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"];
  execFileSync("openssl", [...request, ...subject, "-keyout", key, "-out", cert], { stdio: "ignore" });
  const block = await claimPorts();
  onTestFinished(() => block.release());
  const port = await freePort(block);
  const tls = ["--tls-port", String(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no"];
  const redis = await startRedis({ args: tls });
  onTestFinished(() => redis.stop());

  const url = `rediss://127.0.0.1:${port}`;
  await acquire(open(url, readFileSync(cert, "utf8")).locks, "job:1");
  const { locks, lines } = open(url);
  expect((await locks.acquire("job:2")).kind).toBe("unavailable");
  const line = await eventually("it was told", async () => lines[0]);
  expect(String(line.fields.reason)).toMatch(/self.signed certificate/);
});
