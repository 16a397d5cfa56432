import type { Mutant } from "./mutants.ts";

/** The text of the mutant's file with its bug in; fails with its name when the place is gone. */
export function mutate(mutant: Pick<Mutant, "name" | "file" | "find" | "replace">, text: string): string {
  const found = text.split(mutant.find).length - 1;
  if (found === 1) return text.replace(mutant.find, () => mutant.replace);
  throw new Error(
    `the mutant "${mutant.name}" expects its text once in ${mutant.file} and finds it ${found} times: say what it is now`,
  );
}
