import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { readHelp } from "../docs/command-help.ts";

export const ROOT = fileURLToPath(new URL("../../", import.meta.url));

export const readRootFile = (path: string): string => readFileSync(`${ROOT}${path}`, "utf8");

export interface ComposeService {
  readonly image: string;
  readonly user: string;
  readonly build?: { readonly context: string; readonly dockerfile: string };
  readonly init?: boolean;
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly ports?: readonly string[];
  readonly volumes?: readonly {
    readonly type: "bind" | "volume";
    readonly source: string;
    readonly target: string;
    readonly read_only?: boolean;
  }[];
  readonly tmpfs: readonly string[];
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly healthcheck: { readonly test: readonly string[] };
  readonly stop_grace_period: string;
  readonly restart: string;
  readonly read_only: boolean;
  readonly cap_drop: readonly string[];
  readonly security_opt: readonly string[];
  readonly container_name?: string;
  readonly deploy: {
    readonly replicas?: number;
    readonly resources: { readonly limits: { readonly cpus: string; readonly memory: string } };
  };
}

export interface Compose {
  readonly name: string;
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}

/** `NAME=value` lines, as compose reads a .env file of ours. */
export function readEnvFile(text: string): ReadonlyMap<string, string> {
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(lines.map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]));
}

/** The compose file as compose sees it with these variables: merged and interpolated; `$$` is a dollar. */
export function readCompose(variables: ReadonlyMap<string, string>): Compose {
  const raw: unknown = parse(readRootFile("docker-compose.yml"), { merge: true });
  return interpolate(raw, variables) as Compose;
}

const REFERENCE = /\$(?:\$|\{([A-Z_]+)(?::([-?])([^}]*))?\})/g;

/** Names of the variables that the compose file takes. */
export function readReferences(): readonly string[] {
  const found = [...readRootFile("docker-compose.yml").matchAll(REFERENCE)].flatMap(([, name]) => name ?? []);
  return [...new Set(found)].sort();
}

function interpolate(value: unknown, variables: ReadonlyMap<string, string>): unknown {
  if (typeof value === "string") {
    return value.replaceAll(REFERENCE, (_, name?: string, operator?: string, word = "") => {
      if (name === undefined) return "$";
      const given = variables.get(name) ?? "";
      if (given !== "") return given;
      if (operator === "-") return word;
      throw new Error(`${name} is not set: ${word}`);
    });
  }
  if (Array.isArray(value)) return value.map((item) => interpolate(item, variables));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, interpolate(item, variables)]));
}

/** What of a command line the program does not know: its command, then its options. */
export async function unknownWords([command = "", ...words]: readonly string[]): Promise<readonly string[]> {
  const help = await readHelp([command]);
  if (!help.startsWith(`Usage: turno ${command} `)) return [command];
  return words.filter((word) => word.startsWith("--") && !new RegExp(`^ {2}${word}(?= |$)`, "m").test(help));
}
