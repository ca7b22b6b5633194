package idempotency.client;

/** This attempt recorded something else before; the first stays. */
public final class OutcomeConflictException extends IdempotencyException {
  private static final long serialVersionUID = 1L;

  OutcomeConflictException(Builder from) {
    super(from);
  }
}
