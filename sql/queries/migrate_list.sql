-- migrate_list: the migrations that were applied.
-- Returns     version, name, checksum, when, and the oldest schema that a server must know to work with it, in order of
--             version
-- Locks       none
SELECT
    m.version,
    m.name,
    m.checksum,
    m.applied_at,
    -- By name: a list that was made without the column has none.
    COALESCE((to_jsonb(m) ->> 'oldest_server')::int, m.version)
FROM idempotency_migration AS m
ORDER BY m.version
