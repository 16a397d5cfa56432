import { readFileSync } from "node:fs";

/** This package's version; its package.json lies one folder up in the sources and two up in the build. */
export const VERSION: string = readVersion();

function readVersion(): string {
  for (const path of ["../package.json", "../../package.json"]) {
    try {
      const manifest = JSON.parse(readFileSync(new URL(path, import.meta.url), "utf8")) as {
        name?: string;
        version?: string;
      };
      if (manifest.name === "turno" && manifest.version !== undefined) return manifest.version;
    } catch {
      // Not in this folder: the other layout.
    }
  }
  return "0.0.0";
}
