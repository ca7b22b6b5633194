package idempotency

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
)

// ClientOptions are what a Client is made with. What is 0 has its default,
// what is negative is refused.
type ClientOptions struct {
	// Credentials are required: credentials.NewTLS(…), or insecure.NewCredentials()
	// on a network that is trusted.
	Credentials credentials.TransportCredentials
	// DialOptions are further ones, such as grpc.WithPerRPCCredentials for a token,
	// or interceptors, which must hand on the context they get. What this package
	// sets, it sets after them.
	DialOptions []grpc.DialOption

	// RPCTimeout bounds one try of a call; waits come on top. Default 5 s.
	RPCTimeout time.Duration
	// RecordTimeout is how long Complete and Fail are repeated. Default 5 min.
	RecordTimeout time.Duration
	// ShutdownTimeout is how long Close waits for what is under way. Default 10 s.
	ShutdownTimeout time.Duration
	// MaxBackgroundRecords: past it a caller that gives up before fn ran leaves its
	// key to its lease; what fn came to is recorded however many there are. Default
	// 10,000.
	MaxBackgroundRecords int

	// KeepaliveInterval is the time between two pings; less than 10 s is raised to
	// that, the server's limit. Default 20 s.
	KeepaliveInterval time.Duration
	// KeepaliveTimeout is how long a ping may go unanswered before the connection
	// counts as dead. Default 10 s.
	KeepaliveTimeout time.Duration
	// MaxReconnectBackoff is the longest pause between two tries to connect.
	// Default 5 s.
	MaxReconnectBackoff time.Duration

	// Hooks are told what the application should know.
	Hooks Hooks
	// Logger gets a warning for each unprotected run. Default slog.Default().
	Logger *slog.Logger
}

func (o *ClientOptions) setDefaults() error {
	for _, span := range []struct {
		name  string
		value *time.Duration
		unset time.Duration
	}{
		{"RPCTimeout", &o.RPCTimeout, 5 * time.Second},
		{"RecordTimeout", &o.RecordTimeout, 5 * time.Minute},
		{"ShutdownTimeout", &o.ShutdownTimeout, 10 * time.Second},
		{"KeepaliveInterval", &o.KeepaliveInterval, 20 * time.Second},
		{"KeepaliveTimeout", &o.KeepaliveTimeout, 10 * time.Second},
		{"MaxReconnectBackoff", &o.MaxReconnectBackoff, 5 * time.Second},
	} {
		if *span.value < 0 {
			return errors.New("idempotency: ClientOptions." + span.name + " must not be negative")
		}
		if *span.value == 0 {
			*span.value = span.unset
		}
	}
	o.KeepaliveInterval = max(o.KeepaliveInterval, shortestPingInterval)
	if o.MaxBackgroundRecords < 0 {
		return errors.New("idempotency: ClientOptions.MaxBackgroundRecords must not be negative")
	}
	if o.MaxBackgroundRecords == 0 {
		o.MaxBackgroundRecords = 10_000
	}
	return nil
}

// Client is the Runner that talks to the service. One for the process; safe for
// concurrent use.
type Client struct {
	options      ClientOptions
	logger       *slog.Logger
	calls, waits *grpc.ClientConn
	now          clock
	lateLook     time.Duration
	close        func() error

	closing      context.Context // ends when Close is called
	beginClosing context.CancelFunc
	over         context.Context // ends when Close has waited long enough
	abandon      context.CancelFunc

	unprotectedRuns atomic.Uint64

	mu        sync.Mutex // guards what follows
	changed   *sync.Cond
	underWay  int // calls of RunOnce and records that have not ended
	records   int // the latter alone
	abandoned int // outcomes that Close gave up
}

var _ Runner = (*Client)(nil)

