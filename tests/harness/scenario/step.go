package scenario

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"idempotencyd/tests/harness/grpcproxy"
)

// Step is a step of the host, filled in. Which members a step has is said in client/scenarios/README.md.
type Step struct {
	Do string `json:"do"`

	// fault, await_calls, calls.
	Method       string `json:"method"`
	Fault        string `json:"fault"`
	Code         string `json:"code"`
	Reason       string `json:"reason"`
	RetryMS      *int64 `json:"retry_ms"`
	Pushback     string `json:"pushback"`
	Times        any    `json:"times"`
	AnswerBase64 string `json:"answer_base64"`
	Count        int    `json:"count"`
	Started      bool   `json:"started"`

	// listener, database, await_state.
	State string `json:"state"`

	// Another caller.
	As              string   `json:"as"`
	Key             *Key     `json:"key"`
	Request         *Request `json:"request"`
	OnLeaseExpiry   string   `json:"on_lease_expiry"`
	LeaseDurationMS *int64   `json:"lease_duration_ms"`
	Outcome         *Outcome `json:"outcome"`
	Failure         *Failure `json:"failure"`

	// signal, await_signal.
	Name string `json:"name"`

	Expect any `json:"expect"`
}

// Key names a record.
type Key struct {
	MerchantID     string `json:"merchant_id"`
	IdempotencyKey string `json:"idempotency_key"`
}

// Request is what an operation is: a payload or a fingerprint.
type Request struct {
	Operation         string   `json:"operation"`
	Payload           *Payload `json:"payload"`
	FingerprintBase64 string   `json:"fingerprint_base64"`
	FingerprintScheme int32    `json:"fingerprint_scheme"`
}

// Payload is a request's body.
type Payload struct {
	Data        Bytes  `json:"data"`
	ContentType string `json:"content_type"`
}

// Outcome is a recorded answer.
type Outcome struct {
	StatusCode    int32      `json:"status_code"`
	Headers       [][2]Bytes `json:"headers"`
	ContentType   string     `json:"content_type"`
	Body          *Bytes     `json:"body"`
	ResponseID    string     `json:"response_id"`
	BodyOmitted   bool       `json:"body_omitted"`
	BodySize      *int64     `json:"body_size"`
	BodySHA256Hex string     `json:"body_sha256_hex"`
}

// Failure is a recorded failure.
type Failure struct {
	Disposition string   `json:"disposition"`
	Code        string   `json:"code"`
	Message     string   `json:"message"`
	Outcome     *Outcome `json:"outcome"`
}

// Bytes are a text in JSON or, if they are not UTF-8, {"base64": …}.
type Bytes []byte

// UnmarshalJSON reads both forms.
func (b *Bytes) UnmarshalJSON(from []byte) error {
	var text string
	if json.Unmarshal(from, &text) == nil {
		*b = Bytes(text)
		return nil
	}
	var binary struct {
		Base64 string `json:"base64"`
	}
	if err := Decode(bytes.NewReader(from), &binary); err != nil {
		return fmt.Errorf("neither a text nor {\"base64\": …}: %w", err)
	}
	decoded, err := base64.StdEncoding.DecodeString(binary.Base64)
	*b = decoded
	return err
}

// Value is the form in which they are judged.
func (b Bytes) Value() any {
	if utf8.Valid(b) {
		return string(b)
	}
	return map[string]any{"base64": base64.StdEncoding.EncodeToString(b)}
}

// AsFault is the fault that a step of that name tells of.
func (s Step) AsFault() (grpcproxy.Fault, error) {
	fault := grpcproxy.Fault{
		Kind: grpcproxy.Kind(s.Fault), Times: 1, Reason: s.Reason, Pushback: s.Pushback,
	}
	var err error
	if s.Code != "" {
		if fault.Code, err = grpcproxy.ParseCode(s.Code); err != nil {
			return fault, err
		}
	}
	if fault.RetryDelay, err = milliseconds(s.RetryMS); err != nil {
		return fault, fmt.Errorf("retry_ms: %w", err)
	}
	switch times := s.Times.(type) {
	case nil:
	case json.Number:
		if fault.Times, err = count(times); err != nil {
			return fault, fmt.Errorf("times: %w", err)
		}
	default:
		if times != "always" {
			return fault, fmt.Errorf("times is a number or \"always\", not %v", times)
		}
		fault.Times = grpcproxy.Always
	}
	if fault.Answer, err = base64.StdEncoding.DecodeString(s.AnswerBase64); err != nil {
		return fault, fmt.Errorf("answer_base64: %w", err)
	}
	return fault, fault.Validate()
}
