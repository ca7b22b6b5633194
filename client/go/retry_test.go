package idempotency

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
)

func TestBeginIsRepeatedOnWhatTimeMends(t *testing.T) {
	t.Parallel()
	mended := []error{refusal(codes.Unavailable, ""), refusal(codes.DeadlineExceeded, ""),
		refusal(codes.ResourceExhausted, "MERCHANT_RATE_LIMITED", askToWait(time.Millisecond)),
		refusal(codes.Unavailable, "COMMIT_UNKNOWN"), refusal(codes.Unauthenticated, "CREDENTIALS_INVALID"),
		refusal(codes.Unavailable, "A_REASON_OF_TOMORROW")}
	service := &testService{onBegin: func(n int, _ *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
		if n < len(mended) {
			return nil, mended[n]
		}
		return nil, nil
	}}
	logged := &hookLog{}
	client := startService(t, service, ClientOptions{Hooks: logged.hooks()})
	result, err := runOnce(t.Context(), client, pay)
	wantResult[*Completed](t, result, err)
	if logged.String() != strings.TrimSpace(strings.Repeat("Begin ", len(mended))) || logged.refreshes != 1 {
		t.Errorf("told of %v, %d refreshes", logged, logged.refreshes)
	}
}

func TestBeginIsNotRepeatedOnRefusals(t *testing.T) {
	t.Parallel()
	for kind, refused := range map[Kind]error{
		KindInvalidField:     refusal(codes.InvalidArgument, ""),
		KindRequestTooLarge:  refusal(codes.ResourceExhausted, ""),
		KindPermissionDenied: refusal(codes.PermissionDenied, ""),
		KindRecordNotFound:   refusal(codes.NotFound, ""),
		KindInternal:         refusal(codes.Unimplemented, ""),
		// The reason counts, not the code.
		KindKeyReused: refusal(codes.Internal, "KEY_REUSED"),
	} {
		service := &testService{onBegin: func(int, *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
			return nil, refused
		}}
		client := startService(t, service, ClientOptions{})
		_, err := runOnce(t.Context(), client, mustNotRun(t))
		wantKind(t, err, kind)
		if got := countOf(service, &service.begins); got != 1 {
			t.Errorf("%s: got %d Begins", kind, got)
		}
	}
}

func TestStartTimeoutEndsTheTries(t *testing.T) {
	t.Parallel()
	service := &testService{onBegin: func(int, *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
		return nil, refusal(codes.Unavailable, "OVERLOADED", askToWait(time.Hour))
	}}
	client := startService(t, service, ClientOptions{})
	_, err := runOnce(t.Context(), client, mustNotRun(t))
	if refused := wantKind(t, err, KindUnavailable); refused.RetryAfter != time.Hour || refused.Reason != "OVERLOADED" {
		t.Errorf("got %+v", refused)
	}
}

func TestWhatTheServerAsksForCounts(t *testing.T) {
	t.Parallel()
	asked := refusal(codes.Unavailable, "OVERLOADED", askToWait(7*time.Second))
	for name, test := range map[string]struct {
		trailer []string
		asked   time.Duration
		mustNot bool
	}{
		"RetryInfo":   {nil, 7 * time.Second, false},
		"the trailer": {[]string{"250"}, 250 * time.Millisecond, false},
		"at once":     {[]string{"0"}, 0, false},
		"negative":    {[]string{"-1"}, -1, true},
		"no number":   {[]string{"soon"}, -1, true},
		"twice":       {[]string{"1", "2"}, -1, true},
	} {
		failure := failureOf(asked, metadata.MD{"grpc-retry-pushback-ms": test.trailer})
		if failure.asked != test.asked || failure.mustNotRetry != test.mustNot || failure.worthRepeating() == test.mustNot ||
			!failure.worthRecordingAgain() {
			t.Errorf("%s: got %+v", name, failure)
		}
	}
}

func TestPausesGrowAndVary(t *testing.T) {
	t.Parallel()
	b := backoff{}
	for want := firstBackoff; want < 2*longestBackoff; want *= 2 {
		limit := min(want, longestBackoff)
		if got := b.pause(-1); got < limit/2 || got > limit {
			t.Errorf("got %v, want the upper half of %v", got, limit)
		}
	}
	for asked, longest := range map[time.Duration]time.Duration{
		0: 0, time.Second: 1200 * time.Millisecond, time.Hour: 72 * time.Second} {
		if got := b.pause(asked); got < min(asked, time.Minute) || got > longest {
			t.Errorf("got %v for %v", got, asked)
		}
	}
}

