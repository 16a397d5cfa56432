import type { Import } from "./source-scan.ts";

/** A room, and the rooms it may import: `value` whole, `types` by `import type` only. Its own files always. */
interface Room {
  readonly path: RegExp;
  readonly value: readonly string[];
  readonly types?: readonly string[];
  /** Whether time, randomness and the environment come through ports there. */
  readonly isPure: boolean;
}

/** docs: "Layers: who may import whom". The first room whose pattern matches a path is the file's. */
const ROOMS: Readonly<Record<string, Room>> = {
  core: { path: /^runtime\/core\//, value: [], isPure: true },
  handler: { path: /^runtime\/handler\.ts$/, value: ["core"], isPure: true },
  time: { path: /^runtime\/time\//, value: ["core"], isPure: true },
  config: { path: /^runtime\/config\//, value: ["core", "time"], isPure: true },
  ports: {
    path: /^runtime\/protocol\/(ports(\/|\.ts$)|states\.ts$)/,
    value: ["core"],
    types: ["config"],
    isPure: true,
  },
  protocol: { path: /^runtime\/protocol\//, value: ["core", "ports"], types: ["config"], isPure: true },
  reconcile: { path: /^runtime\/reconcile\//, value: ["core", "time", "config", "ports"], isPure: true },
  services: {
    path: /^runtime\/services\//,
    value: ["core", "time", "config", "ports", "protocol", "reconcile"],
    isPure: true,
  },
  adapters: { path: /^runtime\/adapters\//, value: ["core", "ports", "handler"], types: ["config"], isPure: false },
  web: { path: /^web\//, value: ["core", "ports"], types: ["config"], isPure: true },
  composition: {
    path: /^runtime\/(cli\/|compose\/|(compose|index|version)\.ts$)/,
    value: ["core", "handler", "time", "config", "ports", "protocol", "reconcile", "services", "adapters", "web"],
    isPure: false,
  },
};

export function roomOf(path: string): string | null {
  return Object.entries(ROOMS).find(([, room]) => room.path.test(path))?.[0] ?? null;
}

export function isPureRoom(path: string): boolean {
  const name = roomOf(path);
  return name !== null && ROOMS[name]?.isPure === true;
}

/** Why the import is against the layers, as a sentence; null when it is not. */
export function judgeImport(from: string, to: string, { isTypeOnly }: Pick<Import, "isTypeOnly">): string | null {
  const [fromName, toName] = [roomOf(from), roomOf(to)];
  if (fromName === null) return `${from} lies in no room of the architecture`;
  if (toName === null) return `${from} imports ${to}, which lies in no room of the architecture`;
  if (fromName === "adapters" && toName === "adapters") {
    if (adapterOf(from) === adapterOf(to)) return null;
    return `${from} imports ${to}: adapters do not import one another`;
  }
  if (fromName === toName) return null;
  const { value = [], types = [] } = ROOMS[fromName] ?? {};
  if (value.includes(toName)) return null;
  if (types.includes(toName)) {
    return isTypeOnly ? null : `${from} imports a value from ${to}: from ${toName}, ${fromName} may import types only`;
  }
  return `${from} imports ${to}: ${fromName} may not import ${toName}`;
}

function adapterOf(path: string): string {
  return path.split("/")[2] ?? "";
}
