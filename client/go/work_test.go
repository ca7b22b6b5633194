package idempotency

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
)

var errPartner = errors.New("card 4111 1111 1111 1111 was refused")

func TestErrorOfFnIsUnknownAndItsTextStaysHere(t *testing.T) {
	t.Parallel()
	service := &testService{}
	client := startService(t, service, ClientOptions{})
	result, err := runOnce(t.Context(), client, func(context.Context, *Attempt) (WorkResult, error) {
		return Complete(paid), errPartner // the error counts
	})
	failed := wantResult[*Failed](t, result, err)
	if failed.Failure.Disposition != UnknownDisposition || failed.Failure.Code != "EXCEPTION" || failed.Err != errPartner {
		t.Errorf("got %+v", failed)
	}
	if sent := service.fails[0].Failure; sent.Disposition != idempotencyv1.FailureDisposition_FAILURE_DISPOSITION_UNKNOWN ||
		strings.Contains(sent.Message, "4111") {
		t.Errorf("sent %v", sent)
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	service := &testService{}
	client := startService(t, service, ClientOptions{})
	for want, classify := range map[Disposition]func(error) Disposition{
		NotAppliedDisposition: func(error) Disposition { return NotAppliedDisposition },
		FinalDisposition:      func(error) Disposition { return FinalDisposition },
		UnknownDisposition:    func(error) Disposition { panic("classify") },
	} {
		result, err := runOnce(t.Context(), client, func(context.Context, *Attempt) (WorkResult, error) {
			return WorkResult{}, errPartner
		}, WithClassify(classify))
		if failed := wantResult[*Failed](t, result, err); failed.Failure.Disposition != want || failed.Err != errPartner {
			t.Errorf("got %+v, want %v", failed, want)
		}
	}
}

func TestFnThatSaysNothingIsUnknown(t *testing.T) {
	t.Parallel()
	client := startService(t, &testService{}, ClientOptions{})
	result, err := runOnce(t.Context(), client, func(context.Context, *Attempt) (WorkResult, error) {
		return WorkResult{}, nil
	})
	if failed := wantResult[*Failed](t, result, err); failed.Failure.Disposition != UnknownDisposition {
		t.Errorf("got %+v", failed)
	}
}

func TestPanicOfFnIsRecordedAsUnknownAndGoesOn(t *testing.T) {
	t.Parallel()
	service := &testService{}
	client := startService(t, service, ClientOptions{})
	defer func() {
		if got := recover(); got != errPartner {
			t.Errorf("got the panic %v", got)
		}
		if sent := await(service, &service.fails, 1)[0].Failure; sent.Code != "EXCEPTION" ||
			sent.Disposition != idempotencyv1.FailureDisposition_FAILURE_DISPOSITION_UNKNOWN {
			t.Errorf("sent %v", sent)
		}
	}()
	_, _ = runOnce(t.Context(), client, func(context.Context, *Attempt) (WorkResult, error) { panic(errPartner) },
		WithClassify(func(error) Disposition { return NotAppliedDisposition }))
	t.Error("the panic was swallowed")
}

func TestPanicOfFnThatCannotBeRecordedIsTold(t *testing.T) {
	t.Parallel()
	logged := &hookLog{}
	service := &testService{onFail: func(int, *idempotencyv1.FailRequest) error { return refusal(codes.Aborted, "LEASE_LOST") }}
	client := startService(t, service, ClientOptions{Hooks: logged.hooks()})
	func() {
		defer func() { _ = recover() }()
		_, _ = runOnce(t.Context(), client, func(context.Context, *Attempt) (WorkResult, error) { panic("x") })
	}()
	if lost := logged.awaitLost(1); lost[0].Kind != KindLeaseLost || lost[0].Work == nil {
		t.Errorf("got %v", lost[0])
	}
}

func TestEndOfTheGoroutineInFnIsUnknown(t *testing.T) {
	t.Parallel()
	service := &testService{}
	client := startService(t, service, ClientOptions{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = runOnce(context.Background(), client, func(context.Context, *Attempt) (WorkResult, error) {
			runtime.Goexit()
			return Complete(paid), nil
		})
		t.Error("the goroutine went on")
	}()
	<-ended
	if got := countOf(service, &service.fails); got != 1 || countOf(service, &service.completes) != 0 {
		t.Errorf("got %d Fails", got)
	}
}

func TestFnSeesTheAttempt(t *testing.T) {
	t.Parallel()
	client := startService(t, &testService{}, ClientOptions{})
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "trace"))
	var kept *Attempt
	var keptCtx context.Context
	result, err := runOnce(ctx, client, func(ctx context.Context, attempt *Attempt) (WorkResult, error) {
		kept, keptCtx = attempt, ctx
		if ctx.Value(key{}) != "trace" || ctx.Err() != nil {
			t.Error("fn's context is not the caller's")
		}
		if attempt.RecordID != "r" || attempt.AttemptNumber != 1 || attempt.FencingToken != 1 || attempt.Unprotected ||
			attempt.OnLeaseExpiry != TakeOver || attempt.PreviousAttempt != nil || attempt.StopReason() != StopNone {
			t.Errorf("got %+v", attempt)
		}
		if left := attempt.LeaseRemaining(); left <= 0 || left > time.Minute {
			t.Errorf("the lease has %v left", left)
		}
		return Complete(paid), nil
	})
	wantResult[*Completed](t, result, err)
	if keptCtx.Err() == nil {
		t.Error("what fn left behind goes on")
	}
	if cancel(); kept.StopReason() != StopNone {
		t.Errorf("stopped after its end: %v", kept.StopReason())
	}
}

