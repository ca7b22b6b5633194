package chaos

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
	"idempotencyd/tests/harness/history"
)

// What is planted where only the caller may see it again: in bodies, headers and attempt ids. No log line, metric or error may
// hold any of it (I14).
const (
	plantedCard    = "4539578763621486"
	plantedToken   = "planted-bearer-token"
	plantedAttempt = "planted-attempt-"
	plantedBody    = "planted-body"
)

var planted = []string{plantedCard, plantedToken, plantedAttempt, plantedBody}

// errorTexts collects the texts of all errors that callers of a run were told. Safe for concurrent use.
type errorTexts struct {
	mu   sync.Mutex
	seen map[string]struct{}
}

func (e *errorTexts) note(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.seen == nil {
		e.seen = make(map[string]struct{})
	}
	e.seen[text] = struct{}{}
}

func (e *errorTexts) all() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all strings.Builder
	for text := range e.seen {
		all.WriteString(text + "\n")
	}
	return all.String()
}

// outcomeOf names its key and attempt, so that no two attempts submit the same; word tells two of one attempt apart.
func outcomeOf(key history.Key, attempt, word string) *idempotencyv1.Outcome {
	return &idempotencyv1.Outcome{
		StatusCode: 201,
		Headers: []*idempotencyv1.Header{
			{Name: "x-payment", Value: []byte(key.String() + " " + word)}, {Name: "x-payment", Value: []byte{0, 255, 10}},
			{Name: "authorization", Value: []byte(plantedToken)},
		},
		ContentType: "application/json",
		Body:        []byte(`{"` + plantedBody + `":"` + attempt + `","card":"` + plantedCard + `","word":"` + word + `"}`),
		ResponseId:  "pay-" + word,
	}
}

func failureOf(key history.Key, attempt string, how history.Disposition, word string) *idempotencyv1.Failure {
	return &idempotencyv1.Failure{
		Disposition: dispositions[how], Code: "declined", Message: "chaos " + word, Outcome: outcomeOf(key, attempt, word),
	}
}

var dispositions = map[history.Disposition]idempotencyv1.FailureDisposition{
	history.NotApplied:   idempotencyv1.FailureDisposition_FAILURE_DISPOSITION_NOT_APPLIED,
	history.Final:        idempotencyv1.FailureDisposition_FAILURE_DISPOSITION_FINAL,
	history.EndedUnknown: idempotencyv1.FailureDisposition_FAILURE_DISPOSITION_UNKNOWN,
}

func digest(kind string, message proto.Message) string {
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		panic(err) // Only for messages that cannot be encoded, and these can.
	}
	sum := sha256.Sum256(bytes)
	return kind + "/" + hex.EncodeToString(sum[:8])
}

// plain is the outcome without what Lookup adds: size and hash of a body that is there.
func plain(outcome *idempotencyv1.Outcome) *idempotencyv1.Outcome {
	if outcome == nil || outcome.GetBodyOmitted() {
		return outcome
	}
	copied := proto.Clone(outcome).(*idempotencyv1.Outcome)
	copied.BodySize, copied.BodySha256 = nil, nil
	return copied
}

func digestOfOutcome(outcome *idempotencyv1.Outcome) string {
	return digest("completed", plain(outcome))
}

func digestOfFailure(failure *idempotencyv1.Failure) string {
	copied := proto.Clone(failure).(*idempotencyv1.Failure)
	copied.Outcome = plain(copied.GetOutcome())
	kind := "unknown"
	switch copied.GetDisposition() {
	case idempotencyv1.FailureDisposition_FAILURE_DISPOSITION_NOT_APPLIED:
		kind = "not_applied"
	case idempotencyv1.FailureDisposition_FAILURE_DISPOSITION_FINAL:
		kind = "failed"
	}
	return digest(kind, copied)
}

func isHold(action idempotencyv1.LeaseExpiryAction) bool {
	return action == idempotencyv1.LeaseExpiryAction_LEASE_EXPIRY_ACTION_HOLD
}

func beginAnswer(answer *idempotencyv1.BeginResponse) history.Answer {
	told := history.Answer{Record: answer.GetRecordId(), Hold: isHold(answer.GetOnLeaseExpiry())}
	switch {
	case answer.GetStarted() != nil:
		started := answer.GetStarted()
		told.Result, told.Attempt, told.Number = history.Started, started.GetAttemptId(), started.GetAttemptNumber()
		told.Token, told.Downstream = started.GetFencingToken(), started.GetDownstreamKey()
		told.Unknowns, told.Repeated = started.GetUnknownAttempts(), started.GetRepeated()
		told.Remaining = int64(started.GetLeaseRemaining().AsDuration())
		if previous := started.GetPreviousAttempt(); previous != nil {
			told.PrevNumber = previous.GetAttemptNumber()
			told.PrevFailure = previousDigest(previous.GetFailure())
		}
	case answer.GetReplay() != nil:
		replay := answer.GetReplay()
		told.Result, told.Number = history.Replay, replay.GetAttemptNumber()
		told.Finish = replay.GetFinishTime().AsTime().UnixMicro()
		if replay.GetOutcome() != nil {
			told.Digest = digestOfOutcome(replay.GetOutcome())
		} else {
			told.Digest = digestOfFailure(replay.GetFailure())
		}
	case answer.GetInProgress() != nil:
		told.Result, told.Number = history.InProgress, answer.GetInProgress().GetAttemptNumber()
		told.Remaining = int64(answer.GetInProgress().GetLeaseRemaining().AsDuration())
	}
	return told
}

func previousDigest(failure *idempotencyv1.Failure) string {
	if failure == nil {
		return ""
	}
	return digestOfFailure(failure)
}

func lookupAnswer(answer *idempotencyv1.LookupResponse) history.Answer {
	told := history.Answer{
		Result: history.Found, Record: answer.GetRecordId(), Hold: isHold(answer.GetOnLeaseExpiry()),
		Number: answer.GetAttemptNumber(), Token: answer.GetFencingToken(), Downstream: answer.GetDownstreamKey(),
		Unknowns: answer.GetUnknownAttempts(), Expired: answer.GetExpired(),
		State:  strings.TrimPrefix(answer.GetState().String(), "RECORD_STATE_"),
		Finish: answer.GetFinishTime().AsTime().UnixMicro(),
	}
	if answer.GetOutcome() != nil {
		told.Digest = digestOfOutcome(answer.GetOutcome())
	} else if answer.GetFailure() != nil {
		told.Digest = digestOfFailure(answer.GetFailure())
	}
	return told
}
