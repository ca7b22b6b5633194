package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"idempotencyd/tests/harness/history"
)

// drive brings keys to their end after the last fault, as callers that retry would: I12. Each is looked up at the end, so that
// the history closes with what is recorded.
func (l *load) drive(ctx context.Context, keys []*keyPlan, more time.Duration) {
	const atOnce = 12
	began := l.caller.recorder.Now()
	room := make(chan struct{}, atOnce)
	var group sync.WaitGroup
	for i, k := range keys {
		room <- struct{}{}
		group.Go(func() {
			defer func() { <-room }()
			rng := rand.New(rand.NewPCG(l.seed, uint64(50_000+i)))
			// Waiting for a turn is not the service's fault.
			waited := l.caller.recorder.Now() - began
			bound := int64(longestLease+skewMargin+drivenWithin+more) + waited
			drive := history.Drive{Key: k.key, Bound: bound}
			drive.Problem, drive.Held = l.driveOne(ctx, rng, k, time.Duration(bound-waited))
			drive.Took = l.caller.recorder.Now() - began
			l.caller.recorder.Drove(drive)
		})
	}
	group.Wait()
}

// driveOne returns when the key is final, held, or its time is over.
func (l *load) driveOne(ctx context.Context, rng *rand.Rand, k *keyPlan, within time.Duration) (problem string, held bool) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	const client = 900
	attempt := newAttempt(rng)
	last, isOther := "no answer", false
	for ctx.Err() == nil {
		to := l.to(rng)
		if to == nil {
			_ = sleep(ctx, 10*time.Millisecond)
			continue
		}
		op := k.op(attempt)
		if isOther {
			op.Request = otherRequest(op.Request)
		}
		op.Client, op.Wait = client, int64(500*time.Millisecond)
		told := l.caller.begin(ctx, to, op)
		pause := 50 * time.Millisecond
		switch {
		case told == nil, told.Class == history.Unknown:
			last = "unknown"
		case told.Class == history.Definite:
			last = told.Reason
			if told.Reason == "NEEDS_RESOLUTION" {
				l.caller.lookup(ctx, to, op)
				return "", true
			}
			switch told.Reason {
			case "LEASE_LOST":
				attempt = newAttempt(rng)
			case "KEY_REUSED":
				// The record that is there was begun with the other body.
				isOther = !isOther
			}
		case told.Answer.Result == history.Started:
			l.caller.complete(ctx, to, op, "driven")
			continue
		case told.Answer.Result == history.Replay:
			l.caller.lookup(ctx, to, op)
			return "", false
		default:
			last = string(told.Answer.Result)
			pause = 150 * time.Millisecond
		}
		_ = sleep(ctx, pause)
	}
	return fmt.Sprintf("the last answer was %s", last), false
}

// unfinished are the keys that were in use last, at most so many.
func (l *load) unfinished(most int) []*keyPlan {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := max(0, len(l.used)-most)
	return append([]*keyPlan(nil), l.used[first:]...)
}
