package idempotency.client;

import idempotency.client.internal.Text;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import java.util.regex.Pattern;

/** Makes idempotency keys. */
public final class Keys {
  private static final Pattern KIND = Pattern.compile("[a-z0-9._-]{1,32}");
  private static final int MAX_PARTS = 16;
  private static final int MAX_PART_BYTES = 1024;
  private static final int MAX_ESCAPED = 64;
  private static final int MAX_KEY = 255;

  private Keys() {}

  /** A UUIDv4 from the system's random source: a key for a request that has no name of its own. */
  public static String randomRequestId() {
    return UUID.randomUUID().toString();
  }

  /**
   * Names an operation by what it is about: {@code pay:order-7:card}. Different parts never make
   * the same key: what could be mistaken is escaped, and what is long is hashed.
   *
   * @param kind what is done: 1 to 32 of {@code a-z 0-9 . _ -}
   * @param parts what it is done to: 1 to 16, each 1 to 1,024 bytes of UTF-8
   * @return a key of at most 255 bytes; see {@link Key#business} for one that lives long enough
   * @throws InvalidFieldException with {@code kind}, {@code parts} or {@code parts[i]}
   */
  public static String businessKey(String kind, String... parts) {
    if (kind == null || !KIND.matcher(kind).matches()) {
      throw invalid("kind", "must be 1 to 32 of a-z 0-9 . _ -");
    }
    if (parts == null || parts.length == 0 || parts.length > MAX_PARTS) {
      throw invalid("parts", "must be 1 to 16");
    }
    StringBuilder key = new StringBuilder(kind);
    for (int i = 0; i < parts.length; i++) {
      key.append(':').append(escaped(parts[i], "parts[" + i + "]"));
    }
    return key.length() <= MAX_KEY ? key.toString() : kind + ":~~" + Text.digest(key.toString());
  }

  private static String escaped(String part, String field) {
    if (part == null || part.isEmpty()) throw invalid(field, "must not be empty");
    if (!Text.isWellFormed(part)) throw invalid(field, "must be text without lone surrogates");
    byte[] bytes = part.getBytes(StandardCharsets.UTF_8);
    if (bytes.length > MAX_PART_BYTES) throw invalid(field, "must be at most 1,024 bytes of UTF-8");
    StringBuilder escaped = new StringBuilder();
    for (byte b : bytes) {
      char c = (char) (b & 0xFF);
      if (isKept(c)) {
        escaped.append(c);
      } else {
        escaped.append(String.format("%%%02X", (int) c));
      }
    }
    return escaped.length() <= MAX_ESCAPED ? escaped.toString() : "~" + Text.digest(part);
  }

  private static boolean isKept(char c) {
    return (c >= 'A' && c <= 'Z')
        || (c >= 'a' && c <= 'z')
        || (c >= '0' && c <= '9')
        || c == '.'
        || c == '_'
        || c == '-';
  }

  private static IdempotencyException invalid(String field, String words) {
    return IdempotencyException.builder(ErrorKind.INVALID_FIELD)
        .message(field + ": " + words)
        .violation(field, words)
        .build();
  }
}
