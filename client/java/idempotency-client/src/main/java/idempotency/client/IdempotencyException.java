package idempotency.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * A call that ended without an answer.
 *
 * <p>The one thing to look at first is {@link #work}: if it is null, the work did not run, and
 * nothing happened by this call. If it is there, the work did run, and this is what it came to,
 * although the record could not be made of it.
 */
@SuppressWarnings("serial") // Holds values that are not serializable; nobody stores an exception.
public abstract sealed class IdempotencyException extends RuntimeException
    permits InvalidFieldException,
        KeyReusedException,
        LeaseLostException,
        OutcomeConflictException,
        NeedsResolutionException,
        RecordNotFoundException,
        UnauthenticatedException,
        PermissionDeniedException,
        RateLimitedException,
        RequestTooLargeException,
        UnavailableException,
        DeadlineExceededException,
        CancelledException,
        OutcomeNotRecordedException,
        InternalException {
  private static final long serialVersionUID = 1L;

  private final ErrorKind kind;
  private final String reason;
  private final int grpcCode;
  private final List<FieldViolation> violations;
  private final Map<String, String> metadata;
  private final @Nullable Duration retryAfter;
  private final @Nullable WorkResult work;
  private final @Nullable Throwable thrown;
  private final boolean stillRecording;

  IdempotencyException(Builder from) {
    super(from.message, from.thrown != null ? from.thrown : from.cause);
    kind = from.kind;
    reason = from.reason;
    grpcCode = from.grpcCode;
    violations = List.copyOf(from.violations);
    metadata = Map.copyOf(from.metadata);
    retryAfter = from.retryAfter;
    work = from.work;
    thrown = from.thrown;
    stillRecording = from.stillRecording;
  }

  /** An error of that kind. For the client, and for tests of code that handles errors. */
  public static Builder builder(ErrorKind kind) {
    return new Builder(kind);
  }

  /** Which of the kinds this is. */
  public final ErrorKind kind() {
    return kind;
  }

  /** The service's word, such as {@code STORE_UNAVAILABLE}; empty when it gave none. */
  public final String reason() {
    return reason;
  }

  /** gRPC's status code; 0 when no call failed. */
  public final int grpcCode() {
    return grpcCode;
  }

  /** Which fields are wrong, and how; empty but for {@link InvalidFieldException}. */
  public final List<FieldViolation> violations() {
    return violations;
  }

  /** What the service adds to the reason: for KEY_REUSED the record's id, state and creation. */
  public final Map<String, String> metadata() {
    return metadata;
  }

  /** How long to wait before another try; null where waiting does not help or nothing is known. */
  public final @Nullable Duration retryAfter() {
    return retryAfter;
  }

  /** What the work came to; null exactly if it did not run. */
  public final @Nullable WorkResult work() {
    return work;
  }

  /** What the work threw; null if it did not. It is the {@link #getCause cause}, too. */
  public final @Nullable Throwable thrown() {
    return thrown;
  }

  /**
   * Only with {@link OutcomeNotRecordedException}: the caller left, and the record is still being
   * made in the background.
   */
  public final boolean stillRecording() {
    return stillRecording;
  }

  /** Makes an {@link IdempotencyException}. Not thread-safe. */
  public static final class Builder {
    private final ErrorKind kind;
    private String message = "";
    private String reason = "";
    private int grpcCode;
    private final List<FieldViolation> violations = new ArrayList<>();
    private final Map<String, String> metadata = new LinkedHashMap<>();
    private @Nullable Duration retryAfter;
    private @Nullable WorkResult work;
    private @Nullable Throwable thrown;
    private @Nullable Throwable cause;
    private boolean stillRecording;

    private Builder(ErrorKind kind) {
      this.kind = Objects.requireNonNull(kind, "kind");
    }

    /** For people; empty by default. */
    public Builder message(String message) {
      this.message = Objects.requireNonNull(message, "message");
      return this;
    }

    /** Empty by default. */
    public Builder reason(String reason) {
      this.reason = Objects.requireNonNull(reason, "reason");
      return this;
    }

    /** 0 by default. */
    public Builder grpcCode(int grpcCode) {
      this.grpcCode = grpcCode;
      return this;
    }

    /** Adds a violation. */
    public Builder violation(String field, String description) {
      violations.add(new FieldViolation(field, description));
      return this;
    }

    /** Adds what the service says beside the reason. */
    public Builder metadata(String name, String value) {
      metadata.put(name, value);
      return this;
    }

    /** None by default. */
    public Builder retryAfter(@Nullable Duration retryAfter) {
      this.retryAfter = retryAfter;
      return this;
    }

    /** What the work came to; by default it did not run. */
    public Builder work(@Nullable WorkResult work) {
      this.work = work;
      return this;
    }

    /** What the work threw; nothing by default. */
    public Builder thrown(@Nullable Throwable thrown) {
      this.thrown = thrown;
      return this;
    }

    /** The failed call, say; nothing by default. What the work threw comes before it. */
    public Builder cause(@Nullable Throwable cause) {
      this.cause = cause;
      return this;
    }

    /** False by default. */
    public Builder stillRecording(boolean stillRecording) {
      this.stillRecording = stillRecording;
      return this;
    }

    /** The exception of the kind. */
    public IdempotencyException build() {
      return switch (kind) {
        case INVALID_FIELD -> new InvalidFieldException(this);
        case KEY_REUSED -> new KeyReusedException(this);
        case LEASE_LOST -> new LeaseLostException(this);
        case OUTCOME_CONFLICT -> new OutcomeConflictException(this);
        case NEEDS_RESOLUTION -> new NeedsResolutionException(this);
        case RECORD_NOT_FOUND -> new RecordNotFoundException(this);
        case UNAUTHENTICATED -> new UnauthenticatedException(this);
        case PERMISSION_DENIED -> new PermissionDeniedException(this);
        case RATE_LIMITED -> new RateLimitedException(this);
        case REQUEST_TOO_LARGE -> new RequestTooLargeException(this);
        case UNAVAILABLE -> new UnavailableException(this);
        case DEADLINE_EXCEEDED -> new DeadlineExceededException(this);
        case CANCELLED -> new CancelledException(this);
        case OUTCOME_NOT_RECORDED -> new OutcomeNotRecordedException(this);
        case INTERNAL -> new InternalException(this);
      };
    }
  }
}
