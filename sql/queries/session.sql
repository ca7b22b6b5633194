-- session: what every connection of the service sets after connecting (start-up options do not pass every PgBouncer).
-- Plans are pinned to bitmap scans: a btree can be scanned whole without a condition, a bitmap scan cannot be built
-- without one. Turning off sequential scans alone took 29.7 s for one batch of 256 on an emptied and refilled table.
-- Parameters  $1 text  lock_timeout; below the smallest replay window, so that no wait outlives a record
--             $2 text  statement_timeout, above the client's own timer: ends what a client that is gone left running
--             $3 text  idle_in_transaction_session_timeout: frees the rows that a client that is gone has locked
--             $4 text  the connection's own mark, by which check.sql sees that the session is still this connection's
-- Returns     one row, to be ignored
-- Locks       none
SELECT
    set_config('enable_seqscan', 'off', false),
    set_config('enable_indexscan', 'off', false),
    set_config('enable_indexonlyscan', 'off', false),
    set_config('enable_hashjoin', 'off', false),
    set_config('enable_mergejoin', 'off', false),
    set_config('enable_material', 'off', false),
    set_config('enable_memoize', 'off', false),
    set_config('jit', 'off', false),
    set_config('plan_cache_mode', 'force_generic_plan', false),
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('lock_timeout', $1::text, false),
    set_config('statement_timeout', $2::text, false),
    set_config('idle_in_transaction_session_timeout', $3::text, false),
    set_config('idempotency.connection', $4::text, false)
