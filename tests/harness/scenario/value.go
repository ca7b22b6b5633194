package scenario

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
)

const (
	actionPrefix      = "LEASE_EXPIRY_ACTION_"
	dispositionPrefix = "FAILURE_DISPOSITION_"
	statePrefix       = "RECORD_STATE_"
)

func milliseconds(given *int64) (*time.Duration, error) {
	if given == nil {
		return nil, nil
	}
	const most = int64(1) << 40
	if *given < -most || *given > most {
		return nil, fmt.Errorf("%d ms is out of bounds", *given)
	}
	span := time.Duration(*given) * time.Millisecond
	return &span, nil
}

// LeaseDuration is what the step asks for, nil for the service's default.
func (s Step) LeaseDuration() (*durationpb.Duration, error) {
	span, err := milliseconds(s.LeaseDurationMS)
	if err != nil || span == nil {
		return nil, err
	}
	return durationpb.New(*span), nil
}

// ParseAction reads what happens when a lease is over: "HOLD".
func ParseAction(name string) (idempotencyv1.LeaseExpiryAction, error) {
	number, ok := idempotencyv1.LeaseExpiryAction_value[actionPrefix+name]
	if !ok {
		return 0, fmt.Errorf("there is no on_lease_expiry %q", name)
	}
	return idempotencyv1.LeaseExpiryAction(number), nil
}

// ParseState reads where a record stands: "ABANDONED".
func ParseState(name string) (idempotencyv1.RecordState, error) {
	number, ok := idempotencyv1.RecordState_value[statePrefix+name]
	if !ok || number == 0 {
		return 0, fmt.Errorf("there is no state %q", name)
	}
	return idempotencyv1.RecordState(number), nil
}

// Fill puts the request into a Begin.
func (r Request) Fill(into *idempotencyv1.BeginRequest) error {
	into.Operation = r.Operation
	into.FingerprintScheme = r.FingerprintScheme
	if r.Payload != nil {
		into.Request = &idempotencyv1.BeginRequest_Payload{Payload: &idempotencyv1.Payload{
			Data: r.Payload.Data, ContentType: r.Payload.ContentType,
		}}
		return nil
	}
	fingerprint, err := base64.StdEncoding.DecodeString(r.FingerprintBase64)
	if err != nil {
		return fmt.Errorf("fingerprint_base64: %w", err)
	}
	into.Request = &idempotencyv1.BeginRequest_Fingerprint{Fingerprint: fingerprint}
	return nil
}

// AsMessage is the outcome as the service takes it.
func (o *Outcome) AsMessage() (*idempotencyv1.Outcome, error) {
	if o == nil {
		return nil, nil
	}
	digest, err := hex.DecodeString(o.BodySHA256Hex)
	if err != nil {
		return nil, fmt.Errorf("body_sha256_hex: %w", err)
	}
	message := &idempotencyv1.Outcome{
		StatusCode: o.StatusCode, ContentType: o.ContentType, ResponseId: o.ResponseID,
		BodyOmitted: o.BodyOmitted, BodySize: o.BodySize, BodySha256: digest,
	}
	if o.Body != nil {
		// Absent and empty are different, so it must not be nil.
		message.Body = append([]byte{}, *o.Body...)
	}
	for _, header := range o.Headers {
		message.Headers = append(message.Headers, &idempotencyv1.Header{
			Name: string(header[0]), Value: header[1],
		})
	}
	return message, nil
}

// AsMessage is the failure as the service takes it.
func (f *Failure) AsMessage() (*idempotencyv1.Failure, error) {
	number, ok := idempotencyv1.FailureDisposition_value[dispositionPrefix+strings.ToUpper(f.Disposition)]
	if !ok {
		return nil, fmt.Errorf("there is no disposition %q", f.Disposition)
	}
	outcome, err := f.Outcome.AsMessage()
	if err != nil {
		return nil, err
	}
	return &idempotencyv1.Failure{
		Disposition: idempotencyv1.FailureDisposition(number), Code: f.Code, Message: f.Message,
		Outcome: outcome,
	}, nil
}

// Number is a number in the form in which it is judged.
func Number[T ~int | ~int32 | ~int64](value T) json.Number {
	return json.Number(strconv.FormatInt(int64(value), 10))
}

// ActionValue is the action in the form in which it is judged.
func ActionValue(action idempotencyv1.LeaseExpiryAction) string {
	return strings.TrimPrefix(action.String(), actionPrefix)
}

