package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Whose a step is.
type side int

const (
	clientStep side = 1 << iota
	hostStep
	// Only within fn.
	fnOnly
)

// A kind of step: whose it is and which members it must and may have beside "do".
type shape struct {
	side     side
	required string
	optional string
}

var shapes = map[string]shape{
	"run_once": {clientStep, "call key request on_lease_expiry fn", "options background expect"},
	"await":    {clientStep, "call", "expect"},
	"cancel":   {clientStep, "call", ""},
	"lookup":   {clientStep, "key expect", "include_body"},
	"hooks":    {clientStep, "expect", ""},
	"close":    {clientStep, "", ""},

	"return":          {clientStep | fnOnly, "work", ""},
	"throw":           {clientStep | fnOnly, "error", ""},
	"throw_timeout":   {clientStep | fnOnly, "", ""},
	"throw_cancelled": {clientStep | fnOnly, "", ""},
	"crash":           {clientStep | fnOnly, "", ""},
	"await_stop":      {clientStep | fnOnly, "", ""},

	"fault":          {hostStep, "method fault", "code reason retry_ms pushback times answer_base64"},
	"clear_faults":   {hostStep, "", ""},
	"listener":       {hostStep, "state", ""},
	"kill_replica":   {hostStep, "", ""},
	"start_replica":  {hostStep, "", ""},
	"database":       {hostStep, "state", ""},
	"other_begin":    {hostStep, "as key request on_lease_expiry", "lease_duration_ms expect"},
	"other_complete": {hostStep, "as outcome", "expect"},
	"other_fail":     {hostStep, "as failure", "expect"},
	"other_renew":    {hostStep, "as", "lease_duration_ms expect"},
	"other_lookup":   {hostStep, "key", "expect"},
	"await_state":    {hostStep, "key state", ""},
	"await_calls":    {hostStep, "method count", "code started"},
	"calls":          {hostStep, "method expect", ""},
	"signal":         {hostStep, "name", ""},
	"await_signal":   {hostStep, "name", ""},
}

var (
	// Methods are the calls of the service, by their short names.
	Methods = []string{"Begin", "Complete", "Fail", "Renew", "Lookup"}
	reasons = []string{
		"", "INVALID_FIELD", "KEY_REUSED", "LEASE_LOST", "OUTCOME_CONFLICT", "ALREADY_FINISHED",
		"NEEDS_RESOLUTION", "RECORD_NOT_FOUND", "CREDENTIALS_MISSING", "CREDENTIALS_INVALID",
		"MERCHANT_FORBIDDEN", "MERCHANT_RATE_LIMITED", "OVERLOADED", "DRAINING", "STORE_UNAVAILABLE",
		"SCHEMA_INCOMPATIBLE", "COMMIT_UNKNOWN", "INTERNAL",
	}
	runOptions = []string{
		"ttl_ms", "lease_duration_ms", "wait_timeout_ms", "max_duration_ms", "start_timeout_ms",
		"deadline_ms", "labels", "on_unavailable", "classify",
	}
	clientOptions = []string{"rpc_timeout_ms", "record_timeout_ms", "shutdown_timeout_ms"}
	kindsOfWork   = []string{"completed", "not_applied", "final", "unknown"}
	dispositions  = []string{"not_applied", "final", "unknown"}
)

// IsHostStep tells whether a step of that name is the host's.
func IsHostStep(do string) bool { return shapes[do].side&hostStep != 0 }

