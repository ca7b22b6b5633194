package pgproxy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

func TestEverythingPassesUnharmedWithoutAFault(t *testing.T) {
	l := newLine(t)
	l.mustExec(l.through, "INSERT INTO "+l.table+" VALUES (1)")
	if tags, err := l.pipeline("open", "insert", "commit"); err != nil || len(tags) != 3 {
		t.Fatalf("got %v, %v", tags, err)
	}
	copied, err := l.through.CopyFrom(l.ctx, strings.NewReader("1\n2\n"), "COPY "+l.table+" FROM STDIN")
	if err != nil || copied.RowsAffected() != 2 {
		t.Fatalf("got %v, %v", copied, err)
	}
	large := l.through.ExecParams(l.ctx, "SELECT repeat('x', 10000000)", nil, nil, nil, nil).Read()
	if large.Err != nil || len(large.Rows[0][0]) != 10_000_000 {
		t.Fatalf("got %v", large.Err)
	}
	if got := l.rows(); got != 4 {
		t.Errorf("%d rows, want 4", got)
	}
}

func TestStatementErrorsLeaveTheConnectionUsable(t *testing.T) {
	l := newLine(t)
	_, err := l.through.Exec(l.ctx, "SELECT 1 / 0").ReadAll()
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "22012" {
		t.Fatalf("got %v", err)
	}
	if _, err := l.pipeline("insert"); err != nil {
		t.Fatal(err)
	}
}

// Each fault at an implicit and at an explicit transaction: what the client gets, and what is committed.
func TestFaultAtTheCommit(t *testing.T) {
	implicit, explicit := []string{"insert"}, []string{"open", "insert", "commit"}
	for _, c := range []struct {
		kind       Kind
		statements []string
		tags       int
		rows       int
	}{
		{CutBefore, implicit, 0, 0},
		{CutBefore, explicit, 0, 0},
		{Swallow, implicit, 0, 1},
		{Swallow, explicit, 0, 1},
		{BeforeReady, implicit, 1, 1},
		{BeforeReady, explicit, 3, 1},
		{CompleteWithoutCommit, implicit, 1, 0},
	} {
		for _, then := range []Ending{Close, Reset} {
			t.Run(fmt.Sprintf("%s_%d_%s", c.kind, len(c.statements), then), func(t *testing.T) {
				l := newLine(t)
				injection := l.proxy.Inject(Fault{Kind: c.kind, Then: then})
				tags, err := l.pipeline(c.statements...)
				if err == nil {
					t.Fatal("the client noticed nothing")
				}
				// A reset may overtake what was sent before it.
				if len(tags) != c.tags && !(then == Reset && len(tags) < c.tags) {
					t.Errorf("%d results came, want %d", len(tags), c.tags)
				}
				l.awaitNoWriter()
				if got := l.rows(); got != c.rows {
					t.Errorf("%d rows are committed, want %d", got, c.rows)
				}
				if injection.Fired() != 1 {
					t.Errorf("it happened %d times", injection.Fired())
				}
			})
		}
	}
}

func TestCutInsideTheAnswer(t *testing.T) {
	l := newLine(t)
	l.proxy.Inject(Fault{Kind: CutInside})
	frontend := rawSession(t, l)
	frontend.SendQuery(&pgproto3.Query{String: "INSERT INTO " + l.table + " SELECT generate_series(1, 5) RETURNING id"})
	if err := frontend.Flush(); err != nil {
		t.Fatal(err)
	}
	got := 0
	for {
		_, err := frontend.Receive()
		if err != nil {
			break
		}
		got++
	}
	if got == 0 || got >= 8 {
		t.Errorf("%d whole messages came", got)
	}
	if rows := l.rows(); rows != 5 {
		t.Errorf("%d rows, want 5", rows)
	}
}

// rawSession is a session through the proxy, started by hand.
func rawSession(t *testing.T, l *line) *pgproto3.Frontend {
	t.Helper()
	hijacked, err := l.through.Hijack()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hijacked.Conn.Close() })
	return hijacked.Frontend
}

func TestRollbackInsteadOfCommit(t *testing.T) {
	l := newLine(t)
	l.proxy.Inject(Fault{Kind: RollbackInstead})
	tags, err := l.pipeline("open", "insert", "commit")
	if err != nil || len(tags) != 3 || tags[2] != "ROLLBACK" {
		t.Errorf("got %v, %v", tags, err)
	}
	if got := l.rows(); got != 0 {
		t.Errorf("%d rows are committed", got)
	}
	if _, err := l.pipeline("open", "insert", "commit"); err != nil || l.rows() != 1 {
		t.Errorf("the connection does not work on: %v", err)
	}
}

func TestRollbackInsteadOfCommitInASimpleQuery(t *testing.T) {
	l := newLine(t)
	l.mustExec(l.through, "BEGIN")
	l.mustExec(l.through, "INSERT INTO "+l.table+" VALUES (1)")
	l.proxy.Inject(Fault{Kind: RollbackInstead})
	l.mustExec(l.through, "COMMIT")
	if got := l.rows(); got != 0 {
		t.Errorf("%d rows are committed", got)
	}
}

func TestReadsAreLeftAlone(t *testing.T) {
	l := newLine(t)
	injection := l.proxy.Inject(Fault{Kind: CutBefore})
	for range 3 {
		if _, err := l.pipeline("read"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.pipeline("insert"); err == nil || injection.Fired() != 1 {
		t.Errorf("got %v, %d", err, injection.Fired())
	}
}

func TestFaultCanBeMatchedByStatement(t *testing.T) {
	l := newLine(t)
	l.proxy.Inject(Fault{Kind: Swallow, Match: func(b Batch) bool { return b.Executes("read") }})
	if _, err := l.pipeline("insert"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.pipeline("read"); err == nil {
		t.Error("the read was answered")
	}
}
