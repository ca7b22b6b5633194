package scenario

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

const (
	// Merchant is whose keys the words in the files stand for.
	Merchant = "acme"
	// What a text may come to, so that a slip of the pen in a file does not fill the memory.
	longestText = 64 << 20
	uniqueText  = "abcdefghijklmnopqrstuvwxyz0123456789"
)

// Expand fills in the steps for one session: long texts, and keys that no other session has, which end
// in suffix.
func (s Scenario) Expand(suffix string) ([]any, error) {
	expanded, err := expand(s.Steps, suffix)
	if err != nil {
		return nil, err
	}
	return expanded.([]any), nil
}

// Never changes what it is given: sessions share the scenario.
func expand(value any, suffix string) (any, error) {
	switch value := value.(type) {
	case []any:
		list := make([]any, len(value))
		for i, element := range value {
			var err error
			if list[i], err = expand(element, suffix); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		return expandObject(value, suffix)
	default:
		return value, nil
	}
}

func expandObject(object map[string]any, suffix string) (any, error) {
	if arguments, ok := object["$repeat"]; ok && len(object) == 1 {
		return repeat(arguments)
	}
	if length, ok := object["$unique"]; ok && len(object) == 1 {
		return unique(length)
	}
	_, isStep := object["do"]
	expanded := make(map[string]any, len(object))
	for name, member := range object {
		if word, ok := member.(string); ok && isStep && name == "key" {
			expanded[name] = map[string]any{"merchant_id": Merchant, "idempotency_key": word + "-" + suffix}
			continue
		}
		var err error
		if expanded[name], err = expand(member, suffix); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return expanded, nil
}

func repeat(arguments any) (any, error) {
	list, ok := arguments.([]any)
	if !ok || len(list) != 2 {
		return nil, fmt.Errorf("$repeat takes [text, times], not %v", arguments)
	}
	text, ok := list[0].(string)
	if !ok {
		return nil, fmt.Errorf("$repeat repeats a text, not %v", list[0])
	}
	times, err := count(list[1])
	if err != nil || times*len(text) > longestText {
		return nil, fmt.Errorf("$repeat cannot repeat %v times", list[1])
	}
	return strings.Repeat(text, times), nil
}

func unique(argument any) (any, error) {
	length, err := count(argument)
	if err != nil || length < 16 || length > longestText {
		return nil, fmt.Errorf("$unique takes a length of 16 or more, not %v", argument)
	}
	text := make([]byte, length)
	for i := range text {
		text[i] = uniqueText[rand.IntN(len(uniqueText))]
	}
	return string(text), nil
}

func count(value any) (int, error) {
	number, ok := value.(json.Number)
	if !ok {
		return 0, fmt.Errorf("%v is no number", value)
	}
	count, err := number.Int64()
	if err != nil || count < 0 || count > longestText {
		return 0, fmt.Errorf("%v is no count", value)
	}
	return int(count), nil
}

// Least is how many steps a runner that plays the scenario to its end posts to the host, and how many
// answers it has judged. Those within fn are not counted: whether fn runs is for the service to say.
func (s Scenario) Least() (posted, judged int) {
	for _, value := range s.Steps {
		step, _ := value.(map[string]any)
		do, _ := step["do"].(string)
		_, expects := step["expect"]
		background, _ := step["background"].(bool)
		switch {
		case IsHostStep(do):
			posted++
		case expects && !background:
			judged++
		}
	}
	return posted, judged
}
