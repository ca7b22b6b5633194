package grpcproxy

import (
	"context"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
)

func TestRefuse(t *testing.T) {
	rig := newRig(t)
	delay := 70 * time.Millisecond
	rig.proxy.Add("Begin", Fault{
		Kind: Refuse, Times: 1, Code: codes.ResourceExhausted, Reason: "MERCHANT_RATE_LIMITED",
		RetryDelay: &delay, Pushback: "-1",
	})
	var trailer metadata.MD
	_, err := rig.client.Begin(rig.ctx, &idempotencyv1.BeginRequest{}, grpc.Trailer(&trailer))
	expectCode(t, err, codes.ResourceExhausted)
	details := status.Convert(err).Details()
	if len(details) != 2 {
		t.Fatalf("%v", details)
	}
	info, infoOK := details[0].(*errdetails.ErrorInfo)
	retry, retryOK := details[1].(*errdetails.RetryInfo)
	if !infoOK || info.GetReason() != "MERCHANT_RATE_LIMITED" || info.GetDomain() != "idempotency.v1" {
		t.Errorf("%v", details[0])
	}
	if !retryOK || retry.GetRetryDelay().AsDuration() != delay {
		t.Errorf("%v", details[1])
	}
	if pushback := trailer.Get(pushbackTrailer); len(pushback) != 1 || pushback[0] != "-1" {
		t.Errorf("pushback %v", pushback)
	}
	if rig.service.begun.Load() != 0 {
		t.Error("it was forwarded")
	}
	if _, err := rig.begin(attemptOne); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

func TestARefusalWithoutReasonHasNoDetails(t *testing.T) {
	rig := newRig(t)
	rig.proxy.Add("Begin", Fault{Kind: Refuse, Times: 1, Code: codes.Internal})
	_, err := rig.begin(attemptOne)
	expectCode(t, err, codes.Internal)
	if details := status.Convert(err).Details(); len(details) != 0 {
		t.Errorf("%v", details)
	}
}

func TestLoseAnswer(t *testing.T) {
	rig := newRig(t)
	rig.proxy.Add("Begin", Fault{Kind: LoseAnswer, Times: 1, Code: codes.Unavailable})
	_, err := rig.begin(attemptOne)
	expectCode(t, err, codes.Unavailable)
	if rig.service.begun.Load() != 1 || reasonOf(err) != "" {
		t.Errorf("forwarded %d times, reason %q", rig.service.begun.Load(), reasonOf(err))
	}
}

func TestHangEndsWithTheClientsPatience(t *testing.T) {
	for kind, forwarded := range map[Kind]int32{Hang: 0, HangAfter: 1} {
		t.Run(string(kind), func(t *testing.T) {
			rig := newRig(t)
			rig.proxy.Add("Begin", Fault{Kind: kind, Times: 1})
			ctx, cancel := context.WithCancel(rig.ctx)
			defer cancel()
			ended := make(chan error)
			go func() {
				_, err := rig.client.Begin(ctx, &idempotencyv1.BeginRequest{})
				ended <- err
			}()
			started := func(calls []Call) bool { return len(calls) == 1 }
			if err := rig.proxy.AwaitCalls(rig.ctx, "Begin", started); err != nil {
				t.Fatal(err)
			}
			cancel()
			expectCode(t, <-ended, codes.Canceled)
			over := func(calls []Call) bool { return calls[0].Ended }
			if err := rig.proxy.AwaitCalls(rig.ctx, "Begin", over); err != nil {
				t.Fatal(err)
			}
			if code := rig.proxy.Calls("Begin")[0].Code; code != codes.Canceled {
				t.Errorf("it ended with %v", code)
			}
			if rig.service.begun.Load() != forwarded {
				t.Errorf("forwarded %d times", rig.service.begun.Load())
			}
		})
	}
}

func TestCutAfterClosesTheConnection(t *testing.T) {
	rig := newRig(t)
	rig.proxy.Add("Begin", Fault{Kind: CutAfter, Times: 1})
	_, err := rig.begin(attemptOne)
	expectCode(t, err, codes.Unavailable)
	if rig.service.begun.Load() != 1 {
		t.Errorf("forwarded %d times", rig.service.begun.Load())
	}
	if _, err := rig.client.Begin(rig.ctx, &idempotencyv1.BeginRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
	calls := rig.proxy.Calls("Begin")
	if len(calls) != 2 || calls[0].Peer == calls[1].Peer {
		t.Errorf("both came by one connection: %v", calls)
	}
}

func TestAnswer(t *testing.T) {
	for kind, forwarded := range map[Kind]int32{Answer: 0, AnswerAfter: 1} {
		t.Run(string(kind), func(t *testing.T) {
			rig := newRig(t)
			rig.proxy.Add("Begin", Fault{Kind: kind, Times: 1})
			rig.proxy.Add("Begin", Fault{Kind: kind, Times: 1, Answer: []byte{0xff, 0xff, 0xff, 0xff}})
			if _, err := rig.begin(attemptOne); err != nil {
				t.Errorf("an empty message: %v", err)
			}
			// No message at all: the client cannot parse it.
			_, err := rig.begin(attemptOne)
			expectCode(t, err, codes.Internal)
			if rig.service.begun.Load() != 2*forwarded {
				t.Errorf("forwarded %d times", rig.service.begun.Load())
			}
		})
	}
}

func TestFaultsComeInOrderAndByMethod(t *testing.T) {
	rig := newRig(t)
	rig.proxy.Add("Begin", Fault{Kind: Refuse, Times: 2, Code: codes.Aborted})
	rig.proxy.Add("Begin", Fault{Kind: Refuse, Times: Always, Code: codes.NotFound})
	rig.proxy.Add("Begin", Fault{Kind: Refuse, Times: 1, Code: codes.Internal})
	_, err := rig.client.Complete(rig.ctx, &idempotencyv1.CompleteRequest{})
	expectCode(t, err, codes.Unavailable)
	for _, code := range []codes.Code{codes.Aborted, codes.Aborted, codes.NotFound, codes.NotFound} {
		_, err := rig.begin(attemptOne)
		expectCode(t, err, code)
	}
	rig.proxy.ClearFaults()
	if _, err := rig.begin(attemptOne); err != nil {
		t.Error(err)
	}
}
