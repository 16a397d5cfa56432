import { Composer, type Document, isMap, isScalar, isSeq, Parser, visit } from "yaml";
import { deepestLevel, nestsWildly } from "../../core/yaml-nesting.ts";

/** What the reader must know of turno.yaml before anything is validated. */
export interface ProjectLayout {
  readonly include: readonly string[];
  /** Folder below the root, without a leading `./` or a trailing slash. */
  readonly handlers: string;
}

const DEFAULT_LAYOUT: ProjectLayout = { include: ["turno.d/**/*.yaml"], handlers: "handlers" };

/** As in validation, which refuses what is longer or deeper. */
const LONGEST_TEXT = 256 * 1024;
const DEEPEST_LEVEL = 64;

/** Reads where the other files lie. A broken turno.yaml gives the defaults: validation will say what is wrong. */
export function readLayout(text: string): ProjectLayout {
  for (const document of parseDocuments(text)) {
    const root: unknown = document.contents;
    if (!isMap(root) || root.get("kind") !== "Project") continue;
    const spec = root.get("spec");
    if (!isMap(spec)) continue;
    const include = spec.get("include", true);
    const handlers = spec.get("handlers");
    return {
      include: isSeq(include)
        ? include.items.flatMap((item) => (isScalar(item) && typeof item.value === "string" ? [item.value] : []))
        : DEFAULT_LAYOUT.include,
      handlers:
        typeof handlers === "string" && handlers !== ""
          ? handlers.replace(/^(\.\/)+|\/+$/g, "")
          : DEFAULT_LAYOUT.handlers,
    };
  }
  return DEFAULT_LAYOUT;
}

/** Every `$ref` and `ics` in a YAML or JSON text that names another file, without its fragment; aliases are not followed. */
export function findFileReferences(text: string): readonly string[] {
  if (!text.includes("$ref") && !text.includes("ics")) return [];
  const found = new Set<string>();
  for (const document of parseDocuments(text)) {
    visit(document, {
      Pair(_, pair) {
        if (!isScalar(pair.key) || (pair.key.value !== "$ref" && pair.key.value !== "ics")) return;
        if (!isScalar(pair.value) || typeof pair.value.value !== "string") return;
        const path = pair.value.value.replace(/#.*$/s, "");
        if (path !== "" && !/^[a-z][a-z0-9+.-]*:/i.test(path)) found.add(path);
      },
    });
  }
  return [...found];
}

/** Nothing for a text nested beyond what validation takes: the parser slows down and the composer's stack overflows. */
function parseDocuments(text: string): readonly Document[] {
  if (text.length > LONGEST_TEXT || nestsWildly(text)) return [];
  const tokens = [...new Parser().parse(text)];
  if (deepestLevel(tokens) > DEEPEST_LEVEL) return [];
  const composer = new Composer({ version: "1.2", schema: "core", logLevel: "silent", uniqueKeys: false });
  return [...composer.compose(tokens)];
}
