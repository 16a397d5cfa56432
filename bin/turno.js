#!/usr/bin/env node
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const entry = new URL("../dist/runtime/cli/main.js", import.meta.url);

if (existsSync(fileURLToPath(entry))) {
  await import(entry.href);
} else {
  console.error("Turno is not built yet. Run: npm run build");
  process.exitCode = 1;
}
