package idempotency.client.internal;

import idempotency.client.IdempotencyException;
import idempotency.client.IdempotencyRecord;
import idempotency.client.Key;
import idempotency.client.StopReason;
import idempotency.client.internal.Sending.Reply;
import idempotency.v1.IdempotencyServiceGrpc;
import idempotency.v1.LookupRequest;
import idempotency.v1.LookupResponse;
import io.grpc.Context;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/** Asks what is known about a key. */
public final class Lookup {
  // It has no options of its own; as RunOptions' startTimeout.
  private static final Duration TIMEOUT = Duration.ofSeconds(30);

  private Lookup() {}

  /** REQUIRES: the key has been {@link Arguments#check checked}. */
  public static IdempotencyRecord of(Core core, Key key, boolean includeBody) {
    LookupRequest request =
        LookupRequest.newBuilder()
            .setMerchantId(key.merchantId())
            .setIdempotencyKey(key.idempotencyKey())
            .setIncludeOutcome(includeBody)
            .build();
    if (core.isClosing()) throw Errors.closed().build();
    Caller caller = new Caller(core.timers, null);
    Context context = caller.detachedContext();
    Repeat<LookupResponse> repeat =
        new Repeat<>(
            core,
            caller,
            "Lookup",
            Moment.in(TIMEOUT),
            Moment.nanosOf(core.options.rpcTimeout()),
            timeoutNanos ->
                Sending.of(
                    context,
                    core.channels.calls(),
                    IdempotencyServiceGrpc.getLookupMethod(),
                    request,
                    timeoutNanos,
                    answer -> !answer.getRecordId().isEmpty()),
            null);
    Reply<LookupResponse> reply = await(repeat.run(), caller);
    LookupResponse answer = reply.answer();
    if (answer != null) return FromProto.record(answer);
    IdempotencyException.Builder error =
        caller.isGone() ? caller.error() : Objects.requireNonNull(reply.failure()).error();
    throw error.build();
  }

  private static Reply<LookupResponse> await(
      CompletableFuture<Reply<LookupResponse>> future, Caller caller) {
    boolean wasInterrupted = false;
    try {
      for (; ; ) {
        try {
          return future.get();
        } catch (InterruptedException e) {
          wasInterrupted = true;
          caller.leave(StopReason.CANCELLED);
        } catch (ExecutionException bug) {
          throw new IllegalStateException(bug);
        }
      }
    } finally {
      caller.close();
      if (wasInterrupted) Thread.currentThread().interrupt();
    }
  }
}
