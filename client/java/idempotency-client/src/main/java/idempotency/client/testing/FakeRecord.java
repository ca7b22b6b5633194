package idempotency.client.testing;

import com.google.protobuf.ByteString;
import idempotency.client.Attempt;
import idempotency.client.ErrorKind;
import idempotency.client.Failure;
import idempotency.client.IdempotencyException;
import idempotency.client.IdempotencyRecord;
import idempotency.client.OnLeaseExpiry;
import idempotency.client.Outcome;
import idempotency.client.PreviousAttempt;
import idempotency.client.RecordState;
import idempotency.client.Request;
import idempotency.client.RunResult;
import idempotency.client.internal.Text;
import idempotency.client.internal.WorkEnd;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** One key's record in a {@link FakeRunner}, whose lock guards it. */
final class FakeRecord {
  final Request request;
  boolean isRunning;
  private final Map<String, String> labels;
  private final Instant createTime = Instant.now();
  private OnLeaseExpiry onLeaseExpiry = OnLeaseExpiry.TAKE_OVER;
  // 0: no attempt yet.
  private int attemptNumber;
  private int unknownAttempts;
  private long fencingToken;
  private final long number;
  private @Nullable PreviousAttempt previousAttempt;
  // Of the attempt that ended; null: it crashed, or is running.
  private @Nullable WorkEnd end;
  private Instant startTime = createTime;
  private Instant finishTime = createTime;

  FakeRecord(Request request, Map<String, String> labels, long number) {
    this.request = request;
    this.labels = labels;
    this.number = number;
  }

  boolean isNew() {
    return attemptNumber == 0;
  }

  private String recordId() {
    return String.format("0000fa4e-0000-8000-8000-%012d", number);
  }

  private String downstreamKey() {
    return String.format("0000d0e5-0000-8000-8000-%012d", number);
  }

  private @Nullable Outcome outcome() {
    return end == null ? null : end.work().outcome();
  }

  private @Nullable Failure failure() {
    return end == null ? null : end.work().failure();
  }

  RecordState state() {
    if (isRunning) return RecordState.IN_PROGRESS;
    if (outcome() != null) return RecordState.COMPLETED;
    Failure failure = failure();
    if (failure == null) return RecordState.ABANDONED;
    return switch (failure.disposition()) {
      case FINAL -> RecordState.FAILED;
      case NOT_APPLIED -> RecordState.RELEASED;
      case UNKNOWN -> RecordState.ABANDONED;
    };
  }

  /** Null: the work is to be done. */
  @Nullable RunResult answerWithoutWork() {
    if (isNew()) return null;
    return switch (state()) {
      case IN_PROGRESS ->
          new RunResult.InProgress(
              Duration.ofMillis(100), Duration.ofSeconds(60), recordId(), attemptNumber, startTime);
      case COMPLETED, FAILED ->
          new RunResult.Replayed(
              outcome(), failure(), recordId(), attemptNumber, startTime, finishTime);
      case RELEASED -> null;
      case ABANDONED -> {
        if (onLeaseExpiry == OnLeaseExpiry.TAKE_OVER) yield null;
        throw IdempotencyException.builder(ErrorKind.NEEDS_RESOLUTION)
            .message("FakeRunner: an attempt ended unknown, and the record is on HOLD")
            .reason("NEEDS_RESOLUTION")
            .build();
      }
    };
  }

  /** Begins an attempt. */
  Attempt.Builder start(OnLeaseExpiry asked, long token) {
    if (!isNew()) {
      if (state() == RecordState.ABANDONED) unknownAttempts++;
      previousAttempt = new PreviousAttempt(attemptNumber, startTime, startTime, failure());
    }
    attemptNumber++;
    fencingToken = token;
    if (asked == OnLeaseExpiry.HOLD) onLeaseExpiry = asked;
    startTime = Instant.now();
    end = null;
    isRunning = true;
    return Attempt.builder(downstreamKey())
        .recordId(recordId())
        .attemptNumber(attemptNumber)
        .fencingToken(fencingToken)
        .unknownAttempts(unknownAttempts)
        .previousAttempt(previousAttempt)
        .onLeaseExpiry(onLeaseExpiry);
  }

  /** Records what the attempt came to. */
  RunResult end(WorkEnd work) {
    end = work;
    finishTime = Instant.now();
    return work.recorded(false, recordId(), attemptNumber, finishTime);
  }

  IdempotencyRecord lookUp(boolean includeBody) {
    Outcome outcome = outcome();
    return new IdempotencyRecord(
        recordId(),
        request.operation(),
        state(),
        false,
        createTime,
        startTime,
        end == null ? null : finishTime,
        null,
        onLeaseExpiry,
        attemptNumber,
        unknownAttempts,
        fencingToken,
        downstreamKey(),
        labels,
        outcome == null ? null : shown(outcome, includeBody),
        failure(),
        previousAttempt);
  }

  private static Outcome shown(Outcome outcome, boolean includeBody) {
    ByteString body = outcome.body();
    if (body == null) return outcome;
    return new Outcome(
        outcome.statusCode(),
        outcome.headers(),
        outcome.contentType(),
        includeBody ? body : null,
        outcome.responseId(),
        false,
        (long) body.size(),
        ByteString.copyFrom(Text.sha256(body.toByteArray())));
  }
}
