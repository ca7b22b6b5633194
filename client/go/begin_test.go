package idempotency

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
)

func TestAttemptIDIsKeptOverTriesAndFreshForEachCall(t *testing.T) {
	t.Parallel()
	service := &testService{onBegin: func(n int, _ *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
		if n%2 == 0 {
			return nil, refusal(codes.Unavailable, "OVERLOADED", askToWait(0))
		}
		return nil, nil
	}}
	client := startService(t, service, ClientOptions{})
	for range 2 {
		result, err := runOnce(t.Context(), client, pay)
		wantResult[*Completed](t, result, err)
	}
	ids := await(service, &service.begins, 4)
	if ids[0].AttemptId != ids[1].AttemptId || ids[2].AttemptId != ids[3].AttemptId ||
		ids[0].AttemptId == ids[2].AttemptId {
		t.Errorf("got %v", ids)
	}
	if id := ids[0].AttemptId; len(id) != 36 || id[14] != '4' {
		t.Errorf("%q is no UUIDv4", id)
	}
}

func TestBeginHasTheSameBytesInEveryTry(t *testing.T) {
	t.Parallel()
	labels := map[string]string{}
	for i := range 16 {
		labels[fmt.Sprint("label-", i)] = "x"
	}
	service := &testService{onBegin: func(n int, _ *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
		if n < 9 {
			return nil, refusal(codes.Unavailable, "", askToWait(0))
		}
		return nil, nil
	}}
	client := startService(t, service, ClientOptions{})
	result, err := runOnce(t.Context(), client, pay, WithLabels(labels))
	wantResult[*Completed](t, result, err)
	if got := service.distinct("BeginRequest"); got != 1 {
		t.Errorf("got %d different requests", got)
	}
}

func TestFnDoesNotRunWithoutAGoodStarted(t *testing.T) {
	t.Parallel()
	noLease := startedAnswer("", 0)
	noLease.GetStarted().LeaseRemaining = nil
	half := func(spoil func(*idempotencyv1.BeginResponse)) func(*idempotencyv1.BeginRequest) *idempotencyv1.BeginResponse {
		return func(r *idempotencyv1.BeginRequest) *idempotencyv1.BeginResponse {
			answer := startedAnswer(r.AttemptId, time.Minute)
			spoil(answer)
			return answer
		}
	}
	for name, answer := range map[string]func(*idempotencyv1.BeginRequest) *idempotencyv1.BeginResponse{
		"nothing": func(*idempotencyv1.BeginRequest) *idempotencyv1.BeginResponse {
			return &idempotencyv1.BeginResponse{RecordId: "r"}
		},
		"an empty replay": func(*idempotencyv1.BeginRequest) *idempotencyv1.BeginResponse {
			return &idempotencyv1.BeginResponse{Result: &idempotencyv1.BeginResponse_Replay{Replay: &idempotencyv1.Replay{}}}
		},
		"another attempt": func(*idempotencyv1.BeginRequest) *idempotencyv1.BeginResponse {
			return startedAnswer("another", time.Minute)
		},
		"no lease": func(r *idempotencyv1.BeginRequest) *idempotencyv1.BeginResponse {
			noLease.GetStarted().AttemptId = r.AttemptId
			return noLease
		},
		"no record": half(func(answer *idempotencyv1.BeginResponse) { answer.RecordId = "" }),
		"no number": half(func(answer *idempotencyv1.BeginResponse) { answer.GetStarted().AttemptNumber = 0 }),
		"no downstream key": half(func(answer *idempotencyv1.BeginResponse) {
			answer.GetStarted().DownstreamKey = ""
		}),
		"half a downstream key": half(func(answer *idempotencyv1.BeginResponse) {
			answer.GetStarted().DownstreamKey = answer.GetStarted().DownstreamKey[1:]
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := &testService{onBegin: func(_ int, r *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
				return answer(r), nil
			}}
			client := startService(t, service, ClientOptions{})
			_, err := runOnce(t.Context(), client, mustNotRun(t))
			if wantKind(t, err, KindInternal).Work != nil {
				t.Error("the error has work")
			}
			released := await(service, &service.fails, 1)[0]
			if released.Failure.Code != "NOT_BEGUN" ||
				released.Failure.Disposition != idempotencyv1.FailureDisposition_FAILURE_DISPOSITION_NOT_APPLIED ||
				released.AttemptId != service.begins[0].AttemptId {
				t.Errorf("got %v", released)
			}
		})
	}
}

