package idempotency

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootTime reads a clock that also counts the time a machine is suspended, which
// Go's monotonic clock does not: a lease runs on meanwhile.
func bootTime() instant {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return monotonicTime() // older than Linux 2.6.39, or forbidden by a sandbox
	}
	return instant(time.Duration(now.Nano()))
}
