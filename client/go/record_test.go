package idempotency

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
)

func TestOutcomeIsSentWithTheSameBytesWhateverTheCallerDoesWithItsBuffer(t *testing.T) {
	t.Parallel()
	answer := make(chan error)
	service := &testService{onComplete: func(int, *idempotencyv1.CompleteRequest) error { return <-answer }}
	client := startService(t, service, ClientOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	body := []byte("paid")
	_, err := runOnce(ctx, client, func(context.Context, *Attempt) (WorkResult, error) {
		cancel()
		return Complete(Outcome{StatusCode: 200, Body: body}), nil
	})
	late := wantKind(t, err, KindOutcomeNotRecorded)
	if !late.StillRecording || late.Work == nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v", late)
	}
	copy(body, "gone")
	answer <- refusal(codes.Unavailable, "", askToWait(0))
	answer <- refusal(codes.Internal, "INTERNAL")
	answer <- nil
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if got := service.distinct("CompleteRequest"); got != 1 || string(service.completes[2].Outcome.Body) != "paid" {
		t.Errorf("sent %d different requests, the last %v", got, service.completes[2])
	}
}

func TestOutcomeIsRepeatedOnEverythingThatIsNoRefusal(t *testing.T) {
	t.Parallel()
	repeated := []codes.Code{codes.Canceled, codes.Unknown, codes.DeadlineExceeded, codes.AlreadyExists, codes.OutOfRange,
		codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss, codes.Unauthenticated}
	service := &testService{onComplete: func(n int, _ *idempotencyv1.CompleteRequest) error {
		if n < len(repeated) {
			return refusal(repeated[n], "", askToWait(0))
		}
		return nil
	}}
	logged := &hookLog{}
	client := startService(t, service, ClientOptions{Hooks: logged.hooks()})
	result, err := runOnce(t.Context(), client, pay)
	wantResult[*Completed](t, result, err)
	if got := countOf(service, &service.completes); got != len(repeated)+1 || service.distinct("CompleteRequest") != 1 {
		t.Errorf("got %d Completes", got)
	}
	if logged.refreshes != 1 || len(logged.lost) != 0 || len(logged.retries) != len(repeated) {
		t.Errorf("got %+v", logged)
	}
}

func TestOutcomeThatIsRefusedIsTold(t *testing.T) {
	t.Parallel()
	for kind, refused := range map[Kind]error{
		KindInvalidField:     refusal(codes.InvalidArgument, "INVALID_FIELD"),
		KindOutcomeConflict:  refusal(codes.FailedPrecondition, "OUTCOME_CONFLICT"),
		KindLeaseLost:        refusal(codes.Aborted, "LEASE_LOST"),
		KindRecordNotFound:   refusal(codes.NotFound, "RECORD_NOT_FOUND"),
		KindPermissionDenied: refusal(codes.PermissionDenied, "MERCHANT_FORBIDDEN"),
	} {
		logged := &hookLog{}
		service := &testService{onComplete: func(int, *idempotencyv1.CompleteRequest) error { return refused }}
		client := startService(t, service, ClientOptions{Hooks: logged.hooks()})
		_, err := runOnce(t.Context(), client, pay)
		lost := wantKind(t, err, kind)
		if lost.Work == nil || lost.Work.Outcome().StatusCode != 201 || lost.StillRecording {
			t.Errorf("got %+v", lost)
		}
		if told := logged.awaitLost(1); told[0].Kind != kind || told[0].Work == nil || logged.lostWork[0].Outcome() == nil {
			t.Errorf("the hook was told %v", told)
		}
		if got := countOf(service, &service.completes); got != 1 {
			t.Errorf("%s: got %d Completes", kind, got)
		}
	}
}

func TestOutcomeIsRefusedForBadCredentialsTheSecondTime(t *testing.T) {
	t.Parallel()
	logged := &hookLog{}
	service := &testService{onComplete: func(int, *idempotencyv1.CompleteRequest) error {
		return refusal(codes.Unauthenticated, "CREDENTIALS_INVALID")
	}}
	client := startService(t, service, ClientOptions{Hooks: logged.hooks()})
	_, err := runOnce(t.Context(), client, pay)
	wantKind(t, err, KindUnauthenticated)
	if countOf(service, &service.completes) != 2 || len(logged.awaitLost(1)) != 1 {
		t.Errorf("got %d Completes", countOf(service, &service.completes))
	}
}

