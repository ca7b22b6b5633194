-- check: is this database fit to serve? Part of every health check.
-- Returns     one row: the schema's version (0: none), whether the node is read-only, and whether commits are answered
--             before they are on disk
-- Locks       none
SELECT
    COALESCE(max(m.version), 0)::int,
    pg_is_in_recovery() OR current_setting('transaction_read_only')::bool,
    current_setting('synchronous_commit') = 'off'
FROM idempotency_migration AS m
