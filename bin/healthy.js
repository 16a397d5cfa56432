#!/usr/bin/env node
// Exits with 0 when the address, by default that of a role in its container, answers with success. For health checks of images, where
// a whole Turno would be too much to start every few seconds.
const [, , address = "http://127.0.0.1:8080/health/ready"] = process.argv;
const LIMIT_MS = 4_000;

try {
  const response = await fetch(address, { signal: AbortSignal.timeout(LIMIT_MS) });
  console.log(`${response.status} ${await response.text()}`);
  process.exitCode = response.ok ? 0 : 1;
} catch (error) {
  console.log(`${address} does not answer: ${error instanceof Error ? error.message : error}`);
  process.exitCode = 1;
}
