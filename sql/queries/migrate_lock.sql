-- migrate_lock: one `migrate` at a time; waits. Released when the connection is closed.
-- Returns     one row, to be ignored
-- Locks       one advisory lock of the session; the number is "idempot" in ASCII
SELECT pg_advisory_lock(29665259345178484)