// stopped is work that waits until it is asked to stop, and tells why.
func stopped(t *testing.T, want StopReason, wantCause error) Work {
	return func(ctx context.Context, attempt *Attempt) (WorkResult, error) {
		<-ctx.Done()
		var stop *StopError
		cause := context.Cause(ctx)
		if errors.As(cause, &stop) {
			cause = nil
		}
		if attempt.StopReason() != want || cause != wantCause || stop != nil && stop.Reason != want {
			t.Errorf("asked to stop by %v, %v; want %v, %v", attempt.StopReason(), context.Cause(ctx), want, wantCause)
		}
		return Complete(paid), nil
	}
}

func TestFnIsToldToStop(t *testing.T) {
	t.Parallel()
	leaving := errors.New("leaving")
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(leaving)
	late, cancelLate := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancelLate()
	for name, test := range map[string]struct {
		ctx     context.Context
		reason  StopReason
		cause   error
		onRenew func(int, *idempotencyv1.RenewRequest) (*idempotencyv1.RenewResponse, error)
		lease   time.Duration
		option  RunOption
	}{
		"by the lease": {ctx: t.Context(), reason: StopLeaseLost, lease: 60 * time.Millisecond,
			onRenew: func(int, *idempotencyv1.RenewRequest) (*idempotencyv1.RenewResponse, error) {
				return nil, refusal(codes.Unavailable, "STORE_UNAVAILABLE")
			}},
		"by a takeover window": {ctx: t.Context(), reason: StopLeaseLost, lease: 60 * time.Millisecond,
			onRenew: func(int, *idempotencyv1.RenewRequest) (*idempotencyv1.RenewResponse, error) {
				return nil, refusal(codes.FailedPrecondition, "NEEDS_RESOLUTION")
			}},
		"by its duration":       {ctx: t.Context(), reason: StopMaxDuration, lease: time.Minute, option: WithMaxDuration(time.Millisecond)},
		"by the caller":         {ctx: cancelled, reason: StopCancelled, cause: leaving, lease: time.Minute},
		"by the caller's clock": {ctx: late, reason: StopDeadline, cause: context.DeadlineExceeded, lease: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			service := &testService{onRenew: test.onRenew, onBegin: func(_ int, r *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
				return startedAnswer(r.AttemptId, test.lease), nil
			}}
			client := startService(t, service, ClientOptions{})
			// Past Begin, which a caller that is gone does not get through.
			r := &run{client: client, key: testKey, options: newRunOptions(testKey, []RunOption{test.option}), attemptID: "a",
				request: &idempotencyv1.BeginRequest{}, response: startedAnswer("a", test.lease), lease: lease{client.now(), test.lease}}
			result, err := r.runProtected(test.ctx, stopped(t, test.reason, test.cause))
			wantResult[*Completed](t, result, err)
		})
	}
}

func TestFnIsToldToStopAsSoonAsTheServiceSaysSo(t *testing.T) {
	t.Parallel()
	for reason, code := range map[string]codes.Code{"LEASE_LOST": codes.Aborted,
		"ALREADY_FINISHED": codes.FailedPrecondition, "RECORD_NOT_FOUND": codes.NotFound} {
		service := &testService{onRenew: func(int, *idempotencyv1.RenewRequest) (*idempotencyv1.RenewResponse, error) {
			return nil, refusal(code, reason)
		}}
		client := startService(t, service, ClientOptions{})
		jump := jumpingClock(client)
		result, err := runOnce(t.Context(), client, func(ctx context.Context, attempt *Attempt) (WorkResult, error) {
			jump(25 * time.Second) // more than a third of the lease
			defer func() {
				if attempt.LeaseRemaining() == 0 {
					t.Errorf("%s: only the end of the lease stopped it", reason)
				}
			}()
			return stopped(t, StopLeaseLost, nil)(ctx, attempt)
		})
		wantResult[*Completed](t, result, err)
		if got := countOf(service, &service.renews); got != 1 {
			t.Errorf("%s: got %d Renews", reason, got)
		}
	}
}

func TestLeaseThatRanOutWhileTheMachineWasSuspendedStopsFn(t *testing.T) {
	t.Parallel()
	service := &testService{onRenew: func(int, *idempotencyv1.RenewRequest) (*idempotencyv1.RenewResponse, error) {
		return nil, refusal(codes.Unavailable, "STORE_UNAVAILABLE")
	}}
	client := startService(t, service, ClientOptions{})
	jump := jumpingClock(client)
	result, err := runOnce(t.Context(), client, func(ctx context.Context, attempt *Attempt) (WorkResult, error) {
		jump(time.Hour)
		if attempt.LeaseRemaining() != 0 {
			t.Errorf("the lease has %v left", attempt.LeaseRemaining())
		}
		return stopped(t, StopLeaseLost, nil)(ctx, attempt)
	}, WithMaxDuration(24*time.Hour))
	wantResult[*Completed](t, result, err)
}

