package model

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"idempotencyd/tests/harness/history"
)

// withToken is the state once the last attempt's token is known, unless that cannot be its token.
func withToken(s State, token int64, isStart bool) (State, bool) {
	if !isStart && s.Token != 0 {
		return s, s.Token == token
	}
	// The first time that it is told: greater than all that were granted before.
	if token <= s.Floor {
		return s, false
	}
	s.Token, s.Floor = token, token
	return s, true
}

// withRecord is the state once the record's id is known, unless that cannot be it.
func withRecord(s State, record string) (State, bool) {
	if s.Record != "" {
		return s, s.Record == record
	}
	s.Record = record
	return s, record != ""
}

// accept is the state after the answer, unless the decision does not lead to that answer.
func (p Params) accept(v view, d decision, call Call) (State, bool) {
	op := call.Op
	if op.Class == history.Definite {
		return d.next, d.refused == op.Reason
	}
	answer := op.Answer
	if d.refused != "" || d.result != answer.Result {
		return d.next, false
	}
	next, ok := withRecord(d.next, answer.Record)
	if !ok || (d.isFresh && answer.Record == v.state.Record) {
		return next, false
	}
	switch op.RPC {
	case history.Complete, history.Fail:
		return next, answer.Already == d.repeated || (call.Disturbed && answer.Already)
	case history.Renew:
		return next, true
	case history.Lookup:
		return acceptLookup(v, next, answer)
	}
	if answer.Hold != next.Hold || answer.Number != next.Number {
		return next, false
	}
	switch answer.Result {
	case history.Replay:
		return next, answer.Digest == next.Answer
	case history.Started:
		if answer.Attempt != op.Attempt || answer.Unknowns != next.Unknowns ||
			answer.PrevNumber != next.PrevNumber || answer.PrevFailure != next.PrevFailure {
			return next, false
		}
		if answer.Repeated != d.repeated && !(call.Disturbed && answer.Repeated) {
			return next, false
		}
		return withToken(next, answer.Token, d.isStart)
	}
	return next, true
}

func shownState(v view) string {
	switch {
	case v.state.Phase == Completed:
		return "COMPLETED"
	case v.state.Phase == FailedFinal:
		return "FAILED"
	case v.state.Phase == Released:
		return "RELEASED"
	case v.state.Phase == FailedUnknown || v.over:
		return "ABANDONED"
	}
	return "IN_PROGRESS"
}

func acceptLookup(v view, s State, answer history.Answer) (State, bool) {
	if answer.State != shownState(v) || answer.Expired != v.expired || answer.Number != s.Number ||
		answer.Unknowns != s.Unknowns || answer.Hold != s.Hold || answer.Digest != s.Answer {
		return s, false
	}
	return withToken(s, answer.Token, false)
}

// Step lists the states that a call may lead to, given what it was told. None: it cannot have been told that.
func (p Params) Step(s State, call Call) []State {
	op := call.Op
	var found []State
	if call.MayHaveHappened() {
		same := s
		same.Now = max(s.Now, op.Start)
		if same.Now <= op.End {
			found = append(found, same)
		}
	}
	for _, v := range p.views(s, op.Start, op.End) {
		d := p.decide(v, op)
		if call.MayHaveHappened() {
			unchanged := v.state
			unchanged.Now = v.now
			if d.refused == "" && d.next != unchanged {
				found = append(found, d.next)
			}
		} else if next, ok := p.accept(v, d, call); ok {
			found = append(found, next)
		}
	}
	return found
}

// Porcupine is the model for the checker of that name. Inputs are Calls; outputs are not looked at.
func (p Params) Porcupine() porcupine.Model {
	nondeterministic := porcupine.NondeterministicModel{
		Init: func() []interface{} { return []interface{}{State{}} },
		Step: func(state, input, _ interface{}) []interface{} {
			next := p.Step(state.(State), input.(Call))
			all := make([]interface{}, len(next))
			for i, s := range next {
				all[i] = s
			}
			return all
		},
		Equal: func(a, b interface{}) bool { return a.(State) == b.(State) },
		Hash:  func(state interface{}) uint64 { return hashOf(state.(State)) },
		DescribeOperation: func(input, _ interface{}) string {
			return Describe(input.(Call).Op)
		},
	}
	return nondeterministic.ToModel()
}

// Calls are the calls of one key as the checker takes them. Left out is what cannot tell anything: calls that were refused
// before the record was looked at, and lost Lookups. disturbed tells whether the server may have run a call again.
func Calls(ops []*history.Op, disturbed func(*history.Op) bool) []porcupine.Operation {
	var calls []porcupine.Operation
	for _, op := range ops {
		if op.Class == history.Definite && !IsJudged(op.Reason) {
			continue
		}
		if op.Class == history.Unknown && op.RPC == history.Lookup {
			continue
		}
		isDisturbed := op.Class != history.Unknown && disturbed(op)
		if isDisturbed && mayHideARun(op) {
			calls = append(calls, operation(Call{Op: op, Ghost: true}))
		}
		calls = append(calls, operation(Call{Op: op, Disturbed: isDisturbed}))
	}
	return calls
}

func operation(call Call) porcupine.Operation {
	return porcupine.Operation{
		ClientId: call.Op.Client, Input: call, Call: call.Op.Start, Output: call, Return: call.Op.End,
	}
}

// mayHideARun tells whether a call's answer may be that of a second run, the first one's effect being gone by then.
func mayHideARun(op *history.Op) bool {
	switch op.RPC {
	case history.Lookup:
		return false
	case history.Begin:
		// A run that started the attempt, whose lease was over, or taken over, by the next one.
		return op.Class == history.Definite || op.Answer.Result == history.Replay || op.Answer.Repeated
	}
	return op.Class == history.Definite
}

// IsJudged tells whether an error with this reason says something about the record.
func IsJudged(reason string) bool {
	switch reason {
	case "KEY_REUSED", "LEASE_LOST", "OUTCOME_CONFLICT", "ALREADY_FINISHED", "NEEDS_RESOLUTION", "RECORD_NOT_FOUND":
		return true
	}
	return false
}

// Describe is one line about a call, for people.
func Describe(op *history.Op) string {
	asked := fmt.Sprintf("#%d client %d %s %s", op.ID, op.Client, op.RPC, short(op.Attempt))
	switch op.RPC {
	case history.Begin:
		asked += " request " + op.Request
	case history.Complete, history.Fail:
		asked += " " + op.Submitted
	}
	told := op.Reason
	a := op.Answer
	switch {
	case op.Class == history.Unknown:
		told = "unknown (" + op.Code + " " + op.Reason + ")"
	case op.Class == history.OK && op.RPC == history.Lookup:
		told = fmt.Sprintf("%s attempt %d token %d %s", a.State, a.Number, a.Token, a.Digest)
	case op.Class == history.OK:
		told = fmt.Sprintf("%s attempt %d token %d repeated %t already %t unknown %d %s", a.Result, a.Number, a.Token, a.Repeated,
			a.Already, a.Unknowns, a.Digest)
	}
	end := "never"
	if op.End != history.Never {
		end = fmt.Sprintf("%.3f s", float64(op.End)/1e9)
	}
	return fmt.Sprintf("%s [%.3f s, %s] -> %s record %s", asked, float64(op.Start)/1e9, end, told, short(a.Record))
}

func short(id string) string {
	if len(id) > 13 {
		return id[len(id)-13:]
	}
	return id
}
