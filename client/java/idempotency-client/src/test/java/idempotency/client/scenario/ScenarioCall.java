package idempotency.client.scenario;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import idempotency.client.Attempt;
import idempotency.client.FailureDisposition;
import idempotency.client.IdempotencyClient;
import idempotency.client.IdempotencyException;
import idempotency.client.Key;
import idempotency.client.OnLeaseExpiry;
import idempotency.client.OnUnavailable;
import idempotency.client.PreviousAttempt;
import idempotency.client.RunOptions;
import idempotency.client.RunResult;
import idempotency.client.WorkResult;
import io.grpc.Context;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;

/** One run_once of a scenario. */
final class ScenarioCall {
  /** How the client is called. */
  enum Face {
    BLOCKING,
    ASYNC
  }

  /** The work's own steps that are not in here. */
  interface OtherSteps {
    void run(JsonObject step) throws Exception;
  }

  /** What a step {@code throw} throws. */
  private static final class NamedException extends Exception {
    private static final long serialVersionUID = 1L;
    private final String name;

    NamedException(String name) {
      super("card 4111111111111111");
      this.name = name;
    }
  }

  private final IdempotencyClient client;
  private final JsonObject step;
  private final Face face;
  private final OtherSteps others;
  private final Key key;
  private final Context.CancellableContext context = Context.ROOT.withCancellation();
  private final CompletableFuture<JsonObject> actual = new CompletableFuture<>();
  private final AtomicInteger runs = new AtomicInteger();
  private volatile JsonObject seen;
  private volatile Thread thread;
  private volatile boolean isInWork;

  ScenarioCall(IdempotencyClient client, JsonObject step, Face face, OtherSteps others) {
    this.client = client;
    this.step = step;
    this.face = face;
    this.others = others;
    this.key = Json.key(step.getAsJsonObject("key"));
  }

  /** Runs it on a thread of its own; the end is what it came to. */
  CompletableFuture<JsonObject> start() {
    thread = new Thread(context.wrap(this::run), "scenario " + step.get("call").getAsString());
    thread.setDaemon(true);
    thread.start();
    return actual;
  }

  CompletableFuture<JsonObject> actual() {
    return actual;
  }

  /**
   * The caller leaves: by the interruption of its thread where that is the one which waits, else by
   * its gRPC context.
   */
  void cancel() {
    if (face == Face.BLOCKING && !isInWork) {
      thread.interrupt();
    } else {
      context.cancel(null);
    }
  }

  private void run() {
    JsonObject result;
    try {
      result = Json.result(call());
    } catch (IdempotencyException error) {
      result = Json.error(error);
    } catch (Error crash) {
      result = afterCrash();
    } catch (RuntimeException bug) {
      actual.completeExceptionally(bug);
      return;
    }
    result.addProperty("ran", runs.get() > 0);
    result.addProperty("runs", runs.get());
    if (seen != null) result.add("attempt", seen);
    actual.complete(result);
  }

  private RunResult call() {
    JsonElement onLeaseExpiry = step.get("on_lease_expiry");
    OnLeaseExpiry action =
        Arrays.stream(OnLeaseExpiry.values())
            .filter(value -> !onLeaseExpiry.isJsonNull())
            .filter(value -> value.name().equals(onLeaseExpiry.getAsString()))
            .findFirst()
            .orElse(null);
    RunOptions options = options();
    boolean hasWork = Json.has(step, "fn");
    var request = Json.request(step.getAsJsonObject("request"));
    if (face == Face.BLOCKING) {
      return client.runOnce(key, request, action, hasWork ? this::work : null, options);
    }
    Executor executor = task -> new Thread(task, "scenario work").start();
    try {
      return client
          .runOnceAsync(key, request, action, hasWork ? this::work : null, executor, options)
          .join();
    } catch (CompletionException wrapped) {
      if (wrapped.getCause() instanceof RuntimeException thrown) throw thrown;
      if (wrapped.getCause() instanceof Error crash) throw crash;
      throw wrapped;
    }
  }

