package chaos

import (
	"context"
	"fmt"
	"time"

	"idempotencyd/tests/harness/history"
	"idempotencyd/tests/harness/model"
	"idempotencyd/tests/harness/replication"
)

// Replication: scenarios 4, 6, 7, 8 and the clocks of promoted nodes.
var replicationScenarios = []Scenario{
	{
		Name: "4-unreplicated-rows", Title: "the primary dies while commits wait for a standby, comes back, is lost for good",
		Profile: Replicated, InCut: true, do: loseUnreplicated,
	},
	{
		Name: "4-cancelled-waits", Title: "waits for a standby are cancelled, then the primary is lost: nobody was told of those commits",
		Profile: Replicated, InCut: true, do: loseCancelledWaits,
	},
	{
		Name: "6-failover", Title: "the primary is killed and a standby promoted, again and again", Profile: Replicated, InCut: true,
		do: failOver,
	},
	{
		Name: "6-asynchronous-loss", Title: "with asynchronous replication a failover loses answers, and the checker sees it",
		Profile: Asynchronous, InCut: true, MustFail: true, do: loseAsynchronously,
	},
	{
		Name: "7-standbys-gone", Title: "no standby confirms: calls are refused at once, few sessions stay behind, it heals",
		Profile: Replicated, InCut: true, do: loseStandbys,
	},
	{
		Name: "8-old-primary-alive", Title: "the old primary is alive and reachable after the promotion", Profile: Replicated,
		InCut: true, do: leaveOldPrimary,
	},
	{
		Name: "8-first-host", Title: "the first host of the list is read-only, dead, hung", Profile: Replicated, InCut: true,
		do: spoilFirstHost,
	},
	{
		Name: "10-promoted-clock", Title: "the promoted node's clock is 2 h ahead, then 60 s behind", Profile: MovedClocks, InCut: true,
		Allow: func(p *model.Params) { p.Skew, p.ExpiryEarly = p.Margin, int64(3*time.Hour) }, do: promoteWithOtherClocks,
	},
}

const writesAgainWithin = 10 * time.Second

// promoteBest promotes the standby that has most. It returns the instant of the promotion.
func (r *run) promoteBest(ctx context.Context, before func(context.Context, *replication.Node) error) (int64, error) {
	best, err := r.world.cluster.MostAdvanced(ctx)
	if err != nil {
		return 0, err
	}
	asked := r.recorder.Now()
	err = r.world.cluster.Promote(ctx, best, before)
	return asked, err
}

// awaitWritesAfter waits until somebody writes again, and judges how long that took.
func (r *run) awaitWritesAfter(ctx context.Context, instant int64, what string) error {
	if err := r.awaitWrites(ctx); err != nil {
		return err
	}
	took, found := firstWriteAfter(r.recorder.Snapshot(), instant)
	if !found || took > writesAgainWithin {
		r.problem("%s: writing again after %s only", what, round(took))
	}
	r.note("%s: writing again %s later", what, round(took))
	return nil
}

func loseUnreplicated(ctx context.Context, r *run) error {
	return r.underLoad(ctx, usualLoad, func(ctx context.Context) error {
		cluster := r.world.cluster
		old := cluster.Primary()
		end := r.fault(disturbing + ": primary killed while commits wait, restarted, killed for good, standby promoted")
		defer end()
		if err := r.detachAll(ctx); err != nil {
			return err
		}
		if err := sleep(ctx, 700*time.Millisecond); err != nil {
			return err
		}
		// What waited for a standby is committed on this disk, and on no other. It must not be answered from.
		old.Kill()
		if err := old.Start(ctx); err != nil {
			return err
		}
		if err := sleep(ctx, 2*time.Second); err != nil {
			return err
		}
		return r.replacePrimary(ctx, "promotion")
	})
}