// New returns a Client of the service at target, a gRPC name such as
// dns:///idempotency.payments.svc:50051; without a scheme it is a DNS name, too.
// It connects lazily: a service that is away is found out by the first call. It
// fails for options that are negative, missing Credentials, and a target that
// gRPC cannot parse.
func New(target string, options ClientOptions) (*Client, error) {
	if err := options.setDefaults(); err != nil {
		return nil, err
	}
	calls, waits, err := dial(target, &options)
	if err != nil {
		return nil, err
	}
	c := &Client{
		options:  options,
		logger:   options.Logger,
		calls:    calls,
		waits:    waits,
		now:      bootTime,
		lateLook: lateLook,
	}
	if c.logger == nil {
		c.logger = slog.Default()
	}
	c.changed = sync.NewCond(&c.mu)
	c.closing, c.beginClosing = context.WithCancel(context.Background())
	c.over, c.abandon = context.WithCancel(context.Background())
	c.close = sync.OnceValue(c.doClose)
	return c, nil
}

// UnprotectedRuns is how often fn ran without the service since New.
func (c *Client) UnprotectedRuns() uint64 { return c.unprotectedRuns.Load() }

// Lookup implements Runner.
func (c *Client) Lookup(ctx context.Context, key Key, includeBody bool) (*Record, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if !c.enter() {
		return nil, closedError()
	}
	defer c.leave()
	asking, cancel := joined(ctx, c.over)
	defer cancel()
	response := &idempotencyv1.LookupResponse{}
	failure := c.repeat(asking, &call{
		rpc:  "Lookup",
		conn: c.calls,
		request: &idempotencyv1.LookupRequest{
			MerchantId:     key.MerchantID,
			IdempotencyKey: key.IdempotencyKey,
			IncludeOutcome: includeBody,
		},
		response: response,
		whole:    func() bool { return response.RecordId != "" },
		giveUpAt: c.now().add(lookupTimeout),
	})
	switch {
	case failure == nil:
		return recordFromProto(response), nil
	case ctx.Err() != nil:
		return nil, goneError(ctx)
	case asking.Err() != nil:
		return nil, closedError()
	}
	return nil, failure.err
}

// joined ends with the first of the two; its values are ctx's.
func joined(ctx, other context.Context) (context.Context, context.CancelFunc) {
	both, cancel := context.WithCancel(ctx)
	detach := context.AfterFunc(other, cancel)
	return both, func() {
		detach()
		cancel()
	}
}

// lookupTimeout is as WithStartTimeout's default.
const lookupTimeout = 30 * time.Second

// Close refuses new calls, ends those whose fn has not begun, and asks every
// running fn to stop. It waits up to ShutdownTimeout for them, whose leases are
// renewed meanwhile, and for what is recorded, then gives up the rest: what is not
// recorded is told to Hooks.OnOutcomeNotRecorded, also for an fn that ends later. The error says how many were given up by then.
// Further calls wait for the first and return the same.
func (c *Client) Close() error { return c.close() }

func (c *Client) doClose() error {
	timer := time.AfterFunc(c.options.ShutdownTimeout, func() {
		c.abandon()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changed.Broadcast()
	})
	defer timer.Stop()

	c.mu.Lock()
	c.beginClosing()
	for c.underWay > 0 && c.over.Err() == nil {
		c.changed.Wait()
	}
	c.mu.Unlock()
	c.abandon()
	err := errors.Join(c.calls.Close(), c.waits.Close())

	c.mu.Lock()
	defer c.mu.Unlock()
	for c.records > 0 { // not for long: their calls have been cancelled
		c.changed.Wait()
	}
	if c.abandoned > 0 {
		return newError(KindOutcomeNotRecorded, "the client was closed before %d records were made", c.abandoned)
	}
	return err
}

// enter begins a call of RunOnce or Lookup, which must leave; false once closed.
func (c *Client) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Err() != nil {
		return false
	}
	c.underWay++
	return true
}

func (c *Client) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underWay--
	c.changed.Broadcast()
}

func closedError() *Error {
	return newError(KindUnavailable, "the client is closed")
}

// goneError says why a context has ended.
func goneError(ctx context.Context) *Error {
	err := newError(KindCancelled, "the caller has cancelled")
	if goneReason(ctx) == StopDeadline {
		err = newError(KindDeadlineExceeded, "the caller's deadline has passed")
	}
	err.cause = ctx.Err()
	return err
}
