// Package replication runs a PostgreSQL primary with standbys that stream from it, and lets them fail: killed, promoted,
// suspended, left behind, built anew. All of it is on the loopback address, in temporary directories, and gone with this
// process.
package replication

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"idempotencyd/tests/harness/postgres"
	"idempotencyd/tests/harness/scratch"
)

const (
	superuser = "postgres"
	database  = "postgres"
	// An operation on a node: starting, copying, promoting.
	patience = 60 * time.Second
	pause    = 20 * time.Millisecond
)

// Options of a cluster.
type Options struct {
	// How many standbys, 0 to 2.
	Standbys int
	// Asynchronous: commits wait for no standby.
	Asynchronous bool
	// Settings of every node, beside those that the package needs.
	Settings map[string]string
}

// Cluster is a primary and its standbys. For one goroutine at a time, but for Primary and Nodes.
type Cluster struct {
	programs  string
	directory *scratch.Directory
	password  string
	options   Options
	nodes     []*Node
	primary   *Node
}

// Start makes the primary and copies the standbys from it.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	programs, err := postgres.Programs("")
	if err != nil {
		return nil, err
	}
	directory, err := scratch.New("idempotency-replication")
	if err != nil {
		return nil, err
	}
	secret := make([]byte, 24)
	_, _ = rand.Read(secret) // It never fails.
	c := &Cluster{programs: programs, directory: directory, password: hex.EncodeToString(secret), options: options}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := postgres.GiveAway(c.directory.Path()); err != nil {
		return err
	}
	for i := range 1 + c.options.Standbys {
		node, err := newNode(c, fmt.Sprintf("node_%d", i+1))
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, node)
	}
	c.primary = c.nodes[0]
	if err := c.primary.initialise(ctx); err != nil {
		return err
	}
	if err := c.primary.Start(ctx); err != nil {
		return err
	}
	for _, standby := range c.nodes[1:] {
		if err := c.Join(ctx, standby); err != nil {
			return err
		}
	}
	if c.options.Standbys == 0 || c.options.Asynchronous {
		return nil
	}
	// Copies have it, too; on them it counts from the promotion on.
	for _, node := range c.nodes {
		if err := node.Configure(ctx, "synchronous_standby_names", "ANY 1 (*)"); err != nil {
			return err
		}
	}
	// The checkpointer is what makes commits wait, and loads the setting before its next work.
	return c.primary.Exec(ctx, "CHECKPOINT")
}

// Stop ends all nodes and removes what they had.
func (c *Cluster) Stop() error {
	var problems error
	for _, node := range c.nodes {
		node.Kill()
	}
	return errors.Join(problems, c.directory.Remove())
}

// Primary is the node that was promoted last.
func (c *Cluster) Primary() *Node { return c.primary }

// Nodes lists all, whether or not they run, always in the same order.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// Standbys lists the running nodes beside the primary.
func (c *Cluster) Standbys() []*Node {
	var standbys []*Node
	for _, node := range c.nodes {
		if node != c.primary && node.Running() {
			standbys = append(standbys, node)
		}
	}
	return standbys
}

// URL names a database on several addresses, with the superuser's password. Options are more of libpq's parameters.
func (c *Cluster) URL(addresses []string, name string, options url.Values) string {
	values := url.Values{"sslmode": {"disable"}, "gssencmode": {"disable"}}
	for key, value := range options {
		values[key] = value
	}
	// libpq takes no plus sign for a space.
	query := strings.ReplaceAll(values.Encode(), "+", "%20")
	return fmt.Sprintf("postgresql://%s:%s@%s/%s?%s", superuser, c.password, strings.Join(addresses, ","), name, query)
}

// Join makes a node that does not run a standby of the primary, as a new copy. It returns when the node streams.
func (c *Cluster) Join(ctx context.Context, node *Node) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := node.copyFrom(ctx, c.primary); err != nil {
		return err
	}
	if err := node.Start(ctx); err != nil {
		return err
	}
	return c.AwaitStreaming(ctx, node)
}

// AwaitStreaming returns when the standby streams from the primary.
func (c *Cluster) AwaitStreaming(ctx context.Context, node *Node) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sql := "SELECT state FROM pg_stat_replication WHERE application_name = '" + node.name + "' AND state = 'streaming'"
	for {
		if state, err := c.primary.Value(ctx, sql); err == nil && state == "streaming" {
			return nil
		}
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("%s does not stream from %s: %w\n%s", node.name, c.primary.name, err, postgres.LogTail(node.LogFile()))
		}
	}
}

// MostAdvanced is the running standby that has received most: the one to promote, since every acknowledged commit is on it.
func (c *Cluster) MostAdvanced(ctx context.Context) (*Node, error) {
	var best *Node
	var most int64 = -1
	for _, node := range c.Standbys() {
		sql := "SELECT (GREATEST(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0'::pg_lsn)::bigint"
		text, err := node.Value(ctx, sql)
		if err != nil {
			return nil, err
		}
		var received int64
		if _, err := fmt.Sscan(text, &received); err != nil {
			return nil, err
		}
		if received > most {
			best, most = node, received
		}
	}
	if best == nil {
		return nil, errors.New("there is no standby to promote")
	}
	return best, nil
}

// Promote makes a standby the primary, and the other standbys follow it. The old primary is left as it is, be it dead or alive;
// before is run on the new primary as soon as it takes writes, before anything follows.
func (c *Cluster) Promote(ctx context.Context, standby *Node, before func(context.Context, *Node) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := standby.Exec(ctx, "SELECT pg_promote(true, 60)"); err != nil {
		return err
	}
	old := c.primary
	c.primary = standby
	if before != nil {
		if err := before(ctx, standby); err != nil {
			return err
		}
	}
	for _, other := range c.Standbys() {
		if other == old {
			continue
		}
		if err := other.follow(ctx, standby); err != nil {
			return err
		}
	}
	return nil
}

// AwaitReceivedAll returns when every running standby has received what the primary has written.
func (c *Cluster) AwaitReceivedAll(ctx context.Context) error {
	place, err := c.primary.Value(ctx, "SELECT pg_current_wal_lsn()")
	if err != nil {
		return err
	}
	for _, standby := range c.Standbys() {
		sql := "SELECT pg_last_wal_receive_lsn() >= '" + place + "'"
		for {
			if reached, err := standby.Value(ctx, sql); err == nil && reached == "t" {
				break
			}
			if err := sleep(ctx, pause); err != nil {
				return fmt.Errorf("%s does not get to %s: %w", standby.name, place, err)
			}
		}
	}
	return nil
}

func addressOf(port int) string { return net.JoinHostPort("127.0.0.1", fmt.Sprint(port)) }

func sleep(ctx context.Context, duration time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(duration):
		return nil
	}
}
