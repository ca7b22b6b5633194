package host

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func (r *replayed) recorded() Result {
	r.t.Helper()
	return readResults(r.t, r.results)["test"]["t/plain"]
}

func TestAPassedScenarioIsRecorded(t *testing.T) {
	session := newRunner(t).open("t/plain")
	session.expectOK(otherBegin)
	if problem := session.judge(`{"unprotected": 0}`, `{"unprotected": 0}`); problem != "" {
		t.Error(problem)
	}
	if problem := session.problem("end", `{"passed": true}`); problem != "" {
		t.Error(problem)
	}
	if result := session.recorded(); !result.Passed || result.Problem != "" {
		t.Errorf("%+v", result)
	}
}

func TestAFailedScenarioIsRecordedWithItsProblem(t *testing.T) {
	session := newRunner(t).open("t/plain")
	session.problem("end", `{"passed": false, "problem": "it hung"}`)
	if result := session.recorded(); result.Passed || result.Problem != "it hung" {
		t.Errorf("%+v", result)
	}
}

func TestARunnerThatLeavesStepsOutHasNotPassed(t *testing.T) {
	for name, replay := range map[string]func(*replayed){
		"nothing posted": func(r *replayed) { r.judge(`{}`, `{}`) },
		"nothing judged": func(r *replayed) { r.expectOK(otherBegin) },
		"a step that was not ok": func(r *replayed) {
			r.step(`{"do": "other_renew", "as": "nobody"}`)
			r.judge(`{}`, `{}`)
		},
		"a verdict that was not ok": func(r *replayed) {
			r.expectOK(otherBegin)
			r.judge(`{"unprotected": 0}`, `{"unprotected": 1}`)
			r.judge(`{"unprotected": 0}`, `{"unprotected": 0}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			session := newRunner(t).open("t/plain")
			replay(session)
			if problem := session.problem("end", `{"passed": true}`); problem == "" {
				t.Error("the host believes it")
			}
			if result := session.recorded(); result.Passed || result.Problem == "" {
				t.Errorf("%+v", result)
			}
		})
	}
}

func TestJudgingRemembersWords(t *testing.T) {
	session := newRunner(t).open("t/plain")
	session.judge(`{"record_id": "$r"}`, `{"record_id": "1"}`)
	if problem := session.judge(`{"record_id": "$r"}`, `{"record_id": "2"}`); problem == "" {
		t.Error("another value was taken")
	}
}

func TestAnEndedSessionIsNotThereAnyMore(t *testing.T) {
	session := newRunner(t).open("t/plain")
	session.problem("end", `{"passed": false}`)
	for _, path := range []string{"steps", "judge", "end"} {
		if status, answer := session.call("POST", "/sessions/"+session.id+"/"+path, `{}`); status != 404 {
			t.Errorf("%s: %d %v", path, status, answer)
		}
	}
}

func TestAClientMayFinishWhenItsSessionHasEnded(t *testing.T) {
	session := newRunner(t).open("t/plain")
	session.expectOK(`{"do": "fault", "method": "Lookup", "fault": "refuse", "code": "UNAVAILABLE", "times": "always"}`)
	client := session.dial()
	if err := session.lookupBy(client); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	session.problem("end", `{"passed": false}`)
	if err := session.lookupBy(client); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
}

func TestThereAreOnlySoManySessions(t *testing.T) {
	runner := newRunner(t)
	var opened []*replayed
	for range maxSessions {
		opened = append(opened, runner.open("t/plain"))
	}
	const ask = `{"scenario": "t/plain", "language": "test"}`
	status, answer := runner.call("POST", "/sessions", ask)
	if text, _ := answer["error"].(string); status != 429 || !strings.Contains(text, "3 sessions") {
		t.Errorf("%d %v", status, answer)
	}
	opened[0].problem("end", `{"passed": false}`)
	status, answer = runner.call("POST", "/sessions", ask)
	if status != http.StatusOK {
		t.Fatalf("there is no room again: %d %v", status, answer)
	}
	runner.call("POST", "/sessions/"+answer["id"].(string)+"/end", `{"passed": false}`)
}

func TestWhatTheHostDoesNotKnowIsRefused(t *testing.T) {
	runner := newRunner(t)
	session := runner.open("t/plain")
	for _, test := range []struct {
		path, body string
		status     int
	}{
		{"/sessions", `{"scenario": "t/none", "language": "test"}`, 404},
		{"/sessions", `{"scenario": "t/plain"}`, 400},
		{"/sessions", `{"scenario": "t/plain", "language": "test", "speed": 1}`, 400},
		{"/sessions", `no JSON`, 400},
		{"/sessions/none/steps", `{}`, 404},
		{"/sessions/" + session.id + "/steps", `{"do": "signal", "nmae": "x"}`, 400},
		{"/sessions/" + session.id + "/steps", `{} {}`, 400},
	} {
		status, answer := runner.call("POST", test.path, test.body)
		if _, told := answer["error"].(string); status != test.status || !told {
			t.Errorf("%s %s: %d %v", test.path, test.body, status, answer)
		}
	}
}
