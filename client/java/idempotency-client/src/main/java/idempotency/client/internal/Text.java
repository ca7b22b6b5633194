package idempotency.client.internal;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;

/** Strings as the service takes them, and digests. */
public final class Text {
  private Text() {}

  /** Whether all of it can be sent: Java's strings may hold half of a surrogate pair. */
  public static boolean isWellFormed(String text) {
    return text.codePoints().noneMatch(Text::isSurrogate);
  }

  /**
   * {@code text} with U+FFFD for what cannot be sent. Protobuf would put a question mark, which the
   * service could take for a part of the text.
   */
  static String sendable(String text) {
    return isWellFormed(text) ? text : replaced(text, 0xFFFD);
  }

  /** The longest beginning of {@code text} that is at most {@code maxBytes} long in UTF-8. */
  public static String cut(String text, int maxBytes) {
    String clean = isWellFormed(text) ? text : replaced(text, '?');
    int bytes = 0;
    for (int i = 0; i < clean.length(); ) {
      int codePoint = clean.codePointAt(i);
      bytes += codePoint < 0x80 ? 1 : codePoint < 0x800 ? 2 : codePoint < 0x10000 ? 3 : 4;
      if (bytes > maxBytes) return clean.substring(0, i);
      i += Character.charCount(codePoint);
    }
    return clean;
  }

  /** The unpadded base64url of the SHA-256 over its UTF-8. */
  public static String digest(String text) {
    byte[] sha256 = sha256(text.getBytes(StandardCharsets.UTF_8));
    return Base64.getUrlEncoder().withoutPadding().encodeToString(sha256);
  }

  /** SHA-256. */
  public static byte[] sha256(byte[] bytes) {
    try {
      return MessageDigest.getInstance("SHA-256").digest(bytes);
    } catch (NoSuchAlgorithmException impossible) {
      throw new IllegalStateException("every Java has SHA-256", impossible);
    }
  }

  private static boolean isSurrogate(int codePoint) {
    return codePoint >= Character.MIN_SURROGATE && codePoint <= Character.MAX_SURROGATE;
  }

  private static String replaced(String text, int by) {
    return text.codePoints()
        .map(codePoint -> isSurrogate(codePoint) ? by : codePoint)
        .collect(StringBuilder::new, StringBuilder::appendCodePoint, StringBuilder::append)
        .toString();
  }
}
