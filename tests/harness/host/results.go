package host

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"idempotencyd/tests/harness/scenario"
)

// Result is what a scenario came to in a language.
type Result struct {
	Passed  bool   `json:"passed"`
	Problem string `json:"problem,omitempty"`
}

// Results are kept in a file: language, scenario, result. A language that this host runs begins anew;
// what the file has of others stays.
type results struct {
	path string

	mutex sync.Mutex
	begun map[string]map[string]Result
}

func newResults(path string) *results {
	return &results{path: path, begun: map[string]map[string]Result{}}
}

// Begin forgets what an earlier host has written of the language.
func (r *results) begin(language string) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.begun[language] != nil {
		return nil
	}
	r.begun[language] = map[string]Result{}
	return r.write()
}

func (r *results) add(language, name string, result Result) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.begun[language] == nil {
		r.begun[language] = map[string]Result{}
	}
	r.begun[language][name] = result
	return r.write()
}

// REQUIRES: the mutex is held.
func (r *results) write() error {
	if r.path == "" {
		return nil
	}
	all := map[string]map[string]Result{}
	file, err := os.Open(r.path)
	if err == nil {
		err = errors.Join(scenario.Decode(file, &all), file.Close())
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for language, results := range r.begun {
		all[language] = results
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	// Renamed, so that nobody reads half of it.
	next, err := os.CreateTemp(filepath.Dir(r.path), filepath.Base(r.path)+".*")
	if err != nil {
		return err
	}
	_, err = next.Write(append(text, '\n'))
	err = errors.Join(err, next.Close())
	if err == nil {
		err = os.Rename(next.Name(), r.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	return nil
}
