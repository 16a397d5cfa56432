export { MUTANTS } from "./mutants.ts";
export { mutate } from "./mutate.ts";
export { readTable, writeTable } from "./table.ts";
