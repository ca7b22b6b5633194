package idempotency.client;

import com.google.protobuf.ByteString;

/**
 * What is asked for. A second call with the same key and another request is refused, as {@link
 * KeyReusedException}.
 *
 * @param operation what is done, a constant text such as {@code POST /payments}: 1 to 128 of
 *     printable ASCII
 * @param content the request's body, or a fingerprint of it
 */
public record Request(String operation, Content content) {

  /** What tells a repeat of a request from another one. */
  public sealed interface Content permits Payload, Fingerprint {}

  /**
   * The request's body. The service hashes it and does not keep it.
   *
   * @param data 0 bytes to 1 MiB; for more send a {@link Fingerprint}
   * @param contentType at most 255 of printable ASCII. {@code application/json} and types that end
   *     in {@code +json} are compared as JSON documents (white space, member order and escapes do
   *     not matter, numbers keep their exact value), all others byte for byte
   */
  public record Payload(ByteString data, String contentType) implements Content {}

  /**
   * Instead of the body: a SHA-256 that all callers of the key make in the same way.
   *
   * @param sha256 exactly 32 bytes, not hexadecimal
   * @param scheme 0: the callers' own way; 1: the service's canonical form, made by an
   *     implementation that passes its vectors
   */
  public record Fingerprint(ByteString sha256, int scheme) implements Content {}

  /** A request whose body is JSON text. */
  public static Request json(String operation, String json) {
    return payload(operation, ByteString.copyFromUtf8(json), "application/json");
  }

  /** A request with that body; the array is copied. */
  public static Request payload(String operation, byte[] data, String contentType) {
    return payload(operation, ByteString.copyFrom(data), contentType);
  }

  /** A request with that body. */
  public static Request payload(String operation, ByteString data, String contentType) {
    return new Request(operation, new Payload(data, contentType));
  }

  /** A request by its fingerprint, made in the callers' own way; the array is copied. */
  public static Request fingerprint(String operation, byte[] sha256) {
    return new Request(operation, new Fingerprint(ByteString.copyFrom(sha256), 0));
  }
}
