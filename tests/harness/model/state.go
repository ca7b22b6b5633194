// Package model is the state machine of one key as a sequential specification, for a linearizability checker.
//
// It is written anew from the specification's tables and not from the server's code. Time is handled conservatively: the
// model knows of each call only the interval in which it ran, so that "the lease is over" and "the record has expired" are
// transitions that are allowed as soon as real time permits them, and never demanded (unless Params.Strict). What a call
// whose answer was lost did, if anything, is left open in the same way.
package model

import (
	"hash/fnv"
	"strings"

	"idempotencyd/tests/harness/history"
)

// Params are the settings of the service that the state machine depends on. Spans are nanoseconds.
type Params struct {
	// Added to leases and retention before they count as over.
	Margin int64
	// How much earlier than that a lease may end by real time: what the margin is there to absorb when clocks are
	// off; 0 when nobody touches the clocks.
	Skew int64
	// How much earlier a record may expire: the steps ahead of the database's clock.
	ExpiryEarly int64
	// A record answers at least this long after it was finished.
	ReplayWindow int64
	// A lease or a record that must be over by real time is demanded to be. Only where no replica misses a look at the
	// clock, which counts as a jump: unit tests.
	Strict bool
}

// Tolerance is what instants of different clocks may differ by through rounding.
const Tolerance = int64(5_000_000)

// EarlierAttempts is how many attempts before the last one a record remembers.
const EarlierAttempts = 8

// Phase is where a record stands, whether or not its lease is over.
type Phase uint8

// The phases.
const (
	None Phase = iota
	Working
	Completed
	FailedFinal
	Released
	FailedUnknown
)

// State of one key. A value: two are the same state if they are equal.
type State struct {
	// Nothing that comes now happens before this instant.
	Now int64

	Phase   Phase
	Record  string // empty: not known, because no answer told it yet
	Request string
	Hold    bool

	Attempt  string
	Number   int32
	Token    int64 // of the last attempt; 0: not known
	Unknowns int32
	Answer   string // what the last attempt recorded
	// Number and failure of the attempt before the last one.
	PrevNumber  int32
	PrevFailure string
	// The attempts before the last one, oldest first, each ended by a newline.
	Earlier string

	// The greatest token that is known to have been granted for the key, over all its records.
	Floor int64
	// The last attempt's lease cannot be over before OverFrom and is over by OverBy.
	OverFrom, OverBy int64
	// The record was not created, and not finished, before these.
	Created, Finished int64
	TTL               int64
}

func (s State) isFinal() bool { return s.Phase == Completed || s.Phase == FailedFinal }

func (s State) isSettled() bool {
	return s.isFinal() || (s.Phase == Released && s.Unknowns == 0)
}

func (s State) knowsEarlier(attempt string) bool {
	for _, earlier := range strings.SplitAfter(s.Earlier, "\n") {
		if earlier == attempt+"\n" {
			return true
		}
	}
	return false
}

// withEarlier appends an attempt and forgets those before the last eight.
func withEarlier(earlier, attempt string) string {
	all := strings.SplitAfter(earlier+attempt+"\n", "\n")
	all = all[:len(all)-1]
	if len(all) > EarlierAttempts {
		all = all[len(all)-EarlierAttempts:]
	}
	return strings.Join(all, "")
}

// purged is the key after its expired record was deleted: tokens grow all the same.
func (s State) purged() State { return State{Now: s.Now, Floor: s.Floor} }

func (s State) expiresFrom(p Params) int64 {
	return max(s.Created+s.TTL, s.Finished+p.ReplayWindow) + p.Margin - p.ExpiryEarly - p.Skew
}

func hashOf(state State) uint64 {
	h := fnv.New64a()
	for _, text := range []string{state.Record, state.Attempt, state.Answer} {
		_, _ = h.Write([]byte(text))
	}
	_, _ = h.Write([]byte{byte(state.Phase), byte(state.Number), byte(state.Unknowns), byte(state.Token)})
	return h.Sum64()
}

// Call is what the checker steps through: a call of the history, or a ghost of one.
type Call struct {
	Op *history.Op
	// The database was disturbed meanwhile, so that the server may have run the call again: its first answer may say
	// repeated or already_recorded.
	Disturbed bool
	// The earlier run of such a call, which may have had an effect that its answer does not tell of.
	Ghost bool
}

// MayHaveHappened tells whether nothing is known about the call's effect.
func (c Call) MayHaveHappened() bool { return c.Ghost || c.Op.Class == history.Unknown }
