-- count_blocks: how many heap blocks the record table has, for the walks of sweep and purge.
-- Returns     one row, one bigint
-- Locks       none
SELECT pg_relation_size('idempotency_record') / current_setting('block_size')::bigint
