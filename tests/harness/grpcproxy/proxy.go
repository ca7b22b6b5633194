// Package grpcproxy stands between a client and a replica: it keeps what goes through, and makes of
// the calls what it is told: refused, lost, never answered.
//
// It looks at no message but to tell attempts apart, so it forwards what it does not know as well.
package grpcproxy

import (
	"context"
	"net"
	"path"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"idempotencyd/tests/harness/port"
)

const (
	// Clients may send more than the service takes; it is the service that refuses it.
	maxMessageBytes = 64 << 20
	upTimeout       = 10 * time.Second
	// Clients ask for signs of life every 10 s at the most often.
	shortestKeepalive = 5 * time.Second
)

// Proxy is one address with faults of its own. Safe for concurrent use.
type Proxy struct {
	upstream grpc.ClientConnInterface
	server   *grpc.Server
	address  string
	onEnd    func(Call)
	// Ends with the proxy.
	ctx    context.Context
	cancel context.CancelFunc

	mutex       sync.Mutex
	listener    net.Listener // nil while down.
	connections map[string]net.Conn
	faults      map[string][]Fault
	calls       []*Call
	// Closed, and replaced, when a call or a connection comes in or ends.
	changed chan struct{}
}

// Start listens on a free port of the loopback address and forwards to upstream, which stays the
// caller's. onEnd, if it is not nil, is told of each call that has ended; it may be called side by side.
func Start(upstream grpc.ClientConnInterface, onEnd func(Call)) (*Proxy, error) {
	listener, err := port.Listen()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	proxy := &Proxy{
		upstream: upstream, address: listener.Addr().String(), onEnd: onEnd, ctx: ctx, cancel: cancel,
		connections: map[string]net.Conn{}, faults: map[string][]Fault{}, changed: make(chan struct{}),
	}
	proxy.server = grpc.NewServer(
		grpc.UnknownServiceHandler(proxy.handle), grpc.ForceServerCodecV2(rawCodec{}),
		grpc.MaxRecvMsgSize(maxMessageBytes), grpc.MaxSendMsgSize(maxMessageBytes),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: shortestKeepalive, PermitWithoutStream: true,
		}))
	proxy.serve(listener)
	return proxy, nil
}

// Address is where the proxy listens: the same one all its life.
func (p *Proxy) Address() string { return p.address }

// Close ends the proxy and every call in it.
func (p *Proxy) Close() {
	p.cancel()
	p.Down()
	p.server.Stop()
}

// Down refuses connections and closes those that are open.
func (p *Proxy) Down() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	for _, connection := range p.connections {
		_ = connection.Close()
	}
	clear(p.connections)
}

// IsDown tells whether it refuses connections.
func (p *Proxy) IsDown() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.listener == nil
}

// Up takes connections again, on the same port.
func (p *Proxy) Up() error {
	if !p.IsDown() {
		return nil
	}
	ctx, cancel := context.WithTimeout(p.ctx, upTimeout)
	defer cancel()
	listener, err := port.ListenAgain(ctx, p.address)
	if err != nil {
		return err
	}
	p.serve(listener)
	return nil
}

func (p *Proxy) serve(listener net.Listener) {
	p.mutex.Lock()
	p.listener = listener
	p.mutex.Unlock()
	// It ends when the listener is closed, and that is no fault.
	go func() { _ = p.server.Serve(&keepingListener{Listener: listener, proxy: p}) }()
}

// Add puts a fault behind those that the method has already. The method goes by its short name.
func (p *Proxy) Add(method string, fault Fault) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.faults[method] = append(p.faults[method], fault)
}

// ClearFaults forgets all faults. Calls that hang go on hanging.
func (p *Proxy) ClearFaults() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	clear(p.faults)
}

// Calls returns the calls of a method so far, in the order in which they came in.
func (p *Proxy) Calls(method string) []Call {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.callsLocked(method)
}

func (p *Proxy) callsLocked(method string) []Call {
	var calls []Call
	for _, call := range p.calls {
		if call.Method == method {
			calls = append(calls, *call)
		}
	}
	return calls
}

// AwaitCalls waits until enough says so of the method's calls.
func (p *Proxy) AwaitCalls(ctx context.Context, method string, enough func([]Call) bool) error {
	for {
		p.mutex.Lock()
		calls, changed := p.callsLocked(method), p.changed
		p.mutex.Unlock()
		if enough(calls) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// AwaitConnections waits until a client is connected, or until none is.
func (p *Proxy) AwaitConnections(ctx context.Context, connected bool) error {
	for {
		p.mutex.Lock()
		are, changed := len(p.connections) > 0, p.changed
		p.mutex.Unlock()
		if are == connected {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// Notes a call that has come in, and takes the fault that is next for it.
func (p *Proxy) begin(ctx context.Context, fullMethod string, request []byte) (*Call, *Fault) {
	call := &Call{Method: path.Base(fullMethod), Request: request}
	if from, ok := peer.FromContext(ctx); ok {
		call.Peer = from.Addr.String()
	}
	call.readRequest()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.calls = append(p.calls, call)
	p.notifyLocked()
	return call, p.nextFaultLocked(call.Method)
}

func (p *Proxy) nextFaultLocked(method string) *Fault {
	queue := p.faults[method]
	if len(queue) == 0 {
		return nil
	}
	fault := queue[0]
	if queue[0].Times != Always {
		queue[0].Times--
		if queue[0].Times == 0 {
			p.faults[method] = queue[1:]
		}
	}
	return &fault
}

func (p *Proxy) end(call *Call, err error) {
	p.mutex.Lock()
	call.Ended, call.Code, call.Reason = true, status.Code(err), reasonOf(err)
	ended := *call
	p.notifyLocked()
	p.mutex.Unlock()
	if p.onEnd != nil {
		p.onEnd(ended)
	}
}

func (p *Proxy) notifyLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Closes the connection that a call came by.
func (p *Proxy) cut(call *Call) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if connection, ok := p.connections[call.Peer]; ok {
		_ = connection.Close()
		delete(p.connections, call.Peer)
	}
}

// Remembers the connections that it accepts, by the client's address.
type keepingListener struct {
	net.Listener
	proxy *Proxy
}

func (l *keepingListener) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	kept := &keptConnection{Conn: connection, proxy: l.proxy, peer: connection.RemoteAddr().String()}
	l.proxy.mutex.Lock()
	defer l.proxy.mutex.Unlock()
	if l.proxy.listener != l.Listener {
		// The proxy went down between the two.
		_ = connection.Close()
	} else {
		l.proxy.connections[kept.peer] = connection
		l.proxy.notifyLocked()
	}
	return kept, nil
}

// A connection that is forgotten when it is closed.
type keptConnection struct {
	net.Conn
	proxy *Proxy
	peer  string
}

func (c *keptConnection) Close() error {
	c.proxy.mutex.Lock()
	if c.proxy.connections[c.peer] == c.Conn {
		delete(c.proxy.connections, c.peer)
		c.proxy.notifyLocked()
	}
	c.proxy.mutex.Unlock()
	return c.Conn.Close()
}
