package checker

import (
	"testing"

	"idempotencyd/tests/harness/history"
)

// Histories that are wrong, each by the name under which it must be caught.
var badHistories = map[string]map[string]func(s *script){
	"I1": {
		"two attempt ids are the first attempt": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.started("k", "b", 20, 30, 1, 101)
		},
	},
	"I2": {
		"the next attempt has the same token": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.failed("k", "a", 20, 30, history.NotApplied, "released/a")
			s.started("k", "b", 40, 50, 2, 100).Answer.PrevFailure = "released/a"
		},
		"a token runs back over expiry": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.completed("k", "a", 20, 30, "completed/a")
			record(s.started("k", "b", 9000, 9010, 1, 90), "k-2")
		},
		"a repeat carries another token": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.started("k", "a", 20, 30, 1, 101).Answer.Repeated = true
		},
	},
	"I3": {
		"a live lease is taken over": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.started("k", "b", 500, 510, 2, 101).Answer.Unknowns = 1
		},
		"the lease is over, but not the margin": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.started("k", "b", 1050, 1060, 2, 101).Answer.Unknowns = 1
		},
		"a renewed lease is taken over": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.renewed("k", "a", 900, 910)
			s.started("k", "b", 1300, 1310, 2, 101).Answer.Unknowns = 1
		},
	},
	"I4": {
		"the older attempt completes": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.started("k", "b", 1300, 1310, 2, 101).Answer.Unknowns = 1
			s.completed("k", "a", 1400, 1410, "completed/a")
		},
		"the older attempt renews": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.started("k", "b", 1300, 1310, 2, 101).Answer.Unknowns = 1
			s.renewed("k", "a", 1400, 1410)
		},
		"an earlier record's attempt completes": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.completed("k", "a", 20, 30, "completed/a")
			record(s.started("k", "b", 9000, 9010, 1, 200), "k-2")
			s.completed("k", "a", 9020, 9030, "completed/a").Answer.Already = true
		},
	},
	"I5": {
		"two outcomes are accepted": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.completed("k", "a", 20, 30, "completed/1")
			s.completed("k", "a", 40, 50, "completed/2")
		},
		"replays differ": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			lost(s.completed("k", "a", 20, 0, "completed/1"))
			lost(s.completed("k", "a", 20, 0, "completed/2"))
			s.replayed("k", "b", 40, 50, 1, "completed/1")
			s.replayed("k", "b", 60, 70, 1, "completed/2")
		},
		"replays differ in time": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.completed("k", "a", 20, 30, "completed/1")
			s.replayed("k", "b", 40, 50, 1, "completed/1")
			s.replayed("k", "b", 60, 70, 1, "completed/1").Answer.Finish = 78
		},
	},
	"I6": {
		"an acknowledged outcome is lost": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.completed("k", "a", 20, 30, "completed/1")
			s.inProgress("k", "b", 40, 50, 1)
		},
		"the record is lost": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.completed("k", "a", 20, 30, "completed/1")
			record(s.started("k", "b", 40, 50, 1, 200), "k-2")
		},
		"Lookup does not find it": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.failed("k", "a", 20, 30, history.Final, "failed/1")
			refused(s.found("k", 40, 50, "", 0, 0, ""), "RECORD_NOT_FOUND")
		},
	},
	"I7": {
		"an invented outcome": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			lost(s.completed("k", "a", 20, 0, "completed/1"))
			s.replayed("k", "b", 40, 50, 1, "completed/0")
		},
		"an outcome before it was submitted": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.replayed("k", "b", 20, 30, 1, "completed/1")
			s.completed("k", "a", 40, 50, "completed/1")
		},
	},
	"I8": {
		"in progress because of itself": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.inProgress("k", "a", 20, 30, 1)
		},
		"in progress because of itself, before it is told that it was started": func(s *script) {
			s.inProgress("k", "a", 0, 10, 1)
			s.started("k", "a", 20, 30, 1, 100).Answer.Repeated = true
			lost(s.begin("k", "b", 0, 0))
		},
		"a late duplicate restarts the work": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.failed("k", "a", 20, 30, history.NotApplied, "released/a")
			s.started("k", "a", 40, 50, 2, 101).Answer.PrevFailure = "released/a"
		},
		"a repeat is told that it is the first": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.started("k", "a", 20, 30, 1, 100)
		},
	},
	"I9": {
		"another body gets the outcome": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.completed("k", "a", 20, 30, "completed/1")
			s.replayed("k", "b", 40, 50, 1, "completed/1").Request = "pay 2"
		},
		"another body is told in progress": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.inProgress("k", "b", 40, 50, 1).Request = "pay 2"
		},
	},
	"I10": {
		"another merchant gets the outcome": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.completed("k", "a", 20, 30, "completed/1")
			s.replayed("k", "b", 40, 50, 1, "completed/1").Merchant = "n"
		},
		"another merchant is told the record": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.inProgress("k", "b", 40, 50, 1).Merchant = "n"
		},
		"two results of a batch are swapped": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.completed("k", "a", 20, 30, "completed/k")
			s.started("l", "a", 0, 10, 1, 100)
			s.completed("l", "a", 20, 30, "completed/l")
			record(s.replayed("k", "b", 40, 50, 1, "completed/l"), "l-1")
			record(s.replayed("l", "b", 40, 50, 1, "completed/k"), "k-1")
		},
	},
	"I11": {
		"what was refused is recorded": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			refused(s.completed("k", "a", 20, 30, "completed/1"), "STORE_UNAVAILABLE")
			s.replayed("k", "b", 40, 50, 1, "completed/1")
		},
		"a refused Begin had started": func(s *script) {
			refused(s.begin("k", "a", 0, 10), "STORE_UNAVAILABLE")
			s.started("k", "a", 20, 30, 1, 100).Answer.Repeated = true
		},
	},
	"I12": {
		"a key does not end": func(s *script) {
			s.h.Drives = []history.Drive{{Key: history.Key{Merchant: "m", Key: "k"}, Problem: "in progress for ever"}}
		},
		"a key ends too late": func(s *script) {
			s.h.Drives = []history.Drive{{Key: history.Key{Merchant: "m", Key: "k"}, Took: 11, Bound: 10}}
		},
	},
	"I15": {
		"an accepted Complete is dropped": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			lost(s.completed("k", "a", 20, 0, "completed/1")).Accepted = true
			s.found("k", 900, 910, "IN_PROGRESS", 1, 100, "")
		},
		"an unsettled record expires": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.failed("k", "a", 20, 30, history.EndedUnknown, "unknown/a")
			record(s.started("k", "b", 9000, 9010, 1, 200), "k-2")
		},
	},
	Linearizable: {
		"a Begin that was refused blocks others": func(s *script) {
			refused(s.begin("k", "a", 0, 10), "STORE_UNAVAILABLE")
			s.inProgress("k", "b", 20, 30, 1)
		},
		"an answer out of order": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.completed("k", "a", 20, 30, "completed/1")
			s.found("k", 40, 50, "IN_PROGRESS", 1, 100, "")
		},
		"a Fail deletes the record": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.failed("k", "a", 20, 30, history.NotApplied, "released/a")
			refused(s.found("k", 40, 50, "", 0, 0, ""), "RECORD_NOT_FOUND")
		},
		"a late duplicate restarts a released record": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.failed("k", "a", 20, 30, history.NotApplied, "released/a")
			s.started("k", "a", 40, 50, 2, 101).Answer.PrevFailure = "released/a"
		},
		"an unknown attempt is not counted": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.started("k", "b", 1300, 1310, 2, 101)
		},
		"HOLD is forgotten": func(s *script) {
			first := s.started("k", "a", 0, 10, 1, 100)
			first.Hold, first.Answer.Hold = true, true
			next := s.started("k", "b", 1300, 1310, 2, 101)
			next.Answer.Unknowns, next.Answer.Hold = 1, true
		},
		"a released record is told in progress": func(s *script) {
			s.started("k", "a", 0, 10, 1, 100)
			s.failed("k", "a", 20, 30, history.NotApplied, "released/a")
			s.inProgress("k", "b", 40, 50, 1)
		},
		"two lost Begins cannot both have been first": func(s *script) {
			lost(s.begin("k", "a", 0, 0))
			lost(s.begin("k", "b", 0, 0))
			s.started("k", "a", 20, 30, 1, 100).Answer.Repeated = true
			s.started("k", "b", 40, 50, 1, 101).Answer.Repeated = true
		},
	},
}

