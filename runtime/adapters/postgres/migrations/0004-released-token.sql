-- The token of the last execution that put the job off: a finish without an attempt, whose answer was lost, is known by it.
alter table turno.jobs add column released_token bigint;
