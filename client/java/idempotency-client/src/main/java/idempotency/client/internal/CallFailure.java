package idempotency.client.internal;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import idempotency.client.ErrorKind;
import idempotency.client.FieldViolation;
import idempotency.client.IdempotencyException;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * What a failed call means: the one place where gRPC's statuses and their details become errors.
 * Effectively immutable.
 */
final class CallFailure {
  private static final String DOMAIN = "idempotency.v1";
  private static final Metadata.Key<String> PUSHBACK =
      Metadata.Key.of("grpc-retry-pushback-ms", Metadata.ASCII_STRING_MARSHALLER);
  private static final Pattern MILLIS = Pattern.compile("[0-9]{1,18}");
  private static final Set<String> BODY_FIELDS = Set.of("outcome.body", "failure.outcome.body");

  private final Status.Code code;
  private final String message;
  private final Throwable cause;
  private String reason = "";
  private final Map<String, String> metadata = new LinkedHashMap<>();
  private final List<FieldViolation> violations = new ArrayList<>();
  private @Nullable Duration retryAfter;
  private boolean mustNotRetry;

  private CallFailure(Status.Code code, String message, Throwable cause) {
    this.code = code;
    this.message = message;
    this.cause = cause;
  }

  /** What gRPC reported. */
  static CallFailure of(Throwable thrown) {
    Status status = Status.fromThrowable(thrown);
    // gRPC reports an answer that it cannot parse as cancelled, and the parser's INTERNAL beneath.
    if (status.getCode() == Status.Code.CANCELLED
        && status.getCause() instanceof StatusRuntimeException beneath) {
      return unreadable(beneath);
    }
    String message = status.getDescription() == null ? "" : status.getDescription();
    CallFailure failure = new CallFailure(status.getCode(), message, thrown);
    failure.readDetails(thrown);
    failure.readPushback(thrown);
    return failure;
  }

  /** An answer that cannot be read, or lacks what every answer has. */
  static CallFailure unreadable(@Nullable Throwable cause) {
    String message = "the service's answer is none that this client can read";
    Throwable known =
        cause != null ? cause : Status.INTERNAL.withDescription(message).asRuntimeException();
    return new CallFailure(Status.Code.INTERNAL, message, known);
  }

  /** No try was made: there was no connection in time. */
  static CallFailure notConnected() {
    String message = "no connection to the service in time";
    return new CallFailure(
        Status.Code.UNAVAILABLE,
        message,
        Status.UNAVAILABLE.withDescription(message).asRuntimeException());
  }

  Status.Code code() {
    return code;
  }

  String reason() {
    return reason;
  }

  @Nullable Duration retryAfter() {
    return retryAfter;
  }

  /** The service asks not to be asked again. */
  boolean mustNotRetry() {
    return mustNotRetry;
  }

  ErrorKind kind() {
    ErrorKind kind = kindOfReason();
    return kind == ErrorKind.INTERNAL ? kindOfCode() : kind;
  }

  IdempotencyException.Builder error() {
    return error(kind());
  }

  IdempotencyException.Builder error(ErrorKind kind) {
    IdempotencyException.Builder error =
        Errors.of(kind, message)
            .reason(reason)
            .grpcCode(code.value())
            .retryAfter(retryAfter)
            .cause(cause);
    metadata.forEach(error::metadata);
    violations.forEach(violation -> error.violation(violation.field(), violation.description()));
    return error;
  }

  /** Whether the call may have changed the record, if it was sent: docs/errors.md. */
  boolean mayHaveEffect() {
    // INTERNAL is also what a reason counts as that this client does not know.
    boolean isRefusal = kindOfReason() != ErrorKind.INTERNAL && !reason.equals("COMMIT_UNKNOWN");
    boolean isOverLimit = reason.isEmpty() && code == Status.Code.RESOURCE_EXHAUSTED;
    return !isRefusal && !isOverLimit;
  }

  /** Refused in a way that lets the work run unprotected, where that is typed out. */
  boolean saysNothingWasDone() {
    return code == Status.Code.UNAVAILABLE && UnprotectedRun.isWithoutEffect(reason);
  }

  /** As a broken connection looks: a status of gRPC's own, not of the service. */
  boolean isUnreached() {
    return code == Status.Code.UNAVAILABLE && reason.isEmpty();
  }

  /** Begin, Lookup, Renew: a repeat may help. UNAUTHENTICATED is judged by who repeats. */
  boolean isWorthRepeating() {
    if (mustNotRetry) return false;
    return code == Status.Code.UNAVAILABLE
        || code == Status.Code.DEADLINE_EXCEEDED
        || kind() == ErrorKind.RATE_LIMITED;
  }

