"""Generated from proto/idempotency/v1; never edited."""
