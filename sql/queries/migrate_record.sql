-- migrate_record: notes a migration, in the transaction that applied it.
-- Parameters  $1 int version, $2 text name, $3 bytea checksum
-- Returns     nothing
-- Locks       the new row
INSERT INTO idempotency_migration (version, name, checksum)
VALUES ($1::int, $2::text, $3::bytea)
