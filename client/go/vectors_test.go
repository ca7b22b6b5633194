package idempotency_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"testing"
	"time"

	"idempotencyd/client/go"
)

// readVectors reads a file of client/vectors, which all languages share.
func readVectors(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile("../vectors/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

func wantInvalidField(t *testing.T, err error, field string) {
	t.Helper()
	var typed *idempotency.Error
	if !errors.Is(err, idempotency.ErrInvalidField) || !errors.As(err, &typed) ||
		len(typed.Violations) != 1 || typed.Violations[0].Field != field {
		t.Errorf("got %v, want InvalidField of %s", err, field)
	}
}

func TestBusinessKeyVectors(t *testing.T) {
	type vector struct {
		Name, Kind, Key, Field string
		Parts                  []string
	}
	var vectors struct{ Cases, Refused []vector }
	readVectors(t, "business_key.json", &vectors)
	if len(vectors.Cases) == 0 || len(vectors.Refused) == 0 {
		t.Fatal("no vectors")
	}
	for _, v := range vectors.Cases {
		t.Run(v.Name, func(t *testing.T) {
			if key, err := idempotency.BusinessKey(v.Kind, v.Parts...); err != nil || key != v.Key {
				t.Errorf("got %q, %v, want %q", key, err, v.Key)
			}
		})
	}
	for _, v := range vectors.Refused {
		t.Run(v.Name, func(t *testing.T) {
			_, err := idempotency.BusinessKey(v.Kind, v.Parts...)
			wantInvalidField(t, err, v.Field)
		})
	}
}

func TestDownstreamKeyVectors(t *testing.T) {
	type vector struct {
		Name          string
		DownstreamKey string `json:"downstream_key"`
		Partner       string
		Shape         idempotency.Shape
		Key, Field    string
	}
	var vectors struct{ Cases, Refused []vector }
	readVectors(t, "downstream_key.json", &vectors)
	if len(vectors.Cases) == 0 || len(vectors.Refused) == 0 {
		t.Fatal("no vectors")
	}
	for _, v := range vectors.Cases {
		attempt := idempotency.Attempt{DownstreamKey: v.DownstreamKey}
		if key, err := attempt.DownstreamKeyFor(v.Partner, v.Shape); err != nil || key != v.Key {
			t.Errorf("%+v: got %q, %v", v, key, err)
		}
	}
	for _, v := range vectors.Refused {
		t.Run(v.Name, func(t *testing.T) {
			_, err := idempotency.DownstreamKeyFor(v.DownstreamKey, v.Partner, v.Shape)
			wantInvalidField(t, err, v.Field)
		})
	}
}

// vectorOutcome and the others are results as http_answer.json writes them.
type vectorOutcome struct {
	StatusCode  int32 `json:"status_code"`
	Headers     [][2]string
	ContentType string `json:"content_type"`
	Body        *string
	ResponseID  string `json:"response_id"`
	BodyOmitted bool   `json:"body_omitted"`
	BodySize    *int64 `json:"body_size"`
	BodySHA256  string `json:"body_sha256_hex"`
}

type vectorFailure struct {
	Disposition, Code, Message string
	Outcome                    *vectorOutcome
}

type vectorWork struct {
	Kind, Code, Message string
	Outcome             *vectorOutcome
}

type vectorResult struct {
	Kind                string
	Outcome             *vectorOutcome
	Failure             *vectorFailure
	Work                *vectorWork
	RetryAfterMS        int64 `json:"retry_after_ms"`
	RecordedWithoutBody bool  `json:"recorded_without_body"`
	Error               *struct {
		Kind           idempotency.Kind
		Message        string
		RetryAfterMS   int64 `json:"retry_after_ms"`
		StillRecording bool  `json:"still_recording"`
		Work           *vectorWork
	}
}

func (o *vectorOutcome) typed(t *testing.T) *idempotency.Outcome {
	if o == nil {
		return nil
	}
	digest, err := hex.DecodeString(o.BodySHA256)
	if err != nil {
		t.Fatal(err)
	}
	typed := &idempotency.Outcome{StatusCode: o.StatusCode, ContentType: o.ContentType, ResponseID: o.ResponseID,
		BodyOmitted: o.BodyOmitted, BodySize: o.BodySize, BodySHA256: digest}
	for _, header := range o.Headers {
		typed.Headers = append(typed.Headers, idempotency.Header{Name: header[0], Value: header[1]})
	}
	if o.Body != nil {
		typed.Body = []byte(*o.Body)
	}
	return typed
}

func (w *vectorWork) typed(t *testing.T) idempotency.WorkResult {
	switch w.Kind {
	case "completed":
		return idempotency.Complete(*w.Outcome.typed(t))
	case "not_applied":
		return idempotency.NotApplied(w.Code, w.Message)
	case "final":
		return idempotency.Final(w.Code, w.Message, w.Outcome.typed(t))
	case "unknown":
		return idempotency.Unknown(w.Code, w.Message)
	}
	t.Fatalf("no kind of work: %q", w.Kind)
	return idempotency.WorkResult{}
}

func (f *vectorFailure) typed(t *testing.T) *idempotency.Failure {
	if f == nil {
		return nil
	}
	return (&vectorWork{f.Disposition, f.Code, f.Message, f.Outcome}).typed(t).Failure()
}

func (r *vectorResult) typed(t *testing.T) (idempotency.Result, error) {
	switch r.Kind {
	case "Completed":
		return &idempotency.Completed{Outcome: *r.Outcome.typed(t), RecordedWithoutBody: r.RecordedWithoutBody}, nil
	case "Replayed":
		return &idempotency.Replayed{Outcome: r.Outcome.typed(t), Failure: r.Failure.typed(t)}, nil
	case "InProgress":
		return &idempotency.InProgress{RetryAfter: time.Duration(r.RetryAfterMS) * time.Millisecond}, nil
	case "Failed":
		return &idempotency.Failed{Failure: *r.Failure.typed(t)}, nil
	case "Unprotected":
		return &idempotency.Unprotected{Work: r.Work.typed(t)}, nil
	case "Error":
		err := &idempotency.Error{Kind: r.Error.Kind, Message: r.Error.Message, StillRecording: r.Error.StillRecording,
			RetryAfter: time.Duration(r.Error.RetryAfterMS) * time.Millisecond}
		if r.Error.Work != nil {
			work := r.Error.Work.typed(t)
			err.Work = &work
		}
		return nil, err
	}
	t.Fatalf("no kind of result: %q", r.Kind)
	return nil, nil
}

func TestHTTPAnswerVectors(t *testing.T) {
	var vectors struct {
		Cases []struct {
			Name   string
			Result vectorResult
			Answer struct {
				Status  int
				Headers [][2]string
				Body    string
			}
		}
	}
	readVectors(t, "http_answer.json", &vectors)
	if len(vectors.Cases) == 0 {
		t.Fatal("no vectors")
	}
	for _, v := range vectors.Cases {
		t.Run(v.Name, func(t *testing.T) {
			result, err := v.Result.typed(t)
			answer := idempotency.HTTPAnswer(result, err)
			headers := [][2]string{}
			for _, header := range answer.Headers {
				headers = append(headers, [2]string{header.Name, header.Value})
			}
			if answer.Status != v.Answer.Status || string(answer.Body) != v.Answer.Body ||
				!reflect.DeepEqual(headers, v.Answer.Headers) {
				t.Errorf("got %d %v %s", answer.Status, headers, answer.Body)
			}
		})
	}
}
