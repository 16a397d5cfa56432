import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isLitter } from "../../runtime/adapters/files/litter.ts";
import { readProjectFiles } from "../../runtime/adapters/files/read-project.ts";

let root = "";

beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "turno files ")));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function write(path: string, text = ""): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

function project(include: string): string {
  return `apiVersion: turno/v1\nkind: Project\nmetadata: { name: p }\nspec: { include: ${include} }\n`;
}

async function paths(): Promise<readonly string[]> {
  return [...(await readProjectFiles(root)).keys()];
}

describe("reading a project", () => {
  it("gives turno.yaml and what its includes match, by path with forward slashes", async () => {
    write("turno.yaml", project("[turno.d/**/*.yaml, 'more/*.{yaml,yml}']"));
    write("turno.d/a.yaml");
    write("turno.d/deep/er/b.yaml");
    write("turno.d/notes.md");
    write("more/c.yml");
    write("more/below/d.yaml");
    write("other/e.yaml");
    expect(await paths()).toEqual(["more/c.yml", "turno.d/a.yaml", "turno.d/deep/er/b.yaml", "turno.yaml"]);
  });

  it("includes turno.d when turno.yaml names nothing or is broken", async () => {
    write("turno.d/a.yaml");
    for (const text of ["kind: Project\nspec: {}\n", "kind: [Project\n", ""]) {
      write("turno.yaml", text);
      expect(await paths()).toEqual(["turno.d/a.yaml", "turno.yaml"]);
    }
  });

  it("follows schema references of documents and of schemas, inside the project only", async () => {
    write("turno.yaml", project("[turno.d/*.yaml]"));
    write("turno.d/a.yaml", "kind: Job\nspec: { payload: { $ref: ../schemas/a.json#/x } }\n");
    write(
      "schemas/a.json",
      '{ "properties": { "b": { "$ref": "./b.json" }, "c": { "$ref": "#/x" }, "d": { "$ref": "https://example.com/d.json" } } }',
    );
    write(
      "schemas/b.json",
      '{ "$ref": "../../outside.json", "allOf": [{ "$ref": "../.hidden.json" }, { "$ref": "a.json" }] }',
    );
    write(".hidden.json", "{}");
    expect(await paths()).toEqual(["schemas/a.json", "schemas/b.json", "turno.d/a.yaml", "turno.yaml"]);
  });

  it("ignores what editors leave beside the files", async () => {
    write("turno.yaml", project("['turno.d/**']"));
    write("turno.d/jobs.yaml");
    for (const name of [
      ".jobs.yaml.swp",
      "jobs.yaml~",
      "4913",
      "#jobs.yaml#",
      "jobs.yaml.tmp",
      ".git/x.yaml",
      "node_modules/y.yaml",
    ]) {
      write(`turno.d/${name}`, "kind: Queue");
    }
    expect(await paths()).toEqual(["turno.d/jobs.yaml", "turno.yaml"]);
    expect(isLitter("jobs.yaml")).toBe(false);
  });

  it("reads the calendar files that documents name", async () => {
    write("turno.yaml");
    write("turno.d/a.yaml", "kind: Calendar\nspec: { ics: ../calendars/holidays.ics }\n");
    write("calendars/holidays.ics", "BEGIN:VCALENDAR\r\nX-NOTE:ics $ref\r\nEND:VCALENDAR\r\n");
    write("calendars/other.ics", "");
    expect(await paths()).toEqual(["calendars/holidays.ics", "turno.d/a.yaml", "turno.yaml"]);
  });

  it("follows links inside the project and refuses links that leave it", async () => {
    const outside = realpathSync(mkdtempSync(join(tmpdir(), "turno outside ")));
    try {
      write("turno.yaml", project("[turno.d/**/*.yaml]"));
      write("data/v1/a.yaml");
      mkdirSync(join(root, "turno.d"));
      symlinkSync(join(root, "data/v1"), join(root, "turno.d/current"));
      symlinkSync("../turno.d", join(root, "turno.d/loop"));
      expect(await paths()).toEqual(["turno.d/current/a.yaml", "turno.yaml"]);
      writeFileSync(join(outside, "b.yaml"), "");
      symlinkSync(join(outside, "b.yaml"), join(root, "turno.d/b.yaml"));
      await expect(readProjectFiles(root)).rejects.toMatchObject({ code: "TURNO_PROJECT_UNREADABLE" });
      rmSync(join(root, "turno.d/b.yaml"));
      symlinkSync(outside, join(root, "turno.d/folder"));
      await expect(readProjectFiles(root)).rejects.toThrow(/turno\.d\/folder to lie in the project's folder/);
    } finally {
      rmSync(outside, { recursive: true, force: true });
    }
  });

  it("refuses a folder without turno.yaml and a folder that is not there, naming turno init", async () => {
    await expect(readProjectFiles(root)).rejects.toMatchObject({
      code: "TURNO_PROJECT_MISSING",
      hint: expect.stringContaining("turno init"),
    });
    await expect(readProjectFiles(join(root, "nowhere"))).rejects.toMatchObject({ code: "TURNO_PROJECT_MISSING" });
  });

  it("survives a file that is nested without end, and leaves it to validation", async () => {
    write("turno.yaml", project("[turno.d/*.yaml]"));
    write("turno.d/a.yaml", `$ref: ${"[".repeat(100_000)}`);
    write("turno.d/b.yaml", `$ref: ${"{a: ".repeat(20_000)}`);
    expect(await paths()).toEqual(["turno.d/a.yaml", "turno.d/b.yaml", "turno.yaml"]);
  });

  it("leaves includes that leave the project to validation, which refuses them", async () => {
    for (const include of ["[../*.yaml]", "[/etc/*.yaml]", "['C:/x/*.yaml']"]) {
      write("turno.yaml", project(include));
      expect(await paths()).toEqual(["turno.yaml"]);
    }
  });

  it("refuses a file that is too large to be one", async () => {
    write("turno.yaml", project("[turno.d/*.yaml]"));
    write("turno.d/a.yaml", "#".repeat(5 * 1024 * 1024));
    await expect(readProjectFiles(root)).rejects.toThrow(/more than 4 MiB/);
  });
});
