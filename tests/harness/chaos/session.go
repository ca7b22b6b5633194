package chaos

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Scenarios lists all, in the order of the catalogue.
func Scenarios() []Scenario {
	var all []Scenario
	for _, group := range [][]Scenario{commitScenarios, replicationScenarios, databaseScenarios, ownerScenarios,
		callerScenarios} {
		all = append(all, group...)
	}
	return all
}

// Select finds the scenarios that a name, or the beginning of one, stands for.
func Select(name string) ([]Scenario, error) {
	var found []Scenario
	for _, s := range Scenarios() {
		if s.Name == name {
			return []Scenario{s}, nil
		}
		if strings.HasPrefix(s.Name, name) {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("there is no scenario %q", name)
	}
	return found, nil
}

// Session runs scenarios, those of one profile in one world, one after the other, and tells what became of each. Worlds run side
// by side as far as options allow.
func Session(ctx context.Context, scenarios []Scenario, options Options) ([]Result, error) {
	var order []string
	groups := make(map[string][]Scenario)
	hasNamespaces := sync.OnceValue(HasNamespaces)
	for _, s := range scenarios {
		if s.NeedsRoot && !hasNamespaces() {
			fmt.Fprintf(options.Output, "not run: %s (needs root and network namespaces)\n", s.Name)
			continue
		}
		if groups[s.Profile.Name] == nil {
			order = append(order, s.Profile.Name)
		}
		groups[s.Profile.Name] = append(groups[s.Profile.Name], s)
	}
	options.Output = &lockedWriter{to: options.Output}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var results []Result
	var problems error
	var group sync.WaitGroup
	room := make(chan struct{}, max(1, options.Parallel))
	for _, name := range order {
		room <- struct{}{}
		group.Go(func() {
			defer func() { <-room }()
			more, err := runGroup(ctx, groups[name], options)
			mu.Lock()
			defer mu.Unlock()
			results = append(results, more...)
			// What ended because of another's problem is no problem of its own.
			if err != nil && (problems == nil || ctx.Err() == nil) {
				problems = err
				cancel()
			}
		})
	}
	group.Wait()
	return results, problems
}

// lockedWriter writes each text whole.
type lockedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *lockedWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(text)
}

// runGroup runs scenarios of one profile. A world that something went wrong in is not used again.
func runGroup(ctx context.Context, group []Scenario, options Options) ([]Result, error) {
	var results []Result
	var w *World
	defer func() {
		if w != nil {
			_ = w.Close()
		}
	}()
	for _, s := range group {
		if ctx.Err() != nil {
			return results, ctx.Err()
		}
		if w == nil {
			var err error
			if w, err = NewWorld(ctx, s.Profile, options.Binaries); err != nil {
				return results, err
			}
		}
		result := execute(ctx, s, options, w)
		results = append(results, result)
		if !result.Passed || s.MustFail || w.Heal(ctx) != nil {
			if err := w.Close(); err != nil {
				return results, err
			}
			w = nil
		}
	}
	return results, nil
}
