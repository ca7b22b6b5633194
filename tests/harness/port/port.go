// Package port finds ports of the loopback address for servers that go away and come back.
//
// A port from the range that the kernel gives to outgoing connections may be taken by one of those
// while its server is away. So these are from below that range.
package port

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"time"
)

const (
	rangeFile = "/proc/sys/net/ipv4/ip_local_port_range"
	// The kernel's own default, where the file cannot be read.
	usualLowest = 32768
	// Below it are the ports of servers that people know by number.
	lowest = 10000
	tries  = 200
)

// Listen listens on a free port of 127.0.0.1.
func Listen() (net.Listener, error) {
	bound := firstOutgoing()
	if bound <= lowest {
		return net.Listen("tcp", "127.0.0.1:0")
	}
	var err error
	for range tries {
		var listener net.Listener
		candidate := lowest + rand.IntN(bound-lowest)
		listener, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(candidate)))
		if err == nil {
			return listener, nil
		}
	}
	return nil, fmt.Errorf("no free port found: %w", err)
}

// Free is a port that nobody listens on now. Another process may take it before the caller does.
func Free() (int, error) {
	listener, err := Listen()
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// ListenAgain listens on an address that was listened on before. What is left of the connections
// there may keep it busy for a moment, so it tries until ctx ends.
func ListenAgain(ctx context.Context, address string) (net.Listener, error) {
	for {
		listener, err := net.Listen("tcp", address)
		if err == nil {
			return listener, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s does not become free: %w", address, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// The lowest port that an outgoing connection may get.
func firstOutgoing() int {
	text, err := os.ReadFile(rangeFile)
	if err != nil {
		return usualLowest
	}
	var first, last int
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil {
		return usualLowest
	}
	return first
}
