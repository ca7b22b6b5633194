-- lock: as read.sql, but locks the rows first. Between BEGIN and write.sql; the decision is made again on what this
-- returns, because the row may have changed since read.sql. The clock is read after it (clock_read.sql), and so after
-- any wait for a lock.
-- Parameters  $1 text[] merchant, $2 text[] key, sorted bytewise, distinct; $3 as read.sql
-- Returns     as read.sql
-- Locks       FOR UPDATE on the rows, in key order, those held back included
-- Plan        unnest, bitmap scans on the primary key, Sort, LockRows, WindowAgg
SELECT
    l.ord,
    l.created_at,
    l.lease_expires_at,
    l.ttl_seconds,
    l.lease_ms,
    l.attempt_number,
    l.attempt_hash,
    l.flags,
    l.state,
    l.finished_at,
    CASE WHEN COALESCE(sum(octet_length(l.outcome) + octet_length(l.history)) OVER earlier, 0) <= $3::bigint
        THEN l.outcome END AS outcome,
    CASE WHEN COALESCE(sum(octet_length(l.outcome) + octet_length(l.history)) OVER earlier, 0) <= $3::bigint
        THEN l.history END AS history,
    l.labels,
    l.fingerprint,
    l.operation
FROM (
    SELECT
        u.ord::int AS ord,
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
        r.operation
    FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u (merchant, key, ord)
    JOIN idempotency_record AS r
        ON r.merchant_id = u.merchant
        AND r.idempotency_key = u.key
    ORDER BY r.merchant_id, r.idempotency_key
    FOR UPDATE OF r
) AS l
WINDOW earlier AS (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
