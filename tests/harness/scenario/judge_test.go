package scenario

import (
	"strings"
	"testing"
)

func parse(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := Decode(strings.NewReader(text), &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		name, expect, actual string
		ok                   bool
	}{
		{"equal text", `"a"`, `"a"`, true},
		{"another text", `"a"`, `"b"`, false},
		{"a number is no text", `"1"`, `1`, false},
		{"equal by value", `8`, `8.0`, true},
		{"equal by value with an exponent", `5000000`, `5e6`, true},
		{"large numbers are compared exactly", `9007199254740993`, `9007199254740992`, false},
		{"true", `true`, `true`, true},
		{"true is not 1", `true`, `1`, false},
		{"false is not absent", `{"a": false}`, `{}`, false},
		{"members left out are not compared", `{"a": 1}`, `{"a": 1, "b": 2}`, true},
		{"a member is missing", `{"a": 1}`, `{"b": 2}`, false},
		{"a member differs deep inside", `{"a": {"b": {"c": 1}}}`, `{"a": {"b": {"c": 2}}}`, false},
		{"an object is expected", `{"a": {"b": 1}}`, `{"a": [1]}`, false},
		{"an empty object is expected", `{"a": {}}`, `{}`, false},
		{"equal lists", `[["a", "b"], {"base64": "/w=="}]`, `[["a", "b"], {"base64": "/w=="}]`, true},
		{"lists in another order", `["a", "b"]`, `["b", "a"]`, false},
		{"a longer list", `["a"]`, `["a", "b"]`, false},
		{"a shorter list", `["a", "b"]`, `["a"]`, false},
		{"an object in a list has all its members", `[{"a": 1}]`, `[{"a": 1, "b": 2}]`, false},
		{"an empty list", `[]`, `[]`, true},
		{"an empty list is not absent", `{"a": []}`, `{}`, false},
		{"absent", `{"a": {"$absent": true}}`, `{}`, true},
		{"null is absent", `{"a": {"$absent": true}}`, `{"a": null}`, true},
		{"empty is not absent", `{"a": {"$absent": true}}`, `{"a": ""}`, false},
		{"not absent", `{"a": {"$absent": false}}`, `{"a": ""}`, true},
		{"present", `{"a": {"$present": true}}`, `{"a": 0}`, true},
		{"not present", `{"a": {"$present": true}}`, `{}`, false},
		{"at least, at the bound", `{"$at_least": 3}`, `3`, true},
		{"at least, below", `{"$at_least": 3}`, `2`, false},
		{"at most, at the bound", `{"$at_most": 3}`, `3`, true},
		{"at most, above", `{"$at_most": 3}`, `3.5`, false},
		{"at least of no number", `{"$at_least": 3}`, `"4"`, false},
		{"at least of nothing", `{"a": {"$at_least": 3}}`, `{}`, false},
		{"in", `{"$in": ["a", "b"]}`, `"b"`, true},
		{"not in", `{"$in": ["a", "b"]}`, `"c"`, false},
		{"in nothing", `{"$in": []}`, `"c"`, false},
		{"not", `{"$not": "a"}`, `"b"`, true},
		{"not not", `{"$not": "a"}`, `"a"`, false},
		{"not, nested", `{"a": {"$not": {"b": 1}}}`, `{"a": {"b": 2}}`, true},
		{"a word without a value cannot be denied", `{"$not": "$x"}`, `"b"`, false},
		{"an unknown operator", `{"$like": "a"}`, `"a"`, false},
		{"an operator beside a member", `{"$absent": true, "a": 1}`, `{"a": 1}`, false},
		{"a word of an absent member", `{"a": "$x"}`, `{}`, false},
		{"a word twice, the same", `{"a": "$x", "b": "$x"}`, `{"a": 1, "b": 1}`, true},
		{"a word twice, another", `{"a": "$x", "b": "$x"}`, `{"a": 1, "b": 2}`, false},
		{"nothing is expected", `{}`, `{"a": 1}`, true},
		{"not even an object", `null`, `{"a": 1}`, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var judge Judge
			problem := judge.Compare(parse(t, test.expect), parse(t, test.actual))
			if (problem == "") != test.ok {
				t.Errorf("expect %s, actual %s: %q", test.expect, test.actual, problem)
			}
		})
	}
}

func TestAWordKeepsItsValueOverTheSession(t *testing.T) {
	var judge Judge
	if problem := judge.Compare(parse(t, `{"id": "$x"}`), parse(t, `{"id": "r-1"}`)); problem != "" {
		t.Fatal(problem)
	}
	if problem := judge.Compare(parse(t, `{"id": "$x"}`), parse(t, `{"id": "r-1"}`)); problem != "" {
		t.Error(problem)
	}
	if judge.Compare(parse(t, `{"id": "$x"}`), parse(t, `{"id": "r-2"}`)) == "" {
		t.Error("another value was taken for the word's")
	}
	if judge.Compare(parse(t, `{"id": {"$not": "$x"}}`), parse(t, `{"id": "r-1"}`)) == "" {
		t.Error("the word's value was taken for another one")
	}
	if problem := judge.Compare(parse(t, `{"id": {"$not": "$x"}}`), parse(t, `{"id": "r-2"}`)); problem != "" {
		t.Error(problem)
	}
}

func TestAComparisonThatFailsGivesNoWordAValue(t *testing.T) {
	var judge Judge
	if judge.Compare(parse(t, `{"id": "$x", "state": "A"}`), parse(t, `{"id": 1, "state": "B"}`)) == "" {
		t.Fatal("it was to fail")
	}
	if problem := judge.Compare(parse(t, `{"id": "$x"}`), parse(t, `{"id": 2}`)); problem != "" {
		t.Error(problem)
	}
}

func TestAProblemNamesTheMembersThatDiffer(t *testing.T) {
	var judge Judge
	problem := judge.Compare(parse(t, `{"outcome": {"body": "x"}, "runs": 1}`),
		parse(t, `{"outcome": {"body": "y"}, "runs": 2}`))
	for _, part := range []string{`outcome.body is "y", expected "x"`, `runs is 2, expected 1`} {
		if !strings.Contains(problem, part) {
			t.Errorf("%q is not in %q", part, problem)
		}
	}
}

func TestAProblemIsCutWhereItIsLong(t *testing.T) {
	var judge Judge
	problem := judge.Compare("x", strings.Repeat("y", 1<<20))
	if len(problem) > 1000 {
		t.Errorf("%d bytes", len(problem))
	}
}
