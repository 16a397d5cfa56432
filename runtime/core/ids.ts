declare const brand: unique symbol;
type Branded<Base, Name extends string> = Base & { readonly [brand]: Name };

/** A job's id: UUIDv7 in lower case, so ids sort by creation. */
export type JobId = Branded<string, "JobId">;
/** A worker process of one boot; random, never reused, so a restarted worker is never taken for its predecessor. */
export type WorkerId = Branded<string, "WorkerId">;
/** The dispatch token: a growing number from one database sequence, as bigint since it passes 2^53. */
export type DispatchToken = Branded<bigint, "DispatchToken">;
/** Hex SHA-256 with the prefix `sha256:`. */
export type ContentHash = Branded<string, "ContentHash">;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export function isJobId(text: string): text is JobId {
  return UUID.test(text);
}

/** The names of objects, queues and job types. */
export const NAME_PATTERN = /^[a-z0-9][a-z0-9._-]{0,199}$/;
