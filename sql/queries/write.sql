-- write: writes rows as decided, whole. Every row is locked by lock.sql in this transaction.
-- Parameters  arrays of one entry a row, sorted bytewise by (merchant, key), keys distinct:
--             $1 text[] merchant, $2 text[] key, $3 timestamptz[] created_at,
--             $4 timestamptz[] lease_expires_at, $5 int[] ttl_seconds, $6 int[] lease_ms, $7 int[] attempt_number,
--             $8 uuid[] attempt_hash, $9 smallint[] flags, $10 smallint[] state, $11 timestamptz[] finished_at,
--             $12 bytea[] outcome (NULL: as it is), $13 bytea[] history, $14 bytea[] labels, $15 bytea[] fingerprint,
--             $16 text[] operation
-- Returns     the number of rows written, as the command's count: all of them
-- Locks       none that the transaction does not hold already
-- Plan        unnest, then a bitmap scan on the primary key for each
UPDATE idempotency_record AS r
SET created_at = u.created_at,
    lease_expires_at = u.lease_expires_at,
    ttl_seconds = u.ttl_seconds,
    lease_ms = u.lease_ms,
    attempt_number = u.attempt_number,
    attempt_hash = u.attempt_hash,
    flags = u.flags,
    state = u.state,
    finished_at = u.finished_at,
    outcome = COALESCE(u.outcome, r.outcome),
    history = u.history,
    labels = u.labels,
    fingerprint = u.fingerprint,
    operation = u.operation
FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::int[], $6::int[], $7::int[], $8::uuid[],
    $9::smallint[], $10::smallint[], $11::timestamptz[], $12::bytea[], $13::bytea[], $14::bytea[], $15::bytea[],
    $16::text[]) AS u (merchant, key, created_at, lease_expires_at, ttl_seconds, lease_ms,
    attempt_number, attempt_hash, flags, state, finished_at, outcome, history, labels, fingerprint, operation)
WHERE r.merchant_id = u.merchant
  AND r.idempotency_key = u.key
