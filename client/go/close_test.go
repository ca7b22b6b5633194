package idempotency

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
)

// closeInBackground returns once the client is closing.
func closeInBackground(client *Client) (done chan error) {
	done = make(chan error, 1)
	go func() { done <- client.Close() }()
	<-client.closing.Done()
	return done
}

func TestFnDoesNotStartOnAClientThatIsClosing(t *testing.T) {
	t.Parallel()
	var client *Client
	var closed chan error
	service := &testService{}
	client = startService(t, service, ClientOptions{DialOptions: []grpc.DialOption{
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, request, response any, conn *grpc.ClientConn,
			invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
			err := invoke(ctx, method, request, response, conn, options...)
			if _, begun := response.(*idempotencyv1.BeginResponse); begun {
				closed = closeInBackground(client)
			}
			return err
		})}})
	_, err := runOnce(t.Context(), client, mustNotRun(t))
	if wantKind(t, err, KindUnavailable); err.(*Error).Message != "the client is closed" {
		t.Errorf("got %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if got := countOf(service, &service.fails); got != 1 || service.fails[0].Failure.Code != "NOT_BEGUN" {
		t.Errorf("got %d Fails", got)
	}
}

func TestUnprotectedNotOnAClientThatIsClosing(t *testing.T) {
	t.Parallel()
	var client *Client
	closed := make(chan chan error, 1)
	service := &testService{onBegin: func(int, *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
		closed <- closeInBackground(client)
		return nil, refusal(codes.Unavailable, "OVERLOADED", askToWait(time.Hour))
	}}
	client = startService(t, service, ClientOptions{Logger: slog.New(slog.DiscardHandler)})
	_, err := runOnce(t.Context(), client, mustNotRun(t), WithOnUnavailable(RunUnprotected))
	wantKind(t, err, KindUnavailable)
	if err := <-<-closed; err != nil || client.UnprotectedRuns() != 0 {
		t.Errorf("%v, %d unprotected runs", err, client.UnprotectedRuns())
	}
}

func TestCloseEndsCallsThatStillAsk(t *testing.T) {
	t.Parallel()
	service := &testService{onBegin: func(int, *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
		return nil, refusal(codes.Unavailable, "OVERLOADED", askToWait(time.Hour))
	}}
	client := startService(t, service, ClientOptions{ShutdownTimeout: time.Hour})
	ended := make(chan error)
	go func() {
		_, err := runOnce(context.Background(), client, mustNotRun(t), WithStartTimeout(24*time.Hour))
		ended <- err
	}()
	await(service, &service.begins, 1)
	closed := closeInBackground(client)
	wantKind(t, <-ended, KindUnavailable)
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestCloseGivesUpALookupWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	client := newTestClient(t, away(t), ClientOptions{ShutdownTimeout: time.Millisecond})
	ended := make(chan error)
	client.options.Hooks.OnRetry = func(string, *Error) { _ = closeInBackground(client) }
	go func() {
		_, err := client.Lookup(context.Background(), testKey, false)
		ended <- err
	}()
	if err := <-ended; wantKind(t, err, KindUnavailable).Message != "the client is closed" {
		t.Errorf("got %v", err)
	}
}

func TestClosingStopsFnAtOnceKeepsItsLeaseAndRecordsIt(t *testing.T) {
	t.Parallel()
	logged := &hookLog{}
	service := &testService{}
	client := startService(t, service, ClientOptions{ShutdownTimeout: time.Hour, Hooks: logged.hooks()})
	jump := jumpingClock(client)
	var closed chan error
	result, err := runOnce(t.Context(), client, func(ctx context.Context, attempt *Attempt) (WorkResult, error) {
		closed = closeInBackground(client)
		work, err := stopped(t, StopCancelled, nil)(ctx, attempt)
		jump(25 * time.Second) // more than a third of the lease
		await(service, &service.renews, 1)
		return work, err
	})
	wantResult[*Completed](t, result, err)
	if err := <-closed; err != nil || len(logged.lost) != 0 {
		t.Errorf("%v, lost %v", err, logged.lost)
	}
}