  /** Complete, Fail: not refused for good. A pushback is no reason to lose an outcome. */
  boolean isWorthRecordingAgain() {
    return switch (code) {
      case INVALID_ARGUMENT,
          RESOURCE_EXHAUSTED,
          FAILED_PRECONDITION,
          ABORTED,
          NOT_FOUND,
          PERMISSION_DENIED ->
          false;
      default -> true;
    };
  }

  /** Complete, Fail: refused for its size, so that it is to be recorded without its body. */
  boolean isTooLarge() {
    if (code == Status.Code.RESOURCE_EXHAUSTED) return true;
    return code == Status.Code.INVALID_ARGUMENT
        && violations.stream().anyMatch(violation -> BODY_FIELDS.contains(violation.field()));
  }

  private ErrorKind kindOfReason() {
    return switch (reason) {
      case "INVALID_FIELD" -> ErrorKind.INVALID_FIELD;
      case "KEY_REUSED" -> ErrorKind.KEY_REUSED;
      // Only Renew is answered ALREADY_FINISHED: the attempt has nothing left to hold.
      case "LEASE_LOST", "ALREADY_FINISHED" -> ErrorKind.LEASE_LOST;
      case "OUTCOME_CONFLICT" -> ErrorKind.OUTCOME_CONFLICT;
      case "NEEDS_RESOLUTION" -> ErrorKind.NEEDS_RESOLUTION;
      case "RECORD_NOT_FOUND" -> ErrorKind.RECORD_NOT_FOUND;
      case "CREDENTIALS_MISSING", "CREDENTIALS_INVALID" -> ErrorKind.UNAUTHENTICATED;
      case "MERCHANT_FORBIDDEN" -> ErrorKind.PERMISSION_DENIED;
      case "MERCHANT_RATE_LIMITED" -> ErrorKind.RATE_LIMITED;
      case "OVERLOADED", "DRAINING", "STORE_UNAVAILABLE", "SCHEMA_INCOMPATIBLE", "COMMIT_UNKNOWN" ->
          ErrorKind.UNAVAILABLE;
      default -> ErrorKind.INTERNAL;
    };
  }

  // Without a reason, or with one that this client is too old for.
  private ErrorKind kindOfCode() {
    return switch (code) {
      case INVALID_ARGUMENT -> ErrorKind.INVALID_FIELD;
      case RESOURCE_EXHAUSTED -> ErrorKind.REQUEST_TOO_LARGE;
      case UNAUTHENTICATED -> ErrorKind.UNAUTHENTICATED;
      case PERMISSION_DENIED -> ErrorKind.PERMISSION_DENIED;
      // CANCELLED not by us: whether the caller is gone is asked first.
      case UNAVAILABLE, CANCELLED -> ErrorKind.UNAVAILABLE;
      case DEADLINE_EXCEEDED -> ErrorKind.DEADLINE_EXCEEDED;
      case NOT_FOUND -> ErrorKind.RECORD_NOT_FOUND;
      case ABORTED -> ErrorKind.LEASE_LOST;
      default -> ErrorKind.INTERNAL;
    };
  }

  // What cannot be read is left out: a proxy may have put anything there.
  private void readDetails(Throwable thrown) {
    try {
      com.google.rpc.Status details = StatusProto.fromThrowable(thrown);
      if (details == null) return;
      for (Any detail : details.getDetailsList()) readDetail(detail);
    } catch (IllegalArgumentException unreadable) {
      // gRPC could not parse the whole.
    }
  }

  private void readDetail(Any detail) {
    try {
      if (detail.is(ErrorInfo.class)) {
        ErrorInfo info = detail.unpack(ErrorInfo.class);
        if (!info.getDomain().equals(DOMAIN)) return;
        reason = info.getReason();
        metadata.putAll(info.getMetadataMap());
      } else if (detail.is(RetryInfo.class)) {
        RetryInfo info = detail.unpack(RetryInfo.class);
        if (info.hasRetryDelay()) retryAfter = FromProto.duration(info.getRetryDelay());
      } else if (detail.is(BadRequest.class)) {
        for (BadRequest.FieldViolation violation :
            detail.unpack(BadRequest.class).getFieldViolationsList()) {
          violations.add(new FieldViolation(violation.getField(), violation.getDescription()));
        }
      }
    } catch (InvalidProtocolBufferException unreadable) {
      // As above.
    }
  }

  // By gRPC's own rule: what is not one whole number of milliseconds says not to repeat.
  private void readPushback(Throwable thrown) {
    Metadata trailers = Status.trailersFromThrowable(thrown);
    Iterable<String> values = trailers == null ? null : trailers.getAll(PUSHBACK);
    if (values == null) return;
    Iterator<String> each = values.iterator();
    String text = each.next();
    if (!each.hasNext() && MILLIS.matcher(text).matches()) {
      long millis = Long.parseLong(text);
      if (millis <= Integer.MAX_VALUE) {
        retryAfter = Duration.ofMillis(millis);
        return;
      }
    }
    mustNotRetry = true;
  }
}
