package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
	"idempotencyd/tests/harness/grpcproxy"
	"idempotencyd/tests/harness/scenario"
)

const lookupPause = 20 * time.Millisecond

func (s *session) run(ctx context.Context, step scenario.Step) error {
	switch step.Do {
	case "fault":
		return s.fault(step)
	case "clear_faults":
		s.proxy.ClearFaults()
		return nil
	case "listener":
		return s.switchLine(step.State, s.proxy.Down, s.proxy.Up)
	case "database":
		return s.onOwnService(func() error {
			return s.switchLine(step.State, s.service.line.Down, s.service.line.Up)
		})
	case "kill_replica":
		return s.onOwnService(func() error {
			s.service.replica.Kill()
			return nil
		})
	case "start_replica":
		return s.onOwnService(func() error { return s.startReplica(ctx) })
	case "other_begin":
		return s.otherBegin(ctx, step)
	case "other_complete", "other_fail", "other_renew":
		return s.otherFinish(ctx, step)
	case "other_lookup":
		return s.otherLookup(ctx, step)
	case "await_state":
		return s.awaitState(ctx, step)
	case "await_calls":
		return s.awaitCalls(ctx, step)
	case "calls":
		return s.judgeValue(step.Expect, s.callsValue(step))
	case "signal":
		s.signal(step.Name)
		return nil
	case "await_signal":
		return s.awaitSignal(ctx, step.Name)
	default:
		return fmt.Errorf("%q is no step of the host", step.Do)
	}
}

func (s *session) judgeValue(expect, actual any) error {
	if problem := s.judge.Compare(expect, actual); problem != "" {
		return errors.New(problem)
	}
	return nil
}

func (s *session) fault(step scenario.Step) error {
	fault, err := step.AsFault()
	if err != nil {
		return err
	}
	if step.Method == "" {
		return errors.New("which method?")
	}
	s.proxy.Add(step.Method, fault)
	return nil
}

func (s *session) switchLine(state string, down func(), up func() error) error {
	switch state {
	case "down":
		down()
		return nil
	case "up":
		return up()
	default:
		return fmt.Errorf("there is no state %q", state)
	}
}

// What is done to a service that others use, too, would be done to them.
func (s *session) onOwnService(do func() error) error {
	if !s.ownService {
		return errors.New("only with own_service")
	}
	return do()
}

func (s *session) startReplica(ctx context.Context) error {
	if err := s.service.replica.Restart(ctx); err != nil {
		return err
	}
	for {
		s.service.connection.ResetConnectBackoff()
		s.service.connection.Connect()
		state := s.service.connection.GetState()
		if state == connectivity.Ready {
			return nil
		}
		if !s.service.connection.WaitForStateChange(ctx, state) {
			return context.Cause(ctx)
		}
	}
}

func (s *session) otherBegin(ctx context.Context, step scenario.Step) error {
	if step.Key == nil || step.Request == nil || step.As == "" {
		return errors.New("it needs as, key and request")
	}
	action, err := scenario.ParseAction(step.OnLeaseExpiry)
	if err != nil {
		return err
	}
	lease, err := step.LeaseDuration()
	if err != nil {
		return err
	}
	begun := attempt{key: *step.Key, id: rand.Text()}
	request := &idempotencyv1.BeginRequest{
		MerchantId: begun.key.MerchantID, IdempotencyKey: begun.key.IdempotencyKey, AttemptId: begun.id,
		OnLeaseExpiry: action, LeaseDuration: lease,
	}
	if err := step.Request.Fill(request); err != nil {
		return err
	}
	answer, err := s.service.client.Begin(ctx, request)
	if err == nil {
		s.mutex.Lock()
		s.attempts[step.As] = begun
		s.mutex.Unlock()
	}
	return s.judgeAnswer(step.Expect, err, func() any { return scenario.BeginValue(answer) })
}

func (s *session) otherFinish(ctx context.Context, step scenario.Step) error {
	s.mutex.Lock()
	by, ok := s.attempts[step.As]
	s.mutex.Unlock()
	if !ok {
		return fmt.Errorf("there was no other_begin as %q", step.As)
	}
	err := s.finish(ctx, step, by)
	var invalid invalidStep
	if errors.As(err, &invalid) {
		return err
	}
	return s.judgeAnswer(step.Expect, err, func() any { return map[string]any{"ok": true} })
}

// A step that cannot be done, unlike one that the service refused.
type invalidStep struct{ error }

