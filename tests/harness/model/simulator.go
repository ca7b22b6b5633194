package model

import (
	"fmt"
	"math/rand/v2"
	"sort"

	"idempotencyd/tests/harness/history"
)

// Simulator is a service that keeps the rules, for one key, with callers that call it at the same time and lose answers: what a
// checker must accept. Time is the simulator's own.
type Simulator struct {
	params Params
	rng    *rand.Rand
	key    history.Key

	state   State
	token   int64
	records int
	ops     []*history.Op
	owned   []string // the attempts that were begun
}

// NewSimulator makes a service for a key; equal seeds give equal histories.
func NewSimulator(params Params, key history.Key, seed uint64) *Simulator {
	return &Simulator{params: params, rng: rand.New(rand.NewPCG(seed, 1)), key: key, token: 1000}
}

// Run makes that many calls of several clients and returns them.
func (s *Simulator) Run(calls int) []*history.Op {
	type event struct {
		at int64
		op *history.Op
	}
	const span = int64(40_000_000) // between two calls, on average
	var events []event
	for i := range calls {
		start := int64(i)*span + s.rng.Int64N(span)
		op := &history.Op{ID: int64(i + 1), Merchant: s.key.Merchant, Key: s.key.Key, Client: i % 4, Start: start}
		happens := start + 1 + s.rng.Int64N(2*span)
		op.End = happens + 1 + s.rng.Int64N(span)
		events = append(events, event{happens, op})
		s.ops = append(s.ops, op)
	}
	sort.Slice(events, func(i, j int) bool { return events[i].at < events[j].at })
	for _, e := range events {
		s.ask(e.op)
		s.perform(e.op, e.at)
	}
	return s.ops
}

// ask chooses what the call asks for.
func (s *Simulator) ask(op *history.Op) {
	op.Lease, op.TTL, op.Request = 300_000_000, 500_000_000, "pay 1"
	known := ""
	if len(s.owned) > 0 {
		known = s.owned[len(s.owned)-1-s.rng.IntN(min(3, len(s.owned)))]
	}
	choice := s.rng.IntN(10)
	switch {
	case choice < 4 || known == "":
		op.RPC = history.Begin
		op.Attempt = fmt.Sprintf("attempt-%d", op.ID)
		if known != "" && choice == 0 {
			op.Attempt = known
		}
		if choice == 1 && s.rng.IntN(3) == 0 {
			op.Request = "pay 2"
		}
	case choice == 4:
		op.RPC = history.Renew
		op.Attempt = known
	case choice == 5:
		op.RPC = history.Complete
		op.Attempt = known
		op.Submitted = "completed/" + known
	case choice == 6:
		op.RPC = history.Fail
		op.Attempt = known
		op.Disposition = []history.Disposition{history.NotApplied, history.EndedUnknown, history.Final}[s.rng.IntN(3)]
		op.Submitted = string(op.Disposition) + "/" + known
	default:
		op.RPC = history.Lookup
	}
}

// perform does what the specification says, at an instant of the call.
func (s *Simulator) perform(op *history.Op, now int64) {
	state := s.state
	v := view{now: now, state: state}
	v.over = state.Phase == Working && now > state.OverFrom
	v.expired = state.isSettled() && now > state.expiresFrom(s.params)
	if v.expired && s.rng.IntN(2) == 0 {
		v = view{now: now, state: state.purged()}
	}
	d := s.params.decide(v, op)
	next := d.next
	if d.isStart {
		s.token += 1 + s.rng.Int64N(5)
		next.Token, next.Floor = s.token, s.token
	}
	if d.isFresh {
		s.records++
		next.Record = fmt.Sprintf("%s-record-%d", s.key, s.records)
	}
	s.state, d.next = next, next
	if op.RPC == history.Begin && d.result == history.Started {
		s.owned = append(s.owned, op.Attempt)
	}
	if s.rng.IntN(8) == 0 {
		op.Class, op.Code, op.End = history.Unknown, "UNAVAILABLE", history.Never
		return
	}
	if d.refused != "" {
		op.Class, op.Code, op.Reason = history.Definite, "ABORTED", d.refused
		return
	}
	op.Class, op.Code, op.Answer = history.OK, "OK", s.params.answer(v, d, op, now)
}

func (p Params) answer(v view, d decision, op *history.Op, now int64) history.Answer {
	s := d.next
	answer := history.Answer{Result: d.result, Record: s.Record, Hold: s.Hold, Number: s.Number}
	switch op.RPC {
	case history.Complete, history.Fail:
		answer.Already = d.repeated
	case history.Renew:
		answer.Remaining = op.Lease
	case history.Lookup:
		answer.State, answer.Expired, answer.Unknowns = shownState(v), v.expired, s.Unknowns
		answer.Token, answer.Digest = s.Token, s.Answer
	case history.Begin:
		switch d.result {
		case history.Replay:
			answer.Digest, answer.Finish = s.Answer, s.Finished
		case history.Started:
			answer.Attempt, answer.Token, answer.Unknowns = op.Attempt, s.Token, s.Unknowns
			answer.Repeated, answer.Downstream = d.repeated, s.Record+"-down"
			answer.PrevNumber, answer.PrevFailure = s.PrevNumber, s.PrevFailure
			answer.Remaining = min(op.Lease, max(0, s.OverFrom-p.Margin-now))
		}
	}
	return answer
}
