package model

import (
	"fmt"
	"testing"

	"idempotencyd/tests/harness/history"
)

const ms = int64(1_000_000)

var params = Params{Margin: 200 * ms, ReplayWindow: 3000 * ms}

func begin(attempt string, start, end int64) *history.Op {
	return &history.Op{
		RPC: history.Begin, Attempt: attempt, Request: "pay", Lease: 1000 * ms, TTL: 2000 * ms, Start: start * ms, End: end * ms,
		Class: history.OK,
	}
}

func started(attempt string, start, end int64, number int32, token int64) Call {
	op := begin(attempt, start, end)
	op.Answer = history.Answer{
		Result: history.Started, Record: "r", Attempt: attempt, Number: number, Token: token, PrevNumber: number - 1,
	}
	return Call{Op: op}
}

// after steps through calls that each leave one state.
func after(t *testing.T, calls ...Call) State {
	t.Helper()
	state := State{}
	for _, call := range calls {
		next := params.Step(state, call)
		if len(next) != 1 {
			t.Fatalf("%d states after %s", len(next), Describe(call.Op))
		}
		state = next[0]
	}
	return state
}

func TestTakeoverIsAllowedFromTheInstantAtWhichTheLeaseMayBeOver(t *testing.T) {
	state := after(t, started("a", 0, 10, 1, 5))
	for end, want := range map[int64]int{1190: 0, 1300: 1} {
		taken := started("b", 1150, end, 2, 6)
		taken.Op.Answer.Unknowns = 1
		if got := len(params.Step(state, taken)); got != want {
			t.Errorf("answered at %d ms: %d states, want %d", end, got, want)
		}
	}
}

func TestLeaseThatMayBeOverMayAlsoHold(t *testing.T) {
	state := after(t, started("a", 0, 10, 1, 5))
	told := begin("b", 9000, 9010)
	told.Answer = history.Answer{Result: history.InProgress, Record: "r", Number: 1}
	if len(params.Step(state, Call{Op: told})) != 1 {
		t.Error("a lease that a jump of the clock prolonged is not allowed")
	}
	strict := params
	strict.Strict = true
	if len(strict.Step(state, Call{Op: told})) != 0 {
		t.Error("Strict allows it, too")
	}
}

func TestLostCallMayHaveHappenedOrNot(t *testing.T) {
	lost := begin("a", 0, 0)
	lost.Class, lost.End = history.Unknown, history.Never
	next := params.Step(State{}, Call{Op: lost})
	if len(next) != 2 || next[0].Phase != None || next[1].Phase != Working {
		t.Fatalf("got %+v", next)
	}
	// Its token is not known until somebody is told, and greater than what was granted before.
	told := started("a", 20, 30, 1, 9)
	told.Op.Answer.Repeated = true
	if len(params.Step(next[1], told)) != 1 {
		t.Error("its repeat is not accepted")
	}
}

func TestEffectIsNotSeenBeforeItCanHaveHappened(t *testing.T) {
	state := after(t, started("a", 0, 10, 1, 5))
	lost := begin("b", 20, 0)
	lost.Class, lost.End = history.Unknown, history.Never
	taken := params.Step(state, Call{Op: lost})[1]
	if taken.Number != 2 {
		t.Fatalf("got %+v", taken)
	}
	early := begin("c", 500, 510)
	early.Answer = history.Answer{Result: history.InProgress, Record: "r", Number: 2}
	if len(params.Step(taken, Call{Op: early})) != 0 {
		t.Error("a takeover was seen before the lease was over")
	}
}

func TestRecordKnowsTheEightAttemptsBeforeTheLast(t *testing.T) {
	earlier := ""
	for i := range 10 {
		earlier = withEarlier(earlier, fmt.Sprint("attempt-", i))
	}
	state := State{Earlier: earlier}
	for i := range 10 {
		if got, want := state.knowsEarlier(fmt.Sprint("attempt-", i)), i >= 2; got != want {
			t.Errorf("attempt %d: %t", i, got)
		}
	}
}

func TestTokenOfAPurgedKeyIsRemembered(t *testing.T) {
	complete := &history.Op{
		RPC: history.Complete, Attempt: "a", Submitted: "completed/1", Start: 20 * ms, End: 30 * ms, Class: history.OK,
		Answer: history.Answer{Result: history.Recorded, Record: "r"},
	}
	state := after(t, started("a", 0, 10, 1, 50), Call{Op: complete})
	for token, want := range map[int64]bool{50: false, 51: true} {
		anew := started("b", 9000, 9010, 1, token)
		anew.Op.Answer.Record = "s"
		if got := len(params.Step(state, anew)) > 0; got != want {
			t.Errorf("token %d: %t", token, got)
		}
	}
}

func TestDisturbedCallMayHaveRunBefore(t *testing.T) {
	state := after(t, started("a", 0, 10, 1, 5))
	refused := &history.Op{
		RPC: history.Fail, Attempt: "a", Disposition: history.NotApplied, Submitted: "not_applied/1", Start: 20 * ms, End: 30 * ms,
		Class: history.Definite, Reason: "LEASE_LOST",
	}
	always := func(*history.Op) bool { return true }
	never := func(*history.Op) bool { return false }
	if got := len(Calls([]*history.Op{refused}, always)); got != 2 {
		t.Errorf("%d calls, want the ghost of its first run, too", got)
	}
	if got := len(Calls([]*history.Op{refused}, never)); got != 1 {
		t.Errorf("%d calls", got)
	}
	if got := len(params.Step(state, Call{Op: refused, Ghost: true})); got != 2 {
		t.Errorf("%d states after the ghost", got)
	}
}
