// Package host is the scenario host: the real service, and faults between it and a client, for test
// runners in any language. What it says and does is in client/scenarios/README.md.
package host

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
	"idempotencyd/tests/harness/postgres"
	"idempotencyd/tests/harness/replica"
	"idempotencyd/tests/harness/scratch"
	"idempotencyd/tests/harness/tcpproxy"
)

const (
	templateDatabase = "migrated"
	maxMessageBytes  = 64 << 20
)

// Cluster is the database server and what makes replicas on it. Safe for concurrent use.
type cluster struct {
	binary    string
	directory *scratch.Directory
	postgres  *postgres.Server
	made      atomic.Int64
}

func startCluster(ctx context.Context, binary string) (*cluster, error) {
	directory, err := scratch.New("idempotency-scenarios")
	if err != nil {
		return nil, err
	}
	server, err := postgres.Start(ctx, postgres.Options{})
	if err != nil {
		return nil, errors.Join(err, directory.Remove())
	}
	started := &cluster{binary: binary, directory: directory, postgres: server}
	err = server.CreateDatabase(ctx, templateDatabase, "")
	if err == nil {
		err = replica.Migrate(ctx, binary, server.URL(templateDatabase), directory.Path())
	}
	if err != nil {
		return nil, errors.Join(err, started.stop())
	}
	return started, nil
}

func (c *cluster) stop() error {
	return errors.Join(c.postgres.Stop(), c.directory.Remove())
}

// Service is a replica with a database and a way to it of its own.
type service struct {
	cluster    *cluster
	database   string
	line       *tcpproxy.Proxy
	replica    *replica.Replica
	connection *grpc.ClientConn
	client     idempotencyv1.IdempotencyServiceClient
}

func (c *cluster) startService(ctx context.Context) (*service, error) {
	name := fmt.Sprintf("service_%d", c.made.Add(1))
	if err := c.postgres.CreateDatabase(ctx, name, templateDatabase); err != nil {
		return nil, err
	}
	started := &service{cluster: c, database: name}
	line, err := tcpproxy.Start(c.postgres.Address())
	if err != nil {
		return nil, errors.Join(err, started.stop())
	}
	started.line = line
	started.replica, err = replica.Start(ctx, replica.Options{
		Binary: c.binary, DatabaseURL: c.postgres.URLVia(line.Address(), name),
		Log: c.directory.File(name + ".log"),
	})
	if err != nil {
		return nil, errors.Join(err, started.stop())
	}
	started.connection, err = grpc.NewClient(started.replica.Address(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)),
		// A replica that is back is found at once.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond,
			},
			MinConnectTimeout: time.Second,
		}))
	if err != nil {
		return nil, errors.Join(err, started.stop())
	}
	started.client = idempotencyv1.NewIdempotencyServiceClient(started.connection)
	return started, nil
}

func (s *service) stop() error {
	var faults []error
	if s.connection != nil {
		faults = append(faults, s.connection.Close())
	}
	if s.replica != nil {
		s.replica.Kill()
	}
	if s.line != nil {
		s.line.Down()
	}
	ctx, cancel := context.WithTimeout(context.Background(), longestWait)
	defer cancel()
	faults = append(faults, s.cluster.postgres.DropDatabase(ctx, s.database))
	return errors.Join(faults...)
}
