import {
  type Alias,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type Node,
  type Pair,
  type Scalar,
  type YAMLMap,
  type YAMLSeq,
} from "yaml";
import type { ErrorCode } from "../core/error-codes.ts";
import type { Json } from "../core/json.ts";
import { isUnstorable } from "../core/unstorable.ts";
import { LOAD_LIMITS } from "./limits.ts";
import type { Path } from "./problems.ts";

/** A problem with an offset into the text in place of line and column. */
export interface ConversionProblem {
  readonly code: ErrorCode;
  readonly message: string;
  readonly offset: number;
  readonly path: Path;
  readonly hint: string | null;
  /** Offset of the other place that the problem is about. */
  readonly other?: number;
}

export interface Conversion {
  /** Undefined when the document is beyond a limit. */
  readonly value: Json | undefined;
  readonly problems: readonly ConversionProblem[];
  /** Some part was left out, so that what the document declares may be unknown. */
  readonly broken: boolean;
  readonly targets: AliasTargets;
}

/** What each alias stands for. */
export type AliasTargets = ReadonlyMap<Alias, Node>;

/** A converted node; `size` and `textLength` count what aliases below it expand to. */
interface Converted {
  readonly value: Json;
  readonly size: number;
  readonly textLength: number;
  readonly height: number;
}

const DANGEROUS_KEYS = new Set(["__proto__", "constructor", "prototype"]);
const CORE_TAG = /^(!|tag:yaml\.org,2002:(str|int|float|bool|null|map|seq))$/;
const NOTHING: Converted = { value: null, size: 1, textLength: 0, height: 0 };

/**
 * Nodes → plain JSON without prototypes to lose: aliases resolved in the order of the text, each anchor converted
 * once, so that the work is linear however much it expands to.
 */
export function convertDocument(root: Node): Conversion {
  const problems: ConversionProblem[] = [];
  const anchors = new Map<string, Node>();
  const targets = new Map<Alias, Node>();
  const done = new Map<Node, Converted>();
  const open = new Set<Node>();

  const report = (node: unknown, path: Path, code: ErrorCode, message: string, hint: string | null = null): void => {
    problems.push({ code, message, offset: startOf(node), path, hint });
  };

  function convert(node: unknown, path: Path): Converted {
    if (node === null || node === undefined) return NOTHING;
    if (isAlias(node)) return convertAlias(node, path);
    if (!isScalar(node) && !isMap(node) && !isSeq(node)) return NOTHING;
    if (node.anchor !== undefined) anchors.set(node.anchor, node);
    if (node.tag !== undefined && CORE_TAG.test(node.tag)) {
      const hint = "Write the value plainly; quote it where text is meant.";
      report(node, path, "TURNO_CONFIG_TAG", "expected a plain value, found a tag", hint);
    }
    open.add(node);
    const converted = isScalar(node)
      ? convertScalar(node, path)
      : isMap(node)
        ? convertMap(node, path)
        : convertList(node, path);
    open.delete(node);
    if (node.anchor !== undefined) done.set(node, converted);
    return converted;
  }

  function convertAlias(alias: Alias, path: Path): Converted {
    const target = anchors.get(alias.source);
    if (target === undefined) {
      report(alias, path, "TURNO_CONFIG_ALIAS", `expected an anchor &${alias.source} above, found none`);
      return NOTHING;
    }
    if (open.has(target)) {
      report(alias, path, "TURNO_CONFIG_ALIAS", `the alias *${alias.source} stands for something that contains it`);
      return NOTHING;
    }
    targets.set(alias, target);
    return done.get(target) ?? NOTHING;
  }

  function convertScalar(node: Scalar, path: Path): Converted {
    const { value } = node;
    if (typeof value === "string") {
      if (isUnstorable(value)) {
        report(
          node,
          path,
          "TURNO_CONFIG_TEXT",
          "expected text that the database can store, found NUL or half of a surrogate pair",
        );
      }
      return { value, size: 1, textLength: value.length, height: 0 };
    }
    if (typeof value === "bigint" && (value > Number.MAX_SAFE_INTEGER || value < Number.MIN_SAFE_INTEGER)) {
      const message = `expected a whole number within ±2^53, found ${node.source ?? value}`.slice(0, 120);
      report(node, path, "TURNO_CONFIG_NUMBER", message, "Write it as text, in quotes.");
      return NOTHING;
    }
    if (typeof value === "number" && !Number.isFinite(value)) {
      report(node, path, "TURNO_CONFIG_NUMBER", `expected a number, found ${node.source ?? value}`.slice(0, 120));
      return NOTHING;
    }
    // Minus zero is zero in JSON.
    if (typeof value === "bigint" || typeof value === "number") return { ...NOTHING, value: Number(value) + 0 };
    return { ...NOTHING, value: typeof value === "boolean" ? value : null };
  }

  function convertMap(map: YAMLMap, path: Path): Converted {
    const entries: [string, Json][] = [];
    const firstKeys = new Map<string, unknown>();
    const members: Converted[] = [];
    for (const pair of map.items) {
      const key = readKey(pair, path);
      if (key === null) continue;
      const first = firstKeys.get(key);
      if (first !== undefined) {
        problems.push({
          code: "TURNO_CONFIG_DUPLICATE_KEY",
          message: `the key "${shorten(key)}" stands twice in one mapping`,
          offset: startOf(pair.key),
          path: [...path, key],
          hint: isEnvelopeKey(path, key)
            ? "Two documents in one file have a line --- between them: is one missing here?"
            : "Keep one of the two.",
          other: startOf(first),
        });
        continue;
      }
      firstKeys.set(key, pair.key);
      const member = convert(pair.value, [...path, key]);
      members.push(member);
      entries.push([key, member.value]);
    }
    return combine(Object.fromEntries(entries), members);
  }

  function convertList(list: YAMLSeq, path: Path): Converted {
    const members = list.items.map((item, index) => convert(item, [...path, index]));
    return combine(
      members.map(({ value }) => value),
      members,
    );
  }

  function readKey(pair: Pair, path: Path): string | null {
    if (!isScalar(pair.key) || typeof pair.key.value !== "string") {
      report(pair.key ?? pair.value, path, "TURNO_CONFIG_KEY", "expected a key that is text");
      return null;
    }
    const key = pair.key.value;
    const refuse = (message: string, hint: string | null = null): null => {
      report(pair.key, [...path, key], "TURNO_CONFIG_KEY", message, hint);
      return null;
    };
    if (pair.key.anchor !== undefined) {
      anchors.set(pair.key.anchor, pair.key);
      done.set(pair.key, { value: key, size: 1, textLength: key.length, height: 0 });
    }
    if (key === "<<") {
      return refuse(
        "merge keys (<<) are not part of YAML 1.2",
        "Repeat the fields, or name a Policy or spec.defaults.",
      );
    }
    if (DANGEROUS_KEYS.has(key)) return refuse(`the key "${key}" is not allowed`);
    if (key.normalize("NFC") !== key) {
      return refuse(
        `the key "${shorten(key)}" is not in Unicode normal form C`,
        "Type its letters again as single characters.",
      );
    }
    if (isUnstorable(key))
      return refuse("expected a key that the database can store, found NUL or half of a surrogate pair");
    return key;
  }

  const converted = convert(root, []);
  const excess = describeExcess(converted);
  if (excess !== null) report(root, [], "TURNO_CONFIG_LIMIT", excess);
  return {
    value: excess === null ? converted.value : undefined,
    problems,
    broken: excess !== null || problems.some(({ path }) => path.length <= 2),
    targets,
  };
}

