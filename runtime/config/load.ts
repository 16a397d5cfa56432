import { Composer, type Document, LineCounter, type ParsedNode, Parser } from "yaml";
import type { ErrorCode } from "../core/error-codes.ts";
import type { Json } from "../core/json.ts";
import { deepestLevel, nestsWildly } from "../core/yaml-nesting.ts";
import { convertDocument, locateNode } from "./convert.ts";
import { decodeText } from "./decode.ts";
import { LOAD_LIMITS } from "./limits.ts";
import { type Path, type Position, type Problem, toPointer } from "./problems.ts";

/** One document of a file: plain JSON and where each part of it stands. */
export interface LoadedDocument {
  readonly file: string;
  readonly value: Json;
  /** Position of a member's key, or of its value; of the nearest part above when the path leads nowhere. */
  locate(path: Path, part?: "key" | "value"): Position;
}

export interface LoadedFile {
  readonly documents: readonly LoadedDocument[];
  readonly problems: readonly Problem[];
  /** False when a document could not be read, so that what it declares is not known. */
  readonly complete: boolean;
}

/** YAML 1.2 (or JSON) text → documents with positions, never throwing: whatever is wrong is a problem. */
export function loadFile(file: string, content: Uint8Array | string): LoadedFile {
  const problem = (
    code: ErrorCode,
    message: string,
    at: Partial<Position> = {},
    hint: string | null = null,
  ): Problem => ({
    code,
    severity: "error",
    file,
    line: at.line ?? 1,
    column: at.column ?? 1,
    path: "",
    message,
    hint,
  });
  const refuse = (...args: Parameters<typeof problem>): LoadedFile => ({
    documents: [],
    problems: [problem(...args)],
    complete: false,
  });

  const size = typeof content === "string" ? Buffer.byteLength(content) : content.byteLength;
  if (size > LOAD_LIMITS.fileBytes) {
    return refuse(
      "TURNO_CONFIG_LIMIT",
      `expected at most ${LOAD_LIMITS.fileBytes / 1024} KiB a file, found ${Math.ceil(size / 1024)} KiB`,
    );
  }
  const decoded = decodeText(content);
  if (!decoded.ok) return refuse("TURNO_CONFIG_ENCODING", decoded.message, decoded, decoded.hint);
  const { text } = decoded;
  if (text.trim() === "") {
    return refuse("TURNO_CONFIG_EMPTY", "the file is empty", {}, "Delete the file if it is to declare nothing.");
  }

  const tooDeep = () => refuse("TURNO_CONFIG_LIMIT", `expected at most ${LOAD_LIMITS.depth} levels, found more`);
  if (nestsWildly(text)) return tooDeep();
  const lines = new LineCounter();
  const tokens = [...new Parser(lines.addNewLine).parse(text)];
  // The composer recurses, and a stack that overflows there ends the process.
  if (deepestLevel(tokens) > LOAD_LIMITS.depth) return tooDeep();
  const composer = new Composer({
    prettyErrors: false,
    version: "1.2",
    schema: "core",
    merge: false,
    stringKeys: true,
    intAsBigInt: true,
    resolveKnownTags: false,
    // Its own look for duplicates is quadratic and tells only one place.
    uniqueKeys: false,
    lineCounter: lines,
  });
  const position = (offset: number): Position => {
    const { line, col } = lines.linePos(Math.min(Math.max(offset, 0), text.length));
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };

  const documents: LoadedDocument[] = [];
  const problems: Problem[] = [];
  let complete = true;
  for (const document of composer.compose(tokens, false, text.length)) {
    const syntax = describeSyntax(document);
    if (syntax !== null) {
      problems.push(problem(syntax.code, syntax.message, position(syntax.offset), syntax.hint));
      complete = false;
      continue;
    }
    if (document.contents === null || ("value" in document.contents && document.contents.value === null)) continue;
    const converted = convertDocument(document.contents);
    for (const { code, message, offset, path, hint, other } of converted.problems) {
      const place = other === undefined ? "" : `; the first is on line ${position(other).line}`;
      problems.push({ ...problem(code, message + place, position(offset), hint), path: toPointer(path) });
    }
    if (converted.broken) complete = false;
    if (converted.value === undefined) continue;
    documents.push({
      file,
      value: converted.value,
      locate: (path, part = "value") => position(locateNode(document.contents, converted.targets, path, part)),
    });
  }
  if (documents.length === 0 && problems.length === 0) {
    problems.push({
      ...problem("TURNO_CONFIG_EMPTY", "the file holds no document, only comments"),
      severity: "warning",
    });
  }
  return { documents, problems, complete };
}

interface SyntaxProblem {
  readonly code: ErrorCode;
  readonly message: string;
  readonly offset: number;
  readonly hint: string | null;
}

/** The first thing that makes a document unreadable; what follows it is mostly its consequence. */
function describeSyntax(document: Document.Parsed<ParsedNode>): SyntaxProblem | null {
  if (document.directives.yaml.explicit === true && document.directives.yaml.version !== "1.2") {
    const message = `expected YAML 1.2, found %YAML ${document.directives.yaml.version}`;
    return { code: "TURNO_CONFIG_TAG", message, offset: document.range[0], hint: "Leave the %YAML line out." };
  }
  const [first] = [...document.errors, ...document.warnings].sort((left, right) => left.pos[0] - right.pos[0]);
  if (first === undefined) return null;
  const offset = first.pos[0];
  if (first.code === "TAG_RESOLVE_FAILED") {
    const message = `expected a plain value, found a tag: ${first.message.replace(/^Unresolved tag: /, "")}`;
    return { code: "TURNO_CONFIG_TAG", message, offset, hint: "Tags are not read; write the value without it." };
  }
  if (first.code === "NON_STRING_KEY") {
    return {
      code: "TURNO_CONFIG_KEY",
      message: "expected a key that is text, found a list or mapping",
      offset,
      hint: null,
    };
  }
  const hints: Partial<Record<typeof first.code, string>> = {
    TAB_AS_INDENT: "Indent with spaces.",
    BLOCK_AS_IMPLICIT_KEY: "Quote a text that holds a colon and a space.",
    BAD_SCALAR_START: "Quote the text.",
  };
  return { code: "TURNO_CONFIG_SYNTAX", message: first.message, offset, hint: hints[first.code] ?? null };
}
