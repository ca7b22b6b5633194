package pgproxy

import "bufio"

func (s *session) readServer(server *bufio.Reader) {
	for {
		m, err := readMessage(server)
		if err != nil {
			return
		}
		if m.kind() == fromServerNotice && s.proxy.dropsNotice() {
			continue
		}
		if !s.handOn(m) {
			return
		}
	}
}

// current is the batch that the server's next message answers; nil while the session starts.
func (s *session) current() *answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.awaiting) == 0 {
		return nil
	}
	return s.awaiting[0]
}

// handOn does with one message of the server what is to be done. False: the session is over.
func (s *session) handOn(m message) bool {
	a := s.current()
	if a != nil && a.isOwn {
		if m.kind() == fromServerReady {
			s.noteReady()
		}
		return true
	}
	if a == nil || a.injection == nil {
		if m.kind() == fromServerReady {
			s.noteReady()
		}
		return s.send(s.client, m)
	}
	isReady := m.kind() == fromServerReady
	switch a.injection.fault.Kind {
	case Swallow:
		if !isReady {
			return true
		}
	case CutInside:
		a.kept = append(a.kept, m...)
		if !isReady {
			return true
		}
		s.send(s.client, a.kept[:len(a.kept)/2])
	case BeforeReady:
		if !isReady {
			return s.send(s.client, m)
		}
	case CompleteWithoutCommit:
		if !s.send(s.client, m) {
			return false
		}
		if !endsAll(a, m) {
			return true
		}
	}
	// What is sent from now on is lost.
	a.injection.happened()
	s.end(a.injection.fault.Then)
	return a.injection.fault.Then == Hang
}

// endsAll counts the ends of results; an error ends all that are left.
func endsAll(a *answer, m message) bool {
	switch m.kind() {
	case fromServerCommandComplete, fromServerEmptyQuery, fromServerSuspended:
		a.executes--
	case fromServerError:
		a.executes = 0
	}
	return a.executes <= 0
}

func (s *session) noteReady() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isOpen = true
	if len(s.awaiting) > 0 {
		s.awaiting = s.awaiting[1:]
	}
}
