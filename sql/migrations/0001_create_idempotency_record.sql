-- 0001: the one table of the service.
-- Reason      first release.
-- Locks       ACCESS EXCLUSIVE on new relations only.
--
-- Layout (measured, docs/adr/0003): fixed-width columns first and none of them NULL (one NULL costs 8 header bytes a
-- row); what Complete changes (state, finished_at, outcome) side by side, because WAL logs what lies between the first
-- and the last changed byte; nothing that Complete changes is indexed, so its updates are HOT. record_id is derived,
-- not stored; so is the fencing token of a first attempt, created_at in microseconds, and later ones stand in history.
-- What a first attempt does not need shares one bytea, history, empty by default.
CREATE TABLE idempotency_record (
    created_at       timestamptz NOT NULL,  -- of the record, not of the attempt; attempt 1 starts here
    lease_expires_at timestamptz NOT NULL,
    ttl_seconds      integer     NOT NULL,
    lease_ms         integer     NOT NULL,
    attempt_number   integer     NOT NULL,
    attempt_hash     uuid        NOT NULL,  -- first 16 bytes of SHA-256(attempt id): fixed width, no header
    flags            smallint    NOT NULL,  -- 1 HOLD, 2 has unknown attempts; high byte: fingerprint scheme
    state            smallint    NOT NULL,  -- 1 in progress, 2 completed, 3 failed FINAL, 4 released, 5 swept, 6 failed UNKNOWN
    finished_at      timestamptz NOT NULL DEFAULT '-infinity',
    outcome          bytea       NOT NULL DEFAULT '',  -- idempotency.store.v1.StoredOutcome if completed, else StoredFailure
    history          bytea       NOT NULL DEFAULT '',  -- idempotency.store.v1.StoredHistory
    labels           bytea       NOT NULL DEFAULT '',  -- idempotency.store.v1.StoredLabels
    merchant_id      text COLLATE "C" NOT NULL,
    idempotency_key  text COLLATE "C" NOT NULL,
    fingerprint      bytea       NOT NULL,
    operation        text COLLATE "C" NOT NULL,
    CONSTRAINT idempotency_record_pkey PRIMARY KEY (merchant_id, idempotency_key),
    CONSTRAINT idempotency_record_state_is_known CHECK (state BETWEEN 1 AND 6),
    CONSTRAINT idempotency_record_finished_has_time
        CHECK (state IN (1, 5) = (finished_at = '-infinity'))
) WITH (
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_analyze_threshold = 5000,
    autovacuum_vacuum_cost_delay = 1,
    autovacuum_vacuum_cost_limit = 2000,
    -- Truncation takes ACCESS EXCLUSIVE, also on standbys.
    vacuum_truncate = off
);

COMMENT ON TABLE idempotency_record IS
    'One row for each (merchant, idempotency key): reservation, attempt, recorded outcome.';
