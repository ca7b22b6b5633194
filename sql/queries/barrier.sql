-- barrier: makes the transaction's commit one that waits for the standby, whatever else the transaction did. After the
-- statements that read, in the same transaction: what they saw is committed before this commit, so when this one is on
-- the standby, so is that. Sent where an answer comes from rows that were found, which may be on no standby yet.
-- Returns     one row, to be ignored
-- Locks       none; takes a transaction id, so the commit writes WAL. Works at every wal_level, for every role
-- Plan        a statement of its own: as a CTE, or in the select list above no rows, it may never run
SELECT pg_logical_emit_message(true, 'idempotency', '')
