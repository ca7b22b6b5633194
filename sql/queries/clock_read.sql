-- clock_read: the database's clock, and what is known of it. A statement of its own, after the one that read or locked
-- rows: its snapshot is newer than any wait for a lock, so that a jump that was noted meanwhile is seen.
-- Returns     one row: the clock's reading, taken after the guard's row was read; the row, NULLs if there is none
-- Locks       none
-- Plan        a bitmap scan of the guard's one row; reads no record
SELECT
    clock_timestamp() AS now,
    g.system_identifier,
    g.timeline,
    g.reading,
    g.last_jump_at,
    g.last_jump_reason,
    g.token_offset_us
FROM (VALUES (true)) AS always (singleton)
LEFT JOIN idempotency_clock_guard AS g
    ON g.singleton = always.singleton
