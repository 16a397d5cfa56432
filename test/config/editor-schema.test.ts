import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const ROOT = new URL("../../", import.meta.url);

test("the first line of every declared file leads editors to the schema", async () => {
  const folder = await readdir(new URL("turno.d/", ROOT));
  const files = ["turno.yaml", ...folder.map((name) => `turno.d/${name}`)];
  for (const file of files) {
    const url = new URL(file, ROOT);
    const [first = ""] = (await readFile(url, "utf8")).split("\n");
    const [, path = ""] = /^# yaml-language-server: \$schema=(\S+)$/.exec(first) ?? [];
    expect(path, file).not.toBe("");
    expect(existsSync(fileURLToPath(new URL(path, url))), `${file}: ${path}`).toBe(true);
  }
});
