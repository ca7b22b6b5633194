// Package tcpproxy puts a line between two programs that can be cut and mended.
package tcpproxy

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"idempotencyd/tests/harness/port"
)

const upTimeout = 10 * time.Second

// Proxy hands bytes on, both ways, while it is up. Safe for concurrent use.
type Proxy struct {
	target  string
	address string

	mutex       sync.Mutex
	listener    net.Listener // nil while down.
	connections map[net.Conn]struct{}
}

// Start listens on a free port of the loopback address for what goes to target.
func Start(target string) (*Proxy, error) {
	listener, err := port.Listen()
	if err != nil {
		return nil, err
	}
	proxy := &Proxy{
		target: target, address: listener.Addr().String(), listener: listener,
		connections: map[net.Conn]struct{}{},
	}
	go proxy.accept(listener)
	return proxy, nil
}

// Address is where the proxy listens: the same one all its life.
func (p *Proxy) Address() string { return p.address }

// Down closes all connections and refuses new ones.
func (p *Proxy) Down() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	p.closeConnections()
}

// Up takes connections again.
func (p *Proxy) Up() error {
	ctx, cancel := context.WithTimeout(context.Background(), upTimeout)
	defer cancel()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.listener != nil {
		return nil
	}
	listener, err := port.ListenAgain(ctx, p.address)
	if err != nil {
		return err
	}
	p.listener = listener
	go p.accept(listener)
	return nil
}

// Cut closes the connections there are; new ones are taken.
func (p *Proxy) Cut() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.closeConnections()
}

// REQUIRES: the mutex is held.
func (p *Proxy) closeConnections() {
	for connection := range p.connections {
		_ = connection.Close()
	}
	clear(p.connections)
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		if p.keep(client, listener) {
			go p.serve(client, listener)
		}
	}
}

// Remembers the connection, to be closed with the others. One that was accepted while the proxy went
// down is closed at once.
func (p *Proxy) keep(connection net.Conn, listener net.Listener) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.listener != listener {
		_ = connection.Close()
		return false
	}
	p.connections[connection] = struct{}{}
	return true
}

func (p *Proxy) forget(connection net.Conn) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.connections, connection)
	_ = connection.Close()
}

func (p *Proxy) serve(client net.Conn, listener net.Listener) {
	defer p.forget(client)
	server, err := net.Dial("tcp", p.target)
	if err != nil || !p.keep(server, listener) {
		return
	}
	defer p.forget(server)
	done := make(chan struct{}, 2)
	hand := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		done <- struct{}{}
	}
	go hand(server, client)
	go hand(client, server)
	// Whichever side ends first takes the other one along.
	<-done
}