// Validate tells what no runner could do, or no host, if there is any.
func (s Scenario) Validate() error {
	if s.Name == "" || s.Title == "" || len(s.Steps) == 0 {
		return errors.New("a scenario has a name, a title and steps")
	}
	for option := range s.Client {
		if !slices.Contains(clientOptions, option) {
			return fmt.Errorf("there is no client option %q", option)
		}
	}
	steps, err := s.Expand("x")
	if err != nil {
		return err
	}
	check := checker{ownService: s.OwnService, calls: map[string]bool{}, others: map[string]bool{}}
	for i, step := range steps {
		if err := check.step(step, false); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

// Remembers what earlier steps have named.
type checker struct {
	ownService bool
	calls      map[string]bool
	others     map[string]bool
}

func (c *checker) step(value any, inFn bool) error {
	step, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%v is no step", value)
	}
	do, _ := step["do"].(string)
	shape, ok := shapes[do]
	if !ok {
		return fmt.Errorf("there is no step %q", do)
	}
	if err := shape.check(step); err != nil {
		return fmt.Errorf("%s: %w", do, err)
	}
	if shape.side&fnOnly != 0 && !inFn {
		return fmt.Errorf("%s stands only within fn", do)
	}
	if inFn && shape.side == clientStep && do != "cancel" {
		return fmt.Errorf("%s does not stand within fn", do)
	}
	var err error
	switch {
	case do == "run_once":
		err = c.runOnce(step)
	case do == "await" || do == "cancel":
		err = c.named(c.calls, step["call"])
	case do == "return":
		err = checkWork(step["work"])
	case shape.side == hostStep:
		err = c.hostStep(do, step)
	}
	if err == nil {
		err = checkExpect(step["expect"])
	}
	if err != nil {
		return fmt.Errorf("%s: %w", do, err)
	}
	return nil
}

func (s shape) check(step map[string]any) error {
	required, optional := strings.Fields(s.required), strings.Fields(s.optional)
	for _, member := range required {
		if _, ok := step[member]; !ok {
			return fmt.Errorf("%q is missing", member)
		}
	}
	for member := range step {
		if member != "do" && !slices.Contains(required, member) && !slices.Contains(optional, member) {
			return fmt.Errorf("there is no %q", member)
		}
	}
	return nil
}

func (c *checker) named(names map[string]bool, name any) error {
	if text, ok := name.(string); !ok || !names[text] {
		return fmt.Errorf("no earlier step is named %v", name)
	}
	return nil
}

func (c *checker) runOnce(step map[string]any) error {
	call, ok := step["call"].(string)
	if !ok || c.calls[call] {
		return fmt.Errorf("the call %v needs a name of its own", step["call"])
	}
	c.calls[call] = true
	options, _ := step["options"].(map[string]any)
	for option := range options {
		if !slices.Contains(runOptions, option) {
			return fmt.Errorf("there is no option %q", option)
		}
	}
	fn, _ := step["fn"].([]any)
	for i, inner := range fn {
		if err := c.step(inner, true); err != nil {
			return fmt.Errorf("fn, step %d: %w", i+1, err)
		}
		if ends := endsFn(inner); ends != (i == len(fn)-1) {
			return fmt.Errorf("fn, step %d: the last step says what fn comes to, and no other", i+1)
		}
	}
	return nil
}

func endsFn(step any) bool {
	do, _ := step.(map[string]any)["do"].(string)
	return slices.Contains([]string{"return", "throw", "throw_timeout", "throw_cancelled", "crash"}, do)
}

func checkWork(value any) error {
	var work struct {
		Kind    string   `json:"kind"`
		Code    string   `json:"code"`
		Message string   `json:"message"`
		Outcome *Outcome `json:"outcome"`
	}
	if err := convert(value, &work); err != nil {
		return err
	}
	if !slices.Contains(kindsOfWork, work.Kind) {
		return fmt.Errorf("there is no work %q", work.Kind)
	}
	if work.Kind == "completed" && (work.Outcome == nil || work.Code != "" || work.Message != "") {
		return errors.New("completed work has an outcome and nothing else")
	}
	return nil
}

func (c *checker) hostStep(do string, value map[string]any) error {
	var step Step
	if err := convert(value, &step); err != nil {
		return err
	}
	if step.Method != "" && !slices.Contains(Methods, step.Method) {
		return fmt.Errorf("there is no method %q", step.Method)
	}
	if !slices.Contains(reasons, step.Reason) {
		return fmt.Errorf("there is no reason %q", step.Reason)
	}
	switch do {
	case "fault":
		_, err := step.AsFault()
		return err
	case "await_calls":
		if step.Code != "" && step.Started {
			return errors.New("what has only started has no code")
		}
	case "listener", "database":
		if step.State != "down" && step.State != "up" {
			return fmt.Errorf("there is no state %q", step.State)
		}
	case "await_state":
		_, err := ParseState(step.State)
		return err
	case "other_begin":
		c.others[step.As] = true
		_, err := ParseAction(step.OnLeaseExpiry)
		return err
	case "other_complete", "other_fail", "other_renew":
		if step.Failure != nil && !slices.Contains(dispositions, step.Failure.Disposition) {
			return fmt.Errorf("there is no disposition %q", step.Failure.Disposition)
		}
		return c.named(c.others, step.As)
	}
	needsOwn := do == "database" || do == "kill_replica" || do == "start_replica"
	if needsOwn && !c.ownService {
		return errors.New("only with own_service")
	}
	return nil
}

// Whether the words in what is expected are known ones, and stand alone.
func checkExpect(value any) error {
	object, ok := value.(map[string]any)
	if !ok {
		return nil
	}
	for member, inner := range object {
		if !strings.HasPrefix(member, "$") {
			if err := checkExpect(inner); err != nil {
				return err
			}
			continue
		}
		known := []string{"$absent", "$present", "$at_least", "$at_most", "$in", "$not"}
		if !slices.Contains(known, member) || len(object) > 1 {
			return fmt.Errorf("expect: %s is unknown or does not stand alone", member)
		}
	}
	return nil
}

// Reads a value that came from JSON into a type of ours.
func convert(value, into any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return Decode(bytes.NewReader(text), into)
}
