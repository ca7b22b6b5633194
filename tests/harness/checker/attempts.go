package checker

import (
	"sort"

	"idempotencyd/tests/harness/history"
	"idempotencyd/tests/harness/model"
)

// attemptOf names an attempt of a record.
type attemptOf struct {
	record string
	number int32
}

func started(op *history.Op) bool {
	return op.RPC == history.Begin && op.Class == history.OK && op.Answer.Result == history.Started
}

// starts groups the answers `started` of a key by attempt, in the order in which they were asked for.
func starts(ops []*history.Op) map[attemptOf][]*history.Op {
	found := make(map[attemptOf][]*history.Op)
	for _, op := range ops {
		if started(op) {
			name := attemptOf{op.Answer.Record, op.Answer.Number}
			found[name] = append(found[name], op)
		}
	}
	return found
}

func attempts(found map[attemptOf][]*history.Op) []attemptOf {
	names := make([]attemptOf, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool {
		if names[i].record != names[j].record {
			return found[names[i]][0].Start < found[names[j]][0].Start
		}
		return names[i].number < names[j].number
	})
	return names
}

// I1: for one record and attempt number at most one attempt id is ever told `started`.
func (c *checking) oneAttemptIsStarted() {
	c.eachKey(func(key history.Key, ops []*history.Op) {
		found := starts(ops)
		for _, name := range attempts(found) {
			first := found[name][0]
			for _, op := range found[name][1:] {
				if op.Attempt != first.Attempt {
					c.report("I1", key, []*history.Op{first, op}, "two attempt ids were started as attempt %d", name.number)
				}
			}
		}
	})
}

// I2: tokens grow with every new attempt of a key; a repeat carries its attempt's own.
func (c *checking) tokensGrow() {
	c.eachKey(func(key history.Key, ops []*history.Op) {
		found := starts(ops)
		names := attempts(found)
		byToken := make(map[int64]*history.Op)
		for _, name := range names {
			first := found[name][0]
			for _, op := range found[name] {
				if op.Answer.Token != first.Answer.Token && op.Attempt == first.Attempt {
					c.report("I2", key, []*history.Op{first, op}, "a repeat carries another token")
				}
			}
			if other := byToken[first.Answer.Token]; other != nil {
				c.report("I2", key, []*history.Op{other, first}, "two attempts have one token")
			}
			byToken[first.Answer.Token] = first
		}
		c.tokensGrowOverAttempts(key, found, names)
	})
}

func (c *checking) tokensGrowOverAttempts(key history.Key, found map[attemptOf][]*history.Op, names []attemptOf) {
	for _, older := range names {
		for _, newer := range names {
			a, b := earliestEnd(found[older]), found[newer][0]
			isAfter := older.record == newer.record && older.number < newer.number
			// Over records: whose answer was there before the other was asked for. Repeats do not count as that.
			isAfter = isAfter || (older.record != newer.record && a.End < b.Start && !b.Answer.Repeated)
			if isAfter && b.Answer.Token <= a.Answer.Token {
				c.report("I2", key, []*history.Op{a, b}, "a later attempt has a token that is not greater")
			}
		}
	}
}

func earliestEnd(ops []*history.Op) *history.Op {
	first := ops[0]
	for _, op := range ops {
		if op.End < first.End {
			first = op
		}
	}
	return first
}

// leaseOverFrom is the earliest instant at which the attempt's lease may be over: each answer told what was left of it as
// of a reading that was not made before the call was sent.
func (c *checking) leaseOverFrom(ops []*history.Op, name attemptOf, attempt string) (int64, *history.Op) {
	var from int64
	var by *history.Op
	for _, op := range ops {
		// Nothing left tells that it ended before, not when.
		if op.Class != history.OK || op.Attempt != attempt || op.Answer.Record != name.record || op.Answer.Remaining == 0 {
			continue
		}
		if started(op) && op.Answer.Number == name.number || op.RPC == history.Renew {
			if over := op.Start + op.Answer.Remaining + c.config.Margin - c.config.Skew; over > from {
				from, by = over, op
			}
		}
	}
	return from, by
}

// I3: a newer attempt starts only after the previous one was released, ended UNKNOWN, or its lease was over.
func (c *checking) newerAttemptWaits() {
	c.eachKey(func(key history.Key, ops []*history.Op) {
		found := starts(ops)
		for _, name := range attempts(found) {
			previous := found[attemptOf{name.record, name.number - 1}]
			if previous == nil {
				continue
			}
			newer := earliestEnd(found[name])
			attempt := previous[0].Attempt
			if c.gaveUp(ops, attempt, newer.End) {
				continue
			}
			from, by := c.leaseOverFrom(ops, attemptOf{name.record, name.number - 1}, attempt)
			if newer.End < from-model.Tolerance {
				c.report("I3", key, []*history.Op{by, newer}, "started %.3f s before the previous attempt's lease was over",
					float64(from-newer.End)/1e9)
			}
		}
	})
}

