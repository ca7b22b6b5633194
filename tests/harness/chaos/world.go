// Package chaos runs the service as it runs in production, several replicas on a replicated PostgreSQL under load, breaks
// things on purpose, and has the history judged: see docs/guarantees.md.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"idempotencyd/tests/harness/grpcproxy"
	"idempotencyd/tests/harness/model"
	"idempotencyd/tests/harness/pgproxy"
	"idempotencyd/tests/harness/replica"
	"idempotencyd/tests/harness/replication"
	"idempotencyd/tests/harness/scratch"
)

// Profile is what a world is made of.
type Profile struct {
	Name     string
	Standbys int
	// Commits do not wait for the standbys, and the service is told that one disk is enough.
	Asynchronous bool
	// The database's clock can be set.
	Clock    bool
	Replicas int
	// More settings of the replicas.
	More []string
	// The last replica is in a network namespace of its own, whose cables can be pulled.
	Namespace bool
}

// The worlds that the scenarios run in.
var (
	Local        = Profile{Name: "local", Replicas: 3}
	Replicated   = Profile{Name: "replicated", Standbys: 2, Replicas: 2}
	Asynchronous = Profile{Name: "asynchronous", Standbys: 1, Asynchronous: true, Replicas: 2}
	Clocks       = Profile{Name: "clocks", Clock: true, Replicas: 2}
	Limited      = Profile{Name: "limited", Replicas: 1, More: []string{"--merchant-max-rate=20"}}
	Cabled       = Profile{Name: "cabled", Replicas: 2, Namespace: true}
	MovedClocks  = Profile{Name: "replicated-clocks", Standbys: 2, Clock: true, Replicas: 2}
)

// The replicas' settings, as the checker has to know them.
const (
	skewMargin   = time.Second
	replayWindow = 3 * time.Second
	// What the service's timers may add to an answer.
	storeTimeout = time.Second
	databaseName = "idempotency"
	clockPath    = "test_clock,pg_catalog,public"
	callTimeout  = 4 * time.Second
	longestLease = 2 * time.Second
	drivenWithin = 5 * time.Second
	startTimeout = 90 * time.Second
)

func (p Profile) arguments() []string {
	durability := "local"
	if p.Standbys > 0 && !p.Asynchronous {
		durability = "replicated"
	}
	return append([]string{
		"--insecure", "--durability=" + durability, "--drain-delay=0", "--unsafe-test-bounds", "--lease-min-duration=100ms",
		"--ttl-min=1s", "--skew-margin=" + skewMargin.String(), "--replay-window=" + replayWindow.String(), "--sweep-interval=1s",
		"--sweep-grace=0", "--purge-interval=1s", "--store-connect-timeout=1s",
		"--store-statement-timeout=" + storeTimeout.String(), "--store-commit-timeout=" + storeTimeout.String(),
	}, p.More...)
}

func (p Profile) params() model.Params {
	return model.Params{Margin: int64(skewMargin), ReplayWindow: int64(replayWindow)}
}

// member is one replica, the ways to it, and its ways to the database's nodes.
type member struct {
	name    string
	replica *replica.Replica
	log     string
	// One for each node of the cluster.
	lines []*pgproxy.Proxy
	// Two ways to it: straight, and through a proxy that loses answers.
	straight *target
	lossy    *target
	proxy    *grpcproxy.Proxy
}

// World is a cluster and the replicas on it. Several scenarios may run in one, one after the other.
type World struct {
	profile   Profile
	directory *scratch.Directory
	cluster   *replication.Cluster
	members   []*member
	cables    *cables // of the last replica, if it has any
}

// Binaries are the programs that are tested.
type Binaries struct {
	Server string
	// Arguments for the server beside the scenario's: of a build with planted faults.
	More []string
}

// NewWorld starts all of it; about three seconds.
func NewWorld(ctx context.Context, profile Profile, binaries Binaries) (*World, error) {
	directory, err := scratch.New("idempotency-chaos")
	if err != nil {
		return nil, err
	}
	w := &World{profile: profile, directory: directory}
	if err := w.start(ctx, binaries); err != nil {
		return nil, errors.Join(fmt.Errorf("the world %s: %w", profile.Name, err), w.Close())
	}
	return w, nil
}

