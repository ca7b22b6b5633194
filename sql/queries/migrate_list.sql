-- migrate_list: the migrations that were applied.
-- Returns     version, name, checksum, in order of version
-- Locks       none
SELECT
    m.version,
    m.name,
    m.checksum
FROM idempotency_migration AS m
ORDER BY m.version
