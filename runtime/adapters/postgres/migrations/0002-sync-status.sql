-- How far each source's files are from what is in force, and the commit that changed files stand on.
alter table turno.revisions add column base_commit text;
create index revisions_number on turno.revisions (number);
create index revisions_content on turno.revisions (source, content_hash, number);

create table turno.sync_status (
  source        text primary key,
  origin        text not null,
  checked_at    timestamptz not null default now(),
  ok            boolean not null,
  -- When the files were last in force as they were found.
  last_ok_at    timestamptz,
  -- The revision in force after the look.
  revision      bigint,
  problems      jsonb not null default '[]'
);
