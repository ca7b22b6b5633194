package replication

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"idempotencyd/tests/harness/port"
	"idempotencyd/tests/harness/postgres"
	"idempotencyd/tests/harness/process"
)

// Node is one server of a cluster, at one address all its lives.
type Node struct {
	cluster *Cluster
	name    string
	port    int
	process *process.Process
	frozen  []int
}

func newNode(c *Cluster, name string) (*Node, error) {
	number, err := port.Free()
	if err != nil {
		return nil, err
	}
	return &Node{cluster: c, name: name, port: number}, nil
}

// Name is the node's, as its primary knows it.
func (n *Node) Name() string { return n.name }

// Address is the node's host:port.
func (n *Node) Address() string { return addressOf(n.port) }

// LogFile is where the node's log is.
func (n *Node) LogFile() string { return n.cluster.directory.File(n.name + ".log") }

func (n *Node) data() string { return n.cluster.directory.File(n.name) }

func (n *Node) program(name string) string { return filepath.Join(n.cluster.programs, name) }

// run runs one of PostgreSQL's programs to its end.
func (n *Node) run(ctx context.Context, environment []string, program string, arguments ...string) error {
	started, err := process.Start(process.Command{
		Program: n.program(program), Arguments: arguments, Directory: n.cluster.directory.Path(), User: postgres.ServerUser(), Log: n.LogFile(),
		Environment: environment,
	})
	if err != nil {
		return err
	}
	select {
	case <-started.Done():
	case <-ctx.Done():
		started.Kill()
	}
	if err := started.Wait(); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, postgres.LogTail(n.LogFile()))
	}
	return nil
}

func (n *Node) initialise(ctx context.Context) error {
	passwordFile := n.cluster.directory.File("password")
	if err := os.WriteFile(passwordFile, []byte(n.cluster.password), 0o600); err != nil {
		return err
	}
	defer os.Remove(passwordFile)
	if err := postgres.GiveAway(passwordFile); err != nil {
		return err
	}
	if err := n.run(ctx, nil, "initdb", "-D", n.data(), "-U", superuser, "-E", "UTF8", "--locale=C.UTF-8", "-A",
		"scram-sha-256", "--pwfile="+passwordFile, "--no-instructions", "--no-sync"); err != nil {
		return err
	}
	settings := map[string]string{
		"fsync": "off", "max_connections": "200", "max_wal_senders": "10", "wal_keep_size": "'512MB'", "hot_standby": "on",
		"listen_addresses": "'127.0.0.1'", "unix_socket_directories": "''", "wal_retrieve_retry_interval": "'50ms'",
		"wal_sender_timeout": "'5s'", "wal_receiver_timeout": "'5s'", "shared_buffers": "'32MB'",
	}
	for name, value := range n.cluster.options.Settings {
		settings[name] = "'" + value + "'"
	}
	var text strings.Builder
	for name, value := range settings {
		fmt.Fprintf(&text, "%s = %s\n", name, value)
	}
	file, err := os.OpenFile(filepath.Join(n.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text.String())
	return errors.Join(err, file.Close())
}

func (n *Node) copyFrom(ctx context.Context, primary *Node) error {
	if n.Running() {
		return fmt.Errorf("%s still runs", n.name)
	}
	if err := os.RemoveAll(n.data()); err != nil {
		return err
	}
	return n.run(ctx, []string{"PGPASSWORD=" + n.cluster.password}, "pg_basebackup", "-d", n.primaryConninfo(primary), "-D",
		n.data(), "-R", "-X", "stream", "-c", "fast", "--no-sync")
}

// The password is part of it, since that is what -R writes down.
func (n *Node) primaryConninfo(primary *Node) string {
	return fmt.Sprintf("host=127.0.0.1 port=%d user=%s password=%s application_name=%s sslmode=disable gssencmode=disable",
		primary.port, superuser, n.cluster.password, n.name)
}

// Start starts a node that does not run. It returns when it answers.
func (n *Node) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		started, err := process.Start(process.Command{
			Program: n.program("postgres"), Arguments: []string{"-D", n.data(), "-c", "port=" + strconv.Itoa(n.port)},
			Directory: n.data(), User: postgres.ServerUser(), Log: n.LogFile(), DeathSignal: syscall.SIGQUIT,
		})
		if err != nil {
			return err
		}
		n.process = started
		for started.Running() {
			if n.Exec(ctx, "SELECT") == nil {
				return nil
			}
			if err := sleep(ctx, pause); err != nil {
				started.Kill()
				return fmt.Errorf("%s does not start: %w\n%s", n.name, err, postgres.LogTail(n.LogFile()))
			}
		}
		// What a killed server left running keeps the next one from starting for a moment.
		if err := sleep(ctx, 5*pause); err != nil {
			return fmt.Errorf("%s does not start: %w\n%s", n.name, err, postgres.LogTail(n.LogFile()))
		}
	}
}

