-- wait_probe: what tells whether the records of waiting Begins have changed; what changed is decided again by the whole
-- table, from begin_insert.sql and read.sql, so nobody is answered from this.
-- Parameters  $1 text[] merchant, $2 text[] key
-- Returns     one row for each key, with its place in the arrays from 1, in no order, and the clock's reading, taken
--             after the row was read; where the key has no row, NULLs and the reading
-- Locks       none
-- Plan        unnest, then a bitmap scan on the primary key for each; fetches nothing from TOAST
SELECT
    u.ord::int,
    r.created_at,
    r.lease_expires_at,
    r.attempt_number,
    r.state,
    clock_timestamp() AS reading
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u (merchant, key, ord)
LEFT JOIN idempotency_record AS r
    ON r.merchant_id = u.merchant
    AND r.idempotency_key = u.key
