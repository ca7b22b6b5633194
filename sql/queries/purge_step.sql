-- purge_step: deletes expired records in one range of heap blocks. Only settled ones expire: final, or released
-- without unknown attempts. Not called while expiry pauses.
-- Parameters  $1, $2 tid  the first block, and the block after the last
--             $3 bigint   skew margin, ms
--             $4 bigint   replay window, ms
--             $5 timestamptz  the clock guard's reading, read in this transaction
--             $6 bigint   the longest gap after that reading that is no jump, ms
-- Returns     the number of rows deleted, as the command's count
-- Locks       only the rows it deletes; skips rows others hold, so physical order is safe
-- Plan        Tid Range Scan, then Tid Scan; no index
DELETE FROM idempotency_record AS r
WHERE r.ctid = ANY (ARRAY(
    SELECT s.ctid
    FROM idempotency_record AS s
    WHERE s.ctid >= $1::tid
      AND s.ctid < $2::tid
      AND (s.state IN (2, 3) OR (s.state = 4 AND s.flags & 2 = 0))
      AND GREATEST(
          s.created_at + s.ttl_seconds * interval '1 s',
          s.finished_at + $4::bigint * interval '1 ms'
      ) + $3::bigint * interval '1 ms' < clock_timestamp()
      AND clock_timestamp() BETWEEN $5::timestamptz AND $5::timestamptz + $6::bigint * interval '1 ms'
    -- Evaluated again on the newest version of the row: a key begun anew survives.
    FOR UPDATE SKIP LOCKED
))
