package pgproxy

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"idempotencyd/tests/harness/postgres"
)

var database *postgres.Server

func TestMain(m *testing.M) {
	server, err := postgres.Start(context.Background(), postgres.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	database = server
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// line is a proxy, a connection through it and one past it, and a table of the test's own.
type line struct {
	t       *testing.T
	ctx     context.Context
	proxy   *Proxy
	through *pgconn.PgConn
	past    *pgconn.PgConn
	table   string
}

// urlVia is without what only libpq knows.
func urlVia(address string) string {
	return strings.Replace(database.URLVia(address, "postgres"), "&gssencmode=disable", "", 1)
}

func newLine(t *testing.T) *line {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	proxy, err := Start(database.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	l := &line{t: t, ctx: ctx, proxy: proxy, table: "t_" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "_"))}
	l.past = l.connect(database.Address())
	l.through = l.connect(proxy.Address())
	l.mustExec(l.past, "CREATE TABLE "+l.table+" (id int)")
	l.prepare()
	return l
}

func (l *line) connect(address string) *pgconn.PgConn {
	l.t.Helper()
	connection, err := pgconn.Connect(l.ctx, urlVia(address))
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = connection.Close(ctx)
	})
	return connection
}

func (l *line) prepare() {
	l.t.Helper()
	for name, sql := range map[string]string{
		"open": "BEGIN", "insert": "INSERT INTO " + l.table + " VALUES (1)", "commit": "COMMIT", "undo": "ROLLBACK",
		"read": "SELECT count(*) FROM " + l.table,
	} {
		if _, err := l.through.Prepare(l.ctx, name, sql, nil); err != nil {
			l.t.Fatal(err)
		}
	}
}

func (l *line) mustExec(connection *pgconn.PgConn, sql string) {
	l.t.Helper()
	if _, err := connection.Exec(l.ctx, sql).ReadAll(); err != nil {
		l.t.Fatal(err)
	}
}

// pipeline sends prepared statements and one Sync, and lists the command tags that came before the end or the error.
func (l *line) pipeline(names ...string) ([]string, error) {
	p := l.through.StartPipeline(l.ctx)
	for _, name := range names {
		p.SendQueryPrepared(name, nil, nil, nil)
	}
	if err := p.Sync(); err != nil {
		return nil, err
	}
	var tags []string
	for {
		results, err := p.GetResults()
		if err != nil {
			_ = p.Close()
			return tags, err
		}
		switch results := results.(type) {
		case *pgconn.ResultReader:
			tag, err := results.Close()
			if err != nil {
				_ = p.Close()
				return tags, err
			}
			tags = append(tags, tag.String())
		case *pgconn.PipelineSync:
			return tags, p.Close()
		}
	}
}

// rows counts what is committed. The server may still be about to notice that its client has gone.
func (l *line) rows() int {
	l.t.Helper()
	results, err := l.past.Exec(l.ctx, "SELECT count(*) FROM "+l.table).ReadAll()
	if err != nil {
		l.t.Fatal(err)
	}
	count := 0
	_, _ = fmt.Sscan(string(results[0].Rows[0][0]), &count)
	return count
}

// awaitNoWriter returns when no transaction with a write is open: a table lock that conflicts with those can be had.
func (l *line) awaitNoWriter() {
	l.t.Helper()
	l.mustExec(l.past, "BEGIN; LOCK TABLE "+l.table+" IN SHARE MODE; COMMIT")
}
