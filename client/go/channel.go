package idempotency

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/stats"
	"google.golang.org/protobuf/proto"
)

const (
	methodPrefix = "/idempotency.v1.IdempotencyService/"
	// The server cuts off clients that ping more often.
	shortestPingInterval = 10 * time.Second
	maxMessageBytesGRPC  = 4 << 20
)

// dial makes the two channels, set up the way the service wants them. Keepalive
// finds dead connections within half a minute. Calls go round robin over all
// addresses of the name. gRPC's own retries are off, also those that a name
// service could turn on: this package repeats calls itself, because it knows
// which may be repeated how.
func dial(target string, o *ClientOptions) (calls, waits *grpc.ClientConn, err error) {
	if o.Credentials == nil {
		return nil, nil, errors.New("idempotency: ClientOptions.Credentials must be given")
	}
	options := append([]grpc.DialOption{grpc.WithTransportCredentials(o.Credentials)}, o.DialOptions...)
	options = append(options,
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time:    o.KeepaliveInterval,
			Timeout: o.KeepaliveTimeout,
			// An idle connection that a firewall forgot is found out before the next
			// payment needs it.
			PermitWithoutStream: true,
		}),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: grpcbackoff.Config{BaseDelay: min(200*time.Millisecond, o.MaxReconnectBackoff),
				Multiplier: 1.6, Jitter: 0.2, MaxDelay: o.MaxReconnectBackoff},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytesGRPC)),
		grpc.WithStatsHandler(sendWatch{}),
	)
	// Two clients never share a connection.
	if calls, err = grpc.NewClient(target, options...); err == nil {
		if waits, err = grpc.NewClient(target, options...); err == nil {
			return calls, waits, nil
		}
		_ = calls.Close()
	}
	return nil, nil, fmt.Errorf("idempotency: %w", err)
}

// codec is protobuf's, but a message has the same bytes whenever it is sent:
// Go's own leaves the order of a map's entries, the labels here, to chance.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(message any) (mem.BufferSlice, error) {
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(message.(proto.Message))
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(bytes)}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, message any) error {
	return proto.Unmarshal(data.Materialize(), message.(proto.Message))
}

// sendWatch notes which tries were handed to a connection. gRPC tells it of a
// try's headers once they are queued for the wire, on the calling goroutine, so at
// the latest before the call returns, and in no other case.
type sendWatch struct{}

type sendWatchKey struct{}

func withSendWatch(ctx context.Context, left *atomic.Bool) context.Context {
	return context.WithValue(ctx, sendWatchKey{}, left)
}

func (sendWatch) HandleRPC(ctx context.Context, event stats.RPCStats) {
	if _, ok := event.(*stats.OutHeader); ok {
		if left, ok := ctx.Value(sendWatchKey{}).(*atomic.Bool); ok {
			left.Store(true)
		}
	}
}

func (sendWatch) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (sendWatch) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (sendWatch) HandleConn(context.Context, stats.ConnStats) {}
