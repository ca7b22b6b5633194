package idempotency.client;

/**
 * Why a call came to nothing. The names are the same in the clients of all languages, but for their
 * spelling; each has its exception.
 */
public enum ErrorKind {
  /** {@link InvalidFieldException}. */
  INVALID_FIELD("InvalidField"),
  /** {@link KeyReusedException}. */
  KEY_REUSED("KeyReused"),
  /** {@link LeaseLostException}. */
  LEASE_LOST("LeaseLost"),
  /** {@link OutcomeConflictException}. */
  OUTCOME_CONFLICT("OutcomeConflict"),
  /** {@link NeedsResolutionException}. */
  NEEDS_RESOLUTION("NeedsResolution"),
  /** {@link RecordNotFoundException}. */
  RECORD_NOT_FOUND("RecordNotFound"),
  /** {@link UnauthenticatedException}. */
  UNAUTHENTICATED("Unauthenticated"),
  /** {@link PermissionDeniedException}. */
  PERMISSION_DENIED("PermissionDenied"),
  /** {@link RateLimitedException}. */
  RATE_LIMITED("RateLimited"),
  /** {@link RequestTooLargeException}. */
  REQUEST_TOO_LARGE("RequestTooLarge"),
  /** {@link UnavailableException}. */
  UNAVAILABLE("Unavailable"),
  /** {@link DeadlineExceededException}. */
  DEADLINE_EXCEEDED("DeadlineExceeded"),
  /** {@link CancelledException}. */
  CANCELLED("Cancelled"),
  /** {@link OutcomeNotRecordedException}. */
  OUTCOME_NOT_RECORDED("OutcomeNotRecorded"),
  /** {@link InternalException}. */
  INTERNAL("Internal");

  private final String title;

  ErrorKind(String title) {
    this.title = title;
  }

  /** The name that all languages share, such as {@code KeyReused}. */
  public String title() {
    return title;
  }
}
