// Scenario-host serves client/scenarios to test runners; see client/scenarios/README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"idempotencyd/tests/harness/host"
	"idempotencyd/tests/harness/scenario"
)

const (
	binaryVariable = "IDEMPOTENCYD"
	usage          = `Usage: scenario-host [FLAG…]

Serves the scenarios to test runners, on a private PostgreSQL; prints {"address": "http://…"} when it
is ready. It ends on SIGTERM and SIGINT.

`
)

type options struct {
	binary, scenarios, results, addressFile, listen string
	maxSessions                                     int
	stdinEnds, logCalls                             bool
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("scenario-host: ")
	var given options
	flag.StringVar(&given.binary, "idempotencyd", os.Getenv(binaryVariable),
		"`path` of the service's binary (also by the variable "+binaryVariable+")")
	flag.StringVar(&given.scenarios, "scenarios", "client/scenarios", "`directory` of the scenarios")
	flag.StringVar(&given.results, "results", "", "`file` for what passed, by language and scenario")
	flag.StringVar(&given.addressFile, "address-file", "", "`file` that gets the address when it is ready")
	flag.StringVar(&given.listen, "listen", "127.0.0.1:0", "`host:port` to serve on; port 0 is a free one")
	flag.IntVar(&given.maxSessions, "max-sessions", 64, "sessions at once")
	flag.BoolVar(&given.stdinEnds, "stdin-ends", false, "end when standard input does")
	flag.BoolVar(&given.logCalls, "log-calls", false, "a line on standard error for each call of a client")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 || given.binary == "" || given.maxSessions < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if given.stdinEnds {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop()
		}()
	}
	if given.logCalls {
		log.SetFlags(log.Lmicroseconds | log.Lmsgprefix)
	}
	if err := serve(ctx, given); err != nil {
		log.Fatal(err)
	}
}

// Serves until ctx ends.
func serve(ctx context.Context, given options) error {
	// It starts in another directory than ours.
	binary, err := filepath.Abs(given.binary)
	if err != nil {
		return err
	}
	scenarios, err := scenario.LoadDirectory(given.scenarios)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", given.listen)
	if err != nil {
		return err
	}
	started, err := host.Start(ctx, host.Options{
		Binary: binary, Scenarios: scenarios, Results: given.results, MaxSessions: given.maxSessions,
		LogCalls: given.logCalls,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{
		Handler: started.ServeMux(), ReadHeaderTimeout: 10 * time.Second,
		// What runs when the host is told to end ends with it.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	err = announce(given.addressFile, "http://"+listener.Addr().String())
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-served:
		}
	}
	return errors.Join(err, server.Close(), started.Close())
}

// Says where the host is: only when it is ready.
func announce(file, address string) error {
	line, err := json.Marshal(map[string]string{"address": address})
	if err != nil {
		return err
	}
	fmt.Println(string(line))
	if file == "" {
		return nil
	}
	// Renamed, so that nobody reads half of it.
	next := file + ".new"
	if err := os.WriteFile(next, []byte(address+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(next, file)
}
