import type { AppliedState } from "../protocol/ports/revisions.ts";
import { firstFireAfterEdit } from "../time/due.ts";
import { hashTiming } from "../time/timing-hash.ts";
import type { Desired } from "./desired.ts";

/** What would be in force had other files been applied just before `now`; for comparing two folders without a database. */
export function assumeApplied(files: Desired, now: Date): AppliedState {
  return {
    now,
    coldStarts: 1,
    owner: null,
    inForce: null,
    project: files.project,
    objects: files.objects,
    jobTypes: [...files.definitions].map(([name, { hash, definition }]) => ({
      name,
      definitionHash: hash,
      definition,
      removed: false,
    })),
    schedules: files.objects.flatMap((object) => {
      if (object.kind !== "Schedule") return [];
      const { timing, suspend } = object.spec;
      const nextFireAt = suspend ? null : firstFireAfterEdit(timing, now);
      return [{ name: object.name, timingHash: hashTiming(timing), suspended: suspend, nextFireAt }];
    }),
  };
}
