package checker

import (
	"idempotencyd/tests/harness/history"
	"idempotencyd/tests/harness/model"
)

func replayed(op *history.Op) bool {
	return op.RPC == history.Begin && op.Class == history.OK && op.Answer.Result == history.Replay
}

func shownFinal(op *history.Op) bool {
	return op.RPC == history.Lookup && op.Class == history.OK &&
		(op.Answer.State == "COMPLETED" || op.Answer.State == "FAILED")
}

// toldFinal tells which final outcome of which record a call was told, or had accepted.
func toldFinal(op *history.Op) (record, digest string, isFinal bool) {
	switch {
	case replayed(op), shownFinal(op):
		return op.Answer.Record, op.Answer.Digest, true
	case op.Class == history.OK && op.IsFinish() && op.IsFinal():
		return op.Answer.Record, op.Submitted, true
	}
	return "", "", false
}

// I5: per record at most one final outcome, and every replay of it is the same.
func (c *checking) oneOutcome() {
	c.eachKey(func(key history.Key, ops []*history.Op) {
		first := make(map[string]*history.Op)
		firstReplay := make(map[string]*history.Op)
		for _, op := range ops {
			record, digest, isFinal := toldFinal(op)
			if !isFinal {
				continue
			}
			if other := first[record]; other == nil {
				first[record] = op
			} else if _, told, _ := toldFinal(other); told != digest {
				c.report("I5", key, []*history.Op{other, op}, "two final outcomes of one record")
			}
			if !replayed(op) {
				continue
			}
			other := firstReplay[record]
			if other == nil {
				firstReplay[record] = op
			} else if other.Answer.Number != op.Answer.Number || other.Answer.Finish != op.Answer.Finish {
				c.report("I5", key, []*history.Op{other, op}, "two replays differ in attempt number or time")
			}
		}
	})
}

// expiresFrom is the earliest instant at which the record may have expired, and whether it was seen at all.
func (c *checking) expiresFrom(ops []*history.Op, record string) int64 {
	created, ttl, finished := history.Never, history.Never, history.Never
	for _, op := range ops {
		// Whoever made the record, it was not before the first Begin that was told of it, or lost, was sent.
		if op.RPC == history.Begin && !c.hadNoEffect(op) && (op.Answer.Record == record || op.Class != history.OK) {
			created, ttl = min(created, op.Start), min(ttl, op.TTL)
		}
		if op.IsFinish() && !c.hadNoEffect(op) && (op.Answer.Record == record || op.Class != history.OK) {
			finished = min(finished, op.Start)
		}
	}
	if created == history.Never || finished == history.Never {
		return history.Never
	}
	p := c.config.Params
	return max(created+ttl, finished+p.ReplayWindow) + p.Margin - p.ExpiryEarly - p.Skew - model.Tolerance
}

func (c *checking) mayHaveExpired(ops []*history.Op, record string, by int64) bool {
	return by >= c.expiresFrom(ops, record)
}

// I6: what was recorded and acknowledged is what everybody gets, until it expires.
func (c *checking) outcomeStays() {
	c.eachKey(func(key history.Key, ops []*history.Op) {
		acknowledged := make(map[string]*history.Op)
		for _, op := range ops {
			if record, _, isFinal := toldFinal(op); isFinal {
				if known := acknowledged[record]; known == nil || op.End < known.End {
					acknowledged[record] = op
				}
			}
		}
		for record, first := range acknowledged {
			_, digest, _ := toldFinal(first)
			from := c.expiresFrom(ops, record)
			for _, op := range ops {
				if op.Start > first.End && op.End < from && c.forgets(ops, op, record, digest) {
					c.report("I6", key, []*history.Op{first, op}, "an acknowledged outcome was not returned")
				}
			}
		}
	})
}

// forgets tells whether a later call was answered as if the outcome were not there.
func (c *checking) forgets(ops []*history.Op, op *history.Op, record, digest string) bool {
	if op.Class == history.Unknown || (op.Class == history.Definite && !model.IsJudged(op.Reason)) {
		return false
	}
	switch op.RPC {
	case history.Lookup:
		return op.Class == history.Definite || op.Answer.Record != record || op.Answer.Digest != digest
	case history.Begin:
		if op.Request != requestOf(ops, record) {
			return false
		}
		return op.Class == history.Definite || op.Answer.Result != history.Replay || op.Answer.Record != record ||
			op.Answer.Digest != digest
	}
	return op.Reason == "RECORD_NOT_FOUND"
}

// requestOf is the request that the record was begun with.
func requestOf(ops []*history.Op, record string) string {
	for _, op := range ops {
		if op.RPC == history.Begin && op.Class == history.OK && op.Answer.Record == record {
			return op.Request
		}
	}
	return ""
}