  // The caller has the Error; what is recorded is for the service to say.
  private JsonObject afterCrash() {
    JsonObject object = new JsonObject();
    object.addProperty("threw", true);
    object.add("failure", Json.failure(client.lookup(key, false).failure()));
    return object;
  }

  private RunOptions options() {
    RunOptions.Builder options = RunOptions.builder();
    if (!Json.has(step, "options")) return options.build();
    for (Map.Entry<String, JsonElement> option : step.getAsJsonObject("options").entrySet()) {
      JsonElement value = option.getValue();
      switch (option.getKey()) {
        case "ttl_ms" -> options.ttl(millis(value));
        case "lease_duration_ms" -> options.leaseDuration(millis(value));
        case "wait_timeout_ms" -> options.waitTimeout(millis(value));
        case "max_duration_ms" -> options.maxDuration(millis(value));
        case "start_timeout_ms" -> options.startTimeout(millis(value));
        case "deadline_ms" -> options.deadline(millis(value));
        case "on_unavailable" -> options.onUnavailable(OnUnavailable.valueOf(value.getAsString()));
        case "labels" ->
            value
                .getAsJsonObject()
                .asMap()
                .forEach((name, label) -> options.label(name, label.getAsString()));
        case "classify" -> options.classify(thrown -> classify(value.getAsJsonObject(), thrown));
        default -> throw new IllegalArgumentException("option " + option.getKey());
      }
    }
    return options.build();
  }

  private static Duration millis(JsonElement value) {
    return Duration.ofMillis(value.getAsLong());
  }

  private static FailureDisposition classify(JsonObject names, Exception thrown) {
    if (!(thrown instanceof NamedException named)) return FailureDisposition.UNKNOWN;
    return Json.has(names, named.name)
        ? Json.disposition(names.get(named.name).getAsString())
        : FailureDisposition.UNKNOWN;
  }

  private WorkResult work(Attempt attempt) throws Exception {
    isInWork = true;
    runs.incrementAndGet();
    seen = describe(attempt);
    try {
      JsonArray steps = step.getAsJsonArray("fn");
      for (JsonElement element : steps) {
        JsonObject one = element.getAsJsonObject();
        switch (one.get("do").getAsString()) {
          case "return" -> {
            return Json.work(one.getAsJsonObject("work"));
          }
          case "throw" -> throw new NamedException(one.get("error").getAsString());
          case "throw_timeout" -> throw new TimeoutException("card 4111111111111111");
          case "throw_cancelled" -> throw new CancellationException("card 4111111111111111");
          case "crash" -> throw new AssertionError("card 4111111111111111");
          case "await_stop" -> attempt.stop().await();
          default -> others.run(one);
        }
      }
      throw new IllegalStateException("the steps of fn have no end");
    } finally {
      seen.addProperty("stop_reason", attempt.stop().reason().name().toLowerCase(Locale.ROOT));
      isInWork = false;
    }
  }

  private static JsonObject describe(Attempt attempt) {
    JsonObject object = new JsonObject();
    object.addProperty("attempt_number", attempt.attemptNumber());
    object.addProperty("unknown_attempts", attempt.unknownAttempts());
    object.addProperty("repeated", attempt.repeated());
    object.addProperty("unprotected", attempt.unprotected());
    object.addProperty("downstream_key", attempt.downstreamKey());
    object.addProperty("fencing_token", attempt.fencingToken());
    object.addProperty("record_id", attempt.recordId());
    object.addProperty("on_lease_expiry", attempt.onLeaseExpiry().name());
    PreviousAttempt previous = attempt.previousAttempt();
    if (previous != null) {
      JsonObject before = new JsonObject();
      before.addProperty("attempt_number", previous.attemptNumber());
      if (previous.failure() != null) {
        before.addProperty(
            "disposition", previous.failure().disposition().name().toLowerCase(Locale.ROOT));
      }
      object.add("previous_attempt", before);
    }
    return object;
  }
}
