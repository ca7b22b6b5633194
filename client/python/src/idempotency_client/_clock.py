"""The clock that leases and deadlines are measured by."""

from __future__ import annotations

import time

if hasattr(time, "CLOCK_BOOTTIME"):

    def now() -> float:
        """Seconds since some instant, never going back; time spent suspended counts."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:
    # Elsewhere than on Linux a suspended machine may find its lease over later than it is.
    now = time.monotonic

# Waits of the standard library do not count suspended time, so none is longer than this: a machine
# that wakes up finds out within a second that its lease is over.
LONGEST_NAP = 1.0
