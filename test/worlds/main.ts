import type { WorldRules } from "./world.ts";

export { explore } from "./explore.ts";

const RULES: Omit<WorldRules, "name" | "begin"> = {
  transport: "queue",
  faults: 2,
  callsUnderWay: 1,
  ends: ["returns", "throws"],
  aborts: [],
  requeues: 1,
};
const RUNNING = ["A claims", "A #1 starts"];
/** The owner has been seen, and then nothing of it for a whole lease. */
const SILENT = [...RUNNING, "the observer looks", "30 s pass", "30 s pass"];
const RECOVERED = [...SILENT, "the observer looks"];

/** How deep each world is explored: `quick` in every test run, `deep` by `npm run worlds`. */
export interface SmallWorld extends WorldRules {
  readonly quick: number;
  readonly deep: number;
}

/** Each begins where something is under way already, so that few steps reach far; together they meet all of the protocol. */
export const SMALL_WORLDS: readonly SmallWorld[] = [
  { ...RULES, name: "from the queue", begin: [], quick: 5, deep: 8 },
  { ...RULES, name: "while a job runs", begin: RUNNING, quick: 5, deep: 7 },
  { ...RULES, name: "a silent owner", begin: SILENT, quick: 4, deep: 6 },
  { ...RULES, name: "after a recovery", begin: RECOVERED, quick: 4, deep: 6 },
  {
    ...RULES,
    name: "a recovery that comes late",
    begin: [...SILENT, "the observer looks (call sent)", "call 1 (observeLeases) runs and is answered"],
    quick: 4,
    deep: 6,
  },
  {
    ...RULES,
    name: "a claim answered late",
    begin: ["A claims (call sent)", "call 1 (claimJobs) runs", "the observer looks", "30 s pass"],
    quick: 3,
    deep: 6,
  },
  {
    ...RULES,
    name: "a renewal answered late",
    begin: [...RUNNING, "A renews (call sent)", "call 1 (renewLeases) runs", "the observer looks", "30 s pass"],
    quick: 3,
    deep: 6,
  },
  {
    ...RULES,
    name: "a look that takes long",
    begin: ["the observer looks (call sent)", "30 s pass", "30 s pass"],
    quick: 3,
    deep: 6,
  },
  { ...RULES, name: "two calls under way", begin: [], callsUnderWay: 2, requeues: 0, quick: 4, deep: 6 },
  { ...RULES, name: "from a broker", begin: [], transport: "broker", quick: 4, deep: 6 },
  {
    ...RULES,
    name: "a broker's message again",
    begin: ["A is delivered message 1", "the observer looks", "30 s pass", "30 s pass", "the observer looks"],
    transport: "broker",
    quick: 3,
    deep: 5,
  },
  {
    ...RULES,
    name: "ends and budgets",
    begin: RUNNING,
    faults: 0,
    callsUnderWay: 0,
    ends: ["returns", "throws", "dies", "is-cut-off"],
    aborts: ["shutdown", "time-out"],
    quick: 6,
    deep: 8,
  },
];
