import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: { alias: { turno: fileURLToPath(new URL("./runtime/handler.ts", import.meta.url)) } },
  test: {
    include: ["test/**/*.test.ts", "test/**/*.test.tsx"],
    globalSetup: ["test/support/global-setup.ts"],
    pool: "forks",
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // A test that forgot to await, or one left in focus, is an error and not a pass.
    allowOnly: false,
    passWithNoTests: false,
  },
});
