-- What handlers enqueue, and what a late worker must not do.
select 1;
