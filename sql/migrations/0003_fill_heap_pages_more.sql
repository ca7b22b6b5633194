-- 0003: new heap pages are filled to 95 instead of 90 percent.
-- Reason      what stays free on a page is for the new versions that Complete writes; half of it is enough, since what
--             they replace is pruned on the way: 10 bytes a record less (docs/adr/0022).
-- Locks       SHARE UPDATE EXCLUSIVE, for an instant: reads and writes go on. Rewrites nothing; pages that are full
--             already stay as they are.
-- Servers     of schema 2 and newer: no statement changes.
ALTER TABLE idempotency_record SET (fillfactor = 95);
