package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
	"idempotencyd/tests/harness/scenario"
)

const (
	maxSessions = 3
	request     = `{"operation": "o", "payload": {"data": "x", "content_type": "text/plain"}}`
	otherBegin  = `{"do": "other_begin", "as": "a", "key": "k", "on_lease_expiry": "TAKE_OVER", "request": ` +
		request + `}`
	scenarios = `[
		{"name": "t/plain", "title": "Plain", "client": {"rpc_timeout_ms": 500}, "steps": [
			` + otherBegin + `,
			{"do": "hooks", "expect": {"unprotected": 0}}]},
		{"name": "t/own", "title": "Own", "own_service": true, "steps": [{"do": "kill_replica"}]}]`
)

// A host for one test, and the words of a runner.
type runner struct {
	t       *testing.T
	host    *Host
	address string
	results string
}

// The host that the tests share: it takes a second to start.
var shared struct {
	host    *Host
	results string
}

// Starts it, once, also if that fails.
var startShared = sync.OnceValue(func() error {
	directory, err := os.MkdirTemp("", "harness-test-")
	if err != nil {
		return err
	}
	shared.results = filepath.Join(directory, "results.json")
	var offered []scenario.Scenario
	if err := scenario.Decode(strings.NewReader(scenarios), &offered); err != nil {
		return err
	}
	shared.host, err = Start(context.Background(), Options{
		Binary: os.Getenv("IDEMPOTENCYD"), Scenarios: offered, Results: shared.results,
		MaxSessions: maxSessions,
	})
	return err
})

func TestMain(m *testing.M) {
	status := m.Run()
	if shared.host != nil {
		if err := shared.host.Close(); err != nil {
			panic(err)
		}
	}
	if shared.results != "" {
		os.RemoveAll(filepath.Dir(shared.results))
	}
	os.Exit(status)
}

func newRunner(t *testing.T) *runner {
	t.Helper()
	if os.Getenv("IDEMPOTENCYD") == "" {
		t.Skip("IDEMPOTENCYD names no binary")
	}
	if err := startShared(); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(shared.host.ServeMux())
	t.Cleanup(server.Close)
	return &runner{t: t, host: shared.host, address: server.URL, results: shared.results}
}

func (r *runner) call(method, path, body string) (int, map[string]any) {
	r.t.Helper()
	asked, err := http.NewRequest(method, r.address+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(asked)
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(answer.Body); err != nil {
		r.t.Fatal(err)
	}
	var value map[string]any
	if err := json.Unmarshal(text.Bytes(), &value); err != nil {
		r.t.Fatalf("%s: %v", text.Bytes(), err)
	}
	return answer.StatusCode, value
}

// What a runner knows of its session.
type replayed struct {
	*runner
	id     string
	target string
	client map[string]any
	steps  []any
}

func (r *runner) open(name string) *replayed {
	r.t.Helper()
	status, answer := r.call("POST", "/sessions", fmt.Sprintf(`{"scenario": %q, "language": "test"}`, name))
	if status != http.StatusOK {
		r.t.Fatalf("%d %v", status, answer)
	}
	opened := &replayed{
		runner: r, id: answer["id"].(string), target: answer["target"].(string),
		client: answer["client"].(map[string]any), steps: answer["steps"].([]any),
	}
	// For tests that end without ending their session.
	r.t.Cleanup(func() { r.call("POST", "/sessions/"+opened.id+"/end", `{"passed": false}`) })
	return opened
}

// Posts a step that is given as in a file. Returns the problem.
func (r *replayed) step(text string) string {
	r.t.Helper()
	text = strings.ReplaceAll(text, `"key": "k"`, fmt.Sprintf(
		`"key": {"merchant_id": "acme", "idempotency_key": "k-%s"}`, r.id))
	return r.problem("steps", text)
}

func (r *replayed) judge(expect, actual string) string {
	r.t.Helper()
	return r.problem("judge", fmt.Sprintf(`{"expect": %s, "actual": %s}`, expect, actual))
}

func (r *replayed) problem(path, body string) string {
	r.t.Helper()
	status, answer := r.call("POST", "/sessions/"+r.id+"/"+path, body)
	if status != http.StatusOK {
		r.t.Fatalf("%d %v", status, answer)
	}
	problem, _ := answer["problem"].(string)
	if (problem == "") != answer["ok"].(bool) {
		r.t.Fatalf("%v", answer)
	}
	return problem
}

func (r *replayed) expectOK(steps ...string) {
	r.t.Helper()
	for _, step := range steps {
		if problem := r.step(step); problem != "" {
			r.t.Errorf("%s: %s", step, problem)
		}
	}
}

func (r *replayed) expectProblem(step, part string) {
	r.t.Helper()
	if problem := r.step(step); !strings.Contains(problem, part) || problem == "" {
		r.t.Errorf("%s: %q, expected something with %q", step, problem, part)
	}
}

// A client of the session's target.
func (r *replayed) dial() idempotencyv1.IdempotencyServiceClient {
	r.t.Helper()
	connection, err := grpc.NewClient(r.target, grpc.WithDisableRetry(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { connection.Close() })
	return idempotencyv1.NewIdempotencyServiceClient(connection)
}

func (r *replayed) lookup() error { return r.lookupBy(r.dial()) }

func (r *replayed) lookupBy(client idempotencyv1.IdempotencyServiceClient) error {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err := client.Lookup(ctx, &idempotencyv1.LookupRequest{
		MerchantId: "acme", IdempotencyKey: "k-" + r.id,
	})
	return err
}
