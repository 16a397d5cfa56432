import { type LoadProjectOptions, loadProject } from "../../runtime/config/load-project.ts";
import type { DeclaredObject, ObjectKind } from "../../runtime/config/objects.ts";
import type { Problem } from "../../runtime/config/problems.ts";

export const PROJECT = `apiVersion: turno/v1
kind: Project
metadata: { name: acme }
spec: { timeZone: UTC }
`;

/** A document of a kind with its spec in flow style. */
export function declare(kind: ObjectKind, name: string, spec: string): string {
  return `apiVersion: turno/v1\nkind: ${kind}\nmetadata: { name: ${name} }\nspec: ${spec}\n`;
}

/** Loads turno.yaml and turno.d/a.yaml (and others, by path). */
export function load(
  text: string | Uint8Array,
  options: LoadProjectOptions & {
    readonly project?: string;
    readonly others?: Readonly<Record<string, string | Uint8Array>>;
  } = {},
) {
  const { project = PROJECT, others = {}, ...rest } = options;
  const files = new Map([["turno.yaml", project], ["turno.d/a.yaml", text], ...Object.entries(others)]);
  return { files, ...loadProject(files, rest) };
}

/** `file:line:column CODE message`, for comparing whole lists. */
export function places(problems: readonly Problem[]): readonly string[] {
  return problems.map(({ file, line, column, code }) => `${file}:${line}:${column} ${code}`);
}

export function find<Kind extends DeclaredObject["kind"]>(
  objects: readonly DeclaredObject[] | undefined,
  kind: Kind,
  name: string,
): Extract<DeclaredObject, { kind: Kind }> {
  const found = objects?.find((object) => object.kind === kind && object.name === name);
  if (found === undefined) throw new Error(`${kind}/${name} is not there`);
  return found as Extract<DeclaredObject, { kind: Kind }>;
}
