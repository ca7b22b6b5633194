package chaos

import (
	"fmt"
	"sort"
	"time"

	"idempotencyd/tests/harness/history"
)

// spread is what calls of a stretch of time took, and how they ended.
type spread struct {
	ok, definite, unknown int
	took                  []time.Duration
}

func (s *spread) add(op *history.Op) {
	switch op.Class {
	case history.OK:
		s.ok++
		// A call that was told to wait took as long as it was told.
		if op.Wait == 0 {
			s.took = append(s.took, time.Duration(op.End-op.Start))
		}
	case history.Definite:
		s.definite++
	default:
		s.unknown++
	}
}

func (s *spread) quantile(q float64) time.Duration {
	if len(s.took) == 0 {
		return 0
	}
	sort.Slice(s.took, func(i, j int) bool { return s.took[i] < s.took[j] })
	return s.took[min(len(s.took)-1, int(q*float64(len(s.took))))]
}

func (s *spread) String() string {
	if s.ok+s.definite+s.unknown == 0 {
		return "no calls"
	}
	return fmt.Sprintf("%d ok (p50 %s, p99 %s), %d refused, %d unknown", s.ok, round(s.quantile(0.5)), round(s.quantile(0.99)),
		s.definite, s.unknown)
}

func round(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > 10*time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Microsecond)
}

// latencies parts the calls by when they were sent: before the first fault, while one was there, and afterwards.
func latencies(h *history.History) (before, during, after spread) {
	for _, op := range h.Ops {
		isDuring, isAfter := false, false
		for _, fault := range h.Faults {
			isDuring = isDuring || (op.Start >= fault.Start && op.Start <= fault.End)
			isAfter = isAfter || op.Start > fault.End
		}
		switch {
		case isDuring:
			during.add(op)
		case isAfter:
			after.add(op)
		default:
			before.add(op)
		}
	}
	return before, during, after
}

// firstWriteAfter is how long after the instant the first write was sent that succeeded.
func firstWriteAfter(h *history.History, instant int64) (time.Duration, bool) {
	first, found := history.Never, false
	for _, op := range h.Ops {
		isWrite := op.IsFinish() || (op.RPC == history.Begin && op.Answer.Result == history.Started && !op.Answer.Repeated)
		if isWrite && op.Class == history.OK && op.Start >= instant && op.End < first {
			first, found = op.End, true
		}
	}
	return time.Duration(first - instant), found
}
