package idempotency

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Work is the work itself. It runs on the calling goroutine, at most once.
//
// ctx is the caller's, and is cancelled besides when the lease is lost or the
// work has taken too long; Attempt.StopReason says why. Begin nothing new from
// then on; what has been sent to a partner has been sent, and is Unknown unless
// the partner says otherwise.
//
// An error is recorded as unknown unless WithClassify knows better, whatever
// the WorkResult beside it. So is a panic, or runtime.Goexit: it is recorded and
// then goes on to the caller as it was.
type Work func(ctx context.Context, attempt *Attempt) (WorkResult, error)

// Runner does a piece of work once. Write application code against it: Client
// talks to the service, FakeRunner lives in memory, for the application's own
// tests. Safe for concurrent use.
type Runner interface {
	// RunOnce runs fn if the work of key is this caller's to do, and returns what
	// is recorded. fn does not run at all when the service cannot be reached,
	// unless WithOnUnavailable says so. The error is an *Error.
	//
	// When ctx ends before fn, fn does not run; while fn runs, fn is told; after
	// it, what it came to is recorded all the same, and if that takes longer than
	// a second the error is ErrOutcomeNotRecorded with StillRecording.
	RunOnce(ctx context.Context, key Key, request Request, onLeaseExpiry OnLeaseExpiry, fn Work,
		options ...RunOption) (Result, error)

	// Lookup returns what is known about a key, ErrRecordNotFound if nothing is.
	// includeBody: the outcome's body, too. It is asked for 30 s or until ctx
	// ends. The error is an *Error.
	Lookup(ctx context.Context, key Key, includeBody bool) (*Record, error)
}

// OnUnavailable says what to do when the service cannot be reached.
type OnUnavailable int

const (
	// Fail returns the error and does not run fn. The default.
	Fail OnUnavailable = iota
	// RunUnprotected runs fn without the service, if it is certain that no try of
	// this call reached it or was accepted: two callers, or a repeat of this one,
	// then do the work twice. Never after a lost answer or a time-out, and never
	// with Hold.
	RunUnprotected
)

// RunOption changes one default of RunOnce.
type RunOption func(*runOptions)

type runOptions struct {
	ttl           *time.Duration
	leaseDuration *time.Duration
	waitTimeout   time.Duration
	labels        map[string]string
	maxDuration   time.Duration
	startTimeout  time.Duration
	onUnavailable OnUnavailable
	classify      func(error) Disposition
}

func newRunOptions(key Key, options []RunOption) *runOptions {
	o := &runOptions{maxDuration: 15 * time.Minute, startTimeout: 30 * time.Second}
	if key.TTL != 0 {
		o.ttl = &key.TTL
	}
	for _, option := range options {
		if option != nil {
			option(o)
		}
	}
	return o
}

// WithTTL sets how long the record answers, from its first Begin: 1 min to 30
// days. The first call's counts. Default: Key.TTL, else the server's 24 h.
func WithTTL(ttl time.Duration) RunOption { return func(o *runOptions) { o.ttl = &ttl } }

// WithLeaseDuration sets how long a crashed attempt keeps others out: 1 s to 1 h,
// by default the server's 60 s. The lease is renewed at a third of it while fn
// runs, so it need not be as long as the work.
func WithLeaseDuration(lease time.Duration) RunOption {
	return func(o *runOptions) { o.leaseDuration = &lease }
}

// WithWaitTimeout sets how long to wait for somebody else's outcome before
// InProgress is returned. Default 0: not at all.
func WithWaitTimeout(timeout time.Duration) RunOption {
	return func(o *runOptions) { o.waitTimeout = timeout }
}

// WithLabels sets words for people, such as the order number: at most 16, names
// 1 to 32 and values up to 128 bytes. Shown by Lookup, never compared.
func WithLabels(labels map[string]string) RunOption {
	return func(o *runOptions) { o.labels = labels }
}

// WithMaxDuration sets how long fn may run, more than 0. Then it is asked to
// stop, and the lease is no longer renewed. Default 15 min.
func WithMaxDuration(span time.Duration) RunOption {
	return func(o *runOptions) { o.maxDuration = span }
}

// WithStartTimeout sets how long the service is asked, over all tries, before
// RunOnce gives up without having run fn, more than 0; the wait timeout comes on
// top. Default 30 s.
func WithStartTimeout(timeout time.Duration) RunOption {
	return func(o *runOptions) { o.startTimeout = timeout }
}

// WithOnUnavailable sets what to do when the service was not reached within the
// start timeout. Default Fail.
func WithOnUnavailable(action OnUnavailable) RunOption {
	return func(o *runOptions) { o.onUnavailable = action }
}

// WithClassify says what an error that fn returned says about the work:
// NotAppliedDisposition only for what proves that nothing happened. Default, and
// if it panics: UnknownDisposition.
func WithClassify(classify func(error) Disposition) RunOption {
	return func(o *runOptions) { o.classify = classify }
}

// Hooks are called on goroutines of their own, several at a time, and waited for:
// they must not block. A panic of theirs is logged and dropped, because no hook
// may cost an outcome.
type Hooks struct {
	// OnOutcomeNotRecorded: the work has ended and what it came to could not be
	// recorded: the service refused it (say, KindLeaseLost) or could not be
	// reached for RecordTimeout, or the Client was closed first. Write it where
	// somebody will look: money may have moved without a record.
	OnOutcomeNotRecorded func(Key, WorkResult, *Error)
	// OnRetry: a call (of Begin, Complete, Fail, Renew, Lookup) failed and is
	// repeated. For metrics.
	OnRetry func(rpc string, err *Error)
	// OnUnprotected: fn is about to run without the service.
	OnUnprotected func(Key, *Error)
	// RefreshCredentials: a call was refused as unauthenticated and is repeated
	// once; forget cached credentials.
	RefreshCredentials func()
}

func (h *Hooks) outcomeNotRecorded(logger *slog.Logger, key Key, work WorkResult, err *Error) {
	if h.OnOutcomeNotRecorded != nil {
		guard(logger, func() { h.OnOutcomeNotRecorded(key, work, err) })
	}
}

func (h *Hooks) retry(logger *slog.Logger, rpc string, err *Error) {
	if h.OnRetry != nil {
		guard(logger, func() { h.OnRetry(rpc, err) })
	}
}

func (h *Hooks) unprotected(logger *slog.Logger, key Key, err *Error) {
	if h.OnUnprotected != nil {
		guard(logger, func() { h.OnUnprotected(key, err) })
	}
}

func (h *Hooks) refreshCredentials(logger *slog.Logger) {
	if h.RefreshCredentials != nil {
		guard(logger, h.RefreshCredentials)
	}
}

// guard calls a hook and keeps its panic to itself, and its runtime.Goexit, which
// a test's FailNow is. For that it has a goroutine of its own.
func guard(logger *slog.Logger, hook func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if value := recover(); value != nil {
				// Not what it says: that is the application's, and may be secret.
				logger.Error("idempotency: a hook has panicked", "type", fmt.Sprintf("%T", value))
			}
		}()
		hook()
	}()
	<-done
}
