package scenario

import "testing"

// Directory of the scenarios that the clients replay.
const directory = "../../../client/scenarios"

func TestEveryScenarioCanBeReplayed(t *testing.T) {
	scenarios, err := LoadDirectory(directory)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d scenarios", len(scenarios))
}
