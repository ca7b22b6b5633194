// Package postgres runs a private PostgreSQL server for tests: on a free port of the loopback
// address, in a temporary directory, gone with this process.
package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"idempotencyd/tests/harness/port"
	"idempotencyd/tests/harness/process"
	"idempotencyd/tests/harness/scratch"
)

const (
	superuser    = "postgres"
	startTimeout = 60 * time.Second
	stopTimeout  = 30 * time.Second
	pause        = 20 * time.Millisecond
)

// Options of a server.
type Options struct {
	// Settings of postgresql.conf. Without them fsync is off and max_connections 400.
	Settings map[string]string
	// Programs is the folder of initdb, postgres and psql. Empty: found where Debian puts them, or in PATH.
	Programs string
}

// Server is a running PostgreSQL. Databases may be made and queried concurrently.
type Server struct {
	programs  string
	directory *scratch.Directory
	password  string
	port      int
	settings  map[string]string
	process   *process.Process
}

// Start makes a cluster and starts its server; about two seconds.
func Start(ctx context.Context, options Options) (*Server, error) {
	programs, err := Programs(options.Programs)
	if err != nil {
		return nil, err
	}
	directory, err := scratch.New("idempotency-postgres")
	if err != nil {
		return nil, err
	}
	secret := make([]byte, 24)
	// It never fails.
	_, _ = rand.Read(secret)
	server := &Server{
		programs: programs, directory: directory, password: hex.EncodeToString(secret),
		settings: map[string]string{"fsync": "off", "max_connections": "400"},
	}
	for name, value := range options.Settings {
		server.settings[name] = value
	}
	if err := server.initialise(); err != nil {
		return nil, errors.Join(err, directory.Remove())
	}
	if err := server.launch(ctx); err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return server, nil
}

// Address is the server's host:port.
func (s *Server) Address() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
}

// URL names a database of the server, with the superuser's password.
func (s *Server) URL(database string) string { return s.URLVia(s.Address(), database) }

// URLVia is URL for somebody who comes by another address: a proxy's.
func (s *Server) URLVia(address, database string) string {
	location := url.URL{
		Scheme: "postgresql", User: url.UserPassword(superuser, s.password), Host: address,
		Path: "/" + database, RawQuery: "sslmode=disable&gssencmode=disable",
	}
	return location.String()
}

// CreateDatabase makes a database, as a copy of template unless that is empty. Nobody may be
// connected to the template.
func (s *Server) CreateDatabase(ctx context.Context, name, template string) error {
	if template == "" {
		template = "template0"
	}
	_, err := s.Query(ctx, superuser, fmt.Sprintf("CREATE DATABASE %q TEMPLATE %q", name, template))
	return err
}

// DropDatabase removes a database and ends its sessions.
func (s *Server) DropDatabase(ctx context.Context, name string) error {
	_, err := s.Query(ctx, superuser, fmt.Sprintf("DROP DATABASE %q WITH (FORCE)", name))
	return err
}

// Query runs one SQL statement by psql and returns its rows as texts, "" for NULL.
func (s *Server) Query(ctx context.Context, database, sql string) ([][]string, error) {
	const field, row = "\x1f", "\x1e"
	command := exec.CommandContext(ctx, filepath.Join(s.programs, "psql"), "--no-psqlrc", "--quiet",
		"--tuples-only", "--no-align", "--field-separator="+field, "--record-separator="+row,
		"--set=ON_ERROR_STOP=1", "--command="+sql)
	// Not on the command line, where everybody could read the password.
	command.Env = []string{
		"LC_ALL=C.UTF-8", "PGHOST=127.0.0.1", "PGPORT=" + strconv.Itoa(s.port), "PGUSER=" + superuser,
		"PGPASSWORD=" + s.password, "PGDATABASE=" + database, "PGCONNECT_TIMEOUT=10",
	}
	var problem strings.Builder
	command.Stderr = &problem
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("psql: %w: %s", err, strings.TrimSpace(problem.String()))
	}
	var rows [][]string
	for line := range strings.SplitSeq(strings.TrimSuffix(string(output), "\n"), row) {
		if line != "" {
			rows = append(rows, strings.Split(line, field))
		}
	}
	return rows, nil
}

