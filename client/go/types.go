package idempotency

import (
	"slices"
	"time"
)

// Key says which operation this is: the caller's name for it, unique within the
// merchant, the same for every retry of the operation and for nothing else.
// NewBusinessKey makes one of what the operation is about; RandomRequestID is
// for those who keep a random one.
type Key struct {
	// MerchantID says whose operation it is: 1 to 64 of A-Z a-z 0-9 . _ : -
	MerchantID string
	// IdempotencyKey is 1 to 255 of printable ASCII, compared byte for byte.
	IdempotencyKey string
	// TTL is how long the record answers, unless WithTTL says otherwise: 1 min
	// to 30 days. 0: the server's default, 24 h.
	TTL time.Duration
}

// Request is what is asked for. A second call with the same key and another
// request is refused with ErrKeyReused.
type Request struct {
	// Operation is what is done, a constant text such as "POST /payments": 1 to
	// 128 of printable ASCII.
	Operation string
	// Content is a Payload or a Fingerprint.
	Content Content
}

// Content is what tells a repeated request from another one: a Payload or a
// Fingerprint.
type Content interface{ isContent() }

// Payload is the request's body. The server hashes it and does not keep it.
type Payload struct {
	// Data is at most 1 MiB. JSON is compared as a document: white space, member
	// order and escapes do not matter, numbers keep their exact value.
	Data []byte
	// ContentType is at most 255 of printable ASCII. application/json and types
	// ending in +json are compared as JSON, all others byte for byte.
	ContentType string
}

// Fingerprint stands for the body: a SHA-256 that all callers of the key make in
// the same way.
type Fingerprint struct {
	// SHA256 is exactly 32 bytes, not hexadecimal.
	SHA256 []byte
	// Scheme is 0, the callers' own way, or 1, the server's canonical form, made
	// by an implementation that passes its vectors.
	Scheme int32
}

func (Payload) isContent()     {}
func (Fingerprint) isContent() {}

// OnLeaseExpiry says what happens when a process dies, or hangs, between the
// start of the work and its record. There is no default, the zero value is
// refused: it depends on the partner.
type OnLeaseExpiry int

const (
	// TakeOver: the next call does the work again and is told that an attempt
	// ended unknown (Attempt.UnknownAttempts). For partners that are idempotent by
	// the downstream key, or can be asked.
	TakeOver OnLeaseExpiry = iota + 1
	// Hold: nobody does the work again (ErrNeedsResolution) until a person or the
	// reconciliation has found out what happened. For partners that would pay
	// twice.
	Hold
)

// String returns TAKE_OVER or HOLD.
func (o OnLeaseExpiry) String() string {
	switch o {
	case TakeOver:
		return "TAKE_OVER"
	case Hold:
		return "HOLD"
	}
	return "unspecified"
}

// Header is one header of an Outcome.
type Header struct {
	// Name is 1 to 128 token characters of RFC 9110.
	Name string
	// Value is any bytes.
	Value string
}

// Outcome is the operation's answer. Every later call with the key gets exactly
// this, byte for byte.
type Outcome struct {
	// StatusCode is in the caller's own protocol and not interpreted.
	StatusCode int32
	// Headers are at most 64, and 16 KiB of names and values together. Order and
	// repeats are kept.
	Headers []Header
	// ContentType is at most 255 of printable ASCII.
	ContentType string
	// Body is at most 256 KiB unless the server is set otherwise; a longer one is
	// recorded by its size and digest alone. nil and empty are different things,
	// and replays keep the difference.
	Body []byte
	// ResponseID is the caller's own id of the answer, such as the payment's: at
	// most 255 of printable ASCII.
	ResponseID string

	// BodyOmitted is true, in answers, if there was a body that was too large to
	// be recorded, so that only its size and its SHA-256 are known.
	BodyOmitted bool
	// BodySize is the length of the body in bytes; only with BodyOmitted and in
	// the answers of Lookup, where nil means that there was no body.
	BodySize *int64
	// BodySHA256 is the body's SHA-256, 32 bytes; where BodySize is.
	BodySHA256 []byte
}

