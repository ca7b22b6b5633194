package chaos

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
	"idempotencyd/tests/harness/audit"
	"idempotencyd/tests/harness/checker"
	"idempotencyd/tests/harness/history"
	"idempotencyd/tests/harness/model"
	"idempotencyd/tests/harness/replication"
)

// How the names of those faults begin after which the server may run calls again, or gRPC sends them again.
const (
	disturbing = "database"
	resending  = "sent again"
)

// judge has the table audited, the history checked, and the logs searched.
func judge(ctx context.Context, r *run, h *history.History, params model.Params) ([]checker.Violation, error) {
	rows, err := readRows(ctx, r.world.cluster.Primary(), h)
	if err != nil {
		return nil, fmt.Errorf("reading the table: %w", err)
	}
	// Not before the rows were read: what has expired by then may be gone.
	found := audit.Check(rows, h, params, r.recorder.Now())
	found = append(found, checker.Check(h, checker.Config{
		Params: params, Timeout: 20 * time.Second, DisturbedBy: []string{disturbing, resending},
	})...)
	leaks, err := leaked(ctx, r.world, r.load.caller.errors.all())
	return append(found, leaks...), err
}

// readRows reads the records of the history's keys.
func readRows(ctx context.Context, node *replication.Node, h *history.History) ([]audit.Row, error) {
	connection, err := node.ConnectTo(ctx, databaseName, "")
	if err != nil {
		return nil, err
	}
	defer connection.Close(ctx)
	keys := h.ByKey()
	rows, err := connection.Query(ctx, `
SELECT merchant_id, idempotency_key, state, attempt_number, attempt_hash,
    (extract(epoch FROM created_at) * 1000000)::bigint, outcome, history
FROM idempotency_record`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []audit.Row
	for rows.Next() {
		var row audit.Row
		var created int64
		var outcome, past []byte
		if err := rows.Scan(&row.Key.Merchant, &row.Key.Key, &row.State, &row.Number, &row.AttemptHash, &created, &outcome,
			&past); err != nil {
			return nil, err
		}
		if keys[row.Key] == nil {
			continue
		}
		row.Token = created + tokenOffset(past)
		if row.Digest, err = storedDigest(row.State, outcome); err != nil {
			return nil, err
		}
		found = append(found, row)
	}
	return found, rows.Err()
}

// storedDigest: the stored forms have the fields of the public ones, number by number.
func storedDigest(state int, stored []byte) (string, error) {
	switch state {
	case audit.Completed:
		var outcome idempotencyv1.Outcome
		err := proto.Unmarshal(stored, &outcome)
		return digestOfOutcome(&outcome), err
	case audit.FailedFinal, audit.Released, audit.FailedUnknown:
		var failure idempotencyv1.Failure
		err := proto.Unmarshal(stored, &failure)
		return digestOfFailure(&failure), err
	}
	return "", nil
}

// tokenOffset reads one number of a StoredHistory: the last attempt's token, less the record's creation in microseconds.
func tokenOffset(stored []byte) int64 {
	const field = 7
	for len(stored) > 0 {
		number, kind, n := protowire.ConsumeTag(stored)
		if n < 0 {
			return 0
		}
		stored = stored[n:]
		if number == field && kind == protowire.VarintType {
			value, _ := protowire.ConsumeVarint(stored)
			return int64(value)
		}
		if n = protowire.ConsumeFieldValue(number, kind, stored); n < 0 {
			return 0
		}
		stored = stored[n:]
	}
	return 0
}

// leaked searches logs, metrics and error texts for what was planted in bodies, headers and attempt ids (I14).
func leaked(ctx context.Context, w *World, told string) ([]checker.Violation, error) {
	texts, err := w.logs()
	if err != nil {
		return nil, err
	}
	texts["errors"] = told
	for _, m := range w.members {
		if text, err := m.metricsText(ctx); err == nil {
			texts["metrics of "+m.name] = text
		}
	}
	var found []checker.Violation
	for where, text := range texts {
		for _, secret := range planted {
			if at := strings.Index(text, secret); at >= 0 {
				found = append(found, checker.Violation{
					Invariant: "I14", Message: fmt.Sprintf("%q is in %s: …%s…", secret, where, text[max(0, at-80):min(len(text), at+60)]),
				})
			}
		}
	}
	return found, nil
}

// bounded looks at what must stay within its bounds (I13): what is queued, in flight, and in memory.
func bounded(ctx context.Context, w *World, memory int64) []checker.Violation {
	if memory == 0 {
		memory = history.Never
	}
	var found []checker.Violation
	for _, m := range w.members {
		for name, most := range map[string]float64{
			"idempotency_queue_items": 8192, "idempotency_queue_bytes": 64 << 20, "idempotency_calls_in_flight": 16384,
			"idempotency_slow_lane_calls": 1024, "process_resident_memory_bytes": float64(memory),
		} {
			if value, err := m.metric(ctx, name); err == nil && value > most {
				found = append(found, checker.Violation{
					Invariant: "I13", Message: fmt.Sprintf("%s of %s is %.0f; its bound is %.0f", name, m.name, value, most),
				})
			}
		}
	}
	return found
}
