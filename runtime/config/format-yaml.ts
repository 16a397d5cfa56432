import { isDeepStrictEqual } from "node:util";
import {
  type Document,
  isMap,
  isScalar,
  isSeq,
  type ParsedNode,
  parseAllDocuments,
  visit,
  YAMLMap,
  YAMLSeq,
} from "yaml";
import { assert } from "../core/assert.ts";
import { loadFile } from "./load.ts";
import type { Problem } from "./problems.ts";

/** Members that stand first, in this order; what else there is keeps its own. */
const DOCUMENT_ORDER = ["apiVersion", "kind", "metadata", "spec"];
const METADATA_ORDER = ["name"];

/** Nobody sees these in a review. */
const INVISIBLE = /[\u0080-\u00a0\u00ad\u061c\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]/g;

type ParsedDocument = Document.Parsed<ParsedNode>;

/**
 * YAML in the one way Turno writes it: two spaces a level, lists indented, `{ a: 1 }` and `[1, 2]`, kind and name first, `---` between
 * documents. Comments, blank lines, quotes, escapes of what is invisible and block texts stay; a folded text becomes one line a
 * paragraph. What the text means never changes. Text that cannot be read gives the problems instead.
 */
export function formatYaml(
  file: string,
  content: Uint8Array | string,
): { readonly text: string } | { readonly problems: readonly Problem[] } {
  const loaded = loadFile(file, content);
  if (!loaded.complete) return { problems: loaded.problems };
  const before = typeof content === "string" ? content : new TextDecoder().decode(content);
  const text = write(before.replace(/^\ufeff/, "").replaceAll("\r\n", "\n"));
  const after = loadFile(file, text);
  const values = (of: typeof loaded) => of.documents.map(({ value }) => value);
  assert(after.complete && isDeepStrictEqual(values(after), values(loaded)), `formatting changed what ${file} says`);
  return { text };
}

function write(text: string): string {
  const documents = parseAllDocuments(text, { version: "1.2", schema: "core", intAsBigInt: true });
  assert(Array.isArray(documents), "a file that was read has documents");
  const written = documents.map((document) => {
    order(document);
    padMappingsOnly(document);
    return document.toString({ lineWidth: 0, indent: 2, indentSeq: true });
  });
  const whole = written.map((one, index) => (index > 0 && !one.startsWith("---") ? `---\n${one}` : one)).join("");
  return whole.replace(INVISIBLE, (character) => (text.includes(character) ? character : escapeSequence(character)));
}

/** What was an escape in double quotes, the only place for one, stays an escape. */
function escapeSequence(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

function order(document: ParsedDocument): void {
  if (!isMap(document.contents)) return;
  putFirst(document.contents, DOCUMENT_ORDER);
  const metadata = document.contents.get("metadata");
  if (isMap(metadata)) putFirst(metadata as YAMLMap.Parsed, METADATA_ORDER);
}

/** A comment that stands at the top of the mapping stays there. */
function putFirst(mapping: YAMLMap.Parsed, names: readonly string[]): void {
  const rank = (pair: (typeof mapping.items)[number]): number => {
    const index = isScalar(pair.key) ? names.indexOf(String(pair.key.value)) : -1;
    return index === -1 ? names.length : index;
  };
  mapping.items.sort((left, right) => rank(left) - rank(right));
  const first = mapping.items[0]?.key;
  if (first?.spaceBefore === true) first.spaceBefore = false;
}

/** The writer knows one padding for both kinds of brackets. */
function padMappingsOnly(document: ParsedDocument): void {
  visit(document, {
    Collection(_key, node) {
      if (!node.flow) return;
      const { prototype } = isSeq(node) ? YAMLSeq : YAMLMap;
      const padding = isSeq(node) ? "" : " ";
      node.toString = (ctx, ...rest) =>
        prototype.toString.call(node, ctx === undefined ? ctx : { ...ctx, flowCollectionPadding: padding }, ...rest);
    },
  });
}
