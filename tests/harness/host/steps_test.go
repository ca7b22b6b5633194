package host

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"idempotencyd/tests/harness/eventually"
)

func TestTheHostTellsItsServiceAndScenarios(t *testing.T) {
	runner := newRunner(t)
	if _, answer := runner.call("GET", "/service", ""); answer["target"] != runner.host.Target() {
		t.Errorf("%v", answer)
	}
	answer, err := http.Get(runner.address + "/scenarios")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text := make([]byte, 1000)
	n, _ := answer.Body.Read(text)
	want := `[{"name":"t/plain","title":"Plain"},{"name":"t/own","title":"Own"}]`
	if got := strings.TrimSpace(string(text[:n])); got != want {
		t.Errorf("%s", got)
	}
}

func TestASessionHasKeysOfItsOwn(t *testing.T) {
	runner := newRunner(t)
	one, two := runner.open("t/plain"), runner.open("t/plain")
	key := func(r *replayed) any { return r.steps[0].(map[string]any)["key"].(map[string]any)["idempotency_key"] }
	if key(one) == key(two) || key(one) != "k-"+one.id {
		t.Errorf("%v, %v", key(one), key(two))
	}
	if one.target == two.target || one.client["rpc_timeout_ms"] != 500.0 {
		t.Errorf("%v", one)
	}
}

func TestAnotherCallerOwnsAndFinishes(t *testing.T) {
	session := newRunner(t).open("t/plain")
	session.expectOK(
		strings.TrimSuffix(otherBegin, "}")+`, "lease_duration_ms": 5000,
			"expect": {"result": "started", "attempt_number": 1, "unknown_attempts": 0, "record_id": "$r"}}`,
		strings.Replace(otherBegin, `"as": "a"`, `"as": "b", "expect": {"result": "in_progress"}`, 1),
		`{"do": "other_renew", "as": "a", "lease_duration_ms": 60000, "expect": {"ok": true}}`,
		`{"do": "other_lookup", "key": "k", "expect": {"state": "IN_PROGRESS", "record_id": "$r"}}`,
		`{"do": "other_complete", "as": "b", "outcome": {"status_code": 200},
			"expect": {"error": {"reason": "LEASE_LOST", "code": "ABORTED"}}}`,
		`{"do": "other_complete", "as": "a", "outcome": {"status_code": 201, "headers": [["A", "b"]],
			"body": {"base64": "/w=="}}, "expect": {"ok": true}}`,
		`{"do": "await_state", "key": "k", "state": "COMPLETED"}`,
		`{"do": "other_lookup", "key": "k", "expect": {"state": "COMPLETED", "outcome": {"status_code": 201,
			"headers": [["A", "b"]], "body": {"base64": "/w=="}, "body_size": 1}}}`,
		strings.TrimSuffix(otherBegin, "}")+`, "expect": {"result": "replay", "outcome": {"status_code": 201}}}`,
	)
}

func TestAnotherCallersFailure(t *testing.T) {
	session := newRunner(t).open("t/plain")
	session.expectOK(otherBegin,
		`{"do": "other_fail", "as": "a", "failure": {"disposition": "not_applied", "code": "X", "message": "m"}}`,
		`{"do": "other_lookup", "key": "k", "expect": {"state": "RELEASED",
			"failure": {"disposition": "not_applied", "code": "X", "message": "m", "outcome": {"$absent": true}}}}`,
		strings.TrimSuffix(otherBegin, "}")+`, "expect": {"result": "started", "attempt_number": 2,
			"previous_attempt": {"attempt_number": 1, "disposition": "not_applied"}}}`)
}

func TestARefusalThatNobodyExpectedIsNotOK(t *testing.T) {
	session := newRunner(t).open("t/plain")
	session.expectProblem(`{"do": "other_lookup", "key": "k"}`, "NotFound")
	session.expectProblem(`{"do": "other_lookup", "key": "k", "expect": {"state": "COMPLETED"}}`, "NotFound")
	session.expectOK(`{"do": "other_lookup", "key": "k", "expect": {"error": {"reason": "RECORD_NOT_FOUND"}}}`)
}

