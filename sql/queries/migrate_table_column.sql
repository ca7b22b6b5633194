-- migrate_table_column: brings a list of applied migrations that was made without oldest_server up to date; under
-- migrate_lock.sql, and only when there is a migration to apply.
-- Locks       ACCESS EXCLUSIVE on the list, for an instant: servers only read it when they connect and check
ALTER TABLE idempotency_migration ADD COLUMN IF NOT EXISTS oldest_server integer