func TestWhatHadAnEffect(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want bool
	}{
		{refusal(codes.Unavailable, "OVERLOADED"), false},
		{refusal(codes.Aborted, "LEASE_LOST"), false},
		{refusal(codes.Unavailable, "A_REASON_OF_TOMORROW"), false},
		{refusal(codes.ResourceExhausted, ""), false},
		{refusal(codes.Unavailable, "COMMIT_UNKNOWN"), true},
		{refusal(codes.Internal, "INTERNAL"), true},
		{refusal(codes.Unavailable, ""), true},
		{refusal(codes.InvalidArgument, ""), true},
		{context.DeadlineExceeded, true},
	} {
		if got := failureOf(test.err, nil).mayHaveEffect; got != test.want {
			t.Errorf("%v: got %v", test.err, got)
		}
	}
}

func TestCallerThatIsGoneBeforehandSendsNothing(t *testing.T) {
	t.Parallel()
	service := &testService{}
	client := startService(t, service, ClientOptions{})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancelLate := context.WithDeadline(t.Context(), time.Now())
	defer cancelLate()
	_, err := runOnce(cancelled, client, mustNotRun(t))
	if wantKind(t, err, KindCancelled); !errors.Is(err, context.Canceled) || !errors.Is(err, ErrCancelled) {
		t.Error(err)
	}
	_, err = runOnce(late, client, mustNotRun(t), WithOnUnavailable(RunUnprotected))
	if wantKind(t, err, KindDeadlineExceeded); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	_, err = client.Lookup(cancelled, testKey, false)
	wantKind(t, err, KindCancelled)
	if got := countOf(service, &service.begins) + countOf(service, &service.fails); got != 0 {
		t.Errorf("sent %d calls", got)
	}
}

func TestCallerThatLeavesWhileWaitingForARepeat(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	service := &testService{onBegin: func(int, *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
		defer cancel()
		return nil, refusal(codes.Unavailable, "", askToWait(20*time.Second))
	}}
	client := startService(t, service, ClientOptions{})
	_, err := runOnce(ctx, client, mustNotRun(t))
	wantKind(t, err, KindCancelled)
	await(service, &service.fails, 1) // the answer may have been lost
}

