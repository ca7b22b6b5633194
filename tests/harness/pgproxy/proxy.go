// Package pgproxy stands between a program and PostgreSQL and breaks the line at the instants that matter: before the batch
// that commits is sent, between a commit and its answer, in the middle of the answer.
//
// It understands the framing of the protocol in both directions, pipelines and prepared statements included, but no data
// types. Encrypted connections it does not understand: it refuses SSLRequest and GSSENCRequest, as a server without
// encryption does, or, told so, passes them on and hands over bytes.
package pgproxy

import (
	"net"
	"sync"
	"time"

	"idempotencyd/tests/harness/port"
)

// Proxy hands on what goes between its address and its target. Safe for concurrent use.
type Proxy struct {
	listener net.Listener

	mu          sync.Mutex
	target      string
	injections  []*Injection
	sessions    map[*session]struct{}
	passesSSL   bool
	dropNotices bool
	dropped     int
	refuses     bool
	delay       time.Duration
	isClosed    bool
	held        chan struct{} // closed when nothing is held; replaced by Hold
}

// Start listens on a free port of the loopback address for what goes to target.
func Start(target string) (*Proxy, error) {
	listener, err := port.Listen()
	if err != nil {
		return nil, err
	}
	return Serve(listener, target), nil
}

// Serve is Start on a listener, which becomes the proxy's.
func Serve(listener net.Listener, target string) *Proxy {
	p := &Proxy{listener: listener, target: target, sessions: make(map[*session]struct{}), held: make(chan struct{})}
	close(p.held)
	go p.accept()
	return p
}

// Address is where the proxy listens: the same one all its life.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Close ends the proxy and every connection in it.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.isClosed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.Release()
	p.CutAll(Close)
}

// SetTarget makes new connections go elsewhere.
func (p *Proxy) SetTarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// PassSSL hands on SSLRequest and GSSENCRequest instead of refusing them. What is encrypted then passes unread.
func (p *Proxy) PassSSL(passes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passesSSL = passes
}

// Inject adds a fault; of several that match a batch the oldest happens.
func (p *Proxy) Inject(fault Fault) *Injection {
	injection := newInjection(fault)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.injections = append(p.injections, injection)
	return injection
}

// CancelAll takes back all faults that have not happened yet.
func (p *Proxy) CancelAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, injection := range p.injections {
		injection.Cancel()
	}
	p.injections = nil
}

// DropNotices keeps NoticeResponse messages from the client.
func (p *Proxy) DropNotices(drops bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropNotices = drops
}

// DroppedNotices counts those that were kept back.
func (p *Proxy) DroppedNotices() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// Refuse closes new connections at once.
func (p *Proxy) Refuse(refuses bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = refuses
}

// SetDelay keeps every batch back for that long.
func (p *Proxy) SetDelay(delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = delay
}

// Hold stops everything in both directions, connections that are made meanwhile included, until Release. Nothing is lost.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.held:
		p.held = make(chan struct{})
	default:
	}
}

// Release ends Hold.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.held:
	default:
		close(p.held)
	}
}

// CutAll ends all connections there are. New ones are taken.
func (p *Proxy) CutAll(how Ending) {
	p.mu.Lock()
	sessions := make([]*session, 0, len(p.sessions))
	for s := range p.sessions {
		sessions = append(sessions, s)
	}
	p.mu.Unlock()
	for _, s := range sessions {
		s.end(how)
	}
}

// Connections counts those that are open.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sessions)
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		s := &session{proxy: p, client: client, tracker: newTracker(), ended: make(chan struct{})}
		if p.add(s) {
			go s.run()
		} else {
			_ = client.Close()
		}
	}
}

func (p *Proxy) add(s *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isClosed || p.refuses {
		return false
	}
	p.sessions[s] = struct{}{}
	return true
}

func (p *Proxy) remove(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, s)
}

// wait returns when nothing is held, or false when the session ends before.
func (p *Proxy) wait(s *session) bool {
	p.mu.Lock()
	held := p.held
	p.mu.Unlock()
	select {
	case <-held:
		return true
	case <-s.ended:
		return false
	}
}

// pause waits as long as a batch is to be delayed.
func (p *Proxy) pause(s *session) bool {
	p.mu.Lock()
	delay := p.delay
	p.mu.Unlock()
	if delay == 0 {
		return true
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.ended:
		return false
	}
}

// choose finds the fault that happens to a batch; nil: none.
func (p *Proxy) choose(batch Batch) *Injection {
	p.mu.Lock()
	injections := append([]*Injection(nil), p.injections...)
	p.mu.Unlock()
	for _, injection := range injections {
		if injection.take(batch) {
			return injection
		}
	}
	return nil
}

func (p *Proxy) dropsNotice() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dropNotices {
		p.dropped++
	}
	return p.dropNotices
}
