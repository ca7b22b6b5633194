package idempotency_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"idempotencyd/client/go"
)

const hostVariable = "IDEMPOTENCY_SCENARIO_HOST"

// TestScenarios replays client/scenarios against a real service: see the README
// there.
func TestScenarios(t *testing.T) {
	host := os.Getenv(hostVariable)
	if host == "" {
		t.Skip("no scenario host: " + hostVariable + " is not set (./dev test sets it)")
	}
	var list []struct{ Name, Title string }
	ask(t, http.MethodGet, host+"/scenarios", nil, &list)
	if len(list) == 0 {
		t.Fatal("the host has no scenarios")
	}
	for _, scenario := range list {
		t.Run(scenario.Name, func(t *testing.T) {
			t.Parallel()
			replay(t, host, scenario.Name)
		})
	}
}

// ask sends body as JSON and reads the answer into into.
func ask(t *testing.T, method, address string, body, into any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	// Not the test's context, which ends before the session can be told.
	request, err := http.NewRequestWithContext(context.Background(), method, address, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s, %v", address, response.Status, answer, err)
	}
	if err := json.Unmarshal(answer, into); err != nil {
		t.Fatalf("%s: %s: %v", address, answer, err)
	}
}

// session is one scenario under way.
type session struct {
	t       *testing.T
	address string
	client  *idempotency.Client
	calls   map[string]*scenarioCall

	mu     sync.Mutex // guards what follows
	failed string
	hooks  hookReport
}

// hookReport is what a step hooks judges.
type hookReport struct {
	OutcomeNotRecorded []idempotency.Kind `json:"outcome_not_recorded"`
	Unprotected        int                `json:"unprotected"`
	Retries            map[string]int     `json:"retries"`
	Refreshes          int                `json:"refreshes"`
	UnprotectedRuns    uint64             `json:"unprotected_runs"`
}

// scenarioCall is one run_once, done in a goroutine of its own.
type scenarioCall struct {
	cancel context.CancelFunc
	done   chan struct{}
	report map[string]any // after done
}

