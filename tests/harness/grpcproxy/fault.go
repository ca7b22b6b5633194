package grpcproxy

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Kind is what becomes of a call.
type Kind string

// The kinds of faults.
const (
	// Refuse answers with a status; the call is not forwarded.
	Refuse Kind = "refuse"
	// LoseAnswer forwards the call, then answers with a status that has no reason.
	LoseAnswer Kind = "lose_answer"
	// Hang neither forwards nor answers.
	Hang Kind = "hang"
	// HangAfter forwards and does not answer.
	HangAfter Kind = "hang_after"
	// CutAfter forwards, then closes the connection.
	CutAfter Kind = "cut_after"
	// Answer answers OK with given bytes; the call is not forwarded.
	Answer Kind = "answer"
	// AnswerAfter forwards, then answers OK with given bytes.
	AnswerAfter Kind = "answer_after"
)

// Always is the number of times of a fault that does not end.
const Always = -1

const errorDomain = "idempotency.v1"

// Fault is what becomes of the next calls of a method.
type Fault struct {
	Kind Kind
	// Times is for how many calls, or Always.
	Times int
	// Code is the status of Refuse and LoseAnswer.
	Code codes.Code
	// Reason of Refuse, in an ErrorInfo. Empty: none.
	Reason string
	// RetryDelay of Refuse, in a RetryInfo. nil: none.
	RetryDelay *time.Duration
	// Pushback of Refuse: the trailer grpc-retry-pushback-ms. Empty: none.
	Pushback string
	// Answer is the message of Answer and AnswerAfter.
	Answer []byte
}

// Validate tells what is wrong with a fault, if anything is.
func (f Fault) Validate() error {
	kinds := []Kind{Refuse, LoseAnswer, Hang, HangAfter, CutAfter, Answer, AnswerAfter}
	if !slices.Contains(kinds, f.Kind) {
		return fmt.Errorf("there is no fault %q", f.Kind)
	}
	if f.Times < 1 && f.Times != Always {
		return fmt.Errorf("a fault cannot happen %d times", f.Times)
	}
	withStatus := f.Kind == Refuse || f.Kind == LoseAnswer
	if withStatus == (f.Code == codes.OK) {
		return fmt.Errorf("the code %v does not go with the fault %q", f.Code, f.Kind)
	}
	if f.Kind != Refuse && (f.Reason != "" || f.RetryDelay != nil || f.Pushback != "") {
		return fmt.Errorf("the fault %q has no reason and asks for no delay", f.Kind)
	}
	return nil
}

func (f Fault) forwardsFirst() bool {
	return f.Kind == LoseAnswer || f.Kind == HangAfter || f.Kind == CutAfter || f.Kind == AnswerAfter
}

// The trailer of a refusal, and its status.
func (f Fault) refusal() (metadata.MD, error) {
	refused := status.New(f.Code, "refused by the scenario")
	if f.Reason != "" {
		refused = withDetails(refused, &errdetails.ErrorInfo{Reason: f.Reason, Domain: errorDomain})
	}
	if f.RetryDelay != nil {
		refused = withDetails(refused, &errdetails.RetryInfo{RetryDelay: durationpb.New(*f.RetryDelay)})
	}
	var trailer metadata.MD
	if f.Pushback != "" {
		trailer = metadata.Pairs(pushbackTrailer, f.Pushback)
	}
	return trailer, refused.Err()
}

// ParseCode reads the name of a gRPC code: "UNAVAILABLE".
func ParseCode(name string) (codes.Code, error) {
	var code codes.Code
	if err := code.UnmarshalJSON([]byte(`"` + name + `"`)); err != nil {
		return codes.Unknown, fmt.Errorf("there is no gRPC code %q", name)
	}
	return code, nil
}
