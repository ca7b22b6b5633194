package idempotency.client.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import com.google.protobuf.Message;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import idempotency.client.ErrorKind;
import idempotency.client.FieldViolation;
import idempotency.client.IdempotencyException;
import idempotency.v1.ErrorReason;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What gRPC's statuses and their details become. */
final class CallFailureTest {
  private static final Metadata.Key<String> PUSHBACK =
      Metadata.Key.of("grpc-retry-pushback-ms", Metadata.ASCII_STRING_MARSHALLER);
  private static final Metadata.Key<byte[]> DETAILS =
      Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER);

  private static StatusRuntimeException status(Status.Code code, Message... details) {
    com.google.rpc.Status.Builder status =
        com.google.rpc.Status.newBuilder().setCode(code.value()).setMessage("words");
    for (Message detail : details) status.addDetails(Any.pack(detail));
    return StatusProto.toStatusRuntimeException(status.build());
  }

  private static ErrorInfo reason(String reason) {
    return ErrorInfo.newBuilder()
        .setDomain("idempotency.v1")
        .setReason(reason)
        .putMetadata("state", "COMPLETED")
        .build();
  }

  private static CallFailure withPushback(String pushback) {
    RetryInfo retry =
        RetryInfo.newBuilder().setRetryDelay(Duration.newBuilder().setSeconds(2)).build();
    StatusRuntimeException thrown = status(Status.Code.UNAVAILABLE, reason("OVERLOADED"), retry);
    thrown.getTrailers().put(PUSHBACK, pushback);
    return CallFailure.of(thrown);
  }

  @Test
  void detailsAreRead() {
    BadRequest badRequest =
        BadRequest.newBuilder()
            .addFieldViolations(
                BadRequest.FieldViolation.newBuilder().setField("ttl").setDescription("short"))
            .build();
    CallFailure failure =
        CallFailure.of(status(Status.Code.INVALID_ARGUMENT, reason("INVALID_FIELD"), badRequest));
    IdempotencyException error = failure.error().build();
    assertEquals(ErrorKind.INVALID_FIELD, error.kind());
    assertEquals("words", error.getMessage());
    assertEquals("INVALID_FIELD", error.reason());
    assertEquals(3, error.grpcCode());
    assertEquals(List.of(new FieldViolation("ttl", "short")), error.violations());
    assertEquals(Map.of("state", "COMPLETED"), error.metadata());
    assertNull(error.work());
  }

  @Test
  void serviceAsksByRetryInfoOrRatherByPushback() {
    StatusRuntimeException thrown =
        status(
            Status.Code.UNAVAILABLE,
            RetryInfo.newBuilder()
                .setRetryDelay(Duration.newBuilder().setNanos(1_500_000))
                .build());
    assertEquals(java.time.Duration.ofNanos(1_500_000), CallFailure.of(thrown).retryAfter());
    assertEquals(java.time.Duration.ofMillis(7), withPushback("7").retryAfter());
    assertEquals(java.time.Duration.ZERO, withPushback("0").retryAfter());
    assertTrue(withPushback("0").isWorthRepeating());
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"-1", "", "soon", "7.5", "+5", "5,6", "2147483648", "99999999999999999999"})
  void pushbackThatIsNoSpanEndsIt(String pushback) {
    CallFailure failure = withPushback(pushback);
    assertFalse(failure.isWorthRepeating());
    assertTrue(failure.isWorthRecordingAgain());
  }

  @Test
  void severalPushbacksEndIt() {
    StatusRuntimeException thrown = status(Status.Code.UNAVAILABLE, reason("OVERLOADED"));
    thrown.getTrailers().put(PUSHBACK, "5");
    thrown.getTrailers().put(PUSHBACK, "6");
    assertFalse(CallFailure.of(thrown).isWorthRepeating());
    assertTrue(withPushback("2147483647").isWorthRepeating());
  }

  @Test
  void foreignDomainIsNoReason() {
    ErrorInfo foreign = reason("LEASE_LOST").toBuilder().setDomain("envoy").build();
    CallFailure failure = CallFailure.of(status(Status.Code.UNAVAILABLE, foreign));
    assertEquals("", failure.reason());
    assertEquals(ErrorKind.UNAVAILABLE, failure.kind());
    assertTrue(failure.mayHaveEffect());
    assertTrue(failure.isUnreached());
  }

  @Test
  void detailsThatNobodyCanReadAreLeftOut() {
    Metadata trailers = new Metadata();
    trailers.put(DETAILS, new byte[] {(byte) 0xFF, (byte) 0xFF});
    CallFailure failure = CallFailure.of(Status.ABORTED.asRuntimeException(trailers));
    assertEquals(ErrorKind.LEASE_LOST, failure.kind());
    Any garbage =
        Any.newBuilder()
            .setTypeUrl("type.googleapis.com/google.rpc.ErrorInfo")
            .setValue(ByteString.copyFrom(new byte[] {(byte) 0xFF}))
            .build();
    var status = com.google.rpc.Status.newBuilder().setCode(14).addDetails(garbage).build();
    assertEquals("", CallFailure.of(StatusProto.toStatusRuntimeException(status)).reason());
  }

  @ParameterizedTest
  @EnumSource(
      mode = EnumSource.Mode.EXCLUDE,
      names = {"ERROR_REASON_UNSPECIFIED", "UNRECOGNIZED"})
  void everyReasonIsKnown(ErrorReason reason) {
    String name = reason.name().substring("ERROR_REASON_".length());
    // OK is no failure: a kind that came from the code would be INTERNAL.
    CallFailure failure = CallFailure.of(status(Status.Code.DATA_LOSS, reason(name)));
    assertEquals(reason == ErrorReason.ERROR_REASON_INTERNAL, failure.kind() == ErrorKind.INTERNAL);
    boolean isUnknown =
        reason == ErrorReason.ERROR_REASON_INTERNAL
            || reason == ErrorReason.ERROR_REASON_COMMIT_UNKNOWN;
    assertEquals(isUnknown, failure.mayHaveEffect());
  }

  @ParameterizedTest
  @CsvSource({
    "INVALID_ARGUMENT, INVALID_FIELD",
    "RESOURCE_EXHAUSTED, REQUEST_TOO_LARGE",
    "UNAUTHENTICATED, UNAUTHENTICATED",
    "PERMISSION_DENIED, PERMISSION_DENIED",
    "UNAVAILABLE, UNAVAILABLE",
    "CANCELLED, UNAVAILABLE",
    "DEADLINE_EXCEEDED, DEADLINE_EXCEEDED",
    "NOT_FOUND, RECORD_NOT_FOUND",
    "ABORTED, LEASE_LOST",
    "FAILED_PRECONDITION, INTERNAL",
    "UNIMPLEMENTED, INTERNAL",
    "UNKNOWN, INTERNAL",
  })
  void withoutReasonTheCodeDecides(Status.Code code, ErrorKind kind) {
    assertEquals(kind, CallFailure.of(code.toStatus().asRuntimeException()).kind());
    CallFailure fromTheFuture = CallFailure.of(status(code, reason("NEW_REASON")));
    assertEquals(kind, fromTheFuture.kind());
    assertEquals("NEW_REASON", fromTheFuture.reason());
    assertTrue(fromTheFuture.mayHaveEffect());
    assertFalse(fromTheFuture.saysNothingWasDone());
  }

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "OK")
  void onlyRefusalsEndARecord(Status.Code code) {
    boolean isRefusal =
        switch (code) {
          case INVALID_ARGUMENT,
              RESOURCE_EXHAUSTED,
              FAILED_PRECONDITION,
              ABORTED,
              NOT_FOUND,
              PERMISSION_DENIED ->
              true;
          default -> false;
        };
    CallFailure failure = CallFailure.of(code.toStatus().asRuntimeException());
    assertEquals(!isRefusal, failure.isWorthRecordingAgain());
  }

  @ParameterizedTest
  @ValueSource(strings = {"outcome.body", "failure.outcome.body"})
  void bodyThatIsTooLongIsTooLarge(String field) {
    BadRequest badRequest =
        BadRequest.newBuilder()
            .addFieldViolations(BadRequest.FieldViolation.newBuilder().setField(field))
            .build();
    assertTrue(CallFailure.of(status(Status.Code.INVALID_ARGUMENT, badRequest)).isTooLarge());
    assertFalse(CallFailure.of(status(Status.Code.FAILED_PRECONDITION, badRequest)).isTooLarge());
    assertFalse(CallFailure.of(status(Status.Code.INVALID_ARGUMENT)).isTooLarge());
    assertTrue(CallFailure.of(status(Status.Code.RESOURCE_EXHAUSTED)).isTooLarge());
  }

  @Test
  void answerThatCannotBeParsedIsInternal() {
    StatusRuntimeException beneath = Status.INTERNAL.asRuntimeException();
    CallFailure failure = CallFailure.of(Status.CANCELLED.withCause(beneath).asRuntimeException());
    assertEquals(ErrorKind.INTERNAL, failure.kind());
    assertTrue(failure.mayHaveEffect());
    assertFalse(failure.isWorthRepeating());
    assertTrue(failure.isWorthRecordingAgain());
  }
}
