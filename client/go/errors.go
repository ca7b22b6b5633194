package idempotency

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
)

// Kind is why a call came to nothing. The names are the same in the clients of
// all languages.
type Kind string

// The kinds of errors. Each has its sentinel for errors.Is.
const (
	// KindInvalidField: a field is wrong, and Violations names it. A mistake in
	// the program.
	KindInvalidField Kind = "InvalidField"
	// KindKeyReused: the key is in use for another request. A new request needs a
	// new key.
	KindKeyReused Kind = "KeyReused"
	// KindLeaseLost: the attempt is over, a newer one may have the work.
	KindLeaseLost Kind = "LeaseLost"
	// KindOutcomeConflict: this attempt recorded something else before; the first
	// stays.
	KindOutcomeConflict Kind = "OutcomeConflict"
	// KindNeedsResolution: an attempt ended unknown and nobody may start another.
	// Never go round it with another key.
	KindNeedsResolution Kind = "NeedsResolution"
	// KindRecordNotFound: nothing is known about the key.
	KindRecordNotFound Kind = "RecordNotFound"
	// KindUnauthenticated: no or bad credentials.
	KindUnauthenticated Kind = "Unauthenticated"
	// KindPermissionDenied: not this caller's merchant or right.
	KindPermissionDenied Kind = "PermissionDenied"
	// KindRateLimited: the merchant is over its rate; RetryAfter says how long to
	// wait.
	KindRateLimited Kind = "RateLimited"
	// KindRequestTooLarge: the request is over what the server takes; send a
	// Fingerprint instead of the Payload.
	KindRequestTooLarge Kind = "RequestTooLarge"
	// KindUnavailable: the service, or its database, cannot be reached.
	KindUnavailable Kind = "Unavailable"
	// KindDeadlineExceeded: the service did not answer in time, or the caller's
	// context has passed its deadline.
	KindDeadlineExceeded Kind = "DeadlineExceeded"
	// KindCancelled: the caller's context was cancelled.
	KindCancelled Kind = "Cancelled"
	// KindOutcomeNotRecorded: fn has ended, and what it came to is not recorded,
	// or not yet: see Error.StillRecording.
	KindOutcomeNotRecorded Kind = "OutcomeNotRecorded"
	// KindInternal: the service failed, or gave an answer that this client does
	// not understand.
	KindInternal Kind = "Internal"
)

// What errors.Is compares an error of this package with, by its kind.
var (
	ErrInvalidField       = sentinel(KindInvalidField)
	ErrKeyReused          = sentinel(KindKeyReused)
	ErrLeaseLost          = sentinel(KindLeaseLost)
	ErrOutcomeConflict    = sentinel(KindOutcomeConflict)
	ErrNeedsResolution    = sentinel(KindNeedsResolution)
	ErrRecordNotFound     = sentinel(KindRecordNotFound)
	ErrUnauthenticated    = sentinel(KindUnauthenticated)
	ErrPermissionDenied   = sentinel(KindPermissionDenied)
	ErrRateLimited        = sentinel(KindRateLimited)
	ErrRequestTooLarge    = sentinel(KindRequestTooLarge)
	ErrUnavailable        = sentinel(KindUnavailable)
	ErrDeadlineExceeded   = sentinel(KindDeadlineExceeded)
	ErrCancelled          = sentinel(KindCancelled)
	ErrOutcomeNotRecorded = sentinel(KindOutcomeNotRecorded)
	ErrInternal           = sentinel(KindInternal)
)

type kindError struct{ kind Kind }

func sentinel(kind Kind) error { return &kindError{kind} }

func (e *kindError) Error() string { return "idempotency: " + string(e.kind) }

// FieldViolation names a field that is wrong.
type FieldViolation struct {
	// Field is a path such as outcome.headers[3].name.
	Field string
	// Description says what is wrong with it, for people.
	Description string
}

// Error is an operation that ended without an answer: every error of this
// package is an *Error.
//
// The one thing to look at first is Work. nil: fn did not run, and nothing
// happened by this call. Not nil: fn did run, and this is what it came to,
// although the record could not be made of it.
type Error struct {
	// Kind says what to do about it.
	Kind Kind
	// Message is for people.
	Message string
	// Reason is the server's word, such as STORE_UNAVAILABLE; empty when it gave
	// none.
	Reason string
	// GRPCCode is the status of the call that failed; codes.OK when none did.
	GRPCCode codes.Code
	// Violations are the fields that are wrong, with KindInvalidField.
	Violations []FieldViolation
	// Metadata is what the server adds to the reason: for KEY_REUSED the record's
	// id, state and creation.
	Metadata map[string]string
	// RetryAfter is how long to wait before another try; 0 where waiting does not
	// help or nothing is known.
	RetryAfter time.Duration

	// Work is what fn came to; nil exactly when fn did not run.
	Work *WorkResult
	// WorkErr is what fn returned, if it returned an error. It is not among what
	// errors.Is and errors.As look through: fn's own ErrUnavailable must not look
	// like this call's.
	WorkErr error
	// StillRecording is true, only with KindOutcomeNotRecorded, if the caller's
	// context ended first, and the record is still being made in the background.
	StillRecording bool

	// Why the caller's context ended, if that is the reason.
	cause error
}

// Error returns the kind, the server's reason if there is one, and the message.
func (e *Error) Error() string {
	text := "idempotency: " + string(e.Kind)
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.Work != nil {
		text += "; the work has been done or begun"
	}
	return text
}

// Is reports whether target is the sentinel of the error's kind.
func (e *Error) Is(target error) bool {
	other, ok := target.(*kindError)
	return ok && other.kind == e.Kind
}

// Unwrap returns why the caller's context ended, if that is the reason, so that
// errors.Is(err, context.Canceled) holds.
func (e *Error) Unwrap() error { return e.cause }

func newError(kind Kind, format string, arguments ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, arguments...)}
}

func invalidField(field, description string) *Error {
	return &Error{
		Kind:       KindInvalidField,
		Message:    field + ": " + description,
		Violations: []FieldViolation{{field, description}},
	}
}

// asError makes an *Error of whatever a Runner returned.
func asError(err error) *Error {
	var typed *Error
	if errors.As(err, &typed) {
		return typed
	}
	return &Error{Kind: KindInternal, Message: err.Error(), cause: err}
}
