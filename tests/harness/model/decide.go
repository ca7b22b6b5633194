package model

import "idempotencyd/tests/harness/history"

// view is one way in which the time-dependent questions may be answered at the instant of a call.
type view struct {
	now     int64
	over    bool
	expired bool
	state   State // as stored, or purged
}

// views lists those that real time permits for a call that ran from start to end.
func (p Params) views(s State, start, end int64) []view {
	var found []view
	now := max(s.Now, start)
	if now > end {
		return nil
	}
	if !p.Strict || !p.mustBeOver(s, now) {
		found = append(found, view{now: now, state: s})
	}
	if s.Phase == Working {
		if at := max(now, s.OverFrom-Tolerance); at <= end {
			found = append(found, view{now: at, over: true, state: s})
		}
	}
	if s.isSettled() {
		if at := max(now, s.expiresFrom(p)-Tolerance); at <= end {
			found = append(found, view{now: at, expired: true, state: s}, view{now: at, state: s.purged()})
		}
	}
	return found
}

func (p Params) mustBeOver(s State, now int64) bool {
	return s.Phase == Working && now > s.OverBy+Tolerance
}

// decision is what a call comes to in one view: the reason of a refusal, or the branch of the answer.
type decision struct {
	refused string
	result  history.Result
	// The answer says that this was so before.
	repeated bool
	// The attempt is a new one, with a token of its own.
	isStart bool
	// Of a new record.
	isFresh bool
	next    State
}

func refusal(reason string, s State) decision { return decision{refused: reason, next: s} }

func (p Params) grant(s *State, op *history.Op, now int64) {
	s.OverFrom = now + op.Lease + p.Margin - p.Skew
	s.OverBy = history.Never
	if op.End != history.Never {
		s.OverBy = op.End + op.Lease + p.Margin
	}
}

func (p Params) fresh(s State, op *history.Op, now int64) decision {
	next := State{
		Now: now, Phase: Working, Request: op.Request, Hold: op.Hold, Attempt: op.Attempt, Number: 1,
		Floor: s.Floor, Created: now, TTL: op.TTL,
	}
	p.grant(&next, op, now)
	return decision{result: history.Started, isStart: true, isFresh: true, next: next}
}

func (p Params) nextAttempt(s State, op *history.Op, now int64) decision {
	next := s
	next.Now = now
	next.PrevNumber, next.PrevFailure = s.Number, s.Answer
	if s.Phase != Released {
		next.Unknowns++
	}
	next.Earlier = withEarlier(s.Earlier, s.Attempt)
	next.Phase, next.Answer, next.Finished = Working, "", 0
	next.Hold = s.Hold || op.Hold
	next.Attempt, next.Token = op.Attempt, 0
	next.Number++
	p.grant(&next, op, now)
	return decision{result: history.Started, isStart: true, next: next}
}

func (p Params) resume(s State, op *history.Op, now int64) decision {
	next := s
	next.Now = now
	next.Unknowns++
	next.Hold = s.Hold || op.Hold
	p.grant(&next, op, now)
	return decision{result: history.Started, repeated: true, next: next}
}

// begin is the specification's first table, row by row.
func (p Params) begin(v view, op *history.Op) decision {
	s := v.state
	s.Now = v.now
	isLast := s.Attempt == op.Attempt
	switch {
	case s.Phase == None:
		return p.fresh(s, op, v.now)
	case !v.expired && s.Request != op.Request:
		return refusal("KEY_REUSED", s)
	case !v.expired && s.isFinal():
		return decision{result: history.Replay, next: s}
	case s.knowsEarlier(op.Attempt), isLast && (s.Phase == Released || v.expired):
		return refusal("LEASE_LOST", s)
	case v.expired:
		return p.fresh(s, op, v.now)
	case s.Phase == Released:
		return p.nextAttempt(s, op, v.now)
	case s.Phase == Working && !v.over && isLast:
		return decision{result: history.Started, repeated: true, next: s}
	case s.Phase == Working && !v.over:
		return decision{result: history.InProgress, next: s}
	case s.Hold:
		return refusal("NEEDS_RESOLUTION", s)
	case s.Phase == FailedUnknown && isLast:
		return refusal("LEASE_LOST", s)
	case isLast:
		return p.resume(s, op, v.now)
	}
	return p.nextAttempt(s, op, v.now)
}

func phaseAfter(op *history.Op) Phase {
	switch {
	case op.RPC == history.Complete:
		return Completed
	case op.Disposition == history.Final:
		return FailedFinal
	case op.Disposition == history.NotApplied:
		return Released
	}
	return FailedUnknown
}

// owner is the specification's second table: Complete, Fail and Renew.
func (p Params) owner(v view, op *history.Op) decision {
	s := v.state
	s.Now = v.now
	switch {
	case s.Phase == None:
		return refusal("RECORD_NOT_FOUND", s)
	case s.Attempt != op.Attempt:
		return refusal("LEASE_LOST", s)
	case op.RPC == history.Renew:
		return p.renew(s, op)
	}
	reached := phaseAfter(op)
	isSame := s.Answer == op.Submitted
	switch {
	case s.Phase == Working:
	case s.Phase == FailedUnknown && !(reached == FailedUnknown && isSame):
	case isSame:
		return decision{result: history.Recorded, repeated: true, next: s}
	default:
		return refusal("OUTCOME_CONFLICT", s)
	}
	next := s
	next.Phase, next.Answer, next.Finished = reached, op.Submitted, v.now
	return decision{result: history.Recorded, next: next}
}

func (p Params) renew(s State, op *history.Op) decision {
	if s.isFinal() || s.Phase == Released {
		return refusal("ALREADY_FINISHED", s)
	}
	if s.Phase == FailedUnknown {
		return refusal("LEASE_LOST", s)
	}
	next := s
	p.grant(&next, op, s.Now)
	next.OverFrom = max(next.OverFrom, s.OverFrom)
	next.OverBy = max(next.OverBy, s.OverBy)
	return decision{result: history.Renewed, next: next}
}

func (p Params) decide(v view, op *history.Op) decision {
	switch op.RPC {
	case history.Begin:
		return p.begin(v, op)
	case history.Lookup:
		s := v.state
		s.Now = v.now
		if s.Phase == None {
			return refusal("RECORD_NOT_FOUND", s)
		}
		return decision{result: history.Found, next: s}
	}
	return p.owner(v, op)
}
