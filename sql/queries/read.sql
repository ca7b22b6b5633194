-- read: the rows of the given keys, as DecideBegin, DecideOwner and Lookup need them.
-- Parameters  $1 text[] merchant, $2 text[] key
--             $3 bigint  bytes of outcomes and histories above which the further rows are held back
-- Returns     one row for each key that has one, with its place in the arrays from 1, in no order. A row that is held
--             back has NULL as outcome and history; the first row never is. The clock is read after it (clock_read.sql)
-- Locks       none
-- Plan        unnest, then a bitmap scan on the primary key for each; the sums over the rows as they come, which takes
--             their lengths without fetching them from TOAST
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
    CASE WHEN COALESCE(sum(octet_length(r.outcome) + octet_length(r.history)) OVER earlier, 0) <= $3::bigint
        THEN r.outcome END AS outcome,
    CASE WHEN COALESCE(sum(octet_length(r.outcome) + octet_length(r.history)) OVER earlier, 0) <= $3::bigint
        THEN r.history END AS history,
    r.labels,
    r.fingerprint,
    r.operation
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u (merchant, key, ord)
JOIN idempotency_record AS r
    ON r.merchant_id = u.merchant
    AND r.idempotency_key = u.key
WINDOW earlier AS (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
