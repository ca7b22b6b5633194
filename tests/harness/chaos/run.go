package chaos

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"idempotencyd/tests/harness/checker"
	"idempotencyd/tests/harness/history"
	"idempotencyd/tests/harness/model"
)

// Scenario is one kind of trouble.
type Scenario struct {
	// Number is that of the catalogue in docs/guarantees.md; Name begins with it.
	Name, Title string
	Profile     Profile
	// Part of the cut that every ./dev test runs.
	InCut bool
	// Needs root: network namespaces.
	NeedsRoot bool
	// The checker has to find something: that is what the scenario proves.
	MustFail bool
	// What the faults allow beyond the usual.
	Allow func(*model.Params)
	// How long the load goes on, unless told otherwise. 0: the scenario makes its own calls.
	Seconds int
	do      func(context.Context, *run) error
}

// Options of a session of scenarios.
type Options struct {
	Binaries   Binaries
	Seed       uint64
	Promotions int
	// The most memory that a replica may have, in bytes. 0: not judged.
	MaxMemory int64
	// How many worlds run side by side. 0: one.
	Parallel int
	Output   io.Writer
	// Folder for histories and logs of what failed, or of all. Empty: not kept.
	Keep    string
	KeepAll bool
}

// run is one scenario under way. Safe for concurrent use.
type run struct {
	scenario Scenario
	options  Options
	world    *World
	recorder *history.Recorder
	// For the goroutine of the scenario.
	rng  *rand.Rand
	load *load
	// For calls of the scenario's own.
	caller *caller

	mu       sync.Mutex
	problems []string
	injected []string
	counts   map[string]int
	notes    []string
}

// Result is what became of a scenario.
type Result struct {
	Scenario   Scenario
	Passed     bool
	Violations []checker.Violation
	Problems   []string
	Operations int
	Took       time.Duration
	// From the start of the first fault to the first violation: what --planted tells.
	Caught time.Duration
}

func newRun(s Scenario, options Options, w *World) *run {
	// The schedule depends on the seed and the scenario alone, whatever else is run.
	sum := uint64(14695981039346656037)
	for _, b := range []byte(s.Name) {
		sum = (sum ^ uint64(b)) * 1099511628211
	}
	r := &run{
		scenario: s, options: options, world: w, recorder: history.NewRecorder(), rng: rand.New(rand.NewPCG(options.Seed, sum)),
		counts: make(map[string]int),
	}
	r.load = newLoad(r.recorder, w.straightTargets(), s.Name, r.rng.Uint64())
	r.caller = &caller{recorder: r.recorder, errors: r.load.caller.errors, isPatient: true}
	return r
}

func (w *World) straightTargets() []*target {
	var targets []*target
	for _, m := range w.members {
		targets = append(targets, m.straight)
	}
	return targets
}

func (w *World) lossyTargets() []*target {
	var targets []*target
	for _, m := range w.members {
		targets = append(targets, m.lossy)
	}
	return targets
}

// duration is how long the load is to go on.
func (r *run) duration() time.Duration {
	return time.Duration(r.scenario.Seconds) * time.Second
}

// problem notes that something was not as it must be.
func (r *run) problem(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	const most = 20
	if len(r.problems) < most {
		r.problems = append(r.problems, fmt.Sprintf(format, args...))
	}
}

func (r *run) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// fault notes a fault, to be ended by the returned function.
func (r *run) fault(name string) func() {
	r.count(name)
	return r.recorder.Fault(name)
}

// count counts a fault that happened.
func (r *run) count(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts[name] == 0 {
		r.injected = append(r.injected, name)
	}
	r.counts[name]++
}

