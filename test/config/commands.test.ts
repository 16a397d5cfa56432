import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { addInitCommand } from "../../runtime/cli/commands/init.ts";
import { addSchemaCommand } from "../../runtime/cli/commands/schema.ts";
import { addValidateCommand } from "../../runtime/cli/commands/validate.ts";
import type { CommandIo } from "../../runtime/cli/io.ts";

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "turno project "));
});
afterEach(async () => {
  await rm(root, { recursive: true, force: true });
});

async function run(
  ...parameters: string[]
): Promise<{ readonly code: number | null; readonly out: string; readonly err: string }> {
  const result = { code: null as number | null, out: "", err: "" };
  const io: CommandIo = {
    cwd: root,
    env: {},
    colour: false,
    errIsTerminal: false,
    interactive: false,
    out: (text) => void (result.out += text),
    err: (text) => void (result.err += text),
    signal: new AbortController().signal,
  };
  const program = new Command().exitOverride();
  const setExitCode = (code: number): void => void (result.code = code);
  addValidateCommand(program, io, setExitCode);
  addInitCommand(program, io, setExitCode);
  addSchemaCommand(program, io, setExitCode);
  for (const command of program.commands) command.exitOverride().configureOutput({ writeErr: () => {} });
  await program.parseAsync(parameters, { from: "user" });
  return result;
}

describe("turno init", () => {
  test("makes a project that is valid, its handler's types included", async () => {
    expect((await run("init")).code).toBe(0);
    await symlink(join(import.meta.dirname, "../../node_modules"), join(root, "node_modules"));
    const { code, out } = await run("validate");
    expect(out).toBe("no problems\n");
    expect(code).toBe(0);
  });

  test("leaves files that are there as they are", async () => {
    await writeFile(join(root, "turno.yaml"), "mine\n");
    const { code, out } = await run("init", "--dir", ".");
    expect(code).toBe(0);
    expect(out).toContain("left turno.yaml as it is");
    expect(out).toContain("wrote handlers/hello.ts");
    expect(await readFile(join(root, "turno.yaml"), "utf8")).toBe("mine\n");
  });
});

describe("turno validate", () => {
  test("says what is missing in a folder without a project", async () => {
    const { code, out } = await run("validate", "--json");
    expect(code).toBe(1);
    expect(JSON.parse(out)).toMatchObject({
      ok: false,
      problems: [{ code: "TURNO_PROJECT_MISSING", file: "turno.yaml" }],
    });
    expect(out).toContain("turno init");
  });

  test("shows problems of the files with exit 1, in every format", async () => {
    await run("init");
    await writeFile(
      join(root, "turno.d/bad.yaml"),
      "apiVersion: turno/v1\nkind: Job\nmetadata: { name: bad }\nspec: { handler: none.ts }\n",
    );
    for (const format of ["text", "json", "github", "sarif"]) {
      const { code, out } = await run("validate", "--format", format);
      expect(code).toBe(1);
      expect(out).toContain("TURNO_CONFIG_HANDLER");
    }
  });

  test("checks the settings of a command", async () => {
    await run("init");
    await writeFile(
      join(root, "turno.d/command.yaml"),
      "apiVersion: turno/v1\nkind: Job\nmetadata: { name: bad }\nspec: { handler: builtin/command, settings: { comand: [ls] } }\n",
    );
    const { code, out } = await run("validate", "--json");
    expect(code).toBe(1);
    expect(
      JSON.parse(out)
        .problems.map(({ path }: { path: string }) => path)
        .sort(),
    ).toEqual(["/spec/settings/comand", "/spec/settings/command"]);
  });

  test("refuses a format that it doesn't have", async () => {
    await expect(run("validate", "--format", "xml")).rejects.toMatchObject({ code: "commander.invalidArgument" });
  });

  test("the project of this repository is valid", async () => {
    const { code, out } = await run("validate", "--no-types", "--json", "--dir", join(import.meta.dirname, "../.."));
    expect(JSON.parse(out).problems.filter(({ severity }: { severity: string }) => severity === "error")).toEqual([]);
    expect(code).toBe(0);
  });
});

describe("turno schema", () => {
  test("prints the combined schema, and one kind with what it needs", async () => {
    expect(JSON.parse((await run("schema")).out)).toEqual(
      JSON.parse(await readFile(join(import.meta.dirname, "../../schemas/turno/turno.schema.json"), "utf8")),
    );
    const queue = JSON.parse((await run("schema", "queue")).out);
    expect(queue.title).toBe("Queue");
    expect(Object.keys(queue.$defs).sort()).toEqual(["apiVersion", "metadata", "name"]);
  });

  test("names the nearest kind when there is none such", async () => {
    const { code, err } = await run("schema", "Queu");
    expect(code).toBe(64);
    expect(err).toContain("did you mean Queue?");
  });
});