func TestLeaseThatIsOverIsRenewedBeforeFnRuns(t *testing.T) {
	t.Parallel()
	service := &testService{onBegin: func(_ int, r *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
		return startedAnswer(r.AttemptId, 0), nil
	}}
	client := startService(t, service, ClientOptions{})
	result, err := runOnce(t.Context(), client, func(_ context.Context, attempt *Attempt) (WorkResult, error) {
		if left := attempt.LeaseRemaining(); left <= 0 || left > time.Minute {
			t.Errorf("the lease has %v left", left)
		}
		return Complete(paid), nil
	})
	wantResult[*Completed](t, result, err)
	if got := countOf(service, &service.renews); got != 1 {
		t.Errorf("got %d Renews", got)
	}
}

func TestLeaseThatStaysOverIsReleased(t *testing.T) {
	t.Parallel()
	service := &testService{
		onBegin: func(_ int, r *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
			return startedAnswer(r.AttemptId, -time.Second), nil
		},
		onRenew: func(int, *idempotencyv1.RenewRequest) (*idempotencyv1.RenewResponse, error) {
			return &idempotencyv1.RenewResponse{LeaseRemaining: durationpb.New(0)}, nil
		},
	}
	client := startService(t, service, ClientOptions{})
	_, err := runOnce(t.Context(), client, mustNotRun(t))
	wantKind(t, err, KindLeaseLost)
	await(service, &service.fails, 1)
}

func TestReleaseThatCameTooEarlyIsSentOnceMore(t *testing.T) {
	t.Parallel()
	logged := &hookLog{}
	service := &testService{
		onBegin: func(int, *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
			return &idempotencyv1.BeginResponse{}, nil
		},
		onFail: func(int, *idempotencyv1.FailRequest) error { return refusal(codes.NotFound, "RECORD_NOT_FOUND") },
	}
	client := startService(t, service, ClientOptions{Hooks: logged.hooks()})
	_, err := runOnce(t.Context(), client, mustNotRun(t))
	wantKind(t, err, KindInternal)
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if got := countOf(service, &service.fails); got != 2 {
		t.Errorf("got %d Fails", got)
	}
	if len(logged.lost) != 0 {
		t.Errorf("the hook was told of %v", logged.lost)
	}
}

