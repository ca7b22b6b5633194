package host

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"idempotencyd/tests/harness/grpcproxy"
	"idempotencyd/tests/harness/scenario"
)

const (
	// Every wait of the host ends after this, as not ok.
	longestWait = 60 * time.Second
	// How long a client may still record in the background when its session has ended: longer than a
	// client's own patience when it is closed.
	longestFarewell = 15 * time.Second
)

var errEnded = errors.New("the session has ended")

// Session is one scenario replayed by one runner. Its steps may come side by side.
type session struct {
	id       string
	language string
	scenario scenario.Scenario
	steps    []any
	service  *service
	// Whether the service is this session's alone, and ends with it.
	ownService bool
	proxy      *grpcproxy.Proxy
	judge      scenario.Judge
	// Ends with the session.
	ctx    context.Context
	cancel context.CancelCauseFunc

	mutex    sync.Mutex
	lastUse  time.Time
	attempts map[string]attempt
	signals  map[string]chan struct{} // Closed when given.
	running  int                      // Steps of the host that have not ended.
	posted   int
	judged   int
	problem  string // The first one.
}

// What another caller's attempt is known by.
type attempt struct {
	key scenario.Key
	id  string
}

func newSession(id, language string, chosen scenario.Scenario, on *service, logCalls bool) (*session, error) {
	// Session ids are unique, so keys that end in them are.
	steps, err := chosen.Expand(id)
	if err != nil {
		return nil, err
	}
	var onEnd func(grpcproxy.Call)
	if logCalls {
		onEnd = func(call grpcproxy.Call) {
			log.Printf("%s %s: %s %s %v %s", language, chosen.Name, call.Method, call.AttemptID, call.Code, call.Reason)
		}
	}
	proxy, err := grpcproxy.Start(on.connection, onEnd)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	return &session{
		id: id, language: language, scenario: chosen, steps: steps, service: on, proxy: proxy,
		ctx: ctx, cancel: cancel, lastUse: time.Now(), attempts: map[string]attempt{},
		signals: map[string]chan struct{}{},
	}, nil
}

// The runner's next word has come.
func (s *session) touch() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.lastUse = time.Now()
}

func (s *session) idle() time.Duration {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.running > 0 {
		return 0
	}
	return time.Since(s.lastUse)
}

// Keeps the first thing that is not ok, whatever the runner makes of it.
func (s *session) note(what, problem string) {
	if problem != "" && s.problem == "" {
		s.problem = what + ": " + problem
	}
}

// Compares for the runner. Returns what differs.
func (s *session) compare(expect, actual any) string {
	problem := s.judge.Compare(expect, actual)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.judged++
	s.note("judged", problem)
	return problem
}

// Does a step of the host. Returns what is not ok.
func (s *session) do(ctx context.Context, step scenario.Step) string {
	ctx, cancel := context.WithTimeoutCause(ctx, longestWait, fmt.Errorf("not so after %v", longestWait))
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(s.ctx, func() { end(errEnded) })()
	s.mutex.Lock()
	s.running++
	s.mutex.Unlock()
	problem := ""
	if err := s.run(ctx, step); err != nil {
		problem = err.Error()
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.running--
	s.posted++
	s.note(step.Do, problem)
	return problem
}

// What the session came to, when the runner says that it passed: it is so only if everything that was
// to be done was done, and was ok.
func (s *session) verdict() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.problem != "" {
		return s.problem
	}
	posted, judged := s.scenario.Least()
	if s.posted < posted {
		return fmt.Sprintf("%d steps of the host were posted, %d are in the scenario", s.posted, posted)
	}
	if s.judged < judged {
		return fmt.Sprintf("%d answers were judged, %d are to be", s.judged, judged)
	}
	return ""
}

// Ends what waits, and all faults: what the client does in the background from now on succeeds. Tells
// whether the proxy was down.
func (s *session) end() (wasDown bool, err error) {
	s.cancel(errEnded)
	s.proxy.ClearFaults()
	return s.proxy.IsDown(), s.proxy.Up()
}

// Lets the client finish what it does in the background, until it has closed its connections. One that
// was shut out may come back first.
func (s *session) farewell(ctx context.Context, wasDown bool) {
	ctx, cancel := context.WithTimeout(ctx, longestFarewell)
	defer cancel()
	if wasDown && s.proxy.AwaitConnections(ctx, true) != nil {
		return
	}
	// A client that stays is cut off.
	_ = s.proxy.AwaitConnections(ctx, false)
}

func (s *session) close() error {
	s.proxy.Close()
	if s.ownService {
		return s.service.stop()
	}
	return nil
}
