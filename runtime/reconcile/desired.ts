import { createHash } from "node:crypto";
import { hashState } from "../config/hash.ts";
import { STANDARD_POLICY, standardPolicy } from "../config/normalize.ts";
import type {
  DeclaredObject,
  DesiredState,
  JobDefinition,
  JobObject,
  PolicySpec,
  ProjectObject,
} from "../config/objects.ts";
import { assert } from "../core/assert.ts";
import { canonicalJson, type Json } from "../core/json.ts";
import type { HandlerBundle } from "../protocol/ports/revisions.ts";
import { hideSecrets } from "./field-changes.ts";

/** What the files ask for, with the handlers' code: everything a revision is made of. */
export interface Desired {
  readonly project: ProjectObject;
  /** Sorted by kind and name. */
  readonly objects: readonly DeclaredObject[];
  /** Files that the includes match. */
  readonly includedFiles: number;
  readonly bundles: readonly HandlerBundle[];
  /** By job type. */
  readonly definitions: ReadonlyMap<string, { readonly hash: string; readonly definition: JobDefinition }>;
  /** Over objects, positions and bundles; equal input gives an equal hash. */
  readonly contentHash: string;
}

/** Joins the files' objects with the bundles of their handlers. Handlers that ship with Turno have none. */
export function composeDesired(
  state: Pick<DesiredState, "project" | "objects" | "includedFiles">,
  bundles: readonly HandlerBundle[],
): Desired {
  const bundleHashes = new Map(bundles.map(({ handler, hash }) => [handler, hash]));
  const declared = state.objects.flatMap((object) =>
    object.kind === "Policy" ? [[object.name, object.spec] as const] : [],
  );
  const policies = new Map([[STANDARD_POLICY, standardPolicy()], ...declared]);
  const definitions = new Map<string, { hash: string; definition: JobDefinition }>();
  for (const object of state.objects) {
    if (object.kind !== "Job") continue;
    const definition = defineJobType(object, policies, bundleHashes);
    definitions.set(object.name, { hash: hashDefinition(definition), definition });
  }
  const project = withoutSecrets(state.project);
  const extra = [...bundleHashes].sort(([left], [right]) => (left < right ? -1 : 1));
  return {
    project,
    objects: state.objects,
    includedFiles: state.includedFiles,
    bundles,
    definitions,
    contentHash: hashState({ project, objects: state.objects, extra }),
  };
}

function hashDefinition(definition: JobDefinition): string {
  const text = canonicalJson(definition as unknown as Json);
  return `sha256:${createHash("sha256").update(text).digest("hex")}`;
}

function defineJobType(
  job: JobObject,
  policies: ReadonlyMap<string, PolicySpec>,
  bundleHashes: ReadonlyMap<string, string>,
): JobDefinition {
  const policy = policies.get(job.spec.policy);
  assert(policy !== undefined, `the policy ${job.spec.policy} of Job/${job.name} is not declared`);
  const { handler, queue, isolation, settings, payloadSchema, concurrencyKey, unique, retention } = job.spec;
  return {
    type: job.name,
    handler,
    bundleHash: bundleHashes.get(handler) ?? null,
    queue,
    timeoutMs: job.spec.timeoutMs ?? policy.timeoutMs,
    isolation,
    settings,
    payloadSchema,
    ...(concurrencyKey === undefined ? {} : { concurrencyKey }),
    ...(unique === undefined ? {} : { unique }),
    retention,
    policy,
  };
}

/** The project as it may be kept: settings that hold a secret instead of naming where it lies are not. */
function withoutSecrets(project: ProjectObject): ProjectObject {
  const { runtime } = project.spec;
  const url = runtime.database.url === null ? null : (hideSecrets(["database", "url"], runtime.database.url) as string);
  const keys = runtime.api.keys === null ? null : (hideSecrets(["api", "apiKey"], runtime.api.keys) as string);
  return {
    ...project,
    spec: {
      ...project.spec,
      runtime: { ...runtime, database: { ...runtime.database, url }, api: { ...runtime.api, keys } },
    },
  };
}
