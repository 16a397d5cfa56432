import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

function sim(...args: readonly string[]): Promise<{ readonly code: unknown; readonly output: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, ["scripts/sim.mjs", ...args], { cwd: ROOT }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : error.code, output: error === null ? stdout : stdout + stderr }),
    );
  });
}

describe("npm run sim", { timeout: 180_000 }, () => {
  it("runs seeds in several processes and sums up what they met", async () => {
    const { code, output } = await sim("--seeds", "60", "--from", "100", "--jobs", "2");
    expect(output).toMatch(/^60 seeds \(.* a second\), .* simulated hours, \d+ events, \d+ jobs, 0 violations$/m);
    expect(output).toMatch(/Faults by kind:/);
    expect(code).toBe(0);
  });

  it("runs one seed again, to the same trace", async () => {
    const first = await sim("--seed", "5");
    expect(first.output).toMatch(/^seed 5: no violation, \d+ events, .* trace [0-9a-f]{16}$/m);
    expect(await sim("--seed", "5")).toEqual(first);
  });

  it("says what it expected when it is called wrongly", async () => {
    const { code, output } = await sim("--seeds", "many");
    expect(code).toBe(2);
    expect(output).toContain('--seeds: expected a whole number from 1 on, found "many"');
  });
});
