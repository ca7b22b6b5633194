package chaos

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
	"idempotencyd/tests/harness/history"
)

func TestScenariosHaveNamesOfTheirOwn(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range Scenarios() {
		if seen[s.Name] {
			t.Errorf("%s twice", s.Name)
		}
		seen[s.Name] = true
		if found, err := Select(s.Name); err != nil || len(found) != 1 {
			t.Errorf("Select(%q) = %v, %v", s.Name, found, err)
		}
	}
	if _, err := Select("no such thing"); err == nil {
		t.Error("something was found")
	}
}

func TestEveryCaseOfTheCatalogueHasAScenario(t *testing.T) {
	for _, number := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "19", "20", "26", "27"} {
		if found, err := Select(number + "-"); err != nil || len(found) == 0 {
			t.Errorf("none for %s", number)
		}
	}
}

func TestEveryPlantedFaultHasScenariosToExposeIt(t *testing.T) {
	if len(AllPlanted) < 14 {
		t.Errorf("%d planted faults", len(AllPlanted))
	}
	for _, planted := range AllPlanted {
		for _, name := range planted.Scenarios {
			if _, err := Select(name); err != nil {
				t.Errorf("%s: %v", planted.Name, err)
			}
		}
	}
}

func TestRotationComesToEveryPlantedFault(t *testing.T) {
	seen := make(map[string]bool)
	for seed := range uint64(len(AllPlanted)) {
		for _, planted := range SelectPlanted("rotate", seed) {
			seen[planted.Name] = true
		}
	}
	if len(seen) != len(AllPlanted) {
		t.Errorf("%d of %d", len(seen), len(AllPlanted))
	}
}

func TestUnseenPlantedFaultIsLookedForEverywhere(t *testing.T) {
	found := SelectPlanted("something else", 1)
	if len(found) != 1 || len(found[0].Scenarios) < 10 {
		t.Errorf("got %v", found)
	}
}

func TestDigestIsOfWhatWasSubmittedNotOfWhatLookupAdds(t *testing.T) {
	submitted := outcomeOf(history.Key{Merchant: "m", Key: "k"}, "attempt", "1")
	shown := proto.Clone(submitted).(*idempotencyv1.Outcome)
	shown.BodySize, shown.BodySha256 = proto.Int64(7), []byte("hash")
	if digestOfOutcome(submitted) != digestOfOutcome(shown) {
		t.Error("Lookup's additions change the digest")
	}
	if digestOfOutcome(submitted) == digestOfOutcome(outcomeOf(history.Key{Merchant: "m", Key: "k"}, "attempt", "2")) {
		t.Error("two outcomes have one digest")
	}
	absent := proto.Clone(submitted).(*idempotencyv1.Outcome)
	absent.Body = nil
	empty := proto.Clone(submitted).(*idempotencyv1.Outcome)
	empty.Body = []byte{}
	if digestOfOutcome(absent) == digestOfOutcome(empty) {
		t.Error("an absent and an empty body have one digest")
	}
}

func TestDigestsTellDispositionsApart(t *testing.T) {
	key := history.Key{Merchant: "m", Key: "k"}
	seen := make(map[string]bool)
	for _, how := range []history.Disposition{history.NotApplied, history.Final, history.EndedUnknown} {
		seen[digestOfFailure(failureOf(key, "attempt", how, "1"))] = true
	}
	if len(seen) != 3 {
		t.Errorf("got %v", seen)
	}
}

func TestCallThatNeverLeftIsToldFromOneThatWasLost(t *testing.T) {
	refused := status.New(codes.Unavailable, `connection error: desc = "transport: Error while dialing: connection refused"`)
	if !neverLeft(refused) {
		t.Error("a refused connection counts as sent")
	}
	for _, lost := range []*status.Status{
		status.New(codes.Unavailable, "error reading from server: EOF"), status.New(codes.DeadlineExceeded, "context deadline exceeded"),
	} {
		if neverLeft(lost) {
			t.Errorf("%v counts as not sent", lost)
		}
	}
}

func TestLatenciesArePartedByTheFaults(t *testing.T) {
	op := func(start int64) *history.Op {
		return &history.Op{Start: start, End: start + int64(time.Millisecond), Class: history.OK}
	}
	h := &history.History{
		Ops:    []*history.Op{op(1), op(10), op(15), op(30)},
		Faults: []history.Fault{{Start: 10, End: 20}},
	}
	before, during, after := latencies(h)
	if before.ok != 1 || during.ok != 2 || after.ok != 1 {
		t.Errorf("%d before, %d during, %d after", before.ok, during.ok, after.ok)
	}
}

func TestFirstWriteAfterLooksAtWritesThatWereSentAfterwards(t *testing.T) {
	h := &history.History{Ops: []*history.Op{
		{RPC: history.Complete, Class: history.OK, Start: 5, End: 50},
		{RPC: history.Lookup, Class: history.OK, Start: 11, End: 12},
		{RPC: history.Complete, Class: history.Unknown, Start: 12, End: history.Never},
		{RPC: history.Complete, Class: history.OK, Start: 20, End: 30},
	}}
	if got, found := firstWriteAfter(h, 10); !found || got != 20 {
		t.Errorf("got %v, %t", got, found)
	}
}

func TestScheduleComesFromSeedAndScenario(t *testing.T) {
	draw := func(seed uint64, name string) uint64 {
		return newRun(Scenario{Name: name}, Options{Seed: seed}, &World{}).rng.Uint64()
	}
	first := draw(1, "a")
	if again := draw(1, "a"); again != first {
		t.Error("one seed, two schedules")
	}
	if first == draw(2, "a") || first == draw(1, "b") {
		t.Error("two seeds, or scenarios, have one schedule")
	}
}

func TestTokenOffsetIsReadFromStoredHistory(t *testing.T) {
	// Field 3 is 5, field 7 is 300.
	if got := tokenOffset([]byte{0x18, 0x05, 0x38, 0xac, 0x02}); got != 300 {
		t.Errorf("got %d", got)
	}
	if got := tokenOffset(nil); got != 0 {
		t.Errorf("got %d", got)
	}
}

func TestAttemptIdsArePlantedAndWithinTheirBound(t *testing.T) {
	attempt := newAttempt(rand.New(rand.NewPCG(1, 1)))
	if !strings.HasPrefix(attempt, plantedAttempt) || len(attempt) > 64 || len(attempt) < 16 {
		t.Errorf("%q", attempt)
	}
}
