package chaos

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"idempotencyd/tests/harness/grpcproxy"
	"idempotencyd/tests/harness/history"
)

// Callers that leave: scenarios 26 and 27.
var callerScenarios = []Scenario{
	{
		Name: "26-caller-leaves", Title: "a Complete is queued when its caller leaves", Profile: Local, InCut: true,
		do: leaveQueuedCompletes,
	},
	{
		Name: "26-server-drains", Title: "a Complete is queued when the server drains", Profile: Local, InCut: true,
		do: drainQueuedCompletes,
	},
	{
		Name: "26-merchant-over-rate", Title: "a Complete of a merchant that is over its rate", Profile: Limited, InCut: true,
		do: completeOverRate,
	},
	{
		Name: "27-client-gives-up", Title: "a client gives up before its work began, in the middle, and after it", Profile: Local,
		InCut: true, do: giveUp,
	},
}

// queueCompletes begins keys, then has Completes of them wait in the replica's queue, its line to the database being held. leave
// is called when the server has taken them all. The Completes' callers leave when ctx of send ends.
func (r *run) queueCompletes(ctx context.Context, m *member, count int, leave func(cancel context.CancelFunc)) ([]*history.Op, error) {
	plans := make([]*keyPlan, count)
	attempts := make([]string, count)
	for i := range plans {
		plans[i] = r.plan(fmt.Sprintf("%s-%d", m.name, i), time.Hour, longestLease)
		attempts[i] = r.attempt()
		r.expect(r.caller.begin(ctx, m.straight, plans[i].op(attempts[i])), "started")
	}
	var group sync.WaitGroup
	defer group.Wait()
	if err := r.occupyLanes(ctx, m, &group); err != nil {
		return nil, err
	}
	leaving, cancel := context.WithCancel(ctx)
	defer cancel()
	told := make([]*history.Op, count)
	var completes sync.WaitGroup
	err := r.awaitTaken(ctx, m, "Complete", count, func() {
		for i := range plans {
			completes.Go(func() {
				patient := r.caller.within(20 * time.Second)
				told[i] = patient.complete(leaving, m.straight, plans[i].op(attempts[i]), "done")
			})
		}
	})
	if err != nil {
		return nil, err
	}
	leave(cancel)
	completes.Wait()
	for _, op := range told {
		if op != nil {
			r.recorder.Accepted(op)
		}
	}
	return told, nil
}

// occupyLanes holds the replica's line and has every lane wait at it with a Lookup, so that what comes next stays in the queue.
func (r *run) occupyLanes(ctx context.Context, m *member, group *sync.WaitGroup) error {
	const lookups = 16 // for two lanes, by the hash of their keys
	m.lines[0].Hold()
	err := r.awaitTaken(ctx, m, "Lookup", lookups, func() {
		for i := range lookups {
			group.Go(func() {
				r.caller.lookup(ctx, m.straight, r.plan(fmt.Sprint(m.name, "-filler-", i), time.Hour, longestLease).op(""))
			})
		}
	})
	if err != nil {
		return err
	}
	// From the call's arrival to its lane.
	return sleep(ctx, 20*time.Millisecond)
}

