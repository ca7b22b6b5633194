package idempotency.client;

import java.util.concurrent.CompletionStage;

/** {@link Work} that answers later. */
@FunctionalInterface
public interface AsyncWork {
  /**
   * Begins the work. Called on the common pool; must not block.
   *
   * @param attempt the right to do it, until the stage ends
   * @return what it comes to. A stage that ends in an exception or is cancelled, a stage of null,
   *     and null instead of a stage count as not known, as in {@link Work#run}
   * @throws Exception as in {@link Work#run}
   */
  CompletionStage<WorkResult> run(Attempt attempt) throws Exception;
}
