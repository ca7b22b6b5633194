/** For the tests of code that does its work through a {@link idempotency.client.Runner}. */
@NullMarked
package idempotency.client.testing;

import org.jspecify.annotations.NullMarked;
