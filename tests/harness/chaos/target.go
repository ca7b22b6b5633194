package chaos

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
)

// target is an address that calls are sent to.
type target struct {
	name       string
	connection *grpc.ClientConn
	client     idempotencyv1.IdempotencyServiceClient
}

func newTarget(name, address string, more ...grpc.DialOption) (*target, error) {
	options := append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}),
		grpc.WithDisableServiceConfig(),
	}, more...)
	connection, err := grpc.NewClient(address, options...)
	if err != nil {
		return nil, err
	}
	connection.Connect()
	return &target{name: name, connection: connection, client: idempotencyv1.NewIdempotencyServiceClient(connection)}, nil
}

// isReady tells whether a call would be sent, and sees to it that one can be soon.
func (t *target) isReady() bool {
	switch t.connection.GetState() {
	case connectivity.Ready:
		return true
	case connectivity.Idle:
		t.connection.Connect()
	}
	return false
}

// awaitReady waits for a connection.
func (t *target) awaitReady(ctx context.Context) error {
	for !t.isReady() {
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("%s cannot be reached: %w", t.name, err)
		}
	}
	return nil
}

func (m *member) isServing(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	answer, err := grpc_health_v1.NewHealthClient(m.straight.connection).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	return err == nil && answer.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING
}

func (m *member) awaitServing(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for !m.isServing(ctx) {
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%s does not serve: %w", m.name, err)
		}
	}
	return nil
}

// metricsText is the page that Prometheus would get.
func (m *member) metricsText(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.replica.OpsAddress()+"/metrics", nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 4<<20))
	return string(text), err
}

// metric is the sum of a metric's series whose labels hold all of the texts.
func (m *member) metric(ctx context.Context, name string, labels ...string) (float64, error) {
	text, err := m.metricsText(ctx)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		series, value, ok := strings.Cut(lines.Text(), " ")
		base, rest, _ := strings.Cut(series, "{")
		if !ok || base != name || !holdsAll(rest, labels) {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, err
		}
		sum += number
	}
	return sum, lines.Err()
}

func holdsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

func sleep(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
