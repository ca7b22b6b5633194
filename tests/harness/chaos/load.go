package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"idempotencyd/tests/harness/history"
)

// keyPlan is one key under load: what all its callers agree on, and the attempts that were begun for it. Safe for concurrent use.
type keyPlan struct {
	key   history.Key
	hold  bool
	ttl   time.Duration
	lease time.Duration

	mu       sync.Mutex
	calls    int
	born     time.Time
	attempts []string
}

// Every key is used for a while only: a checker's work grows quickly with the calls of one key, and new keys are what a
// payment service sees most.
const (
	callsOfAKey = 60
	lifeOfAKey  = 7 * time.Second
	activeKeys  = 16
)

func (k *keyPlan) isWorn() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calls >= callsOfAKey || time.Since(k.born) > lifeOfAKey
}

func (k *keyPlan) count() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls++
}

func (k *keyPlan) own(attempt string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.attempts = append(k.attempts, attempt)
}

// recent is one of the last attempts that were begun, or none.
func (k *keyPlan) recent(rng *rand.Rand) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.attempts) == 0 {
		return "", false
	}
	back := rng.IntN(min(3, len(k.attempts)))
	return k.attempts[len(k.attempts)-1-back], true
}

func (k *keyPlan) op(attempt string) history.Op {
	return history.Op{
		Merchant: k.key.Merchant, Key: k.key.Key, Attempt: attempt, Request: "pay " + k.key.String(),
		TTL: int64(k.ttl), Lease: int64(k.lease), Hold: k.hold,
	}
}

// load is callers that do what payment services do, and what they should not do, on a moving set of keys.
type load struct {
	caller  *caller
	targets []*target
	prefix  string
	seed    uint64

	mu      sync.Mutex
	rng     *rand.Rand
	keys    []*keyPlan // in use
	used    []*keyPlan // all
	stopped chan struct{}
	group   sync.WaitGroup
}

// loadOptions says how much.
type loadOptions struct {
	// Callers that each wait for their answer before the next call.
	closed int
	// And calls that come at that rate whatever the answers do, by at most 64 callers at a time.
	openPerSecond int
	// Between two calls of a closed caller.
	think time.Duration
}

var usualLoad = loadOptions{closed: 6, openPerSecond: 40, think: 15 * time.Millisecond}

func newLoad(recorder *history.Recorder, targets []*target, prefix string, seed uint64) *load {
	return &load{
		caller: &caller{recorder: recorder, errors: &errorTexts{}}, targets: targets, prefix: prefix, seed: seed,
		rng: rand.New(rand.NewPCG(seed, 77)), stopped: make(chan struct{}),
	}
}

func (l *load) start(ctx context.Context, options loadOptions) {
	for i := range options.closed {
		l.group.Go(func() {
			rng := rand.New(rand.NewPCG(l.seed, uint64(i)))
			for l.goesOn(ctx) {
				l.step(ctx, rng, i)
				_ = sleep(ctx, options.think/2+time.Duration(rng.Int64N(int64(options.think))))
			}
		})
	}
	if options.openPerSecond > 0 {
		l.group.Go(func() { l.runOpen(ctx, options.openPerSecond) })
	}
}

func (l *load) runOpen(ctx context.Context, perSecond int) {
	const most = 64
	room := make(chan struct{}, most)
	ticker := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticker.Stop()
	rng := rand.New(rand.NewPCG(l.seed, 1000))
	for number := 0; l.goesOn(ctx); number++ {
		<-ticker.C
		select {
		case room <- struct{}{}:
		default:
			continue
		}
		own := rand.New(rand.NewPCG(rng.Uint64(), 1))
		l.group.Go(func() {
			defer func() { <-room }()
			l.step(ctx, own, 100+number%most)
		})
	}
}

func (l *load) goesOn(ctx context.Context) bool {
	select {
	case <-l.stopped:
		return false
	case <-ctx.Done():
		return false
	default:
		return true
	}
}

// stop ends the load and returns when its last call has ended.
func (l *load) stop() {
	close(l.stopped)
	l.group.Wait()
}

func (l *load) newKey() *keyPlan {
	number := len(l.used)
	k := &keyPlan{
		// Two merchants have the same keys.
		key:  history.Key{Merchant: []string{"acme", "bolt"}[number%2], Key: fmt.Sprintf("%s-%d", l.prefix, number/2)},
		hold: l.rng.IntN(12) == 0, ttl: time.Hour, lease: time.Second + time.Duration(l.rng.IntN(1000))*time.Millisecond,
		born: time.Now(),
	}
	if l.rng.IntN(3) == 0 {
		k.ttl = time.Second
	}
	l.used = append(l.used, k)
	return k
}

