-- Retention of what no dropped partition takes along.
create index jobs_final_rest_expiry on turno.jobs_final_rest (expires_on);
create index job_attempts_final_rest_expiry on turno.job_attempts_final_rest (expires_on);
create index job_state_changes_final_rest_expiry on turno.job_state_changes_final_rest (expires_on);
create index dead_letters_expiry on turno.dead_letters (expires_on);
