package pgproxy

import (
	"context"
	"fmt"
	"sync"
)

// Kind is what becomes of a batch.
type Kind string

// The kinds of faults.
const (
	// CutBefore: the connection ends before the server gets the end of the batch, so nothing is committed.
	CutBefore Kind = "cut_before_commit"
	// Swallow: the server gets all and commits; the client gets nothing of the answer.
	Swallow Kind = "swallow_answer"
	// CutInside: the server commits; the client gets the first half of the answer's bytes.
	CutInside Kind = "cut_inside_answer"
	// BeforeReady: the server commits; the client gets everything but ReadyForQuery.
	BeforeReady Kind = "cut_before_ready"
	// CompleteWithoutCommit: the client gets everything up to the last CommandComplete although the server is never told to
	// commit. Whoever takes CommandComplete for a commit is wrong.
	CompleteWithoutCommit Kind = "complete_without_commit"
	// RollbackInstead: the server gets a ROLLBACK for the COMMIT, and says so. Explicit transactions only.
	RollbackInstead Kind = "rollback_instead"
	// ForgetStatements: the server forgets all prepared statements before the batch comes, as after a change of the connection
	// behind a pooler. Not within a transaction.
	ForgetStatements Kind = "forget_statements"
)

// Kinds lists all.
var Kinds = []Kind{CutBefore, Swallow, CutInside, BeforeReady, CompleteWithoutCommit, RollbackInstead, ForgetStatements}

// Ending is how a connection that is cut ends.
type Ending string

// The endings.
const (
	Close Ending = "close"
	Reset Ending = "reset" // RST instead of FIN
	Hang  Ending = "hang"  // nothing more comes, and nothing tells that it ended
)

// Fault is what becomes of the next batches that match.
type Fault struct {
	Kind Kind
	Then Ending // empty: Close
	// nil: CommitsAWrite.
	Match func(Batch) bool
	// 0: once.
	Times int
}

// Injection is a fault that was given to a proxy. Safe for concurrent use.
type Injection struct {
	fault Fault

	mu      sync.Mutex
	left    int
	fired   int
	changed chan struct{}
}

func newInjection(fault Fault) *Injection {
	if fault.Match == nil {
		fault.Match = CommitsAWrite
	}
	if fault.Then == "" {
		fault.Then = Close
	}
	return &Injection{fault: fault, left: max(fault.Times, 1), changed: make(chan struct{})}
}

// take tells whether the fault is to happen to this batch, and counts it.
func (i *Injection) take(batch Batch) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.left == 0 || !i.fault.Match(batch) {
		return false
	}
	i.left--
	return true
}

// giveBack undoes take: the fault could not be done to that batch.
func (i *Injection) giveBack() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.left++
}

func (i *Injection) happened() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fired++
	close(i.changed)
	i.changed = make(chan struct{})
}

// Fired is how often it has happened.
func (i *Injection) Fired() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fired
}

// Cancel takes back what has not happened yet.
func (i *Injection) Cancel() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.left = 0
}

// Await returns when it has happened so often.
func (i *Injection) Await(ctx context.Context, times int) error {
	for {
		i.mu.Lock()
		fired, changed := i.fired, i.changed
		i.mu.Unlock()
		if fired >= times {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s happened %d times, not %d: %w", i.fault.Kind, fired, times, ctx.Err())
		}
	}
}
