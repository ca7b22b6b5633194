package idempotency.client;

import java.time.Instant;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * What {@link Runner#lookup} shows of a key. Instants are by the database's clock.
 *
 * @param recordId the record's UUID
 * @param operation what is done, as the first call gave it
 * @param state where it stands
 * @param expired past its retention: the next call starts anew
 * @param createTime when the first call came
 * @param startTime when the last attempt was started
 * @param finishTime when the last attempt's end was recorded; null if none was
 * @param expireTime when the record expires; null while it is not settled, since such a record does
 *     not
 * @param onLeaseExpiry what is in force
 * @param attemptNumber the last attempt's, from 1
 * @param unknownAttempts how many attempts ended without a known result
 * @param fencingToken the last attempt's
 * @param downstreamKey the UUID that all attempts of the record send to the partner
 * @param labels those of the first call
 * @param outcome the recorded outcome; its body only if asked for, size and digest whenever there
 *     was a body. Null unless the state is {@link RecordState#COMPLETED}
 * @param failure what the last attempt reported; null if it did not
 * @param previousAttempt how the attempt before the last one ended; null for the first
 */
public record IdempotencyRecord(
    String recordId,
    String operation,
    RecordState state,
    boolean expired,
    Instant createTime,
    Instant startTime,
    @Nullable Instant finishTime,
    @Nullable Instant expireTime,
    OnLeaseExpiry onLeaseExpiry,
    int attemptNumber,
    int unknownAttempts,
    long fencingToken,
    String downstreamKey,
    Map<String, String> labels,
    @Nullable Outcome outcome,
    @Nullable Failure failure,
    @Nullable PreviousAttempt previousAttempt) {
  /** Copies the map. */
  public IdempotencyRecord {
    labels = Map.copyOf(labels);
  }
}
