package idempotency

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"
)

// FakeRunner is a Runner in memory, for tests of code that uses RunOnce. No
// server, no clock, no network; the zero value is not usable, see NewFakeRunner.
//
// It answers as the service does: replays, key reuse (bytes are compared, JSON
// too), attempts that ended unknown, Hold, waiting for another goroutine's
// outcome, NotApplied that frees the key, running unprotected. It has no leases
// that run out and nothing expires; for the real thing run
// `idempotencyd dev --ephemeral` and use Client. Safe for concurrent use.
type FakeRunner struct {
	mu             sync.Mutex // guards what follows
	entries        map[fakeKey]*fakeEntry
	nextStartError *Error
	loseNext       bool
	lastNumber     int64
}

var _ Runner = (*FakeRunner)(nil)

type fakeKey struct{ merchantID, idempotencyKey string }

// fakeEntry is one key's record. Never removed.
type fakeEntry struct {
	request Request
	attempt Attempt
	running chan struct{} // closed at the end of the attempt; nil while none runs
	end     *WorkResult   // of the attempt that ended; nil: it crashed, or is running
	labels  map[string]string

	createTime, startTime, finishTime time.Time
}

// NewFakeRunner returns a FakeRunner that knows no key.
func NewFakeRunner() *FakeRunner { return &FakeRunner{entries: map[fakeKey]*fakeEntry{}} }

// FailNextStart lets the next RunOnce answer err before fn runs, as if the service
// were away, say. Where the caller runs unprotected, an err that says nothing was
// done (KindUnavailable, without a reason or with STORE_UNAVAILABLE, OVERLOADED or
// DRAINING) makes it do so.
func (f *FakeRunner) FailNextStart(err *Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nextStartError = err
}

// LoseNextRecord lets what the next fn comes to go unrecorded:
// ErrOutcomeNotRecorded, and the attempt ends unknown.
func (f *FakeRunner) LoseNextRecord() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loseNext = true
}

// CrashAttempt is a process that died in fn: the key has an attempt that ended
// unknown.
func (f *FakeRunner) CrashAttempt(key Key, request Request, onLeaseExpiry OnLeaseExpiry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	entry := f.entryLocked(key)
	f.startLocked(entry, request, onLeaseExpiry, nil)
	close(entry.running)
	entry.running = nil
}

// RunOnce implements Runner.
func (f *FakeRunner) RunOnce(ctx context.Context, key Key, request Request, onLeaseExpiry OnLeaseExpiry,
	fn Work, options ...RunOption) (Result, error) {
	if fn == nil {
		return nil, invalidField("fn", "must be given")
	}
	o := newRunOptions(key, options)
	if err := checkBegin(key, request, onLeaseExpiry, o); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, goneError(ctx)
	}
	entry, result, err := f.begin(ctx, key, request, onLeaseExpiry, o)
	if err != nil && o.onUnavailable == RunUnprotected && mayRunUnprotected(err) {
		return f.runUnprotected(ctx, fn, o, err), nil
	}
	if err != nil {
		return nil, err
	}
	if result != nil {
		return result, nil
	}
	return f.run(ctx, entry, fn, o)
}

func mayRunUnprotected(err *Error) bool {
	return err.Kind == KindUnavailable && (err.Reason == "" || (&callFailure{err: err}).refusedForNow())
}

// begin returns the entry whose attempt is the caller's, or what ends the call.
func (f *FakeRunner) begin(ctx context.Context, key Key, request Request, onLeaseExpiry OnLeaseExpiry,
	o *runOptions) (*fakeEntry, Result, *Error) {
	wait := time.NewTimer(o.waitTimeout)
	defer wait.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.nextStartError; err != nil {
		f.nextStartError = nil
		return nil, nil, err
	}
	entry := f.entryLocked(key)
	if entry.attempt.AttemptNumber > 0 && !sameRequest(entry.request, request) {
		return nil, nil, fakeError(KindKeyReused, "KEY_REUSED")
	}
	for entry.running != nil {
		running := entry.running
		f.mu.Unlock()
		waited := true
		select {
		case <-running:
		case <-wait.C:
			waited = false
		case <-ctx.Done():
		}
		f.mu.Lock()
		if ctx.Err() != nil {
			return nil, nil, goneError(ctx)
		}
		if !waited && entry.running != nil {
			return nil, &InProgress{RetryAfter: 100 * time.Millisecond, RecordID: entry.attempt.RecordID,
				AttemptNumber: entry.attempt.AttemptNumber, StartTime: entry.startTime}, nil
		}
	}
	switch state := entry.stateLocked(); {
	case state == StateCompleted || state == StateFailed:
		return nil, &Replayed{Outcome: entry.end.outcome.clone(), Failure: entry.end.failure,
			RecordID: entry.attempt.RecordID, AttemptNumber: entry.attempt.AttemptNumber,
			StartTime: entry.startTime, FinishTime: entry.finishTime}, nil
	case state == StateAbandoned && entry.attempt.OnLeaseExpiry == Hold:
		return nil, nil, fakeError(KindNeedsResolution, "NEEDS_RESOLUTION")
	}
	f.startLocked(entry, request, onLeaseExpiry, o.labels)
	return entry, nil, nil
}

// run runs fn and records what it came to, in a deferred call for the same reason
// as Client's.
func (f *FakeRunner) run(ctx context.Context, entry *fakeEntry, fn Work, o *runOptions) (result Result,
	err error) {
	f.mu.Lock()
	attempt := entry.attempt
	f.mu.Unlock()
	work, cancel := context.WithCancelCause(ctx)
	attempt.keeper = &keeper{caller: ctx, client: &Client{now: bootTime}, lease: endless, reason: StopNone, cancel: cancel}
	end := unfinished()
	defer func() {
		cancel(nil)
		result, err = f.record(entry, &attempt, end)
	}()
	end = o.endOf(fn(work, &attempt))
	return nil, nil
}

