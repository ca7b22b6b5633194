package idempotency.client.internal;

import idempotency.client.Failure;
import idempotency.client.FailureDisposition;
import idempotency.v1.BeginRequest;
import idempotency.v1.CompleteRequest;
import idempotency.v1.FailRequest;
import idempotency.v1.RenewRequest;
import io.grpc.Context;

/** What the owner of an attempt may send. */
final class Owner {
  private static final Failure NOT_BEGUN =
      new Failure(
          FailureDisposition.NOT_APPLIED,
          "NOT_BEGUN",
          "the caller gave up before the work began",
          null);

  private final Core core;
  private final Context context;
  private final BeginRequest begin;

  Owner(Core core, Context context, BeginRequest begin) {
    this.core = core;
    this.context = context;
    this.begin = begin;
  }

  /**
   * In the background: the work has not begun and will not.
   *
   * @param mayBeEarly the Begin may still be on its way, perhaps through another replica
   */
  void release(boolean mayBeEarly) {
    if (core.recorders.size() >= core.options.maxBackgroundRecords()) return;
    var unused = new Recorder(core, context, fail(NOT_BEGUN), null, mayBeEarly).start();
  }

  RenewRequest renewal() {
    RenewRequest.Builder renewal =
        RenewRequest.newBuilder()
            .setMerchantId(begin.getMerchantId())
            .setIdempotencyKey(begin.getIdempotencyKey())
            .setAttemptId(begin.getAttemptId());
    if (begin.hasLeaseDuration()) renewal.setLeaseDuration(begin.getLeaseDuration());
    return renewal.build();
  }

  CompleteRequest complete(idempotency.client.Outcome outcome) {
    return CompleteRequest.newBuilder()
        .setMerchantId(begin.getMerchantId())
        .setIdempotencyKey(begin.getIdempotencyKey())
        .setAttemptId(begin.getAttemptId())
        .setOutcome(ToProto.outcome(outcome))
        .build();
  }

  FailRequest fail(Failure failure) {
    return FailRequest.newBuilder()
        .setMerchantId(begin.getMerchantId())
        .setIdempotencyKey(begin.getIdempotencyKey())
        .setAttemptId(begin.getAttemptId())
        .setFailure(ToProto.failure(failure))
        .build();
  }
}
