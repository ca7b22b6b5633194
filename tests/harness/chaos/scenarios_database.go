package chaos

import (
	"context"
	"fmt"
	"sync"
	"time"

	"idempotencyd/tests/harness/history"
	"idempotencyd/tests/harness/model"
	"idempotencyd/tests/harness/pgproxy"
)

// A database that is slow, silent, locked, or that refuses; and clocks: scenarios 9, 10, 19, 20.
var databaseScenarios = []Scenario{
	{
		Name: "9-database-suspended", Title: "SIGSTOP of PostgreSQL: TCP looks healthy", Profile: Local, InCut: true,
		do: suspendDatabase,
	},
	{
		Name: "9-silent-loss", Title: "a replica's packets to its database are lost in silence", Profile: Cabled, NeedsRoot: true,
		InCut: true, do: pullCable,
	},
	{
		Name: "10-clock-steps", Title: "the database's clock steps ahead and back while it is live", Profile: Clocks, InCut: true,
		Allow: func(p *model.Params) { p.Skew, p.ExpiryEarly = p.Margin, int64(3*time.Hour) }, do: stepClocks,
	},
	{
		Name: "19-poison", Title: "a poison item at positions of batches of 2 to 256", Profile: Local, InCut: true, do: poisonBatches,
	},
	{
		Name: "20-locks-and-refusals", Title: "rows locked by others, deadlocks, serialization errors, forgotten statements",
		Profile: Local, InCut: true, Seconds: 4, do: lockRows,
	},
}

func suspendDatabase(ctx context.Context, r *run) error {
	return r.underLoad(ctx, usualLoad, func(ctx context.Context) error {
		node := r.world.cluster.Primary()
		end := r.fault(disturbing + ": suspended by SIGSTOP")
		node.Freeze()
		err := sleep(ctx, 2500*time.Millisecond)
		node.Thaw()
		end()
		if err != nil {
			return err
		}
		return r.awaitWrites(ctx)
	})
}

func pullCable(ctx context.Context, r *run) error {
	return r.underLoad(ctx, usualLoad, func(ctx context.Context) error {
		far := r.world.members[len(r.world.members)-1]
		end := r.fault(disturbing + ": cable to one replica pulled")
		if err := r.world.cables.pullDatabase(ctx); err != nil {
			return err
		}
		err := sleep(ctx, 3*time.Second)
		if err == nil && far.isServing(ctx) {
			r.problem("the replica without a database says that it serves")
		}
		if plugged := r.world.cables.plug(ctx); err == nil {
			err = plugged
		}
		end()
		if err != nil {
			return err
		}
		return r.awaitWrites(ctx)
	})
}

func stepClocks(ctx context.Context, r *run) error {
	back := time.Duration(0)
	for _, t := range r.load.targets {
		if err := t.awaitReady(ctx); err != nil {
			return err
		}
	}
	r.load.start(ctx, usualLoad)
	ahead := time.Duration(0)
	for _, step := range []time.Duration{2 * time.Hour, -3 * time.Second, 45 * time.Second, -2 * time.Second} {
		if err := sleep(ctx, 1500*time.Millisecond); err != nil {
			return err
		}
		end := r.fault(fmt.Sprintf("clock set by %s", step))
		ahead += step
		if step < 0 {
			back -= step
		}
		err := setClock(ctx, r.world.cluster.Primary(), ahead)
		if err == nil {
			err = sleep(ctx, 200*time.Millisecond)
		}
		end()
		if err != nil {
			return err
		}
	}
	if err := sleep(ctx, 2*time.Second); err != nil {
		return err
	}
	r.load.stop()
	r.load.drive(ctx, r.load.unfinished(24), back+longestLease)
	return nil
}

