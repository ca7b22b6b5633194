-- owner_update: the fast path of Complete, Fail and Renew; writes where the attempt is the last one and nothing is
-- recorded yet. What does not come back is read (read.sql) and judged by DecideOwner; so are renewals of records with
-- unknown attempts, whose lease has a cap.
-- Parameters  arrays of one entry an item, sorted bytewise by (merchant, key), keys distinct:
--             $1 text[] merchant, $2 text[] key, $3 uuid[] attempt hash,
--             $4 smallint[] state to reach (1 is Renew), $5 bytea[] outcome, $6 int[] lease in ms (Renew)
-- Returns     the rows written, with their place in the arrays from 1
-- Locks       the rows, in array order: the plan is driven by the unnest
-- Plan        unnest, then a bitmap scan on the primary key for each
-- A plain UPDATE is safe at READ COMMITTED: the attempt's Begin had committed before this call was sent, and after a
-- wait for a lock the predicate is evaluated again on the newest version. Locking in a CTE first was 30 % slower.
-- The new values are computed before the row is locked, and again only if the wait ended with a new version of the row:
-- after a wait for somebody who changed nothing, finished_at and the lease may be up to lock_timeout old. Harmless: the
-- attempt was the last one all the while, the stored values are the ones returned, an earlier lease end only shortens
-- the lease, and retention is minutes. One reading before the join (a lateral sub-select) would be older, not newer.
UPDATE idempotency_record AS r
SET state = u.state,
    lease_expires_at = CASE u.state
        WHEN 1 THEN GREATEST(r.lease_expires_at, clock_timestamp() + u.lease_ms * interval '1 ms')
        WHEN 6 THEN LEAST(r.lease_expires_at, clock_timestamp())
        ELSE r.lease_expires_at
    END,
    lease_ms = CASE u.state WHEN 1 THEN GREATEST(r.lease_ms, u.lease_ms) ELSE r.lease_ms END,
    finished_at = CASE u.state WHEN 1 THEN r.finished_at ELSE clock_timestamp() END,
    outcome = CASE u.state WHEN 1 THEN r.outcome ELSE u.outcome END
FROM unnest($1::text[], $2::text[], $3::uuid[], $4::smallint[], $5::bytea[], $6::int[])
    WITH ORDINALITY AS u (merchant, key, attempt, state, outcome, lease_ms, ord)
WHERE r.merchant_id = u.merchant
  AND r.idempotency_key = u.key
  AND r.attempt_hash = u.attempt
  AND CASE
      WHEN u.state = 1 THEN r.state IN (1, 5) AND r.flags & 2 = 0
      -- UNKNOWN after UNKNOWN is judged by content.
      WHEN u.state = 6 THEN r.state IN (1, 5)
      ELSE r.state IN (1, 5, 6)
  END
RETURNING u.ord::int, r.created_at, r.lease_expires_at, r.lease_ms, r.attempt_number, r.state, r.finished_at,
    clock_timestamp() AS reading