// gaveUp tells whether the attempt may have released the record, or ended unknown by its own word, by then.
func (c *checking) gaveUp(ops []*history.Op, attempt string, by int64) bool {
	for _, op := range ops {
		if op.RPC == history.Fail && op.Disposition != history.Final && op.Attempt == attempt && op.Start <= by &&
			!c.hadNoEffect(op) {
			return true
		}
	}
	return false
}

// I4: Complete, Fail or Renew called after a newer attempt was started never succeeds for the older one.
func (c *checking) olderAttemptIsOver() {
	c.eachKey(func(key history.Key, ops []*history.Op) {
		found := starts(ops)
		for _, name := range attempts(found) {
			newer := earliestEnd(found[name])
			for _, op := range ops {
				isOwner := op.IsFinish() || op.RPC == history.Renew
				if !isOwner || op.Class != history.OK || op.Start <= newer.End || op.Attempt == newer.Attempt {
					continue
				}
				older := numberOf(found, name.record, op.Attempt)
				// An attempt id may come back in a later record, once its first one was purged.
				if op.Answer.Record == name.record && older > 0 && older < name.number {
					c.report("I4", key, []*history.Op{newer, op}, "%s of attempt %d was taken after attempt %d was started", op.RPC,
						older, name.number)
				}
				if isEarlierRecord(ops, op, newer) {
					c.report("I4", key, []*history.Op{newer, op}, "%s was taken by a record that a newer one had replaced", op.RPC)
				}
			}
		}
	})
}

// isEarlierRecord tells whether the record that took the call was there before the newer start, which made another one.
func isEarlierRecord(ops []*history.Op, taken, newer *history.Op) bool {
	if taken.Answer.Record == newer.Answer.Record {
		return false
	}
	for _, op := range ops {
		if op.Answer.Record == taken.Answer.Record && op.End < newer.Start {
			return true
		}
	}
	return false
}

func numberOf(found map[attemptOf][]*history.Op, record, attempt string) int32 {
	for name, ops := range found {
		if name.record == record && ops[0].Attempt == attempt {
			return name.number
		}
	}
	return 0
}

// I8: a Begin repeated with its attempt id gets the same attempt, the final answer, LEASE_LOST or NEEDS_RESOLUTION.
func (c *checking) repeatIsTheSame() {
	c.eachKey(func(key history.Key, ops []*history.Op) {
		found := starts(ops)
		newest := make(map[string]int32)
		for name := range found {
			newest[name.record] = max(newest[name.record], name.number)
		}
		for _, name := range attempts(found) {
			first := earliestEnd(found[name])
			for _, op := range ops {
				if isToldOfItself(op, name, first.Attempt) {
					c.report("I8", key, []*history.Op{op, first}, "a Begin was told that its own attempt is in progress")
				}
				if op.RPC != history.Begin || op.Attempt != first.Attempt || op.Start <= first.End || op == first {
					continue
				}
				isForgotten := newest[name.record] > name.number+model.EarlierAttempts
				if isForgotten || c.mayHaveExpired(ops, name.record, op.End) || c.isGoodRepeat(first, op) {
					continue
				}
				c.report("I8", key, []*history.Op{first, op}, "a repeated Begin was not answered as its own attempt")
			}
		}
	})
}

// isToldOfItself: in progress is what another attempt holds, whichever of the two calls came first.
func isToldOfItself(op *history.Op, name attemptOf, attempt string) bool {
	return op.RPC == history.Begin && op.Class == history.OK && op.Answer.Result == history.InProgress &&
		op.Attempt == attempt && op.Answer.Record == name.record && op.Answer.Number == name.number
}

func (c *checking) isGoodRepeat(first, op *history.Op) bool {
	switch op.Class {
	case history.Unknown:
		return true
	case history.Definite:
		return !model.IsJudged(op.Reason) || op.Reason == "LEASE_LOST" || op.Reason == "NEEDS_RESOLUTION" ||
			(op.Reason == "KEY_REUSED" && op.Request != first.Request)
	}
	answer := op.Answer
	switch answer.Result {
	case history.Started:
		return answer.Record == first.Answer.Record && answer.Number == first.Answer.Number &&
			answer.Token == first.Answer.Token && answer.Repeated
	case history.Replay:
		return true
	}
	return false
}
