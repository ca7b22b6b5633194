-- transaction_commit: after write.sql, in the same pipeline. The command tag is checked: the server answers COMMIT of
-- a failed transaction by ROLLBACK, without an error.
-- Locks       none; ends those of lock.sql
COMMIT
