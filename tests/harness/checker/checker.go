// Package checker judges a recorded history: whether the invariants of the service held, over all faults.
//
// It works twice. The direct checks look for one thing each, by real time, and name the invariant that is broken. The
// linearizability check looks for an order of all calls of a key that explains every answer by the state machine of
// package model; it finds what nobody thought of, but tells only that no such order exists. A check that takes too long is
// a failure: nothing is taken on trust.
package checker

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"idempotencyd/tests/harness/history"
	"idempotencyd/tests/harness/model"
)

// Config says under which settings and faults the history was made.
type Config struct {
	model.Params
	// For each key; past it the check counts as failed.
	Timeout time.Duration
	// Names of faults (the beginnings of history.Fault.Name) after which the server may have run calls again.
	DisturbedBy []string
}

// Linearizable is the name under which the linearizability check reports; the invariants report as I1 to I15.
const Linearizable = "linearizable"

// Violation is one broken promise.
type Violation struct {
	Invariant string
	Key       history.Key
	Message   string
	Ops       []*history.Op
}

func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s broken for %s: %s", v.Invariant, v.Key, v.Message)
	for _, op := range v.Ops {
		fmt.Fprintf(&b, "\n    %s", model.Describe(op))
	}
	return b.String()
}

// Check judges the history. The violations come in the order of their invariants.
func Check(h *history.History, config Config) []Violation {
	c := &checking{config: config, history: h, byKey: h.ByKey(), disturbed: make(map[*history.Op]bool)}
	for _, op := range h.Ops {
		if c.wasDisturbed(op) {
			c.disturbed[op] = true
		}
	}
	for _, check := range []func(){
		c.oneAttemptIsStarted, c.tokensGrow, c.newerAttemptWaits, c.olderAttemptIsOver, c.oneOutcome, c.outcomeStays,
		c.nothingInvented, c.repeatIsTheSame, c.otherBodyGetsNothing, c.merchantsDoNotMeet, c.refusedHadNoEffect,
		c.everyKeyEnds, c.acceptedIsNotDropped, c.unsettledNeverExpires, c.linearizable,
	} {
		check()
	}
	return c.found
}

// Checked counts the calls of which the answers were judged.
func Checked(h *history.History) int {
	count := 0
	for _, op := range h.Ops {
		if op.Class != history.Unknown {
			count++
		}
	}
	return count
}

type checking struct {
	config  Config
	history *history.History
	byKey   map[history.Key][]*history.Op
	// The calls during which the server may have run something again.
	disturbed map[*history.Op]bool
	found     []Violation
}

func (c *checking) report(invariant string, key history.Key, ops []*history.Op, format string, args ...any) {
	c.found = append(c.found, Violation{
		Invariant: invariant, Key: key, Message: fmt.Sprintf(format, args...), Ops: append([]*history.Op(nil), ops...),
	})
}

// keys in a fixed order, so that two runs over one history report alike.
func (c *checking) keys() []history.Key {
	keys := make([]history.Key, 0, len(c.byKey))
	for key := range c.byKey {
		keys = append(keys, key)
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i].String() < keys[j].String() })
	return keys
}

func (c *checking) eachKey(check func(key history.Key, ops []*history.Op)) {
	for _, key := range c.keys() {
		check(key, c.byKey[key])
	}
}

func (c *checking) isDisturbed(op *history.Op) bool { return c.disturbed[op] }

// hadNoEffect tells whether the call is known to have changed nothing, in no run of it.
func (c *checking) hadNoEffect(op *history.Op) bool { return op.HadNoEffect() && !c.disturbed[op] }

// wasDisturbed tells whether the call ran while one of the faults of the configuration was there, or shortly after: the
// server runs a batch in doubt again for some seconds.
func (c *checking) wasDisturbed(op *history.Op) bool {
	const lingers = int64(15 * time.Second)
	for _, fault := range c.history.Faults {
		for _, name := range c.config.DisturbedBy {
			if !strings.HasPrefix(fault.Name, name) {
				continue
			}
			end := fault.End
			if end != history.Never {
				end += lingers
			}
			if op.Start <= end && op.End >= fault.Start {
				return true
			}
		}
	}
	return false
}

func (c *checking) linearizable() {
	timeout := c.config.Timeout
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	checked := c.config.Porcupine()
	c.eachKey(func(key history.Key, ops []*history.Op) {
		calls := model.Calls(ops, c.isDisturbed)
		switch porcupine.CheckOperationsTimeout(checked, calls, timeout) {
		case porcupine.Ok:
		case porcupine.Unknown:
			c.report(Linearizable, key, nil, "not decided within %s (%d calls)", timeout, len(calls))
		case porcupine.Illegal:
			stuck := firstUnexplained(checked, calls, timeout)
			c.report(Linearizable, key, stuck, "no order of the %d calls explains all answers; the longest one stops before",
				len(calls))
		}
	})
}

// firstUnexplained lists the first answered call that the longest order leaves out, and the calls before it.
func firstUnexplained(checked porcupine.Model, calls []porcupine.Operation, timeout time.Duration) []*history.Op {
	_, info := porcupine.CheckOperationsVerbose(checked, calls, timeout)
	var longest []int
	for _, partial := range info.PartialLinearizations() {
		for _, order := range partial {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	explained := make(map[int]bool, len(longest))
	for _, id := range longest {
		explained[id] = true
	}
	var first *history.Op
	for id, call := range calls {
		op := call.Input.(model.Call).Op
		if !explained[id] && op.End != history.Never && (first == nil || op.End < first.End) {
			first = op
		}
	}
	if first == nil {
		return nil
	}
	const most = 12
	ops := []*history.Op{first}
	for i := len(longest) - 1; i >= 0 && len(ops) < most; i-- {
		ops = append(ops, calls[longest[i]].Input.(model.Call).Op)
	}
	for i, j := 1, len(ops)-1; i < j; i, j = i+1, j-1 {
		ops[i], ops[j] = ops[j], ops[i]
	}
	return append(ops[1:], first)
}