// I7: no outcome is returned that none of the key's own attempts submitted before.
func (c *checking) nothingInvented() {
	c.eachKey(func(key history.Key, ops []*history.Op) {
		for _, op := range ops {
			told := ""
			switch {
			case replayed(op), op.RPC == history.Lookup && op.Class == history.OK:
				told = op.Answer.Digest
			case started(op):
				told = op.Answer.PrevFailure
			}
			if told != "" && !wasSubmitted(ops, told, op.End) {
				c.report("I7", key, []*history.Op{op}, "nobody submitted %s for this key", told)
			}
		}
	})
}

func wasSubmitted(ops []*history.Op, digest string, by int64) bool {
	for _, op := range ops {
		if op.IsFinish() && op.Submitted == digest && op.Start <= by {
			return true
		}
	}
	return false
}

// I9: another body gets neither the work nor the outcome.
func (c *checking) otherBodyGetsNothing() {
	c.eachKey(func(key history.Key, ops []*history.Op) {
		first := make(map[string]*history.Op)
		for _, op := range ops {
			if op.RPC != history.Begin || op.Class != history.OK {
				continue
			}
			if other := first[op.Answer.Record]; other == nil {
				first[op.Answer.Record] = op
			} else if other.Request != op.Request {
				c.report("I9", key, []*history.Op{other, op}, "two different requests were served by one record")
			}
		}
	})
}

// I10: nothing of one merchant's, or key's, record is seen in another's.
func (c *checking) merchantsDoNotMeet() {
	type seen struct {
		key history.Key
		op  *history.Op
	}
	first := make(map[string]seen)
	downstream := make(map[string]string)
	c.eachKey(func(key history.Key, ops []*history.Op) {
		for _, op := range ops {
			for _, name := range []string{op.Answer.Record, op.Answer.Downstream} {
				if name == "" {
					continue
				}
				if other, ok := first[name]; !ok {
					first[name] = seen{key, op}
				} else if other.key != key {
					c.report("I10", key, []*history.Op{other.op, op}, "an id of %s was told to another key", other.key)
				}
			}
			if op.Answer.Downstream == "" {
				continue
			}
			if other, ok := downstream[op.Answer.Record]; ok && other != op.Answer.Downstream {
				c.report("I10", key, []*history.Op{op}, "two downstream keys of one record")
			}
			downstream[op.Answer.Record] = op.Answer.Downstream
		}
	})
	c.outcomesDoNotMeet()
}

// A digest that only another key's attempts submitted.
func (c *checking) outcomesDoNotMeet() {
	submitted := make(map[string]history.Key)
	for _, op := range c.history.Ops {
		if op.IsFinish() {
			submitted[op.Submitted] = op.KeyOf()
		}
	}
	c.eachKey(func(key history.Key, ops []*history.Op) {
		for _, op := range ops {
			owner, isKnown := submitted[op.Answer.Digest]
			if op.Answer.Digest != "" && isKnown && owner != key && !wasSubmitted(ops, op.Answer.Digest, op.End) {
				c.report("I10", key, []*history.Op{op}, "an outcome of %s was told to another key", owner)
			}
		}
	})
}

// I11: what only calls that were definitely refused asked for is never seen.
func (c *checking) refusedHadNoEffect() {
	c.eachKey(func(key history.Key, ops []*history.Op) {
		for _, op := range ops {
			if !c.hadNoEffect(op) || op.RPC == history.Lookup {
				continue
			}
			if op.IsFinish() {
				c.refusedFinishIsNotSeen(key, ops, op)
			}
			if op.RPC == history.Begin {
				c.refusedBeginIsNotSeen(key, ops, op)
			}
		}
	})
}

func (c *checking) refusedFinishIsNotSeen(key history.Key, ops []*history.Op, refused *history.Op) {
	for _, op := range ops {
		if op.IsFinish() && op.Submitted == refused.Submitted && !op.HadNoEffect() {
			return
		}
	}
	for _, op := range ops {
		if op.Answer.Digest == refused.Submitted || op.Answer.PrevFailure == refused.Submitted {
			c.report("I11", key, []*history.Op{refused, op}, "what was refused was recorded all the same")
			return
		}
	}
}

func (c *checking) refusedBeginIsNotSeen(key history.Key, ops []*history.Op, refused *history.Op) {
	for _, op := range ops {
		if op.RPC != history.Begin || op.Attempt != refused.Attempt || op == refused {
			continue
		}
		if op.Start < refused.Start && !op.HadNoEffect() {
			return
		}
	}
	for _, op := range ops {
		if started(op) && op.Attempt == refused.Attempt && op.Start > refused.End && op.Answer.Repeated && !c.isDisturbed(op) &&
			earliest(ops, refused.Attempt, refused.End) == op {
			c.report("I11", key, []*history.Op{refused, op}, "a Begin that was refused had started the attempt")
			return
		}
	}
}

// earliest is the first Begin of the attempt that was sent after the instant and not refused.
func earliest(ops []*history.Op, attempt string, after int64) *history.Op {
	for _, op := range ops {
		if op.RPC == history.Begin && op.Attempt == attempt && op.Start > after && !op.HadNoEffect() {
			return op
		}
	}
	return nil
}
