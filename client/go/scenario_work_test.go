package idempotency_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"idempotencyd/client/go"
)

// scenarioStep is a step of the client; see client/scenarios/README.md.
type scenarioStep struct {
	Do, Call      string
	Key           scenarioKey
	Request       scenarioRequest
	OnLeaseExpiry string `json:"on_lease_expiry"`
	Options       scenarioOptions
	Fn            []json.RawMessage
	Background    bool
	IncludeBody   bool `json:"include_body"`
	Expect        json.RawMessage

	// In fn.
	Work  *scenarioOutcomeOfWork
	Error string
}

type scenarioKey struct {
	MerchantID     string `json:"merchant_id"`
	IdempotencyKey string `json:"idempotency_key"`
}

func (k scenarioKey) typed() idempotency.Key {
	return idempotency.Key{MerchantID: k.MerchantID, IdempotencyKey: k.IdempotencyKey}
}

type scenarioRequest struct {
	Operation string
	Payload   *struct {
		Data        text
		ContentType string `json:"content_type"`
	}
	Fingerprint []byte `json:"fingerprint_base64"`
	Scheme      int32  `json:"fingerprint_scheme"`
}

func (r scenarioRequest) typed() idempotency.Request {
	if r.Payload == nil {
		return idempotency.Request{Operation: r.Operation,
			Content: idempotency.Fingerprint{SHA256: r.Fingerprint, Scheme: r.Scheme}}
	}
	return idempotency.Request{Operation: r.Operation,
		Content: idempotency.Payload{Data: []byte(r.Payload.Data), ContentType: r.Payload.ContentType}}
}

func (s scenarioStep) expiry() idempotency.OnLeaseExpiry {
	for _, expiry := range []idempotency.OnLeaseExpiry{idempotency.TakeOver, idempotency.Hold} {
		if expiry.String() == s.OnLeaseExpiry {
			return expiry
		}
	}
	if s.OnLeaseExpiry == "" {
		return 0
	}
	return 99 // a word that is none
}

type scenarioOptions struct {
	TTLMS           *int64 `json:"ttl_ms"`
	LeaseDurationMS *int64 `json:"lease_duration_ms"`
	WaitTimeoutMS   *int64 `json:"wait_timeout_ms"`
	MaxDurationMS   *int64 `json:"max_duration_ms"`
	StartTimeoutMS  *int64 `json:"start_timeout_ms"`
	DeadlineMS      *int64 `json:"deadline_ms"`
	Labels          map[string]string
	OnUnavailable   string `json:"on_unavailable"`
	Classify        map[string]string
}

func (s scenarioStep) options() (options []idempotency.RunOption) {
	span := func(value *int64, option func(time.Duration) idempotency.RunOption) {
		if value != nil {
			options = append(options, option(milliseconds(*value)))
		}
	}
	span(s.Options.TTLMS, idempotency.WithTTL)
	span(s.Options.LeaseDurationMS, idempotency.WithLeaseDuration)
	span(s.Options.WaitTimeoutMS, idempotency.WithWaitTimeout)
	span(s.Options.MaxDurationMS, idempotency.WithMaxDuration)
	span(s.Options.StartTimeoutMS, idempotency.WithStartTimeout)
	if s.Options.Labels != nil {
		options = append(options, idempotency.WithLabels(s.Options.Labels))
	}
	if s.Options.OnUnavailable == "RUN_UNPROTECTED" {
		options = append(options, idempotency.WithOnUnavailable(idempotency.RunUnprotected))
	}
	if s.Options.Classify != nil {
		options = append(options, idempotency.WithClassify(func(err error) idempotency.Disposition {
			return dispositionNamed(s.Options.Classify[err.Error()])
		}))
	}
	return options
}

func dispositionNamed(name string) idempotency.Disposition {
	all := []idempotency.Disposition{idempotency.NotAppliedDisposition, idempotency.FinalDisposition}
	if i := slices.IndexFunc(all, func(d idempotency.Disposition) bool { return d.String() == name }); i >= 0 {
		return all[i]
	}
	return idempotency.UnknownDisposition
}

// namedError is an error of the test's own.
type namedError string

func (e namedError) Error() string { return string(e) }

// scenarioWork is fn of one call, and what it saw.
type scenarioWork struct {
	session *session
	cancel  context.CancelFunc
	steps   []json.RawMessage

	runs    int
	attempt map[string]any
	threw   error
}

func (w *scenarioWork) run(ctx context.Context, attempt *idempotency.Attempt) (idempotency.WorkResult, error) {
	w.runs++
	w.attempt = attemptReport(attempt)
	defer func() { w.attempt["stop_reason"] = attempt.StopReason() }()
	for _, raw := range w.steps {
		var step scenarioStep
		if err := json.Unmarshal(raw, &step); err != nil {
			w.session.fail(err.Error())
		}
		switch step.Do {
		case "return":
			return step.Work.typed(), nil
		case "throw":
			w.threw = namedError(step.Error)
		case "throw_timeout":
			w.threw = fmt.Errorf("asking the partner: %w", context.DeadlineExceeded)
		case "throw_cancelled":
			w.threw = fmt.Errorf("asking the partner: %w", context.Canceled)
		case "crash":
			panic(crash{})
		case "await_stop":
			<-ctx.Done()
		case "cancel":
			w.cancel()
		default:
			w.session.host(raw)
		}
		if w.threw != nil {
			return idempotency.WorkResult{}, w.threw
		}
		if w.session.problem() != "" {
			break
		}
	}
	return idempotency.WorkResult{}, namedError("the scenario has gone wrong")
}

// addTo adds what fn saw; after the call.
func (w *scenarioWork) addTo(report map[string]any) {
	report["ran"], report["runs"] = w.runs > 0, w.runs
	if w.attempt != nil {
		report["attempt"] = w.attempt
	}
	if err, ok := report["threw"].(error); ok {
		report["threw"] = err == w.threw
	}
}
