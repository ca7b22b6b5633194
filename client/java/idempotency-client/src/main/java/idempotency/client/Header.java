package idempotency.client;

import com.google.protobuf.ByteString;
import java.util.Objects;

/**
 * One header of an outcome. Headers keep their order, may repeat, and are never split or merged.
 *
 * @param name 1 to 128 token characters of RFC 9110
 * @param value any bytes; names and values of all headers together are at most 16 KiB
 */
public record Header(String name, ByteString value) {
  /** Neither may be null. */
  public Header {
    Objects.requireNonNull(name, "name");
    Objects.requireNonNull(value, "value");
  }

  /** A header whose value is text, sent as UTF-8. */
  public static Header of(String name, String value) {
    return new Header(name, ByteString.copyFromUtf8(value));
  }
}
