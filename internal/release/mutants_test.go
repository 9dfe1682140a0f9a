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

// mutantSeeds is the number of random histories that are run for a rule if no named
// history fails without the rule.
const mutantSeeds = 300

// TestEveryRuleIsNeeded removes each rule of the planner in turn, and checks that a
// named history or, if there is none, a random history fails without the rule. docs/design/mutants.md
// lists the results. With -update, the test writes that file.
func TestEveryRuleIsNeeded(t *testing.T) {
	var doc strings.Builder
	doc.WriteString("# Mutants of the planner\n\n" +
		"`go test ./internal/release -run TestEveryRuleIsNeeded -update` removes each rule of `internal/release` in turn,\n" +
		"runs every named history without it, and writes this table. Without `-update`, the test fails if no history\n" +
		"detects the removal of a rule, or if a rule has no row here.\n\n" +
		"| removed rule | histories that fail without it |\n|---|---|\n")
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
		if _, rest, ok := strings.Cut(string(was), "\n## "); ok { // the part that is not generated
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

// caughtBy returns the names of the first three histories that fail with a list of rules. The long histories
// in limits are run only if no other history fails.
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
