package view_test

import (
	"slices"
	"testing"

	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// verbsOf returns the verbs of the actions of a state.
func verbsOf(s view.State) (out []string) {
	for _, a := range s.Next {
		out = append(out, a.Verb)
	}
	return out
}

// commandsOf returns the commands of the actions of a state.
func commandsOf(s view.State) (out []string) {
	for _, a := range s.Next {
		out = append(out, a.Command)
	}
	return out
}

// TestOfferedDecisions checks that the planner applies each decision that a view offers.
func TestOfferedDecisions(t *testing.T) {
	t.Parallel()
	actions := map[string]string{"continue": "Continue", "adopt": "Adopt", "deprecate": "Deprecate", "retry": "Retry"}
	type offer struct{ story, where, verb string }
	seen := map[offer]bool{}
	for _, m := range viewtest.Decisions() {
		svc, ok := view.NewService(m.Input, "shop", "shop", m.Now)
		if !ok {
			t.Fatal(m.Name)
		}
		check := func(where string, st view.State) {
			for _, a := range st.Next {
				key := offer{m.Name, where + string(st.Word), a.Verb}
				if actions[a.Verb] == "" || seen[key] {
					continue
				}
				if out := m.Decide(actions[a.Verb], a.Target); out != "Applied" {
					seen[key] = true
					t.Errorf("%s: %s: %s %q offers %q: %s", m.Name, where, st.Word, st.Sentence, a.Command, out)
				}
			}
		}
		check("service", svc.State)
		for _, g := range slices.Concat(svc.Groups, svc.Previews) {
			check("group "+g.Name, g.State)
			for _, r := range g.Releases {
				check("release "+r.Version, r.State)
			}
		}
	}
}
