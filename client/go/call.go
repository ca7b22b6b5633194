package idempotency

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	firstBackoff = 50 * time.Millisecond
	// Guessed: fast enough for a replica that restarts, slow enough for a thousand
	// callers.
	longestBackoff = 5 * time.Second
	longestAsked   = time.Minute
	// Who asks to be asked at once is not asked in a busy loop.
	shortestPause = 10 * time.Millisecond
	// With less than that left no further try begins: it would mostly say that the
	// time is over.
	shortestTry = 250 * time.Millisecond
	// The first one gets at least that, however late a connection was made.
	shortestFirstTry = 100 * time.Millisecond

	notConnected = "no connection to the service was made in time"
)

// backoff is how long to wait before a call is repeated. The zero value is ready.
type backoff struct{ next, longest time.Duration }

// pause returns what the server asked for, if it did, with up to a fifth on top,
// so that those it told the same do not come back together. Else it doubles, and
// each wait is drawn from the upper half.
func (b *backoff) pause(asked time.Duration) time.Duration {
	if asked >= 0 {
		asked = min(asked, longestAsked)
		return max(asked+rand.N(asked/5+1), shortestPause)
	}
	if b.longest == 0 {
		b.longest = longestBackoff
	}
	wait := min(max(b.next, firstBackoff), b.longest)
	b.next = 2 * wait
	return wait/2 + rand.N(wait/2+1)
}

// try makes one try of a call. nil: it was answered, by a whole response. sent
// tells whether a part of it may have left this process.
func (c *Client) try(ctx context.Context, conn *grpc.ClientConn, rpc string,
	request, response proto.Message, whole func() bool) (failure *callFailure, sent bool) {
	var trailer metadata.MD
	var left atomic.Bool
	err := conn.Invoke(withSendWatch(ctx, &left), methodPrefix+rpc, request, response,
		grpc.ForceCodecV2(codec{}), grpc.Trailer(&trailer), grpc.WaitForReady(false))
	if err == nil && !whole() {
		err = status.Error(codes.Internal, "the service's answer is none that this client can read")
	}
	if err == nil {
		return nil, true
	}
	return failureOf(err, trailer), left.Load()
}

// call is a Begin, Lookup or Renew with all its tries.
type call struct {
	rpc               string
	conn              *grpc.ClientConn
	request, response proto.Message
	// Whether the response has what every response has.
	whole func() bool
	// No try begins after that.
	giveUpAt instant
	// Called before each try; returns what it may take beyond the rpc time-out.
	before func() time.Duration
	// Waits before each try until the channel's state is known, for reached.
	settles bool

	// Whether there was a try at all.
	tried bool
	// Whether a try that failed may have changed the record.
	mayHaveEffect bool
	// Whether, as far as settles can tell, a try may have reached a service that
	// took it.
	reached bool
	// Whether the tries ended because giveUpAt had come.
	outOfTime bool
}

// repeat tries until it is answered, refused for good, ctx has ended or giveUpAt
// has come, and returns the last failure.
func (c *Client) repeat(ctx context.Context, k *call) *callFailure {
	var pauses backoff
	var before *callFailure
	refreshed := false
	for {
		if k.settles && !c.settle(ctx, k) {
			k.outOfTime = true
			return &callFailure{err: newError(KindUnavailable, notConnected)}
		}
		failure := c.tryOnce(ctx, k)
		if failure == nil || ctx.Err() != nil {
			return failure
		}
		pause := time.Duration(0)
		if failure.code() == codes.Unauthenticated && !refreshed && !failure.mustNotRetry {
			refreshed = true
			c.options.Hooks.refreshCredentials(c.logger)
		} else if failure.worthRepeating() {
			pause = pauses.pause(failure.asked)
		} else {
			return failure
		}
		next := c.now().add(pause)
		if next.add(shortestTry) >= k.giveUpAt {
			k.outOfTime = true
			if before != nil && failure.err.Kind == KindDeadlineExceeded {
				return before // what the service said, rather than that the time is over
			}
			return failure
		}
		before = failure
		c.options.Hooks.retry(c.logger, k.rpc, failure.err)
		c.now.sleep(ctx, next)
		if ctx.Err() != nil {
			return failure
		}
	}
}

func (c *Client) tryOnce(ctx context.Context, k *call) *callFailure {
	extra := time.Duration(0)
	proto.Reset(k.response)
	if k.before != nil {
		extra = k.before()
	}
	k.tried = true
	timeout := min(time.Duration(instant(extra).add(c.options.RPCTimeout)), max(c.now.until(k.giveUpAt), shortestFirstTry))
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	wasDown := k.conn.GetState() == connectivity.TransientFailure
	failure, sent := c.try(ctx, k.conn, k.rpc, k.request, k.response, k.whole)
	if failure == nil {
		return nil
	}
	if failure.mayHaveEffect && sent {
		k.mayHaveEffect = true
	}
	if !sent && failure.code() == codes.DeadlineExceeded {
		failure.err.Kind, failure.err.Message = KindUnavailable, notConnected
	}
	neverSent := wasDown && !sent && failure.code() == codes.Unavailable && failure.err.Reason == "" &&
		k.conn.GetState() == connectivity.TransientFailure
	if !neverSent && !failure.refusedForNow() {
		k.reached = true
	}
	return failure
}

// settle waits until the channel is connected, or has failed to. false: giveUpAt
// has come first.
func (c *Client) settle(ctx context.Context, k *call) bool {
	limited, cancel := context.WithTimeout(ctx, c.now.until(k.giveUpAt))
	defer cancel()
	for {
		state := k.conn.GetState()
		if state != connectivity.Idle && state != connectivity.Connecting {
			return true
		}
		k.conn.Connect()
		if !k.conn.WaitForStateChange(limited, state) {
			return ctx.Err() != nil // then the try ends at once, and says why
		}
	}
}
