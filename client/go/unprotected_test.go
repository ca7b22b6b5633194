package idempotency

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/stats"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
)

// away is the address of a service that is not there.
func away(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func TestUnprotectedRunIsLoggedCountedAndTold(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	logged := &hookLog{}
	client := newTestClient(t, away(t), ClientOptions{Hooks: logged.hooks(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	awaitDown(t, client)
	result, err := runOnce(t.Context(), client, func(ctx context.Context, attempt *Attempt) (WorkResult, error) {
		if !attempt.Unprotected || attempt.AttemptNumber != 0 || attempt.FencingToken != 0 || attempt.DownstreamKey != "" ||
			attempt.LeaseRemaining() != math.MaxInt64 {
			t.Errorf("got %+v", attempt)
		}
		_, err := attempt.DownstreamKeyFor("bank", ShapeUUID)
		wantKind(t, err, KindInvalidField)
		return stopped(t, StopMaxDuration, nil)(ctx, attempt)
	}, WithOnUnavailable(RunUnprotected), WithStartTimeout(time.Millisecond), WithMaxDuration(10*time.Millisecond))
	ran := wantResult[*Unprotected](t, result, err)
	if ran.Work.Outcome().StatusCode != 201 || ran.Cause.Kind != KindUnavailable || OutcomeOf(ran).StatusCode != 201 {
		t.Errorf("got %+v", ran)
	}
	if client.UnprotectedRuns() != 1 || logged.unprotected != 1 || strings.Count(log.String(), "level=WARN") != 1 ||
		!strings.Contains(log.String(), "idempotency_key=k") {
		t.Errorf("counted %d, told %d, logged %s", client.UnprotectedRuns(), logged.unprotected, log.String())
	}
}

func TestUnprotectedOnlyWhenTypedOut(t *testing.T) {
	t.Parallel()
	client := newTestClient(t, away(t), ClientOptions{})
	_, err := runOnce(t.Context(), client, mustNotRun(t), WithStartTimeout(300*time.Millisecond))
	wantKind(t, err, KindUnavailable)
	if client.records != 0 {
		t.Error("a Begin that was never sent left a record behind")
	}
}

func TestUnprotectedNotWhenASingleTryMayHaveBeenTaken(t *testing.T) {
	t.Parallel()
	busy := refusal(codes.Unavailable, "OVERLOADED", askToWait(time.Millisecond))
	for name, first := range map[string]error{
		"lost":                refusal(codes.Unavailable, "", askToWait(0)),
		"commit unknown":      refusal(codes.Unavailable, "COMMIT_UNKNOWN", askToWait(0)),
		"schema incompatible": refusal(codes.Unavailable, "SCHEMA_INCOMPATIBLE", askToWait(0)),
		"timed out":           refusal(codes.DeadlineExceeded, "", askToWait(0)),
		"rate limited":        refusal(codes.ResourceExhausted, "MERCHANT_RATE_LIMITED", askToWait(0)),
		"unauthenticated":     refusal(codes.Unauthenticated, "CREDENTIALS_INVALID"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var jump func(time.Duration)
			service := &testService{onBegin: func(n int, _ *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
				switch n {
				case 1:
					return nil, first
				case 2:
					jump(time.Hour)
				}
				return nil, busy
			}}
			client := startService(t, service, ClientOptions{})
			jump = jumpingClock(client)
			_, err := runOnce(t.Context(), client, mustNotRun(t), WithOnUnavailable(RunUnprotected))
			wantKind(t, err, KindUnavailable)
			if got := countOf(service, &service.begins); got != 3 {
				t.Errorf("got %d Begins", got)
			}
		})
	}
}

func TestUnprotectedNotAfterInProgress(t *testing.T) {
	t.Parallel()
	var jump func(time.Duration)
	service := &testService{onBegin: func(n int, _ *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
		if n == 0 {
			return inProgressAnswer(time.Millisecond), nil
		}
		jump(time.Hour)
		return nil, refusal(codes.Unavailable, "OVERLOADED", askToWait(time.Millisecond))
	}}
	client := startService(t, service, ClientOptions{})
	jump = jumpingClock(client)
	_, err := runOnce(t.Context(), client, mustNotRun(t), WithOnUnavailable(RunUnprotected), WithWaitTimeout(time.Minute))
	wantKind(t, err, KindUnavailable)
}

func TestUnprotectedAfterRefusalsToTheEnd(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"STORE_UNAVAILABLE", "OVERLOADED", "DRAINING"} {
		var jump func(time.Duration)
		service := &testService{onBegin: func(n int, _ *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
			if n == 2 {
				jump(time.Hour)
			}
			return nil, refusal(codes.Unavailable, reason, askToWait(0))
		}}
		client := startService(t, service, ClientOptions{Logger: slog.New(slog.DiscardHandler)})
		jump = jumpingClock(client)
		result, err := runOnce(t.Context(), client, pay, WithOnUnavailable(RunUnprotected))
		if ran := wantResult[*Unprotected](t, result, err); ran.Cause.Reason != reason {
			t.Errorf("got %+v", ran)
		}
		if err := client.Close(); err != nil || countOf(service, &service.begins) != 3 || countOf(service, &service.fails) != 0 {
			t.Errorf("%v, %d Begins, %d Fails", err, countOf(service, &service.begins), countOf(service, &service.fails))
		}
	}
}

func TestUnprotectedNotWhenTheServerSaysToStayAway(t *testing.T) {
	t.Parallel()
	service := &testService{onBegin: func(int, *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
		return nil, refusal(codes.PermissionDenied, "OVERLOADED")
	}}
	client := startService(t, service, ClientOptions{})
	_, err := runOnce(t.Context(), client, mustNotRun(t), WithOnUnavailable(RunUnprotected))
	wantKind(t, err, KindUnavailable)
}

// awayBut is a client of a service that is away, whose channel has failed to
// connect. Its tries end as the test says, after a part of them was sent or not.
func awayBut(t *testing.T, sent bool, end error) *Client {
	t.Helper()
	client := newTestClient(t, away(t), ClientOptions{ShutdownTimeout: time.Millisecond, Logger: slog.New(slog.DiscardHandler), DialOptions: []grpc.DialOption{
		grpc.WithUnaryInterceptor(func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
			if sent {
				sendWatch{}.HandleRPC(ctx, &stats.OutHeader{})
			}
			return end
		})}})
	awaitDown(t, client)
	return client
}

// awaitDown waits until the client has failed to connect; it stays failed until a
// connection is made.
func awaitDown(t *testing.T, client *Client) {
	t.Helper()
	client.calls.Connect()
	for state := client.calls.GetState(); state != connectivity.TransientFailure; state = client.calls.GetState() {
		client.calls.WaitForStateChange(t.Context(), state)
	}
}

func TestUnprotectedNotWithoutASingleTry(t *testing.T) {
	t.Parallel()
	client := newTestClient(t, away(t), ClientOptions{Logger: slog.New(slog.DiscardHandler), DialOptions: []grpc.DialOption{
		// A connection that is never made, nor refused.
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})}})
	_, err := runOnce(t.Context(), client, mustNotRun(t), WithOnUnavailable(RunUnprotected), WithStartTimeout(time.Millisecond))
	wantKind(t, err, KindUnavailable)
}

