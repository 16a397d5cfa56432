-- What a scheduler asks every second costs as much as there is to find, however many schedules there are.
create index recurring_jobs_awaiting on turno.recurring_jobs (name) where awaits_finish;
create index recurring_jobs_on_start on turno.recurring_jobs (fired_cold_start)
  where not suspended and (spec ->> 'runOnStart')::boolean;
