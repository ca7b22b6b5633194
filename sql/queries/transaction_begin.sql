-- transaction_begin: before lock.sql, in the same pipeline. The isolation level is the session's (session.sql).
-- Locks       none
BEGIN
