package checker

import (
	"testing"

	"idempotencyd/tests/harness/history"
)

// Histories that are right, and that a checker too strict would take for wrong.
var goodHistories = map[string]func(s *script){
	"a first call, its repeat, a duplicate, a replay": func(s *script) {
		s.started("k", "a", 0, 10, 1, 100)
		s.started("k", "a", 20, 30, 1, 100).Answer.Repeated = true
		s.inProgress("k", "b", 20, 25, 1)
		refused(s.begin("k", "c", 26, 27), "KEY_REUSED").Request = "pay 2"
		s.completed("k", "a", 40, 50, "completed/1")
		s.completed("k", "a", 60, 70, "completed/1").Answer.Already = true
		refused(s.completed("k", "a", 71, 72, "completed/2"), "OUTCOME_CONFLICT")
		s.replayed("k", "b", 80, 90, 1, "completed/1")
		s.found("k", 80, 90, "COMPLETED", 1, 100, "completed/1")
	},
	"a takeover when the lease is over, and the late owner": func(s *script) {
		s.started("k", "a", 0, 10, 1, 100)
		taken := s.started("k", "b", 1195, 1210, 2, 101)
		taken.Answer.Unknowns = 1
		refused(s.completed("k", "a", 1220, 1230, "completed/a"), "LEASE_LOST")
		refused(s.begin("k", "a", 1220, 1230), "LEASE_LOST")
		s.completed("k", "b", 1240, 1250, "completed/b")
	},
	"a late owner that nobody replaced": func(s *script) {
		s.started("k", "a", 0, 10, 1, 100)
		s.found("k", 1300, 1310, "ABANDONED", 1, 100, "")
		s.completed("k", "a", 5000, 5010, "completed/a")
		s.replayed("k", "b", 5020, 5030, 1, "completed/a")
	},
	"a renewed lease": func(s *script) {
		s.started("k", "a", 0, 10, 1, 100)
		s.renewed("k", "a", 900, 910)
		s.inProgress("k", "b", 1300, 1310, 1)
		s.started("k", "b", 2100, 2110, 2, 101).Answer.Unknowns = 1
	},
	"a release, then the next attempt": func(s *script) {
		s.started("k", "a", 0, 10, 1, 100)
		s.failed("k", "a", 20, 30, history.NotApplied, "released/a")
		refused(s.begin("k", "a", 31, 32), "LEASE_LOST")
		s.started("k", "b", 40, 50, 2, 101).Answer.PrevFailure = "released/a"
	},
	"an unknown end, then the next attempt": func(s *script) {
		s.started("k", "a", 0, 10, 1, 100)
		s.failed("k", "a", 20, 30, history.EndedUnknown, "unknown/a")
		next := s.started("k", "b", 40, 50, 2, 101)
		next.Answer.PrevFailure, next.Answer.Unknowns = "unknown/a", 1
	},
	"HOLD": func(s *script) {
		first := s.started("k", "a", 0, 10, 1, 100)
		first.Hold, first.Answer.Hold = true, true
		refused(s.begin("k", "b", 1300, 1310), "NEEDS_RESOLUTION")
		s.completed("k", "a", 1400, 1410, "completed/a")
		s.replayed("k", "b", 1420, 1430, 1, "completed/a").Answer.Hold = true
	},
	"a Begin whose answer was lost, and its repeat": func(s *script) {
		lost(s.begin("k", "a", 0, 0))
		s.inProgress("k", "b", 20, 30, 1)
		s.started("k", "a", 40, 50, 1, 100).Answer.Repeated = true
	},
	"a Begin whose answer was lost, and that never happened": func(s *script) {
		lost(s.begin("k", "a", 0, 0))
		s.started("k", "b", 20, 30, 1, 100)
		s.inProgress("k", "a", 40, 50, 1)
	},
	"a Complete whose answer was lost": func(s *script) {
		s.started("k", "a", 0, 10, 1, 100)
		lost(s.completed("k", "a", 20, 0, "completed/a"))
		s.inProgress("k", "b", 30, 40, 1)
		s.replayed("k", "b", 50, 60, 1, "completed/a")
		s.completed("k", "a", 70, 80, "completed/a").Answer.Already = true
	},
	"a new record after expiry": func(s *script) {
		s.started("k", "a", 0, 10, 1, 100)
		s.completed("k", "a", 20, 30, "completed/a")
		record(s.started("k", "b", 3220, 3235, 1, 200), "k-2")
		refused(s.completed("k", "a", 3300, 3310, "completed/a"), "LEASE_LOST")
	},
	"a new record after purge, in which the old attempt is a new one": func(s *script) {
		s.started("k", "a", 0, 10, 1, 100)
		s.completed("k", "a", 20, 30, "completed/a")
		refused(s.completed("k", "a", 3300, 3310, "completed/a"), "RECORD_NOT_FOUND")
		record(s.started("k", "a", 3320, 3330, 1, 200), "k-2")
	},
	"a call that the server ran again answers what holds by then": func(s *script) {
		s.h.Faults = []history.Fault{{Name: "database: cut", Start: 20 * ms, End: 30 * ms}}
		s.started("k", "a", 0, 10, 1, 100)
		refused(s.failed("k", "a", 20, 90, history.NotApplied, "released/a"), "LEASE_LOST")
		s.started("k", "b", 40, 50, 2, 101).Answer.PrevFailure = "released/a"
	},
	"two keys of one name": func(s *script) {
		s.started("k", "a", 0, 10, 1, 100)
		other := record(s.started("k", "b", 0, 10, 1, 100), "other-1")
		other.Merchant = "n"
	},
	"refusals that say nothing": func(s *script) {
		refused(s.begin("k", "a", 0, 10), "STORE_UNAVAILABLE")
		s.started("k", "b", 20, 30, 1, 100)
		refused(s.completed("k", "b", 40, 50, "completed/1"), "OVERLOADED")
		s.completed("k", "b", 60, 70, "completed/1")
	},
}

func TestRightHistoriesAreAccepted(t *testing.T) {
	for name, write := range goodHistories {
		t.Run(name, func(t *testing.T) {
			s := &script{}
			write(s)
			for _, violation := range s.check() {
				t.Error(violation)
			}
		})
	}
}
