package idempotency

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestFakeRunnerReplaysAndTellsReuse(t *testing.T) {
	t.Parallel()
	fake := NewFakeRunner()
	result, err := runOnce(t.Context(), fake, pay)
	first := wantResult[*Completed](t, result, err)
	result, err = runOnce(t.Context(), fake, mustNotRun(t))
	again := wantResult[*Replayed](t, result, err)
	if string(again.Outcome.Body) != string(paid.Body) || again.RecordID != first.RecordID || again.AttemptNumber != 1 ||
		!again.FinishTime.Equal(first.FinishTime) {
		t.Errorf("got %+v after %+v", again, first)
	}
	other := Request{"POST /payments", Payload{Data: []byte(`{"amount":51}`), ContentType: "application/json"}}
	_, err = fake.RunOnce(t.Context(), testKey, other, TakeOver, mustNotRun(t))
	wantKind(t, err, KindKeyReused)
}

func TestFakeRunnerTellsOfUnknownAttempts(t *testing.T) {
	t.Parallel()
	fake := NewFakeRunner()
	fake.CrashAttempt(testKey, testRequest, TakeOver)
	fake.LoseNextRecord()
	_, err := runOnce(t.Context(), fake, pay)
	if lost := wantKind(t, err, KindOutcomeNotRecorded); lost.Work == nil {
		t.Error("no work")
	}
	result, err := runOnce(t.Context(), fake, func(_ context.Context, attempt *Attempt) (WorkResult, error) {
		if attempt.UnknownAttempts != 2 || attempt.AttemptNumber != 3 || attempt.PreviousAttempt.AttemptNumber != 2 ||
			attempt.PreviousAttempt.Failure != nil || attempt.StopReason() != StopNone || attempt.LeaseRemaining() < time.Hour {
			t.Errorf("got %+v", attempt)
		}
		return NotApplied("BUSY", ""), nil
	})
	wantResult[*Failed](t, result, err)
	if record, err := fake.Lookup(t.Context(), testKey, false); err != nil || record.State != StateReleased {
		t.Errorf("got %+v, %v", record, err)
	}
	result, err = runOnce(t.Context(), fake, func(_ context.Context, attempt *Attempt) (WorkResult, error) {
		if attempt.UnknownAttempts != 2 || attempt.PreviousAttempt.Failure.Disposition != NotAppliedDisposition {
			t.Errorf("got %+v", attempt)
		}
		return Complete(paid), nil
	})
	wantResult[*Completed](t, result, err)
}

func TestFakeRunnerHolds(t *testing.T) {
	t.Parallel()
	fake := NewFakeRunner()
	fake.CrashAttempt(testKey, testRequest, Hold)
	_, err := runOnce(t.Context(), fake, mustNotRun(t))
	wantKind(t, err, KindNeedsResolution)
}

func TestFakeRunnerRecordsAPanicAsUnknown(t *testing.T) {
	t.Parallel()
	fake := NewFakeRunner()
	func() {
		defer func() {
			if recover() != "x" {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = runOnce(t.Context(), fake, func(context.Context, *Attempt) (WorkResult, error) { panic("x") })
	}()
	if record, err := fake.Lookup(t.Context(), testKey, false); err != nil || record.State != StateAbandoned {
		t.Errorf("got %+v, %v", record, err)
	}
}

func TestFakeRunnerWaitsForAnotherGoroutine(t *testing.T) {
	t.Parallel()
	fake := NewFakeRunner()
	begun, goOn, waited := make(chan struct{}), make(chan struct{}), make(chan Result)
	go func() {
		_, _ = runOnce(context.Background(), fake, func(context.Context, *Attempt) (WorkResult, error) {
			close(begun)
			<-goOn
			return Complete(paid), nil
		})
	}()
	<-begun
	result, err := runOnce(t.Context(), fake, mustNotRun(t))
	wantResult[*InProgress](t, result, err)
	go func() {
		result, _ := runOnce(context.Background(), fake, mustNotRun(t), WithWaitTimeout(time.Minute))
		waited <- result
	}()
	leaving, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	_, err = runOnce(leaving, fake, mustNotRun(t), WithWaitTimeout(time.Minute))
	wantKind(t, err, KindCancelled)
	close(goOn)
	wantResult[*Replayed](t, <-waited, nil)
}

func TestFakeRunnerFailsAsTold(t *testing.T) {
	t.Parallel()
	fake := NewFakeRunner()
	fake.FailNextStart(&Error{Kind: KindUnavailable})
	_, err := runOnce(t.Context(), fake, mustNotRun(t))
	wantKind(t, err, KindUnavailable)
	fake.FailNextStart(&Error{Kind: KindUnavailable, Reason: "DRAINING"})
	result, err := runOnce(t.Context(), fake, pay, WithOnUnavailable(RunUnprotected))
	wantResult[*Unprotected](t, result, err)
	fake.FailNextStart(&Error{Kind: KindUnavailable, Reason: "COMMIT_UNKNOWN"})
	_, err = runOnce(t.Context(), fake, mustNotRun(t), WithOnUnavailable(RunUnprotected))
	wantKind(t, err, KindUnavailable)
	if _, err := fake.Lookup(t.Context(), testKey, false); !errors.Is(err, ErrRecordNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestFakeRunnerShowsBodiesOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	fake := NewFakeRunner()
	result, err := runOnce(t.Context(), fake, pay, WithLabels(map[string]string{"order": "7"}))
	wantResult[*Completed](t, result, err)
	with, err := fake.Lookup(t.Context(), testKey, true)
	if err != nil || string(with.Outcome.Body) != string(paid.Body) || with.Labels["order"] != "7" || with.State != StateCompleted {
		t.Errorf("got %+v, %v", with, err)
	}
	without, err := fake.Lookup(t.Context(), testKey, false)
	if err != nil || without.Outcome.Body != nil || *without.Outcome.BodySize != int64(len(paid.Body)) {
		t.Errorf("got %+v, %v", without, err)
	}
}
