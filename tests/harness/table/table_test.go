package table

import (
	"testing"

	"idempotencyd/tests/harness/host"
	"idempotencyd/tests/harness/scenario"
)

var scenarios = []scenario.Scenario{{Name: "lost_answers/begin"}, {Name: "work/throws"}, {Name: "lost_answers/fail"}}

func TestTableCountsByThemeAndLanguage(t *testing.T) {
	yes := host.Result{Passed: true}
	got := Table(scenarios, map[string]map[string]host.Result{
		"go":  {"lost_answers/begin": yes, "lost_answers/fail": yes, "work/throws": yes},
		"cpp": {"lost_answers/begin": yes, "work/throws": {Problem: "x"}},
	})
	want := `| scenarios | C++ | Go |
|---|---:|---:|
| [lost answers](scenarios/lost_answers.json) | 1 of 2 | 2 of 2 |
| [work](scenarios/work.json) | 0 of 1 | 1 of 1 |

Not passed:

- C++: lost_answers/fail
- C++: work/throws
`
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestReplaceKeepsTheRestOfThePage(t *testing.T) {
	got, err := Replace("head\n"+Begin+"\nold\n"+End+"\ntail\n", "new\n")
	if want := "head\n" + Begin + "\nnew\n" + End + "\ntail\n"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestReplaceRefusesAPageWithoutAPlace(t *testing.T) {
	for _, page := range []string{"", Begin + "\n", End} {
		if _, err := Replace(page, "new"); err == nil {
			t.Errorf("%q was taken", page)
		}
	}
}
