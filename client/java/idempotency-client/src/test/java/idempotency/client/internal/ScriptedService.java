package idempotency.client.internal;

import com.google.protobuf.Timestamp;
import com.google.rpc.ErrorInfo;
import idempotency.client.ClientOptions;
import idempotency.client.Hooks;
import idempotency.client.IdempotencyException;
import idempotency.client.Key;
import idempotency.client.WorkResult;
import idempotency.v1.BeginRequest;
import idempotency.v1.BeginResponse;
import idempotency.v1.CompleteRequest;
import idempotency.v1.CompleteResponse;
import idempotency.v1.FailRequest;
import idempotency.v1.FailResponse;
import idempotency.v1.IdempotencyServiceGrpc;
import idempotency.v1.InProgress;
import idempotency.v1.LookupRequest;
import idempotency.v1.LookupResponse;
import idempotency.v1.RenewRequest;
import idempotency.v1.RenewResponse;
import idempotency.v1.Started;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.inprocess.InProcessServerBuilder;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;

/** A service in this process that answers as a test says, and the client's core for it. */
class ScriptedService extends IdempotencyServiceGrpc.IdempotencyServiceImplBase
    implements AutoCloseable, Hooks {
  /** A lease that no test lives to see the end of. */
  static final Duration LEASE = Duration.ofMinutes(10);

  final BlockingQueue<BeginRequest> begins = new LinkedBlockingQueue<>();
  final BlockingQueue<CompleteRequest> completes = new LinkedBlockingQueue<>();
  final BlockingQueue<FailRequest> fails = new LinkedBlockingQueue<>();
  final BlockingQueue<RenewRequest> renewals = new LinkedBlockingQueue<>();
  final BlockingQueue<IdempotencyException> notRecorded = new LinkedBlockingQueue<>();

  volatile BiConsumer<BeginRequest, StreamObserver<BeginResponse>> onBegin =
      (request, answer) -> answer(answer, started(request, LEASE));
  volatile BiConsumer<CompleteRequest, StreamObserver<CompleteResponse>> onComplete =
      (request, answer) ->
          answer(answer, CompleteResponse.newBuilder().setFinishTime(now()).build());
  volatile BiConsumer<FailRequest, StreamObserver<FailResponse>> onFail =
      (request, answer) -> answer(answer, FailResponse.newBuilder().setFinishTime(now()).build());
  volatile BiConsumer<RenewRequest, StreamObserver<RenewResponse>> onRenew =
      (request, answer) ->
          answer(
              answer,
              RenewResponse.newBuilder().setLeaseRemaining(ToProto.duration(LEASE)).build());

  private final Server server;
  private final Core core;

  ScriptedService() {
    this(ClientOptions.builder(), LeaseClock.SYSTEM);
  }

  ScriptedService(ClientOptions.Builder options, LeaseClock clock) {
    String name = InProcessServerBuilder.generateName();
    try {
      server = InProcessServerBuilder.forName(name).addService(this).build().start();
    } catch (IOException impossible) {
      throw new IllegalStateException(impossible);
    }
    Channels channels =
        new Channels(
            InProcessChannelBuilder.forName(name).build(),
            InProcessChannelBuilder.forName(name).build());
    core = new Core(channels, options.hooks(this).build(), clock);
  }

  Core core() {
    return core;
  }

  @Override
  public void close() {
    core.close();
    server.shutdownNow();
  }

  @Override
  public void onOutcomeNotRecorded(Key key, WorkResult work, IdempotencyException error) {
    notRecorded.add(error);
  }

  /** The next of them; waits for it. */
  static <T> T next(BlockingQueue<T> queue) throws InterruptedException {
    T value = queue.poll(60, TimeUnit.SECONDS);
    if (value == null) throw new AssertionError("it did not come");
    return value;
  }

  static BeginResponse started(BeginRequest request, Duration lease) {
    return BeginResponse.newBuilder()
        .setRecordId("record")
        .setOnLeaseExpiry(request.getOnLeaseExpiry())
        .setStarted(
            Started.newBuilder()
                .setAttemptId(request.getAttemptId())
                .setAttemptNumber(1)
                .setFencingToken(7)
                .setDownstreamKey("6ba7b810-9dad-51d1-80b4-00c04fd430c8")
                .setLeaseRemaining(ToProto.duration(lease)))
        .build();
  }

  static BeginResponse inProgress() {
    return BeginResponse.newBuilder()
        .setInProgress(
            InProgress.newBuilder().setRetryAfter(ToProto.duration(Duration.ofMillis(100))))
        .build();
  }

  static Timestamp now() {
    return Timestamp.newBuilder().setSeconds(1_700_000_000).build();
  }

  static <T> void answer(StreamObserver<T> answer, T value) {
    answer.onNext(value);
    answer.onCompleted();
  }

  static StatusRuntimeException refusal(Status.Code code, String reason) {
    return StatusProto.toStatusRuntimeException(
        com.google.rpc.Status.newBuilder()
            .setCode(code.value())
            .addDetails(
                com.google.protobuf.Any.pack(
                    ErrorInfo.newBuilder().setDomain("idempotency.v1").setReason(reason).build()))
            .build());
  }

  @Override
  public void begin(BeginRequest request, StreamObserver<BeginResponse> answer) {
    begins.add(request);
    onBegin.accept(request, answer);
  }

  @Override
  public void complete(CompleteRequest request, StreamObserver<CompleteResponse> answer) {
    completes.add(request);
    onComplete.accept(request, answer);
  }

  @Override
  public void fail(FailRequest request, StreamObserver<FailResponse> answer) {
    fails.add(request);
    onFail.accept(request, answer);
  }

  @Override
  public void renew(RenewRequest request, StreamObserver<RenewResponse> answer) {
    renewals.add(request);
    onRenew.accept(request, answer);
  }

  @Override
  public void lookup(LookupRequest request, StreamObserver<LookupResponse> answer) {
    answer.onError(Status.UNAVAILABLE.asRuntimeException());
  }
}
