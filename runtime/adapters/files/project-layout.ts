import { isMap, isScalar, isSeq, parseAllDocuments, visit } from "yaml";

/** What the reader must know of turno.yaml before anything is validated. */
export interface ProjectLayout {
  readonly include: readonly string[];
  /** Folder below the root, without a leading `./` or a trailing slash. */
  readonly handlers: string;
}

const DEFAULT_LAYOUT: ProjectLayout = { include: ["turno.d/**/*.yaml"], handlers: "handlers" };

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

/** Every `$ref` in a YAML or JSON text that names another file, without its fragment; aliases are not followed. */
export function findFileReferences(text: string): readonly string[] {
  if (!text.includes("$ref")) return [];
  const found = new Set<string>();
  for (const document of parseDocuments(text)) {
    visit(document, {
      Pair(_, pair) {
        if (!isScalar(pair.key) || pair.key.value !== "$ref") return;
        if (!isScalar(pair.value) || typeof pair.value.value !== "string") return;
        const path = pair.value.value.replace(/#.*$/s, "");
        if (path !== "" && !/^[a-z][a-z0-9+.-]*:/i.test(path)) found.add(path);
      },
    });
  }
  return [...found];
}

function parseDocuments(text: string) {
  try {
    const documents = parseAllDocuments(text, {
      version: "1.2",
      schema: "core",
      logLevel: "silent",
      uniqueKeys: false,
    });
    return Array.isArray(documents) ? documents : [];
  } catch {
    // Nested beyond the parser's stack: validation reports it with its position.
    return [];
  }
}
