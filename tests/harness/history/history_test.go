package history

import (
	"bytes"
	"reflect"
	"testing"
)

func TestClassifyFollowsTheRuleOfTheErrorsPage(t *testing.T) {
	for _, c := range []struct {
		code, reason string
		want         Class
	}{
		{"OK", "", OK},
		{"UNAVAILABLE", "STORE_UNAVAILABLE", Definite},
		{"ABORTED", "LEASE_LOST", Definite},
		{"UNAVAILABLE", "SOMETHING_NEW", Definite},
		{"UNAVAILABLE", "COMMIT_UNKNOWN", Unknown},
		{"INTERNAL", "INTERNAL", Unknown},
		{"UNAVAILABLE", "", Unknown},
		{"DEADLINE_EXCEEDED", "", Unknown},
		{"CANCELLED", "", Unknown},
		{"RESOURCE_EXHAUSTED", "", Definite},
	} {
		if got := Classify(c.code, c.reason); got != c.want {
			t.Errorf("Classify(%q, %q) = %q, want %q", c.code, c.reason, got, c.want)
		}
	}
}

func TestCallWithoutAnAnswerIsUnknownAndNeverEnds(t *testing.T) {
	r := NewRecorder()
	lost := r.Sent(&Op{RPC: Begin, Key: "k"})
	r.Answered(lost, "UNAVAILABLE", "", Answer{Record: "not to be kept"})
	got := r.Snapshot().Ops[0]
	if got.Class != Unknown || got.End != Never || got.Answer != (Answer{}) {
		t.Errorf("got %+v", got)
	}
}

func TestCallThatWasNotSentIsNoPartOfTheHistory(t *testing.T) {
	r := NewRecorder()
	r.Sent(&Op{RPC: Begin, Key: "a"})
	r.NotSent(r.Sent(&Op{RPC: Begin, Key: "b"}))
	if ops := r.Snapshot().Ops; len(ops) != 1 || ops[0].Key != "a" {
		t.Errorf("got %+v", ops)
	}
}

func TestAnswerEndsAfterItsCallBegan(t *testing.T) {
	r := NewRecorder()
	op := r.Sent(&Op{RPC: Begin, Key: "k"})
	r.Answered(op, "OK", "", Answer{Result: Started, Token: 7})
	got := r.Snapshot().Ops[0]
	if got.Class != OK || got.End < got.Start || got.Answer.Token != 7 {
		t.Errorf("got %+v", got)
	}
}

func TestHistoryIsReadAsItWasWritten(t *testing.T) {
	r := NewRecorder()
	r.Fault("cut")()
	r.Drove(Drive{Key: Key{"m", "k"}, Took: 5})
	op := r.Sent(&Op{RPC: Fail, Merchant: "m", Key: "k", Disposition: Final, Submitted: "failed/1"})
	r.Answered(op, "OK", "", Answer{Result: Recorded, Already: true})
	want := r.Snapshot()
	var buffer bytes.Buffer
	if err := Write(&buffer, want); err != nil {
		t.Fatal(err)
	}
	got, err := Read(&buffer)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestByKeyKeepsMerchantsApartAndSortsByStart(t *testing.T) {
	h := &History{Ops: []*Op{
		{ID: 1, Merchant: "a", Key: "k", Start: 5},
		{ID: 2, Merchant: "a", Key: "k", Start: 3},
		{ID: 3, Merchant: "b", Key: "k", Start: 1},
	}}
	parts := h.ByKey()
	if len(parts) != 2 || parts[Key{"a", "k"}][0].ID != 2 || len(parts[Key{"b", "k"}]) != 1 {
		t.Errorf("got %v", parts)
	}
}
