package idempotency.client.internal;

import idempotency.client.Failure;
import idempotency.client.FailureDisposition;
import idempotency.client.Header;
import idempotency.client.IdempotencyRecord;
import idempotency.client.OnLeaseExpiry;
import idempotency.client.Outcome;
import idempotency.client.PreviousAttempt;
import idempotency.client.RecordState;
import idempotency.client.RunResult;
import idempotency.v1.BeginResponse;
import idempotency.v1.InProgress;
import idempotency.v1.LeaseExpiryAction;
import idempotency.v1.LookupResponse;
import idempotency.v1.Replay;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** What the service says, as the API's values. Takes whatever a broken service may send. */
final class FromProto {
  private static final long MOST_SECONDS = Duration.ofDays(250L * 366).toSeconds();

  private FromProto() {}

  /** Within 250 years, to the nanosecond. */
  static Duration duration(com.google.protobuf.Duration message) {
    return Duration.ofSeconds(seconds(message.getSeconds()), message.getNanos());
  }

  /** Nanoseconds; never negative. */
  static long nanos(com.google.protobuf.Duration message) {
    return Moment.nanosOf(duration(message));
  }

  static Instant instant(com.google.protobuf.Timestamp message) {
    return Instant.ofEpochSecond(seconds(message.getSeconds()), message.getNanos());
  }

  static Outcome outcome(idempotency.v1.Outcome message) {
    List<Header> headers =
        message.getHeadersList().stream()
            .map(header -> new Header(header.getName(), header.getValue()))
            .toList();
    return new Outcome(
        message.getStatusCode(),
        headers,
        message.getContentType(),
        message.hasBody() ? message.getBody() : null,
        message.getResponseId(),
        message.getBodyOmitted(),
        message.hasBodySize() ? message.getBodySize() : null,
        message.getBodySha256());
  }

  static Failure failure(idempotency.v1.Failure message) {
    FailureDisposition disposition =
        switch (message.getDisposition()) {
          case FAILURE_DISPOSITION_NOT_APPLIED -> FailureDisposition.NOT_APPLIED;
          case FAILURE_DISPOSITION_FINAL -> FailureDisposition.FINAL;
          default -> FailureDisposition.UNKNOWN;
        };
    return new Failure(
        disposition,
        message.getCode(),
        message.getMessage(),
        message.hasOutcome() ? outcome(message.getOutcome()) : null);
  }

  static OnLeaseExpiry onLeaseExpiry(LeaseExpiryAction action) {
    // One that this client does not know is taken for the strict one.
    return action == LeaseExpiryAction.LEASE_EXPIRY_ACTION_TAKE_OVER
        ? OnLeaseExpiry.TAKE_OVER
        : OnLeaseExpiry.HOLD;
  }

  static PreviousAttempt previousAttempt(idempotency.v1.PreviousAttempt message) {
    return new PreviousAttempt(
        message.getAttemptNumber(),
        instant(message.getStartTime()),
        instant(message.getLeaseExpireTime()),
        message.hasFailure() ? failure(message.getFailure()) : null);
  }

  /** Null if the answer holds neither an outcome nor a failure. */
  static RunResult.@Nullable Replayed replayed(BeginResponse response) {
    Replay replay = response.getReplay();
    if (!replay.hasOutcome() && !replay.hasFailure()) return null;
    return new RunResult.Replayed(
        replay.hasOutcome() ? outcome(replay.getOutcome()) : null,
        replay.hasFailure() ? failure(replay.getFailure()) : null,
        response.getRecordId(),
        replay.getAttemptNumber(),
        instant(replay.getStartTime()),
        instant(replay.getFinishTime()));
  }

  static RunResult.InProgress inProgress(BeginResponse response) {
    InProgress message = response.getInProgress();
    return new RunResult.InProgress(
        duration(message.getRetryAfter()),
        Duration.ofNanos(nanos(message.getLeaseRemaining())),
        response.getRecordId(),
        message.getAttemptNumber(),
        instant(message.getStartTime()));
  }

  static IdempotencyRecord record(LookupResponse response) {
    RecordState state =
        switch (response.getState()) {
          case RECORD_STATE_COMPLETED -> RecordState.COMPLETED;
          case RECORD_STATE_FAILED -> RecordState.FAILED;
          case RECORD_STATE_RELEASED -> RecordState.RELEASED;
          case RECORD_STATE_ABANDONED -> RecordState.ABANDONED;
          default -> RecordState.IN_PROGRESS;
        };
    return new IdempotencyRecord(
        response.getRecordId(),
        response.getOperation(),
        state,
        response.getExpired(),
        instant(response.getCreateTime()),
        instant(response.getStartTime()),
        response.hasFinishTime() ? instant(response.getFinishTime()) : null,
        response.hasExpireTime() ? instant(response.getExpireTime()) : null,
        onLeaseExpiry(response.getOnLeaseExpiry()),
        response.getAttemptNumber(),
        response.getUnknownAttempts(),
        response.getFencingToken(),
        response.getDownstreamKey(),
        response.getLabelsMap(),
        response.hasOutcome() ? outcome(response.getOutcome()) : null,
        response.hasFailure() ? failure(response.getFailure()) : null,
        response.hasPreviousAttempt() ? previousAttempt(response.getPreviousAttempt()) : null);
  }

  private static long seconds(long seconds) {
    return Math.max(-MOST_SECONDS, Math.min(MOST_SECONDS, seconds));
  }
}
