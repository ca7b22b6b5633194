-- check: is this database fit to serve? Part of every health check.
-- Returns     one row: the schema's version (0: none), and whether the node is read-only
-- Locks       none
SELECT
    COALESCE(max(m.version), 0)::int,
    pg_is_in_recovery() OR current_setting('transaction_read_only')::bool
FROM idempotency_migration AS m
