-- survey_step: counts what sweep and purge have before them, in one range of heap blocks: by their own conditions, the
-- clock guard's included. For metrics only.
-- Parameters  $1, $2 tid  the first block, and the block after the last
--             $3 bigint   skew margin, ms
--             $4 bigint   replay window, ms
--             the clock guard's row, read just before: $5 timestamptz the last jump, $6 timestamptz the reading
--             $7 bigint   the longest gap after that reading that is no jump, ms
--             $8 boolean  whether expiry pauses
-- Returns     one row of bigints: records in progress; those of them whose lease is over; records whose last attempt was
--             abandoned (swept, or failed UNKNOWN); expired records; the age of the oldest record in progress, us (0: none)
-- Locks       none; rows that others hold are counted
-- Plan        Tid Range Scan under an Aggregate; no index
SELECT
    count(*) FILTER (WHERE s.state = 1),
    count(*) FILTER (
        WHERE s.state = 1
          AND GREATEST(s.lease_expires_at, $5::timestamptz + s.lease_ms * interval '1 ms')
              + $3::bigint * interval '1 ms' < clock_timestamp()
          AND clock_timestamp() BETWEEN $6::timestamptz AND $6::timestamptz + $7::bigint * interval '1 ms'
    ),
    count(*) FILTER (WHERE s.state IN (5, 6)),
    count(*) FILTER (
        WHERE (s.state IN (2, 3) OR (s.state = 4 AND s.flags & 2 = 0))
          AND GREATEST(
              s.created_at + s.ttl_seconds * interval '1 s',
              s.finished_at + $4::bigint * interval '1 ms'
          ) + $3::bigint * interval '1 ms' < clock_timestamp()
          AND clock_timestamp() BETWEEN $6::timestamptz AND $6::timestamptz + $7::bigint * interval '1 ms'
          AND NOT $8::boolean
    ),
    (COALESCE(
        EXTRACT(EPOCH FROM clock_timestamp() - min(s.created_at) FILTER (WHERE s.state = 1)),
        0
    ) * 1000000)::bigint
FROM idempotency_record AS s
WHERE s.ctid >= $1::tid
  AND s.ctid < $2::tid
