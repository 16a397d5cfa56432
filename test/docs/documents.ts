import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../../", import.meta.url));

export interface Block {
  /** What stands behind the opening fence: `yaml`, `ts`, `console`; empty: nothing. */
  readonly language: string;
  readonly text: string;
  readonly line: number;
}

export interface Document {
  /** From the project's root. */
  readonly path: string;
  readonly text: string;
  /** The text with its code blocks blanked out, line by line. */
  readonly prose: string;
  readonly blocks: readonly Block[];
}

/** Every Markdown file that people read. */
export function readDocuments(): readonly Document[] {
  const below = readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" }).map((path) => `docs/${path}`);
  const paths = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "runtime/protocol/README.md", ...below];
  return paths.filter((path) => path.endsWith(".md")).map((path) => readDocument(path));
}

export function readDocument(path: string): Document {
  const text = readFileSync(join(ROOT, path), "utf8");
  const blocks: Block[] = [];
  const prose: string[] = [];
  let open: { language: string; lines: string[]; line: number; indent: number } | null = null;
  for (const [index, line] of text.split("\n").entries()) {
    const fence = /^( *)```(\S*)/.exec(line);
    if (open !== null && fence !== null) {
      blocks.push({ language: open.language, text: `${open.lines.join("\n")}\n`, line: open.line });
      open = null;
    } else if (open !== null) open.lines.push(line.slice(open.indent));
    else if (fence !== null)
      open = { language: fence[2] ?? "", lines: [], line: index + 1, indent: fence[1]?.length ?? 0 };
    else {
      prose.push(line);
      continue;
    }
    prose.push("");
  }
  if (open !== null) throw new Error(`${path}:${open.line} a code block is not closed`);
  return { path, text, prose: prose.join("\n"), blocks };
}

/** The anchors of a document's headings, as GitHub makes them. */
export function anchorsOf({ prose }: Document): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const [, heading = ""] of prose.matchAll(/^#{1,6} +(.+)$/gm)) {
    const slug = heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
      .trim()
      .replaceAll(/\s/g, "-");
    let anchor = slug;
    for (let count = 1; anchors.has(anchor); count++) anchor = `${slug}-${count}`;
    anchors.add(anchor);
  }
  return anchors;
}

/** All that a document says, in code and outside, that the pattern's first group finds; with its place. */
export function findIn(documents: readonly Document[], pattern: RegExp): readonly { what: string; place: string }[] {
  return documents.flatMap(({ path, text }) =>
    [...text.matchAll(pattern)].map(({ 1: what = "", index }) => ({
      what,
      place: `${path}:${text.slice(0, index).split("\n").length}`,
    })),
  );
}
