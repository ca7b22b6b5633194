// Package history records what clients of the service did and were told, so that a checker can judge it later.
//
// One Op is one call: what was asked, when it was sent and answered on one monotonic clock, and what the caller knows of it
// afterwards. A call whose answer was lost is part of the history, too: it may have happened, or not, and may still happen.
//
// Instants are nanoseconds since the recorder was made. All clients of a run live in one process, so that their instants
// can be compared.
package history

// RPC names a method of the service.
type RPC string

// The methods.
const (
	Begin    RPC = "Begin"
	Complete RPC = "Complete"
	Fail     RPC = "Fail"
	Renew    RPC = "Renew"
	Lookup   RPC = "Lookup"
)

// Class is what the caller knows about a call.
type Class string

// Whether it happened.
const (
	// OK: answered without an error.
	OK Class = "ok"
	// Definite: an error that says that the call had no effect.
	Definite Class = "definite"
	// Unknown: it may have happened, and may still happen.
	Unknown Class = "unknown"
)

// Result names the branch of an answer.
type Result string

// The answers.
const (
	Started    Result = "started"
	Replay     Result = "replay"
	InProgress Result = "in_progress"
	Recorded   Result = "recorded"
	Renewed    Result = "renewed"
	Found      Result = "found"
)

// Disposition is what a Fail said.
type Disposition string

// The dispositions.
const (
	NotApplied    Disposition = "not_applied"
	Final         Disposition = "final"
	EndedUnknown  Disposition = "unknown"
	NoDisposition Disposition = ""
)

// Never is the End of a call that was not answered.
const Never = int64(1) << 62

// Op is one call.
type Op struct {
	ID     int64 `json:"id"`
	Client int   `json:"client"`
	RPC    RPC   `json:"rpc"`

	Merchant string `json:"merchant"`
	Key      string `json:"key"`
	Attempt  string `json:"attempt,omitempty"`
	// What is compared on reuse: operation and fingerprint.
	Request string `json:"request,omitempty"`
	// In nanoseconds.
	TTL         int64       `json:"ttl,omitempty"`
	Lease       int64       `json:"lease,omitempty"`
	Wait        int64       `json:"wait,omitempty"`
	Hold        bool        `json:"hold,omitempty"`
	Disposition Disposition `json:"disposition,omitempty"`
	// Digest of what a Complete or Fail submitted, its kind included.
	Submitted string `json:"submitted,omitempty"`
	// The server is known to have taken a Complete or Fail into its queue, and the process to have lived on.
	Accepted bool `json:"accepted,omitempty"`

	Replica string `json:"replica,omitempty"`
	Start   int64  `json:"start"`
	End     int64  `json:"end"`

	Class  Class  `json:"class"`
	Code   string `json:"code,omitempty"`
	Reason string `json:"reason,omitempty"`
	Answer Answer `json:"answer,omitzero"`
}

// Answer is what a call was told; which fields count depends on Result.
type Answer struct {
	Result      Result `json:"result,omitempty"`
	Record      string `json:"record,omitempty"`
	Hold        bool   `json:"hold,omitempty"`
	Attempt     string `json:"attempt,omitempty"`
	Number      int32  `json:"number,omitempty"`
	Token       int64  `json:"token,omitempty"`
	Downstream  string `json:"downstream,omitempty"`
	Unknowns    int32  `json:"unknowns,omitempty"`
	Repeated    bool   `json:"repeated,omitempty"`
	Already     bool   `json:"already,omitempty"`
	Remaining   int64  `json:"remaining,omitempty"` // of the lease, in nanoseconds
	PrevNumber  int32  `json:"prev_number,omitempty"`
	PrevFailure string `json:"prev_failure,omitempty"` // digest; empty: its lease ran out
	// Digest of a replayed or found outcome or failure, its kind included.
	Digest  string `json:"digest,omitempty"`
	State   string `json:"state,omitempty"` // of Lookup, without its prefix
	Expired bool   `json:"expired,omitempty"`
	// When the outcome was recorded, as the answer tells it, in microseconds since the epoch.
	Finish int64 `json:"finish,omitempty"`
}

// KeyOf names the record that a call is about.
func (o *Op) KeyOf() Key { return Key{o.Merchant, o.Key} }

// IsFinish tells whether the call records an answer.
func (o *Op) IsFinish() bool { return o.RPC == Complete || o.RPC == Fail }

// IsFinal tells whether what the call submits is final: a Complete or a Fail FINAL.
func (o *Op) IsFinal() bool {
	return o.RPC == Complete || (o.RPC == Fail && o.Disposition == Final)
}

// HadNoEffect tells whether the call is known to have changed nothing.
func (o *Op) HadNoEffect() bool { return o.Class == Definite }

// Key is a merchant's key.
type Key struct {
	Merchant string `json:"merchant"`
	Key      string `json:"key"`
}

func (k Key) String() string { return k.Merchant + "/" + k.Key }

// Fault is one fault that was injected, from the instant before it was to the instant after it was healed.
type Fault struct {
	Name  string `json:"name"`
	Start int64  `json:"start"`
	End   int64  `json:"end"`
}

// Drive is what became of a key that was to be driven to its end after the last fault.
type Drive struct {
	Key Key `json:"key"`
	// From the end of the last fault to the final answer, and what was allowed.
	Took  int64 `json:"took"`
	Bound int64 `json:"bound"`
	// Why it did not end; empty when it did.
	Problem string `json:"problem,omitempty"`
	// Held: on HOLD, so that it need not end.
	Held bool `json:"held,omitempty"`
}

// History is all of a run.
type History struct {
	Ops    []*Op   `json:"ops"`
	Faults []Fault `json:"faults"`
	Drives []Drive `json:"drives"`
}

// ByKey parts the calls by key, each part in the order in which they were sent.
func (h *History) ByKey() map[Key][]*Op {
	parts := make(map[Key][]*Op)
	for _, op := range h.Ops {
		parts[op.KeyOf()] = append(parts[op.KeyOf()], op)
	}
	for _, ops := range parts {
		sortByStart(ops)
	}
	return parts
}

// Classify tells from a call's gRPC code and the reason in its ErrorInfo whether it happened, by the rule of docs/errors.md.
// Code is a canonical name such as "OK" or "UNAVAILABLE".
func Classify(code, reason string) Class {
	switch {
	case code == "OK":
		return OK
	case reason == "COMMIT_UNKNOWN" || reason == "INTERNAL":
		return Unknown
	case reason != "":
		return Definite
	case code == "RESOURCE_EXHAUSTED":
		// gRPC's own: the message was over the receive limit, and nobody read it.
		return Definite
	}
	return Unknown
}