func (s *session) finish(ctx context.Context, step scenario.Step, by attempt) error {
	merchant, key := by.key.MerchantID, by.key.IdempotencyKey
	switch step.Do {
	case "other_complete":
		outcome, err := step.Outcome.AsMessage()
		if err != nil {
			return invalidStep{err}
		}
		_, err = s.service.client.Complete(ctx, &idempotencyv1.CompleteRequest{
			MerchantId: merchant, IdempotencyKey: key, AttemptId: by.id, Outcome: outcome,
		})
		return err
	case "other_fail":
		if step.Failure == nil {
			return invalidStep{errors.New("it needs a failure")}
		}
		failure, err := step.Failure.AsMessage()
		if err != nil {
			return invalidStep{err}
		}
		_, err = s.service.client.Fail(ctx, &idempotencyv1.FailRequest{
			MerchantId: merchant, IdempotencyKey: key, AttemptId: by.id, Failure: failure,
		})
		return err
	default:
		lease, err := step.LeaseDuration()
		if err != nil {
			return invalidStep{err}
		}
		_, err = s.service.client.Renew(ctx, &idempotencyv1.RenewRequest{
			MerchantId: merchant, IdempotencyKey: key, AttemptId: by.id, LeaseDuration: lease,
		})
		return err
	}
}

func (s *session) otherLookup(ctx context.Context, step scenario.Step) error {
	record, err := s.lookup(ctx, step.Key)
	var invalid invalidStep
	if errors.As(err, &invalid) {
		return err
	}
	return s.judgeAnswer(step.Expect, err, func() any { return scenario.RecordValue(record) })
}

func (s *session) lookup(ctx context.Context, key *scenario.Key) (*idempotencyv1.LookupResponse, error) {
	if key == nil {
		return nil, invalidStep{errors.New("it needs a key")}
	}
	return s.service.client.Lookup(ctx, &idempotencyv1.LookupRequest{
		MerchantId: key.MerchantID, IdempotencyKey: key.IdempotencyKey, IncludeOutcome: true,
	})
}

// Judges what a call came to. A step that expects nothing expects that it is not refused.
func (s *session) judgeAnswer(expect any, err error, answer func() any) error {
	if err != nil {
		refused := status.Convert(err)
		if expect == nil {
			return fmt.Errorf("refused: %v %s", refused.Code(), refused.Message())
		}
		if err := s.judgeValue(expect, map[string]any{"error": errorValue(refused)}); err != nil {
			return fmt.Errorf("%w (refused: %v %s)", err, refused.Code(), refused.Message())
		}
		return nil
	}
	return s.judgeValue(expect, answer())
}

func errorValue(refused *status.Status) map[string]any {
	value := map[string]any{"code": rpccode.Code(refused.Code()).String()}
	for _, detail := range refused.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			value["reason"] = detail.GetReason()
		case *errdetails.BadRequest:
			fields := []any{}
			for _, violation := range detail.GetFieldViolations() {
				fields = append(fields, violation.GetField())
			}
			value["violations"] = fields
		}
	}
	return value
}

func (s *session) awaitState(ctx context.Context, step scenario.Step) error {
	wanted, err := scenario.ParseState(step.State)
	if err != nil {
		return err
	}
	shown := "nothing yet"
	for {
		record, err := s.lookup(ctx, step.Key)
		var invalid invalidStep
		switch {
		case errors.As(err, &invalid):
			return err
		case err == nil && record.GetState() == wanted:
			return nil
		case err == nil:
			shown = record.GetState().String()
		case ctx.Err() == nil:
			// The record may come yet, or the service may come back.
			shown = status.Code(err).String()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: Lookup shows %s", context.Cause(ctx), shown)
		case <-time.After(lookupPause):
		}
	}
}

func (s *session) awaitCalls(ctx context.Context, step scenario.Step) error {
	var code codes.Code
	if step.Code != "" {
		var err error
		if code, err = grpcproxy.ParseCode(step.Code); err != nil {
			return err
		}
	}
	seen := 0
	err := s.proxy.AwaitCalls(ctx, step.Method, func(calls []grpcproxy.Call) bool {
		seen = 0
		for _, call := range calls {
			if step.Started || (call.Ended && (step.Code == "" || call.Code == code)) {
				seen++
			}
		}
		return seen >= step.Count
	})
	if err != nil {
		return fmt.Errorf("%w: %d such calls of %s", err, seen, step.Method)
	}
	return nil
}

func (s *session) signal(name string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	given := s.signalLocked(name)
	select {
	case <-given:
	default:
		close(given)
	}
}

func (s *session) awaitSignal(ctx context.Context, name string) error {
	s.mutex.Lock()
	given := s.signalLocked(name)
	s.mutex.Unlock()
	select {
	case <-given:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: no signal %q", context.Cause(ctx), name)
	}
}

// REQUIRES: the mutex is held.
func (s *session) signalLocked(name string) chan struct{} {
	if s.signals[name] == nil {
		s.signals[name] = make(chan struct{})
	}
	return s.signals[name]
}
