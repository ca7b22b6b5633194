-- begin_insert: the fast path of Begin; reserves the keys that have no row.
-- Parameters  arrays of one entry an item, sorted bytewise by (merchant, key), keys distinct:
--             $1 text[] merchant, $2 text[] key, $3 bytea[] fingerprint, $4 text[] operation, $5 uuid[] attempt hash,
--             $6 int[] ttl in seconds, $7 int[] lease in ms, $8 smallint[] flags, $9 bytea[] labels;
--             what is known of the clock (clock_view.h): $10 timestamptz the guard's reading, $11 bytea the history of a
--             record whose only attempt has the guard's token offset
-- Returns     the rows inserted, in key order; a key that does not come back has a row (read.sql)
-- Locks       the new index entries, in key order
-- Plan        Insert over a Subquery Scan over a Sort of the unnest; reads no table, so no plan can flip
INSERT INTO idempotency_record (created_at, lease_expires_at, ttl_seconds, lease_ms, attempt_number, attempt_hash,
    flags, state, history, labels, merchant_id, idempotency_key, fingerprint, operation)
SELECT
    i.reading,
    i.reading + i.lease_ms * interval '1 ms',
    i.ttl_seconds,
    i.lease_ms,
    1,
    i.attempt,
    i.flags,
    1,
    $11::bytea,
    i.labels,
    i.merchant,
    i.key,
    i.fingerprint,
    i.operation
FROM (
    -- Volatile, so it is read after the sort, row by row, just before the row is inserted: a batch that waited for
    -- another transaction's key must not hand out tokens older than ones already granted (the token of a first attempt
    -- is created_at in microseconds, plus the offset). A clock behind the guard's reading was set back and nobody has
    -- noted it yet: such a record is begun as if it were just before the step, with its lease counted from there.
    SELECT
        u.merchant,
        u.key,
        u.fingerprint,
        u.operation,
        u.attempt,
        u.ttl_seconds,
        u.lease_ms,
        u.flags,
        u.labels,
        GREATEST(clock_timestamp(), $10::timestamptz) AS reading
    FROM unnest($1::text[], $2::text[], $3::bytea[], $4::text[], $5::uuid[], $6::int[], $7::int[], $8::smallint[],
        $9::bytea[]) AS u (merchant, key, fingerprint, operation, attempt, ttl_seconds, lease_ms, flags, labels)
    -- The parameters carry the database's collation; the index is "C". Two lock orders would be a deadlock.
    ORDER BY u.merchant COLLATE "C", u.key COLLATE "C"
) AS i
ON CONFLICT (merchant_id, idempotency_key) DO NOTHING
RETURNING merchant_id, idempotency_key, created_at, lease_expires_at
