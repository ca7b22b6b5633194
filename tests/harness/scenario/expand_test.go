package scenario

import (
	"strings"
	"testing"
)

func expanded(t *testing.T, text, suffix string) map[string]any {
	t.Helper()
	step, ok := parse(t, text).(map[string]any)
	if !ok {
		t.Fatalf("%s is no step", text)
	}
	steps, err := Scenario{Steps: []any{step}}.Expand(suffix)
	if err != nil {
		t.Fatal(err)
	}
	return steps[0].(map[string]any)
}

func TestAWordForAKeyIsAKeyOfTheSession(t *testing.T) {
	const text = `{"do": "run_once", "key": "k", "fn": [{"do": "await_state", "key": "other"}]}`
	step := expanded(t, text, "s1")
	want := parse(t, `{"do": "run_once", "key": {"merchant_id": "acme", "idempotency_key": "k-s1"}, "fn": [
		{"do": "await_state", "key": {"merchant_id": "acme", "idempotency_key": "other-s1"}}]}`)
	if !equal(want, step) {
		t.Errorf("%v", step)
	}
}

func TestAKeyThatIsNoWordStays(t *testing.T) {
	step := expanded(t, `{"do": "lookup", "key": {"merchant_id": "", "idempotency_key": "x"}}`, "s1")
	if !equal(parse(t, `{"merchant_id": "", "idempotency_key": "x"}`), step["key"]) {
		t.Errorf("%v", step["key"])
	}
}

func TestAMemberNamedKeyOfNoStepStays(t *testing.T) {
	step := expanded(t, `{"do": "run_once", "options": {"labels": {"key": "k"}}}`, "s1")
	if !equal(parse(t, `{"labels": {"key": "k"}}`), step["options"]) {
		t.Errorf("%v", step["options"])
	}
}

func TestRepeat(t *testing.T) {
	step := expanded(t, `{"do": "x", "body": {"$repeat": ["é", 3]}, "empty": {"$repeat": ["a", 0]}}`, "s")
	if step["body"] != "ééé" || step["empty"] != "" {
		t.Errorf("%v", step)
	}
}

func TestUniqueTextsDiffer(t *testing.T) {
	step := expanded(t, `{"do": "x", "a": {"$unique": 64}, "b": {"$unique": 64}}`, "s")
	a, b := step["a"].(string), step["b"].(string)
	if len(a) != 64 || len(b) != 64 || a == b {
		t.Errorf("%q, %q", a, b)
	}
}

func TestExpandingLeavesTheScenarioAsItIs(t *testing.T) {
	scenario := Scenario{Steps: []any{parse(t, `{"do": "lookup", "key": "k"}`)}}
	for range 2 {
		if _, err := scenario.Expand("s"); err != nil {
			t.Fatal(err)
		}
	}
	if !equal(parse(t, `[{"do": "lookup", "key": "k"}]`), scenario.Steps) {
		t.Errorf("%v", scenario.Steps)
	}
}

func TestWhatCannotBeExpandedIsAFault(t *testing.T) {
	for _, text := range []string{
		`{"$repeat": ["a"]}`, `{"$repeat": "a"}`, `{"$repeat": [1, 2]}`, `{"$repeat": ["a", -1]}`,
		`{"$repeat": ["a", 1.5]}`, `{"$repeat": ["aaaaaaaaaa", 60000000]}`, `{"$unique": 3}`, `{"$unique": "a"}`,
	} {
		if _, err := (Scenario{Steps: []any{parse(t, text)}}).Expand("s"); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}

func TestLeastCountsWhatTheRunnerCannotLeaveOut(t *testing.T) {
	scenario := Scenario{Steps: parse(t, `[
		{"do": "fault"}, {"do": "calls", "expect": {}}, {"do": "run_once", "expect": {}, "fn": [{"do": "fault"}]},
		{"do": "run_once", "background": true, "expect": {}}, {"do": "await", "expect": {}}, {"do": "await"},
		{"do": "hooks", "expect": {}}]`).([]any)}
	posted, judged := scenario.Least()
	if posted != 2 || judged != 3 {
		t.Errorf("%d posted, %d judged", posted, judged)
	}
}

func TestScenariosThatNobodyCouldReplayAreFaults(t *testing.T) {
	const run = `"do": "run_once", "call": "a", "key": "k", "request": {}, "on_lease_expiry": "HOLD"`
	const end = `{"do": "return", "work": {"kind": "unknown"}}`
	for name, test := range map[string]struct{ steps, problem string }{
		"an unknown step":        {`[{"do": "sleep"}]`, `no step "sleep"`},
		"a missing member":       {`[{"do": "listener"}]`, `"state" is missing`},
		"a member too many":      {`[{"do": "close", "now": true}]`, `no "now"`},
		"an unknown method":      {`[{"do": "calls", "method": "Start", "expect": {}}]`, `no method "Start"`},
		"an unknown fault":       {`[{"do": "fault", "method": "Begin", "fault": "burn"}]`, `no fault "burn"`},
		"an unknown code":        {`[{"do": "fault", "method": "Begin", "fault": "refuse", "code": "BAD"}]`, `"BAD"`},
		"a refusal without code": {`[{"do": "fault", "method": "Begin", "fault": "refuse"}]`, "code"},
		"a hanging call's code":  {`[{"do": "fault", "method": "Begin", "fault": "hang", "code": "ABORTED"}]`, "code"},
		"an unknown reason": {`[{"do": "fault", "method": "Begin", "fault": "refuse", "code": "ABORTED",
			"reason": "TIRED"}]`, "TIRED"},
		"no times":             {`[{"do": "fault", "method": "Begin", "fault": "hang", "times": 0}]`, "times"},
		"an unknown state":     {`[{"do": "await_state", "key": "k", "state": "DONE"}]`, "DONE"},
		"a call nobody made":   {`[{"do": "await", "call": "b"}]`, "named b"},
		"an attempt of nobody": {`[{"do": "other_renew", "as": "b"}]`, "named b"},
		"two calls of a name":  {`[{` + run + `, "fn": [` + end + `]}, {` + run + `, "fn": [` + end + `]}]`, "own"},
		"an unknown option":    {`[{` + run + `, "options": {"ttl": 1}, "fn": [` + end + `]}]`, `"ttl"`},
		"fn without an end":    {`[{` + run + `, "fn": [{"do": "await_stop"}]}]`, "comes to"},
		"fn with two ends":     {`[{` + run + `, "fn": [` + end + `, ` + end + `]}]`, "comes to"},
		"unknown work": {`[{` + run + `, "fn": [{"do": "return", "work": {"kind": "done"}}]}]`,
			`"done"`},
		"fn's step outside":      {`[{"do": "crash"}]`, "within fn"},
		"a call within fn":       {`[{` + run + `, "fn": [{"do": "close"}, ` + end + `]}]`, "within fn"},
		"others' service":        {`[{"do": "kill_replica"}]`, "own_service"},
		"an unknown word":        {`[{"do": "hooks", "expect": {"a": {"$some": 1}}}]`, "$some"},
		"a word beside a member": {`[{"do": "hooks", "expect": {"$absent": true, "a": 1}}]`, "alone"},
	} {
		t.Run(name, func(t *testing.T) {
			scenario := Scenario{Name: "a/b", Title: "t", Steps: parse(t, test.steps).([]any)}
			err := scenario.Validate()
			if err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%v, expected something about %q", err, test.problem)
			}
		})
	}
}
