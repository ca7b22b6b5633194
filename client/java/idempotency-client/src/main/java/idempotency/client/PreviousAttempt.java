package idempotency.client;

import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * How the attempt before this one ended.
 *
 * @param attemptNumber its number within the record, from 1
 * @param startTime when it was started, by the database's clock
 * @param leaseExpireTime when its lease ended, by the database's clock
 * @param failure what it reported, not applied or unknown; null: its lease ran out, nothing is
 *     known, and money may have moved
 */
public record PreviousAttempt(
    int attemptNumber, Instant startTime, Instant leaseExpireTime, @Nullable Failure failure) {}
