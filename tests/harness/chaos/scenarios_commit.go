package chaos

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"idempotencyd/tests/harness/grpcproxy"
	"idempotencyd/tests/harness/pgproxy"
	"idempotencyd/tests/harness/replication"
)

// Commits and connections: scenarios 1, 2, 3, 5.
var commitScenarios = []Scenario{
	{
		Name: "1-commit-cut", Title: "the connection is cut before the commit, after it, in the middle of its answer", Profile: Local,
		InCut: true, Seconds: 5, do: cutCommits,
	},
	{
		Name: "2-session-ended", Title: "pg_terminate_backend and pg_cancel_backend on the service's sessions", Profile: Local,
		InCut: true, Seconds: 3, do: endSessions,
	},
	{
		Name: "2-standby-wait-cancelled", Title: "the same on sessions that wait for a standby", Profile: Replicated, InCut: true,
		do: cancelStandbyWaits,
	},
	{
		Name: "3-replica-killed", Title: "a replica is killed, answers between it and its client are lost", Profile: Local,
		InCut: true, Seconds: 5, do: killReplicas,
	},
	{
		Name: "5-commit-rolled-back", Title: "COMMIT is answered by ROLLBACK", Profile: Local, InCut: true, Seconds: 3,
		do: rollBackCommits,
	},
}

// injectOne has one fault happen to one replica's lane and waits for it a while.
func (r *run) injectOne(ctx context.Context, fault pgproxy.Fault) error {
	m := r.world.members[r.rng.IntN(len(r.world.members))]
	name := disturbing + ": " + string(fault.Kind)
	if fault.Then != "" {
		name += " and " + string(fault.Then)
	}
	end := r.recorder.Fault(name)
	defer end()
	if fault.Match == nil {
		fault.Match = commitsRecords
	}
	injection := m.lines[r.world.primaryIndex()].Inject(fault)
	waiting, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	// Now and then there is nothing to do it to.
	if injection.Await(waiting, 1) == nil {
		r.count(name)
	}
	injection.Cancel()
	return sleep(ctx, time.Duration(30+r.rng.IntN(120))*time.Millisecond)
}

// commitsRecords leaves the clock watch alone, which writes eight times a second and would get most of the faults.
func commitsRecords(b pgproxy.Batch) bool {
	return b.Commits && b.Writes && (b.Executes("begin_insert") || b.Executes("owner_update") || b.Executes("write"))
}

// primaryIndex is the place of the primary among the nodes, and of the lines to it.
func (w *World) primaryIndex() int {
	for i, node := range w.cluster.Nodes() {
		if node == w.cluster.Primary() {
			return i
		}
	}
	return 0
}

func cutCommits(ctx context.Context, r *run) error {
	kinds := []pgproxy.Kind{
		pgproxy.CutBefore, pgproxy.Swallow, pgproxy.CutInside, pgproxy.BeforeReady, pgproxy.CompleteWithoutCommit,
	}
	endings := []pgproxy.Ending{pgproxy.Close, pgproxy.Reset, pgproxy.Close, pgproxy.Hang}
	step := 0
	return r.underLoad(ctx, usualLoad, func(ctx context.Context) error {
		return r.until(ctx, func(ctx context.Context) error {
			// Every kind comes, in whatever order the seed says.
			fault := pgproxy.Fault{Kind: kinds[step%len(kinds)], Then: endings[r.rng.IntN(len(endings))]}
			step++
			return r.injectOne(ctx, fault)
		})
	})
}

func rollBackCommits(ctx context.Context, r *run) error {
	return r.underLoad(ctx, usualLoad, func(ctx context.Context) error {
		return r.until(ctx, func(ctx context.Context) error {
			return r.injectOne(ctx, pgproxy.Fault{Kind: pgproxy.RollbackInstead, Match: func(b pgproxy.Batch) bool {
				return b.Commits && b.Writes && b.Executes("write") && b.Executes("transaction_commit")
			}})
		})
	})
}

