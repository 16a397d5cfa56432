import { Lexer } from "yaml";

/** A comment that silences a code of lint in the document it stands in: `# turno-lint-ignore CODE: the reason`. */
export interface LintComment {
  /** Counts from 1. */
  readonly line: number;
  readonly column: number;
  /** Null: none is named. */
  readonly code: string | null;
  /** Null: none is given, so nothing is silenced. */
  readonly reason: string | null;
}

export interface CommentedFile {
  readonly comments: readonly LintComment[];
  /** First lines of the file's documents, in order; the first is 1. */
  readonly documents: readonly number[];
}

const COMMENT = /^#+\s*turno-lint-ignore\b[\s:]*([A-Z][A-Z0-9_]*)?\s*(?::\s*(.*\S))?/;
/** What the lexer of `yaml` puts between the parts of the text; not part of it. */
const SCALAR_MARK = "\u001f";
const MARKS = ["\u0002", "\u0018", SCALAR_MARK];

/** Reads lint's comments of a YAML file; texts that only look like one, in a block of a payload, are none. */
export function readLintComments(text: string): CommentedFile {
  const comments: LintComment[] = [];
  const documents = [1];
  let line = 1;
  let column = 1;
  let isScalar = false;
  for (const token of new Lexer().lex(text)) {
    if (MARKS.includes(token)) {
      isScalar = token === SCALAR_MARK;
      continue;
    }
    if (!isScalar && token === "---") documents.push(line);
    if (!isScalar && token.startsWith("#")) {
      const match = COMMENT.exec(token);
      if (match !== null) comments.push({ line, column, code: match[1] ?? null, reason: match[2] ?? null });
    }
    const lines = token.split("\n");
    column = lines.length === 1 ? column + token.length : (lines.at(-1)?.length ?? 0) + 1;
    line += lines.length - 1;
    isScalar = false;
  }
  return { comments, documents };
}

/** Which document of the file a line belongs to. */
export function documentAt({ documents }: CommentedFile, line: number): number {
  return documents.findLastIndex((start) => start <= line);
}
