package idempotency.client;

/**
 * The request is over what the service takes; send a {@link Request.Fingerprint} instead of the
 * body.
 */
public final class RequestTooLargeException extends IdempotencyException {
  private static final long serialVersionUID = 1L;

  RequestTooLargeException(Builder from) {
    super(from);
  }
}
