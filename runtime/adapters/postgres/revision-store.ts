import type { DeclaredObject, JobDefinition, ProjectObject } from "../../config/objects.ts";
import { assert } from "../../core/assert.ts";
import type { JobId } from "../../core/ids.ts";
import type { Json } from "../../core/json.ts";
import type {
  AppliedSchedule,
  AppliedState,
  Drift,
  RemovedNames,
  RevisionStore,
  RevisionSummary,
  RevisionWrites,
  SyncProblem,
  SyncStatus,
} from "../../protocol/ports/revisions.ts";
import { releaseKeys } from "./concurrency-keys.ts";
import type { Database } from "./pool.ts";
import { CANCEL_WAITING_JOBS, COUNT_WAITING_JOBS } from "./removal-statements.ts";
import * as statements from "./revision-statements.ts";

type Query = Database["query"];

/** Problems of a look are kept for people, who read the first ones. */
const KEPT_PROBLEMS = 100;
/** Payloads that are loaded at once, to be looked at. */
const WAITING_PAYLOAD_BYTES = 32 * 1024 * 1024;

/** Revisions on PostgreSQL. */
export function createRevisionStore(database: Database): RevisionStore {
  return {
    loadApplied: () =>
      database.transaction(async (query) => {
        await query(statements.READ_ONE_MOMENT);
        return readApplied(query, statements.READ_SCHEDULES);
      }),

    applyRevision: (decide) => database.transaction((query) => applyOnce(query, decide)),

    async revisionInForce() {
      const [row] = await database.query<RevisionRow>(statements.READ_REVISION_IN_FORCE);
      return row === undefined ? null : toRevision(row);
    },

    async findRevision({ source, contentHash }) {
      const [row] = await database.query<RevisionRow>(statements.FIND_REVISION, [source, contentHash]);
      return row === undefined ? null : toRevision(row);
    },

    async listRevisions({ before, limit }) {
      const parameters = [before ?? Number.MAX_SAFE_INTEGER, limit];
      const rows = await database.query<RevisionRow & { readonly changes: Json }>(
        statements.LIST_REVISIONS,
        parameters,
      );
      return rows.map((row) => ({ ...toRevision(row), changes: row.changes }));
    },

    loadDrift: () =>
      database.transaction(async (query) => {
        await query(statements.READ_ONE_MOMENT);
        const edited = await query<Drift["edited"][number]>(statements.READ_EDITED);
        return { edited, pauses: await query<Drift["pauses"][number]>(statements.READ_PAUSES) };
      }),

    loadRevisionContent: (number) =>
      database.transaction(async (query) => {
        await query(statements.READ_ONE_MOMENT);
        const [row] = await query<RevisionRow>(statements.READ_REVISION, [number]);
        if (row === undefined) return null;
        const objects = await query<ProjectObject | DeclaredObject>(statements.READ_OBJECTS_OF, [number]);
        const types = await query<Omit<JobTypeRow, "removed">>(statements.READ_DEFINITIONS_OF, [number]);
        return {
          revision: toRevision(row),
          ...splitObjects(objects),
          definitions: types.map(({ name, definition_hash: hash, definition }) => ({ name, hash, definition })),
        };
      }),

    async loadBundle(hash) {
      const [row] = await database.query<{ code: string }>(statements.LOAD_BUNDLE, [hash]);
      return row?.code ?? null;
    },

    async countLiveJobs(types, limit) {
      if (types.length === 0) return new Map();
      const rows = await database.query<{ type: string; jobs: number }>(statements.COUNT_LIVE_JOBS, [types, limit]);
      return new Map(rows.map(({ type, jobs }) => [type, jobs]));
    },

    async countWaitingJobs({ jobTypes, schedules }, limit) {
      if (jobTypes.length + schedules.length === 0) return new Map();
      const rows = await database.query<{ object: string; jobs: number }>(COUNT_WAITING_JOBS, [
        jobTypes,
        schedules,
        limit,
      ]);
      return new Map(rows.map(({ object, jobs }) => [object, jobs]));
    },

    async loadWaitingPayloads(type, limit) {
      const parameters = [type, limit, WAITING_PAYLOAD_BYTES];
      const rows = await database.query<{ payload: Json }>(statements.LOAD_WAITING_PAYLOADS, parameters);
      return rows.map(({ payload }) => payload);
    },

    async recordSync({ source, ok, revision, problems, status, commit, staleAfterMs }) {
      const kept = JSON.stringify(problems.slice(0, KEPT_PROBLEMS));
      await database.query(statements.RECORD_SYNC, [
        ...[source.name, source.origin, ok, revision, kept],
        ...[status, commit, staleAfterMs],
      ]);
    },

    async loadSyncStatus() {
      const rows = await database.query<SyncRow>(statements.LOAD_SYNC_STATUS);
      return rows.map(toSyncStatus);
    },
  };
}

