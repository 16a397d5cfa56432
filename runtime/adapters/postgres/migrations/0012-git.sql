-- Revisions that can be gone back to, and what keeps a source's files from being in force.
alter table turno.revisions
  -- The revision that a rollback brought back; null: it came from files.
  add column rollback_of bigint,
  -- Content of the source that a rollback holds back: it is applied again once it changes.
  add column held_content text;

-- The definition of each job type by revision; the current one has removed_in null. Code without an edit of its
-- document makes no version of the object, so that objects alone do not tell what ran.
create table turno.job_type_versions (
  name            text not null,
  definition_hash text not null references turno.job_definitions,
  introduced_in   bigint not null,
  removed_in      bigint,
  primary key (name, introduced_in)
);
create unique index job_type_versions_current on turno.job_type_versions (name) where removed_in is null;
insert into turno.job_type_versions (name, definition_hash, introduced_in)
select name, definition_hash, revision
from turno.job_types
where not removed;

alter table turno.sync_status
  add column status text not null default 'Synced' check (status in ('Synced', 'OutOfSync', 'Invalid', 'Held')),
  -- The newest commit that was seen; null: the files are no commit.
  add column commit_id text,
  -- When the source last answered; longer ago than stale_after_ms, it is shown as Stale.
  add column reached_at timestamptz not null default now(),
  add column stale_after_ms bigint not null default 900000;
update turno.sync_status set status = 'OutOfSync', reached_at = checked_at where not ok;
