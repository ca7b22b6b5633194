package replica

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	idempotencyv1 "idempotencyd/client/go/idempotency/v1"
	"idempotencyd/tests/harness/postgres"
)

func binary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("IDEMPOTENCYD")
	if path == "" {
		t.Skip("IDEMPOTENCYD names no binary")
	}
	return path
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Options of a replica on a migrated database.
func options(t *testing.T) Options {
	t.Helper()
	path := binary(t)
	ctx := testContext(t)
	server, err := postgres.Start(ctx, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := server.CreateDatabase(ctx, "service", ""); err != nil {
		t.Fatal(err)
	}
	if err := Migrate(ctx, path, server.URL("service"), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	return Options{Binary: path, DatabaseURL: server.URL("service"), Log: filepath.Join(t.TempDir(), "log")}
}

func begin(t *testing.T, replica *Replica, lease time.Duration) error {
	t.Helper()
	connection, err := grpc.NewClient(replica.Address(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	_, err = idempotencyv1.NewIdempotencyServiceClient(connection).Begin(testContext(t),
		&idempotencyv1.BeginRequest{
			MerchantId: "acme", IdempotencyKey: rand.Text(), Operation: "test", AttemptId: rand.Text(),
			Request:       &idempotencyv1.BeginRequest_Payload{Payload: &idempotencyv1.Payload{}},
			LeaseDuration: durationpb.New(lease),
		})
	return err
}

func TestAReplicaIsKilledAndComesBackAtItsAddress(t *testing.T) {
	replica, err := Start(testContext(t), options(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(replica.Kill)
	address := replica.Address()
	if err := begin(t, replica, 100*time.Millisecond); err != nil {
		t.Fatalf("a short lease: %v", err)
	}
	replica.Kill()
	if replica.Running() {
		t.Error("it runs on")
	}
	if err := replica.Restart(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if replica.Address() != address {
		t.Errorf("it moved from %s to %s", address, replica.Address())
	}
	if err := begin(t, replica, time.Second); err != nil {
		t.Error(err)
	}
	if err := replica.Restart(testContext(t)); err != nil {
		t.Errorf("a restart of one that runs: %v", err)
	}
	if err := replica.Terminate(30 * time.Second); err != nil {
		t.Errorf("it does not drain: %v", err)
	}
	if err := replica.Restart(testContext(t)); err != nil {
		t.Error(err)
	}
	if err := replica.Signal(syscall.SIGSTOP); err != nil {
		t.Error(err)
	}
	// Also one that is suspended.
	replica.Kill()
}

func TestAReplicaThatDoesNotStartTellsWhy(t *testing.T) {
	given := Options{
		Binary: binary(t), Arguments: []string{"--no-such-setting"}, Log: filepath.Join(t.TempDir(), "log"),
	}
	_, err := Start(testContext(t), given)
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Error(err)
	}
}

func TestAMigrationThatFailsTellsWhy(t *testing.T) {
	err := Migrate(testContext(t), binary(t), "postgresql://127.0.0.1:1/none?connect_timeout=1", t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "migrate") {
		t.Error(err)
	}
}