func TestLeaseCountsFromWhenTheCallWasSent(t *testing.T) {
	t.Parallel()
	var jump func(time.Duration)
	service := &testService{
		onBegin: func(_ int, r *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
			jump(30 * time.Second)
			return startedAnswer(r.AttemptId, time.Minute), nil
		},
		onRenew: func(n int, _ *idempotencyv1.RenewRequest) (*idempotencyv1.RenewResponse, error) {
			if n == 0 {
				jump(60 * time.Second)
			}
			return nil, nil
		},
	}
	client := startService(t, service, ClientOptions{})
	jump = jumpingClock(client)
	result, err := runOnce(t.Context(), client, func(_ context.Context, attempt *Attempt) (WorkResult, error) {
		if left := attempt.LeaseRemaining(); left > 30*time.Second {
			t.Errorf("after Begin the lease has %v left", left)
		}
		await(service, &service.renews, 2) // both are due by now, so the first has been taken in
		return Complete(paid), nil
	})
	wantResult[*Completed](t, result, err)
}

func TestLeaseIsRenewedWhileFnRuns(t *testing.T) {
	t.Parallel()
	service := &testService{onRenew: func(n int, _ *idempotencyv1.RenewRequest) (*idempotencyv1.RenewResponse, error) {
		if n == 0 {
			return nil, refusal(codes.Unauthenticated, "CREDENTIALS_INVALID")
		}
		return nil, nil
	}}
	logged := &hookLog{}
	client := startService(t, service, ClientOptions{Hooks: logged.hooks()})
	jump := jumpingClock(client)
	result, err := runOnce(t.Context(), client, func(_ context.Context, attempt *Attempt) (WorkResult, error) {
		jump(25 * time.Second) // more than a third
		await(service, &service.renews, 2)
		for attempt.LeaseRemaining() < 45*time.Second { // until the answer has been taken in
			runtime.Gosched()
		}
		return Complete(paid), nil
	}, WithLeaseDuration(time.Minute))
	wantResult[*Completed](t, result, err)
	for _, renew := range service.renews {
		if renew.AttemptId != service.begins[0].AttemptId || renew.LeaseDuration.AsDuration() != time.Minute {
			t.Errorf("got %v", renew)
		}
	}
	if logged.refreshes != 1 {
		t.Errorf("credentials were refreshed %d times", logged.refreshes)
	}
}

func TestLeaseIsRenewedAlsoWhenTheCallerIsGone(t *testing.T) {
	t.Parallel()
	service, logged := &testService{}, &hookLog{}
	client := startService(t, service, ClientOptions{Hooks: logged.hooks()})
	jump := jumpingClock(client)
	ctx, cancel := context.WithCancel(t.Context())
	result, err := runOnce(ctx, client, func(_ context.Context, attempt *Attempt) (WorkResult, error) {
		cancel()
		jump(25 * time.Second)                                                   // more than a third
		for attempt.LeaseRemaining() < 45*time.Second && logged.String() == "" { // until it is renewed, or cannot be
			runtime.Gosched()
		}
		return Complete(paid), nil
	})
	wantResult[*Completed](t, result, err)
	if logged.String() != "" || countOf(service, &service.renews) != 1 {
		t.Errorf("%d Renews, repeated: %v", countOf(service, &service.renews), logged)
	}
}

func TestRenewThatMustNotBeRepeatedIsDueAThirdLater(t *testing.T) {
	t.Parallel()
	client := newTestClient(t, away(t), ClientOptions{})
	client.now = func() instant { return instant(time.Hour) }
	k := &keeper{client: client, lease: lease{instant(time.Hour), time.Minute}}
	for _, code := range []codes.Code{codes.Unavailable, codes.Unauthenticated} {
		failure := failureOf(status.Error(code, ""), metadata.Pairs(pushbackTrailer, "-1"))
		renewing, at := k.judge(renewal{failure: failure}, &backoff{}, new(bool), true)
		if want := instant(time.Hour + 20*time.Second); !renewing || at != want {
			t.Errorf("%v: renewing %v, at %v", code, renewing, at)
		}
	}
}

func TestRenewIsDueAThirdAfterTheLastAcceptedOneWasSent(t *testing.T) {
	t.Parallel()
	l := lease{instant(time.Second), 3 * time.Second}
	if l.renewAt() != instant(2*time.Second) || l.end() != instant(4*time.Second) {
		t.Errorf("renewed at %v, over at %v", l.renewAt(), l.end())
	}
	if short := (lease{0, time.Millisecond}); short.renewAt() != instant(shortestThird) {
		t.Errorf("renewed at %v", short.renewAt())
	}
	if endless.end() != never || endless.renewAt() <= 0 {
		t.Errorf("over at %v", endless.end())
	}
}
