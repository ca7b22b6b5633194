/**
 * Does a piece of work once, however often it is asked for.
 *
 * <p>Application code is written against {@link idempotency.client.Runner}. {@link
 * idempotency.client.IdempotencyClient} talks to the service; {@code
 * idempotency.client.testing.FakeRunner} lives in memory, for the application's own tests.
 *
 * <p>Nothing is null unless it says {@code @Nullable}. All values are immutable. All bounds are the
 * service's: a value outside them is not cut to fit but refused, as {@link
 * idempotency.client.InvalidFieldException} with the field's name. Lengths are bytes. Printable
 * ASCII means 0x20 to 0x7E.
 */
@NullMarked
package idempotency.client;

import org.jspecify.annotations.NullMarked;