async function applyOnce(
  query: Query,
  decide: (locked: AppliedState) => RevisionWrites | null,
): Promise<RevisionSummary | null> {
  await query(statements.LOCK_RECONCILERS);
  const locked = await readApplied(query, statements.LOCK_SCHEDULES);
  const writes = decide(locked);
  return writes === null ? null : writeRevision(query, writes, locked.now);
}

async function readApplied(query: Query, readSchedules: string): Promise<AppliedState> {
  const [facts] = await query<{ now: Date; cold_starts: string }>(statements.READ_FACTS);
  assert(facts !== undefined, "turno.installation has no row");
  const [revision] = await query<RevisionRow>(statements.READ_REVISION_IN_FORCE);
  const objects = await query<ProjectObject | DeclaredObject>(statements.READ_OBJECTS);
  const jobTypes = await query<JobTypeRow>(statements.READ_JOB_TYPES);
  const schedules = await query<ScheduleRow>(readSchedules);
  const inForce = revision === undefined ? null : toRevision(revision);
  return {
    now: facts.now,
    coldStarts: Number(facts.cold_starts),
    owner: inForce?.source ?? null,
    inForce,
    ...splitObjects(objects),
    jobTypes: jobTypes.map(({ name, definition_hash, definition, removed }) => ({
      name,
      definitionHash: definition_hash,
      definition,
      removed,
    })),
    schedules: schedules.map(toSchedule),
  };
}

function splitObjects(objects: readonly (ProjectObject | DeclaredObject)[]) {
  return {
    project: objects.find((object): object is ProjectObject => object.kind === "Project") ?? null,
    objects: objects.filter((object): object is DeclaredObject => object.kind !== "Project"),
  };
}

/** The order matters: job types, queues and schedules point at the versions that are current by then. */
async function writeRevision(query: Query, writes: RevisionWrites, now: Date): Promise<RevisionSummary> {
  const { source, provenance } = writes;
  await query(statements.UPSERT_SOURCE, [source.name, source.origin]);
  const [row] = await query<{ number: string }>(statements.INSERT_REVISION, [
    source.name,
    writes.contentHash,
    provenance.commit,
    provenance.baseCommit,
    provenance.author,
    provenance.committedAt,
    provenance.message,
    now,
    writes.appliedBy,
    JSON.stringify(writes.changes),
    writes.rollbackOf,
    writes.heldContent,
  ]);
  assert(row !== undefined, "a new revision got no number");
  const number = Number(row.number);
  const ended = [...writes.versions, ...writes.removed];
  await query(statements.END_VERSIONS, [number, ended.map(({ kind }) => kind), ended.map(({ name }) => name)]);
  await query(statements.INSERT_VERSIONS, [source.name, number, JSON.stringify(writes.versions.map(toVersionRow))]);
  await writeBundles(query, writes);
  await query(statements.INSERT_DEFINITIONS, [JSON.stringify(writes.definitions)]);
  const jobTypes = writes.jobTypes.map(({ name, definitionHash, queue }) => ({
    name,
    definition_hash: definitionHash,
    queue,
  }));
  await query(statements.UPSERT_JOB_TYPES, [number, JSON.stringify(jobTypes)]);
  await query(statements.MARK_JOB_TYPES_REMOVED, [writes.removedJobTypes]);
  const changedTypes = [...jobTypes.map(({ name }) => name), ...writes.removedJobTypes];
  await query(statements.END_JOB_TYPE_VERSIONS, [number, changedTypes]);
  await query(statements.INSERT_JOB_TYPE_VERSIONS, [number, JSON.stringify(jobTypes)]);
  await query(statements.UPSERT_QUEUES, [JSON.stringify(writes.queues)]);
  await query(statements.RELEASE_QUEUES, [writes.removedQueues]);
  if (writes.renamedSchedules.length > 0) {
    const [from, to] = [
      writes.renamedSchedules.map((name) => name.from),
      writes.renamedSchedules.map((name) => name.to),
    ];
    await query(statements.RENAME_SCHEDULES, [from, to]);
  }
  await query(statements.WRITE_SCHEDULES, [number, JSON.stringify(writes.schedules.map(toScheduleRow)), now]);
  await query(statements.DELETE_SCHEDULES, [writes.removedSchedules]);
  await cancelWaiting(query, writes.cancelled);
  return {
    ...provenance,
    number,
    source,
    contentHash: writes.contentHash,
    appliedAt: now,
    appliedBy: writes.appliedBy,
    rollbackOf: writes.rollbackOf,
    heldContent: writes.heldContent,
  };
}