// OutcomeValue is an outcome in the form in which it is judged; nil for none.
func OutcomeValue(outcome *idempotencyv1.Outcome) any {
	if outcome == nil {
		return nil
	}
	headers := []any{}
	for _, header := range outcome.GetHeaders() {
		headers = append(headers, []any{header.GetName(), Bytes(header.GetValue()).Value()})
	}
	value := map[string]any{
		"status_code": Number(outcome.GetStatusCode()), "headers": headers,
		"content_type": outcome.GetContentType(), "response_id": outcome.GetResponseId(),
		"body_omitted": outcome.GetBodyOmitted(),
	}
	if outcome.Body != nil {
		value["body"] = Bytes(outcome.GetBody()).Value()
	}
	if outcome.BodySize != nil {
		value["body_size"] = Number(outcome.GetBodySize())
	}
	if len(outcome.GetBodySha256()) > 0 {
		value["body_sha256_hex"] = hex.EncodeToString(outcome.GetBodySha256())
	}
	return value
}

// FailureValue is a failure in the form in which it is judged; nil for none.
func FailureValue(failure *idempotencyv1.Failure) any {
	if failure == nil {
		return nil
	}
	disposition := strings.TrimPrefix(failure.GetDisposition().String(), dispositionPrefix)
	value := map[string]any{
		"disposition": strings.ToLower(disposition), "code": failure.GetCode(),
		"message": failure.GetMessage(),
	}
	if outcome := OutcomeValue(failure.GetOutcome()); outcome != nil {
		value["outcome"] = outcome
	}
	return value
}

// RecordValue is what Lookup shows, in the form in which it is judged.
func RecordValue(record *idempotencyv1.LookupResponse) map[string]any {
	labels := map[string]any{}
	for name, label := range record.GetLabels() {
		labels[name] = label
	}
	value := map[string]any{
		"state":     strings.TrimPrefix(record.GetState().String(), statePrefix),
		"operation": record.GetOperation(), "record_id": record.GetRecordId(),
		"attempt_number":   Number(record.GetAttemptNumber()),
		"unknown_attempts": Number(record.GetUnknownAttempts()),
		"on_lease_expiry":  ActionValue(record.GetOnLeaseExpiry()),
		"downstream_key":   record.GetDownstreamKey(),
		"fencing_token":    Number(record.GetFencingToken()),
		"labels":           labels,
	}
	if outcome := OutcomeValue(record.GetOutcome()); outcome != nil {
		value["outcome"] = outcome
	}
	if failure := FailureValue(record.GetFailure()); failure != nil {
		value["failure"] = failure
	}
	if refused := record.GetRefusedOutcome(); refused != nil {
		value["refused_outcome"] = map[string]any{
			"status_code": Number(refused.GetStatusCode()), "response_id": refused.GetResponseId(),
			"attempt_number": Number(refused.GetAttemptNumber()),
		}
	}
	return value
}

// BeginValue is what Begin answered, in the form in which it is judged.
func BeginValue(answer *idempotencyv1.BeginResponse) map[string]any {
	value := map[string]any{
		"record_id": answer.GetRecordId(), "on_lease_expiry": ActionValue(answer.GetOnLeaseExpiry()),
	}
	switch result := answer.GetResult().(type) {
	case *idempotencyv1.BeginResponse_Started:
		value["result"] = "started"
		value["attempt_number"] = Number(result.Started.GetAttemptNumber())
		value["unknown_attempts"] = Number(result.Started.GetUnknownAttempts())
		value["fencing_token"] = Number(result.Started.GetFencingToken())
		value["downstream_key"] = result.Started.GetDownstreamKey()
		value["repeated"] = result.Started.GetRepeated()
		if previous := result.Started.GetPreviousAttempt(); previous != nil {
			value["previous_attempt"] = previousValue(previous)
		}
	case *idempotencyv1.BeginResponse_Replay:
		value["result"] = "replay"
		value["attempt_number"] = Number(result.Replay.GetAttemptNumber())
		if outcome := OutcomeValue(result.Replay.GetOutcome()); outcome != nil {
			value["outcome"] = outcome
		}
		if failure := FailureValue(result.Replay.GetFailure()); failure != nil {
			value["failure"] = failure
		}
	case *idempotencyv1.BeginResponse_InProgress:
		value["result"] = "in_progress"
		value["attempt_number"] = Number(result.InProgress.GetAttemptNumber())
		value["retry_after_ms"] = Number(result.InProgress.GetRetryAfter().AsDuration().Milliseconds())
	}
	return value
}

func previousValue(previous *idempotencyv1.PreviousAttempt) map[string]any {
	value := map[string]any{"attempt_number": Number(previous.GetAttemptNumber())}
	if failure := previous.GetFailure(); failure != nil {
		value["disposition"] = strings.ToLower(
			strings.TrimPrefix(failure.GetDisposition().String(), dispositionPrefix))
	}
	return value
}
