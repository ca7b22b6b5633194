package scenario

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
)

// Judge compares what came with what was expected. One for each session: it remembers what the words
// ("$x") stood for. Safe for concurrent use. Its values are those of encoding/json, numbers as
// json.Number.
type Judge struct {
	mutex sync.Mutex
	words map[string]any
}

// Compare returns "" if actual is as expected, else what differs. A nil expect expects nothing.
func (j *Judge) Compare(expect, actual any) string {
	if expect == nil {
		return ""
	}
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if j.words == nil {
		j.words = map[string]any{}
	}
	// What a comparison that fails has bound does not count.
	bound := map[string]any{}
	problem := j.compare("", expect, actual, bound)
	if problem == "" {
		for word, value := range bound {
			j.words[word] = value
		}
	}
	return problem
}

// Whether what is expected is a word that stands for a value.
func isWord(expect any) (string, bool) {
	word, ok := expect.(string)
	return word, ok && len(word) > 1 && strings.HasPrefix(word, "$")
}

// Bound is nil where no word may take its value: within $not and $in.
func (j *Judge) compare(path string, expect, actual any, bound map[string]any) string {
	if word, ok := isWord(expect); ok {
		return j.compareWord(path, word, actual, bound)
	}
	expected, ok := expect.(map[string]any)
	if !ok {
		if !equal(expect, actual) {
			return fmt.Sprintf("%s is %s, expected %s", name(path), short(actual), short(expect))
		}
		return ""
	}
	for operator, argument := range expected {
		if strings.HasPrefix(operator, "$") {
			if len(expected) > 1 {
				return fmt.Sprintf("%s: %s stands beside other members", name(path), operator)
			}
			return j.operate(path, operator, argument, actual, bound)
		}
	}
	return j.compareMembers(path, expected, actual, bound)
}

func (j *Judge) compareMembers(path string, expected map[string]any, actual any, bound map[string]any) string {
	object, ok := actual.(map[string]any)
	if !ok {
		return fmt.Sprintf("%s is %s, expected an object with %s", name(path), short(actual), short(expected))
	}
	var problems []string
	for _, member := range sortedNames(expected) {
		inner := member
		if path != "" {
			inner = path + "." + member
		}
		// A member that is null is taken for one that is not there.
		if problem := j.compare(inner, expected[member], object[member], bound); problem != "" {
			problems = append(problems, problem)
		}
	}
	return strings.Join(problems, "; ")
}

func (j *Judge) compareWord(path, word string, actual any, bound map[string]any) string {
	value, known := j.words[word]
	if !known {
		value, known = bound[word]
	}
	switch {
	case known && !equal(value, actual):
		return fmt.Sprintf("%s is %s, but %s is %s", name(path), short(actual), word, short(value))
	case known:
		return ""
	case bound == nil:
		return fmt.Sprintf("%s: %s has no value yet", name(path), word)
	case actual == nil:
		return fmt.Sprintf("%s is absent, so that %s gets no value", name(path), word)
	}
	bound[word] = actual
	return ""
}

func (j *Judge) operate(path, operator string, argument, actual any, bound map[string]any) string {
	switch operator {
	case "$absent", "$present":
		wanted, ok := argument.(bool)
		if !ok {
			return fmt.Sprintf("%s: %s takes true or false", name(path), operator)
		}
		if (actual == nil) == (wanted == (operator == "$absent")) {
			return ""
		}
		if actual == nil {
			return fmt.Sprintf("%s is absent", name(path))
		}
		return fmt.Sprintf("%s is %s, expected none", name(path), short(actual))
	case "$at_least", "$at_most":
		return compareBound(path, operator, argument, actual)
	case "$in":
		list, ok := argument.([]any)
		if !ok {
			return fmt.Sprintf("%s: $in takes a list", name(path))
		}
		for _, element := range list {
			if j.compare(path, element, actual, nil) == "" {
				return ""
			}
		}
		return fmt.Sprintf("%s is %s, expected one of %s", name(path), short(actual), short(argument))
	case "$not":
		if word, ok := isWord(argument); ok {
			if _, known := j.words[word]; !known {
				return fmt.Sprintf("%s: %s has no value yet", name(path), word)
			}
		}
		if j.compare(path, argument, actual, nil) != "" {
			return ""
		}
		return fmt.Sprintf("%s is %s, expected another", name(path), short(actual))
	default:
		return fmt.Sprintf("%s: there is no %s", name(path), operator)
	}
}

func compareBound(path, operator string, argument, actual any) string {
	bound, ok := rational(argument)
	if !ok {
		return fmt.Sprintf("%s: %s takes a number", name(path), operator)
	}
	number, ok := rational(actual)
	if !ok {
		return fmt.Sprintf("%s is %s, expected a number", name(path), short(actual))
	}
	order := number.Cmp(bound)
	if (operator == "$at_least" && order < 0) || (operator == "$at_most" && order > 0) {
		return fmt.Sprintf("%s is %s, expected %s %s", name(path), short(actual),
			strings.ReplaceAll(operator[1:], "_", " "), short(argument))
	}
	return ""
}

func rational(value any) (*big.Rat, bool) {
	number, ok := value.(json.Number)
	if !ok {
		return nil, false
	}
	if len(number) > 40 || strings.ContainsAny(string(number), "eE") {
		// Exactly, such a number could fill the memory.
		float, err := number.Float64()
		return new(big.Rat).SetFloat64(float), err == nil
	}
	return new(big.Rat).SetString(string(number))
}

// Numbers are equal by value (8 and 8.0), all else as it is written.
func equal(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		other, ok := b.(json.Number)
		if !ok {
			return false
		}
		left, leftOK := rational(a)
		right, rightOK := rational(other)
		if leftOK && rightOK {
			return left.Cmp(right) == 0
		}
		return a == other
	case []any:
		list, ok := b.([]any)
		return ok && slices.EqualFunc(a, list, equal)
	case map[string]any:
		object, ok := b.(map[string]any)
		if !ok || len(a) != len(object) {
			return false
		}
		for name, member := range a {
			other, there := object[name]
			if !there || !equal(member, other) {
				return false
			}
		}
		return true
	default:
		// Texts, booleans and null.
		return a == b
	}
}

func name(path string) string {
	if path == "" {
		return "what came"
	}
	return path
}

// The value as JSON, cut where it is long.
func short(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	const most = 300
	if len(text) > most {
		return fmt.Sprintf("%s… (%d bytes)", text[:most], len(text))
	}
	return string(text)
}

func sortedNames(object map[string]any) []string {
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
