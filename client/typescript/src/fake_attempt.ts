/** Attempts made by hand, so that `fn` can be tested by itself. */

import { downstreamKeyFor } from "./downstream_key.js";
import type { Attempt } from "./runner.js";

/** A first attempt that nobody asks to stop, but for what `changes` says. */
export function fakeAttempt(changes: Partial<Attempt> = {}): Attempt {
  const downstreamKey = changes.downstreamKey ?? "0000d0e5-0000-8000-8000-000000000001";
  return {
    recordId: "0000fa4e-0000-8000-8000-000000000001",
    attemptNumber: 1,
    fencingToken: 1n,
    downstreamKey,
    unknownAttempts: 0,
    previousAttempt: undefined,
    repeated: false,
    unprotected: false,
    onLeaseExpiry: "TAKE_OVER",
    signal: new AbortController().signal,
    stopReason: "none",
    leaseRemainingMs: () => 60_000,
    downstreamKeyFor: (partner, shape) => downstreamKeyFor(downstreamKey, partner, shape),
    ...changes,
  };
}
