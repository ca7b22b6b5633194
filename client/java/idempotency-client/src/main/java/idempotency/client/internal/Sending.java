package idempotency.client.internal;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientStreamTracer;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/** One try of a call. Thread-safe. */
final class Sending<A> extends ClientStreamTracer.Factory implements StreamObserver<A> {
  /** What came of it: exactly one of the two. */
  record Reply<A>(@Nullable A answer, @Nullable CallFailure failure) {}

  private final CompletableFuture<Reply<A>> reply = new CompletableFuture<>();
  private final Predicate<A> isWhole;
  private volatile boolean wasSent;
  private volatile @Nullable ClientCall<?, A> call;
  private volatile @Nullable A answer;

  private Sending(Predicate<A> isWhole) {
    this.isWhole = isWhole;
  }

  /**
   * Sends it.
   *
   * @param context that of the call, without the caller's end
   * @param isWhole whether an answer has what every answer has
   */
  static <Q, A> Sending<A> of(
      Context context,
      Channel channel,
      MethodDescriptor<Q, A> method,
      Q request,
      long timeoutNanos,
      Predicate<A> isWhole) {
    Sending<A> sending = new Sending<>(isWhole);
    CallOptions options =
        CallOptions.DEFAULT
            .withDeadlineAfter(Math.max(1, timeoutNanos), TimeUnit.NANOSECONDS)
            .withStreamTracerFactory(sending);
    Context previous = context.attach();
    try {
      ClientCall<Q, A> call = channel.newCall(method, options);
      sending.call = call;
      ClientCalls.asyncUnaryCall(call, request, sending);
    } catch (Throwable thrown) {
      sending.onError(thrown);
    } finally {
      context.detach(previous);
    }
    return sending;
  }

  /** Ends with what came of it, on one of gRPC's threads. */
  CompletableFuture<Reply<A>> reply() {
    return reply;
  }

  /**
   * Whether the request may have left: false is certain, once this has ended. gRPC makes a stream
   * before it sends anything.
   */
  boolean wasSent() {
    return wasSent;
  }

  void cancel() {
    ClientCall<?, A> started = call;
    if (started != null) started.cancel("nobody waits for the answer any more", null);
  }

  @Override
  public ClientStreamTracer newClientStreamTracer(
      ClientStreamTracer.StreamInfo info, Metadata headers) {
    return new ClientStreamTracer() {
      @Override
      public void streamCreated(io.grpc.Attributes attributes, Metadata ignored) {
        wasSent = true;
      }

      @Override
      public void outboundHeaders() {
        wasSent = true;
      }
    };
  }

  @Override
  public void onNext(A value) {
    answer = value;
  }

  @Override
  public void onError(Throwable thrown) {
    reply.complete(new Reply<>(null, CallFailure.of(thrown)));
  }

  @Override
  public void onCompleted() {
    A value = answer;
    if (value != null && isWhole.test(value)) {
      reply.complete(new Reply<>(value, null));
    } else {
      reply.complete(new Reply<>(null, CallFailure.unreadable(null)));
    }
  }
}
