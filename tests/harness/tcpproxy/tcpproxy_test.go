package tcpproxy

import (
	"io"
	"net"
	"testing"
)

// Says back what it hears.
func startEcho(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				_, _ = io.Copy(connection, connection)
			}()
		}
	}()
	return listener.Addr().String()
}

func startProxy(t *testing.T) *Proxy {
	t.Helper()
	proxy, err := Start(startEcho(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Down)
	return proxy
}

func connect(t *testing.T, proxy *Proxy) net.Conn {
	t.Helper()
	connection, err := net.Dial("tcp", proxy.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return connection
}

func expectEcho(t *testing.T, connection net.Conn) {
	t.Helper()
	if _, err := connection.Write([]byte("word")); err != nil {
		t.Fatal(err)
	}
	heard := make([]byte, 4)
	if _, err := io.ReadFull(connection, heard); err != nil || string(heard) != "word" {
		t.Fatalf("%q, %v", heard, err)
	}
}

func expectClosed(t *testing.T, connection net.Conn) {
	t.Helper()
	if n, err := connection.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes came", n)
	}
}

func TestBytesGoBothWays(t *testing.T) {
	expectEcho(t, connect(t, startProxy(t)))
}

func TestDownClosesAndRefuses(t *testing.T) {
	proxy := startProxy(t)
	connection := connect(t, proxy)
	expectEcho(t, connection)
	proxy.Down()
	expectClosed(t, connection)
	if refused, err := net.Dial("tcp", proxy.Address()); err == nil {
		refused.Close()
		t.Error("it takes connections")
	}
}

func TestUpServesAtTheSameAddress(t *testing.T) {
	proxy := startProxy(t)
	expectEcho(t, connect(t, proxy))
	for range 3 {
		proxy.Down()
		if err := proxy.Up(); err != nil {
			t.Fatal(err)
		}
		expectEcho(t, connect(t, proxy))
	}
}

func TestCutClosesWhatIsOpenOnly(t *testing.T) {
	proxy := startProxy(t)
	connection := connect(t, proxy)
	expectEcho(t, connection)
	proxy.Cut()
	expectClosed(t, connection)
	expectEcho(t, connect(t, proxy))
}

func TestATargetThatRefusesClosesTheConnection(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := gone.Addr().String()
	gone.Close()
	proxy, err := Start(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Down)
	expectClosed(t, connect(t, proxy))
}
