-- service: what the role that `serve` connects as needs, and nothing more. For the owner, after migrating:
-- `idempotencyd migrate up --grant-to ROLE` and `migrate print --grant-to ROLE` run it, and so does
--     psql -v role=ROLE -f sql/roles/service.sql
-- Locks       ACCESS SHARE on the tables; safe to repeat
GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency_record TO :"role";
GRANT SELECT, INSERT, UPDATE ON idempotency_clock_guard TO :"role";
GRANT SELECT ON idempotency_migration TO :"role";
