import { MUTANTS } from "./mutants.ts";

const BEGIN = "<!-- mutants: written by npm run check:mutants -- --write -->";
const END = "<!-- end of mutants -->";

/** Who saw a mutant, and what it took. */
export interface Kill {
  readonly place: string;
  readonly by: string;
  readonly effort: string;
}

/** The document with the rows of these mutants written anew, in the order of the list; those of others stay. */
export function writeTable(document: string, kills: ReadonlyMap<string, Kill>): string {
  const [before, between, after] = split(document);
  const rows = MUTANTS.flatMap(({ name, file }) => {
    const kill = kills.get(name);
    if (kill !== undefined)
      return [`| ${name} | \`${file}\` | ${kill.place}: ${kill.by.replaceAll("|", "/")} | ${kill.effort} |`];
    return between.split("\n").filter((row) => row.startsWith(`| ${name} | `));
  });
  const table = ["| mutant | in | killed by | after |", "|---|---|---|---|", ...rows].join("\n");
  return `${before}${BEGIN}\n\n${table}\n\n${END}${after}`;
}

/** The names in the document's table. */
export function readTable(document: string): string[] {
  const [, between] = split(document);
  return [...between.matchAll(/^\| (.+?) \| `/gm)].map(([, name = ""]) => name);
}

function split(document: string): readonly [string, string, string] {
  const begin = document.indexOf(BEGIN);
  const end = document.indexOf(END);
  if (begin < 0 || end < begin) throw new Error(`expected "${BEGIN}" and "${END}" in the document`);
  return [document.slice(0, begin), document.slice(begin, end), document.slice(end + END.length)];
}
