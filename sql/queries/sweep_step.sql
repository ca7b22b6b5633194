-- sweep_step: marks attempts whose lease was over more than a grace ago, in one range of heap blocks.
-- Parameters  $1, $2 tid  the first block, and the block after the last
--             $3 bigint   skew margin plus grace, ms
--             the clock guard's row, read in this transaction: $4 timestamptz the last jump, $5 timestamptz the reading
--             $6 bigint   the longest gap after that reading that is no jump, ms
-- Returns     the records marked
-- Locks       only the rows it marks; skips rows others hold, so physical order is safe
-- Plan        Tid Range Scan, then Tid Scan; no index
UPDATE idempotency_record AS r
SET state = 5
WHERE r.ctid = ANY (ARRAY(
    SELECT s.ctid
    FROM idempotency_record AS s
    WHERE s.ctid >= $1::tid
      AND s.ctid < $2::tid
      AND s.state = 1
      AND GREATEST(s.lease_expires_at, $4::timestamptz + s.lease_ms * interval '1 ms')
          + $3::bigint * interval '1 ms' < clock_timestamp()
      AND clock_timestamp() BETWEEN $5::timestamptz AND $5::timestamptz + $6::bigint * interval '1 ms'
    -- Evaluated again on the newest version of the row: a lease renewed meanwhile survives.
    FOR UPDATE SKIP LOCKED
))
RETURNING r.merchant_id, r.idempotency_key, r.created_at, r.attempt_number, r.state
