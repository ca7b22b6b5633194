// Package table makes the table of client/README.md: which scenarios each client has passed.
package table

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"idempotencyd/tests/harness/host"
	"idempotencyd/tests/harness/scenario"
)

// The lines between which the table stands in the page.
const (
	Begin = "<!-- scenario table: written by ./dev scenarios table from what passed -->"
	End   = "<!-- end of the scenario table -->"
)

// Of the languages that are not written as they are named.
var titles = map[string]string{
	"cpp": "C++", "go": "Go", "java": "Java", "python": "Python", "python-async": "Python (asyncio)",
	"typescript": "TypeScript",
}

// Table is Markdown: a row for each theme, a column for each language, and below it what did not pass.
func Table(scenarios []scenario.Scenario, results map[string]map[string]host.Result) string {
	languages := make([]string, 0, len(results))
	for language := range results {
		languages = append(languages, language)
	}
	slices.Sort(languages)
	var themes, missed []string
	all := map[string]int{}
	passed := map[[2]string]int{}
	for _, one := range scenarios {
		theme, _, _ := strings.Cut(one.Name, "/")
		if all[theme] == 0 {
			themes = append(themes, theme)
		}
		all[theme]++
		for _, language := range languages {
			if results[language][one.Name].Passed {
				passed[[2]string{theme, language}]++
			} else {
				missed = append(missed, fmt.Sprintf("- %s: %s", title(language), one.Name))
			}
		}
	}
	var text strings.Builder
	text.WriteString("| scenarios |")
	for _, language := range languages {
		text.WriteString(" " + title(language) + " |")
	}
	text.WriteString("\n|---|" + strings.Repeat("---:|", len(languages)) + "\n")
	for _, theme := range themes {
		fmt.Fprintf(&text, "| [%s](scenarios/%s.json) |", strings.ReplaceAll(theme, "_", " "), theme)
		for _, language := range languages {
			fmt.Fprintf(&text, " %d of %d |", passed[[2]string{theme, language}], all[theme])
		}
		text.WriteString("\n")
	}
	if len(missed) > 0 {
		slices.Sort(missed)
		text.WriteString("\nNot passed:\n\n" + strings.Join(missed, "\n") + "\n")
	}
	return text.String()
}

func title(language string) string {
	if title, found := titles[language]; found {
		return title
	}
	return language
}

// Replace gives the page with the table between its two lines.
func Replace(page, table string) (string, error) {
	before, rest, found := strings.Cut(page, Begin+"\n")
	_, after, ends := strings.Cut(rest, End)
	if !found || !ends {
		return "", errors.New("the page has no place for the table: " + Begin + " … " + End)
	}
	return before + Begin + "\n" + table + End + after, nil
}
