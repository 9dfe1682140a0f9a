package release

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/design/mutants.md and testdata/*.golden")

// mutantSeeds are how many random histories are played for a rule that no named
// history catches.
const mutantSeeds = 300

// TestEveryRuleIsNeeded takes each rule of the planner out in turn, and asks that a
// named history, or else a random one, fails without it. docs/design/mutants.md
// holds what catches what; -update writes it.
func TestEveryRuleIsNeeded(t *testing.T) {
	var doc strings.Builder
	doc.WriteString("# Mutants of the planner\n\n" +
		"Each rule of `internal/release` is taken out in turn, and every named history is played without it. The table is\n" +
		"written by `go test ./internal/release -run TestEveryRuleIsNeeded -update`, and the test fails when a rule can be\n" +
		"taken out unnoticed, or has no row here.\n\n" +
		"| rule taken out | what fails without it |\n|---|---|\n")
	for i, r := range rules {
		rest := slices.Delete(slices.Clone(rules), i, i+1)
		catches := caughtBy(rest)
		if len(catches) == 0 {
			t.Errorf("nothing fails without the rule %q", r.name)
		}
		fmt.Fprintf(&doc, "| %s | %s |\n", r.name, strings.Join(catches, "; "))
	}
	path := filepath.Join("..", "..", "docs", "design", "mutants.md")
	if *update {
		was, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, ok := strings.Cut(string(was), "\n## "); ok { // what people wrote
			doc.WriteString("\n## " + rest)
		}
		if err := os.WriteFile(path, []byte(doc.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		if !strings.Contains(string(was), "| "+r.name+" |") {
			t.Errorf("%s has no row for the rule %q: run this test with -update", path, r.name)
		}
	}
}

// caughtBy names the first three histories that fail with some rules; the long ones of
// the limits are played for what no other catches.
func caughtBy(rules []rule) []string {
	var names []string
	for _, h := range histories {
		if len(names) < 3 && playTale(h.play, rules).err != nil {
			names = append(names, h.name)
		}
	}
	for _, h := range limits {
		if len(names) == 0 && playTale(h.play, rules).err != nil {
			names = append(names, h.name)
		}
	}
	if len(names) > 0 {
		return names
	}
	for seed := range uint64(mutantSeeds) {
		if playSeed(seed, rules).err != nil {
			return []string{fmt.Sprintf("random history %d", seed)}
		}
	}
	return nil
}
