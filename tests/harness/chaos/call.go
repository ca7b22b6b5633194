package chaos

import (
	"context"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
	"idempotencyd/tests/harness/history"
)

// caller sends calls and records them. Safe for concurrent use.
type caller struct {
	recorder *history.Recorder
	errors   *errorTexts
	// How long a call may take. 0: callTimeout.
	timeout time.Duration
	// A call that a busy machine did not let through is sent again: for scenarios that know what the answer must be.
	isPatient bool
}

// within is the same caller with another patience.
func (c *caller) within(timeout time.Duration) *caller {
	return &caller{recorder: c.recorder, errors: c.errors, timeout: timeout}
}

// codeName is the canonical name of a gRPC code.
func codeName(code codes.Code) string {
	if name, ok := codeNames[code]; ok {
		return name
	}
	return code.String()
}

var codeNames = map[codes.Code]string{
	codes.OK: "OK", codes.Canceled: "CANCELLED", codes.Unknown: "UNKNOWN", codes.InvalidArgument: "INVALID_ARGUMENT",
	codes.DeadlineExceeded: "DEADLINE_EXCEEDED", codes.NotFound: "NOT_FOUND", codes.ResourceExhausted: "RESOURCE_EXHAUSTED",
	codes.FailedPrecondition: "FAILED_PRECONDITION", codes.Aborted: "ABORTED", codes.Internal: "INTERNAL",
	codes.Unavailable: "UNAVAILABLE", codes.Unimplemented: "UNIMPLEMENTED",
}

func reasonOf(s *status.Status) string {
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == "idempotency.v1" {
			return info.GetReason()
		}
	}
	return ""
}

// neverLeft tells whether a failed call was not sent: there was no connection to send it on.
func neverLeft(s *status.Status) bool {
	return s.Code() == codes.Unavailable && strings.Contains(s.Message(), "Error while dialing")
}

// do sends a call and records it. What it returns is nil when the call was never sent.
func (c *caller) do(ctx context.Context, to *target, op *history.Op, send func(context.Context) (history.Answer, error)) *history.Op {
	const most = 4
	for try := 1; ; try++ {
		sent := *op
		told := c.once(ctx, to, &sent, send)
		if !c.isPatient || try == most || !saysNothing(told) {
			return told
		}
		_ = sleep(ctx, 100*time.Millisecond)
	}
}

// saysNothing tells whether a call did not come to be judged, or its answer was lost.
func saysNothing(told *history.Op) bool {
	if told == nil || told.Reason == "STORE_UNAVAILABLE" || told.Reason == "COMMIT_UNKNOWN" {
		return true
	}
	return told.Class == history.Unknown && told.Reason == ""
}

// once records one call around send.
func (c *caller) once(ctx context.Context, to *target, op *history.Op, send func(context.Context) (history.Answer, error)) *history.Op {
	timeout := c.timeout
	if timeout == 0 {
		timeout = callTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout+time.Duration(op.Wait))
	defer cancel()
	op.Replica = to.name
	c.recorder.Sent(op)
	answer, err := send(ctx)
	s := status.Convert(err)
	if neverLeft(s) {
		c.recorder.NotSent(op)
		return nil
	}
	c.recorder.Answered(op, codeName(s.Code()), reasonOf(s), answer)
	c.errors.note(s.Message())
	return op
}

func (c *caller) begin(ctx context.Context, to *target, op history.Op) *history.Op {
	op.RPC = history.Begin
	request := &idempotencyv1.BeginRequest{
		MerchantId: op.Merchant, IdempotencyKey: op.Key, Operation: "POST /payments", AttemptId: op.Attempt,
		Request: &idempotencyv1.BeginRequest_Payload{Payload: &idempotencyv1.Payload{
			Data: []byte(op.Request + " " + plantedCard), ContentType: "text/plain",
		}},
		Ttl: durationpb.New(time.Duration(op.TTL)), LeaseDuration: durationpb.New(time.Duration(op.Lease)),
	}
	if op.Wait > 0 {
		request.WaitTimeout = durationpb.New(time.Duration(op.Wait))
	}
	if op.Hold {
		request.OnLeaseExpiry = idempotencyv1.LeaseExpiryAction_LEASE_EXPIRY_ACTION_HOLD
	}
	return c.do(ctx, to, &op, func(ctx context.Context) (history.Answer, error) {
		answer, err := to.client.Begin(ctx, request)
		return beginAnswer(answer), err
	})
}

func (c *caller) complete(ctx context.Context, to *target, op history.Op, word string) *history.Op {
	outcome := outcomeOf(op.KeyOf(), op.Attempt, word)
	op.RPC, op.Submitted = history.Complete, digestOfOutcome(outcome)
	return c.do(ctx, to, &op, func(ctx context.Context) (history.Answer, error) {
		answer, err := to.client.Complete(ctx, &idempotencyv1.CompleteRequest{
			MerchantId: op.Merchant, IdempotencyKey: op.Key, AttemptId: op.Attempt, Outcome: outcome,
		})
		return history.Answer{
			Result: history.Recorded, Record: answer.GetRecordId(), Already: answer.GetAlreadyRecorded(),
			Finish: answer.GetFinishTime().AsTime().UnixMicro(),
		}, err
	})
}

func (c *caller) fail(ctx context.Context, to *target, op history.Op, how history.Disposition, word string) *history.Op {
	failure := failureOf(op.KeyOf(), op.Attempt, how, word)
	op.RPC, op.Disposition, op.Submitted = history.Fail, how, digestOfFailure(failure)
	return c.do(ctx, to, &op, func(ctx context.Context) (history.Answer, error) {
		answer, err := to.client.Fail(ctx, &idempotencyv1.FailRequest{
			MerchantId: op.Merchant, IdempotencyKey: op.Key, AttemptId: op.Attempt, Failure: failure,
		})
		return history.Answer{
			Result: history.Recorded, Record: answer.GetRecordId(), Already: answer.GetAlreadyRecorded(),
			Finish: answer.GetFinishTime().AsTime().UnixMicro(),
		}, err
	})
}

func (c *caller) renew(ctx context.Context, to *target, op history.Op) *history.Op {
	op.RPC = history.Renew
	return c.do(ctx, to, &op, func(ctx context.Context) (history.Answer, error) {
		answer, err := to.client.Renew(ctx, &idempotencyv1.RenewRequest{
			MerchantId: op.Merchant, IdempotencyKey: op.Key, AttemptId: op.Attempt,
			LeaseDuration: durationpb.New(time.Duration(op.Lease)),
		})
		return history.Answer{
			Result: history.Renewed, Record: answer.GetRecordId(), Remaining: int64(answer.GetLeaseRemaining().AsDuration()),
		}, err
	})
}

func (c *caller) lookup(ctx context.Context, to *target, op history.Op) *history.Op {
	op.RPC, op.Attempt = history.Lookup, ""
	return c.do(ctx, to, &op, func(ctx context.Context) (history.Answer, error) {
		answer, err := to.client.Lookup(ctx, &idempotencyv1.LookupRequest{
			MerchantId: op.Merchant, IdempotencyKey: op.Key, IncludeOutcome: true,
		})
		return lookupAnswer(answer), err
	})
}
