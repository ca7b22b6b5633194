-- read: the rows of the given keys, as DecideBegin, DecideOwner and Lookup need them.
-- Parameters  $1 text[] merchant, $2 text[] key
-- Returns     one row for each key, with its place in the arrays from 1, in no order, and the clock's reading, taken
--             after the row was read; where the key has no row, NULLs and the reading
-- Locks       none
-- Plan        unnest, then a bitmap scan on the primary key for each
SELECT
    u.ord::int,
    r.created_at,
    r.lease_expires_at,
    r.ttl_seconds,
    r.lease_ms,
    r.attempt_number,
    r.attempt_hash,
    r.flags,
    r.state,
    r.finished_at,
    r.outcome,
    r.history,
    r.labels,
    r.fingerprint,
    r.operation,
    clock_timestamp() AS reading
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u (merchant, key, ord)
LEFT JOIN idempotency_record AS r
    ON r.merchant_id = u.merchant
    AND r.idempotency_key = u.key
