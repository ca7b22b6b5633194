package chaos

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"idempotencyd/tests/harness/grpcproxy"
	"idempotencyd/tests/harness/history"
)

// Ownership: scenarios 11 to 16.
var ownerScenarios = []Scenario{
	{
		Name: "11-begin-storm", Title: "200 Begins at once for one new key, and the same key many times in a batch", Profile: Local,
		InCut: true, do: stormOfBegins,
	},
	{
		Name: "12-grpc-retry", Title: "gRPC itself sends a Begin again with its attempt id", Profile: Local, InCut: true, do: retriedByGRPC,
	},
	{
		Name: "13-owner-paused", Title: "an owner sleeps past its lease, with a successor and without", Profile: Local, InCut: true,
		do: pausedOwners,
	},
	{
		Name: "14-late-complete", Title: "Complete against sweep, purge, expiry, Fail, takeover and a later record", Profile: Local,
		InCut: true, do: lateCompletes,
	},
	{
		Name: "15-fail-then-storm", Title: "Fail NOT_APPLIED or UNKNOWN, then 50 Begins at once", Profile: Local, InCut: true,
		do: stormsAfterFail,
	},
	{Name: "16-hold", Title: "HOLD: nobody gets the work until its late owner completes", Profile: Local, InCut: true, do: heldKeys},
}

// plan makes a key of the scenario's own.
func (r *run) plan(name string, ttl, lease time.Duration) *keyPlan {
	k := &keyPlan{
		key: history.Key{Merchant: "acme", Key: r.scenario.Name + "-" + name}, ttl: ttl, lease: lease, born: time.Now(),
	}
	r.load.mu.Lock()
	defer r.load.mu.Unlock()
	r.load.used = append(r.load.used, k)
	return k
}

// at is the target of the replica whose turn it is.
func (r *run) at(i int) *target { return r.load.targets[i%len(r.load.targets)] }

