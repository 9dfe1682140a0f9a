package view

import "testing"

// TestNamesGroup checks that a message names a group wherever the name is in a sentence, and that a longer name is another group.
func TestNamesGroup(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]bool{
		"group 1.x has no active release yet":        true,
		"the active release is missing in group 1.x": true,
		"no release in group 1.x.":                   true,
		"in group 1.x, no release is active":         true,
		"group 1.x: no active release":               true,
		"group 1.x.y has no active release":          false,
		"group 1.x-beta has no active release":       false,
		"group 1.xy, then group 1.x":                 true,
		"1.x has no active release":                  false,
		"":                                           false,
	} {
		if got := namesGroup(message, "1.x"); got != want {
			t.Errorf("%q: %t, want %t", message, got, want)
		}
	}
}
