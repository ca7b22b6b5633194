-- 0002: what is known of the database's clock, in one small row.
-- Reason      a clock that is set, or another node's after a promotion, must not end leases or expire records early,
--             nor let a fencing token run back (docs/adr/0010).
-- Locks       ACCESS EXCLUSIVE on the new relation only.
-- Servers     of schema 2 and newer: older ones purge and take over without a look at the row.
CREATE TABLE idempotency_clock_guard (
    singleton         boolean     NOT NULL DEFAULT true,
    system_identifier bigint      NOT NULL,  -- of the cluster, and
    timeline          bigint      NOT NULL,  -- of the WAL, in which the row was written last
    reading           timestamptz NOT NULL,  -- of the clock, written again every quarter of a second
    last_jump_at      timestamptz NOT NULL,  -- the first reading after the last jump, by the clock after it
    last_jump_reason  smallint    NOT NULL,  -- 1 another history, 2 ran back, 3 a gap or ran ahead, 4 drift
    token_offset_us   bigint      NOT NULL,  -- the backward steps seen, summed: fencing tokens are the clock plus this
    CONSTRAINT idempotency_clock_guard_pkey PRIMARY KEY (singleton),
    CONSTRAINT idempotency_clock_guard_is_one_row CHECK (singleton),
    CONSTRAINT idempotency_clock_guard_jump_is_not_ahead CHECK (last_jump_at <= reading),
    CONSTRAINT idempotency_clock_guard_reason_is_known CHECK (last_jump_reason BETWEEN 1 AND 4),
    CONSTRAINT idempotency_clock_guard_tokens_only_grow CHECK (token_offset_us >= 0)
) WITH (
    -- Its many versions stay on one page, and are pruned there.
    fillfactor = 10,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    vacuum_truncate = off
);

COMMENT ON TABLE idempotency_clock_guard IS
    'One row: what is known of the database''s clock. Kept fresh by every replica; no part of it may be set back.';

-- Of no cluster: the first replica counts its first reading as one of another history.
INSERT INTO idempotency_clock_guard (system_identifier, timeline, reading, last_jump_at, last_jump_reason,
    token_offset_us)
VALUES (0, 0, '-infinity', '-infinity', 1, 0);
