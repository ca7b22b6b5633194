-- migrate_record: notes a migration, in the transaction that applied it.
-- Parameters  $1 int version, $2 text name, $3 bytea checksum, $4 int oldest_server
-- Returns     nothing
-- Locks       the new row
INSERT INTO idempotency_migration (version, name, checksum, oldest_server)
VALUES ($1::int, $2::text, $3::bytea, $4::int)
