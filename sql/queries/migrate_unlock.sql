-- migrate_unlock: ends migrate_lock.sql, where the connection stays open: in a script for psql.
-- Returns     one row, to be ignored
-- Locks       none; releases one advisory lock of the session
SELECT pg_advisory_unlock(29665259345178484)
