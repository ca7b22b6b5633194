package chaos

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Planted is a fault that a test build of the server has when it is told to, by --planted=NAME: it proves that the checker would
// see such a fault in the real server. Release builds do not know them.
type Planted struct {
	Name, What string
	// The scenarios that expose it.
	Scenarios []string
}

// AllPlanted lists them.
var AllPlanted = []Planted{
	{"answer-before-ready", "answers at CommandComplete, before ReadyForQuery", []string{"1-commit-cut"}},
	{"skip-barrier", "answers from rows that were found without a commit that waits", []string{"4-cancelled-waits"}},
	{"no-attempt-check", "Complete does not compare the attempt", []string{"13-owner-paused", "14-late-complete"}},
	{"delete-on-fail", "Fail deletes the record", []string{"15-fail-then-storm"}},
	{"swap-results", "two results of a batch are swapped", []string{"19-poison", "26-caller-leaves"}},
	{"expire-live-leases", "a lease that is not over is taken over", []string{"11-begin-storm", "3-replica-killed"}},
	{"purge-unsettled", "the purge deletes records that are not settled", []string{"14-late-complete"}},
	{"cache-ignores-fingerprint", "a replay from memory compares no fingerprint", []string{"11-begin-storm"}},
	{"reuse-tokens", "a purged key's tokens begin anew", []string{"14-late-complete"}},
	{"trust-warning", "success with a warning is trusted", []string{"4-cancelled-waits"}},
	{"rerun-new-attempts", "a batch is run again with new attempt ids", []string{"1-commit-cut"}},
	{"cache-ignores-merchant", "the replay cache's key is without the merchant", []string{"11-begin-storm"}},
	{"drop-departed-completes", "a queued Complete is dropped when its caller leaves", []string{"26-caller-leaves"}},
	{"restart-late-duplicate", "a late duplicate of a Begin starts the work again", []string{"15-fail-then-storm"}},
	// By somebody who had not read the checker.
	{"complete-overwrites", "a second Complete with other content replaces the first", []string{"1-commit-cut", "14-late-complete"}},
	{"cut-long-bodies", "a long body is replayed without its last byte", []string{"1-commit-cut"}},
	{"reorder-headers", "headers are replayed in another order", []string{"1-commit-cut"}},
	{"forget-unknown", "a takeover does not count the attempt that ended unknown", []string{"1-commit-cut"}},
	{"new-record-on-takeover", "a takeover changes the record's id and downstream key", []string{"1-commit-cut"}},
	{"renew-not-kept", "Renew answers a lease that is not stored", []string{"1-commit-cut", "13-owner-paused"}},
	{"never-take-over", "a lease that is over is answered as in progress for ever", []string{"1-commit-cut", "3-replica-killed"}},
}

// caughtWithin is how long after the fault that exposes it a planted fault may go unnoticed.
const caughtWithin = time.Minute

// SelectPlanted finds those that a name stands for: one, "all", or "rotate", which is some of them by the seed. A name that is
// not in the list is looked for with every scenario of the cut: faults planted by somebody else.
func SelectPlanted(name string, seed uint64) []Planted {
	switch name {
	case "all":
		return AllPlanted
	case "rotate":
		const some = 3
		var chosen []Planted
		for i := range uint64(some) {
			chosen = append(chosen, AllPlanted[(seed*some+i)%uint64(len(AllPlanted))])
		}
		return chosen
	}
	for _, planted := range AllPlanted {
		if planted.Name == name {
			return []Planted{planted}
		}
	}
	unseen := Planted{Name: name, What: "planted by somebody else"}
	for _, s := range Scenarios() {
		if s.InCut && !s.MustFail {
			unseen.Scenarios = append(unseen.Scenarios, s.Name)
		}
	}
	return []Planted{unseen}
}

// Catch runs a server with the fault until a scenario finds it.
func Catch(ctx context.Context, planted Planted, options Options) (caught bool, err error) {
	out := options.Output
	options.Binaries.More = append([]string(nil), "--planted="+planted.Name)
	for _, name := range planted.Scenarios {
		scenarios, err := Select(name)
		if err != nil {
			return false, err
		}
		quiet := options
		quiet.Output = io.Discard
		results, err := Session(ctx, scenarios, quiet)
		if err != nil {
			return false, err
		}
		for _, result := range results {
			if by := firstFinding(result); by != "" && result.Caught < caughtWithin {
				fmt.Fprintf(out, "caught %s (%s) in %s, %.1f s after the fault: %s\n", planted.Name, planted.What, result.Scenario.Name,
					result.Caught.Seconds(), by)
				return true, nil
			}
		}
	}
	fmt.Fprintf(out, "NOT CAUGHT %s (%s) by %v\n", planted.Name, planted.What, planted.Scenarios)
	return false, nil
}

// firstFinding is what a scenario found first; a violation rather than a problem.
func firstFinding(result Result) string {
	if len(result.Violations) > 0 {
		return result.Violations[0].String()
	}
	if len(result.Problems) > 0 {
		return result.Problems[0]
	}
	return ""
}