// poisonBatches has the database refuse one key by a constraint, which fails the whole statement that it is in.
func poisonBatches(ctx context.Context, r *run) error {
	if err := r.awaitTargets(ctx); err != nil {
		return err
	}
	node := r.world.cluster.Primary()
	const add = "ALTER TABLE idempotency_record ADD CONSTRAINT chaos_poison CHECK (idempotency_key NOT LIKE '%poison!') NOT VALID"
	if err := execIn(ctx, node, add); err != nil {
		return err
	}
	for _, size := range []int{2, 3, 4, 7, 16, 64, 256} {
		for _, position := range []int{0, r.rng.IntN(size), size - 1} {
			end := r.fault(fmt.Sprintf("poison in a batch of %d", size))
			r.poisonOne(ctx, size, position)
			end()
		}
	}
	return execIn(ctx, node, "ALTER TABLE idempotency_record DROP CONSTRAINT chaos_poison")
}

func (r *run) poisonOne(ctx context.Context, size, position int) {
	m := r.world.members[r.rng.IntN(len(r.world.members))]
	told := make([]*history.Op, size)
	var group sync.WaitGroup
	// What comes while the line is held is one batch for each lane.
	m.lines[0].Hold()
	for i := range size {
		name := fmt.Sprintf("%d-%d-%03d", size, r.rng.IntN(1_000_000), i)
		if i == position {
			name += "-poison!"
		}
		k := r.plan(name, time.Hour, longestLease)
		op := k.op(r.attempt())
		group.Go(func() { told[i] = r.caller.begin(ctx, m.straight, op) })
	}
	if err := sleep(ctx, 30*time.Millisecond); err != nil {
		r.problem("%v", err)
	}
	m.lines[0].Release()
	group.Wait()
	for i, op := range told {
		if i == position {
			r.expect(op, "INTERNAL")
		} else {
			r.expect(op, "started")
		}
	}
}

const raiseSQL = `
CREATE FUNCTION chaos_raise() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF random() < 0.05 THEN
        RAISE EXCEPTION USING ERRCODE = (ARRAY['40001', '40P01'])[1 + floor(random() * 2)::int], MESSAGE = 'chaos';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER chaos_raise BEFORE INSERT OR UPDATE ON idempotency_record FOR EACH ROW EXECUTE FUNCTION chaos_raise();`

func lockRows(ctx context.Context, r *run) error {
	node := r.world.cluster.Primary()
	if err := execIn(ctx, node, raiseSQL); err != nil {
		return err
	}
	err := r.underLoad(ctx, usualLoad, func(ctx context.Context) error {
		end := r.fault(disturbing + ": deadlocks and serialization errors")
		defer end()
		return r.until(ctx, func(ctx context.Context) error {
			if r.rng.IntN(2) == 0 {
				return r.injectOne(ctx, pgproxy.Fault{Kind: pgproxy.ForgetStatements})
			}
			return r.lockOne(ctx)
		})
	})
	dropped := execIn(ctx, node, "DROP TRIGGER chaos_raise ON idempotency_record; DROP FUNCTION chaos_raise()")
	if err != nil {
		return err
	}
	return dropped
}

// lockOne locks the row of a key that is in use, for longer than the service waits for a lock.
func (r *run) lockOne(ctx context.Context) error {
	r.load.mu.Lock()
	k := r.load.keys[r.rng.IntN(len(r.load.keys))]
	r.load.mu.Unlock()
	connection, err := r.world.cluster.Primary().ConnectTo(ctx, databaseName, "")
	if err != nil {
		return err
	}
	defer connection.Close(ctx)
	end := r.fault(disturbing + ": row locked by a foreign transaction")
	defer end()
	transaction, err := connection.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := transaction.Exec(ctx, "SELECT 1 FROM idempotency_record WHERE merchant_id = $1 AND idempotency_key = $2 FOR UPDATE",
		k.key.Merchant, k.key.Key); err != nil {
		return err
	}
	if err := sleep(ctx, time.Duration(300+r.rng.IntN(400))*time.Millisecond); err != nil {
		return err
	}
	return transaction.Rollback(ctx)
}