func TestStepsThatCannotBeDoneAreNotOK(t *testing.T) {
	session := newRunner(t).open("t/plain")
	for step, part := range map[string]string{
		`{"do": "run_once"}`: "no step of the host",
		`{"do": "fault", "method": "Begin", "fault": "burn"}`:               "burn",
		`{"do": "fault", "fault": "hang"}`:                                  "method",
		`{"do": "listener", "state": "sideways"}`:                           "sideways",
		`{"do": "other_renew", "as": "nobody"}`:                             "nobody",
		`{"do": "other_begin", "as": "a"}`:                                  "needs",
		`{"do": "other_lookup"}`:                                            "key",
		`{"do": "await_state", "key": "k", "state": "DONE"}`:                "DONE",
		`{"do": "kill_replica"}`:                                            "own_service",
		`{"do": "database", "state": "down"}`:                               "own_service",
		`{"do": "calls", "method": "Begin", "expect": {"count": 1}}`:        "count is 0",
		`{"do": "await_calls", "method": "Begin", "count": 1, "code": "X"}`: "X",
	} {
		session.expectProblem(step, part)
	}
}

func TestFaultsAndCallsAreTheSessionsOwn(t *testing.T) {
	runner := newRunner(t)
	one, two := runner.open("t/plain"), runner.open("t/plain")
	one.expectOK(`{"do": "fault", "method": "Lookup", "fault": "refuse", "code": "ABORTED", "times": "always"}`)
	if err := one.lookup(); status.Code(err) != codes.Aborted {
		t.Error(err)
	}
	if err := two.lookup(); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	one.expectOK(`{"do": "await_calls", "method": "Lookup", "count": 1, "code": "ABORTED"}`,
		`{"do": "calls", "method": "Lookup", "expect": {"count": 1, "connections": 1, "distinct_requests": 1,
			"attempt_ids": 0, "shares_connection_with": {"Lookup": true, "Begin": false},
			"shares_connection_with_waits": false}}`,
		`{"do": "clear_faults"}`)
	if err := one.lookup(); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	one.expectOK(`{"do": "listener", "state": "down"}`)
	if err := one.lookup(); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	one.expectOK(`{"do": "listener", "state": "up"}`)
	if err := one.lookup(); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	two.expectOK(`{"do": "calls", "method": "Lookup", "expect": {"count": 1}}`)
}

func TestASignalLetsAnotherStepGoOn(t *testing.T) {
	session := newRunner(t).open("t/plain")
	waited := make(chan string)
	go func() { waited <- session.step(`{"do": "await_signal", "name": "go"}`) }()
	session.expectOK(`{"do": "signal", "name": "go"}`, `{"do": "signal", "name": "go"}`)
	if problem := <-waited; problem != "" {
		t.Error(problem)
	}
}

func TestAWaitEndsWithItsSession(t *testing.T) {
	session := newRunner(t).open("t/plain")
	waited := make(chan string)
	go func() {
		waited <- session.step(`{"do": "await_calls", "method": "Begin", "count": 1, "started": true}`)
	}()
	inner, err := session.host.session(session.id)
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the wait has begun", func() bool {
		inner.mutex.Lock()
		defer inner.mutex.Unlock()
		return inner.running == 1
	})
	session.problem("end", `{"passed": false, "problem": "gave up"}`)
	if problem := <-waited; !strings.Contains(problem, "ended") {
		t.Errorf("%q", problem)
	}
}

func TestAServiceOfItsOwn(t *testing.T) {
	session := newRunner(t).open("t/own")
	begin := func(as, expect string) string {
		return strings.Replace(otherBegin, `"as": "a"`, `"as": "`+as+`", "expect": `+expect, 1)
	}
	session.expectOK(begin("a", `{"result": "started"}`), `{"do": "kill_replica"}`)
	if err := session.lookup(); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	session.expectOK(`{"do": "start_replica"}`, begin("b", `{"result": "in_progress"}`),
		`{"do": "database", "state": "down"}`,
		`{"do": "other_lookup", "key": "k", "expect": {"error": {"reason": "STORE_UNAVAILABLE"}}}`,
		`{"do": "database", "state": "up"}`,
		`{"do": "await_state", "key": "k", "state": "IN_PROGRESS"}`)
	if shared := newRunner(t).open("t/plain"); status.Code(shared.lookup()) != codes.NotFound {
		t.Error("the service that the others share has gone as well")
	}
}
