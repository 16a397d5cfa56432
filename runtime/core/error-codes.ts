/**
 * Every code Turno reports, with one sentence for the documentation. Configuration problems use the
 * TURNO_CONFIG_ codes; the table is the single source, the documentation is generated from it.
 */
export const ERROR_CODES = {
  TURNO_ASSERTION_FAILED: "An internal rule was broken; this is a bug in Turno.",
  TURNO_USAGE: "A command was called with wrong arguments.",
  TURNO_DATABASE_UNREACHABLE: "PostgreSQL did not answer.",
  TURNO_DATABASE_SCHEMA: "The database's schema version is outside the range this version of Turno works with.",
  TURNO_DATABASE_REJECTED: "PostgreSQL refused a statement; nothing of it was applied.",
  TURNO_DATABASE_UNKNOWN: "The connection was lost while a statement was on its way; it may have been applied.",
  TURNO_MIGRATION_CHANGED: "A migration that was already applied has another content now.",
  TURNO_EMBEDDED_START: "The embedded PostgreSQL could not be started.",
  TURNO_EMBEDDED_MISSING: "There are no PostgreSQL binaries for this platform.",
  TURNO_PROJECT_MISSING: "There is no turno.yaml in the project's folder.",
  TURNO_PROJECT_INVALID: "The project's files have problems; nothing was applied.",
  TURNO_PROJECT_UNREADABLE: "A file of the project could not be read.",
  TURNO_SOURCE_STALE: "A newer revision is in force than the one this reconciler started from.",
  TURNO_SOURCE_OWNED: "The installation's objects belong to another source.",
  TURNO_INCLUDE_EMPTY: "The project's includes match no file, which would remove every declared object.",
  TURNO_HANDLER_BUNDLE: "A handler could not be bundled.",
  TURNO_HANDLER_LOAD: "A handler's module could not be loaded.",
  TURNO_HANDLER_TYPES: "A handler does not type-check.",
  TURNO_JOB_UNKNOWN_TYPE: "No job of this type is declared.",
  TURNO_JOB_NOT_FOUND: "There is no job with this id.",
  TURNO_JOB_PAYLOAD: "The payload does not match the job type's schema.",
  TURNO_JOB_STATE: "The job is not in a state that allows this.",
  TURNO_SCHEDULE_NOT_FOUND: "There is no schedule with this name.",
  TURNO_CRON_INVALID: "A cron expression is not valid.",
  TURNO_TIME_INVALID: "A time zone, duration or instant is not valid.",
  TURNO_API_REFUSED: "The server refuses to start without keys on an address that is not loopback.",
  TURNO_PORT_BUSY: "The port is taken by another process.",
  TURNO_SERVER_ERROR: "The Turno server answered with an error.",
  TURNO_ALREADY_RUNNING: "Another `turno up` runs this folder.",
} as const;

export type ErrorCode = keyof typeof ERROR_CODES;
