package audit

import (
	"testing"

	"idempotencyd/tests/harness/history"
	"idempotencyd/tests/harness/model"
)

const second = int64(1_000_000_000)

var key = history.Key{Merchant: "m", Key: "k"}

func started(attempt string, number int32, token int64) *history.Op {
	return &history.Op{
		RPC: history.Begin, Merchant: "m", Key: "k", Attempt: attempt, TTL: 100 * second, Start: second, End: 2 * second,
		Class: history.OK, Answer: history.Answer{Result: history.Started, Number: number, Token: token},
	}
}

func completed(attempt, digest string) *history.Op {
	return &history.Op{
		RPC: history.Complete, Merchant: "m", Key: "k", Attempt: attempt, Submitted: digest, Start: 3 * second, End: 4 * second,
		Class: history.OK, Answer: history.Answer{Result: history.Recorded},
	}
}

func row(attempt string, state int, digest string) Row {
	return Row{Key: key, State: state, Number: 1, AttemptHash: HashOf(attempt), Token: 7, Digest: digest}
}

func TestTableIsComparedWithWhatCallersWereTold(t *testing.T) {
	for name, c := range map[string]struct {
		rows []Row
		ops  []*history.Op
		now  int64
		want string
	}{
		"as told": {
			[]Row{row("a", Completed, "completed/1")}, []*history.Op{started("a", 1, 7), completed("a", "completed/1")}, 9 * second, "",
		},
		"an acknowledged outcome is gone": {
			nil, []*history.Op{started("a", 1, 7), completed("a", "completed/1")}, 9 * second, "I6",
		},
		"it expired": {
			nil, []*history.Op{started("a", 1, 7), completed("a", "completed/1")}, 500 * second, "",
		},
		"an acknowledged outcome was overwritten": {
			[]Row{row("a", InProgress, "")}, []*history.Op{started("a", 1, 7), completed("a", "completed/1")}, 9 * second, "I6",
		},
		"another outcome": {
			[]Row{row("a", Completed, "completed/2")}, []*history.Op{started("a", 1, 7), completed("a", "completed/1")}, 9 * second, "I7",
		},
		"nobody's attempt": {
			[]Row{row("x", InProgress, "")}, []*history.Op{started("a", 1, 7)}, 9 * second, "I7",
		},
		"an unsettled record is gone": {
			nil, []*history.Op{started("a", 1, 7)}, 9 * second, "I15",
		},
		"a lower token": {
			[]Row{row("a", InProgress, "")}, []*history.Op{started("a", 1, 8)}, 9 * second, "I2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := Check(c.rows, &history.History{Ops: c.ops}, model.Params{ReplayWindow: 10 * second}, c.now)
			got := ""
			if len(found) > 0 {
				got = found[0].Invariant
			}
			if got != c.want {
				t.Errorf("got %v, want %q", found, c.want)
			}
		})
	}
}
