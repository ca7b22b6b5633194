package idempotency

import (
	"slices"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	domain          = "idempotency.v1"
	pushbackTrailer = "grpc-retry-pushback-ms"
)

// callFailure is what one failed try of a call means: the one place where gRPC's
// statuses and their details become errors.
type callFailure struct {
	err *Error
	// Whether the call may have changed the record although it failed.
	mayHaveEffect bool
	// How long the server asks to be left alone, by its trailer or RetryInfo;
	// negative if it does not say.
	asked time.Duration
	// The trailer says not to repeat the call at all.
	mustNotRetry bool
}

func (f *callFailure) code() codes.Code { return f.err.GRPCCode }

// refusedForNow is whether the server said that it did nothing and is only busy,
// going or without its database.
func (f *callFailure) refusedForNow() bool {
	return slices.Contains([]string{"STORE_UNAVAILABLE", "OVERLOADED", "DRAINING"}, f.err.Reason)
}

// worthRepeating: of a call that only asks, or may be repeated under its attempt
// id: Begin, Lookup, Renew. Unauthenticated is the caller's to judge.
func (f *callFailure) worthRepeating() bool {
	return !f.mustNotRetry && (f.code() == codes.Unavailable || f.code() == codes.DeadlineExceeded ||
		f.err.Kind == KindRateLimited)
}

// worthRecordingAgain: of Complete and Fail; false if the server refused it and
// always will. Unauthenticated is the caller's to judge.
func (f *callFailure) worthRecordingAgain() bool {
	switch f.code() {
	case codes.InvalidArgument, codes.ResourceExhausted, codes.FailedPrecondition, codes.Aborted,
		codes.NotFound, codes.PermissionDenied:
		return false
	}
	return true
}

// tooLarge: of Complete and Fail; refused for the size of the body.
func (f *callFailure) tooLarge() bool {
	if f.code() == codes.ResourceExhausted {
		return true
	}
	return f.code() == codes.InvalidArgument && slices.ContainsFunc(f.err.Violations,
		func(v FieldViolation) bool { return v.Field == "outcome.body" || v.Field == "failure.outcome.body" })
}

var kindOfReason = map[string]Kind{
	"INVALID_FIELD":         KindInvalidField,
	"KEY_REUSED":            KindKeyReused,
	"LEASE_LOST":            KindLeaseLost,
	"OUTCOME_CONFLICT":      KindOutcomeConflict,
	"ALREADY_FINISHED":      KindLeaseLost, // only of Renew: nothing is left to hold
	"NEEDS_RESOLUTION":      KindNeedsResolution,
	"RECORD_NOT_FOUND":      KindRecordNotFound,
	"CREDENTIALS_MISSING":   KindUnauthenticated,
	"CREDENTIALS_INVALID":   KindUnauthenticated,
	"MERCHANT_FORBIDDEN":    KindPermissionDenied,
	"MERCHANT_RATE_LIMITED": KindRateLimited,
	"OVERLOADED":            KindUnavailable,
	"DRAINING":              KindUnavailable,
	"STORE_UNAVAILABLE":     KindUnavailable,
	"SCHEMA_INCOMPATIBLE":   KindUnavailable,
	"COMMIT_UNKNOWN":        KindUnavailable,
	"INTERNAL":              KindInternal,
}

// Without a reason, or with one that this client is too old for.
var kindOfCode = map[codes.Code]Kind{
	codes.InvalidArgument:   KindInvalidField,
	codes.ResourceExhausted: KindRequestTooLarge,
	codes.Unauthenticated:   KindUnauthenticated,
	codes.PermissionDenied:  KindPermissionDenied,
	codes.Unavailable:       KindUnavailable,
	codes.Canceled:          KindUnavailable, // not by the caller: that is asked for first
	codes.DeadlineExceeded:  KindDeadlineExceeded,
	codes.NotFound:          KindRecordNotFound,
	codes.Aborted:           KindLeaseLost,
}

func failureOf(err error, trailer metadata.MD) *callFailure {
	answer := status.Convert(err)
	f := &callFailure{
		err:   &Error{GRPCCode: answer.Code(), Message: answer.Message()},
		asked: -1,
	}
	f.readDetails(answer)
	f.readPushback(trailer)
	f.err.RetryAfter = max(0, f.asked)

	reason := f.err.Reason
	if kind, ok := kindOfReason[reason]; ok {
		f.err.Kind = kind
	} else if kind, ok := kindOfCode[answer.Code()]; ok {
		f.err.Kind = kind
	} else {
		f.err.Kind = KindInternal
	}
	// docs/errors.md, "Did it happen?".
	_, known := kindOfReason[reason]
	refusal := known && reason != "COMMIT_UNKNOWN" && reason != "INTERNAL"
	overLimit := reason == "" && answer.Code() == codes.ResourceExhausted
	f.mayHaveEffect = !refusal && !overLimit
	return f
}

// readDetails leaves out what cannot be read: a proxy may have put anything
// there.
func (f *callFailure) readDetails(answer *status.Status) {
	for _, detail := range answer.Details() {
		switch info := detail.(type) {
		case *errdetails.ErrorInfo:
			if info.Domain == domain {
				f.err.Reason, f.err.Metadata = info.Reason, info.Metadata
			}
		case *errdetails.RetryInfo:
			if info.RetryDelay != nil {
				f.asked = info.RetryDelay.AsDuration()
			}
		case *errdetails.BadRequest:
			for _, violation := range info.FieldViolations {
				f.err.Violations = append(f.err.Violations,
					FieldViolation{violation.GetField(), violation.GetDescription()})
			}
		}
	}
}

// readPushback follows gRPC's own rule: what is negative, no number or given
// twice says not to repeat.
func (f *callFailure) readPushback(trailer metadata.MD) {
	values := trailer.Get(pushbackTrailer)
	if len(values) == 0 {
		return
	}
	millis, err := strconv.ParseUint(values[0], 10, 31)
	if err != nil || len(values) > 1 {
		f.mustNotRetry, f.asked = true, -1
		return
	}
	f.asked = time.Duration(millis) * time.Millisecond
}
