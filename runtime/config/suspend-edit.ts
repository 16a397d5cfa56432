import { isDeepStrictEqual } from "node:util";
import { type Document, isMap, isPair, isScalar, type Pair, parseAllDocuments } from "yaml";

export type SuspendEdit =
  | { readonly kind: "edited"; readonly text: string }
  /** It says `suspend: true` already. */
  | { readonly kind: "suspended" }
  /** The document is written in a way that no line of it can be edited alone, such as an alias. */
  | { readonly kind: "unwritable" };

/**
 * A file's text with `spec.suspend: true` in the document that declares the object; every other character stays as it
 * is. The text is valid YAML that declares it.
 */
export function suspendInText(
  text: string,
  { kind, name }: { readonly kind: string; readonly name: string },
): SuspendEdit {
  const documents = parseAllDocuments(text);
  if (!Array.isArray(documents)) return { kind: "unwritable" };
  const index = documents.findIndex((document) => isDeclaration(document, kind, name));
  const found = documents[index];
  if (found === undefined) return { kind: "unwritable" };
  if (found.getIn(["spec", "suspend"]) === true) return { kind: "suspended" };
  const edited = edit(text, found);
  if (edited === null || !saysOnlyThat(documents, edited, index)) return { kind: "unwritable" };
  return { kind: "edited", text: edited };
}

function isDeclaration(document: Document, kind: string, name: string): boolean {
  return document.get("kind") === kind && document.getIn(["metadata", "name"]) === name;
}

function edit(text: string, document: Document): string | null {
  const spec = findPair(document.contents, "spec");
  if (spec === null) return addSpec(text, document);
  const written = findPair(spec.value, "suspend")?.value;
  if (isScalar(written) && written.range) return splice(text, written.range[0], "true", written.range[1]);
  if (!isMap(spec.value) || !spec.value.range) return null;
  const [start] = spec.value.range;
  if (spec.value.flow === true) {
    return splice(text, start + 1, spec.value.items.length === 0 ? " suspend: true " : " suspend: true,");
  }
  // Right below `spec:`: what follows keeps the comments that stand over it.
  const line = text.slice(text.lastIndexOf("\n", start - 1) + 1, start);
  if (!isScalar(spec.key) || !spec.key.range || line.trim() !== "") return null;
  const below = text.indexOf("\n", spec.key.range[1]) + 1;
  return splice(text, below, `${line}suspend: true${lineEnd(text)}`);
}

/** A queue may have no spec: it comes right below the document's last line. */
function addSpec(text: string, { contents }: Document): string | null {
  if (!isMap(contents) || contents.flow === true || !contents.range) return null;
  const end = contents.range[1];
  const startsLine = end === 0 || text[end - 1] === "\n";
  return splice(
    text,
    end,
    `${startsLine ? "" : lineEnd(text)}spec: { suspend: true }${startsLine ? lineEnd(text) : ""}`,
  );
}

function findPair(node: unknown, key: string): Pair | null {
  if (!isMap(node)) return null;
  return node.items.find((pair) => isPair(pair) && isScalar(pair.key) && pair.key.value === key) ?? null;
}

/** The proof of the edit: read again, this one value is all that differs. */
function saysOnlyThat(before: readonly Document[], text: string, index: number): boolean {
  const after = parseAllDocuments(text);
  if (!Array.isArray(after) || after.some(({ errors }) => errors.length > 0)) return false;
  const wanted = before.map((document, place): unknown => {
    const value: unknown = document.toJS();
    if (place !== index || typeof value !== "object" || value === null) return value;
    const spec: unknown = "spec" in value ? value.spec : null;
    return { ...value, spec: { ...(typeof spec === "object" ? spec : null), suspend: true } };
  });
  const found = after.map((document): unknown => document.toJS());
  return isDeepStrictEqual(found, wanted);
}

function splice(text: string, start: number, insert: string, end = start): string {
  return text.slice(0, start) + insert + text.slice(end);
}

function lineEnd(text: string): string {
  return text.includes("\r\n") ? "\r\n" : "\n";
}
