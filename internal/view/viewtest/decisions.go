package viewtest

import (
	"maps"
	"slices"
	"strconv"

	"github.com/heighliner/heighliner/internal/release"
)

// Moment is a service at a moment in its history, with a function that returns how the planner
// handles a decision at that moment.
type Moment struct {
	Story
	// Decide returns the outcome of a decision about the release with the given name or version. It returns "" if the planner does not handle the
	// decision.
	Decide func(action, release string) string
}

// Decisions runs all histories, and returns the moments at which something changed.
func Decisions() (out []Moment) {
	for _, all := range []map[string]func(*world){stories, situations} {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			w := newWorld("shop")
			w.seen = func() {
				out = append(out, Moment{Story{Name: name, Input: w.input(), Now: w.now}, w.decisions()})
			}
			all[name](w)
			w.seen()
		}
	}
	return out
}

// decisions returns a function that tries decisions at the current moment.
func (w *world) decisions() func(action, release string) string {
	const id = "a decision"
	o, now := w.observed(), w.now
	return func(action, name string) string {
		o := o
		o.Objects = slices.Clone(o.Objects)
		for i := range o.Objects {
			c := &o.Objects[i]
			if c.Release != name && c.Version != name {
				continue
			}
			c.Decision = &release.Decision{Action: release.Action(action), ID: id, By: "bob"}
			for _, g := range o.State.Groups {
				if g.Rollout != nil && g.Rollout.Release == c.Release && action == string(release.Continue) {
					c.Decision.Step = strconv.Itoa(g.Rollout.Step)
				}
			}
		}
		for _, g := range release.Plan(o, now).State.Groups {
			for _, r := range g.Releases {
				if r.Decision != nil && r.Decision.ID == id {
					return r.Decision.Outcome
				}
			}
		}
		return ""
	}
}