func TestWrongHistoriesAreCaughtByName(t *testing.T) {
	for invariant, histories := range badHistories {
		for name, write := range histories {
			t.Run(invariant+"/"+name, func(t *testing.T) {
				s := &script{}
				write(s)
				found := s.check()
				for _, violation := range found {
					if violation.Invariant == invariant {
						return
					}
				}
				t.Errorf("not caught; found %v", found)
			})
		}
	}
}

// Calls by several clients at once, most of whose answers were lost: the checker must not take its time.
func TestUndecidedIsAFailure(t *testing.T) {
	s := &script{}
	for i := 0; i < 40; i++ {
		lost(s.begin("k", string(rune('A'+i)), int64(i), 0))
	}
	s.started("k", "A", 100, 110, 9, 100)
	found := Check(&s.h, Config{Params: params, Timeout: 1})
	for _, violation := range found {
		if violation.Invariant == Linearizable {
			return
		}
	}
	t.Errorf("got %v", found)
}

// Under a fault after which the server runs calls again a refusal may hide an effect; without one it may not.
func TestHiddenRunIsAllowedUnderItsFaultOnly(t *testing.T) {
	write := func(s *script) {
		s.started("k", "a", 0, 10, 1, 100)
		refused(s.failed("k", "a", 20, 90, history.NotApplied, "released/a"), "LEASE_LOST")
		s.started("k", "b", 40, 50, 2, 101).Answer.PrevFailure = "released/a"
	}
	s := &script{}
	write(s)
	if len(s.check()) == 0 {
		t.Error("a refusal with an effect was accepted although nothing was disturbed")
	}
}

func TestClockStepsAllowWhatTheMarginAbsorbsAndNoMore(t *testing.T) {
	withSkew := params
	withSkew.Skew = params.Margin
	s := &script{}
	s.started("k", "a", 0, 10, 1, 100)
	s.started("k", "b", 1010, 1020, 2, 101).Answer.Unknowns = 1
	if found := s.checkWith(withSkew); len(found) != 0 {
		t.Errorf("got %v", found)
	}
	s = &script{}
	s.started("k", "a", 0, 10, 1, 100)
	s.started("k", "b", 900, 910, 2, 101).Answer.Unknowns = 1
	if found := s.checkWith(withSkew); len(found) == 0 {
		t.Error("a live lease was taken over, and nobody minded")
	}
}
