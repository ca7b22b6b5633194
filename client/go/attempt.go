package idempotency

import (
	"context"
	"errors"
	"math"
	"time"
)

// Attempt is the right to do the work, as fn gets it. A plain value, so that a
// test can make one; its methods then say that nothing is to be stopped.
type Attempt struct {
	// RecordID is the record's UUID.
	RecordID string
	// AttemptNumber is 1 for the record's first attempt; 0 for an unprotected run.
	AttemptNumber int32
	// FencingToken is greater than every one granted for this key before. Hand it
	// to systems that can refuse an older one. 0 for an unprotected run.
	FencingToken int64
	// DownstreamKey is a UUID, the same for all attempts of this record. Send it to
	// the partner as its idempotency key; DownstreamKeyFor is for several partners,
	// and for narrower fields. Empty for an unprotected run.
	DownstreamKey string
	// UnknownAttempts is how many attempts ended without a known result. Above 0:
	// ask the partner before paying.
	UnknownAttempts int32
	// PreviousAttempt is the one before this; nil for the first.
	PreviousAttempt *PreviousAttempt
	// Repeated is true if the service had started this attempt before and its
	// answer was lost. fn did not run then: this client never runs it twice under
	// one attempt.
	Repeated bool
	// OnLeaseExpiry is the record's value in force.
	OnLeaseExpiry OnLeaseExpiry
	// Unprotected is true if fn runs without the service (RunUnprotected): nobody
	// keeps others from doing the same.
	Unprotected bool

	keeper *keeper
}

// StopReason is why fn's context was cancelled; StopNone as long as it is not.
func (a *Attempt) StopReason() StopReason {
	if a.keeper == nil {
		return StopNone
	}
	return a.keeper.stopReason()
}

// LeaseRemaining is how much of the lease is left, on a clock that also counts
// the time a machine is suspended (on Linux); never negative. Ask right before the
// step that cannot be undone. math.MaxInt64 in an unprotected run, which has no
// lease.
func (a *Attempt) LeaseRemaining() time.Duration {
	if a.keeper == nil || a.Unprotected {
		return math.MaxInt64
	}
	return a.keeper.remaining()
}

// DownstreamKeyFor derives a key for one of several partners: see the function of
// that name. An unprotected run has none: ErrInvalidField.
func (a *Attempt) DownstreamKeyFor(partner string, shape Shape) (string, error) {
	return DownstreamKeyFor(a.DownstreamKey, partner, shape)
}

// StopReason is why fn is asked to stop.
type StopReason string

// The reasons to stop.
const (
	// StopNone: go on.
	StopNone StopReason = "none"
	// StopLeaseLost: the lease is lost, or could not be renewed in time; somebody
	// else may start the work.
	StopLeaseLost StopReason = "lease_lost"
	// StopMaxDuration: fn has run for as long as WithMaxDuration allows.
	StopMaxDuration StopReason = "max_duration"
	// StopCancelled: the caller's context was cancelled, or the Client was closed.
	StopCancelled StopReason = "cancelled"
	// StopDeadline: the caller's context has passed its deadline.
	StopDeadline StopReason = "deadline"
)

// StopError is the cause (context.Cause) of the end of fn's context, unless it
// ended with the caller's.
type StopError struct {
	// Reason is what Attempt.StopReason says, too.
	Reason StopReason
}

// Error says that the work is asked to stop, and why.
func (e *StopError) Error() string { return "idempotency: asked to stop: " + string(e.Reason) }

// goneReason is StopNone while ctx has not ended.
func goneReason(ctx context.Context) StopReason {
	switch err := ctx.Err(); {
	case err == nil:
		return StopNone
	case errors.Is(err, context.DeadlineExceeded):
		return StopDeadline
	}
	return StopCancelled
}
