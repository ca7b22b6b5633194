// Package replica runs idempotencyd as processes that can be killed and come back at their address.
package replica

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"idempotencyd/tests/harness/port"
	"idempotencyd/tests/harness/process"
)

const (
	databaseVariable = "IDEMPOTENCY_DATABASE_URL"
	startTimeout     = 60 * time.Second
	pause            = 20 * time.Millisecond
	// The exit status of idempotencyd for a command line or settings that it does not take.
	wrongUsage = 2
)

// QuickArguments are settings for tests: without authentication, leases may be short and count as
// over 200 ms later, a replica that is told to end does so at once.
var QuickArguments = []string{
	"--insecure", "--durability=local", "--drain-delay=0", "--unsafe-test-bounds",
	"--lease-min-duration=100ms", "--skew-margin=200ms",
}

// Options of a replica.
type Options struct {
	// Binary is the path of idempotencyd.
	Binary string
	// DatabaseURL names a migrated database. It is handed over by a variable, as it has a password.
	DatabaseURL string
	// Arguments of `idempotencyd serve`. nil: QuickArguments.
	Arguments []string
	// Log is the file that gets its log, over all its lives.
	Log string
	// Ops opens the operations port as well.
	Ops bool
	// Via is a command that runs the program, given behind it, in its own place: "ip netns exec NAME". Empty: none.
	Via []string
	// Host to listen on. Empty: 127.0.0.1.
	Host string
}

// Replica is one address at which idempotencyd serves, or did until it was killed. Safe for
// concurrent use.
type Replica struct {
	options Options
	address string
	ops     string // "off", or where the operations port listens

	mutex   sync.Mutex
	process *process.Process // The last one started.
}

// Start starts a replica on a free port. It returns when the replica serves.
func Start(ctx context.Context, options Options) (*Replica, error) {
	var err error
	if options.Host == "" {
		options.Host = "127.0.0.1"
	}
	// Another process may take the port before the replica does.
	for range 5 {
		var number int
		if number, err = port.Free(); err != nil {
			return nil, err
		}
		replica := &Replica{
			options: options, address: net.JoinHostPort(options.Host, strconv.Itoa(number)), ops: "off",
		}
		if options.Ops {
			if number, err = port.Free(); err != nil {
				return nil, err
			}
			replica.ops = net.JoinHostPort(options.Host, strconv.Itoa(number))
		}
		if err = replica.Restart(ctx); err == nil {
			return replica, nil
		}
		var ended *exec.ExitError
		if ctx.Err() != nil || (errors.As(err, &ended) && ended.ExitCode() == wrongUsage) {
			break
		}
	}
	return nil, err
}

// Address is the replica's host:port: the same one all its lives.
func (r *Replica) Address() string { return r.address }

// OpsAddress is the operations port's host:port, or "off".
func (r *Replica) OpsAddress() string { return r.ops }

// Kill ends the replica with SIGKILL, and returns when it is gone.
func (r *Replica) Kill() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.process != nil {
		r.process.Kill()
	}
}

// Terminate lets the replica drain, as a rolling update does, and waits for its end.
func (r *Replica) Terminate(timeout time.Duration) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.process == nil {
		return nil
	}
	return r.process.Stop(syscall.SIGTERM, timeout)
}

// Signal sends the replica a signal: SIGSTOP and SIGCONT suspend and resume it.
func (r *Replica) Signal(signal syscall.Signal) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.process.Signal(signal)
}

// Running tells whether the replica's process has not ended.
func (r *Replica) Running() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.process != nil && r.process.Running()
}

// Restart starts the replica at its address if it does not run. It returns when it serves.
func (r *Replica) Restart(ctx context.Context) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.process != nil && r.process.Running() {
		return nil
	}
	arguments := r.options.Arguments
	if arguments == nil {
		arguments = QuickArguments
	}
	arguments = slices.Concat([]string{"serve"}, arguments,
		[]string{"--listen=" + r.address, "--ops-listen=" + r.ops})
	command := slices.Concat(r.options.Via, []string{r.options.Binary}, arguments)
	started, err := process.Start(process.Command{
		Program: command[0], Arguments: command[1:], Log: r.options.Log,
		Environment: []string{databaseVariable + "=" + r.options.DatabaseURL},
	})
	if err != nil {
		return err
	}
	r.process = started
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := awaitServing(ctx, r.address, started); err != nil {
		started.Kill()
		return fmt.Errorf("%w; its log ends:\n%s", err, r.logTail())
	}
	return nil
}

func (r *Replica) logTail() string {
	text, err := os.ReadFile(r.options.Log)
	if err != nil {
		return err.Error()
	}
	const most = 2000
	return string(text[max(0, len(text)-most):])
}

func awaitServing(ctx context.Context, address string, started *process.Process) error {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	health := grpc_health_v1.NewHealthClient(connection)
	for {
		answer, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err == nil && answer.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING {
			return nil
		}
		connection.ResetConnectBackoff()
		select {
		case <-started.Done():
			return fmt.Errorf("the replica ended: %w", orStatusZero(started.Wait()))
		case <-ctx.Done():
			return fmt.Errorf("the replica does not serve: %w", ctx.Err())
		case <-time.After(pause):
		}
	}
}

func orStatusZero(err error) error {
	if err == nil {
		return fmt.Errorf("with status 0")
	}
	return err
}

// Migrate brings a database to the schema of the binary. Its words go to a file in directory.
func Migrate(ctx context.Context, binary, databaseURL, directory string) error {
	log := filepath.Join(directory, "migrate.log")
	migration, err := process.Start(process.Command{
		Program: binary, Arguments: []string{"migrate"}, Log: log,
		Environment: []string{databaseVariable + "=" + databaseURL},
	})
	if err != nil {
		return err
	}
	select {
	case <-migration.Done():
	case <-ctx.Done():
		migration.Kill()
	}
	if err := migration.Wait(); err != nil {
		text, _ := os.ReadFile(log)
		return fmt.Errorf("idempotencyd migrate: %w\n%s", err, text)
	}
	return nil
}
