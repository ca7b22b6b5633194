package idempotency

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
)

// testService answers as a test tells it, over loopback, for what a real service
// does not do at the right moment; the scenarios go against a real one. Without a
// script it starts, records and renews whatever it is asked.
type testService struct {
	idempotencyv1.UnimplementedIdempotencyServiceServer

	// What is called for the n-th call of a method, from 0; nil, or a nil answer
	// without an error: the default.
	onBegin    func(n int, request *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error)
	onRenew    func(n int, request *idempotencyv1.RenewRequest) (*idempotencyv1.RenewResponse, error)
	onComplete func(n int, request *idempotencyv1.CompleteRequest) error
	onFail     func(n int, request *idempotencyv1.FailRequest) error
	// What every answer to a Begin or a Renew ends with.
	trailer metadata.MD

	mu        sync.Mutex // guards what follows
	changed   *sync.Cond
	begins    []*idempotencyv1.BeginRequest
	renews    []*idempotencyv1.RenewRequest
	completes []*idempotencyv1.CompleteRequest
	fails     []*idempotencyv1.FailRequest
	bytes     map[string][]string // the bytes of the requests, by their type
}

// startService starts it and a client of it, which both end with the test.
func startService(t *testing.T, service *testService, options ClientOptions) *Client {
	t.Helper()
	service.changed, service.bytes = sync.NewCond(&service.mu), map[string][]string{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(listeningCodec{service: service}))
	idempotencyv1.RegisterIdempotencyServiceServer(server, service)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return newTestClient(t, listener.Addr().String(), options)
}

func newTestClient(t *testing.T, target string, options ClientOptions) *Client {
	t.Helper()
	options.Credentials = insecure.NewCredentials()
	client, err := New(target, options)
	if err != nil {
		t.Fatal(err)
	}
	client.lateLook = time.Millisecond
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// jumpingClock makes a client's clock one that the test moves.
func jumpingClock(client *Client) (jump func(time.Duration)) {
	var ahead atomic.Int64
	client.now = func() instant { return bootTime().add(time.Duration(ahead.Load())) }
	return func(span time.Duration) { ahead.Store(int64(span)) }
}

// listeningCodec keeps the bytes of what comes in.
type listeningCodec struct {
	codec
	service *testService
}

func (l listeningCodec) Unmarshal(data mem.BufferSlice, message any) error {
	l.service.mu.Lock()
	defer l.service.mu.Unlock()
	name := string(message.(proto.Message).ProtoReflect().Descriptor().Name())
	l.service.bytes[name] = append(l.service.bytes[name], string(data.Materialize()))
	return l.codec.Unmarshal(data, message)
}

func noted[T any](s *testService, list *[]T, request T) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	*list = append(*list, request)
	s.changed.Broadcast()
	return len(*list) - 1
}

// await waits until there are count requests of a kind, and returns them.
func await[T any](s *testService, list *[]T, count int) []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(*list) < count {
		s.changed.Wait()
	}
	return slices.Clone(*list)
}

func countOf[T any](s *testService, list *[]T) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(*list)
}

// distinct is how many different bytes the requests of a type had.
func (s *testService) distinct(message string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	different := map[string]bool{}
	for _, bytes := range s.bytes[message] {
		different[bytes] = true
	}
	return len(different)
}

func (s *testService) Begin(ctx context.Context, request *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
	_ = grpc.SetTrailer(ctx, s.trailer)
	n := noted(s, &s.begins, request)
	if s.onBegin != nil {
		if response, err := s.onBegin(n, request); response != nil || err != nil {
			return response, err
		}
	}
	return startedAnswer(request.AttemptId, time.Minute), nil
}

func (s *testService) Renew(ctx context.Context, request *idempotencyv1.RenewRequest) (*idempotencyv1.RenewResponse, error) {
	_ = grpc.SetTrailer(ctx, s.trailer)
	n := noted(s, &s.renews, request)
	if s.onRenew != nil {
		if response, err := s.onRenew(n, request); response != nil || err != nil {
			return response, err
		}
	}
	return &idempotencyv1.RenewResponse{RecordId: "r", LeaseRemaining: durationpb.New(time.Minute)}, nil
}

func (s *testService) Complete(_ context.Context, request *idempotencyv1.CompleteRequest) (*idempotencyv1.CompleteResponse, error) {
	n := noted(s, &s.completes, request)
	if s.onComplete != nil {
		if err := s.onComplete(n, request); err != nil {
			return nil, err
		}
	}
	return &idempotencyv1.CompleteResponse{RecordId: "r", FinishTime: timestamppb.Now()}, nil
}

