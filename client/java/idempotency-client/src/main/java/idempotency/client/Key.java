package idempotency.client;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * Which operation this is: the caller's name for it, unique within the merchant. The same for every
 * retry of the operation, and for nothing else.
 *
 * @param merchantId whose operation it is: 1 to 64 of {@code A-Z a-z 0-9 . _ : -}
 * @param idempotencyKey 1 to 255 of printable ASCII, compared byte for byte
 * @param ttl how long the record answers, from its first call, unless {@link
 *     RunOptions.Builder#ttl} says otherwise; null: the service's default, 24 h
 */
public record Key(String merchantId, String idempotencyKey, @Nullable Duration ttl) {
  /** The retention of a {@link #business} key: 30 days, the longest the service has. */
  public static final Duration BUSINESS_TTL = Duration.ofDays(30);

  /** A key that answers for as long as the service's default says, 24 h. */
  public Key(String merchantId, String idempotencyKey) {
    this(merchantId, idempotencyKey, null);
  }

  /**
   * A key that names an operation by what it is about, such as {@code pay:order-7:card}. It never
   * changes, so its record answers for {@link #BUSINESS_TTL} instead of a day. The caller's own
   * unique constraint stays the last line.
   *
   * @param merchantId as in the constructor
   * @param kind as in {@link Keys#businessKey}
   * @param parts as in {@link Keys#businessKey}
   * @return the key
   * @throws InvalidFieldException if the kind or a part is out of bounds
   */
  public static Key business(String merchantId, String kind, String... parts) {
    return new Key(merchantId, Keys.businessKey(kind, parts), BUSINESS_TTL);
  }
}
