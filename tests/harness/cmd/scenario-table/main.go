// Scenario-table writes into client/README.md which scenarios each client has passed, or tells whether
// what is there is true.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"

	"idempotencyd/tests/harness/host"
	"idempotencyd/tests/harness/scenario"
	"idempotencyd/tests/harness/table"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("scenario-table: ")
	directory := flag.String("scenarios", "client/scenarios", "`directory` of the scenarios")
	results := flag.String("results", "build/scenarios.json", "`file` that the scenario host wrote")
	page := flag.String("page", "client/README.md", "`file` with the table")
	check := flag.Bool("check", false, "write nothing; end with 1 if the table is not what passed")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*directory, *results, *page, *check); err != nil {
		log.Fatal(err)
	}
}

func run(directory, results, page string, check bool) error {
	scenarios, err := scenario.LoadDirectory(directory)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(results)
	if err != nil {
		return err
	}
	var passed map[string]map[string]host.Result
	if err := json.Unmarshal(text, &passed); err != nil {
		return fmt.Errorf("%s: %w", results, err)
	}
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	made := table.Table(scenarios, passed)
	replaced, err := table.Replace(string(old), made)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	if replaced == string(old) {
		return nil
	}
	if check {
		return fmt.Errorf("%s does not say what passed, which is:\n%s", page, made)
	}
	return os.WriteFile(page, []byte(replaced), 0o644)
}