func TestBodyThatIsTooLargeIsRecordedBySizeAndDigest(t *testing.T) {
	t.Parallel()
	tooLong := func(field string) error {
		return refusal(codes.InvalidArgument, "INVALID_FIELD", &errdetails.BadRequest{
			FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field}}})
	}
	service := &testService{
		onComplete: func(n int, _ *idempotencyv1.CompleteRequest) error {
			return []error{tooLong("outcome.body"), refusal(codes.Unavailable, "", askToWait(0)), nil}[n]
		},
		onFail: func(n int, _ *idempotencyv1.FailRequest) error {
			return []error{tooLong("failure.outcome.body"), nil}[n]
		},
	}
	client := startService(t, service, ClientOptions{})
	result, err := runOnce(t.Context(), client, pay)
	completed := wantResult[*Completed](t, result, err)
	if !completed.RecordedWithoutBody || string(completed.Outcome.Body) != string(paid.Body) {
		t.Errorf("got %+v", completed)
	}
	digest := sha256.Sum256(paid.Body)
	for _, sent := range service.completes[1:] {
		if o := sent.Outcome; o.Body != nil || !o.BodyOmitted || o.GetBodySize() != int64(len(paid.Body)) ||
			string(o.BodySha256) != string(digest[:]) || o.StatusCode != 201 {
			t.Errorf("sent %v", o)
		}
	}
	result, err = runOnce(t.Context(), client, func(context.Context, *Attempt) (WorkResult, error) {
		return Final("X", "m", &paid), nil
	})
	if failed := wantResult[*Failed](t, result, err); !failed.RecordedWithoutBody ||
		!service.fails[1].Failure.Outcome.BodyOmitted || failed.Failure.Outcome.Body == nil {
		t.Errorf("got %+v", failed)
	}
}

func TestOutcomeThatIsTooLargeWithoutItsBodyIsRefused(t *testing.T) {
	t.Parallel()
	service := &testService{onComplete: func(int, *idempotencyv1.CompleteRequest) error { return refusal(codes.ResourceExhausted, "") }}
	logged := &hookLog{}
	client := startService(t, service, ClientOptions{Hooks: logged.hooks()})
	_, err := runOnce(t.Context(), client, pay)
	wantKind(t, err, KindRequestTooLarge)
	if got := countOf(service, &service.completes); got != 2 || len(logged.awaitLost(1)) != 1 {
		t.Errorf("got %d Completes", got)
	}
}

func TestOutcomeThatNoMessageCanCarryIsTold(t *testing.T) {
	t.Parallel()
	for field, outcome := range map[string]Outcome{
		"outcome.content_type":    {ContentType: "\xff"},
		"outcome.response_id":     {ResponseID: "\xff"},
		"outcome.headers[1].name": {Headers: []Header{{"a", "\xff"}, {"\xff", ""}}},
	} {
		logged := &hookLog{}
		client := startService(t, &testService{}, ClientOptions{Hooks: logged.hooks()})
		_, err := runOnce(t.Context(), client, func(context.Context, *Attempt) (WorkResult, error) { return Complete(outcome), nil })
		lost := wantKind(t, err, KindInvalidField)
		if lost.Work == nil || lost.Violations[0].Field != field || len(logged.awaitLost(1)) != 1 {
			t.Errorf("got %+v, want %s", lost, field)
		}
	}
}

func TestOutcomeThatCannotBeRecordedInTimeIsTold(t *testing.T) {
	t.Parallel()
	logged := &hookLog{}
	var jump func(time.Duration)
	service := &testService{onComplete: func(n int, _ *idempotencyv1.CompleteRequest) error {
		if n == 2 {
			jump(5 * time.Minute)
		}
		return refusal(codes.Unavailable, "STORE_UNAVAILABLE", askToWait(time.Millisecond))
	}}
	client := startService(t, service, ClientOptions{Hooks: logged.hooks()})
	jump = jumpingClock(client)
	_, err := runOnce(t.Context(), client, pay)
	lost := wantKind(t, err, KindOutcomeNotRecorded)
	if lost.Work == nil || lost.StillRecording || lost.Reason != "STORE_UNAVAILABLE" || len(logged.awaitLost(1)) != 1 {
		t.Errorf("got %+v", lost)
	}
	if got := countOf(service, &service.completes); got != 3 {
		t.Errorf("got %d Completes", got)
	}
}

