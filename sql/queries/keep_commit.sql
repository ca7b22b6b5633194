-- keep_commit: makes synchronous_commit stay what it is when a connection is set up (and checked, see check.sql), over
-- reloads of the configuration. For the durability profile `local`; `replicated` looks at it in every batch.
-- Returns     one row, to be ignored
-- Locks       none
SELECT set_config('synchronous_commit', current_setting('synchronous_commit'), false)
