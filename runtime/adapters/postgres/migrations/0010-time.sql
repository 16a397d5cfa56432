-- Calendars, pauses, backfills.
select 1;
