package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"idempotencyd/tests/harness/history"
)

// lateCompletes races Completes with everything that ends an attempt or a record. Most of these have no one right answer, only
// histories that are right; the checker judges them.
func lateCompletes(ctx context.Context, r *run) error {
	if err := r.awaitTargets(ctx); err != nil {
		return err
	}
	races := []func(context.Context, *run, *rand.Rand, int){
		completeAgainstSweep, completeTwice, completeAgainstFail, renewAfterTakeover, completeOfEarlierRecord,
		unsettledIsKept,
	}
	var group sync.WaitGroup
	end := r.fault("Complete at the instant of sweep, purge, Fail or takeover")
	for i := range 42 {
		rng := rand.New(rand.NewPCG(r.load.seed, uint64(2000+i)))
		race := races[i%len(races)]
		group.Go(func() { race(ctx, r, rng, i) })
	}
	group.Wait()
	end()
	return nil
}

// The sweeper marks within a second after a lease is over: Completes come all around that.
func completeAgainstSweep(ctx context.Context, r *run, rng *rand.Rand, i int) {
	k := r.plan(fmt.Sprint("sweep-", i), time.Hour, shortLease)
	owner := r.attempt()
	r.expect(r.caller.begin(ctx, r.at(i), k.op(owner)), "started")
	_ = sleep(ctx, overAfter(shortLease)+time.Duration(rng.IntN(1200))*time.Millisecond)
	r.expect(r.caller.complete(ctx, r.at(i+1), k.op(owner), "late"), "recorded")
	r.expect(r.caller.begin(ctx, r.at(i+2), k.op(r.attempt())), "replay")
}

func completeTwice(ctx context.Context, r *run, rng *rand.Rand, i int) {
	k := r.plan(fmt.Sprint("twice-", i), time.Hour, longestLease)
	owner := r.attempt()
	r.expect(r.caller.begin(ctx, r.at(i), k.op(owner)), "started")
	var group sync.WaitGroup
	for j := range 4 {
		word := []string{"one", "other"}[j%2]
		group.Go(func() { r.caller.complete(ctx, r.at(i+j), k.op(owner), word) })
	}
	group.Wait()
	_ = sleep(ctx, time.Duration(rng.IntN(50))*time.Millisecond)
	r.expect(r.caller.begin(ctx, r.at(i), k.op(r.attempt())), "replay")
	r.caller.lookup(ctx, r.at(i), k.op(""))
}

func completeAgainstFail(ctx context.Context, r *run, rng *rand.Rand, i int) {
	k := r.plan(fmt.Sprint("against-fail-", i), time.Hour, longestLease)
	owner := r.attempt()
	r.expect(r.caller.begin(ctx, r.at(i), k.op(owner)), "started")
	how := []history.Disposition{history.NotApplied, history.Final, history.EndedUnknown}[rng.IntN(3)]
	var group sync.WaitGroup
	group.Go(func() { r.caller.complete(ctx, r.at(i), k.op(owner), "done") })
	group.Go(func() { r.caller.fail(ctx, r.at(i+1), k.op(owner), how, "no") })
	group.Go(func() { r.caller.begin(ctx, r.at(i+2), k.op(r.attempt())) })
	group.Wait()
	r.caller.lookup(ctx, r.at(i), k.op(""))
	r.caller.begin(ctx, r.at(i), k.op(owner))
}

func renewAfterTakeover(ctx context.Context, r *run, rng *rand.Rand, i int) {
	k := r.plan(fmt.Sprint("renew-", i), time.Hour, shortLease)
	owner := r.attempt()
	r.expect(r.caller.begin(ctx, r.at(i), k.op(owner)), "started")
	_ = sleep(ctx, overAfter(shortLease)-time.Duration(rng.IntN(100))*time.Millisecond)
	var group sync.WaitGroup
	group.Go(func() { r.caller.renew(ctx, r.at(i), k.op(owner)) })
	group.Go(func() { r.startedBy(ctx, k, r.attempt(), 4*time.Second) })
	group.Wait()
	r.caller.complete(ctx, r.at(i), k.op(owner), "late")
	r.caller.lookup(ctx, r.at(i), k.op(""))
}

// A record expires, the key is begun anew, before or after the purge; then comes what the first record's owner still has to say.
func completeOfEarlierRecord(ctx context.Context, r *run, rng *rand.Rand, i int) {
	k := r.plan(fmt.Sprint("earlier-", i), time.Second, longestLease)
	owner := r.attempt()
	r.expect(r.caller.begin(ctx, r.at(i), k.op(owner)), "started")
	r.expect(r.caller.complete(ctx, r.at(i), k.op(owner), "first"), "recorded")
	expires := replayWindow + skewMargin
	_ = sleep(ctx, expires-300*time.Millisecond+time.Duration(rng.IntN(1800))*time.Millisecond)
	r.caller.complete(ctx, r.at(i+1), k.op(owner), "first")
	next := r.attempt()
	for j := range 120 {
		told := r.caller.begin(ctx, r.at(i+j), k.op(next))
		if told != nil && told.Answer.Result != history.Replay {
			break
		}
		_ = sleep(ctx, 50*time.Millisecond)
	}
	r.caller.complete(ctx, r.at(i+1), k.op(owner), "first")
	r.caller.fail(ctx, r.at(i+2), k.op(owner), history.NotApplied, "late")
	r.caller.begin(ctx, r.at(i), k.op(owner))
	r.caller.complete(ctx, r.at(i), k.op(next), "second")
	r.caller.begin(ctx, r.at(i+1), k.op(r.attempt()))
}

// An attempt ended unknown, and the record's time is over: it is kept all the same, and the next Begin is told of it.
func unsettledIsKept(ctx context.Context, r *run, rng *rand.Rand, i int) {
	k := r.plan(fmt.Sprint("unsettled-", i), time.Second, shortLease)
	owner := r.attempt()
	r.expect(r.caller.begin(ctx, r.at(i), k.op(owner)), "started")
	if rng.IntN(2) == 0 {
		r.expect(r.caller.fail(ctx, r.at(i), k.op(owner), history.EndedUnknown, "lost"), "recorded")
	}
	// Until after several purges.
	_ = sleep(ctx, replayWindow+skewMargin+1500*time.Millisecond)
	r.expect(r.caller.lookup(ctx, r.at(i+1), k.op("")), "found")
	told := r.startedBy(ctx, k, r.attempt(), 6*time.Second)
	r.expect(told, "started")
	if told != nil && told.Answer.Result == history.Started && (told.Answer.Number != 2 || told.Answer.Unknowns != 1) {
		r.problem("%s was started as attempt %d with %d unknown ones", told.Key, told.Answer.Number, told.Answer.Unknowns)
	}
}