// Running tells whether the node's main process has not ended.
func (n *Node) Running() bool { return n.process != nil && n.process.Running() }

// Kill ends the node at once with SIGKILL, all its processes together, as if its machine were gone.
func (n *Node) Kill() {
	if n.process == nil {
		return
	}
	pids := append([]int{n.process.Pid()}, childrenOf(n.process.Pid())...)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	n.frozen = nil
	<-n.process.Done()
}

// Freeze suspends all of the node's processes with SIGSTOP: its connections look alive, and nothing answers.
func (n *Node) Freeze() {
	// The main process first, so that it starts no more.
	n.frozen = []int{n.process.Pid()}
	_ = syscall.Kill(n.process.Pid(), syscall.SIGSTOP)
	for _, pid := range childrenOf(n.process.Pid()) {
		n.frozen = append(n.frozen, pid)
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
}

// Thaw lets a frozen node go on.
func (n *Node) Thaw() {
	for _, pid := range n.frozen {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	n.frozen = nil
}

func childrenOf(parent int) []int {
	var children []int
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// pid (name) state ppid: the name may hold anything.
		end := strings.LastIndexByte(string(text), ')')
		fields := strings.Fields(string(text[end+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil {
			children = append(children, pid)
		}
	}
	return children
}

// Detach stops a standby from receiving anything more from its primary.
func (n *Node) Detach(ctx context.Context) error {
	if err := n.Configure(ctx, "primary_conninfo", ""); err != nil {
		return err
	}
	for {
		count, err := n.Value(ctx, "SELECT count(*) FROM pg_stat_wal_receiver")
		if err == nil && count == "0" {
			return nil
		}
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("%s does not stop receiving: %w", n.name, err)
		}
	}
}

// follow makes a standby stream from another primary.
func (n *Node) follow(ctx context.Context, primary *Node) error {
	if err := n.Configure(ctx, "primary_conninfo", n.primaryConninfo(primary)); err != nil {
		return err
	}
	return n.cluster.AwaitStreaming(ctx, n)
}

// Configure sets a setting of this node alone, and reloads. Commits that it makes wait for nobody.
func (n *Node) Configure(ctx context.Context, name, value string) error {
	if err := n.Exec(ctx, fmt.Sprintf("ALTER SYSTEM SET %s = '%s'", name, value)); err != nil {
		return err
	}
	return n.Exec(ctx, "SELECT pg_reload_conf()")
}

// Connect makes a session as the superuser whose commits wait for no standby. It goes past every proxy.
func (n *Node) Connect(ctx context.Context) (*pgx.Conn, error) {
	return n.ConnectTo(ctx, database, "")
}

// ConnectTo is Connect to a database, with that search path unless it is empty.
func (n *Node) ConnectTo(ctx context.Context, name, searchPath string) (*pgx.Conn, error) {
	location := url.URL{
		Scheme: "postgresql", User: url.UserPassword(superuser, n.cluster.password), Host: n.Address(), Path: "/" + name,
		RawQuery: "sslmode=disable",
	}
	config, err := pgx.ParseConfig(location.String())
	if err != nil {
		return nil, err
	}
	config.ConnectTimeout = 5 * time.Second
	config.RuntimeParams["application_name"] = "admin"
	config.RuntimeParams["synchronous_commit"] = "local"
	if searchPath != "" {
		config.RuntimeParams["search_path"] = searchPath
	}
	return pgx.ConnectConfig(ctx, config)
}

// Exec runs SQL without parameters, one or more statements.
func (n *Node) Exec(ctx context.Context, sql string) error {
	connection, err := n.Connect(ctx)
	if err != nil {
		return err
	}
	defer connection.Close(ctx)
	_, err = connection.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// Value runs a query and returns the first row's first column as text; empty if there is no row.
func (n *Node) Value(ctx context.Context, sql string) (string, error) {
	connection, err := n.Connect(ctx)
	if err != nil {
		return "", err
	}
	defer connection.Close(ctx)
	results, err := connection.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil || len(results) == 0 || len(results[0].Rows) == 0 {
		return "", err
	}
	return string(results[0].Rows[0][0]), nil
}
