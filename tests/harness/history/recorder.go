package history

import (
	"bufio"
	"encoding/json"
	"io"
	"sort"
	"sync"
	"time"
)

// Recorder collects calls. Safe for use by many goroutines.
type Recorder struct {
	began time.Time

	mu      sync.Mutex
	history History
	next    int64
}

// NewRecorder starts the clock of a history.
func NewRecorder() *Recorder { return &Recorder{began: time.Now()} }

// Now is the present instant of the history, on the monotonic clock.
func (r *Recorder) Now() int64 { return int64(time.Since(r.began)) }

// Sent notes that a call is about to be sent. Until Answered it counts as one that may have happened.
func (r *Recorder) Sent(op *Op) *Op {
	op.End = Never
	op.Class = Unknown
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	op.ID = r.next
	r.history.Ops = append(r.history.Ops, op)
	// Under the lock and last: nothing of the call is under way before this instant.
	op.Start = r.Now()
	return op
}

// Answered notes what came back. The instant is taken first.
func (r *Recorder) Answered(op *Op, code, reason string, answer Answer) {
	end := r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	op.Code, op.Reason = code, reason
	op.Class = Classify(code, reason)
	if op.Class == Unknown {
		return
	}
	op.End = end
	if op.Class == OK {
		op.Answer = answer
	}
}

// NotSent takes a call back that never left the client.
func (r *Recorder) NotSent(op *Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.history.Ops) - 1; i >= 0; i-- {
		if r.history.Ops[i] == op {
			r.history.Ops = append(r.history.Ops[:i], r.history.Ops[i+1:]...)
			return
		}
	}
}

// Accepted notes that the server has taken the call into its queue.
func (r *Recorder) Accepted(op *Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.Accepted = true
}

// Fault notes a fault that lasts until the returned function is called.
func (r *Recorder) Fault(name string) func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	index := len(r.history.Faults)
	r.history.Faults = append(r.history.Faults, Fault{Name: name, Start: r.Now(), End: Never})
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.history.Faults[index].End == Never {
			r.history.Faults[index].End = r.Now()
		}
	}
}

// Drove notes what became of a key after the last fault.
func (r *Recorder) Drove(drive Drive) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Drives = append(r.history.Drives, drive)
}

// Snapshot copies what was recorded so far.
func (r *Recorder) Snapshot() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	snapshot := &History{
		Faults: append([]Fault(nil), r.history.Faults...),
		Drives: append([]Drive(nil), r.history.Drives...),
	}
	for _, op := range r.history.Ops {
		copied := *op
		snapshot.Ops = append(snapshot.Ops, &copied)
	}
	return snapshot
}

// Write writes a history that Read reads.
func Write(w io.Writer, h *History) error {
	buffered := bufio.NewWriter(w)
	encoder := json.NewEncoder(buffered)
	if err := encoder.Encode(h); err != nil {
		return err
	}
	return buffered.Flush()
}

// Read reads what Write wrote.
func Read(r io.Reader) (*History, error) {
	h := &History{}
	if err := json.NewDecoder(bufio.NewReader(r)).Decode(h); err != nil {
		return nil, err
	}
	return h, nil
}

func sortByStart(ops []*Op) {
	sort.SliceStable(ops, func(i, j int) bool { return ops[i].Start < ops[j].Start })
}