// endSessionsSQL ends, or only cancels, one session of the service.
func endSessionsSQL(function, where string) string {
	return "SELECT " + function + "(pid) FROM pg_stat_activity WHERE application_name = 'idempotencyd' AND " + where +
		" ORDER BY random() LIMIT 1"
}

func endSessions(ctx context.Context, r *run) error {
	node := r.world.cluster.Primary()
	return r.underLoad(ctx, usualLoad, func(ctx context.Context) error {
		return r.until(ctx, func(ctx context.Context) error {
			function := []string{"pg_terminate_backend", "pg_cancel_backend"}[r.rng.IntN(2)]
			end := r.fault(disturbing + ": " + function)
			defer end()
			if err := node.Exec(ctx, endSessionsSQL(function, "true")); err != nil {
				return err
			}
			return sleep(ctx, time.Duration(20+r.rng.IntN(80))*time.Millisecond)
		})
	})
}

// cancelStandbyWaits: a wait that is cancelled or terminated commits all the same, and is on no standby.
func cancelStandbyWaits(ctx context.Context, r *run) error {
	primary := r.world.cluster.Primary()
	return r.underLoad(ctx, usualLoad, func(ctx context.Context) error {
		for _, function := range []string{"pg_cancel_backend", "pg_terminate_backend"} {
			end := r.fault(disturbing + ": standbys frozen, " + function + " on what waits")
			for _, standby := range r.world.cluster.Standbys() {
				standby.Freeze()
			}
			if err := cancelWaiting(ctx, primary, function); err != nil {
				return err
			}
			for _, standby := range r.world.cluster.Standbys() {
				standby.Thaw()
			}
			end()
			if err := r.awaitWrites(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

func cancelWaiting(ctx context.Context, primary *replication.Node, function string) error {
	const rounds = 60
	for range rounds {
		if err := primary.Exec(ctx, endSessionsSQL(function, "wait_event = 'SyncRep'")); err != nil {
			return err
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// awaitWrites returns when every replica serves and somebody has written again.
func (r *run) awaitWrites(ctx context.Context) error {
	from := r.recorder.Now()
	for _, m := range r.world.members {
		if err := m.awaitServing(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		if _, found := firstWriteAfter(r.recorder.Snapshot(), from); found {
			return nil
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("nobody writes again: %w", err)
		}
	}
}

func killReplicas(ctx context.Context, r *run) error {
	r.load.targets = append(r.world.lossyTargets(), r.world.straightTargets()...)
	return r.underLoad(ctx, usualLoad, func(ctx context.Context) error {
		return r.until(ctx, func(ctx context.Context) error {
			m := r.world.members[r.rng.IntN(len(r.world.members))]
			if r.rng.IntN(3) == 0 {
				return r.killOne(ctx, m)
			}
			kind := []grpcproxy.Kind{grpcproxy.CutAfter, grpcproxy.LoseAnswer, grpcproxy.HangAfter}[r.rng.IntN(3)]
			method := []string{"Begin", "Complete", "Fail", "Renew"}[r.rng.IntN(4)]
			fault := grpcproxy.Fault{Kind: kind, Times: 1}
			if kind == grpcproxy.LoseAnswer {
				fault.Code = codes.Unavailable
			}
			end := r.fault("answer of " + method + " lost: " + string(kind))
			defer end()
			m.proxy.Add(method, fault)
			return sleep(ctx, time.Duration(50+r.rng.IntN(100))*time.Millisecond)
		})
	})
}

func (r *run) killOne(ctx context.Context, m *member) error {
	end := r.fault("replica killed and started again")
	defer end()
	m.replica.Kill()
	if err := sleep(ctx, time.Duration(r.rng.IntN(200))*time.Millisecond); err != nil {
		return err
	}
	return m.replica.Restart(ctx)
}