func (s *testService) Fail(_ context.Context, request *idempotencyv1.FailRequest) (*idempotencyv1.FailResponse, error) {
	n := noted(s, &s.fails, request)
	if s.onFail != nil {
		if err := s.onFail(n, request); err != nil {
			return nil, err
		}
	}
	return &idempotencyv1.FailResponse{RecordId: "r", FinishTime: timestamppb.Now()}, nil
}

func startedAnswer(attemptID string, lease time.Duration) *idempotencyv1.BeginResponse {
	return &idempotencyv1.BeginResponse{RecordId: "r", OnLeaseExpiry: idempotencyv1.LeaseExpiryAction_LEASE_EXPIRY_ACTION_TAKE_OVER,
		Result: &idempotencyv1.BeginResponse_Started{
			Started: &idempotencyv1.Started{AttemptId: attemptID, AttemptNumber: 1, FencingToken: 1,
				DownstreamKey: "6ba7b810-9dad-51d1-80b4-00c04fd430c8", LeaseRemaining: durationpb.New(lease)}}}
}

func inProgressAnswer(retryAfter time.Duration) *idempotencyv1.BeginResponse {
	return &idempotencyv1.BeginResponse{RecordId: "r", Result: &idempotencyv1.BeginResponse_InProgress{
		InProgress: &idempotencyv1.InProgress{RetryAfter: durationpb.New(retryAfter), AttemptNumber: 1}}}
}

// refusal is an error as the service makes it.
func refusal(code codes.Code, reason string, details ...protoadapt.MessageV1) error {
	if reason != "" {
		details = append(details, &errdetails.ErrorInfo{Domain: "idempotency.v1", Reason: reason})
	}
	answer, err := status.New(code, "refused by the test").WithDetails(details...)
	if err != nil {
		panic(err)
	}
	return answer.Err()
}

func askToWait(span time.Duration) protoadapt.MessageV1 {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(span)}
}

var (
	testKey     = Key{MerchantID: "acme", IdempotencyKey: "k"}
	testRequest = Request{Operation: "POST /payments",
		Content: Payload{Data: []byte(`{"amount":50}`), ContentType: "application/json"}}
	paid = Outcome{StatusCode: 201, ContentType: "application/json", Body: []byte(`{"id":7}`)}
)

func pay(context.Context, *Attempt) (WorkResult, error) { return Complete(paid), nil }

// mustNotRun is work whose run is the failure.
func mustNotRun(t *testing.T) Work {
	return func(context.Context, *Attempt) (WorkResult, error) {
		t.Error("fn has run")
		return Complete(paid), nil
	}
}

func runOnce(ctx context.Context, client Runner, fn Work, options ...RunOption) (Result, error) {
	return client.RunOnce(ctx, testKey, testRequest, TakeOver, fn, options...)
}

// wantKind returns the error as what it is.
func wantKind(t *testing.T, err error, kind Kind) *Error {
	t.Helper()
	typed, ok := err.(*Error)
	if !ok || typed.Kind != kind {
		t.Fatalf("got %v, want %s", err, kind)
	}
	return typed
}

func wantResult[T Result](t *testing.T, result Result, err error) T {
	t.Helper()
	typed, ok := result.(T)
	if !ok || err != nil {
		t.Fatalf("got %#v, %v, want a %T", result, err, typed)
	}
	return typed
}

// hookLog is what the hooks were told.
type hookLog struct {
	mu          sync.Mutex
	changed     *sync.Cond
	lost        []*Error
	lostWork    []WorkResult
	retries     []string
	unprotected int
	refreshes   int
}

func (h *hookLog) hooks() Hooks {
	h.changed = sync.NewCond(&h.mu)
	with := func(note func()) {
		h.mu.Lock()
		defer h.mu.Unlock()
		note()
		h.changed.Broadcast()
	}
	return Hooks{
		OnOutcomeNotRecorded: func(_ Key, work WorkResult, err *Error) {
			with(func() { h.lost, h.lostWork = append(h.lost, err), append(h.lostWork, work) })
		},
		OnRetry:            func(rpc string, _ *Error) { with(func() { h.retries = append(h.retries, rpc) }) },
		OnUnprotected:      func(Key, *Error) { with(func() { h.unprotected++ }) },
		RefreshCredentials: func() { with(func() { h.refreshes++ }) },
	}
}

// awaitLost waits until as many outcomes are lost, and returns their errors.
func (h *hookLog) awaitLost(count int) []*Error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.lost) < count {
		h.changed.Wait()
	}
	return slices.Clone(h.lost)
}

func (h *hookLog) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.retries, " ")
}
