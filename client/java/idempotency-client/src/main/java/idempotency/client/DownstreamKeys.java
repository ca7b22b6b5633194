package idempotency.client;

import idempotency.client.internal.Text;
import java.io.ByteArrayOutputStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.regex.Pattern;

/** Derives idempotency keys for partners from a record's downstream key. */
public final class DownstreamKeys {
  private static final String DOMAIN = "idempotency.v1 downstream key";
  private static final Pattern UUID =
      Pattern.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}");
  private static final Pattern PARTNER = Pattern.compile("[ -~]{1,64}");

  private DownstreamKeys() {}

  /**
   * A key for one of several partners, or one with a narrower field. The same arguments make the
   * same key, in the clients of all languages.
   *
   * @param downstreamKey the record's, as it is: 36 lower-case characters
   * @param partner your name for the partner: 1 to 64 of printable ASCII, and never another one
   * @param shape what the partner's field takes
   * @return the key
   * @throws InvalidFieldException with {@code downstream_key}, {@code partner} or {@code shape}
   */
  public static String derive(String downstreamKey, String partner, KeyShape shape) {
    if (downstreamKey == null || !UUID.matcher(downstreamKey).matches()) {
      throw invalid("downstream_key", "must be a UUID in lower case");
    }
    if (partner == null || !PARTNER.matcher(partner).matches()) {
      throw invalid("partner", "must be 1 to 64 of printable ASCII");
    }
    if (shape == null) throw invalid("shape", "must be given");
    byte[] d = digest(downstreamKey, partner, shape.toString());
    HexFormat hex = HexFormat.of();
    if (shape == KeyShape.UUID) return uuid(d);
    if (shape == KeyShape.HEX32) return hex.formatHex(d, 0, 16);
    if (shape == KeyShape.MAX50) return hex.formatHex(d, 0, 25);
    if (shape == KeyShape.MAX255) return hex.formatHex(d);
    return digits(new BigInteger(1, d), shape.digits());
  }

  private static byte[] digest(String... parts) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    bytes.writeBytes(DOMAIN.getBytes(StandardCharsets.US_ASCII));
    for (String part : parts) {
      bytes.write(part.length() >> 8);
      bytes.write(part.length());
      bytes.writeBytes(part.getBytes(StandardCharsets.US_ASCII));
    }
    return Text.sha256(bytes.toByteArray());
  }

  private static String uuid(byte[] d) {
    byte[] bytes = Arrays.copyOf(d, 16);
    bytes[6] = (byte) ((bytes[6] & 0x0F) | 0x80);
    bytes[8] = (byte) ((bytes[8] & 0x3F) | 0x80);
    String hex = HexFormat.of().formatHex(bytes);
    return String.join(
        "-",
        hex.substring(0, 8),
        hex.substring(8, 12),
        hex.substring(12, 16),
        hex.substring(16, 20),
        hex.substring(20));
  }

  private static String digits(BigInteger d, int count) {
    BigInteger[] quotient = d.divideAndRemainder(BigInteger.valueOf(9));
    String rest = quotient[0].mod(BigInteger.TEN.pow(count - 1)).toString();
    return quotient[1].add(BigInteger.ONE) + "0".repeat(count - 1 - rest.length()) + rest;
  }

  private static IdempotencyException invalid(String field, String words) {
    return IdempotencyException.builder(ErrorKind.INVALID_FIELD)
        .message(field + ": " + words)
        .violation(field, words)
        .build();
  }
}
