-- purge_unsettled_step: deletes records that were never settled, in one range of heap blocks; for the setting that
-- allows it (off by default). Never those with HOLD, nor those whose attempt is at work or reported a moment ago. Not
-- called while expiry pauses.
-- Parameters  $1, $2 tid  the first block, and the block after the last
--             $3 bigint   skew margin, ms
--             $4 bigint   the age from which they are deleted, ms
--             the clock guard's row, read in this transaction: $5 timestamptz the last jump, $6 timestamptz the reading
--             $7 bigint   the longest gap after that reading that is no jump, ms
-- Returns     the records deleted
-- Locks       only the rows it deletes; skips rows others hold, so physical order is safe
-- Plan        Tid Range Scan, then Tid Scan; no index
DELETE FROM idempotency_record AS r
WHERE r.ctid = ANY (ARRAY(
    SELECT s.ctid
    FROM idempotency_record AS s
    WHERE s.ctid >= $1::tid
      AND s.ctid < $2::tid
      AND s.flags & 1 = 0
      AND (
          -- After the margin the guard's reading has passed the attempt's token: that key's next one is higher,
          -- whatever the clock does.
          ((s.state = 6 OR (s.state = 4 AND s.flags & 2 <> 0))
              AND s.finished_at + $3::bigint * interval '1 ms' < clock_timestamp())
          OR (s.state IN (1, 5)
              AND GREATEST(s.lease_expires_at, $5::timestamptz + s.lease_ms * interval '1 ms')
                  + $3::bigint * interval '1 ms' < clock_timestamp())
      )
      AND clock_timestamp() BETWEEN $6::timestamptz AND $6::timestamptz + $7::bigint * interval '1 ms'
      AND s.created_at + $4::bigint * interval '1 ms' < clock_timestamp()
    FOR UPDATE SKIP LOCKED
))
RETURNING r.merchant_id, r.idempotency_key, r.created_at, r.attempt_number, r.state
