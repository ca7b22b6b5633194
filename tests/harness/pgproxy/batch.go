package pgproxy

import (
	"regexp"
	"strings"
)

// Statement is one that a batch executes.
type Statement struct {
	Name string // of a prepared statement; empty: unnamed, or a simple query
	SQL  string
}

// Batch is what a client sends up to and including a Sync, or one simple query: what the server answers by one ReadyForQuery.
type Batch struct {
	Statements []Statement
	// Commits tells whether its end commits a transaction, be it by COMMIT or because none was opened explicitly.
	Commits bool
	// Writes tells whether anything in the transaction that it is part of may have written.
	Writes bool
}

// Executes tells whether the batch executes a prepared statement of this name.
func (b Batch) Executes(name string) bool {
	for _, statement := range b.Statements {
		if statement.Name == name {
			return true
		}
	}
	return false
}

// CommitsAWrite is what faults match unless told otherwise.
func CommitsAWrite(b Batch) bool { return b.Commits && b.Writes }

var (
	comment = regexp.MustCompile(`(?s)--[^\n]*|/\*.*?\*/`)
	writing = regexp.MustCompile(
		`(?i)\b(INSERT|UPDATE|DELETE|MERGE|TRUNCATE|COPY|CREATE|ALTER|DROP|PG_LOGICAL_EMIT_MESSAGE)\b`)
)

// The first word of a statement, in capitals.
func verb(sql string) string {
	words := strings.Fields(comment.ReplaceAllString(sql, " "))
	if len(words) == 0 {
		return ""
	}
	return strings.ToUpper(strings.Trim(words[0], ";"))
}

func isCommit(sql string) bool {
	first := verb(sql)
	return first == "COMMIT" || first == "END"
}

func isRollback(sql string) bool {
	first := verb(sql)
	return first == "ROLLBACK" || first == "ABORT"
}

func isBegin(sql string) bool {
	first := verb(sql)
	return first == "BEGIN" || first == "START"
}

func writes(sql string) bool { return writing.MatchString(comment.ReplaceAllString(sql, " ")) }

// tracker follows what one client sends: the names of statements and portals, and where transactions begin and end. For one
// goroutine.
type tracker struct {
	statements map[string]string
	portals    map[string]string // to the names of statements

	// Of the transaction that is open, explicitly.
	isOpen    bool
	hasWrites bool

	batch Batch
	// How many results the server will tell the end of.
	executes int
}

func newTracker() *tracker {
	return &tracker{statements: make(map[string]string), portals: make(map[string]string)}
}

// note looks at a message that is not the end of a batch.
func (t *tracker) note(m message) {
	switch m.kind() {
	case fromClientParse:
		name, rest := cutText(m.body())
		t.statements[name], _ = cutText(rest)
	case fromClientBind:
		portal, rest := cutText(m.body())
		t.portals[portal], _ = cutText(rest)
	case fromClientExecute:
		portal, _ := cutText(m.body())
		name := t.portals[portal]
		t.batch.Statements = append(t.batch.Statements, Statement{Name: name, SQL: t.statements[name]})
		t.executes++
	}
}

// finish is called with the message that ends a batch, and begins the next one.
func (t *tracker) finish(m message) (batch Batch, executes int) {
	if m.kind() == fromClientQuery {
		sql, _ := cutText(m.body())
		for _, part := range strings.Split(comment.ReplaceAllString(sql, " "), ";") {
			if verb(part) != "" {
				t.batch.Statements = append(t.batch.Statements, Statement{SQL: part})
			}
		}
	}
	for _, statement := range t.batch.Statements {
		switch {
		case isBegin(statement.SQL):
			t.isOpen, t.hasWrites = true, false
		case isCommit(statement.SQL):
			t.batch.Commits = true
			t.batch.Writes = t.batch.Writes || t.hasWrites
			t.isOpen, t.hasWrites = false, false
		case isRollback(statement.SQL):
			t.isOpen, t.hasWrites = false, false
		case writes(statement.SQL):
			t.hasWrites = true
		}
	}
	if !t.isOpen && len(t.batch.Statements) > 0 && t.hasWrites {
		// No transaction was opened: the end of the batch commits.
		t.batch.Commits, t.batch.Writes = true, true
		t.hasWrites = false
	}
	batch, executes = t.batch, t.executes
	t.batch, t.executes = Batch{}, 0
	return batch, executes
}

// beforeCommit is how many of a batch's messages the server may get without committing: those before a COMMIT, else all but the
// last one.
func (t *tracker) beforeCommit(messages []message) int {
	for i, m := range messages {
		if m.kind() != fromClientBind {
			continue
		}
		_, rest := cutText(m.body())
		if name, _ := cutText(rest); isCommit(t.statements[name]) {
			return i
		}
	}
	return len(messages) - 1
}

// rollbackInstead turns the COMMIT among the messages into a ROLLBACK. False if there is none, or no prepared ROLLBACK to use.
func (t *tracker) rollbackInstead(messages []message) bool {
	rollback := ""
	for name, sql := range t.statements {
		if isRollback(sql) && name != "" {
			rollback = name
		}
	}
	for i, m := range messages {
		switch m.kind() {
		case fromClientQuery:
			if sql, _ := cutText(m.body()); isCommit(sql) {
				messages[i] = newMessage(fromClientQuery, []byte("ROLLBACK\x00"))
				return true
			}
		case fromClientBind:
			portal, rest := cutText(m.body())
			name, rest := cutText(rest)
			if isCommit(t.statements[name]) && rollback != "" {
				body := append([]byte(portal+"\x00"+rollback+"\x00"), rest...)
				messages[i] = newMessage(fromClientBind, body)
				return true
			}
		}
	}
	return false
}