func (r *run) awaitTargets(ctx context.Context) error {
	for _, t := range r.load.targets {
		if err := t.awaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// attempt names an attempt of the scenario's own.
func (r *run) attempt() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return newAttempt(r.rng)
}

// storm sends Begins with attempts of their own at once, over all replicas, and returns what they were told.
func (r *run) storm(ctx context.Context, k *keyPlan, count int, wait time.Duration) []*history.Op {
	told := make([]*history.Op, count)
	ready := make(chan struct{})
	var group sync.WaitGroup
	for i := range count {
		op := k.op(r.attempt())
		op.Client, op.Wait = i, int64(wait)
		group.Go(func() {
			<-ready
			told[i] = r.caller.begin(ctx, r.at(i), op)
		})
	}
	close(ready)
	group.Wait()
	return told
}

// countTold counts the answers of that kind, or refusals for that reason.
func countTold(told []*history.Op, what string) int {
	count := 0
	for _, op := range told {
		if op != nil && (string(op.Answer.Result) == what || op.Reason == what) {
			count++
		}
	}
	return count
}

func firstTold(told []*history.Op, result history.Result) *history.Op {
	for _, op := range told {
		if op != nil && op.Answer.Result == result {
			return op
		}
	}
	return nil
}

// expect notes a problem unless the call was told that.
func (r *run) expect(op *history.Op, what string) {
	switch {
	case op == nil:
		r.problem("a call that was to be told %s was not sent", what)
	case string(op.Answer.Result) != what && op.Reason != what:
		r.problem("%s of %s was told %s%s (%s), not %s", op.RPC, op.Key, op.Answer.Result, op.Reason, op.Code, what)
	}
}

func stormOfBegins(ctx context.Context, r *run) error {
	if err := r.awaitTargets(ctx); err != nil {
		return err
	}
	for i := range 4 {
		k := r.plan(fmt.Sprint("storm-", i), time.Hour, longestLease)
		// Half of the storms come while the lanes are busy, so that a key is in one batch many times.
		if i%2 == 1 {
			for _, m := range r.world.members {
				m.lines[0].Hold()
			}
			time.AfterFunc(200*time.Millisecond, func() {
				for _, m := range r.world.members {
					m.lines[0].Release()
				}
			})
		}
		end := r.fault("200 Begins at once")
		told := r.storm(ctx, k, 200, 0)
		end()
		if got := countTold(told, "started"); got != 1 {
			r.problem("%d of 200 were started", got)
		}
		if got := countTold(told, "in_progress"); got != 199 {
			r.problem("%d of 200 were told in progress", got)
		}
		owner := firstTold(told, history.Started)
		if owner == nil {
			continue
		}
		r.expect(r.caller.complete(ctx, r.at(i), k.op(owner.Attempt), "done"), "recorded")
		if got := countTold(r.storm(ctx, k, 50, 0), "replay"); got != 50 {
			r.problem("%d of 50 were told the outcome", got)
		}
		r.othersGetNothing(ctx, k)
	}
	return nil
}

// othersGetNothing: every replica has the outcome in memory now, and gives it neither to another body nor to another merchant.
func (r *run) othersGetNothing(ctx context.Context, k *keyPlan) {
	for i := range r.load.targets {
		other := k.op(r.attempt())
		other.Request = otherRequest(other.Request)
		r.expect(r.caller.begin(ctx, r.at(i), other), "KEY_REUSED")
	}
	foreign := k.op(r.attempt())
	foreign.Merchant = "bolt"
	r.expect(r.caller.begin(ctx, r.at(0), foreign), "started")
	foreign.Attempt = r.attempt()
	r.expect(r.caller.begin(ctx, r.at(1), foreign), "in_progress")
}

// retriedByGRPC has grpc-go's own retries send the same bytes again, after the first answer was lost behind the server.
func retriedByGRPC(ctx context.Context, r *run) error {
	const policy = `{"methodConfig":[{"name":[{"service":"idempotency.v1.IdempotencyService"}],"retryPolicy":{"maxAttempts":4,
"initialBackoff":"0.02s","maxBackoff":"0.1s","backoffMultiplier":2,"retryableStatusCodes":["UNAVAILABLE"]}}]}`
	for i, m := range r.world.members {
		retrying, err := newTarget(m.name+" (retries)", m.proxy.Address(), grpc.WithDefaultServiceConfig(policy))
		if err != nil {
			return err
		}
		defer retrying.connection.Close()
		if err := retrying.awaitReady(ctx); err != nil {
			return err
		}
		for j := range 10 {
			k := r.plan(fmt.Sprintf("retry-%d-%d", i, j), time.Hour, longestLease)
			// The first run of each has its effect, and nobody hears of it.
			end := r.fault(resending + " by gRPC: answers lost")
			for _, method := range []string{"Begin", "Complete"} {
				m.proxy.Add(method, grpcproxy.Fault{Kind: grpcproxy.LoseAnswer, Code: codes.Unavailable, Times: 1 + j%2})
			}
			began := r.caller.begin(ctx, retrying, k.op(r.attempt()))
			r.expect(began, "started")
			if began != nil {
				r.expect(r.caller.complete(ctx, retrying, k.op(began.Attempt), "done"), "recorded")
				r.expect(r.caller.begin(ctx, retrying, k.op(r.attempt())), "replay")
				if !began.Answer.Repeated || began.Answer.Number != 1 {
					r.problem("a Begin that was sent twice was told attempt %d, repeated %t", began.Answer.Number, began.Answer.Repeated)
				}
			}
			end()
		}
	}
	return nil
}

const shortLease = 300 * time.Millisecond

// overAfter is when a lease of that length is surely over, unless the clock jumped.
func overAfter(lease time.Duration) time.Duration { return lease + skewMargin + 100*time.Millisecond }

// startedBy repeats a Begin until it is told started, and returns that answer.
func (r *run) startedBy(ctx context.Context, k *keyPlan, attempt string, within time.Duration) *history.Op {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var told *history.Op
	for i := 0; ctx.Err() == nil; i++ {
		told = r.caller.begin(ctx, r.at(i), k.op(attempt))
		if told != nil && told.Answer.Result != history.InProgress {
			return told
		}
		_ = sleep(ctx, 50*time.Millisecond)
	}
	return told
}

func pausedOwners(ctx context.Context, r *run) error {
	if err := r.awaitTargets(ctx); err != nil {
		return err
	}
	var group sync.WaitGroup
	for i := range 12 {
		k := r.plan(fmt.Sprint("paused-", i), time.Hour, shortLease)
		hasSuccessor := i%2 == 0
		group.Go(func() {
			owner := r.attempt()
			r.expect(r.caller.begin(ctx, r.at(i), k.op(owner)), "started")
			end := r.fault("an owner sleeps past its lease")
			_ = sleep(ctx, overAfter(shortLease))
			end()
			if !hasSuccessor {
				r.expect(r.caller.complete(ctx, r.at(i+1), k.op(owner), "late"), "recorded")
				r.expect(r.caller.begin(ctx, r.at(i+2), k.op(r.attempt())), "replay")
				return
			}
			successor := r.attempt()
			r.expect(r.startedBy(ctx, k, successor, 8*time.Second), "started")
			r.expect(r.caller.renew(ctx, r.at(i), k.op(owner)), "LEASE_LOST")
			r.expect(r.caller.begin(ctx, r.at(i), k.op(owner)), "LEASE_LOST")
			r.expect(r.caller.complete(ctx, r.at(i+1), k.op(owner), "late"), "LEASE_LOST")
			r.expect(r.caller.complete(ctx, r.at(i), k.op(successor), "done"), "recorded")
			r.expect(r.caller.begin(ctx, r.at(i+2), k.op(r.attempt())), "replay")
		})
	}
	group.Wait()
	return nil
}

func stormsAfterFail(ctx context.Context, r *run) error {
	if err := r.awaitTargets(ctx); err != nil {
		return err
	}
	for i, c := range []struct {
		how     history.Disposition
		hold    bool
		started int
	}{
		{history.NotApplied, false, 1}, {history.EndedUnknown, false, 1}, {history.EndedUnknown, true, 0}, {history.NotApplied, true, 1},
	} {
		for j := range 3 {
			k := r.plan(fmt.Sprintf("fail-%d-%d", i, j), time.Hour, longestLease)
			k.hold = c.hold
			owner := r.attempt()
			r.expect(r.caller.begin(ctx, r.at(j), k.op(owner)), "started")
			r.expect(r.caller.fail(ctx, r.at(j), k.op(owner), c.how, "no"), "recorded")
			if !c.hold {
				// A late duplicate of the Begin must not start the work again.
				r.expect(r.caller.begin(ctx, r.at(j+1), k.op(owner)), "LEASE_LOST")
			}
			end := r.fault(fmt.Sprintf("Fail %s, then 50 Begins at once", c.how))
			told := r.storm(ctx, k, 50, time.Duration(j)*20*time.Millisecond)
			end()
			if got := countTold(told, "started"); got != c.started {
				r.problem("after %s (hold %t) %d of 50 were started, not %d", c.how, c.hold, got, c.started)
			}
			if c.hold && c.how == history.EndedUnknown && countTold(told, "NEEDS_RESOLUTION") != 50 {
				r.problem("%d of 50 were told that the record needs resolution", countTold(told, "NEEDS_RESOLUTION"))
			}
			if next := firstTold(told, history.Started); next != nil {
				r.expect(r.caller.complete(ctx, r.at(j), k.op(owner), "late"), "LEASE_LOST")
				r.expect(r.caller.complete(ctx, r.at(j), k.op(next.Attempt), "done"), "recorded")
			} else {
				r.expect(r.caller.complete(ctx, r.at(j), k.op(owner), "late"), "recorded")
			}
			if got := countTold(r.storm(ctx, k, 10, 0), "replay"); got != 10 {
				r.problem("%d of 10 were told the outcome", got)
			}
		}
	}
	return nil
}

func heldKeys(ctx context.Context, r *run) error {
	if err := r.awaitTargets(ctx); err != nil {
		return err
	}
	var group sync.WaitGroup
	for i := range 9 {
		k := r.plan(fmt.Sprint("held-", i), time.Hour, shortLease)
		k.hold = true
		group.Go(func() {
			owner := r.attempt()
			r.expect(r.caller.begin(ctx, r.at(i), k.op(owner)), "started")
			end := r.fault("an owner on HOLD sleeps past its lease")
			_ = sleep(ctx, overAfter(shortLease))
			end()
			// A jump of the clock may prolong the lease; then others are told in progress for a while.
			for range 100 {
				told := r.caller.begin(ctx, r.at(i+1), k.op(r.attempt()))
				if told == nil || told.Answer.Result != history.InProgress {
					r.expect(told, "NEEDS_RESOLUTION")
					break
				}
				_ = sleep(ctx, 50*time.Millisecond)
			}
			r.expect(r.caller.begin(ctx, r.at(i+2), k.op(owner)), "NEEDS_RESOLUTION")
			r.expect(r.caller.complete(ctx, r.at(i), k.op(owner), "late"), "recorded")
			r.expect(r.caller.begin(ctx, r.at(i+1), k.op(r.attempt())), "replay")
		})
	}
	group.Wait()
	return nil
}
