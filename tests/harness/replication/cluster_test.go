package replication

import (
	"context"
	"testing"
	"time"
)

// One cluster goes through it all: each step needs the one before.
func TestClusterFailsOverAndHeals(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cluster, err := Start(ctx, Options{Standbys: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	old := cluster.Primary()
	commitWaiting(ctx, t, old, "CREATE TABLE t AS SELECT 1 AS id")

	old.Kill()
	best, err := cluster.MostAdvanced(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.Promote(ctx, best, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := best.Value(ctx, "SELECT count(*) FROM t"); err != nil || got != "1" {
		t.Fatalf("the acknowledged row is not there: %q, %v", got, err)
	}
	// The other standby confirms already.
	commitWaiting(ctx, t, best, "INSERT INTO t VALUES (2)")

	if err := cluster.Join(ctx, old); err != nil {
		t.Fatal(err)
	}
	if got := len(cluster.Standbys()); got != 2 {
		t.Errorf("%d standbys", got)
	}
	frozenNodeDoesNotAnswer(ctx, t, old)
}

// commitWaiting runs SQL in a session whose commit waits for a standby.
func commitWaiting(ctx context.Context, t *testing.T, node *Node, sql string) {
	t.Helper()
	if err := node.Exec(ctx, "SET synchronous_commit = on; "+sql); err != nil {
		t.Fatal(err)
	}
}

func frozenNodeDoesNotAnswer(ctx context.Context, t *testing.T, node *Node) {
	t.Helper()
	node.Freeze()
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if err := node.Exec(short, "SELECT"); err == nil {
		t.Error("a frozen node answers")
	}
	node.Thaw()
	if err := node.Exec(ctx, "SELECT"); err != nil {
		t.Error(err)
	}
}

func TestWithoutStandbysThereIsNobodyToPromote(t *testing.T) {
	cluster := &Cluster{primary: &Node{}}
	if _, err := cluster.MostAdvanced(context.Background()); err == nil {
		t.Error("somebody was found")
	}
}
