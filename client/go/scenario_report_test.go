package idempotency_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"
	"unicode/utf8"

	"idempotencyd/client/go"
)

// text is a JSON string, or {"base64": …} where it is not UTF-8.
type text string

func (t *text) UnmarshalJSON(raw []byte) error {
	var binary struct{ Base64 *string }
	if json.Unmarshal(raw, &binary) == nil && binary.Base64 != nil {
		bytes, err := base64.StdEncoding.DecodeString(*binary.Base64)
		*t = text(bytes)
		return err
	}
	return json.Unmarshal(raw, (*string)(t))
}

func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(map[string][]byte{"base64": []byte(t)})
}

// scenarioOutcome is an outcome as scenarios write it.
type scenarioOutcome struct {
	StatusCode  int32     `json:"status_code"`
	Headers     [][2]text `json:"headers"`
	ContentType string    `json:"content_type"`
	Body        *text     `json:"body,omitempty"`
	ResponseID  string    `json:"response_id"`
	BodyOmitted bool      `json:"body_omitted"`
	BodySize    *int64    `json:"body_size,omitempty"`
	BodySHA256  string    `json:"body_sha256_hex,omitempty"`
}

func (o *scenarioOutcome) typed() *idempotency.Outcome {
	if o == nil {
		return nil
	}
	typed := &idempotency.Outcome{StatusCode: o.StatusCode, ContentType: o.ContentType, ResponseID: o.ResponseID}
	for _, header := range o.Headers {
		typed.Headers = append(typed.Headers, idempotency.Header{Name: string(header[0]), Value: string(header[1])})
	}
	if o.Body != nil {
		typed.Body = []byte(*o.Body)
	}
	return typed
}

func outcomeReport(o *idempotency.Outcome) *scenarioOutcome {
	if o == nil {
		return nil
	}
	report := &scenarioOutcome{StatusCode: o.StatusCode, Headers: [][2]text{}, ContentType: o.ContentType,
		ResponseID: o.ResponseID, BodyOmitted: o.BodyOmitted, BodySize: o.BodySize,
		BodySHA256: hex.EncodeToString(o.BodySHA256)}
	for _, header := range o.Headers {
		report.Headers = append(report.Headers, [2]text{text(header.Name), text(header.Value)})
	}
	if o.Body != nil {
		body := text(o.Body)
		report.Body = &body
	}
	return report
}

// scenarioOutcomeOfWork is what fn comes to, as scenarios write it.
type scenarioOutcomeOfWork struct {
	Kind, Code, Message string
	Outcome             *scenarioOutcome
}

func (w *scenarioOutcomeOfWork) typed() idempotency.WorkResult {
	switch w.Kind {
	case "completed":
		return idempotency.Complete(*w.Outcome.typed())
	case "not_applied":
		return idempotency.NotApplied(w.Code, w.Message)
	case "final":
		return idempotency.Final(w.Code, w.Message, w.Outcome.typed())
	case "unknown":
		return idempotency.Unknown(w.Code, w.Message)
	}
	panic("no kind of work: " + w.Kind)
}

func workReport(work idempotency.WorkResult) map[string]any {
	if outcome := work.Outcome(); outcome != nil {
		return map[string]any{"kind": "completed", "outcome": outcomeReport(outcome)}
	}
	report := failureReport(work.Failure())
	report["kind"] = report["disposition"]
	return report
}

func failureReport(f *idempotency.Failure) map[string]any {
	if f == nil {
		return nil
	}
	report := map[string]any{"disposition": f.Disposition.String(), "code": f.Code, "message": f.Message}
	if f.Outcome != nil {
		report["outcome"] = outcomeReport(f.Outcome)
	}
	return report
}

func attemptReport(a *idempotency.Attempt) map[string]any {
	report := map[string]any{
		"attempt_number": a.AttemptNumber, "unknown_attempts": a.UnknownAttempts, "repeated": a.Repeated,
		"unprotected": a.Unprotected, "downstream_key": a.DownstreamKey, "fencing_token": a.FencingToken,
		"record_id": a.RecordID, "on_lease_expiry": a.OnLeaseExpiry.String(),
	}
	if p := a.PreviousAttempt; p != nil {
		previous := map[string]any{"attempt_number": p.AttemptNumber}
		if p.Failure != nil {
			previous["disposition"] = p.Failure.Disposition.String()
		}
		report["previous_attempt"] = previous
	}
	return report
}

func resultReport(result idempotency.Result, err error) map[string]any {
	switch r := result.(type) {
	case *idempotency.Completed:
		return map[string]any{"result": "Completed", "outcome": outcomeReport(&r.Outcome), "record_id": r.RecordID,
			"recorded_without_body": r.RecordedWithoutBody, "attempt_number": r.AttemptNumber, "finish_time": r.FinishTime}
	case *idempotency.Failed:
		return map[string]any{"result": "Failed", "failure": failureReport(&r.Failure), "threw": r.Err, "record_id": r.RecordID,
			"recorded_without_body": r.RecordedWithoutBody, "attempt_number": r.AttemptNumber, "finish_time": r.FinishTime}
	case *idempotency.Replayed:
		report := map[string]any{"result": "Replayed", "record_id": r.RecordID, "attempt_number": r.AttemptNumber,
			"start_time": r.StartTime, "finish_time": r.FinishTime}
		if r.Outcome != nil {
			report["outcome"] = outcomeReport(r.Outcome)
		} else {
			report["failure"] = failureReport(r.Failure)
		}
		return report
	case *idempotency.InProgress:
		return map[string]any{"result": "InProgress", "retry_after_ms": r.RetryAfter.Milliseconds(),
			"record_id": r.RecordID, "attempt_number": r.AttemptNumber, "start_time": r.StartTime}
	case *idempotency.Unprotected:
		return map[string]any{"result": "Unprotected", "work": workReport(r.Work), "threw": r.Err}
	}
	report := map[string]any{"result": "Error", "error": errorReport(err)}
	var typed *idempotency.Error
	if errors.As(err, &typed) && typed.Work != nil {
		report["work"], report["threw"] = workReport(*typed.Work), typed.WorkErr
	}
	return report
}

func errorReport(err error) map[string]any {
	var typed *idempotency.Error
	if !errors.As(err, &typed) {
		return map[string]any{"kind": "none of the client's errors", "message": err.Error()}
	}
	violations := []string{}
	for _, violation := range typed.Violations {
		violations = append(violations, violation.Field)
	}
	return map[string]any{"kind": typed.Kind, "reason": typed.Reason, "violations": violations,
		"metadata": typed.Metadata, "still_recording": typed.StillRecording,
		"retry_after_ms": typed.RetryAfter / time.Millisecond}
}

func lookupReport(record *idempotency.Record, err error) map[string]any {
	if err != nil {
		return map[string]any{"error": errorReport(err)}
	}
	report := map[string]any{"state": record.State, "operation": record.Operation, "record_id": record.RecordID,
		"attempt_number": record.AttemptNumber, "unknown_attempts": record.UnknownAttempts,
		"on_lease_expiry": record.OnLeaseExpiry.String(), "labels": record.Labels}
	if record.Outcome != nil {
		report["outcome"] = outcomeReport(record.Outcome)
	}
	if record.Failure != nil {
		report["failure"] = failureReport(record.Failure)
	}
	return map[string]any{"record": report}
}
