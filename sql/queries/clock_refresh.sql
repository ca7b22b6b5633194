-- clock_refresh: writes the clock's reading into the guard's row, and notes a jump if there was one: the row was written
-- in another history of commits, its reading is ahead of the clock or too old, or the replica saw the clock drift.
-- Parameters  $1 bool    the replica saw the clock run away from its own
--             $2 bigint  the longest gap between two readings that is no jump, ms
-- Returns     the row as it now stands; it jumped just now if last_jump_at is the reading
-- Locks       the guard's row. Two replicas that come at once write one after the other: everything is computed from
--             the locked row, and the clock is read after the lock, in the sub-select
-- Plan        Insert with the primary key as arbiter; reads no record
INSERT INTO idempotency_clock_guard AS g (system_identifier, timeline, reading, last_jump_at, last_jump_reason,
    token_offset_us)
SELECT
    c.system_identifier,
    -- As in check.sql.
    ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint,
    i.now,
    i.now,
    1,
    0
FROM (SELECT clock_timestamp() AS now OFFSET 0) AS i
CROSS JOIN pg_control_system() AS c
ON CONFLICT (singleton) DO UPDATE
SET (system_identifier, timeline, reading, last_jump_at, last_jump_reason, token_offset_us) = (
    SELECT
        EXCLUDED.system_identifier,
        EXCLUDED.timeline,
        j.now,
        -- After a step back the old instant may lie ahead: the new one replaces it, and pauses for its whole time.
        CASE WHEN j.reason = 0 THEN g.last_jump_at ELSE j.now END,
        CASE WHEN j.reason = 0 THEN g.last_jump_reason ELSE j.reason END,
        g.token_offset_us + CASE
            WHEN j.now < g.reading THEN (extract(epoch FROM g.reading - j.now) * 1000000)::bigint
            ELSE 0
        END
    FROM (
        SELECT
            n.now,
            CASE
                WHEN g.system_identifier <> EXCLUDED.system_identifier OR g.timeline <> EXCLUDED.timeline THEN 1
                WHEN n.now < g.reading THEN 2
                WHEN n.now > g.reading + $2::bigint * interval '1 ms' THEN 3
                WHEN $1::bool THEN 4
                ELSE 0
            END AS reason
        FROM (SELECT clock_timestamp() AS now OFFSET 0) AS n
        OFFSET 0
    ) AS j
)
RETURNING g.system_identifier, g.timeline, g.reading, g.last_jump_at, g.last_jump_reason, g.token_offset_us