func (w *World) start(ctx context.Context, binaries Binaries) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var err error
	options := replication.Options{Standbys: w.profile.Standbys, Asynchronous: w.profile.Asynchronous}
	if w.cluster, err = replication.Start(ctx, options); err != nil {
		return err
	}
	primary := w.cluster.Primary()
	if err := primary.Exec(ctx, "CREATE DATABASE "+databaseName+" ENCODING 'UTF8' TEMPLATE template0"); err != nil {
		return err
	}
	address := w.cluster.URL([]string{primary.Address()}, databaseName, nil)
	if err := replica.Migrate(ctx, binaries.Server, address, w.directory.Path()); err != nil {
		return err
	}
	if w.profile.Clock {
		if err := installClock(ctx, primary); err != nil {
			return err
		}
	}
	for i := range w.profile.Replicas {
		if w.profile.Namespace && i == w.profile.Replicas-1 {
			if w.cables, err = newCables(ctx); err != nil {
				return err
			}
		}
		if err := w.addMember(ctx, fmt.Sprintf("replica-%d", i+1), binaries); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) addMember(ctx context.Context, name string, binaries Binaries) error {
	m := &member{name: name, log: w.directory.File(name + ".log")}
	w.members = append(w.members, m)
	var addresses []string
	for _, node := range w.cluster.Nodes() {
		listener, err := w.listen()
		if err != nil {
			return err
		}
		line := pgproxy.Serve(listener, node.Address())
		m.lines = append(m.lines, line)
		addresses = append(addresses, line.Address())
	}
	options := url.Values{}
	if w.profile.Clock {
		options.Set("options", "-csearch_path="+clockPath)
	}
	started, err := replica.Start(ctx, w.cables.place(replica.Options{
		Binary: binaries.Server, DatabaseURL: w.cluster.URL(addresses, databaseName, options),
		Arguments: append(w.profile.arguments(), binaries.More...), Log: m.log, Ops: true,
	}))
	if err != nil {
		return err
	}
	m.replica = started
	if m.straight, err = newTarget(name, started.Address()); err != nil {
		return err
	}
	if m.proxy, err = grpcproxy.Start(m.straight.connection, nil); err != nil {
		return err
	}
	m.lossy, err = newTarget(name+" (lossy)", m.proxy.Address())
	return err
}

// Close ends all of it and removes what it had.
func (w *World) Close() error {
	for _, m := range w.members {
		if m.lossy != nil {
			_ = m.lossy.connection.Close()
		}
		if m.proxy != nil {
			m.proxy.Close()
		}
		if m.straight != nil {
			_ = m.straight.connection.Close()
		}
		if m.replica != nil {
			m.replica.Kill()
		}
		for _, line := range m.lines {
			line.Close()
		}
	}
	problem := w.cables.remove()
	if w.cluster != nil {
		problem = errors.Join(problem, w.cluster.Stop())
	}
	return errors.Join(problem, w.directory.Remove())
}

// Heal undoes what a scenario may have left: every line is whole, every replica runs and serves.
func (w *World) Heal(ctx context.Context) error {
	if err := w.cables.plug(ctx); err != nil {
		return err
	}
	for _, m := range w.members {
		m.proxy.ClearFaults()
		for _, line := range m.lines {
			line.CancelAll()
			line.Refuse(false)
			line.SetDelay(0)
			line.DropNotices(false)
			line.Release()
		}
	}
	for _, m := range w.members {
		if err := m.replica.Restart(ctx); err != nil {
			return err
		}
		if err := m.awaitServing(ctx); err != nil {
			return err
		}
	}
	return nil
}

// logs reads what all replicas have logged.
func (w *World) logs() (map[string]string, error) {
	texts := make(map[string]string)
	for _, m := range w.members {
		text, err := os.ReadFile(m.log)
		if err != nil {
			return nil, err
		}
		texts[m.name] = string(text)
	}
	return texts, nil
}

// keepLogs copies the logs of replicas and nodes for somebody who looks for a fault.
func (w *World) keepLogs(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	copyFile := func(from, name string) error {
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(folder, name), text, 0o600)
	}
	var problems error
	for _, m := range w.members {
		problems = errors.Join(problems, copyFile(m.log, m.name+".log"))
	}
	for _, node := range w.cluster.Nodes() {
		problems = errors.Join(problems, copyFile(node.LogFile(), node.Name()+".log"))
	}
	return problems
}