// Kill ends the server with SIGKILL, as a crash does. Restart brings it back.
func (s *Server) Kill() { s.process.Kill() }

// Restart starts the server again, at the same address, after a fast shutdown if it still runs.
func (s *Server) Restart(ctx context.Context) error {
	// SIGINT is PostgreSQL's fast shutdown.
	if err := s.process.Stop(syscall.SIGINT, stopTimeout); err != nil {
		return err
	}
	deadline := time.Now().Add(stopTimeout)
	for {
		// The sessions of a killed server end on their own, and until then no new one starts.
		err := s.launchOnce(ctx)
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
	}
}

// Stop ends the server and removes all it had.
func (s *Server) Stop() error {
	if s.process != nil {
		// Its immediate shutdown: what it holds is thrown away anyway.
		if err := s.process.Stop(syscall.SIGQUIT, stopTimeout); err != nil {
			return errors.Join(err, s.directory.Remove())
		}
	}
	return s.directory.Remove()
}

// LogFile is where the server's log is.
func (s *Server) LogFile() string { return s.directory.File("postgres.log") }

func (s *Server) dataDirectory() string { return s.directory.File("data") }

func (s *Server) initialise() error {
	passwordFile := s.directory.File("password")
	if err := os.WriteFile(passwordFile, []byte(s.password), 0o600); err != nil {
		return err
	}
	defer os.Remove(passwordFile)
	if err := os.Mkdir(s.dataDirectory(), 0o700); err != nil {
		return err
	}
	for _, path := range []string{s.directory.Path(), s.dataDirectory(), passwordFile} {
		if err := GiveAway(path); err != nil {
			return err
		}
	}
	initdb, err := process.Start(process.Command{
		Program: filepath.Join(s.programs, "initdb"),
		Arguments: []string{
			"-D", s.dataDirectory(), "-U", superuser, "-E", "UTF8", "--locale=C.UTF-8",
			"-A", "scram-sha-256", "--pwfile=" + passwordFile, "--no-instructions", "--no-sync",
		},
		Directory: s.dataDirectory(), User: ServerUser(), Log: s.LogFile(),
	})
	if err != nil {
		return err
	}
	if err := initdb.Wait(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, LogTail(s.LogFile()))
	}
	return nil
}

// Starts the server on a port that another process may take before it does.
func (s *Server) launch(ctx context.Context) error {
	var err error
	for range 5 {
		if s.port, err = port.Free(); err != nil {
			return err
		}
		if err = s.launchOnce(ctx); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func (s *Server) launchOnce(ctx context.Context) error {
	arguments := []string{"-D", s.dataDirectory()}
	for name, value := range s.settings {
		arguments = append(arguments, "-c", name+"="+value)
	}
	arguments = append(arguments, "-c", "listen_addresses=127.0.0.1", "-c",
		"port="+strconv.Itoa(s.port), "-c", "unix_socket_directories=", "-c", "logging_collector=off")
	started, err := process.Start(process.Command{
		Program: filepath.Join(s.programs, "postgres"), Arguments: arguments,
		Directory: s.dataDirectory(), User: ServerUser(), Log: s.LogFile(), DeathSignal: syscall.SIGQUIT,
	})
	if err != nil {
		return err
	}
	s.process = started
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		_, err := s.Query(ctx, superuser, "SELECT 1")
		if err == nil && started.Running() {
			return nil
		}
		select {
		case <-started.Done():
			return fmt.Errorf("PostgreSQL did not start: %w\n%s", started.Wait(), LogTail(s.LogFile()))
		case <-ctx.Done():
			started.Kill()
			return fmt.Errorf("PostgreSQL does not answer: %w\n%s", err, LogTail(s.LogFile()))
		case <-time.After(pause):
		}
	}
}