func (f *FakeRunner) runUnprotected(ctx context.Context, fn Work, o *runOptions, cause *Error) Result {
	end := o.endOf(fn(ctx, &Attempt{OnLeaseExpiry: TakeOver, Unprotected: true}))
	return &Unprotected{Work: end.work, Err: end.err, Cause: cause}
}

func (f *FakeRunner) record(entry *fakeEntry, attempt *Attempt, end workEnd) (Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(entry.running)
	entry.running = nil
	if f.loseNext {
		f.loseNext = false
		err := fakeError(KindOutcomeNotRecorded, "")
		err.Work, err.WorkErr = &end.work, end.err
		return nil, err
	}
	recorded := end.work.clone()
	entry.end, entry.finishTime = &recorded, time.Now()
	return end.result(attempt.RecordID, attempt.AttemptNumber, entry.finishTime, false), nil
}

// Lookup implements Runner.
func (f *FakeRunner) Lookup(ctx context.Context, key Key, includeBody bool) (*Record, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, goneError(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	entry, ok := f.entries[fakeKey{key.MerchantID, key.IdempotencyKey}]
	if !ok || entry.attempt.AttemptNumber == 0 {
		return nil, fakeError(KindRecordNotFound, "RECORD_NOT_FOUND")
	}
	record := &Record{
		RecordID:        entry.attempt.RecordID,
		Operation:       entry.request.Operation,
		State:           entry.stateLocked(),
		CreateTime:      entry.createTime,
		StartTime:       entry.startTime,
		OnLeaseExpiry:   entry.attempt.OnLeaseExpiry,
		AttemptNumber:   entry.attempt.AttemptNumber,
		UnknownAttempts: entry.attempt.UnknownAttempts,
		FencingToken:    entry.attempt.FencingToken,
		DownstreamKey:   entry.attempt.DownstreamKey,
		Labels:          entry.labels,
		PreviousAttempt: entry.attempt.PreviousAttempt,
	}
	if entry.end != nil {
		end := entry.end.clone()
		record.FinishTime, record.Outcome, record.Failure = entry.finishTime, end.outcome, end.failure
	}
	if o := record.Outcome; o != nil && o.Body != nil {
		sized := withoutBody(o)
		o.BodySize, o.BodySHA256 = sized.BodySize, sized.BodySHA256
		if !includeBody {
			o.Body = nil
		}
	}
	return record, nil
}

func (f *FakeRunner) entryLocked(key Key) *fakeEntry {
	id := fakeKey{key.MerchantID, key.IdempotencyKey}
	if f.entries[id] == nil {
		f.entries[id] = &fakeEntry{}
	}
	return f.entries[id]
}

// startLocked makes entry a running attempt.
func (f *FakeRunner) startLocked(entry *fakeEntry, request Request, onLeaseExpiry OnLeaseExpiry,
	labels map[string]string) {
	attempt := &entry.attempt
	now := time.Now()
	f.lastNumber++
	attempt.FencingToken = f.lastNumber
	if attempt.AttemptNumber == 0 {
		attempt.RecordID = fmt.Sprintf("0000fa4e-0000-8000-8000-%012d", f.lastNumber)
		attempt.DownstreamKey = fmt.Sprintf("0000d0e5-0000-8000-8000-%012d", f.lastNumber)
		attempt.OnLeaseExpiry = onLeaseExpiry
		entry.createTime, entry.labels = now, labels
	} else {
		previous := &PreviousAttempt{AttemptNumber: attempt.AttemptNumber, StartTime: entry.startTime}
		if entry.end != nil {
			previous.Failure = entry.end.failure
		}
		attempt.PreviousAttempt = previous
		if entry.stateLocked() != StateReleased {
			attempt.UnknownAttempts++
		}
		attempt.OnLeaseExpiry = max(attempt.OnLeaseExpiry, onLeaseExpiry) // it only tightens
	}
	attempt.AttemptNumber++
	entry.request = Request{request.Operation, cloneContent(request)}
	entry.startTime, entry.end, entry.running = now, nil, make(chan struct{})
}

func cloneContent(request Request) Content {
	switch content := contentOf(request).(type) {
	case Payload:
		content.Data = bytes.Clone(content.Data)
		return content
	case Fingerprint:
		content.SHA256 = bytes.Clone(content.SHA256)
		return content
	}
	return nil
}

func (e *fakeEntry) stateLocked() RecordState {
	switch {
	case e.running != nil:
		return StateInProgress
	case e.attempt.AttemptNumber == 0:
		return "" // there is no record yet
	case e.end == nil:
		return StateAbandoned
	case e.end.outcome != nil:
		return StateCompleted
	case e.end.failure.Disposition == FinalDisposition:
		return StateFailed
	case e.end.failure.Disposition == NotAppliedDisposition:
		return StateReleased
	}
	return StateAbandoned
}

func sameRequest(a, b Request) bool {
	if a.Operation != b.Operation {
		return false
	}
	switch first := contentOf(a).(type) {
	case Payload:
		second, ok := contentOf(b).(Payload)
		return ok && first.ContentType == second.ContentType && bytes.Equal(first.Data, second.Data)
	case Fingerprint:
		second, ok := contentOf(b).(Fingerprint)
		return ok && bytes.Equal(first.SHA256, second.SHA256)
	}
	return false
}

func fakeError(kind Kind, reason string) *Error {
	return &Error{Kind: kind, Reason: reason, Message: "answered by a FakeRunner"}
}
