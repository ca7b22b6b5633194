package idempotency.client.internal;

import com.google.protobuf.ByteString;
import idempotency.client.Failure;
import idempotency.client.Key;
import idempotency.client.OnLeaseExpiry;
import idempotency.client.Outcome;
import idempotency.client.Request;
import idempotency.client.RunOptions;
import idempotency.v1.BeginRequest;
import idempotency.v1.FailureDisposition;
import idempotency.v1.Header;
import idempotency.v1.LeaseExpiryAction;
import idempotency.v1.Payload;
import java.time.Duration;

/** The API's values as the service takes them. */
final class ToProto {
  private ToProto() {}

  static com.google.protobuf.Duration duration(Duration span) {
    return com.google.protobuf.Duration.newBuilder()
        .setSeconds(span.getSeconds())
        .setNanos(span.getNano())
        .build();
  }

  /** REQUIRES: the arguments have been {@link Arguments#check checked}. */
  static BeginRequest begin(
      Key key, Request request, OnLeaseExpiry onLeaseExpiry, RunOptions options, String attemptId) {
    BeginRequest.Builder begin =
        BeginRequest.newBuilder()
            .setMerchantId(key.merchantId())
            .setIdempotencyKey(key.idempotencyKey())
            .setOperation(request.operation())
            .setAttemptId(attemptId)
            .setOnLeaseExpiry(
                onLeaseExpiry == OnLeaseExpiry.HOLD
                    ? LeaseExpiryAction.LEASE_EXPIRY_ACTION_HOLD
                    : LeaseExpiryAction.LEASE_EXPIRY_ACTION_TAKE_OVER)
            .putAllLabels(options.labels());
    if (request.content() instanceof Request.Payload payload) {
      begin.setPayload(
          Payload.newBuilder().setData(payload.data()).setContentType(payload.contentType()));
    } else if (request.content() instanceof Request.Fingerprint fingerprint) {
      begin.setFingerprint(fingerprint.sha256()).setFingerprintScheme(fingerprint.scheme());
    }
    Duration ttl = options.ttl() != null ? options.ttl() : key.ttl();
    if (ttl != null) begin.setTtl(duration(ttl));
    if (options.leaseDuration() != null) begin.setLeaseDuration(duration(options.leaseDuration()));
    return begin.build();
  }

  static idempotency.v1.Outcome outcome(Outcome outcome) {
    idempotency.v1.Outcome.Builder message =
        idempotency.v1.Outcome.newBuilder()
            .setStatusCode(outcome.statusCode())
            .setContentType(Text.sendable(outcome.contentType()))
            .setResponseId(Text.sendable(outcome.responseId()))
            .setBodyOmitted(outcome.bodyOmitted());
    for (idempotency.client.Header header : outcome.headers()) {
      message.addHeaders(
          Header.newBuilder().setName(Text.sendable(header.name())).setValue(header.value()));
    }
    if (outcome.body() != null) message.setBody(outcome.body());
    // An outcome that came from a lookup has both beside its body; recorded they are refused there.
    if (outcome.bodyOmitted()) {
      if (outcome.bodySize() != null) message.setBodySize(outcome.bodySize());
      message.setBodySha256(outcome.bodySha256());
    }
    return message.build();
  }

  static idempotency.v1.Failure failure(Failure failure) {
    idempotency.v1.Failure.Builder message =
        idempotency.v1.Failure.newBuilder()
            .setDisposition(
                switch (failure.disposition()) {
                  case NOT_APPLIED -> FailureDisposition.FAILURE_DISPOSITION_NOT_APPLIED;
                  case FINAL -> FailureDisposition.FAILURE_DISPOSITION_FINAL;
                  case UNKNOWN -> FailureDisposition.FAILURE_DISPOSITION_UNKNOWN;
                })
            .setCode(failure.code())
            .setMessage(failure.message());
    if (failure.outcome() != null) message.setOutcome(outcome(failure.outcome()));
    return message.build();
  }

  /** The body's size and digest in its place. REQUIRES: there is a body. */
  static idempotency.v1.Outcome withoutBody(idempotency.v1.Outcome outcome) {
    byte[] body = outcome.getBody().toByteArray();
    return outcome.toBuilder()
        .clearBody()
        .setBodyOmitted(true)
        .setBodySize(body.length)
        .setBodySha256(ByteString.copyFrom(Text.sha256(body)))
        .build();
  }
}
