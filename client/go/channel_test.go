package idempotency

import (
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
)

// named makes a client of the addresses that a name service gives for one name,
// with the service config that it gives besides.
func named(t *testing.T, serviceConfig string, addresses ...string) *Client {
	t.Helper()
	names := manual.NewBuilderWithScheme("test")
	state := resolver.State{}
	for _, address := range addresses {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: address})
	}
	names.BuildCallback = func(_ resolver.Target, conn resolver.ClientConn, _ resolver.BuildOptions) {
		state.ServiceConfig = conn.ParseServiceConfig(serviceConfig)
		names.InitialState(state)
	}
	return newTestClient(t, "test:///payments", ClientOptions{DialOptions: []grpc.DialOption{grpc.WithResolvers(names)}})
}

// addressOf starts a service and returns where it is.
func addressOf(t *testing.T, service *testService) string {
	t.Helper()
	return startService(t, service, ClientOptions{}).calls.Target()
}

func TestRetriesThatANameServiceTurnsOnAreOff(t *testing.T) {
	t.Parallel()
	service := &testService{onBegin: func(int, *idempotencyv1.BeginRequest) (*idempotencyv1.BeginResponse, error) {
		return nil, refusal(codes.Unavailable, "OVERLOADED", askToWait(time.Hour))
	}}
	client := named(t, `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.001s",
		"maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`, addressOf(t, service))
	_, err := runOnce(t.Context(), client, mustNotRun(t))
	wantKind(t, err, KindUnavailable)
	if got := countOf(service, &service.begins); got != 1 {
		t.Errorf("got %d Begins", got)
	}
}

func TestCallsGoRoundRobin(t *testing.T) {
	t.Parallel()
	first, second := &testService{}, &testService{}
	client := named(t, `{}`, addressOf(t, first), addressOf(t, second))
	// Until both are connected, all go to the one that is.
	for range 1000 {
		result, err := runOnce(t.Context(), client, pay)
		wantResult[*Completed](t, result, err)
		if countOf(first, &first.begins)+countOf(first, &first.completes) > 0 &&
			countOf(second, &second.begins)+countOf(second, &second.completes) > 0 {
			return
		}
	}
	t.Error("all calls went to one address")
}

func TestPingsComeNoFasterThanTheServerAllows(t *testing.T) {
	t.Parallel()
	options := ClientOptions{KeepaliveInterval: time.Millisecond}
	if err := options.setDefaults(); err != nil || options.KeepaliveInterval != shortestPingInterval {
		t.Errorf("got %v, %v", options.KeepaliveInterval, err)
	}
}
