package host

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func readResults(t *testing.T, path string) map[string]map[string]Result {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]map[string]Result
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestResultsOfOtherLanguagesStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	passed, failed := Result{Passed: true}, Result{Problem: "p"}
	first := newResults(path)
	for _, name := range []string{"a/old", "a/new"} {
		if err := first.add("go", name, passed); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.add("java", "a/new", failed); err != nil {
		t.Fatal(err)
	}
	second := newResults(path)
	if err := second.begin("go"); err != nil {
		t.Fatal(err)
	}
	if err := second.add("go", "a/new", failed); err != nil {
		t.Fatal(err)
	}
	if err := second.begin("go"); err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]Result{"go": {"a/new": failed}, "java": {"a/new": failed}}
	if all := readResults(t, path); !reflect.DeepEqual(all, want) {
		t.Errorf("%v", all)
	}
}

func TestTheLastResultOfAScenarioCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	results := newResults(path)
	for _, result := range []Result{{Passed: true}, {Problem: "p"}} {
		if err := results.add("go", "a/b", result); err != nil {
			t.Fatal(err)
		}
	}
	if all := readResults(t, path); all["go"]["a/b"].Passed {
		t.Errorf("%v", all)
	}
}

func TestAFileThatCannotBeReadIsNotOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	if err := os.WriteFile(path, []byte("no results"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := newResults(path).add("go", "a/b", Result{Passed: true}); err == nil {
		t.Error("it was written")
	}
}
