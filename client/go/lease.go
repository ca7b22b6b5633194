package idempotency

import (
	"context"
	"math"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
)

const (
	// A lease that has nearly no time left is not renewed in a busy loop.
	shortestThird = 20 * time.Millisecond
	// A Renew gets at least that, however short the lease.
	shortestRenew       = 200 * time.Millisecond
	longestRenewBackoff = time.Second
)

// lease is what an accepted Begin or Renew gave, counted from when it was sent.
type lease struct {
	sentAt    instant
	remaining time.Duration
}

// endless is what work has that runs without the service.
var endless = lease{remaining: math.MaxInt64}

func (l lease) end() instant     { return l.sentAt.add(l.remaining) }
func (l lease) renewAt() instant { return l.sentAt.add(l.third()) }
func (l lease) third() time.Duration {
	return max(l.remaining/3, shortestThird)
}

// keeper keeps an attempt's lease while fn runs, and asks fn to stop when it
// must.
//
// A Renew that fails is repeated until one is accepted or refused for good, also
// after the lease's local end: fn has been told to stop by then, but as long as it
// has not stopped it is better that nobody else starts. It ends with the longest
// duration, so that a hanging fn does not hold the key for ever.
type keeper struct {
	client *Client
	caller context.Context
	renew  *idempotencyv1.RenewRequest // nil: there is no lease to keep
	stopAt instant
	cancel context.CancelCauseFunc
	ended  chan struct{}

	mu     sync.Mutex // guards what follows
	lease  lease
	over   bool // fn has returned: nothing is asked to stop any more
	reason StopReason
}

// keep returns fn's context. The keeper must be ended.
func (c *Client) keep(ctx context.Context, renew *idempotencyv1.RenewRequest, l lease,
	maxDuration time.Duration) (*keeper, context.Context) {
	work, cancel := context.WithCancelCause(ctx)
	k := &keeper{client: c, caller: ctx, renew: renew, stopAt: c.now().add(maxDuration), cancel: cancel,
		ended: make(chan struct{}), lease: l, reason: StopNone}
	go k.run()
	return k, work
}

// end: no Renew is sent any more, and one that is under way is cancelled.
func (k *keeper) end() {
	k.mu.Lock()
	k.noteCallerLocked()
	k.over = true
	k.mu.Unlock()
	close(k.ended)
	k.cancel(nil)
}

// stop asks fn to stop, for the first reason only.
func (k *keeper) stop(reason StopReason) {
	k.mu.Lock()
	k.noteCallerLocked()
	first := !k.over && k.reason == StopNone
	if first {
		k.reason = reason
	}
	k.mu.Unlock()
	if first {
		k.cancel(&StopError{reason})
	}
}

// noteCallerLocked: fn's context ends with the caller's by itself.
func (k *keeper) noteCallerLocked() {
	if k.reason == StopNone && !k.over {
		k.reason = goneReason(k.caller)
	}
}

func (k *keeper) stopReason() StopReason {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.noteCallerLocked()
	return k.reason
}

func (k *keeper) remaining() time.Duration {
	return k.client.now.until(k.current().end())
}

func (k *keeper) current() lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lease
}

// renewal is the answer to one Renew.
type renewal struct {
	lease   lease
	failure *callFailure
}

// run watches the clock and renews until fn has returned.
func (k *keeper) run() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(k.caller))
	defer cancel()
	pauses := backoff{longest: longestRenewBackoff}
	answers := make(chan renewal, 1)
	renewAt, renewing, refreshed := k.lease.renewAt(), k.renew != nil, false
	waiting := false // for an answer
	closing := k.client.closing.Done()
	for {
		now, end := k.client.now(), k.current().end()
		next := min(end, k.stopAt)
		switch {
		case now >= k.stopAt:
			renewing, next = false, never
			k.stop(StopMaxDuration)
		case now >= end:
			next = k.stopAt
			k.stop(StopLeaseLost)
		}
		if renewing && !waiting && now >= renewAt {
			waiting = true
			go func() { answers <- k.renewOnce(ctx) }()
		}
		if renewing && !waiting {
			next = min(next, renewAt)
		}
		timer := time.NewTimer(min(k.client.now.until(next), longestSleep))
		select {
		case <-timer.C:
		case answer := <-answers:
			waiting = false
			renewing, renewAt = k.judge(answer, &pauses, &refreshed, renewing)
		case <-closing:
			k.stop(StopCancelled)
			closing = nil // as long as fn has not stopped, it keeps its lease
		case <-k.client.over.Done():
			return
		case <-k.ended:
			return
		}
		timer.Stop()
	}
}

// judge takes in the answer to a Renew, and says whether to renew again and when.
func (k *keeper) judge(answer renewal, pauses *backoff, refreshed *bool, renewing bool) (bool, instant) {
	now := k.client.now()
	if answer.failure == nil {
		k.mu.Lock()
		k.lease = answer.lease
		k.mu.Unlock()
		*pauses, *refreshed = backoff{longest: longestRenewBackoff}, false
		return renewing, answer.lease.renewAt()
	}
	switch failure := answer.failure; {
	case failure.err.Kind == KindLeaseLost || failure.err.Kind == KindRecordNotFound:
		k.stop(StopLeaseLost)
		return false, never
	case failure.err.Kind == KindInvalidField || failure.err.Kind == KindNeedsResolution:
		// The takeover window leaves no lease. The one that is held runs to its end.
		return false, never
	case failure.mustNotRetry:
		// This one is not repeated; the next is due as usual.
		return renewing, now.add(k.current().third())
	case failure.code() == codes.Unauthenticated && !*refreshed:
		*refreshed = true
		k.client.options.Hooks.refreshCredentials(k.client.logger)
	default:
		now = now.add(pauses.pause(failure.asked))
	}
	k.client.options.Hooks.retry(k.client.logger, "Renew", answer.failure.err)
	return renewing, now
}

func (k *keeper) renewOnce(ctx context.Context) renewal {
	// A try that hangs leaves time for another one.
	timeout := min(max(k.current().third(), shortestRenew), max(k.client.options.RPCTimeout, shortestRenew))
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	response := &idempotencyv1.RenewResponse{}
	sentAt := k.client.now()
	failure, _ := k.client.try(ctx, k.client.calls, "Renew", k.renew, response,
		func() bool { return response.LeaseRemaining != nil })
	return renewal{lease{sentAt, response.LeaseRemaining.AsDuration()}, failure}
}
