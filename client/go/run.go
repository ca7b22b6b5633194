package idempotency

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
)

// longestWait is the server's bound of one wait; a caller that wants more is asked
// for again.
const longestWait = 30 * time.Second

// run is one call of RunOnce, from its Begin to its record.
type run struct {
	client    *Client
	key       Key
	options   *runOptions
	attemptID string
	request   *idempotencyv1.BeginRequest
	response  *idempotencyv1.BeginResponse
	lease     lease
	// Whether the service may have started our attempt.
	mayBeStarted bool
}

// RunOnce implements Runner.
func (c *Client) RunOnce(ctx context.Context, key Key, request Request, onLeaseExpiry OnLeaseExpiry,
	fn Work, options ...RunOption) (Result, error) {
	if fn == nil {
		return nil, invalidField("fn", "must be given")
	}
	o := newRunOptions(key, options)
	if err := checkBegin(key, request, onLeaseExpiry, o); err != nil {
		return nil, err
	}
	if !c.enter() {
		return nil, closedError()
	}
	defer c.leave()
	r := &run{client: c, key: key, options: o, attemptID: newUUID(), response: &idempotencyv1.BeginResponse{}}
	r.request = beginRequest(key, request, onLeaseExpiry, o, r.attemptID)
	switch result, err, unprotected := r.begin(ctx); {
	case unprotected:
		return r.runUnprotected(ctx, fn, err), nil
	case err != nil:
		return nil, err
	case result != nil:
		return result, nil
	}
	return r.runProtected(ctx, fn)
}

// begin returns what ends the call before fn, or nothing: then the service has
// started our attempt and its lease is good. unprotected: fn may run without the
// service, which was not reached because of err.
func (r *run) begin(ctx context.Context) (result Result, err *Error, unprotected bool) {
	c := r.client
	asking, cancel := joined(ctx, c.closing)
	defer cancel()
	waitEnd := c.now().add(r.options.waitTimeout)
	k := r.beginCall(waitEnd)
	for {
		if gone := r.gone(ctx); gone != nil {
			return nil, r.giveUp(ctx, gone), false
		}
		failure := c.repeat(asking, k)
		r.mayBeStarted = k.mayHaveEffect
		switch gone := r.gone(ctx); {
		case failure != nil && gone != nil:
			return nil, r.giveUp(ctx, gone), false
		case failure != nil && r.options.onUnavailable == RunUnprotected && k.outOfTime && k.tried && !k.reached:
			return nil, failure.err, true
		case failure != nil:
			return nil, r.refused(ctx, failure.err), false
		case r.response.GetStarted() != nil:
			return nil, r.started(ctx, asking, k.giveUpAt), false
		}
		if replayed := replayedFromProto(r.response); replayed != nil {
			return replayed, nil, false
		}
		if r.response.GetInProgress() == nil {
			r.mayBeStarted = true
			return nil, r.giveUp(ctx, newError(KindInternal,
				"the service's answer to Begin is none that this client knows")), false
		}
		// Another attempt owns the work, so ours does not. It is asked again if the
		// service ended the wait early, which it may when it holds too many.
		k.mayHaveEffect, k.reached = false, true
		inProgress := inProgressFromProto(r.response)
		next := c.now().add(max(inProgress.RetryAfter, shortestPause))
		if next >= waitEnd {
			return inProgress, nil, false
		}
		c.now.sleep(asking, next)
		r.mayBeStarted = false
	}
}

func (r *run) beginCall(waitEnd instant) *call {
	c := r.client
	k := &call{
		rpc:      "Begin",
		conn:     c.calls,
		request:  r.request,
		response: r.response,
		whole:    func() bool { return true }, // begin looks at what it says
		giveUpAt: waitEnd.add(r.options.startTimeout),
		settles:  r.options.onUnavailable == RunUnprotected,
	}
	if r.options.waitTimeout > 0 {
		k.conn = c.waits
	}
	k.before = func() time.Duration {
		wait := min(c.now.until(waitEnd), longestWait)
		if r.options.waitTimeout > 0 {
			r.request.WaitTimeout = durationpb.New(wait)
		}
		r.lease.sentAt = c.now()
		return wait
	}
	return k
}

// gone is why nobody waits for fn any more: the caller has left, or the client is
// closing. nil: somebody does.
func (r *run) gone(ctx context.Context) *Error {
	switch {
	case ctx.Err() != nil:
		return goneError(ctx)
	case r.client.closing.Err() != nil:
		return closedError()
	}
	return nil
}

// started looks at what the service gave. asking ends as soon as ctx does, or the
// client is closing.
func (r *run) started(ctx, asking context.Context, giveUpAt instant) *Error {
	r.mayBeStarted = true
	if !wholeStart(r.response, r.attemptID) {
		return r.giveUp(ctx, newError(KindInternal, "the service started another attempt than ours, or half of it"))
	}
	r.lease.remaining = r.response.GetStarted().LeaseRemaining.AsDuration()
	if r.leaseIsOver() {
		// A repeat of a Begin whose first answer was lost, or a slow way here. Only a
		// Renew makes it good.
		if failure := r.renew(asking, giveUpAt); failure != nil && r.gone(ctx) == nil {
			return r.giveUp(ctx, failure.err)
		}
		if r.gone(ctx) == nil && r.leaseIsOver() {
			return r.giveUp(ctx, newError(KindLeaseLost,
				"the lease is shorter than the way to the service and back"))
		}
	}
	if gone := r.gone(ctx); gone != nil {
		return r.giveUp(ctx, gone)
	}
	return nil
}

