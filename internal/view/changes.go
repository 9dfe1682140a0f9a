package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/heighliner/heighliner/internal/status"
)

// Change is a change to a release between two views of a service.
type Change struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Release string `json:"release"`
	Class   Class  `json:"class"`
	// Text describes the new state.
	Text string `json:"text"`
}

// Changes returns the changes from one view of a service to the next, in the order of the groups and
// releases. Removed releases come last. A difference in the age of a state is not a change. If before is
// empty, all releases count as changed.
func Changes(before, after Service) (out []Change) {
	known := map[string]string{}
	for _, g := range slices.Concat(before.Groups, before.Previews) {
		for _, r := range g.Releases {
			known[r.Name] = r.fingerprint()
		}
	}
	for _, g := range slices.Concat(after.Groups, after.Previews) {
		for _, r := range g.Releases {
			if known[r.Name] != r.fingerprint() {
				out = append(out, Change{Group: g.Name, Version: r.Version, Release: r.Name, Class: r.State.Class, Text: r.changed()})
			}
			delete(known, r.Name)
		}
	}
	for _, g := range slices.Concat(before.Groups, before.Previews) {
		for _, r := range g.Releases {
			if _, gone := known[r.Name]; gone {
				out = append(out, Change{Group: g.Name, Version: r.Version, Release: r.Name, Class: Stable, Text: "removed"})
			}
		}
	}
	return out
}

// fingerprint returns a string with the values of a release whose changes are reported.
func (r Release) fingerprint() string {
	s := r.State
	weight := func(w *int32) string {
		if w == nil {
			return ""
		}
		return fmt.Sprint(*w)
	}
	return strings.Join([]string{r.Status, string(s.Word), s.Reason, s.Detail, s.By, s.Note, fmt.Sprint(s.Step), weight(r.Share.Asked), weight(r.Share.Programmed), fmt.Sprint(r.Share.Withheld)}, "\x00")
}

// changed describes the current state of a release in one line.
func (r Release) changed() string {
	text := r.Status
	if r.Share.Asked != nil {
		text += fmt.Sprintf(" %d%%", *r.Share.Asked)
		if r.Share.Programmed != nil && *r.Share.Programmed == *r.Share.Asked {
			text += " programmed"
		}
	}
	if s := r.State; s.Word != WordActive {
		text += ", " + s.Sentence
	}
	return status.Line(text)
}
