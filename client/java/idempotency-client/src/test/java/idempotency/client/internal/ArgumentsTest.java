package idempotency.client.internal;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import idempotency.client.FieldViolation;
import idempotency.client.InvalidFieldException;
import idempotency.client.Key;
import idempotency.client.OnLeaseExpiry;
import idempotency.client.OnUnavailable;
import idempotency.client.Request;
import idempotency.client.RunOptions;
import java.time.Duration;
import java.util.List;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;

/** What is refused before anything is sent, whatever the type says. */
final class ArgumentsTest {
  private static final Key KEY = new Key("acme", "k");
  private static final Request REQUEST = Request.json("POST /payments", "{}");
  private static final Object FN = new Object();
  private static final Duration NEGATIVE = Duration.ofNanos(-1);
  private static final String HALF = "a\uD83D";

  private static void assertRefused(
      String field, Key key, Request request, OnLeaseExpiry action, Object fn, RunOptions options) {
    InvalidFieldException refused =
        assertThrows(
            InvalidFieldException.class, () -> Arguments.check(key, request, action, fn, options));
    assertEquals(List.of(field), refused.violations().stream().map(FieldViolation::field).toList());
  }

  private static void assertKeyRefused(String field, Key key) {
    assertRefused(field, key, REQUEST, OnLeaseExpiry.HOLD, FN, RunOptions.defaults());
  }

  private static void assertRequestRefused(String field, Request request) {
    assertRefused(field, KEY, request, OnLeaseExpiry.HOLD, FN, RunOptions.defaults());
  }

  private static void assertOptionRefused(String field, UnaryOperator<RunOptions.Builder> option) {
    RunOptions options = option.apply(RunOptions.builder()).build();
    assertRefused(field, KEY, REQUEST, OnLeaseExpiry.HOLD, FN, options);
  }

  @Test
  void goodOnesPass() {
    assertDoesNotThrow(
        () -> Arguments.check(KEY, REQUEST, OnLeaseExpiry.TAKE_OVER, FN, RunOptions.defaults()));
  }

  @Test
  void keysAreRefused() {
    assertKeyRefused("key", null);
    assertKeyRefused("merchant_id", new Key(null, "k"));
    assertKeyRefused("merchant_id", new Key("", "k"));
    assertKeyRefused("merchant_id", new Key(HALF, "k"));
    assertKeyRefused("idempotency_key", new Key("m", null));
    assertKeyRefused("idempotency_key", new Key("m", ""));
    assertKeyRefused("idempotency_key", new Key("m", HALF));
    assertKeyRefused("ttl", new Key("m", "k", NEGATIVE));
    assertThrows(InvalidFieldException.class, () -> Arguments.check(new Key("m", "")));
  }

  @Test
  void requestsAreRefused() {
    assertRequestRefused("request", null);
    assertRequestRefused("request", new Request("o", null));
    assertRequestRefused("operation", Request.json(null, "{}"));
    assertRequestRefused("operation", Request.json(HALF, "{}"));
    assertRequestRefused("payload.data", new Request("o", new Request.Payload(null, "")));
    assertRequestRefused("payload.content_type", Request.payload("o", new byte[0], null));
    assertRequestRefused("fingerprint", new Request("o", new Request.Fingerprint(null, 0)));
  }

  @Test
  void missingOnesAreRefused() {
    RunOptions options = RunOptions.defaults();
    assertRefused("on_lease_expiry", KEY, REQUEST, null, FN, options);
    assertRefused("fn", KEY, REQUEST, OnLeaseExpiry.HOLD, null, options);
    assertRefused("options", KEY, REQUEST, OnLeaseExpiry.HOLD, FN, null);
  }

  @Test
  void optionsAreRefused() {
    assertOptionRefused("ttl", options -> options.ttl(NEGATIVE));
    assertOptionRefused("ttl", options -> options.ttl(Duration.ofSeconds(Long.MAX_VALUE)));
    assertOptionRefused("lease_duration", options -> options.leaseDuration(NEGATIVE));
    assertOptionRefused("wait_timeout", options -> options.waitTimeout(NEGATIVE));
    assertOptionRefused("wait_timeout", options -> options.waitTimeout(null));
    assertOptionRefused("max_duration", options -> options.maxDuration(Duration.ZERO));
    assertOptionRefused("max_duration", options -> options.maxDuration(NEGATIVE));
    assertOptionRefused("start_timeout", options -> options.startTimeout(Duration.ZERO));
    assertOptionRefused("labels[\"a\"]", options -> options.label("a", null));
    assertOptionRefused("labels[\"null\"]", options -> options.label(null, "a"));
    assertOptionRefused("on_unavailable", options -> options.onUnavailable(null));
    assertOptionRefused(
        "on_unavailable", options -> options.onUnavailable(OnUnavailable.RUN_UNPROTECTED));
  }
}
