import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join, posix } from "node:path";
import { expect, test } from "vitest";
import { ERROR_CODES } from "../../runtime/core/errors.ts";
import { listPaths } from "../architecture/project-sources.ts";
import { listCommands, readHelp } from "./command-help.ts";
import { anchorsOf, findIn, ROOT, readDocument, readDocuments } from "./documents.ts";

const documents = readDocuments();
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");

/** Whatever the program is made of, as one text. */
async function readProgram(): Promise<string> {
  const paths = await listPaths(["runtime", "web", "handlers", "scripts"]);
  return paths
    .filter((path) => /\.(tsx?|mjs|js)$/.test(path))
    .map(read)
    .join("\n");
}

test("every relative link leads to a file, and to a heading where it names one", () => {
  const broken = documents.flatMap((document) => {
    const targets = [
      ...document.prose.matchAll(/\]\(([^)\s]+)\)/g),
      ...document.prose.matchAll(/(?:srcset|src|href)="([^"]+)"/g),
    ].map(([, target = ""]) => target);
    return targets
      .filter((target) => !/^[a-z]+:/.test(target))
      .filter((target) => {
        const [file = "", anchor] = target.split("#");
        const path = file === "" ? document.path : posix.join(posix.dirname(document.path), file);
        if (!existsSync(join(ROOT, path))) return true;
        return anchor !== undefined && !anchorsOf(readDocument(path)).has(anchor);
      })
      .map((target) => `${document.path}: ${target}`);
  });
  expect(broken).toEqual([]);
});

test("every document is reachable from the index, and every decision from theirs", () => {
  const index = `${read("docs/README.md")}${read("docs/decisions/README.md").replaceAll("](", "](decisions/")}`;
  const missing = documents
    .map(({ path }) => path)
    .filter((path) => path.startsWith("docs/") && path !== "docs/README.md")
    .filter((path) => !index.includes(`](${path.slice("docs/".length)})`));
  expect(missing).toEqual([]);
});

test("every command that a document names is there", async () => {
  const commands = new Set(await listCommands());
  expect(commands.size).toBeGreaterThan(15);
  const found = [
    ...findIn(documents, /(?:`|\$ |npx )turno ([a-z][a-z-]*)/g),
    ...findIn(documents, /^ *turno ([a-z][a-z-]*)/gm),
  ];
  expect(found.length).toBeGreaterThan(50);
  expect(found.filter(({ what }) => !commands.has(what))).toEqual([]);
});

test("every npm script that a document names is there", () => {
  const { scripts } = JSON.parse(read("package.json")) as { scripts: Readonly<Record<string, string>> };
  const found = findIn(documents, /npm run ([a-z][a-z:-]*)/g);
  expect(found.length).toBeGreaterThan(0);
  expect(found.filter(({ what }) => scripts[what] === undefined)).toEqual([]);
});

test("the page of the command line names every command and, with it or for all, every option", async () => {
  const [forAll = "", ...sections] = readDocument("docs/cli.md").text.split(/^(?=#{2,3} )/m);
  const missing: string[] = [];
  for (const command of await listCommands()) {
    const heading = new RegExp(`^### .*\`turno ${command}[ \`]`);
    const section = sections.find((text) => heading.test(text));
    if (section === undefined) missing.push(command);
    for (const [option] of (await readHelp([command])).matchAll(/(?<=^ {2}(?:-\w, )?)--[a-z][a-z-]*/gm)) {
      const isNamed = new RegExp(`${option}(?![a-z-])`).test(`${forAll}${section ?? ""}`);
      if (option !== "--help" && !isNamed) missing.push(`${command} ${option}`);
    }
  }
  expect(missing).toEqual([]);
});

test("every error code that a document names is one, and the page of codes is what the code gives", async () => {
  const family =
    /^TURNO_(?:ASSERTION|DATABASE|MIGRATION|EMBEDDED|PROJECT|CONFIG|SOURCE|INCLUDE|JOB|SCHEDULE|CRON|SERVER|ALREADY)_/;
  const variables = new Set(["TURNO_DATABASE_URL", "TURNO_PROJECT_ROOT", "TURNO_JOB_ID"]);
  const found = findIn(documents, /\b(TURNO_[A-Z_]+[A-Z])\b/g).filter(({ what }) => family.test(what));
  expect(found.filter(({ what }) => !(what in ERROR_CODES) && !variables.has(what))).toEqual([]);
  const { generateErrorDocs } = (await import(join(ROOT, "scripts/generate-error-docs.mjs"))) as {
    generateErrorDocs(root: string): string;
  };
  const text = generateErrorDocs(ROOT);
  expect(read("docs/errors.md"), "run node scripts/generate-error-docs.mjs").toBe(text);
  for (const [code, sentence] of Object.entries(ERROR_CODES)) expect(text).toContain(`| \`${code}\` | ${sentence} |`);
});

test("every environment variable that a document names is read by the program", async () => {
  const program = await readProgram();
  const found = findIn(documents, /\b(TURNO_[A-Z0-9_]+)\b/g).filter(({ what }) => !(what in ERROR_CODES));
  const unread = found.filter(
    ({ what }) => !/^TURNO_(?:RUNTIME|CONFIG|HANDLER|API)_$/.test(what) && !isKnown(what, program),
  );
  expect(unread).toEqual([]);
});

/** Variables of settings are made from the settings' paths; the reference, which is generated, lists them. */
function isKnown(variable: string, program: string): boolean {
  if (variable.startsWith("TURNO_RUNTIME_")) {
    const listed = read("docs/configuration.md").replaceAll(/_0(?=_|`)/g, "_N");
    return listed.includes(`\`${variable.replaceAll(/_\d+(?=_|$)/g, "_N")}\``);
  }
  return program.includes(variable);
}

test("every log line that the operations page explains is one that the program writes", async () => {
  const program = await readProgram();
  const { text } = readDocument("docs/operations.md");
  const rows = [...text.matchAll(/^\| (?:debug|info|warn|error) \| (.+?) \|/gm)];
  const lines = rows.flatMap(([, cell = ""]) => [...cell.matchAll(/`([^`]+)`/g)].map(([, line = ""]) => line));
  expect(lines.length).toBeGreaterThan(20);
  const isWritten = (line: string) => program.includes(line.replace("revision N", `revision \${revision.number}`));
  expect(lines.filter((line) => !isWritten(line))).toEqual([]);
});

test("the pictures are small, and every one is shown somewhere", () => {
  const pictures = readdirSync(join(ROOT, "docs/images"));
  expect(pictures.length).toBeGreaterThan(1);
  for (const picture of pictures) {
    expect(statSync(join(ROOT, "docs/images", picture)).size).toBeLessThan(250_000);
    expect(documents.some(({ text }) => text.includes(`images/${picture}`))).toBe(true);
  }
});
