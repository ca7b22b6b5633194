package grpcproxy

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
)

const (
	attemptOne = "00000000-0000-4000-8000-000000000001"
	attemptTwo = "00000000-0000-4000-8000-000000000002"
	// Far more than anything here takes; a test that needs it has failed.
	patience = 30 * time.Second
)

// The service behind the proxy: answers a Begin with the caller's trace id, refuses every Complete.
type fakeService struct {
	idempotencyv1.UnimplementedIdempotencyServiceServer
	begun atomic.Int32
}

func (f *fakeService) Begin(ctx context.Context, _ *idempotencyv1.BeginRequest) (
	*idempotencyv1.BeginResponse, error,
) {
	f.begun.Add(1)
	given, _ := metadata.FromIncomingContext(ctx)
	answer := &idempotencyv1.BeginResponse{}
	if trace := given.Get("traceparent"); len(trace) > 0 {
		answer.RecordId = trace[0]
	}
	return answer, nil
}

func (f *fakeService) Complete(ctx context.Context, _ *idempotencyv1.CompleteRequest) (
	*idempotencyv1.CompleteResponse, error,
) {
	if err := grpc.SetTrailer(ctx, metadata.Pairs(pushbackTrailer, "7")); err != nil {
		return nil, err
	}
	refused, err := status.New(codes.Unavailable, "full").WithDetails(
		&errdetails.ErrorInfo{Reason: "OVERLOADED", Domain: errorDomain})
	if err != nil {
		return nil, err
	}
	return nil, refused.Err()
}

type rig struct {
	service *fakeService
	proxy   *Proxy
	client  idempotencyv1.IdempotencyServiceClient
	// The client's connection, and one straight to the service.
	connection *grpc.ClientConn
	ctx        context.Context
}

func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient(address, grpc.WithDisableRetry(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return connection
}

func newRig(t *testing.T) *rig {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	service := &fakeService{}
	server := grpc.NewServer()
	idempotencyv1.RegisterIdempotencyServiceServer(server, service)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	proxy, err := Start(dial(t, listener.Addr().String()), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	connection := dial(t, proxy.Address())
	return &rig{
		service: service, proxy: proxy, connection: connection, ctx: ctx,
		client: idempotencyv1.NewIdempotencyServiceClient(connection),
	}
}

func (r *rig) begin(attemptID string) (*idempotencyv1.BeginResponse, error) {
	return r.client.Begin(r.ctx, &idempotencyv1.BeginRequest{AttemptId: attemptID})
}

func expectCode(t *testing.T, err error, code codes.Code) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("%v, expected %v", err, code)
	}
}

func TestCallsAreForwardedWithTheirMetadata(t *testing.T) {
	rig := newRig(t)
	ctx := metadata.AppendToOutgoingContext(rig.ctx, "traceparent", "00-1-2-01")
	answer, err := rig.client.Begin(ctx, &idempotencyv1.BeginRequest{})
	if err != nil || answer.GetRecordId() != "00-1-2-01" {
		t.Errorf("%v, %v", answer, err)
	}
}

func TestRefusalsOfTheServiceComeWithDetailsAndTrailer(t *testing.T) {
	rig := newRig(t)
	var trailer metadata.MD
	_, err := rig.client.Complete(rig.ctx, &idempotencyv1.CompleteRequest{}, grpc.Trailer(&trailer))
	expectCode(t, err, codes.Unavailable)
	if reasonOf(err) != "OVERLOADED" {
		t.Errorf("reason %q", reasonOf(err))
	}
	if pushback := trailer.Get(pushbackTrailer); len(pushback) != 1 || pushback[0] != "7" {
		t.Errorf("pushback %v", pushback)
	}
}

