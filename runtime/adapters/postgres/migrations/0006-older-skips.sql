-- Instants before this one that were skipped with it and have no row of their own: after a long pause only the newest have one.
alter table turno.schedule_fires add column older_skips bigint not null default 0;