func (r *run) leaseIsOver() bool { return r.client.now() >= r.lease.end() }

func (r *run) renewRequest() *idempotencyv1.RenewRequest {
	return &idempotencyv1.RenewRequest{
		MerchantId:     r.key.MerchantID,
		IdempotencyKey: r.key.IdempotencyKey,
		AttemptId:      r.attemptID,
		LeaseDuration:  r.request.LeaseDuration,
	}
}

func (r *run) renew(ctx context.Context, giveUpAt instant) *callFailure {
	response := &idempotencyv1.RenewResponse{}
	failure := r.client.repeat(ctx, &call{
		rpc:      "Renew",
		conn:     r.client.calls,
		request:  r.renewRequest(),
		response: response,
		whole:    func() bool { return response.LeaseRemaining != nil },
		giveUpAt: giveUpAt,
		before: func() time.Duration {
			r.lease.sentAt = r.client.now()
			return 0
		},
	})
	r.lease.remaining = response.LeaseRemaining.AsDuration()
	return failure
}

// refused frees the key also after a Begin that was refused because its attempt
// is over: the service may have run it twice, and what never began is said not to
// have happened. If the attempt is none of the record's, that changes nothing.
func (r *run) refused(ctx context.Context, err *Error) *Error {
	if over := err.Kind == KindLeaseLost || err.Kind == KindNeedsResolution; over && !r.mayBeStarted {
		r.release(ctx, false)
	}
	return r.giveUp(ctx, err)
}

// giveUp: fn will not run.
func (r *run) giveUp(ctx context.Context, err *Error) *Error {
	if r.mayBeStarted {
		r.release(ctx, true)
	}
	return err
}

// release says in the background that nothing was done.
func (r *run) release(ctx context.Context, mayBeEarly bool) {
	c := r.client
	c.mu.Lock()
	full := c.records >= c.options.MaxBackgroundRecords
	c.mu.Unlock()
	if full {
		return
	}
	(&recording{client: c, key: r.key, attemptID: r.attemptID, mayBeEarly: mayBeEarly,
		work: NotApplied("NOT_BEGUN", "the caller gave up before the work began")}).start(ctx)
}

// runProtected runs fn under the lease and records what it came to. The record is
// made in a deferred call, so that a panic, or the end of the goroutine, goes on
// afterwards as it was, with its own stack.
func (r *run) runProtected(ctx context.Context, fn Work) (result Result, err error) {
	attempt := attemptFromProto(r.response)
	keeper, workCtx := r.client.keep(ctx, r.renewRequest(), r.lease, r.options.maxDuration)
	attempt.keeper = keeper
	end := unfinished()
	defer func() {
		keeper.end()
		result, err = r.record(ctx, end)
	}()
	end = r.options.endOf(fn(workCtx, attempt))
	return nil, nil
}

// runUnprotected runs fn without the service, because of cause.
func (r *run) runUnprotected(ctx context.Context, fn Work, cause *Error) Result {
	c := r.client
	c.unprotectedRuns.Add(1)
	c.logger.WarnContext(ctx, "idempotency: running unprotected, the service was not reached",
		"merchant_id", r.key.MerchantID, "idempotency_key", r.key.IdempotencyKey,
		"operation", r.request.Operation, "kind", string(cause.Kind), "reason", cause.Reason)
	c.options.Hooks.unprotected(c.logger, r.key, cause)
	keeper, workCtx := c.keep(ctx, nil, endless, r.options.maxDuration)
	defer keeper.end()
	end := r.options.endOf(fn(workCtx, &Attempt{OnLeaseExpiry: TakeOver, Unprotected: true, keeper: keeper}))
	return &Unprotected{Work: end.work, Err: end.err, Cause: cause}
}

// record sends what fn came to and waits for the answer as long as the caller
// does.
func (r *run) record(ctx context.Context, end workEnd) (Result, error) {
	c := r.client
	lost := func(err *Error, work WorkResult) *Error {
		reported := *err
		reported.Work, reported.WorkErr = &work, end.err
		return &reported
	}
	recording := &recording{client: c, key: r.key, attemptID: r.attemptID, work: end.work}
	recording.onLost = func(err *Error) {
		c.options.Hooks.outcomeNotRecorded(c.logger, r.key, recording.work, lost(err, recording.work))
	}
	recording.start(ctx)
	if !recording.wait(ctx) {
		err := lost(newError(KindOutcomeNotRecorded,
			"the caller has left; what the work came to is still being recorded"), end.work)
		err.StillRecording, err.cause = true, ctx.Err()
		return nil, err
	}
	if recording.err != nil {
		return nil, lost(recording.err, end.work)
	}
	return end.result(r.response.RecordId, r.response.GetStarted().AttemptNumber, recording.finishTime,
		recording.withoutBody), nil
}
