package idempotency

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
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

func TestTimeOutAtTheEndDoesNotHideWhatTheServiceSaid(t *testing.T) {
	t.Parallel()
	var jump func(time.Duration)
	service := &testService{onBegin: func(n int, _ *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
		if n == 0 {
			return nil, refusal(codes.Unavailable, "OVERLOADED", askToWait(0))
		}
		jump(time.Hour)
		return nil, refusal(codes.DeadlineExceeded, "")
	}}
	client := startService(t, service, ClientOptions{})
	jump = jumpingClock(client)
	_, err := runOnce(t.Context(), client, mustNotRun(t))
	if refused := wantKind(t, err, KindUnavailable); refused.Reason != "OVERLOADED" {
		t.Errorf("got %+v", refused)
	}
	await(service, &service.fails, 1) // of the second nobody knows
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
		"the longest": {[]string{"2147483647"}, 2147483647 * time.Millisecond, false},
		"too long":    {[]string{"2147483648"}, -1, true},
		"signed":      {[]string{"+1"}, -1, true},
		"empty":       {[]string{""}, -1, true},
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
		0: shortestPause, time.Second: 1200 * time.Millisecond, time.Hour: 72 * time.Second} {
		if got := b.pause(asked); got < max(min(asked, time.Minute), shortestPause) || got > longest {
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
		{refusal(codes.Unavailable, "SCHEMA_INCOMPATIBLE"), false},
		{refusal(codes.InvalidArgument, "INVALID_FIELD"), false},
		{refusal(codes.Unavailable, "A_REASON_OF_TOMORROW"), true},
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

func TestReasonOfAnotherServiceIsNone(t *testing.T) {
	t.Parallel()
	foreign := refusal(codes.Unavailable, "", &errdetails.ErrorInfo{Domain: "a.proxy", Reason: "OVERLOADED"})
	if failure := failureOf(foreign, nil); failure.err.Reason != "" || !failure.mayHaveEffect || failure.refusedForNow() {
		t.Errorf("got %+v", failure.err)
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

func TestLookupShowsTheRecord(t *testing.T) {
	t.Parallel()
	record := recordFromProto(&idempotencyv1.LookupResponse{RecordId: "r", State: idempotencyv1.RecordState_RECORD_STATE_ABANDONED,
		OnLeaseExpiry: idempotencyv1.LeaseExpiryAction_LEASE_EXPIRY_ACTION_HOLD, CreateTime: timestamppb.New(time.Unix(1, 0)),
		PreviousAttempt: &idempotencyv1.PreviousAttempt{AttemptNumber: 1, Failure: &idempotencyv1.Failure{
			Disposition: idempotencyv1.FailureDisposition_FAILURE_DISPOSITION_NOT_APPLIED}}})
	if record.State != StateAbandoned || record.OnLeaseExpiry != Hold || record.CreateTime.Unix() != 1 ||
		!record.FinishTime.IsZero() || !record.ExpireTime.IsZero() || record.Outcome != nil ||
		!record.PreviousAttempt.StartTime.IsZero() || !record.PreviousAttempt.LeaseExpireTime.IsZero() ||
		record.PreviousAttempt.Failure.Disposition != NotAppliedDisposition {
		t.Errorf("got %+v", record)
	}
}

func TestLeaseExpiryThatTheClientDoesNotKnowIsHold(t *testing.T) {
	t.Parallel()
	for action, want := range map[idempotencyv1.LeaseExpiryAction]OnLeaseExpiry{
		idempotencyv1.LeaseExpiryAction_LEASE_EXPIRY_ACTION_TAKE_OVER: TakeOver,
		idempotencyv1.LeaseExpiryAction_LEASE_EXPIRY_ACTION_HOLD:      Hold,
		0: Hold, 99: Hold} {
		answer := startedAnswer("a", time.Minute)
		answer.OnLeaseExpiry = action
		if got := attemptFromProto(answer).OnLeaseExpiry; got != want {
			t.Errorf("%v: got %v", action, got)
		}
		if got := recordFromProto(&idempotencyv1.LookupResponse{OnLeaseExpiry: action}).OnLeaseExpiry; got != want {
			t.Errorf("%v: Lookup shows %v", action, got)
		}
	}
}

func TestPushbackThatSaysNoEndsTheTriesAlsoWithFreshCredentials(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.Unavailable, codes.Unauthenticated} {
		service := &testService{trailer: metadata.Pairs(pushbackTrailer, "-1"),
			onBegin: func(int, *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
				return nil, refusal(code, map[codes.Code]string{codes.Unavailable: "OVERLOADED"}[code])
			}}
		client := startService(t, service, ClientOptions{})
		_, err := runOnce(t.Context(), client, mustNotRun(t), WithOnUnavailable(RunUnprotected))
		if wantKind(t, err, failureOf(status.Error(code, ""), nil).err.Kind); countOf(service, &service.begins) != 1 {
			t.Errorf("%v: got %d Begins", code, countOf(service, &service.begins))
		}
	}
}

func TestSpansWithoutEndSaturate(t *testing.T) {
	t.Parallel()
	const longest = time.Duration(math.MaxInt64)
	client := startService(t, &testService{}, ClientOptions{RPCTimeout: longest, RecordTimeout: longest})
	result, err := runOnce(t.Context(), client, pay, WithWaitTimeout(longest), WithStartTimeout(longest),
		WithMaxDuration(longest))
	wantResult[*Completed](t, result, err)
	if left := clock(bootTime).until(instant(math.MinInt64)); left != 0 {
		t.Errorf("%v are left of what is over", left)
	}
	answer := HTTPAnswer(nil, &Error{Kind: KindUnavailable, RetryAfter: longest})
	if want := (Header{"Retry-After", "9223372037"}); answer.Headers[1] != want {
		t.Errorf("got %v", answer.Headers)
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