func TestOtherServicesAreForwardedAndNotRecorded(t *testing.T) {
	rig := newRig(t)
	client := grpc_health_v1.NewHealthClient(rig.connection)
	answer, err := client.Check(rig.ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil || answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", answer, err)
	}
	_, err = client.Check(rig.ctx, &grpc_health_v1.HealthCheckRequest{Service: "unknown"})
	expectCode(t, err, codes.NotFound)
	watch, err := client.Watch(rig.ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := watch.Recv(); err != nil || first.GetStatus() != answer.GetStatus() {
		t.Errorf("%v, %v", first, err)
	}
	if calls := rig.proxy.Calls("Check"); len(calls) != 0 {
		t.Errorf("%v", calls)
	}
}

func TestCallsAreKept(t *testing.T) {
	rig := newRig(t)
	wait := &idempotencyv1.BeginRequest{AttemptId: attemptTwo, WaitTimeout: durationpb.New(time.Second)}
	if _, err := rig.begin(attemptOne); err != nil {
		t.Fatal(err)
	}
	if _, err := rig.client.Begin(rig.ctx, wait); err != nil {
		t.Fatal(err)
	}
	_, _ = rig.client.Complete(rig.ctx, &idempotencyv1.CompleteRequest{AttemptId: attemptTwo})
	calls := rig.proxy.Calls("Begin")
	if len(calls) != 2 {
		t.Fatalf("%v", calls)
	}
	if calls[0].AttemptID != attemptOne || calls[0].Waits || !calls[0].Ended || calls[0].Code != codes.OK {
		t.Errorf("%+v", calls[0])
	}
	if calls[1].AttemptID != attemptTwo || !calls[1].Waits || calls[0].Peer != calls[1].Peer {
		t.Errorf("%+v", calls[1])
	}
	completes := rig.proxy.Calls("Complete")
	if len(completes) != 1 || completes[0].Reason != "OVERLOADED" || completes[0].AttemptID != attemptTwo {
		t.Errorf("%+v", completes)
	}
}

func TestDownRefusesAndUpServesAtTheSameAddress(t *testing.T) {
	rig := newRig(t)
	rig.proxy.Add("Begin", Fault{Kind: Hang, Times: 1})
	ended := make(chan error)
	go func() {
		_, err := rig.begin(attemptOne)
		ended <- err
	}()
	started := func(calls []Call) bool { return len(calls) == 1 }
	if err := rig.proxy.AwaitCalls(rig.ctx, "Begin", started); err != nil {
		t.Fatal(err)
	}
	rig.proxy.Down()
	expectCode(t, <-ended, codes.Unavailable)
	if connection, err := net.Dial("tcp", rig.proxy.Address()); err == nil {
		connection.Close()
		t.Error("it takes connections")
	}
	if err := rig.proxy.Up(); err != nil {
		t.Fatal(err)
	}
	if _, err := rig.client.Begin(rig.ctx, &idempotencyv1.BeginRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Error(err)
	}
}

func TestDownAndUpTwiceChangeNothing(t *testing.T) {
	rig := newRig(t)
	for range 2 {
		rig.proxy.Down()
		rig.proxy.Down()
		if err := rig.proxy.Up(); err != nil {
			t.Fatal(err)
		}
		if err := rig.proxy.Up(); err != nil {
			t.Fatal(err)
		}
		// Over a connection that never saw it down.
		client := idempotencyv1.NewIdempotencyServiceClient(dial(t, rig.proxy.Address()))
		if _, err := client.Begin(rig.ctx, &idempotencyv1.BeginRequest{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAwaitCallsEndsWithItsContext(t *testing.T) {
	rig := newRig(t)
	ctx, cancel := context.WithCancel(rig.ctx)
	cancel()
	if err := rig.proxy.AwaitCalls(ctx, "Begin", func([]Call) bool { return false }); err == nil {
		t.Error("it came back without a fault")
	}
}

func TestMessagesOverTheServicesLimitGoThrough(t *testing.T) {
	rig := newRig(t)
	large := &idempotencyv1.BeginRequest{Request: &idempotencyv1.BeginRequest_Payload{
		Payload: &idempotencyv1.Payload{Data: make([]byte, 5_000_000)},
	}}
	_, err := rig.client.Begin(rig.ctx, large)
	// It is the service that refuses it.
	expectCode(t, err, codes.ResourceExhausted)
	if calls := rig.proxy.Calls("Begin"); len(calls) != 1 || len(calls[0].Request) < 5_000_000 {
		t.Errorf("%d calls", len(calls))
	}
}

func TestCallsThatHaveEndedAreTold(t *testing.T) {
	rig := newRig(t)
	told := make(chan Call, 1)
	proxy, err := Start(rig.connection, func(call Call) { told <- call })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	client := idempotencyv1.NewIdempotencyServiceClient(dial(t, proxy.Address()))
	_, _ = client.Complete(rig.ctx, &idempotencyv1.CompleteRequest{AttemptId: attemptOne})
	call := <-told
	if !call.Ended || call.Code != codes.Unavailable || call.Reason != "OVERLOADED" || call.AttemptID != attemptOne {
		t.Errorf("%+v", call)
	}
}

func TestTheProxyKnowsWhetherSomebodyIsConnected(t *testing.T) {
	rig := newRig(t)
	if err := rig.proxy.AwaitConnections(rig.ctx, false); err != nil {
		t.Fatalf("before the first connection: %v", err)
	}
	came := make(chan error)
	go func() { came <- rig.proxy.AwaitConnections(rig.ctx, true) }()
	if _, err := rig.begin(attemptOne); err != nil {
		t.Fatal(err)
	}
	if err := <-came; err != nil {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(rig.ctx)
	cancel()
	if err := rig.proxy.AwaitConnections(ended, false); err == nil {
		t.Error("a client is connected")
	}
	rig.connection.Close()
	if err := rig.proxy.AwaitConnections(rig.ctx, false); err != nil {
		t.Error(err)
	}
}
