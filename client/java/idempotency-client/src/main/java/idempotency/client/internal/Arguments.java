package idempotency.client.internal;

import idempotency.client.ErrorKind;
import idempotency.client.FieldViolation;
import idempotency.client.IdempotencyException;
import idempotency.client.Key;
import idempotency.client.OnLeaseExpiry;
import idempotency.client.OnUnavailable;
import idempotency.client.Request;
import idempotency.client.RunOptions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * What can be seen of bad arguments before anything is sent; the service judges the rest, by the
 * same names. Here everything may be null, whatever the API says.
 */
public final class Arguments {
  // What protobuf's Duration can hold.
  private static final Duration LONGEST = Duration.ofDays(10_000L * 36525 / 100);

  private final List<FieldViolation> violations = new ArrayList<>();

  private Arguments() {}

  /**
   * The arguments of a run.
   *
   * @throws idempotency.client.InvalidFieldException if they cannot be sent, or contradict each
   *     other
   */
  public static void check(
      @Nullable Key key,
      @Nullable Request request,
      @Nullable OnLeaseExpiry onLeaseExpiry,
      @Nullable Object fn,
      @Nullable RunOptions options) {
    Arguments arguments = new Arguments();
    arguments.checkKey(key);
    arguments.checkRequest(request);
    if (onLeaseExpiry == null) arguments.add("on_lease_expiry", "must be given");
    if (fn == null) arguments.add("fn", "must be given");
    if (options == null) {
      arguments.add("options", "must be given");
    } else {
      arguments.checkOptions(options, onLeaseExpiry);
    }
    arguments.throwIfAny();
  }

  /**
   * The key of a lookup.
   *
   * @throws idempotency.client.InvalidFieldException if it cannot be sent
   */
  public static void check(@Nullable Key key) {
    Arguments arguments = new Arguments();
    arguments.checkKey(key);
    arguments.throwIfAny();
  }

  private void checkKey(@Nullable Key key) {
    if (key == null) {
      add("key", "must be given");
      return;
    }
    if (checkText(key.merchantId(), "merchant_id") && key.merchantId().isEmpty()) {
      add("merchant_id", "must not be empty");
    }
    if (checkText(key.idempotencyKey(), "idempotency_key") && key.idempotencyKey().isEmpty()) {
      add("idempotency_key", "must not be empty");
    }
    checkSpan(key.ttl(), "ttl");
  }

  private void checkRequest(@Nullable Request request) {
    if (request == null) {
      add("request", "must be given");
      return;
    }
    checkText(request.operation(), "operation");
    if (request.content() instanceof Request.Payload payload) {
      if (payload.data() == null) add("payload.data", "must be given");
      checkText(payload.contentType(), "payload.content_type");
    } else if (request.content() instanceof Request.Fingerprint fingerprint) {
      if (fingerprint.sha256() == null) add("fingerprint", "must be given");
    } else {
      add("request", "a payload or a fingerprint must be given");
    }
  }

  private void checkOptions(RunOptions options, @Nullable OnLeaseExpiry onLeaseExpiry) {
    checkSpan(options.ttl(), "ttl");
    checkSpan(options.leaseDuration(), "lease_duration");
    checkNeeded(options.waitTimeout(), "wait_timeout");
    checkAboveZero(options.maxDuration(), "max_duration");
    checkAboveZero(options.startTimeout(), "start_timeout");
    for (Map.Entry<String, String> label : options.labels().entrySet()) {
      if (!isText(label.getKey()) || !isText(label.getValue())) {
        add("labels[\"" + label.getKey() + "\"]", "must be text without lone surrogates");
      }
    }
    if (options.onUnavailable() == null) {
      add("on_unavailable", "must be given");
    } else if (options.onUnavailable() == OnUnavailable.RUN_UNPROTECTED
        && onLeaseExpiry == OnLeaseExpiry.HOLD) {
      add("on_unavailable", "what must not be done twice cannot run unprotected: it is on HOLD");
    }
  }

  private void checkAboveZero(@Nullable Duration span, String field) {
    if (checkNeeded(span, field) && span != null && span.isZero()) add(field, "must be above 0");
  }

  private boolean checkNeeded(@Nullable Duration span, String field) {
    if (span == null) {
      add(field, "must be given");
      return false;
    }
    return checkSpan(span, field);
  }

  private boolean checkSpan(@Nullable Duration span, String field) {
    if (span == null) return true;
    if (!span.isNegative() && span.compareTo(LONGEST) <= 0) return true;
    add(field, span.isNegative() ? "must not be negative" : "must be at most 10,000 years");
    return false;
  }

  private boolean checkText(@Nullable String text, String field) {
    if (isText(text)) return true;
    add(field, text == null ? "must be given" : "must be text without lone surrogates");
    return false;
  }

  private static boolean isText(@Nullable String text) {
    return text != null && Text.isWellFormed(text);
  }

  private void add(String field, String words) {
    violations.add(new FieldViolation(field, words));
  }

  private void throwIfAny() {
    if (violations.isEmpty()) return;
    FieldViolation first = violations.get(0);
    IdempotencyException.Builder error =
        Errors.of(ErrorKind.INVALID_FIELD, first.field() + ": " + first.description());
    for (FieldViolation violation : violations) {
      error.violation(violation.field(), violation.description());
    }
    throw error.build();
  }
}