// until calls step again and again while the scenario's time lasts.
func (r *run) until(ctx context.Context, step func(context.Context) error) error {
	end := time.Now().Add(r.duration())
	for time.Now().Before(end) {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// underLoad starts the usual load, does what is given, and drives the last keys to their end.
func (r *run) underLoad(ctx context.Context, options loadOptions, do func(context.Context) error) error {
	for _, t := range r.load.targets {
		if err := t.awaitReady(ctx); err != nil {
			return err
		}
	}
	r.load.start(ctx, options)
	// Something to compare with.
	err := sleep(ctx, 500*time.Millisecond)
	if err == nil {
		err = do(ctx)
	}
	if err == nil {
		err = r.world.Heal(ctx)
	}
	if err == nil {
		err = sleep(ctx, 700*time.Millisecond)
	}
	r.load.stop()
	if err != nil {
		return err
	}
	r.load.drive(ctx, r.load.unfinished(24), 0)
	return nil
}

// execute runs a scenario in a world and has it judged.
func execute(ctx context.Context, s Scenario, options Options, w *World) Result {
	began := time.Now()
	r := newRun(s, options, w)
	patience := 4*time.Minute + 20*r.duration() + time.Duration(options.Promotions)*30*time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.do(ctx, r); err != nil {
		r.problem("the scenario did not come to its end: %v", err)
	}
	ran := time.Since(began)
	h := r.recorder.Snapshot()
	params := s.Profile.params()
	if s.Allow != nil {
		s.Allow(&params)
	}
	violations, err := judge(ctx, r, h, params)
	violations = append(violations, bounded(ctx, w, options.MaxMemory)...)
	if err != nil {
		r.problem("judging: %v", err)
	}
	result := Result{
		Scenario: s, Violations: violations, Problems: r.problems, Operations: len(h.Ops), Took: time.Since(began),
		Caught: caughtAfter(h, violations),
	}
	r.note("ran %.1f s, judged in %.1f s", ran.Seconds(), time.Since(began).Seconds()-ran.Seconds())
	result.Passed = len(result.Problems) == 0 && (len(violations) > 0) == s.MustFail
	r.print(result, h)
	if (!result.Passed || options.KeepAll) && options.Keep != "" {
		r.keep(h)
	}
	return result
}

// caughtAfter is the time between the first fault and the first violation, which is there when the last of its calls is.
func caughtAfter(h *history.History, violations []checker.Violation) time.Duration {
	first := history.Never
	for _, violation := range violations {
		last := int64(0)
		for _, op := range violation.Ops {
			last = max(last, op.Start)
		}
		if len(violation.Ops) > 0 {
			first = min(first, last)
		}
	}
	if len(h.Faults) == 0 || first == history.Never {
		return 0
	}
	return time.Duration(max(0, first-h.Faults[0].Start))
}

func (r *run) keep(h *history.History) {
	folder := filepath.Join(r.options.Keep, r.scenario.Name)
	err := r.world.keepLogs(folder)
	if err == nil {
		var file *os.File
		if file, err = os.Create(filepath.Join(folder, "history.json")); err == nil {
			err = history.Write(file, h)
			_ = file.Close()
		}
	}
	if err != nil {
		fmt.Fprintf(r.options.Output, "  could not keep the evidence: %v\n", err)
		return
	}
	fmt.Fprintf(r.options.Output, "  kept in %s\n", folder)
}

func (r *run) print(result Result, h *history.History) {
	// In one piece, since others write as well.
	out := &strings.Builder{}
	defer func() { _, _ = io.WriteString(r.options.Output, out.String()) }()
	verdict := "passed"
	if !result.Passed {
		verdict = "FAILED"
	}
	fmt.Fprintf(out, "%s %s: %s (%.1f s)\n", verdict, r.scenario.Name, r.scenario.Title, result.Took.Seconds())
	var faults []string
	for _, name := range r.injected {
		faults = append(faults, fmt.Sprintf("%s x%d", name, r.counts[name]))
	}
	if len(faults) > 0 {
		fmt.Fprintf(out, "  injected: %s\n", strings.Join(faults, ", "))
	}
	fmt.Fprintf(out, "  %d operations checked over %d keys\n", checker.Checked(h), len(h.ByKey()))
	before, during, after := latencies(h)
	fmt.Fprintf(out, "  before: %s\n  during: %s\n  after:  %s\n", &before, &during, &after)
	for _, note := range r.notes {
		fmt.Fprintf(out, "  %s\n", note)
	}
	for _, problem := range result.Problems {
		fmt.Fprintf(out, "  PROBLEM %s\n", problem)
	}
	most := 6
	if r.scenario.MustFail {
		most = 2
	}
	for i, violation := range result.Violations {
		if i == most {
			fmt.Fprintf(out, "  and %d more violations\n", len(result.Violations)-most)
			break
		}
		word := "VIOLATION"
		if r.scenario.MustFail {
			word = "seen, as it must be:"
		}
		fmt.Fprintf(out, "  %s %s\n", word, violation)
	}
}
