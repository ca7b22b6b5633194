-- check: is this database fit to serve, and which one is it? On every new connection, and part of every health check.
-- An unprivileged role may call all of it.
-- Returns     one row: the schema's version (0: none), the oldest schema that a server must know to work with it,
--             whether the node is read-only, whether commits are answered before they are on disk (by the configuration,
--             so on the next connection: a present one may keep its own, keep_commit.sql), the system identifier,
--             the timeline (0 on a standby, which writes none), and the mark that session.sql left ('': none)
-- Locks       none
SELECT
    COALESCE(max(m.version), 0)::int,
    -- By name: a list that was made without the column has none.
    COALESCE(max(COALESCE((to_jsonb(m) ->> 'oldest_server')::int, m.version)), 0)::int,
    pg_is_in_recovery() OR current_setting('transaction_read_only')::bool,
    (SELECT s.reset_val = 'off' FROM pg_settings AS s WHERE s.name = 'synchronous_commit'),
    (SELECT c.system_identifier FROM pg_control_system() AS c),
    -- The first 8 hexadecimal digits of a WAL file's name. What pg_control_checkpoint() says is older: right after a
    -- promotion it still is the timeline of the last checkpoint.
    CASE
        WHEN pg_is_in_recovery() THEN 0
        ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint
    END,
    COALESCE(current_setting('idempotency.connection', true), '')
FROM idempotency_migration AS m
