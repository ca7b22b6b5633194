package idempotency.client;

import com.google.protobuf.ByteString;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * The operation's answer. Every later call with the key gets exactly this, byte for byte.
 *
 * @param statusCode in the caller's own protocol, not interpreted
 * @param headers at most 64, and 16 KiB of names and values together; order and repeats are kept
 * @param contentType at most 255 of printable ASCII; may be empty
 * @param body null: none, which is not the same as an empty one. At most 256 KiB unless the service
 *     is set otherwise; a longer one is recorded by its size and digest alone, see {@code
 *     bodyOmitted}
 * @param responseId the caller's own id of the answer, such as the payment's: at most 255 of
 *     printable ASCII; may be empty
 * @param bodyOmitted only in answers. True: there was a body, it was too large to be recorded, and
 *     only its size and digest are known
 * @param bodySize only in answers: the body's size in bytes; null where it is not told
 * @param bodySha256 only in answers: the body's SHA-256, 32 bytes; empty where it is not told
 */
public record Outcome(
    int statusCode,
    List<Header> headers,
    String contentType,
    @Nullable ByteString body,
    String responseId,
    boolean bodyOmitted,
    @Nullable Long bodySize,
    ByteString bodySha256) {

  /** Copies the list. */
  public Outcome {
    headers = List.copyOf(headers);
    Objects.requireNonNull(contentType, "contentType");
    Objects.requireNonNull(responseId, "responseId");
    Objects.requireNonNull(bodySha256, "bodySha256");
  }

  /** An outcome with that status code, and nothing else yet. */
  public static Builder status(int statusCode) {
    return new Builder(statusCode);
  }

  /** The body as text; the empty text where there is none. */
  public String bodyText() {
    return body == null ? "" : body.toStringUtf8();
  }

  /** Makes an {@link Outcome}. Not thread-safe. */
  public static final class Builder {
    private final int statusCode;
    private final List<Header> headers = new ArrayList<>();
    private String contentType = "";
    private @Nullable ByteString body;
    private String responseId = "";

    private Builder(int statusCode) {
      this.statusCode = statusCode;
    }

    /** Adds a header whose value is text, sent as UTF-8. */
    public Builder header(String name, String value) {
      headers.add(Header.of(name, value));
      return this;
    }

    /** Adds a header. */
    public Builder header(Header header) {
      headers.add(Objects.requireNonNull(header, "header"));
      return this;
    }

    /** The body's content type; empty by default. */
    public Builder contentType(String contentType) {
      this.contentType = Objects.requireNonNull(contentType, "contentType");
      return this;
    }

    /** The body; none by default, which is not the same as an empty one. */
    public Builder body(ByteString body) {
      this.body = Objects.requireNonNull(body, "body");
      return this;
    }

    /** The body; the array is copied. */
    public Builder body(byte[] body) {
      return body(ByteString.copyFrom(body));
    }

    /** A body of text, sent as UTF-8. */
    public Builder body(String body) {
      return body(ByteString.copyFromUtf8(body));
    }

    /** A body of JSON text, with its content type. */
    public Builder json(String json) {
      return contentType("application/json").body(json);
    }

    /** The caller's own id of the answer; empty by default. */
    public Builder responseId(String responseId) {
      this.responseId = Objects.requireNonNull(responseId, "responseId");
      return this;
    }

    /** What was said so far. */
    public Outcome build() {
      return new Outcome(
          statusCode, headers, contentType, body, responseId, false, null, ByteString.EMPTY);
    }
  }
}