// replacePrimary kills the primary, promotes the best standby, waits for writes, and makes the old primary a standby.
func (r *run) replacePrimary(ctx context.Context, what string) error {
	old := r.world.cluster.Primary()
	old.Kill()
	promoted, err := r.promoteBest(ctx, nil)
	if err != nil {
		return err
	}
	if err := r.awaitWritesAfter(ctx, promoted, what); err != nil {
		return err
	}
	return r.world.cluster.Join(ctx, old)
}

// loseCancelledWaits: a wait that is cancelled commits on one disk only, with success and a warning. Others can read such a row.
// Twice: sessions that are cancelled report success, those that are terminated do not come back.
func loseCancelledWaits(ctx context.Context, r *run) error {
	return r.underLoad(ctx, usualLoad, func(ctx context.Context) error {
		for _, function := range []string{"pg_cancel_backend", "pg_terminate_backend"} {
			end := r.fault(disturbing + ": replication stopped, " + function + " on what waits, primary lost, standby promoted")
			err := r.detachAll(ctx)
			if err == nil {
				err = cancelWaiting(ctx, r.world.cluster.Primary(), function)
			}
			if err == nil {
				err = r.replacePrimary(ctx, "promotion after "+function)
			}
			end()
			if err == nil {
				err = sleep(ctx, 500*time.Millisecond)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func failOver(ctx context.Context, r *run) error {
	return r.underLoad(ctx, usualLoad, func(ctx context.Context) error {
		for i := range max(1, r.options.Promotions) {
			if err := r.failOverOnce(ctx, i+1); err != nil {
				return err
			}
			if err := sleep(ctx, time.Duration(300+r.rng.IntN(500))*time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *run) failOverOnce(ctx context.Context, number int) error {
	end := r.fault(disturbing + ": primary killed, standby promoted")
	defer end()
	r.world.cluster.Primary().Kill()
	// As long as somebody takes to notice.
	if err := sleep(ctx, time.Duration(r.rng.IntN(300))*time.Millisecond); err != nil {
		return err
	}
	return r.replacePrimary(ctx, fmt.Sprintf("promotion %d", number))
}

func loseAsynchronously(ctx context.Context, r *run) error {
	if err := r.awaitTargets(ctx); err != nil {
		return err
	}
	r.load.start(ctx, usualLoad)
	defer r.load.stop()
	cluster := r.world.cluster
	end := r.fault(disturbing + ": standby behind, primary killed, standby promoted")
	defer end()
	for _, standby := range cluster.Standbys() {
		if err := standby.Detach(ctx); err != nil {
			return err
		}
	}
	if err := sleep(ctx, 2*time.Second); err != nil {
		return err
	}
	cluster.Primary().Kill()
	if _, err := r.promoteBest(ctx, nil); err != nil {
		return err
	}
	if err := r.awaitWrites(ctx); err != nil {
		return err
	}
	return sleep(ctx, time.Second)
}

func loseStandbys(ctx context.Context, r *run) error {
	return r.underLoad(ctx, usualLoad, func(ctx context.Context) error {
		cluster := r.world.cluster
		end := r.fault(disturbing + ": all standbys hung")
		for _, standby := range cluster.Standbys() {
			standby.Freeze()
		}
		err := sleep(ctx, storeTimeout+1500*time.Millisecond)
		from := r.recorder.Now()
		if err == nil {
			err = sleep(ctx, 1500*time.Millisecond)
		}
		to := r.recorder.Now()
		stuck, counted := cluster.Primary().Value(ctx, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
		for _, standby := range cluster.Standbys() {
			standby.Thaw()
		}
		thawed := r.recorder.Now()
		end()
		if err != nil || counted != nil {
			return fmt.Errorf("%w, %w", err, counted)
		}
		r.judgeRefusals(from, to, stuck)
		return r.awaitWritesAfter(ctx, thawed, "standbys back")
	})
}

// judgeRefusals: with the circuit open a call is refused in 50 ms, and every session stays behind at most once.
func (r *run) judgeRefusals(from, to int64, stuck string) {
	var refused spread
	for _, op := range r.recorder.Snapshot().Ops {
		if op.Start < from || op.Start > to || op.Wait > 0 || op.End == history.Never {
			continue
		}
		refused.took = append(refused.took, time.Duration(op.End-op.Start))
	}
	r.note("while no standby confirmed: p50 %s, p99 %s; %s sessions stayed behind", round(refused.quantile(0.5)),
		round(refused.quantile(0.99)), stuck)
	if refused.quantile(0.9) > 50*time.Millisecond {
		r.problem("calls took %s (p90) while no standby confirmed", round(refused.quantile(0.9)))
	}
	// Lanes, slow lane, sweeper, health check and clock watch of each replica.
	var count int
	_, _ = fmt.Sscan(stuck, &count)
	if most := 7 * len(r.world.members); count > most {
		r.problem("%d sessions stayed behind, more than %d", count, most)
	}
}

// detachAll stops replication, so that no standby gets ahead of the one that is promoted.
func (r *run) detachAll(ctx context.Context) error {
	for _, standby := range r.world.cluster.Standbys() {
		if err := standby.Detach(ctx); err != nil {
			return err
		}
	}
	return nil
}

func leaveOldPrimary(ctx context.Context, r *run) error {
	return r.underLoad(ctx, usualLoad, func(ctx context.Context) error {
		old := r.world.cluster.Primary()
		end := r.fault(disturbing + ": standby promoted, the old primary left as it is")
		defer end()
		if err := r.detachAll(ctx); err != nil {
			return err
		}
		promoted, err := r.promoteBest(ctx, nil)
		if err != nil {
			return err
		}
		if err := r.awaitWritesAfter(ctx, promoted, "promotion"); err != nil {
			return err
		}
		if err := sleep(ctx, 1500*time.Millisecond); err != nil {
			return err
		}
		old.Kill()
		return r.world.cluster.Join(ctx, old)
	})
}

func spoilFirstHost(ctx context.Context, r *run) error {
	cluster := r.world.cluster
	first := cluster.Nodes()[0]
	if cluster.Primary() == first {
		first.Kill()
		if _, err := r.promoteBest(ctx, nil); err != nil {
			return err
		}
		if err := cluster.Join(ctx, first); err != nil {
			return err
		}
	}
	return r.underLoad(ctx, usualLoad, func(ctx context.Context) error {
		for _, c := range []struct {
			what  string
			spoil func()
		}{
			{"read-only", func() {}}, {"hung", first.Freeze}, {"dead", first.Kill},
		} {
			c.spoil()
			end := r.fault(disturbing + ": first host " + c.what + ", a replica started anew")
			m := r.world.members[0]
			m.replica.Kill()
			began := r.recorder.Now()
			if err := m.replica.Restart(ctx); err != nil {
				return err
			}
			took := time.Duration(r.recorder.Now() - began)
			end()
			r.note("first host %s: serving after %s", c.what, round(took))
			if took > writesAgainWithin {
				r.problem("first host %s: serving after %s only", c.what, round(took))
			}
			first.Thaw()
		}
		return cluster.Join(ctx, first)
	})
}

func promoteWithOtherClocks(ctx context.Context, r *run) error {
	for _, t := range r.load.targets {
		if err := t.awaitReady(ctx); err != nil {
			return err
		}
	}
	r.load.start(ctx, usualLoad)
	defer r.load.stop()
	for _, ahead := range []time.Duration{2 * time.Hour, 2*time.Hour - time.Minute} {
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
		old := r.world.cluster.Primary()
		end := r.fault(fmt.Sprintf("%s: primary killed, the promoted node's clock %s ahead of the real one", disturbing, ahead))
		old.Kill()
		promoted, err := r.promoteBest(ctx, func(ctx context.Context, node *replication.Node) error {
			return setClock(ctx, node, ahead)
		})
		if err == nil {
			err = r.awaitWritesAfter(ctx, promoted, "promotion")
		}
		end()
		if err == nil {
			err = r.world.cluster.Join(ctx, old)
		}
		if err != nil {
			return err
		}
	}
	return sleep(ctx, 2*time.Second)
}
