-- lock_timeout: how long the next statement of the same pipeline may wait for each lock.
-- Parameters  $1 text  a time with its unit, such as '5ms'
-- Returns     one row, to be ignored
-- Locks       none
SELECT set_config('lock_timeout', $1::text, true)