// awaitTaken returns when the replica has taken that many more calls of a method.
func (r *run) awaitTaken(ctx context.Context, m *member, method string, count int, send func()) error {
	started := func() (float64, error) {
		return m.metric(ctx, "grpc_server_started_total", `grpc_method="`+method+`"`)
	}
	before, err := started()
	if err != nil {
		return err
	}
	send()
	for {
		now, err := started()
		if err != nil {
			return err
		}
		if int(now-before) >= count {
			return nil
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// lookUpAll closes the history of each call's key.
func (r *run) lookUpAll(ctx context.Context, told []*history.Op, want string) {
	for i, op := range told {
		if op == nil {
			r.problem("a Complete was not sent")
			continue
		}
		found := r.caller.lookup(ctx, r.at(i+1), history.Op{Merchant: op.Merchant, Key: op.Key})
		if found == nil || found.Answer.State != want {
			r.problem("%s is not %s", op.Key, want)
		}
	}
}

func leaveQueuedCompletes(ctx context.Context, r *run) error {
	if err := r.awaitTargets(ctx); err != nil {
		return err
	}
	for _, m := range r.world.members {
		end := r.fault("callers of queued Completes leave")
		told, err := r.queueCompletes(ctx, m, 25, func(cancel context.CancelFunc) {
			cancel()
			time.AfterFunc(300*time.Millisecond, m.lines[0].Release)
		})
		end()
		if err != nil {
			return err
		}
		if err := r.awaitRecorded(ctx, m); err != nil {
			return err
		}
		r.lookUpAll(ctx, told, "COMPLETED")
	}
	return nil
}

// awaitRecorded returns when the replica's queue is empty again.
func (r *run) awaitRecorded(ctx context.Context, m *member) error {
	if err := sleep(ctx, 400*time.Millisecond); err != nil {
		return err
	}
	for {
		inFlight, err := m.metric(ctx, "idempotency_calls_in_flight")
		if err != nil || inFlight == 0 {
			return err
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func drainQueuedCompletes(ctx context.Context, r *run) error {
	if err := r.awaitTargets(ctx); err != nil {
		return err
	}
	m := r.world.members[0]
	end := r.fault("a replica drains with queued Completes")
	told, err := r.queueCompletes(ctx, m, 40, func(context.CancelFunc) {
		time.AfterFunc(300*time.Millisecond, m.lines[0].Release)
		if err := m.replica.Signal(syscall.SIGTERM); err != nil {
			r.problem("%v", err)
		}
	})
	if err == nil {
		err = m.replica.Terminate(10 * time.Second)
	}
	end()
	if err != nil {
		return err
	}
	for _, op := range told {
		r.expect(op, "recorded")
	}
	if err := m.replica.Restart(ctx); err != nil {
		return err
	}
	if err := r.awaitTargets(ctx); err != nil {
		return err
	}
	r.lookUpAll(ctx, told, "COMPLETED")
	return nil
}

func completeOverRate(ctx context.Context, r *run) error {
	if err := r.awaitTargets(ctx); err != nil {
		return err
	}
	var owned []*history.Op
	limited := 0
	end := r.fault("a merchant over its rate")
	defer end()
	for i := range 60 {
		k := r.plan(fmt.Sprint(i), time.Hour, longestLease)
		told := r.caller.begin(ctx, r.at(0), k.op(r.attempt()))
		switch {
		case told != nil && told.Answer.Result == history.Started:
			owned = append(owned, told)
		case told != nil && told.Reason == "MERCHANT_RATE_LIMITED":
			limited++
		default:
			r.problem("a Begin was told neither started nor limited")
		}
	}
	if limited == 0 || len(owned) == 0 {
		r.problem("%d were limited, %d started", limited, len(owned))
	}
	for _, op := range owned {
		r.expect(r.caller.complete(ctx, r.at(0), history.Op{Merchant: op.Merchant, Key: op.Key, Attempt: op.Attempt}, "done"),
			"recorded")
	}
	return nil
}

// giveUp: whatever the caller that left may think, what the record says is what is known, and the same call says it, too.
func giveUp(ctx context.Context, r *run) error {
	if err := r.awaitTargets(ctx); err != nil {
		return err
	}
	for i := range 30 {
		m := r.world.members[i%len(r.world.members)]
		k := r.plan(fmt.Sprint(i), time.Hour, longestLease)
		attempt := r.attempt()
		impatient := r.caller.within(time.Duration(1+r.rng.IntN(3000)) * time.Microsecond)
		to := m.straight
		var end func()
		switch i % 3 {
		case 0:
			end = r.fault("a client gives up at once")
		case 1:
			end = r.fault("a client gives up while its call is queued")
			impatient.timeout = 20 * time.Millisecond
			m.lines[0].Hold()
			time.AfterFunc(60*time.Millisecond, m.lines[0].Release)
		default:
			end = r.fault("a client gives up before the answer comes")
			impatient.timeout = 100 * time.Millisecond
			m.proxy.Add("Begin", grpcproxy.Fault{Kind: grpcproxy.HangAfter, Times: 1})
			to = m.lossy
		}
		impatient.begin(ctx, to, k.op(attempt))
		end()
		r.caller.lookup(ctx, r.at(i+1), k.op(""))
		r.expect(r.startedBy(ctx, k, attempt, 4*time.Second), "started")
		r.expect(r.caller.complete(ctx, r.at(i), k.op(attempt), "done"), "recorded")
		r.expect(r.caller.begin(ctx, r.at(i+1), k.op(r.attempt())), "replay")
	}
	return nil
}