func TestFailureWordsAreCutToWholeCharacters(t *testing.T) {
	t.Parallel()
	service := &testService{}
	client := startService(t, service, ClientOptions{})
	result, err := runOnce(t.Context(), client, func(context.Context, *Attempt) (WorkResult, error) {
		return Final(strings.Repeat("é", 40), "\xff"+strings.Repeat("€", 400), nil), nil
	})
	sent, failed := service.fails[0].Failure, wantResult[*Failed](t, result, err).Failure
	if sent.Code != strings.Repeat("é", 32) || sent.Message != "?"+strings.Repeat("€", 341) {
		t.Errorf("sent %q, %d bytes", sent.Code, len(sent.Message))
	}
	if failed.Code != sent.Code || failed.Message != sent.Message {
		t.Error("what is returned is not what is recorded")
	}
}

func TestHookThatPanicsOrEndsItsGoroutineCostsNoOutcome(t *testing.T) {
	t.Parallel()
	for _, hook := range []func(){func() { panic(errPartner) }, runtime.Goexit} {
		var log bytes.Buffer
		service := &testService{onComplete: func(n int, _ *idempotencyv1.CompleteRequest) error {
			return []error{refusal(codes.Unavailable, "", askToWait(0)), refusal(codes.Unauthenticated, ""),
				refusal(codes.Aborted, "LEASE_LOST")}[n]
		}}
		client := startService(t, service, ClientOptions{Logger: slog.New(slog.NewTextHandler(&log, nil)), Hooks: Hooks{
			OnOutcomeNotRecorded: func(Key, WorkResult, *Error) { hook() },
			OnRetry:              func(string, *Error) { hook() },
			RefreshCredentials:   func() { hook() },
		}})
		_, err := runOnce(t.Context(), client, pay)
		wantKind(t, err, KindLeaseLost)
		if strings.Contains(log.String(), "4111") || strings.Count(log.String(), "type=*errors.errorString") != strings.Count(log.String(), "\n") {
			t.Errorf("logged %s", log.String())
		}
	}
}

func TestCloseGivesUpWhatIsNotRecordedInTime(t *testing.T) {
	t.Parallel()
	logged := &hookLog{}
	service := &testService{onComplete: func(int, *idempotencyv1.CompleteRequest) error { return refusal(codes.Unavailable, "") }}
	client := startService(t, service, ClientOptions{ShutdownTimeout: 30 * time.Millisecond, Hooks: logged.hooks()})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := runOnce(ctx, client, func(context.Context, *Attempt) (WorkResult, error) { cancel(); return Complete(paid), nil })
	wantKind(t, err, KindOutcomeNotRecorded)
	if err := client.Close(); !errors.Is(err, ErrOutcomeNotRecorded) {
		t.Errorf("Close returned %v", err)
	}
	if lost := logged.lost; len(lost) != 1 || lost[0].Kind != KindOutcomeNotRecorded || lost[0].Work == nil {
		t.Errorf("by then the hook was told %v", lost)
	}
	if err := client.Close(); !errors.Is(err, ErrOutcomeNotRecorded) {
		t.Errorf("the second Close returned %v", err)
	}
}

func TestClosedClientRefusesCallsAndStopsFn(t *testing.T) {
	t.Parallel()
	logged := &hookLog{}
	client := startService(t, &testService{}, ClientOptions{ShutdownTimeout: time.Millisecond, Hooks: logged.hooks()})
	result, err := runOnce(t.Context(), client, func(ctx context.Context, attempt *Attempt) (WorkResult, error) {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		return stopped(t, StopCancelled, nil)(ctx, attempt)
	})
	if result != nil {
		t.Errorf("got %v", result)
	}
	wantKind(t, err, KindOutcomeNotRecorded)
	if lost := logged.awaitLost(1); lost[0].Work == nil {
		t.Errorf("got %v", lost)
	}
	_, err = runOnce(t.Context(), client, mustNotRun(t), WithOnUnavailable(RunUnprotected))
	wantKind(t, err, KindUnavailable)
	_, err = client.Lookup(t.Context(), testKey, false)
	wantKind(t, err, KindUnavailable)
}
