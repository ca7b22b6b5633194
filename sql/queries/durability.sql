-- durability: what a commit in this session waits for. Last before the commit, in its transaction, and once more after
-- it: a reload in between (another pg_conf_load_time) may have ended the wait with success.
-- Returns     one row: synchronous_commit, which stays as it is until the transaction ends, also over a reload;
--             synchronous_standby_names; max_wal_senders, without which no commit waits; when the session last loaded
--             the configuration; the clock's reading
-- Locks       none
SELECT
    set_config('synchronous_commit', current_setting('synchronous_commit'), true),
    current_setting('synchronous_standby_names'),
    current_setting('max_wal_senders')::int,
    pg_conf_load_time(),
    clock_timestamp()
