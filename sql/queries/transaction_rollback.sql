-- transaction_rollback: after lock.sql when nothing is left to write, and after an error in a transaction.
-- Locks       none; ends those of lock.sql
ROLLBACK
