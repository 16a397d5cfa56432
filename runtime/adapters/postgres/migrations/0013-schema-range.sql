-- A migration that takes away what older code used ("contract") says which code still works on it: the newest schema
-- that code knows. Code that is older refuses to start; null: whatever worked before works on.
alter table turno.migrations add column oldest_code integer check (oldest_code < version);
