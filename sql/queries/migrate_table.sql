-- migrate_table: the list of applied migrations, made by `migrate` itself; under migrate_lock.sql.
-- Locks       ACCESS EXCLUSIVE on the new relation only
CREATE TABLE IF NOT EXISTS idempotency_migration (
    version       integer     NOT NULL,
    name          text        NOT NULL,
    checksum      bytea       NOT NULL,  -- SHA-256 of the migration's text
    applied_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    oldest_server integer,               -- servers that know no schema this new do not work with it; NULL: version
    CONSTRAINT idempotency_migration_pkey PRIMARY KEY (version)
)