// Disposition is what is known about an attempt that did not succeed.
type Disposition int

const (
	// UnknownDisposition: it may have happened. The zero value, and right for
	// everything that is not known to be one of the others.
	UnknownDisposition Disposition = iota
	// NotAppliedDisposition: nothing happened, for certain. The key is free for
	// the next call.
	NotAppliedDisposition
	// FinalDisposition: the operation failed for good. The failure is the answer,
	// and is replayed like one.
	FinalDisposition
)

// String returns unknown, not_applied or final.
func (d Disposition) String() string {
	switch d {
	case NotAppliedDisposition:
		return "not_applied"
	case FinalDisposition:
		return "final"
	}
	return "unknown"
}

// Failure is how an attempt failed.
type Failure struct {
	// Disposition decides whether the failure is replayed, the key is free, or
	// nobody knows.
	Disposition Disposition
	// Code is the caller's own, Message its words for people: UTF-8, cut by this
	// package to 64 and 1,024 bytes, because a failure must be recorded however
	// long its words are. No secrets: support staff read them.
	Code    string
	Message string
	// Outcome is the answer that goes with it; nil if there is none.
	Outcome *Outcome
}

// WorkResult is what the work came to: what fn returns, made by Complete,
// NotApplied, Final or Unknown. The zero value says nothing, and is recorded as
// unknown.
type WorkResult struct {
	outcome *Outcome
	failure *Failure
}

// Complete says that the work is done. outcome is the answer from now on.
func Complete(outcome Outcome) WorkResult { return WorkResult{outcome: &outcome} }

// NotApplied says that nothing happened and nothing will. Only with proof: the
// request was never sent, or the partner refused it. A time-out, a reset
// connection or a 5xx is no proof.
func NotApplied(code, message string) WorkResult {
	return failedWork(NotAppliedDisposition, code, message, nil)
}

// Final says that the work failed for good: card declined, account closed.
// Every later call gets this answer. outcome may be nil.
func Final(code, message string, outcome *Outcome) WorkResult {
	return failedWork(FinalDisposition, code, message, outcome)
}

// Unknown says that nobody knows whether it happened. Always allowed, never
// wrong.
func Unknown(code, message string) WorkResult {
	return failedWork(UnknownDisposition, code, message, nil)
}

func failedWork(disposition Disposition, code, message string, outcome *Outcome) WorkResult {
	return WorkResult{failure: &Failure{disposition, cleanText(code, maxCodeBytes),
		cleanText(message, maxMessageBytes), outcome}}
}

// Outcome returns the answer of work that is done, nil for all other.
func (w WorkResult) Outcome() *Outcome { return w.outcome }

// Failure returns how the work failed, nil if it is done.
func (w WorkResult) Failure() *Failure { return w.failure }

// clone returns a copy that shares nothing with what fn may go on changing.
func (w WorkResult) clone() WorkResult {
	if w.outcome != nil {
		return WorkResult{outcome: w.outcome.clone()}
	}
	failure := *w.failure
	failure.Outcome = failure.Outcome.clone()
	return WorkResult{failure: &failure}
}

func (o *Outcome) clone() *Outcome {
	if o == nil {
		return nil
	}
	copied := *o
	copied.Headers = slices.Clone(o.Headers)
	copied.Body = slices.Clone(o.Body)
	copied.BodySHA256 = slices.Clone(o.BodySHA256)
	if o.BodySize != nil {
		size := *o.BodySize
		copied.BodySize = &size
	}
	return &copied
}

// PreviousAttempt is how the attempt before this one ended.
type PreviousAttempt struct {
	// AttemptNumber is its number within the record, from 1.
	AttemptNumber int32
	// StartTime and LeaseExpireTime are by the database's clock.
	StartTime       time.Time
	LeaseExpireTime time.Time
	// Failure is what it reported, not applied or unknown. nil: its lease ran out,
	// and nothing is known.
	Failure *Failure
}
