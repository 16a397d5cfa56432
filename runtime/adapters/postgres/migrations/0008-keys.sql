-- Concurrency keys, idempotency keys, uniqueness.
select 1;