func TestRefusalThatTheAttemptIsOverIsReleasedOnce(t *testing.T) {
	t.Parallel()
	for reason, code := range map[string]codes.Code{
		"LEASE_LOST": codes.Aborted, "NEEDS_RESOLUTION": codes.FailedPrecondition} {
		service := &testService{
			onBegin: func(int, *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
				return nil, refusal(code, reason)
			},
			onFail: func(int, *idempotencyv1.FailRequest) error { return refusal(codes.Aborted, "LEASE_LOST") },
		}
		client := startService(t, service, ClientOptions{})
		if _, err := runOnce(t.Context(), client, mustNotRun(t)); err == nil {
			t.Error("no error")
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		if got := countOf(service, &service.fails); got != 1 {
			t.Errorf("%s: got %d Fails", reason, got)
		}
	}
}

func TestRefusedBeginLeavesNothing(t *testing.T) {
	t.Parallel()
	service := &testService{onBegin: func(int, *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
		return nil, refusal(codes.FailedPrecondition, "KEY_REUSED")
	}}
	client := startService(t, service, ClientOptions{})
	_, err := runOnce(t.Context(), client, mustNotRun(t))
	if !errors.Is(err, ErrKeyReused) {
		t.Error(err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if got := countOf(service, &service.fails); got != 0 {
		t.Errorf("got %d Fails", got)
	}
}

func TestBackgroundReleasesAreBounded(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	service := &testService{
		onBegin: func(int, *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
			return &idempotencyv1.BeginResponse{}, nil
		},
		onFail: func(int, *idempotencyv1.FailRequest) error { <-answer; return nil },
	}
	client := startService(t, service, ClientOptions{MaxBackgroundRecords: 2})
	for range 4 {
		_, err := runOnce(t.Context(), client, mustNotRun(t))
		wantKind(t, err, KindInternal)
	}
	close(answer)
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if got := countOf(service, &service.fails); got != 2 {
		t.Errorf("got %d Fails", got)
	}
}

func TestWaitGoesOnUntilTheWaitTimeout(t *testing.T) {
	t.Parallel()
	service := &testService{onBegin: func(n int, _ *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
		if n < 3 {
			return inProgressAnswer(time.Millisecond), nil
		}
		return nil, nil
	}}
	client := startService(t, service, ClientOptions{})
	result, err := runOnce(t.Context(), client, pay, WithWaitTimeout(10*time.Minute))
	wantResult[*Completed](t, result, err)
	for i, begin := range service.begins {
		if wait := begin.WaitTimeout.AsDuration(); wait != 30*time.Second {
			t.Errorf("Begin %d waits %v", i, wait)
		}
	}
}

func TestInProgressAfterALostAnswerLeavesNothing(t *testing.T) {
	t.Parallel()
	service := &testService{onBegin: func(n int, _ *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
		if n == 0 {
			return nil, refusal(codes.Unavailable, "", askToWait(0))
		}
		return inProgressAnswer(2 * time.Second), nil
	}}
	client := startService(t, service, ClientOptions{})
	result, err := runOnce(t.Context(), client, mustNotRun(t))
	if got := wantResult[*InProgress](t, result, err); got.RetryAfter != 2*time.Second || got.AttemptNumber != 1 {
		t.Errorf("got %+v", got)
	}
	if err := client.Close(); err != nil || countOf(service, &service.fails) != 0 {
		t.Errorf("%v, %d Fails", err, countOf(service, &service.fails))
	}
}

func TestCallerThatLeavesSomebodyElsesWorkLeavesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var answered atomic.Bool
	service := &testService{onBegin: func(n int, _ *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
		if n == 0 {
			return nil, refusal(codes.Unavailable, "", askToWait(0)) // it may have started
		}
		answered.Store(true)
		return inProgressAnswer(20 * time.Second), nil // it has not
	}}
	client := startService(t, service, ClientOptions{})
	client.now = func() instant {
		if answered.Load() { // no clock is read while a call is under way, so the answer is there
			cancel()
		}
		return bootTime()
	}
	_, err := runOnce(ctx, client, mustNotRun(t), WithWaitTimeout(10*time.Minute))
	wantKind(t, err, KindCancelled)
	if err := client.Close(); err != nil || countOf(service, &service.fails) != 0 {
		t.Errorf("%v, %d Fails", err, countOf(service, &service.fails))
	}
}

func TestBadArgumentsAreNamedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	service := &testService{}
	for name, runner := range map[string]Runner{
		"client": startService(t, service, ClientOptions{}), "fake": NewFakeRunner()} {
		for _, bad := range []struct {
			field   string
			key     Key
			request Request
			expiry  OnLeaseExpiry
			fn      Work
			option  RunOption
		}{
			{"fn", testKey, testRequest, TakeOver, nil, nil},
			{"merchant_id", Key{"", "k", 0}, testRequest, TakeOver, pay, nil},
			{"merchant_id", Key{"\xff", "k", 0}, testRequest, TakeOver, pay, nil},
			{"idempotency_key", Key{"m", "", 0}, testRequest, TakeOver, pay, nil},
			{"idempotency_key", Key{"m", "\xff", 0}, testRequest, TakeOver, pay, nil},
			{"operation", testKey, Request{"\xff", Payload{}}, TakeOver, pay, nil},
			{"request", testKey, Request{"o", nil}, TakeOver, pay, nil},
			{"request", testKey, Request{"o", (*Payload)(nil)}, TakeOver, pay, nil},
			{"payload.content_type", testKey, Request{"o", Payload{ContentType: "\xff"}}, TakeOver, pay, nil},
			{"on_lease_expiry", testKey, testRequest, 0, pay, nil},
			{"on_lease_expiry", testKey, testRequest, 3, pay, nil},
			{"ttl", testKey, testRequest, TakeOver, pay, WithTTL(-1)},
			{"ttl", Key{"m", "k", -1}, testRequest, TakeOver, pay, nil},
			{"lease_duration", testKey, testRequest, TakeOver, pay, WithLeaseDuration(-1)},
			{"wait_timeout", testKey, testRequest, TakeOver, pay, WithWaitTimeout(-1)},
			{"max_duration", testKey, testRequest, TakeOver, pay, WithMaxDuration(0)},
			{"max_duration", testKey, testRequest, TakeOver, pay, WithMaxDuration(-1)},
			{"start_timeout", testKey, testRequest, TakeOver, pay, WithStartTimeout(0)},
			{"on_unavailable", testKey, testRequest, TakeOver, pay, WithOnUnavailable(7)},
			{"on_unavailable", testKey, testRequest, Hold, pay, WithOnUnavailable(RunUnprotected)},
			{`labels["a"]`, testKey, testRequest, TakeOver, pay, WithLabels(map[string]string{"a": "\xff"})},
		} {
			_, err := runner.RunOnce(t.Context(), bad.key, bad.request, bad.expiry, bad.fn, bad.option)
			if typed := wantKind(t, err, KindInvalidField); len(typed.Violations) != 1 ||
				typed.Violations[0].Field != bad.field {
				t.Errorf("%s: got %v, want %s", name, err, bad.field)
			}
		}
	}
	if got := countOf(service, &service.begins); got != 0 {
		t.Errorf("got %d Begins", got)
	}
}

func TestOptionsReachTheService(t *testing.T) {
	t.Parallel()
	service := &testService{}
	client := startService(t, service, ClientOptions{})
	key, err := NewBusinessKey("acme", "pay", "order-7")
	if err != nil {
		t.Fatal(err)
	}
	content := &Fingerprint{SHA256: make([]byte, 32), Scheme: 1}
	for _, options := range [][]RunOption{
		nil, {WithTTL(time.Hour), WithLeaseDuration(2 * time.Second), WithLabels(map[string]string{"order": "7"})}} {
		if _, err := client.RunOnce(t.Context(), key, Request{"POST /payments", content}, Hold, pay, options...); err != nil {
			t.Fatal(err)
		}
	}
	plain, all := service.begins[0], service.begins[1]
	if plain.Ttl.AsDuration() != 30*24*time.Hour || plain.LeaseDuration != nil || plain.WaitTimeout != nil ||
		plain.OnLeaseExpiry != idempotencyv1.LeaseExpiryAction_LEASE_EXPIRY_ACTION_HOLD ||
		len(plain.GetFingerprint()) != 32 || plain.FingerprintScheme != 1 || plain.IdempotencyKey != "pay:order-7" {
		t.Errorf("got %v", plain)
	}
	if all.Ttl.AsDuration() != time.Hour || all.LeaseDuration.AsDuration() != 2*time.Second || all.Labels["order"] != "7" {
		t.Errorf("got %v", all)
	}
}
