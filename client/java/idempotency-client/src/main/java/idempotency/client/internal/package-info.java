/** How the client does it. No part of the API: it may change in any release. */
@NullMarked
package idempotency.client.internal;

import org.jspecify.annotations.NullMarked;
