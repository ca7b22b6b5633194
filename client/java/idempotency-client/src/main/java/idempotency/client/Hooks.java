package idempotency.client;

/**
 * What a client tells its owner. Called on the caller's or the client's threads, several at a time;
 * must not block. What they throw is dropped: no hook may cost an outcome.
 */
public interface Hooks {
  /** Nobody is told. */
  Hooks NONE = new Hooks() {};

  /**
   * The work has ended and what it came to could not be recorded: the service refused it, could not
   * be reached for {@link ClientOptions.Builder#recordTimeout}, or the client was closed first.
   * Write it where somebody will look: money may have moved without a record.
   *
   * @param key which operation
   * @param work what it came to
   * @param error why it is not recorded
   */
  default void onOutcomeNotRecorded(Key key, WorkResult work, IdempotencyException error) {}

  /**
   * A call failed and is repeated. For metrics.
   *
   * @param rpc one of Begin, Complete, Fail, Renew, Lookup
   * @param error how it failed
   */
  default void onRetry(String rpc, IdempotencyException error) {}

  /**
   * Work is about to run without the service: {@link OnUnavailable#RUN_UNPROTECTED}.
   *
   * @param key which operation
   * @param error why the service was not asked
   */
  default void onUnprotected(Key key, IdempotencyException error) {}

  /** A call was refused as UNAUTHENTICATED and is repeated once: forget cached credentials. */
  default void refreshCredentials() {}
}
