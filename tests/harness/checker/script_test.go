package checker

import (
	"time"

	"idempotencyd/tests/harness/history"
	"idempotencyd/tests/harness/model"
)

const ms = int64(time.Millisecond)

// params of the scripts: leases of 1 s unless said otherwise, records that answer for 3 s.
var params = model.Params{Margin: 200 * ms, ReplayWindow: 3000 * ms}

// script writes histories by hand: each call with the instants, in ms, at which it was sent and answered.
type script struct {
	h history.History
}

func (s *script) add(rpc history.RPC, key, attempt string, start, end int64) *history.Op {
	op := &history.Op{
		ID: int64(len(s.h.Ops) + 1), RPC: rpc, Merchant: "m", Key: key, Attempt: attempt, Start: start * ms, End: end * ms,
		Class: history.OK, Code: "OK",
	}
	s.h.Ops = append(s.h.Ops, op)
	return op
}

func (s *script) begin(key, attempt string, start, end int64) *history.Op {
	op := s.add(history.Begin, key, attempt, start, end)
	op.Request, op.Lease, op.TTL = "pay 1", 1000*ms, 2000*ms
	return op
}

// started as the attempt of that number of the key's record 1.
func (s *script) started(key, attempt string, start, end int64, number int32, token int64) *history.Op {
	op := s.begin(key, attempt, start, end)
	op.Answer = history.Answer{
		Result: history.Started, Record: key + "-1", Downstream: key + "-1-down", Attempt: attempt, Number: number, Token: token,
		Remaining: 1000 * ms, PrevNumber: number - 1,
	}
	return op
}

func (s *script) replayed(key, attempt string, start, end int64, number int32, digest string) *history.Op {
	op := s.begin(key, attempt, start, end)
	op.Answer = history.Answer{Result: history.Replay, Record: key + "-1", Number: number, Digest: digest, Finish: 77}
	return op
}

func (s *script) inProgress(key, attempt string, start, end int64, number int32) *history.Op {
	op := s.begin(key, attempt, start, end)
	op.Answer = history.Answer{Result: history.InProgress, Record: key + "-1", Number: number}
	return op
}

func (s *script) completed(key, attempt string, start, end int64, digest string) *history.Op {
	op := s.add(history.Complete, key, attempt, start, end)
	op.Submitted = digest
	op.Answer = history.Answer{Result: history.Recorded, Record: key + "-1"}
	return op
}

func (s *script) failed(key, attempt string, start, end int64, how history.Disposition, digest string) *history.Op {
	op := s.completed(key, attempt, start, end, digest)
	op.RPC, op.Disposition = history.Fail, how
	return op
}

func (s *script) renewed(key, attempt string, start, end int64) *history.Op {
	op := s.add(history.Renew, key, attempt, start, end)
	op.Lease = 1000 * ms
	op.Answer = history.Answer{Result: history.Renewed, Record: key + "-1", Remaining: 1000 * ms}
	return op
}

func (s *script) found(key string, start, end int64, state string, number int32, token int64, digest string) *history.Op {
	op := s.add(history.Lookup, key, "", start, end)
	op.Answer = history.Answer{
		Result: history.Found, Record: key + "-1", State: state, Number: number, Token: token, Digest: digest,
	}
	return op
}

// refused turns a call into one that was refused for that reason.
func refused(op *history.Op, reason string) *history.Op {
	op.Class, op.Code, op.Reason, op.Answer = history.Definite, "ABORTED", reason, history.Answer{}
	return op
}

// lost turns a call into one whose answer nobody got.
func lost(op *history.Op) *history.Op {
	op.Class, op.Code, op.Answer, op.End = history.Unknown, "UNAVAILABLE", history.Answer{}, history.Never
	return op
}

// record changes the record that the call was told of.
func record(op *history.Op, name string) *history.Op {
	op.Answer.Record, op.Answer.Downstream = name, name+"-down"
	return op
}

func (s *script) check() []Violation { return s.checkWith(params) }

func (s *script) checkWith(p model.Params) []Violation {
	return Check(&s.h, Config{Params: p, Timeout: 5 * time.Second, DisturbedBy: []string{"database"}})
}