/** Their concurrency keys go on in the same transaction; whom that brings into a queue is found by the next poll. */
async function cancelWaiting(query: Query, { jobTypes, schedules }: RemovedNames): Promise<void> {
  if (jobTypes.length + schedules.length === 0) return;
  const rows = await query<{ id: JobId; key: string | null }>(CANCEL_WAITING_JOBS, [jobTypes, schedules]);
  await releaseKeys(
    query,
    rows.flatMap(({ id, key }) => (key === null ? [] : [{ id, key }])),
  );
}

/** A bundle's code may be large: only what is not there yet travels, each alone. */
async function writeBundles(query: Query, { bundles }: RevisionWrites): Promise<void> {
  const rows = await query<{ hash: string }>(statements.FIND_BUNDLES, [bundles.map(({ hash }) => hash)]);
  const stored = new Set(rows.map(({ hash }) => hash));
  for (const { hash, handler, code, externals } of bundles) {
    if (!stored.has(hash)) await query(statements.INSERT_BUNDLE, [hash, handler, code, JSON.stringify(externals)]);
  }
}

function toVersionRow({
  kind,
  name,
  labels,
  description,
  spec,
  specHash,
  file,
  line,
}: RevisionWrites["versions"][number]) {
  return { kind, name, labels, description, spec, spec_hash: specHash, file, line };
}

function toScheduleRow({
  name,
  jobType,
  spec,
  timingHash,
  suspended,
  next,
  firedColdStart,
}: RevisionWrites["schedules"][number]) {
  return {
    name,
    job_type: jobType,
    spec,
    timing_hash: timingHash,
    suspended,
    keeps: next.kind === "keep",
    next_fire_at: next.kind === "keep" ? null : next.at,
    fired_cold_start: firedColdStart,
  };
}

interface RevisionRow {
  readonly number: string;
  readonly source: string;
  readonly origin: string;
  readonly content_hash: string;
  readonly commit_id: string | null;
  readonly base_commit: string | null;
  readonly author: string | null;
  readonly committed_at: Date | null;
  readonly message: string | null;
  readonly applied_at: Date;
  readonly applied_by: string;
  readonly rollback_of: string | null;
  readonly held_content: string | null;
}

function toRevision(row: RevisionRow): RevisionSummary {
  return {
    number: Number(row.number),
    source: { name: row.source, origin: row.origin },
    contentHash: row.content_hash,
    commit: row.commit_id,
    baseCommit: row.base_commit,
    author: row.author,
    committedAt: row.committed_at,
    message: row.message,
    appliedAt: row.applied_at,
    appliedBy: row.applied_by,
    rollbackOf: row.rollback_of === null ? null : Number(row.rollback_of),
    heldContent: row.held_content,
  };
}

interface JobTypeRow {
  readonly name: string;
  readonly definition_hash: string;
  readonly definition: JobDefinition;
  readonly removed: boolean;
}

interface ScheduleRow {
  readonly name: string;
  readonly timing_hash: string;
  readonly suspended: boolean;
  readonly paused: boolean;
  readonly next_fire_at: Date | null;
}

function toSchedule(row: ScheduleRow): AppliedSchedule {
  const { name, timing_hash: timingHash, suspended, paused, next_fire_at: nextFireAt } = row;
  return { name, timingHash, suspended, paused, nextFireAt };
}

interface SyncRow {
  readonly source: string;
  readonly origin: string;
  readonly checked_at: Date;
  readonly ok: boolean;
  readonly last_ok_at: Date | null;
  readonly revision: string | null;
  readonly problems: readonly SyncProblem[];
  readonly status: SyncStatus["status"];
  readonly commit_id: string | null;
  readonly reached_at: Date;
}

function toSyncStatus(row: SyncRow): SyncStatus {
  return {
    source: { name: row.source, origin: row.origin },
    checkedAt: row.checked_at,
    ok: row.ok,
    lastOkAt: row.last_ok_at,
    revision: row.revision === null ? null : Number(row.revision),
    problems: row.problems,
    status: row.status,
    commit: row.commit_id,
    reachedAt: row.reached_at,
  };
}