function combine(value: Json, members: readonly Converted[]): Converted {
  let [size, textLength, height] = [1, 0, 0];
  for (const member of members) {
    size += member.size;
    textLength += member.textLength;
    height = Math.max(height, member.height);
  }
  return { value, size, textLength, height: height + 1 };
}

function describeExcess(converted: Converted): string | null {
  const { size, textLength, height } = converted;
  if (size > LOAD_LIMITS.values) {
    return `expected at most ${LOAD_LIMITS.values} values after expanding aliases, found ${size}`;
  }
  if (textLength > LOAD_LIMITS.textLength) {
    return `expected at most ${LOAD_LIMITS.textLength / 1024} KiB of text after expanding aliases, found ${Math.ceil(textLength / 1024)} KiB`;
  }
  return height > LOAD_LIMITS.depth ? `expected at most ${LOAD_LIMITS.depth} levels, found ${height}` : null;
}

/** Offset of a member's key or value; of the nearest node above when the path leads nowhere. */
export function locateNode(root: Node | null, targets: AliasTargets, path: Path, part: "key" | "value"): number {
  let node: unknown = root;
  let offset = startOf(root);
  for (const [index, segment] of path.entries()) {
    const resolved: unknown = isAlias(node) ? targets.get(node) : node;
    if (isSeq(resolved)) {
      node = resolved.items[Number(segment)];
      if (node === undefined) return offset;
      offset = startOf(node);
      continue;
    }
    if (!isMap(resolved)) return offset;
    const pair = resolved.items.find(({ key }) => isScalar(key) && key.value === String(segment));
    if (pair === undefined) return offset;
    const wantsKey = part === "key" && index === path.length - 1;
    offset = startOf(wantsKey || pair.value === null ? pair.key : pair.value);
    node = pair.value;
  }
  return offset;
}

function startOf(node: unknown): number {
  return (node as { range?: readonly number[] | null } | null)?.range?.[0] ?? 0;
}

function shorten(key: string): string {
  return key.length > 60 ? `${key.slice(0, 60)}…` : key;
}

/** Twice at the top of a document: mostly two documents that nothing parts. */
function isEnvelopeKey(path: Path, key: string): boolean {
  return path.length === 0 && (key === "apiVersion" || key === "kind");
}