func TestUnprotectedOnlyAfterTriesThatWereNeverSent(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sent bool
		end  error
		want bool
	}{
		"never sent":            {false, refusal(codes.Unavailable, ""), true},
		"connected in between":  {true, refusal(codes.Unavailable, ""), false},
		"another code":          {false, refusal(codes.DeadlineExceeded, ""), false},
		"answered with a word":  {false, refusal(codes.Unavailable, "COMMIT_UNKNOWN"), false},
		"answered and not done": {true, refusal(codes.Unavailable, "DRAINING"), true},
	} {
		client := awayBut(t, test.sent, test.end)
		result, err := runOnce(t.Context(), client, pay, WithOnUnavailable(RunUnprotected), WithStartTimeout(time.Millisecond))
		if _, ran := result.(*Unprotected); ran != test.want {
			t.Errorf("%s: got %#v, %v", name, result, err)
		}
	}
}

func TestUnprotectedNotWhenTheChannelIsConnected(t *testing.T) {
	t.Parallel()
	// Whatever else speaks for it: the channel was not in TRANSIENT_FAILURE.
	client := startService(t, &testService{}, ClientOptions{DialOptions: []grpc.DialOption{
		grpc.WithUnaryInterceptor(func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
			return refusal(codes.Unavailable, "")
		})}})
	_, err := runOnce(t.Context(), client, mustNotRun(t), WithOnUnavailable(RunUnprotected), WithStartTimeout(time.Second))
	wantKind(t, err, KindUnavailable)
}

func TestTryThatWasHandedToAConnectionCountsAsSent(t *testing.T) {
	t.Parallel()
	service := &testService{}
	client := startService(t, service, ClientOptions{})
	for _, test := range []struct {
		client *Client
		want   bool
	}{{client, true}, {newTestClient(t, away(t), ClientOptions{}), false}} {
		response := &idempotencyv1.LookupResponse{}
		_, sent := test.client.try(t.Context(), test.client.calls, "Lookup", &idempotencyv1.LookupRequest{}, response,
			func() bool { return true })
		if sent != test.want {
			t.Errorf("sent: %v", sent)
		}
	}
}