func (l *load) pick(rng *rand.Rand) *keyPlan {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.keys) < activeKeys {
		l.keys = append(l.keys, l.newKey())
	}
	index := rng.IntN(len(l.keys))
	if l.keys[index].isWorn() {
		l.keys[index] = l.newKey()
	}
	return l.keys[index]
}

// to is a replica that can be reached at the moment.
func (l *load) to(rng *rand.Rand) *target {
	first := rng.IntN(len(l.targets))
	for i := range l.targets {
		if t := l.targets[(first+i)%len(l.targets)]; t.isReady() {
			return t
		}
	}
	return nil
}

func otherRequest(request string) string { return "another " + request }

func newAttempt(rng *rand.Rand) string {
	return fmt.Sprintf("%s%016x%016x", plantedAttempt, rng.Uint64(), rng.Uint64())
}

// step makes one call, and the ones that belong to it.
func (l *load) step(ctx context.Context, rng *rand.Rand, client int) {
	k := l.pick(rng)
	to := l.to(rng)
	if to == nil {
		_ = sleep(ctx, 10*time.Millisecond)
		return
	}
	k.count()
	known, isKnown := k.recent(rng)
	choice := rng.IntN(100)
	switch {
	case choice < 45 || !isKnown:
		l.work(ctx, rng, client, k)
	case choice < 55:
		op := k.op(known)
		op.Client = client
		l.caller.begin(ctx, to, op)
	case choice < 60:
		op := k.op(newAttempt(rng))
		op.Client, op.Request = client, otherRequest(op.Request)
		l.caller.begin(ctx, to, op)
	case choice < 72:
		l.finish(ctx, rng, client, k, known)
	case choice < 82:
		op := k.op(known)
		op.Client = client
		l.caller.renew(ctx, to, op)
	default:
		op := k.op("")
		op.Client = client
		l.caller.lookup(ctx, to, op)
	}
}

// work is a caller that begins, does its work, and finishes; or dies before.
func (l *load) work(ctx context.Context, rng *rand.Rand, client int, k *keyPlan) {
	op := k.op(newAttempt(rng))
	op.Client = client
	if rng.IntN(4) == 0 {
		op.Wait = int64(300 * time.Millisecond)
	}
	told := l.repeat(ctx, rng, func(to *target) *history.Op { return l.caller.begin(ctx, to, op) })
	if told == nil || told.Class == history.Definite || (told.Class == history.OK && told.Answer.Result != history.Started) {
		return
	}
	k.own(op.Attempt)
	if told.Class != history.OK || rng.IntN(10) < 3 {
		return
	}
	_ = sleep(ctx, time.Duration(rng.IntN(20))*time.Millisecond)
	l.finish(ctx, rng, client, k, op.Attempt)
}

func (l *load) finish(ctx context.Context, rng *rand.Rand, client int, k *keyPlan, attempt string) {
	op := k.op(attempt)
	op.Client = client
	word := fmt.Sprint(rng.IntN(20) / 19) // "0", seldom "1"
	choice := rng.IntN(10)
	l.repeat(ctx, rng, func(to *target) *history.Op {
		k.count()
		switch {
		case choice < 4:
			return l.caller.complete(ctx, to, op, word)
		case choice < 7:
			return l.caller.fail(ctx, to, op, history.NotApplied, word)
		case choice < 9:
			return l.caller.fail(ctx, to, op, history.EndedUnknown, word)
		}
		return l.caller.fail(ctx, to, op, history.Final, word)
	})
}

// repeat sends a call again, unchanged, while its effect is unknown: most callers do, some give up.
func (l *load) repeat(ctx context.Context, rng *rand.Rand, send func(*target) *history.Op) *history.Op {
	var told *history.Op
	for range 4 {
		to := l.to(rng)
		if to == nil {
			return told
		}
		if answered := send(to); answered != nil {
			told = answered
		}
		if told == nil || told.Class != history.Unknown || rng.IntN(5) == 0 || !l.goesOn(ctx) {
			return told
		}
		_ = sleep(ctx, time.Duration(20+rng.IntN(80))*time.Millisecond)
	}
	return told
}
