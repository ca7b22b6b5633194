package idempotency

import "time"

// Result is what a call of RunOnce that returned no error came to: a *Completed,
// *Replayed, *InProgress, *Failed or *Unprotected. OutcomeOf is for those to whom
// it makes no difference who did the work; HTTPAnswer makes an HTTP answer of it.
type Result interface{ isResult() }

// Completed means that this call did the work, and its outcome is recorded.
type Completed struct {
	// Outcome is what fn returned.
	Outcome Outcome
	// RecordedWithoutBody is true if the outcome's body was too large for the
	// server, so that its size and digest are recorded.
	RecordedWithoutBody bool
	// RecordID is the record's UUID, the same for all its attempts.
	RecordID string
	// AttemptNumber is this attempt's, from 1.
	AttemptNumber int32
	// FinishTime is when the outcome was recorded, by the database's clock.
	FinishTime time.Time
}

// Replayed means that the work was done before and fn did not run; the answer that was
// recorded then, in exactly one of Outcome and Failure.
type Replayed struct {
	// Outcome is the recorded outcome; nil if Failure is the answer.
	Outcome *Outcome
	// Failure is the recorded final failure; nil if Outcome is the answer.
	Failure *Failure
	// RecordID is the record's UUID.
	RecordID string
	// AttemptNumber is that of the attempt that did it, from 1.
	AttemptNumber int32
	// StartTime and FinishTime are when that attempt began, and when its answer
	// was recorded, by the database's clock.
	StartTime  time.Time
	FinishTime time.Time
}

// InProgress means that somebody else is at it, and fn did not run. Over HTTP: 409 with
// Retry-After.
type InProgress struct {
	// RetryAfter is how long to wait before asking again: 100 ms to 2 s.
	RetryAfter time.Duration
	// LeaseRemaining is what is left of the other attempt's lease.
	LeaseRemaining time.Duration
	// RecordID is the record's UUID.
	RecordID string
	// AttemptNumber is the other attempt's, from 1.
	AttemptNumber int32
	// StartTime is when it began, by the database's clock.
	StartTime time.Time
}

// Failed means that this call did the work, it failed, and that is recorded.
type Failed struct {
	// Failure is what is recorded.
	Failure Failure
	// Err is what fn returned, if it returned an error.
	Err error
	// RecordedWithoutBody is as in Completed, for the failure's outcome.
	RecordedWithoutBody bool
	// RecordID is the record's UUID.
	RecordID string
	// AttemptNumber is this attempt's, from 1.
	AttemptNumber int32
	// FinishTime is when the failure was recorded, by the database's clock.
	FinishTime time.Time
}

// Unprotected means that the service was not reached and fn ran without it, because the
// caller had typed that out (WithOnUnavailable). Nothing is recorded: a second
// call does the work again.
type Unprotected struct {
	// Work is what fn came to.
	Work WorkResult
	// Err is what fn returned, if it returned an error.
	Err error
	// Cause is why the service was not reached.
	Cause *Error
}

func (*Completed) isResult()   {}
func (*Replayed) isResult()    {}
func (*InProgress) isResult()  {}
func (*Failed) isResult()      {}
func (*Unprotected) isResult() {}

// OutcomeOf returns the outcome of work that is done, whether this call did it,
// protected or not, or an earlier one. nil for everything else, failures
// included.
func OutcomeOf(result Result) *Outcome {
	switch r := result.(type) {
	case *Completed:
		return &r.Outcome
	case *Replayed:
		return r.Outcome
	case *Unprotected:
		return r.Work.outcome
	}
	return nil
}

// RecordState is where a record stands.
type RecordState string

// The states of a record.
const (
	// StateInProgress: an attempt is at work, and its lease is not over.
	StateInProgress RecordState = "IN_PROGRESS"
	// StateCompleted: an outcome is recorded and is replayed.
	StateCompleted RecordState = "COMPLETED"
	// StateFailed: a final failure is recorded and is replayed.
	StateFailed RecordState = "FAILED"
	// StateReleased: the last attempt did nothing; the next call may start.
	StateReleased RecordState = "RELEASED"
	// StateAbandoned: money may have moved; the last attempt ended unknown.
	StateAbandoned RecordState = "ABANDONED"
)

// Record is what Lookup shows of a key. Instants are by the database's clock.
type Record struct {
	// RecordID is the record's UUID.
	RecordID string
	// Operation is as the first call gave it.
	Operation string
	// State is where the record stands.
	State RecordState
	// Expired is true past the record's retention: the next call starts anew.
	Expired bool
	// CreateTime is when the record was made, StartTime when its last attempt
	// began.
	CreateTime time.Time
	StartTime  time.Time
	// FinishTime is when the last attempt reported; zero if it did not.
	FinishTime time.Time
	// ExpireTime is when the record expires; zero while it is not settled, since
	// such a record does not.
	ExpireTime time.Time
	// OnLeaseExpiry is the value in force.
	OnLeaseExpiry OnLeaseExpiry
	// AttemptNumber is the last attempt's, from 1.
	AttemptNumber int32
	// UnknownAttempts is how many attempts ended without a known result.
	UnknownAttempts int32
	// FencingToken is the last attempt's.
	FencingToken int64
	// DownstreamKey is the UUID that all attempts send to the partner.
	DownstreamKey string
	// Labels are those of the first call.
	Labels map[string]string
	// Outcome is the recorded one, if there is one: its body only if asked for,
	// size and digest whenever there was a body.
	Outcome *Outcome
	// Failure is what the last attempt reported, if it reported one.
	Failure *Failure
	// PreviousAttempt is the one before the last; nil for attempt 1.
	PreviousAttempt *PreviousAttempt
}
