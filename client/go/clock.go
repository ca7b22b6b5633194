package idempotency

import (
	"context"
	"math"
	"time"
)

// instant is a reading of the client's clock, in nanoseconds since some start.
type instant time.Duration

const never = instant(math.MaxInt64)

// longestSleep: Go's timers stand still while a machine is suspended, so that no
// wait relies on one for longer.
const longestSleep = time.Second

var processStart = time.Now()

func monotonicTime() instant { return instant(time.Since(processStart)) }

// add is never past never, nor wraps.
func (t instant) add(span time.Duration) instant {
	if span > 0 && t > never-instant(span) {
		return never
	}
	return t + instant(span)
}

// clock is what the client measures by; a test's may jump.
type clock func() instant

// until is 0 for what has passed.
func (c clock) until(then instant) time.Duration {
	now := c()
	if then <= now {
		return 0
	}
	return time.Duration(then - now)
}

// sleep waits until then or until ctx ends.
func (c clock) sleep(ctx context.Context, then instant) {
	for left := c.until(then); left > 0 && ctx.Err() == nil; left = c.until(then) {
		timer := time.NewTimer(min(left, longestSleep))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}