func replay(t *testing.T, host, name string) {
	var opened struct {
		ID, Target string
		Client     struct {
			RPCTimeoutMS      int64 `json:"rpc_timeout_ms"`
			RecordTimeoutMS   int64 `json:"record_timeout_ms"`
			ShutdownTimeoutMS int64 `json:"shutdown_timeout_ms"`
		}
		Steps []json.RawMessage
	}
	ask(t, http.MethodPost, host+"/sessions", map[string]string{"scenario": name, "language": "go"}, &opened)
	s := &session{t: t, address: host + "/sessions/" + opened.ID, calls: map[string]*scenarioCall{},
		hooks: hookReport{OutcomeNotRecorded: []idempotency.Kind{}, Retries: map[string]int{}}}
	client, err := idempotency.New(opened.Target, idempotency.ClientOptions{
		Credentials:     insecure.NewCredentials(),
		RPCTimeout:      milliseconds(opened.Client.RPCTimeoutMS),
		RecordTimeout:   milliseconds(opened.Client.RecordTimeoutMS),
		ShutdownTimeout: milliseconds(opened.Client.ShutdownTimeoutMS),
		Hooks:           s.observe(),
		Logger:          slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.client = client
	for i, step := range opened.Steps {
		if s.do(step); s.problem() != "" {
			s.fail(fmt.Sprintf("step %d: %s", i+1, step))
			break
		}
	}
	verdict := map[string]any{"passed": s.problem() == "", "problem": s.problem()}
	var answer hostAnswer
	ask(t, http.MethodPost, s.address+"/end", verdict, &answer)
	if problem := s.problem(); problem != "" || !answer.OK {
		t.Error(problem, answer.Problem)
	}
	for _, call := range s.calls {
		call.cancel()
		<-call.done
	}
	_ = client.Close() // what a scenario leaves unrecorded is its own affair
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func (s *session) observe() idempotency.Hooks {
	with := func(note func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		note()
	}
	return idempotency.Hooks{
		OnOutcomeNotRecorded: func(_ idempotency.Key, _ idempotency.WorkResult, err *idempotency.Error) {
			with(func() { s.hooks.OutcomeNotRecorded = append(s.hooks.OutcomeNotRecorded, err.Kind) })
		},
		OnRetry:            func(rpc string, _ *idempotency.Error) { with(func() { s.hooks.Retries[rpc]++ }) },
		OnUnprotected:      func(idempotency.Key, *idempotency.Error) { with(func() { s.hooks.Unprotected++ }) },
		RefreshCredentials: func() { with(func() { s.hooks.Refreshes++ }) },
	}
}

type hostAnswer struct {
	OK      bool
	Problem string
}

func (s *session) problem() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

func (s *session) fail(problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed += problem + "\n"
}

// judge lets the host compare.
func (s *session) judge(expect json.RawMessage, actual any) {
	if expect == nil {
		return
	}
	var answer hostAnswer
	ask(s.t, http.MethodPost, s.address+"/judge", map[string]any{"expect": expect, "actual": actual}, &answer)
	if !answer.OK {
		text, _ := json.Marshal(actual)
		s.fail(fmt.Sprintf("%s in %.2000s", answer.Problem, text))
	}
}

// do does one step outside fn.
func (s *session) do(raw json.RawMessage) {
	var step scenarioStep
	if err := json.Unmarshal(raw, &step); err != nil {
		s.fail(err.Error())
		return
	}
	switch step.Do {
	case "run_once":
		call := s.start(step)
		s.calls[step.Call] = call
		if !step.Background {
			<-call.done
			s.judge(step.Expect, call.report)
		}
	case "await":
		call := s.calls[step.Call]
		<-call.done
		s.judge(step.Expect, call.report)
	case "cancel":
		s.calls[step.Call].cancel()
	case "lookup":
		record, err := s.client.Lookup(s.t.Context(), step.Key.typed(), step.IncludeBody)
		s.judge(step.Expect, lookupReport(record, err))
	case "hooks":
		s.mu.Lock()
		report := s.hooks
		report.OutcomeNotRecorded = slices.Clone(report.OutcomeNotRecorded)
		report.Retries = maps.Clone(report.Retries)
		s.mu.Unlock()
		report.UnprotectedRuns = s.client.UnprotectedRuns()
		s.judge(step.Expect, report)
	case "close":
		if err := s.client.Close(); err != nil {
			s.fail(err.Error())
		}
	default:
		s.host(raw)
	}
}

// host lets the host do a step that is its own.
func (s *session) host(raw json.RawMessage) {
	var answer hostAnswer
	ask(s.t, http.MethodPost, s.address+"/steps", raw, &answer)
	if !answer.OK {
		s.fail(answer.Problem)
	}
}

// start begins a run_once and returns.
func (s *session) start(step scenarioStep) *scenarioCall {
	// Not the test's context: a scenario that fails early still cancels its calls.
	ctx, cancel := context.WithCancel(context.Background())
	call := &scenarioCall{cancel: cancel, done: make(chan struct{})}
	if limit := step.Options.DeadlineMS; limit != nil {
		ctx, call.cancel = context.WithTimeout(ctx, milliseconds(*limit))
	}
	work := &scenarioWork{session: s, cancel: cancel, steps: step.Fn}
	fn := work.run
	if step.Fn == nil {
		fn = nil
	}
	go func() {
		defer close(call.done)
		call.report = work.watch(func() (idempotency.Result, error) {
			return s.client.RunOnce(ctx, step.Key.typed(), step.Request.typed(), step.expiry(), fn, step.options()...)
		})
	}()
	return call
}

// crash is the value that work panics with.
type crash struct{}

// watch reports what a call came to, also one that panics.
func (w *scenarioWork) watch(call func() (idempotency.Result, error)) (report map[string]any) {
	defer func() {
		if value := recover(); value == (crash{}) {
			report = map[string]any{"threw": true, "failure": map[string]any{"disposition": "unknown"}}
			w.addTo(report)
		} else if value != nil {
			panic(value)
		}
	}()
	result, err := call()
	report = resultReport(result, err)
	w.addTo(report)
	return report
}
