/** The seams of Turno: everything the protocol, the loops and the panel ask of the outside, by subject. */
export * from "./ports/errors.ts";
export * from "./ports/fire-history.ts";
export * from "./ports/handlers.ts";
export * from "./ports/intake.ts";
export * from "./ports/jobs.ts";
export * from "./ports/leases.ts";
export * from "./ports/outbox.ts";
export * from "./ports/panel.ts";
export * from "./ports/revisions.ts";
export * from "./ports/schedules.ts";
export * from "./ports/surroundings.ts";
export * from "./ports/transport.ts";
export * from "./ports/workers.ts";
