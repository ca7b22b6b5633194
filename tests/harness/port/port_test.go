package port

import (
	"context"
	"net"
	"testing"
	"time"
)

func TestPortsAreBelowThoseOfOutgoingConnections(t *testing.T) {
	bound := firstOutgoing()
	if bound <= lowest {
		t.Skipf("outgoing connections get ports from %d here", bound)
	}
	for range 20 {
		number, err := Free()
		if err != nil {
			t.Fatal(err)
		}
		if number < lowest || number >= bound {
			t.Errorf("%d", number)
		}
	}
}

func TestListenAgainWaitsUntilThePortIsFree(t *testing.T) {
	first, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	address := first.Addr().String()
	short, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if second, err := ListenAgain(short, address); err == nil {
		second.Close()
		t.Fatal("two listen on one port")
	}
	go first.Close()
	second, err := ListenAgain(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	connection, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	connection.Close()
}
