// Package audit compares what is in the service's table at the end of a run with what its callers were told.
package audit

import (
	"crypto/sha256"
	"fmt"

	"idempotencyd/tests/harness/checker"
	"idempotencyd/tests/harness/history"
	"idempotencyd/tests/harness/model"
)

// States as they are stored.
const (
	InProgress    = 1
	Completed     = 2
	FailedFinal   = 3
	Released      = 4
	Swept         = 5
	FailedUnknown = 6
)

// Row is one record.
type Row struct {
	Key    history.Key
	State  int
	Number int32
	// The first 16 bytes of the SHA-256 of the last attempt's id.
	AttemptHash [16]byte
	Token       int64
	// What the last attempt recorded; empty if nothing.
	Digest string
}

// HashOf is how an attempt id is stored.
func HashOf(attempt string) [16]byte {
	sum := sha256.Sum256([]byte(attempt))
	return [16]byte(sum[:16])
}

func (r Row) isFinal() bool { return r.State == Completed || r.State == FailedFinal }

// Check judges the rows, which were read at the instant `now` of the history.
func Check(rows []Row, h *history.History, params model.Params, now int64) []checker.Violation {
	a := &audit{params: params, now: now}
	byKey := h.ByKey()
	present := make(map[history.Key]Row, len(rows))
	for _, row := range rows {
		present[row.Key] = row
		a.row(row, byKey[row.Key])
	}
	for key, ops := range byKey {
		row, isThere := present[key]
		a.key(key, ops, row, isThere)
	}
	return a.found
}

type audit struct {
	params model.Params
	now    int64
	found  []checker.Violation
}

func (a *audit) report(invariant string, key history.Key, ops []*history.Op, format string, args ...any) {
	a.found = append(a.found, checker.Violation{
		Invariant: invariant, Key: key, Message: "the table at the end: " + fmt.Sprintf(format, args...), Ops: ops,
	})
}

// row checks that what stands in a row was asked for by somebody.
func (a *audit) row(row Row, ops []*history.Op) {
	var attempts, submitted []*history.Op
	for _, op := range ops {
		if op.RPC == history.Begin && HashOf(op.Attempt) == row.AttemptHash {
			attempts = append(attempts, op)
		}
		if op.IsFinish() && op.Submitted == row.Digest && HashOf(op.Attempt) == row.AttemptHash {
			submitted = append(submitted, op)
		}
	}
	if len(attempts) == 0 {
		a.report("I7", row.Key, nil, "attempt %d is nobody's", row.Number)
		return
	}
	if row.Digest != "" && len(submitted) == 0 {
		a.report("I7", row.Key, attempts[:1], "%s was not submitted by the attempt that has it", row.Digest)
	}
	for _, op := range attempts {
		isStart := op.Class == history.OK && op.Answer.Result == history.Started
		if isStart && op.Answer.Number == row.Number && op.Answer.Token > row.Token {
			a.report("I2", row.Key, []*history.Op{op}, "its token is %d, less than what was granted", row.Token)
		}
	}
}

// key checks that what callers were told of a key is in the table.
func (a *audit) key(key history.Key, ops []*history.Op, row Row, isThere bool) {
	last := lastFinal(ops)
	switch {
	case last == nil:
		if op := startedAndLeft(ops); op != nil && !isThere {
			a.report("I15", key, []*history.Op{op}, "an unsettled record is gone")
		}
	case a.now >= a.expiresFrom(ops):
	case !isThere:
		a.report("I6", key, []*history.Op{last}, "an acknowledged outcome is gone")
	case !row.isFinal() || row.Digest != digestOf(last):
		a.report("I6", key, []*history.Op{last}, "state %d with %q in the place of an acknowledged outcome", row.State, row.Digest)
	}
}

func digestOf(op *history.Op) string {
	if op.IsFinish() {
		return op.Submitted
	}
	return op.Answer.Digest
}

// lastFinal is the last call that was told of a final outcome, or had it accepted.
func lastFinal(ops []*history.Op) *history.Op {
	var last *history.Op
	for _, op := range ops {
		isTold := op.Class == history.OK && (op.Answer.Result == history.Replay || (op.IsFinish() && op.IsFinal()))
		if isTold && (last == nil || op.End > last.End) {
			last = op
		}
	}
	return last
}

// startedAndLeft is a call that started an attempt of a key for which nobody may have recorded anything.
func startedAndLeft(ops []*history.Op) *history.Op {
	var start *history.Op
	for _, op := range ops {
		if op.IsFinish() {
			return nil
		}
		if op.Class == history.OK && op.Answer.Result == history.Started {
			start = op
		}
	}
	return start
}

// expiresFrom is the earliest instant at which any record of the key may have expired.
func (a *audit) expiresFrom(ops []*history.Op) int64 {
	created, ttl, finished := history.Never, history.Never, history.Never
	for _, op := range ops {
		if op.RPC == history.Begin {
			created, ttl = min(created, op.Start), min(ttl, op.TTL)
		}
		if op.IsFinish() {
			finished = min(finished, op.Start)
		}
	}
	p := a.params
	return max(created+ttl, finished+p.ReplayWindow) + p.Margin - p.Skew - p.ExpiryEarly - model.Tolerance
}
