package pgproxy

import (
	"bufio"
	"io"
	"net"
	"sync"
	"time"
)

// How long a connection to the server may take to be made.
const dialTimeout = 10 * time.Second

// session is one connection of a client, and the one to the server that belongs to it.
type session struct {
	proxy   *Proxy
	client  net.Conn
	tracker *tracker // of the goroutine that reads the client

	once  sync.Once
	ended chan struct{}

	mu       sync.Mutex
	server   net.Conn
	isHung   bool
	awaiting []*answer // batches that the server has not answered yet, oldest first
	isOpen   bool      // the session's start is over: ReadyForQuery came
}

// answer is what is to become of the server's answer to one batch.
type answer struct {
	injection *Injection // nil: handed on
	// CompleteWithoutCommit: how many results are still to end.
	executes int
	kept     []byte
	// To a message of the proxy's own, which the client did not send.
	isOwn bool
}

func (s *session) run() {
	defer s.end(Close)
	client := bufio.NewReaderSize(s.client, 1<<16)
	if !s.proxy.wait(s) || !s.connect() {
		return
	}
	if !s.startUp(client) {
		return
	}
	go func() {
		defer s.end(Close)
		s.readServer(bufio.NewReaderSize(s.server, 1<<16))
	}()
	s.readClient(client)
}

func (s *session) connect() bool {
	s.proxy.mu.Lock()
	target := s.proxy.target
	s.proxy.mu.Unlock()
	server, err := net.DialTimeout("tcp", target, dialTimeout)
	if err != nil {
		return false
	}
	s.mu.Lock()
	s.server = server
	s.mu.Unlock()
	select {
	case <-s.ended:
		// It ended meanwhile, and did not know of this connection.
		_ = server.Close()
		return false
	default:
		return true
	}
}

// startUp handles what comes before the session's start message and hands that one on. False: there is nothing more to do.
func (s *session) startUp(client *bufio.Reader) bool {
	for {
		first, code, err := readFirst(client)
		if err != nil {
			return false
		}
		isEncryption := code == sslRequest || code == gssRequest
		s.proxy.mu.Lock()
		passes := s.proxy.passesSSL
		s.proxy.mu.Unlock()
		if isEncryption && !passes {
			if _, err := s.client.Write([]byte{'N'}); err != nil {
				return false
			}
			continue
		}
		if _, err := s.server.Write(first); err != nil {
			return false
		}
		switch {
		case code == cancelRequest:
			// The server closes when it has read it.
			_, _ = io.Copy(s.client, s.server)
			return false
		case isEncryption:
			agreed := make([]byte, 1)
			if _, err := io.ReadFull(s.server, agreed); err != nil {
				return false
			}
			if _, err := s.client.Write(agreed); err != nil {
				return false
			}
			if agreed[0] != 'N' {
				s.handOver(client)
				return false
			}
		default:
			return true
		}
	}
}

// handOver hands on bytes that cannot be understood.
func (s *session) handOver(client *bufio.Reader) {
	go func() {
		defer s.end(Close)
		_, _ = io.Copy(s.client, s.server)
	}()
	_, _ = io.Copy(s.server, client)
}

// end ends both connections, once.
func (s *session) end(how Ending) {
	if how == Hang {
		s.mu.Lock()
		s.isHung = true
		s.mu.Unlock()
		return
	}
	s.once.Do(func() {
		close(s.ended)
		s.mu.Lock()
		server := s.server
		s.mu.Unlock()
		for _, connection := range []net.Conn{s.client, server} {
			tcp, ok := connection.(*net.TCPConn)
			if !ok {
				continue
			}
			if how == Reset {
				_ = tcp.SetLinger(0)
			}
			_ = tcp.Close()
		}
		s.proxy.remove(s)
	})
}

// send writes to one side, unless the session hangs. False: the session is over.
func (s *session) send(to net.Conn, bytes []byte) bool {
	if !s.proxy.wait(s) {
		return false
	}
	if s.hangs() || len(bytes) == 0 {
		return true
	}
	_, err := to.Write(bytes)
	return err == nil
}

func (s *session) hangs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isHung
}

func (s *session) readClient(client *bufio.Reader) {
	var pending []message
	for {
		m, err := readMessage(client)
		if err != nil {
			return
		}
		s.mu.Lock()
		isOpen := s.isOpen
		s.mu.Unlock()
		if !isOpen {
			// A password, or the like.
			if !s.send(s.server, m) {
				return
			}
			continue
		}
		switch m.kind() {
		case fromClientSync, fromClientQuery, fromClientFunction:
			if !s.finishBatch(append(pending, m)) {
				return
			}
			pending = nil
		case fromClientFlush:
			// The client may wait for results now.
			pending = append(pending, m)
			if !s.sendAll(pending) {
				return
			}
			pending = nil
		case fromClientTerminate:
			s.sendAll(append(pending, m))
			return
		case fromClientParse, fromClientBind, fromClientExecute, fromClientClose, 'D':
			s.tracker.note(m)
			pending = append(pending, m)
		default:
			// COPY.
			if !s.sendAll(append(pending, m)) {
				return
			}
			pending = nil
		}
	}
}

func (s *session) sendAll(messages []message) bool {
	var bytes []byte
	for _, m := range messages {
		bytes = append(bytes, m...)
	}
	return s.send(s.server, bytes)
}

// sendOwn sends a query of the proxy's own, whose answer the client does not get.
func (s *session) sendOwn(sql string) bool {
	s.mu.Lock()
	s.awaiting = append(s.awaiting, &answer{isOwn: true})
	s.mu.Unlock()
	return s.send(s.server, newMessage(fromClientQuery, []byte(sql+"\x00")))
}

// finishBatch decides what becomes of a batch and sends it, or not. The last message ends it.
func (s *session) finishBatch(messages []message) bool {
	last := len(messages) - 1
	wasOpen := s.tracker.isOpen
	batch, executes := s.tracker.finish(messages[last])
	if !s.proxy.pause(s) {
		return false
	}
	injection := s.proxy.choose(batch)
	if injection != nil && s.hangs() {
		injection.giveBack()
		return true
	}
	a := &answer{injection: injection, executes: executes}
	if injection != nil {
		switch injection.fault.Kind {
		case CutBefore:
			s.sendAll(messages[:s.tracker.beforeCommit(messages)])
			injection.happened()
			s.end(injection.fault.Then)
			return injection.fault.Then == Hang
		case ForgetStatements:
			a.injection = nil
			if wasOpen {
				injection.giveBack()
				break
			}
			injection.happened()
			if !s.sendOwn("DEALLOCATE ALL") {
				return false
			}
		case RollbackInstead:
			a.injection = nil
			if s.tracker.rollbackInstead(messages) {
				injection.happened()
			} else {
				injection.giveBack()
			}
		case CompleteWithoutCommit:
			if messages[last].kind() == fromClientSync && executes > 0 {
				messages[last] = newMessage(fromClientFlush, nil)
			} else {
				a.injection = nil
				injection.giveBack()
			}
		}
	}
	s.mu.Lock()
	s.awaiting = append(s.awaiting, a)
	s.mu.Unlock()
	return s.sendAll(messages)
}
