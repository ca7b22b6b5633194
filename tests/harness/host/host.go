package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"strings"
	"sync"
	"time"

	"idempotencyd/tests/harness/scenario"
)

const (
	// A runner that says nothing for so long is taken for dead.
	longestSilence = 10 * time.Minute
	watchPeriod    = time.Second
	// What the session's keys end in: short, since keys are.
	idLength = 12
)

// Options of a host.
type Options struct {
	// Binary is the path of idempotencyd.
	Binary string
	// Scenarios to offer.
	Scenarios []scenario.Scenario
	// Results is the file that the results are written to. Empty: none.
	Results string
	// MaxSessions is how many sessions there may be at once.
	MaxSessions int
	// LogCalls writes a line for each call of a client.
	LogCalls bool
}

// Host has the service and the sessions. Safe for concurrent use.
type Host struct {
	options   Options
	scenarios map[string]scenario.Scenario
	cluster   *cluster
	shared    *service
	results   *results
	// Ends with the host.
	ctx    context.Context
	cancel context.CancelFunc

	mutex    sync.Mutex
	sessions map[string]*session
	open     int // The sessions, and those that are being made.
	closing  sync.WaitGroup
}

// What a runner did wrong, or came too early for. Its text goes to the runner.
type refusal struct {
	status int
	text   string
}

func (r refusal) Error() string { return r.text }

// Start starts PostgreSQL and the replica that sessions share.
func Start(ctx context.Context, options Options) (*Host, error) {
	made, err := startCluster(ctx, options.Binary)
	if err != nil {
		return nil, err
	}
	shared, err := made.startService(ctx)
	if err != nil {
		return nil, errors.Join(err, made.stop())
	}
	// Not the caller's, who may only want the start to end in time.
	living, cancel := context.WithCancel(context.WithoutCancel(ctx))
	host := &Host{
		options: options, scenarios: map[string]scenario.Scenario{}, cluster: made, shared: shared,
		results: newResults(options.Results), sessions: map[string]*session{}, ctx: living, cancel: cancel,
	}
	for _, offered := range options.Scenarios {
		host.scenarios[offered.Name] = offered
	}
	go host.watch()
	return host, nil
}

// Close ends all sessions, the replicas and PostgreSQL.
func (h *Host) Close() error {
	h.cancel()
	h.mutex.Lock()
	left := h.sessions
	h.sessions = map[string]*session{}
	h.mutex.Unlock()
	for _, session := range left {
		h.discard(session)
	}
	h.closing.Wait()
	return errors.Join(h.shared.stop(), h.cluster.stop())
}

// Target is the address of the replica that all share.
func (h *Host) Target() string { return h.shared.replica.Address() }

// Opens a session, with a service of its own where the scenario says so.
func (h *Host) openSession(ctx context.Context, name, language string) (*session, error) {
	chosen, ok := h.scenarios[name]
	if !ok {
		return nil, refusal{404, fmt.Sprintf("there is no scenario %q", name)}
	}
	if language == "" || len(language) > 64 {
		return nil, refusal{400, "language: 1 to 64 bytes"}
	}
	if !h.reserve() {
		return nil, refusal{429, fmt.Sprintf("there are %d sessions already: end those that are done",
			h.options.MaxSessions)}
	}
	opened, err := h.makeSession(ctx, chosen, language)
	if err != nil {
		h.release()
		return nil, err
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.sessions[opened.id] = opened
	return opened, nil
}

func (h *Host) makeSession(ctx context.Context, chosen scenario.Scenario, language string) (*session, error) {
	if err := h.results.begin(language); err != nil {
		return nil, err
	}
	on := h.shared
	if chosen.OwnService {
		var err error
		if on, err = h.cluster.startService(ctx); err != nil {
			return nil, err
		}
	}
	id := strings.ToLower(rand.Text()[:idLength])
	opened, err := newSession(id, language, chosen, on, h.options.LogCalls)
	if err != nil {
		if chosen.OwnService {
			err = errors.Join(err, on.stop())
		}
		return nil, err
	}
	opened.ownService = chosen.OwnService
	return opened, nil
}

func (h *Host) reserve() bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.open >= h.options.MaxSessions {
		return false
	}
	h.open++
	return true
}

func (h *Host) release() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.open--
}

func (h *Host) session(id string) (*session, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	found, ok := h.sessions[id]
	if !ok {
		return nil, refusal{404, fmt.Sprintf("there is no session %q; it may have ended", id)}
	}
	found.touch()
	return found, nil
}

// Ends a session with what the runner says of it. Returns what is written down.
func (h *Host) end(id string, claimed Result) (Result, error) {
	h.mutex.Lock()
	ended, ok := h.sessions[id]
	delete(h.sessions, id)
	h.mutex.Unlock()
	if !ok {
		return Result{}, refusal{404, fmt.Sprintf("there is no session %q; it may have ended", id)}
	}
	result := claimed
	if claimed.Passed {
		result = Result{Passed: true}
		if problem := ended.verdict(); problem != "" {
			result = Result{Problem: problem}
		}
	} else if result.Problem == "" {
		result.Problem = "the runner does not say why"
	}
	err := h.results.add(ended.language, ended.scenario.Name, result)
	h.discard(ended)
	return result, err
}

// Stops what a session had, as soon as its client has gone.
func (h *Host) discard(ended *session) {
	wasDown, err := ended.end()
	h.release()
	h.closing.Go(func() {
		ended.farewell(h.ctx, wasDown)
		if err := errors.Join(err, ended.close()); err != nil {
			log.Printf("session %s (%s): %v", ended.id, ended.scenario.Name, err)
		}
	})
}

// Ends sessions whose runner has gone away.
func (h *Host) watch() {
	ticker := time.NewTicker(watchPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-ticker.C:
		}
		for _, id := range h.silent() {
			_, err := h.end(id, Result{Problem: "the runner went away"})
			var refused refusal
			if err != nil && !errors.As(err, &refused) {
				log.Printf("session %s: %v", id, err)
			}
		}
	}
}

func (h *Host) silent() []string {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	var ids []string
	for id, session := range h.sessions {
		if session.idle() > longestSilence {
			ids = append(ids, id)
		}
	}
	return ids
}
