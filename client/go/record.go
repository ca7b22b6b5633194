package idempotency

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
)

const (
	// When a release that came before its Begin is tried again. Guessed: a Begin
	// takes milliseconds, and one that is still queued when its caller has left is
	// dropped.
	lateLook = 2 * time.Second
	// How long a caller that is gone is still kept for the record: usually it takes
	// milliseconds, and then the caller gets the true answer.
	recordGrace = time.Second
	// The last try gets at least that, however little of the budget is left.
	lastTry = 100 * time.Millisecond
)

// recording is a Complete or Fail until it is known whether it is recorded.
// Detached from the caller, who may wait for its end or leave.
type recording struct {
	client    *Client
	key       Key
	attemptID string
	work      WorkResult
	// Whether the attempt's Begin may still be on its way, perhaps through another
	// replica, so that a refusal because the service does not know the attempt is
	// looked at once more.
	mayBeEarly bool
	// Told once if it ends unrecorded, before whoever waits; may be nil.
	onLost func(*Error)

	ended chan struct{} // closed at the end; then what follows is set
	err   *Error
	// When it was recorded, and whether by the body's size and digest.
	finishTime  time.Time
	withoutBody bool

	pauses    backoff
	refreshed bool
}

// start begins to record. work is copied, since fn's caller may go on with the
// bytes that it holds.
func (r *recording) start(ctx context.Context) {
	c := r.client
	r.work, r.ended = r.work.clone(), make(chan struct{})
	c.mu.Lock()
	c.underWay++
	c.records++
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(c.over, cancel)
	go func() {
		defer cancel()
		defer detach()
		r.err = r.run(ctx)
		if r.err != nil && r.onLost != nil {
			r.onLost(r.err)
		}
		close(r.ended)
		c.mu.Lock()
		c.underWay--
		c.records--
		if r.err != nil && r.onLost != nil && c.over.Err() != nil {
			c.abandoned++
		}
		c.mu.Unlock()
		c.changed.Broadcast()
	}()
}

// wait returns when it has ended, or when ctx has and a moment has passed. false:
// it goes on.
func (r *recording) wait(ctx context.Context) bool {
	grace := time.NewTimer(recordGrace)
	defer grace.Stop()
	select {
	case <-r.ended:
		return true
	case <-grace.C:
	}
	select {
	case <-r.ended:
		return true
	case <-ctx.Done():
		return false
	}
}

// run sends it until it is recorded, refused for good, or the time is over.
func (r *recording) run(ctx context.Context) *Error {
	c := r.client
	giveUpAt := c.now().add(c.options.RecordTimeout)
	message, err := r.message(r.work)
	if err != nil {
		return err
	}
	for {
		failure := r.try(ctx, message, max(c.now.until(giveUpAt), lastTry))
		if failure == nil {
			r.finishTime = message.response.GetFinishTime().AsTime()
			return nil
		}
		if ctx.Err() != nil {
			return newError(KindOutcomeNotRecorded, "the client was closed before the service had recorded it")
		}
		pause, again := r.judge(failure, &message)
		if !again {
			return failure.err
		}
		now := c.now()
		if now >= giveUpAt {
			lost := *failure.err
			lost.Kind = KindOutcomeNotRecorded
			return &lost
		}
		c.options.Hooks.retry(c.logger, message.rpc, failure.err)
		c.now.sleep(ctx, min(now.add(pause), giveUpAt))
	}
}

func (r *recording) try(ctx context.Context, m recordMessage, left time.Duration) *callFailure {
	ctx, cancel := context.WithTimeout(ctx, min(r.client.options.RPCTimeout, left))
	defer cancel()
	proto.Reset(m.response)
	failure, _ := r.client.try(ctx, r.client.calls, m.rpc, m.request, m.response,
		func() bool { return m.response.GetFinishTime() != nil })
	return failure
}

// judge says whether to send again and after what pause. Every repeat has
// identical bytes, unless the server finds the body too large.
func (r *recording) judge(failure *callFailure, message *recordMessage) (time.Duration, bool) {
	unknownAttempt := failure.err.Kind == KindRecordNotFound || failure.err.Kind == KindLeaseLost
	switch {
	case failure.code() == codes.Unauthenticated:
		if r.refreshed {
			return 0, false
		}
		r.refreshed = true
		r.client.options.Hooks.refreshCredentials(r.client.logger)
		return 0, true
	case failure.tooLarge():
		omitted, ok := r.work.withoutBody()
		if r.withoutBody || !ok {
			return 0, false
		}
		r.withoutBody = true
		*message, _ = r.message(omitted)
		return 0, true
	case r.mayBeEarly && unknownAttempt:
		r.mayBeEarly = false
		return r.client.lateLook, true
	case !failure.worthRecordingAgain():
		return 0, false
	}
	return r.pauses.pause(failure.asked), true
}

// withoutBody returns w by its body's size and digest; false if it has no body.
func (w WorkResult) withoutBody() (WorkResult, bool) {
	if w.outcome != nil {
		omitted := withoutBody(w.outcome)
		return WorkResult{outcome: omitted}, omitted != nil
	}
	failure := *w.failure
	failure.Outcome = withoutBody(failure.Outcome)
	return WorkResult{failure: &failure}, failure.Outcome != nil
}

// recordMessage is a Complete or a Fail.
type recordMessage struct {
	rpc      string
	request  proto.Message
	response interface {
		proto.Message
		GetFinishTime() *timestamppb.Timestamp
	}
}

// message fails for what a message cannot carry, as the server would.
func (r *recording) message(work WorkResult) (recordMessage, *Error) {
	if outcome := work.outcome; outcome != nil {
		return recordMessage{
			rpc: "Complete",
			request: &idempotencyv1.CompleteRequest{
				MerchantId:     r.key.MerchantID,
				IdempotencyKey: r.key.IdempotencyKey,
				AttemptId:      r.attemptID,
				Outcome:        outcomeToProto(outcome),
			},
			response: &idempotencyv1.CompleteResponse{},
		}, checkOutcome("outcome", outcome)
	}
	return recordMessage{
		rpc: "Fail",
		request: &idempotencyv1.FailRequest{
			MerchantId:     r.key.MerchantID,
			IdempotencyKey: r.key.IdempotencyKey,
			AttemptId:      r.attemptID,
			Failure:        failureToProto(work.failure),
		},
		response: &idempotencyv1.FailResponse{},
	}, checkOutcome("failure.outcome", work.failure.Outcome)
}
