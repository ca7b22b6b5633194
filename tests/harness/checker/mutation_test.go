package checker

import (
	"fmt"
	"testing"
	"time"

	"idempotencyd/tests/harness/history"
	"idempotencyd/tests/harness/model"
)

var simulated = model.Params{Margin: 100 * ms, ReplayWindow: 600 * ms}

// simulate writes what many callers of a service that keeps the rules were told.
func simulate(seed uint64, keys, calls int) *history.History {
	h := &history.History{}
	for i := range keys {
		key := history.Key{Merchant: []string{"acme", "bolt"}[i%2], Key: fmt.Sprintf("key-%d", i/2)}
		h.Ops = append(h.Ops, model.NewSimulator(simulated, key, seed*1000+uint64(i)).Run(calls)...)
	}
	return h
}

func checkSimulated(h *history.History) []Violation {
	return Check(h, Config{Params: simulated, Timeout: 10 * time.Second})
}

// A checker that cries wolf is of no use: whatever a right service does must be accepted.
func TestSimulatedServiceIsAccepted(t *testing.T) {
	for seed := range uint64(20) {
		for _, violation := range checkSimulated(simulate(seed, 10, 60)) {
			t.Errorf("seed %d: %s", seed, violation)
		}
	}
}

// mutation changes the answers of a right service as a bug would. It tells whether the history had anything to change.
type mutation struct {
	name string
	// Any of these names must be reported.
	caught []string
	apply  func(h *history.History) bool
}

func firstOp(h *history.History, matches func(*history.Op) bool) *history.Op {
	for _, op := range h.Ops {
		if op.Class == history.OK && matches(op) {
			return op
		}
	}
	return nil
}

var isReplay = func(op *history.Op) bool { return replayed(op) }

var mutations = []mutation{
	{"two answers of a batch are swapped", []string{"I10", "I7"}, func(h *history.History) bool {
		one := firstOp(h, isReplay)
		if one == nil {
			return false
		}
		other := firstOp(h, func(op *history.Op) bool { return replayed(op) && op.KeyOf() != one.KeyOf() })
		if other == nil {
			return false
		}
		one.Answer, other.Answer = other.Answer, one.Answer
		return true
	}},
	{"a token is granted twice", []string{"I2"}, func(h *history.History) bool {
		one := firstOp(h, func(op *history.Op) bool { return started(op) && !op.Answer.Repeated })
		other := firstOp(h, func(op *history.Op) bool {
			return started(op) && !op.Answer.Repeated && op.KeyOf() == one.KeyOf() && op.Attempt != one.Attempt
		})
		if other == nil {
			return false
		}
		other.Answer.Token = one.Answer.Token
		return true
	}},
	{"an outcome is invented", []string{"I7"}, func(h *history.History) bool {
		one := firstOp(h, isReplay)
		if one == nil {
			return false
		}
		one.Answer.Digest = "completed/invented"
		return true
	}},
	{"a second one is told started", []string{"I1", Linearizable}, func(h *history.History) bool {
		first := firstOp(h, func(op *history.Op) bool { return started(op) && !op.Answer.Repeated })
		second := firstOp(h, func(op *history.Op) bool {
			return op.RPC == history.Begin && op.Answer.Result == history.InProgress && op.KeyOf() == first.KeyOf() &&
				op.Answer.Record == first.Answer.Record && op.Answer.Number == first.Answer.Number
		})
		if second == nil {
			return false
		}
		answer := first.Answer
		answer.Attempt = second.Attempt
		second.Answer = answer
		return true
	}},
	{"an acknowledged outcome is forgotten", []string{"I6", Linearizable}, func(h *history.History) bool {
		one := firstOp(h, func(op *history.Op) bool { return op.RPC == history.Lookup && op.Answer.State == "COMPLETED" })
		if one == nil {
			return false
		}
		one.Answer.State, one.Answer.Digest = "IN_PROGRESS", ""
		return true
	}},
	{"a success is reported as a refusal", []string{Linearizable}, func(h *history.History) bool {
		one := firstOp(h, func(op *history.Op) bool { return op.IsFinish() && op.Disposition == history.NotApplied })
		if one == nil {
			return false
		}
		one.Class, one.Code, one.Reason, one.Answer = history.Definite, "UNAVAILABLE", "STORE_UNAVAILABLE", history.Answer{}
		return true
	}},
	{"an own repeat is told in progress", []string{"I8", Linearizable}, func(h *history.History) bool {
		one := firstOp(h, func(op *history.Op) bool { return started(op) && op.Answer.Repeated })
		if one == nil {
			return false
		}
		one.Answer.Result, one.Answer.Token, one.Answer.Repeated = history.InProgress, 0, false
		return true
	}},
	{"another body is served", []string{"I9", Linearizable}, func(h *history.History) bool {
		one := firstOp(h, isReplay)
		if one == nil {
			return false
		}
		one.Request = "pay 3"
		return true
	}},
	{"unknown attempts are not counted", []string{Linearizable}, func(h *history.History) bool {
		one := firstOp(h, func(op *history.Op) bool { return started(op) && op.Answer.Unknowns > 0 })
		if one == nil {
			return false
		}
		one.Answer.Unknowns--
		return true
	}},
	{"a replay carries another attempt's number", []string{"I5", Linearizable}, func(h *history.History) bool {
		one := firstOp(h, isReplay)
		if one == nil {
			return false
		}
		one.Answer.Number++
		return true
	}},
	{"a merchant sees another's record", []string{"I10"}, func(h *history.History) bool {
		one := firstOp(h, func(op *history.Op) bool { return op.Answer.Result == history.InProgress && op.Merchant == "acme" })
		other := firstOp(h, func(op *history.Op) bool { return op.Answer.Record != "" && op.Merchant == "bolt" })
		if one == nil || other == nil {
			return false
		}
		one.Answer.Record = other.Answer.Record
		return true
	}},
	{"a record is gone", []string{"I6", Linearizable}, func(h *history.History) bool {
		one := firstOp(h, func(op *history.Op) bool {
			return op.RPC == history.Lookup && op.Answer.State == "RELEASED" && !op.Answer.Expired
		})
		if one == nil {
			return false
		}
		one.Class, one.Code, one.Reason, one.Answer = history.Definite, "NOT_FOUND", "RECORD_NOT_FOUND", history.Answer{}
		return true
	}},
}

func TestMutatedAnswersAreCaughtByName(t *testing.T) {
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			applied, caught := 0, 0
			for seed := range uint64(8) {
				h := simulate(seed, 6, 60)
				if !m.apply(h) {
					continue
				}
				applied++
				if reportsAny(checkSimulated(h), m.caught) {
					caught++
				}
			}
			if applied == 0 {
				t.Fatal("no history had anything to change")
			}
			// A single answer may have an innocent explanation now and then: an expired record that is gone.
			if caught*4 < applied*3 {
				t.Errorf("caught in %d of %d histories", caught, applied)
			}
		})
	}
}

func reportsAny(found []Violation, names []string) bool {
	for _, violation := range found {
		for _, name := range names {
			if violation.Invariant == name {
				return true
			}
		}
	}
	return false
}
