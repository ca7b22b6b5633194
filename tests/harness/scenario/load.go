// Package scenario holds what client/scenarios/README.md says of the files: how they are read, what may
// stand in them, how they are filled in for a session, and how an answer is judged.
package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Scenario is one story, as it stands in the file: nothing is filled in yet.
type Scenario struct {
	Name       string         `json:"name"`
	Title      string         `json:"title"`
	Client     map[string]any `json:"client"`
	OwnService bool           `json:"own_service"`
	Steps      []any          `json:"steps"`
}

// LoadDirectory reads and checks all files of a directory. The order is that of the files' names, then
// that in the file.
func LoadDirectory(directory string) ([]Scenario, error) {
	paths, err := filepath.Glob(filepath.Join(directory, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no scenarios in %s", directory)
	}
	slices.Sort(paths)
	var all []Scenario
	var faults []error
	names := map[string]bool{}
	for _, path := range paths {
		scenarios, err := loadFile(path)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", path, err))
			continue
		}
		theme := strings.TrimSuffix(filepath.Base(path), ".json")
		for _, scenario := range scenarios {
			if names[scenario.Name] {
				faults = append(faults, fmt.Errorf("%s: the name %q is there twice", path, scenario.Name))
			}
			names[scenario.Name] = true
			if !strings.HasPrefix(scenario.Name, theme+"/") {
				faults = append(faults, fmt.Errorf("%s: the name %q does not begin with %q", path,
					scenario.Name, theme+"/"))
			}
			if err := scenario.Validate(); err != nil {
				faults = append(faults, fmt.Errorf("%s: %s: %w", path, scenario.Name, err))
			}
		}
		all = append(all, scenarios...)
	}
	return all, errors.Join(faults...)
}

func loadFile(path string) ([]Scenario, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Scenarios []Scenario `json:"scenarios"`
	}
	if err := Decode(bytes.NewReader(text), &file); err != nil {
		return nil, err
	}
	return file.Scenarios, nil
}

// Decode reads one JSON value and nothing else. Numbers stay as they are written, and a member that
// into does not have is a fault.
func Decode(from io.Reader, into any) error {
	decoder := json.NewDecoder(from)
	decoder.UseNumber()
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something stands behind the JSON value")
	}
	return nil
}
