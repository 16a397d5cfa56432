import type { LoadedProject } from "../config/load-project.ts";
import { BUILTIN_HANDLERS } from "../config/normalize.ts";
import type { DesiredState } from "../config/objects.ts";
import { hasErrors, type Problem, sortProblems } from "../config/problems.ts";
import { TurnoError } from "../core/errors.ts";
import type { HandlerBundle, ProjectSnapshot, ProjectSource } from "../protocol/ports/revisions.ts";
import { composeDesired, type Desired } from "./desired.ts";

/** What bundling the handlers of a project gives. */
export interface BundledHandlers {
  /** Each with the files it was made of, below the project's root. */
  readonly bundles: readonly (HandlerBundle & { readonly inputs: readonly string[] })[];
  readonly problems: readonly Pick<Problem, "file" | "line" | "column" | "message">[];
}

export type BundleHandlers = (request: {
  /** Folder of the handlers, below the project's root. */
  readonly handlersDir: string;
  /** Paths below it. */
  readonly entries: readonly string[];
}) => Promise<BundledHandlers>;

export interface LookOptions {
  readonly source: ProjectSource;
  readonly loadProject: (files: ProjectSnapshot["files"]) => LoadedProject;
  readonly bundleHandlers: BundleHandlers;
}

/** The files as they are: what they ask for, or everything that is wrong with them. */
export type Look =
  | {
      readonly kind: "ready";
      readonly snapshot: ProjectSnapshot;
      readonly desired: Desired;
      readonly problems: readonly Problem[];
    }
  | { readonly kind: "invalid"; readonly snapshot: ProjectSnapshot; readonly problems: readonly Problem[] };

/** Handlers may turn out to be made of files that were not looked at: then everything is read once more. */
const LOOK_TRIES = 5;

/**
 * Reads the files, validates them and bundles their handlers, all of one moment: a look during which a file changed
 * is taken again. Bundles are kept while the handlers' sources stay the same.
 */
export function createLook(options: LookOptions): (signal: AbortSignal) => Promise<Look> {
  let kept: { readonly key: string; readonly bundled: BundledHandlers } | null = null;
  const bundle = async (state: DesiredState, snapshot: ProjectSnapshot): Promise<BundledHandlers> => {
    const entries = handlersOf(state);
    const key = JSON.stringify([snapshot.handlersFingerprint, state.project.spec.handlers, entries]);
    if (kept?.key === key) return kept.bundled;
    const bundled = await options.bundleHandlers({ handlersDir: state.project.spec.handlers, entries });
    // What went wrong may go right the next time, without an edit: packages that are still being installed.
    kept = bundled.problems.length === 0 ? { key, bundled } : null;
    return bundled;
  };
  let last: (Look & { readonly kind: "ready" }) | null = null;
  return async (signal) => {
    for (let tries = 1; tries <= LOOK_TRIES; tries++) {
      const snapshot = await options.source.read(signal);
      // The very same files ask for the very same: nothing is parsed again.
      if (last !== null && snapshot.files === last.snapshot.files) return { ...last, snapshot };
      const { state, problems } = options.loadProject(snapshot.files);
      if (state === null) return { kind: "invalid", snapshot, problems };
      const bundled = await bundle(state, snapshot);
      const grew = options.source.addInputs(ownInputs(bundled));
      if (grew || !(await options.source.isCurrent(snapshot))) {
        kept = null;
        continue;
      }
      const all = sortProblems([...problems, ...bundled.problems.map(toProblem)]);
      if (hasErrors(all)) return { kind: "invalid", snapshot, problems: all };
      last = { kind: "ready", snapshot, desired: composeDesired(state, bundled.bundles), problems: all };
      return last;
    }
    throw new TurnoError(
      "TURNO_PROJECT_UNREADABLE",
      "expected the handlers to stay the same while they are bundled, found them still changing",
    );
  };
}

function handlersOf(state: DesiredState): readonly string[] {
  const handlers = state.objects.flatMap((object) => (object.kind === "Job" ? [object.spec.handler] : []));
  return [...new Set(handlers)].filter((handler) => !BUILTIN_HANDLERS.includes(handler)).sort();
}

/** Packages are watched through the lock file: their own files are too many. */
function ownInputs({ bundles }: BundledHandlers): readonly string[] {
  const inputs = bundles.flatMap((bundle) => bundle.inputs);
  return [...new Set(inputs)].filter(
    (path) => !path.split("/").some((segment) => segment === ".." || segment === "node_modules"),
  );
}

function toProblem(problem: BundledHandlers["problems"][number]): Problem {
  return { code: "TURNO_HANDLER_BUNDLE", severity: "error", ...problem, path: "", hint: null };
}
