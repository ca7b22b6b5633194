package idempotency.client.internal;

import idempotency.client.ErrorKind;
import idempotency.client.IdempotencyException;
import org.jspecify.annotations.Nullable;

/** Makes errors that no failed call came to. */
final class Errors {
  private Errors() {}

  // Builders, so that the exception is made, with its stack, where it is thrown.
  static IdempotencyException.Builder of(ErrorKind kind, String message) {
    return IdempotencyException.builder(kind).message(message);
  }

  static IdempotencyException.Builder closed() {
    return of(ErrorKind.UNAVAILABLE, "the client is closed");
  }

  /** For what only a bug can be the cause of. */
  static IdempotencyException.Builder failed(@Nullable Throwable bug) {
    return of(ErrorKind.INTERNAL, "the client failed").cause(bug);
  }

  static IdempotencyException.Builder invalid(String field, String words) {
    return of(ErrorKind.INVALID_FIELD, field + ": " + words).violation(field, words);
  }
}
