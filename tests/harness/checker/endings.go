package checker

import "idempotencyd/tests/harness/history"

// I12: after the last fault every key can be driven to a final state, within its bound.
func (c *checking) everyKeyEnds() {
	for _, drive := range c.history.Drives {
		switch {
		case drive.Held:
		case drive.Problem != "":
			c.report("I12", drive.Key, nil, "could not be driven to its end: %s", drive.Problem)
		case drive.Took > drive.Bound:
			c.report("I12", drive.Key, nil, "took %.1f s to be driven to its end; the bound is %.1f s", float64(drive.Took)/1e9,
				float64(drive.Bound)/1e9)
		}
	}
}

// I15: a Complete or Fail that a living server took into its queue is not dropped, whoever left meanwhile: in the end its
// attempt's answer, or another one that came first, is there.
func (c *checking) acceptedIsNotDropped() {
	c.eachKey(func(key history.Key, ops []*history.Op) {
		for _, op := range ops {
			if !op.Accepted || op.Class != history.Unknown {
				continue
			}
			if last := lastAnswerAbout(ops); last != nil && !accountsFor(ops, last, op) {
				c.report("I15", key, []*history.Op{op, last}, "a %s that was accepted is not recorded", op.RPC)
			}
		}
	})
}

// lastAnswerAbout is the last Lookup or replay of the key.
func lastAnswerAbout(ops []*history.Op) *history.Op {
	var last *history.Op
	for _, op := range ops {
		if op.Class == history.OK && (op.RPC == history.Lookup || replayed(op)) && (last == nil || op.Start > last.Start) {
			last = op
		}
	}
	return last
}

// accountsFor tells whether what was seen last leaves no doubt that the accepted call was executed: it shows what the call
// submitted, or what its attempt or a newer one recorded before.
func accountsFor(ops []*history.Op, last, accepted *history.Op) bool {
	if last.Answer.Digest == accepted.Submitted {
		return true
	}
	number := int32(0)
	for _, op := range ops {
		if started(op) && op.Attempt == accepted.Attempt && op.Answer.Record == last.Answer.Record {
			number = op.Answer.Number
		}
	}
	if last.Answer.Number > number {
		return true
	}
	for _, op := range ops {
		if op.IsFinish() && op.Attempt == accepted.Attempt && op.Submitted == last.Answer.Digest {
			return true
		}
	}
	return false
}

// I15: a record with an attempt that ended unknown never expires unsettled: no new record of its key is begun.
func (c *checking) unsettledNeverExpires() {
	c.eachKey(func(key history.Key, ops []*history.Op) {
		for _, name := range attempts(starts(ops)) {
			if name.number != 1 {
				continue
			}
			fresh := earliestEnd(starts(ops)[name])
			for _, op := range ops {
				if op.Answer.Record == "" || op.Answer.Record == name.record || op.End >= fresh.Start {
					continue
				}
				if leftUnknown(ops, op) && !c.mayBeSettled(ops, op.Answer.Record, fresh.End) {
					c.report("I15", key, []*history.Op{op, fresh}, "a new record was begun although the old one is unsettled")
					break
				}
			}
		}
	})
}

// leftUnknown tells whether an answer shows that an attempt of its record ended unknown.
func leftUnknown(ops []*history.Op, op *history.Op) bool {
	if op.Class != history.OK {
		return false
	}
	return op.Answer.Unknowns > 0 || (op.RPC == history.Fail && op.Disposition == history.EndedUnknown)
}

// mayBeSettled tells whether a final answer may have been recorded in the record by then.
func (c *checking) mayBeSettled(ops []*history.Op, record string, by int64) bool {
	for _, op := range ops {
		if !op.IsFinish() || c.hadNoEffect(op) || op.Start > by {
			continue
		}
		// Whoever ended unknown may take that back by releasing the record, if no attempt before did so, too.
		if op.Answer.Record == record || op.Class != history.OK {
			if op.IsFinal() || op.Disposition == history.NotApplied {
				return true
			}
		}
	}
	return false
}
