package idempotency.client;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What a partner's field for an idempotency key takes. Part of what the key is derived from:
 * another shape is another key.
 */
public final class KeyShape {
  /** 36 characters, a UUID. */
  public static final KeyShape UUID = new KeyShape("uuid", 0);

  /** 32 characters: lower-case hexadecimal. */
  public static final KeyShape HEX32 = new KeyShape("hex32", 0);

  /** At most 50 characters: lower-case hexadecimal. */
  public static final KeyShape MAX50 = new KeyShape("max50", 0);

  /** At most 255 characters: 64 of lower-case hexadecimal. */
  public static final KeyShape MAX255 = new KeyShape("max255", 0);

  private static final Pattern DIGITS = Pattern.compile("digits([1-9][0-9]?)");

  private final String name;
  private final int digits;

  private KeyShape(String name, int digits) {
    this.name = name;
    this.digits = digits;
  }

  /**
   * That many decimal digits, of which the first is none 0.
   *
   * @param count 16 to 64. Fewer are refused: two payments in a hundred million would share a key,
   *     and one of them would not be made
   * @return the shape
   * @throws InvalidFieldException with {@code shape}
   */
  public static KeyShape digits(int count) {
    if (count < 16 || count > 64) throw invalid();
    return new KeyShape("digits" + count, count);
  }

  /**
   * The shape of that name, as the clients of all languages know it.
   *
   * @param name {@code uuid}, {@code hex32}, {@code max50}, {@code max255}, {@code digits16} to
   *     {@code digits64}
   * @return the shape
   * @throws InvalidFieldException with {@code shape}
   */
  public static KeyShape of(String name) {
    if (name == null) throw invalid();
    for (KeyShape shape : new KeyShape[] {UUID, HEX32, MAX50, MAX255}) {
      if (shape.name.equals(name)) return shape;
    }
    Matcher matcher = DIGITS.matcher(name);
    if (!matcher.matches()) throw invalid();
    return digits(Integer.parseInt(matcher.group(1)));
  }

  /** Its name, such as {@code digits20}. */
  @Override
  public String toString() {
    return name;
  }

  // 0: not made of digits.
  int digits() {
    return digits;
  }

  private static IdempotencyException invalid() {
    return IdempotencyException.builder(ErrorKind.INVALID_FIELD)
        .message("shape: must be one of uuid, hex32, max50, max255, digits16 to digits64")
        .violation("shape", "must be one of uuid, hex32, max50, max255, digits16 to digits64")
        .build();
  }
}
