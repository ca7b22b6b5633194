-- begin_insert_one: begin_insert for a single item, which most batches of a quiet service are: a call's time then is
--             this statement's, and to unnest nine arrays and to sort one row is a third of it
-- Parameters  of the item: $1 text merchant, $2 text key, $3 bytea fingerprint, $4 text operation, $5 uuid attempt hash,
--             $6 int ttl in seconds, $7 int lease in ms, $8 smallint flags, $9 bytea labels;
--             what is known of the clock, as begin_insert's: $10 timestamptz the guard's reading, $11 bytea history
-- Returns     as begin_insert: the row, or none if the key has one
-- Locks       the new index entry
-- Plan        Insert over a Subquery Scan over a Result; reads no table
INSERT INTO idempotency_record (created_at, lease_expires_at, ttl_seconds, lease_ms, attempt_number, attempt_hash,
    flags, state, history, labels, merchant_id, idempotency_key, fingerprint, operation)
SELECT
    i.reading,
    i.reading + $7::int * interval '1 ms',
    $6::int,
    $7::int,
    1,
    $5::uuid,
    $8::smallint,
    1,
    $11::bytea,
    $9::bytea,
    $1::text,
    $2::text,
    $3::bytea,
    $4::text
FROM (
    -- Volatile, so it is read once and by itself. A clock behind the guard's reading was set back: see begin_insert.
    SELECT GREATEST(clock_timestamp(), $10::timestamptz) AS reading
) AS i
ON CONFLICT (merchant_id, idempotency_key) DO NOTHING
RETURNING merchant_id, idempotency_key, created_at, lease_expires_at
