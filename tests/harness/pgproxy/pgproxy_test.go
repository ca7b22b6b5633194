package pgproxy

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// Two batches on the way at once: the answers are told apart.
func TestPipelinedBatchesAreToldApart(t *testing.T) {
	l := newLine(t)
	l.proxy.Inject(Fault{Kind: BeforeReady, Match: func(b Batch) bool { return b.Executes("read") }})
	p := l.through.StartPipeline(l.ctx)
	for _, name := range []string{"insert", "read", "insert"} {
		p.SendQueryPrepared(name, nil, nil, nil)
		if err := p.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	syncs := 0
	for {
		results, err := p.GetResults()
		if err != nil || results == nil {
			break
		}
		if reader, ok := results.(*pgconn.ResultReader); ok {
			_, _ = reader.Close()
		} else {
			syncs++
		}
	}
	if syncs != 1 {
		t.Errorf("%d batches were answered whole, want the first one only", syncs)
	}
}

func TestServerForgetsPreparedStatements(t *testing.T) {
	l := newLine(t)
	l.proxy.Inject(Fault{Kind: ForgetStatements})
	_, err := l.pipeline("insert")
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "26000" {
		t.Fatalf("got %v", err)
	}
	l.mustExec(l.through, "INSERT INTO "+l.table+" VALUES (1)")
	if got := l.rows(); got != 1 {
		t.Errorf("%d rows, want 1", got)
	}
}

func TestHeldLineLosesNothing(t *testing.T) {
	l := newLine(t)
	l.proxy.Hold()
	answered := make(chan error, 1)
	go func() {
		_, err := l.pipeline("insert")
		answered <- err
	}()
	// What is held is not with the server: a writer would wait for this lock, and be seen.
	l.awaitNoWriter()
	select {
	case err := <-answered:
		t.Fatalf("answered although the line is held: %v", err)
	default:
	}
	l.proxy.Release()
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	if got := l.rows(); got != 1 {
		t.Errorf("%d rows, want 1", got)
	}
}

func TestHungConnectionIsSilent(t *testing.T) {
	l := newLine(t)
	l.proxy.Inject(Fault{Kind: Swallow, Then: Hang})
	ctx, cancel := context.WithTimeout(l.ctx, 300*time.Millisecond)
	defer cancel()
	result := l.through.ExecPrepared(ctx, "insert", nil, nil, nil).Read()
	if !errors.Is(result.Err, context.DeadlineExceeded) && !pgconn.Timeout(result.Err) {
		t.Errorf("got %v, want no answer at all", result.Err)
	}
	if got := l.rows(); got != 1 {
		t.Errorf("%d rows, want 1", got)
	}
}

func TestDelayKeepsEveryBatchBack(t *testing.T) {
	l := newLine(t)
	const delay = 50 * time.Millisecond
	l.proxy.SetDelay(delay)
	began := time.Now()
	if _, err := l.pipeline("insert"); err != nil {
		t.Fatal(err)
	}
	// Never sooner; how much later is the machine's business.
	if took := time.Since(began); took < delay {
		t.Errorf("it took %s only", took)
	}
}

func TestNoticesAreDropped(t *testing.T) {
	l := newLine(t)
	l.proxy.DropNotices(true)
	l.mustExec(l.through, "DO $$ BEGIN RAISE WARNING 'lost'; END $$")
	if got := l.proxy.DroppedNotices(); got != 1 {
		t.Errorf("%d were dropped", got)
	}
}

func TestResetIsARST(t *testing.T) {
	l := newLine(t)
	l.proxy.CutAll(Reset)
	raw := rawSession(t, l)
	raw.SendQuery(&pgproto3.Query{String: "SELECT 1"})
	err := raw.Flush()
	if err == nil {
		_, err = raw.Receive()
	}
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("got %v", err)
	}
}

func TestRefusedConnectionsAndOthersAfterwards(t *testing.T) {
	l := newLine(t)
	l.proxy.Refuse(true)
	if _, err := pgconn.Connect(l.ctx, urlVia(l.proxy.Address())); err == nil {
		t.Error("a connection was made")
	}
	if _, err := l.pipeline("insert"); err != nil {
		t.Errorf("the present connection suffers: %v", err)
	}
	l.proxy.Refuse(false)
	l.connect(l.proxy.Address())
}

func TestEncryptionIsRefusedAndCancelRequestsPass(t *testing.T) {
	l := newLine(t)
	prefer := strings.Replace(urlVia(l.proxy.Address()), "sslmode=disable", "sslmode=prefer", 1)
	connection, err := pgconn.Connect(l.ctx, prefer)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close(l.ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := connection.Exec(l.ctx, "SELECT pg_sleep(60)").ReadAll()
		ended <- err
	}()
	for {
		// It has no effect before the statement runs.
		if err := connection.CancelRequest(l.ctx); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			var refused *pgconn.PgError
			if !errors.As(err, &refused) || refused.Code != "57014" {
				t.Errorf("got %v", err)
			}
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestEncryptionRequestIsPassedOnWhenTold(t *testing.T) {
	l := newLine(t)
	l.proxy.PassSSL(true)
	raw, err := net.Dial("tcp", l.proxy.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47}); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 1)
	// This server has no certificate, so the refusal is its own.
	if _, err := raw.Read(answer); err != nil || answer[0] != 'N' {
		t.Errorf("got %q, %v", answer, err)
	}
}
