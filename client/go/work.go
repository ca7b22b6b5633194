package idempotency

import "time"

// What an error of fn is recorded by. Its text stays with the caller: it may hold
// card numbers.
const codeException = "EXCEPTION"

// workEnd is what fn came to, by its own account. Client and FakeRunner share it.
type workEnd struct {
	work WorkResult
	err  error // what fn returned
}

// unfinished is what work came to that panicked, or ended its goroutine.
func unfinished() workEnd {
	return workEnd{work: Unknown(codeException,
		"the work panicked, and whether it had an effect is not known")}
}

func (o *runOptions) endOf(work WorkResult, err error) workEnd {
	if err != nil {
		return workEnd{work: o.workOf(err), err: err}
	}
	if work.outcome == nil && work.failure == nil {
		work = Unknown(codeException, "the work ended without saying what it came to")
	}
	return workEnd{work: work}
}

func (o *runOptions) workOf(err error) WorkResult {
	switch o.dispositionOf(err) {
	case NotAppliedDisposition:
		return NotApplied(codeException, "the work failed, by its own account before any effect")
	case FinalDisposition:
		return Final(codeException, "the work failed, by its own account for good", nil)
	}
	return Unknown(codeException, "the work failed, and whether it had an effect is not known")
}

func (o *runOptions) dispositionOf(err error) (disposition Disposition) {
	if o.classify == nil {
		return UnknownDisposition
	}
	defer func() {
		if recover() != nil {
			disposition = UnknownDisposition // it does not know either
		}
	}()
	return o.classify(err)
}

// result is what RunOnce returns of what has been recorded.
func (e workEnd) result(recordID string, attemptNumber int32, finishTime time.Time,
	withoutBody bool) Result {
	if e.work.outcome != nil {
		return &Completed{Outcome: *e.work.outcome, RecordedWithoutBody: withoutBody,
			RecordID: recordID, AttemptNumber: attemptNumber, FinishTime: finishTime}
	}
	return &Failed{Failure: *e.work.failure, Err: e.err, RecordedWithoutBody: withoutBody,
		RecordID: recordID, AttemptNumber: attemptNumber, FinishTime: finishTime}
}