// away is the address of a service that is not there.
func away(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func TestUnprotectedRunIsLoggedCountedAndTold(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	logged := &hookLog{}
	client := newTestClient(t, away(t), ClientOptions{Hooks: logged.hooks(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	result, err := runOnce(t.Context(), client, func(ctx context.Context, attempt *Attempt) (WorkResult, error) {
		if !attempt.Unprotected || attempt.AttemptNumber != 0 || attempt.FencingToken != 0 || attempt.DownstreamKey != "" ||
			attempt.LeaseRemaining() < time.Hour {
			t.Errorf("got %+v", attempt)
		}
		_, err := attempt.DownstreamKeyFor("bank", ShapeUUID)
		wantKind(t, err, KindInvalidField)
		return stopped(t, StopMaxDuration, nil)(ctx, attempt)
	}, WithOnUnavailable(RunUnprotected), WithStartTimeout(500*time.Millisecond), WithMaxDuration(10*time.Millisecond))
	ran := wantResult[*Unprotected](t, result, err)
	if ran.Work.Outcome().StatusCode != 201 || ran.Cause.Kind != KindUnavailable || OutcomeOf(ran).StatusCode != 201 {
		t.Errorf("got %+v", ran)
	}
	if client.UnprotectedRuns() != 1 || logged.unprotected != 1 || strings.Count(log.String(), "level=WARN") != 1 ||
		!strings.Contains(log.String(), "idempotency_key=k") {
		t.Errorf("counted %d, told %d, logged %s", client.UnprotectedRuns(), logged.unprotected, log.String())
	}
}

func TestUnprotectedOnlyWhenTypedOut(t *testing.T) {
	t.Parallel()
	client := newTestClient(t, away(t), ClientOptions{})
	_, err := runOnce(t.Context(), client, mustNotRun(t), WithStartTimeout(300*time.Millisecond))
	wantKind(t, err, KindUnavailable)
	if client.records != 0 {
		t.Error("a Begin that was never sent left a record behind")
	}
}

func TestUnprotectedNotWhenASingleTryMayHaveBeenTaken(t *testing.T) {
	t.Parallel()
	busy := refusal(codes.Unavailable, "OVERLOADED", askToWait(time.Millisecond))
	for name, first := range map[string]error{
		"lost":                refusal(codes.Unavailable, "", askToWait(0)),
		"commit unknown":      refusal(codes.Unavailable, "COMMIT_UNKNOWN", askToWait(0)),
		"schema incompatible": refusal(codes.Unavailable, "SCHEMA_INCOMPATIBLE", askToWait(0)),
		"timed out":           refusal(codes.DeadlineExceeded, "", askToWait(0)),
		"rate limited":        refusal(codes.ResourceExhausted, "MERCHANT_RATE_LIMITED", askToWait(0)),
		"unauthenticated":     refusal(codes.Unauthenticated, "CREDENTIALS_INVALID"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var jump func(time.Duration)
			service := &testService{onBegin: func(n int, _ *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
				switch n {
				case 1:
					return nil, first
				case 2:
					jump(time.Hour)
				}
				return nil, busy
			}}
			client := startService(t, service, ClientOptions{})
			jump = jumpingClock(client)
			_, err := runOnce(t.Context(), client, mustNotRun(t), WithOnUnavailable(RunUnprotected))
			wantKind(t, err, KindUnavailable)
			if got := countOf(service, &service.begins); got != 3 {
				t.Errorf("got %d Begins", got)
			}
		})
	}
}

func TestUnprotectedNotAfterInProgress(t *testing.T) {
	t.Parallel()
	var jump func(time.Duration)
	service := &testService{onBegin: func(n int, _ *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
		if n == 0 {
			return inProgressAnswer(time.Millisecond), nil
		}
		jump(time.Hour)
		return nil, refusal(codes.Unavailable, "OVERLOADED", askToWait(time.Millisecond))
	}}
	client := startService(t, service, ClientOptions{})
	jump = jumpingClock(client)
	_, err := runOnce(t.Context(), client, mustNotRun(t), WithOnUnavailable(RunUnprotected), WithWaitTimeout(time.Minute))
	wantKind(t, err, KindUnavailable)
}

func TestUnprotectedAfterRefusalsToTheEnd(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"STORE_UNAVAILABLE", "OVERLOADED", "DRAINING"} {
		var jump func(time.Duration)
		service := &testService{onBegin: func(n int, _ *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
			if n == 2 {
				jump(time.Hour)
			}
			return nil, refusal(codes.Unavailable, reason, askToWait(0))
		}}
		client := startService(t, service, ClientOptions{Logger: slog.New(slog.DiscardHandler)})
		jump = jumpingClock(client)
		result, err := runOnce(t.Context(), client, pay, WithOnUnavailable(RunUnprotected))
		if ran := wantResult[*Unprotected](t, result, err); ran.Cause.Reason != reason {
			t.Errorf("got %+v", ran)
		}
		if err := client.Close(); err != nil || countOf(service, &service.begins) != 3 || countOf(service, &service.fails) != 0 {
			t.Errorf("%v, %d Begins, %d Fails", err, countOf(service, &service.begins), countOf(service, &service.fails))
		}
	}
}

func TestUnprotectedNotWhenTheServerSaysToStayAway(t *testing.T) {
	t.Parallel()
	service := &testService{onBegin: func(int, *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
		return nil, refusal(codes.PermissionDenied, "OVERLOADED")
	}}
	client := startService(t, service, ClientOptions{})
	_, err := runOnce(t.Context(), client, mustNotRun(t), WithOnUnavailable(RunUnprotected))
	wantKind(t, err, KindUnavailable)
}

func TestTryThatWasHandedToAConnectionCountsAsSent(t *testing.T) {
	t.Parallel()
	service := &testService{}
	client := startService(t, service, ClientOptions{})
	for _, test := range []struct {
		client *Client
		want   bool
	}{{client, true}, {newTestClient(t, away(t), ClientOptions{}), false}} {
		response := &idempotencyv1.LookupResponse{}
		_, sent := test.client.try(t.Context(), test.client.calls, "Lookup", &idempotencyv1.LookupRequest{}, response,
			func() bool { return true })
		if sent != test.want {
			t.Errorf("sent: %v", sent)
		}
	}
}

func TestLookupShowsTheRecord(t *testing.T) {
	t.Parallel()
	record := recordFromProto(&idempotencyv1.LookupResponse{RecordId: "r", State: idempotencyv1.RecordState_RECORD_STATE_ABANDONED,
		OnLeaseExpiry: idempotencyv1.LeaseExpiryAction_LEASE_EXPIRY_ACTION_HOLD, CreateTime: timestamppb.New(time.Unix(1, 0)),
		PreviousAttempt: &idempotencyv1.PreviousAttempt{AttemptNumber: 1, Failure: &idempotencyv1.Failure{
			Disposition: idempotencyv1.FailureDisposition_FAILURE_DISPOSITION_NOT_APPLIED}}})
	if record.State != StateAbandoned || record.OnLeaseExpiry != Hold || record.CreateTime.Unix() != 1 ||
		!record.FinishTime.IsZero() || !record.ExpireTime.IsZero() || record.Outcome != nil ||
		record.PreviousAttempt.Failure.Disposition != NotAppliedDisposition {
		t.Errorf("got %+v", record)
	}
}

func TestNewRefusesBadOptions(t *testing.T) {
	t.Parallel()
	secure := insecure.NewCredentials()
	for name, options := range map[string]ClientOptions{
		"no credentials":       {},
		"a negative time-out":  {Credentials: secure, RPCTimeout: -1},
		"a negative keepalive": {Credentials: secure, KeepaliveInterval: -1},
		"a negative bound":     {Credentials: secure, MaxBackgroundRecords: -1},
	} {
		if _, err := New("127.0.0.1:1", options); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := New("nowhere://%zz", ClientOptions{Credentials: secure}); err == nil {
		t.Error("a target that cannot be parsed: no error")
	}
}
