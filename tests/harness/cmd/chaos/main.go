// Chaos breaks a running service on purpose and judges what its callers were told. See docs/guarantees.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"idempotencyd/tests/harness/chaos"
)

func main() {
	if err := run(); err != nil {
		if !errors.Is(err, flag.ErrHelp) && !errors.Is(err, errFailed) {
			fmt.Fprintln(os.Stderr, "chaos:", err)
		}
		os.Exit(1)
	}
}

var errFailed = errors.New("something failed")

func run() error {
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	server := flags.String("idempotencyd", "build/release/server/idempotencyd", "the program to test")
	seconds := flags.Int("seconds", 0, "run the scenarios again and again, each round with the next seed, for so long")
	seed := flags.Uint64("seed", 0, "the schedule's seed; 0: a random one, which is printed")
	only := flags.String("only", "", "a scenario, or the beginning of several's names; \"list\" lists them")
	cut := flags.Bool("cut", false, "the scenarios of every ./dev test only")
	promotions := flags.Int("promotions", 3, "how many failovers scenario 6 has")
	keep := flags.String("keep", "", "folder for histories and logs of what failed")
	keepAll := flags.Bool("keep-all", false, "keep those of what passed, too")
	memory := flags.Int64("max-memory-mib", 512, "the most memory that a replica may have; 0: not judged")
	parallel := flags.Int("parallel", 1, "how many worlds run side by side")
	planted := flags.String("planted", "", "a fault that the program is to have: a name, all, or rotate; \"list\" lists them")
	plantedServer := flags.String("planted-server", "",
		"a program with faults to choose: beside the scenarios three of its faults, by the seed, have to be caught")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("what is %q?", flags.Arg(0))
	}
	if *planted == "list" {
		for _, p := range chaos.AllPlanted {
			fmt.Printf("%-28s %s (%v)\n", p.Name, p.What, p.Scenarios)
		}
		return nil
	}
	if *only == "list" {
		for _, s := range chaos.Scenarios() {
			fmt.Printf("%-28s %s\n", s.Name, s.Title)
		}
		return nil
	}
	scenarios, err := selected(*only, *cut)
	if err != nil {
		return err
	}
	if *seed == 0 {
		*seed = rand.Uint64() >> 1
	}
	fmt.Printf("chaos: seed %d\n", *seed)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	options := chaos.Options{
		Binaries: chaos.Binaries{Server: *server}, Seed: *seed,
		Promotions: *promotions, Output: os.Stdout, Keep: *keep, KeepAll: *keepAll,
		Parallel: *parallel, MaxMemory: *memory << 20,
	}
	if *planted != "" {
		closing := catchAll(ctx, chaos.SelectPlanted(*planted, *seed), options)
		return closing.print()
	}
	// Beside the scenarios, since both sleep most of the time.
	caught := make(chan tally, 1)
	go func() { caught <- catchRotating(ctx, *plantedServer, options) }()
	closing := rounds(ctx, scenarios, options, time.Duration(*seconds)*time.Second)
	closing.add(<-caught)
	return closing.print()
}

// catchRotating tries some of the planted faults, others with each seed. Without a program that has them, none.
func catchRotating(ctx context.Context, server string, options chaos.Options) tally {
	if server == "" {
		return tally{}
	}
	options.Binaries.Server, options.Parallel = server, 1
	return catchAll(ctx, chaos.SelectPlanted("rotate", options.Seed), options)
}

// rounds runs the scenarios once, and again while there is time.
func rounds(ctx context.Context, scenarios []chaos.Scenario, options chaos.Options, within time.Duration) tally {
	var closing tally
	end := time.Now().Add(within)
	for {
		results, err := chaos.Session(ctx, scenarios, options)
		closing.add(summary(results, options.Seed, err))
		if err != nil || ctx.Err() != nil || !time.Now().Before(end) {
			return closing
		}
		options.Seed++
		fmt.Printf("chaos: seed %d\n", options.Seed)
	}
}

// tally counts what passed.
type tally struct{ passed, failed int }

func (t *tally) add(more tally) {
	t.passed += more.passed
	t.failed += more.failed
}

func (t *tally) print() error {
	fmt.Printf("%d passed, %d failed\n", t.passed, t.failed)
	if t.failed > 0 {
		return errFailed
	}
	return nil
}

// catchAll: a planted fault that is caught has passed.
func catchAll(ctx context.Context, planted []chaos.Planted, options chaos.Options) tally {
	var closing tally
	var mu sync.Mutex
	var group sync.WaitGroup
	room := make(chan struct{}, max(1, options.Parallel))
	for _, p := range planted {
		room <- struct{}{}
		group.Go(func() {
			defer func() { <-room }()
			caught, err := chaos.Catch(ctx, p, options)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				fmt.Printf("failed: %s: %v\n", p.Name, err)
			}
			if caught {
				closing.passed++
			} else {
				closing.failed++
			}
		})
	}
	group.Wait()
	return closing
}

func selected(only string, cut bool) ([]chaos.Scenario, error) {
	scenarios := chaos.Scenarios()
	if only != "" {
		return chaos.Select(only)
	}
	if !cut {
		return scenarios, nil
	}
	var chosen []chaos.Scenario
	for _, s := range scenarios {
		if s.InCut {
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}

func summary(results []chaos.Result, seed uint64, err error) tally {
	var closing tally
	operations := 0
	for _, result := range results {
		operations += result.Operations
		if result.Passed {
			closing.passed++
		} else {
			closing.failed++
			fmt.Printf("failed: %s; again by: ./dev chaos --only %s --seed %d\n", result.Scenario.Name, result.Scenario.Name, seed)
		}
	}
	if err != nil {
		closing.failed++
		fmt.Printf("failed: %v\n", err)
	}
	fmt.Printf("%d operations in %d scenarios\n", operations, len(results))
	return closing
}
