package web

import (
	"net/http"
	"slices"

	"github.com/heighliner/heighliner/internal/view"
)

// choice is a possible target of an action, as an option of a select element.
type choice struct {
	// Value is the target. Label is the version that readers see.
	Value, Label string
	Selected     bool
}

// errNoTarget is the error for an action without a target if the reader must choose one.
var errNoTarget = &Problem{Status: http.StatusBadRequest, Title: "A choice is required", Text: "Choose a version or a group. Nothing was changed."}

// aim sets the choices that are offered to the reader. If the action has no target, and only one target is possible, aim sets that target. The
// form submits the target that the preview shows.
func (q *request) aim() {
	q.choices = nil
	switch q.Verb {
	case "pin":
		q.aimPin()
	case "unpin":
		q.aimUnpin()
	case "rollback":
		q.aimBack()
	case "continue", "adopt", "deprecate", "retry":
		if found := fitting(q.service, q.Verb); q.Target == "" && len(found) == 1 {
			q.Target = nameOf(q.service, found[0])
		}
	}
	if i := slices.IndexFunc(q.choices, func(c choice) bool { return c.Value == q.chosen() }); i >= 0 {
		q.choices[i].Selected = true
	}
}

// aimPin sets the choices for a pin. A release is identified by its version if no other release has the same
// version.
func (q *request) aimPin() {
	q.choices = versionsOf(q.service)
	if r := releaseOf(q.service, q.Target); r != nil {
		q.Target = nameOf(q.service, *r)
	}
	if q.Target == "" || slices.ContainsFunc(q.choices, func(c choice) bool { return c.Value == q.Target }) {
		return
	}
	label := q.Target
	if r := releaseOf(q.service, q.Target); r != nil {
		label = cut(r.Version) + " (" + r.Name + ")"
	}
	q.choices = append(q.choices, choice{Value: q.Target, Label: label})
}

// aimUnpin sets the choices for the unpin action if several groups are pinned.
func (q *request) aimUnpin() {
	for i := range q.moments.data.Microservices {
		ms := &q.moments.data.Microservices[i]
		for j := range ms.Status.ReleaseGroups {
			g := &ms.Status.ReleaseGroups[j]
			if p := view.PinOf(ms, g, q.moments.now); ms.Namespace == q.Namespace && ms.Name == q.Act.Service && p != nil {
				q.choices = append(q.choices, choice{Value: g.Name, Label: g.Name + ", pinned to " + versionOf(q.service, p.Version+p.Release)})
			}
		}
	}
	if len(q.choices) == 1 {
		q.choices = nil
	}
}

// byGroup reports whether the choices are groups. Otherwise, they are versions.
func (q *request) byGroup() bool { return q.Verb == "unpin" && len(q.choices) > 0 }

// chosen returns the reader's choice, which is a target or a group.
func (q *request) chosen() string {
	if q.byGroup() {
		return q.Group
	}
	return q.Target
}

// aimBack sets the choices and the target of a rollback. If a version is selected, the target is the release of that version. Otherwise, it is the
// active release during a rollout, and the previously active release at other times.
func (q *request) aimBack() {
	var last, active, named []string
	targets := view.RollbackTargets(q.moments.data.Input, q.Namespace, q.Act.Service)
	groups := map[string]bool{}
	for _, t := range targets {
		if q.Group != "" && t.Group != q.Group {
			continue
		}
		groups[t.Group] = true
		if t.Last {
			last = append(last, t.Release)
		}
		if t.Active {
			active = append(active, t.Release)
		}
		if t.Version == q.Target || cut(t.Version) == q.Target {
			named = append(named, t.Release)
		}
		q.choices = append(q.choices, choice{Value: t.Release, Label: cut(t.Version)})
	}
	labelled(q.choices, targets, len(groups) > 1)
	switch {
	case q.Target == "" && len(active) == 1: // The reader wants to end the rollout.
		q.Target = active[0]
	case q.Target == "" && len(last) == 1:
		q.Target = last[0]
	case len(named) == 1:
		q.Target = named[0]
	}
}

// labelled completes the labels of choices by adding the group if groups is true, a note about the active release, and the name of the
// release if several choices have the same version.
func labelled(choices []choice, targets []view.RollbackTarget, groups bool) {
	count := map[string]int{}
	for _, c := range choices {
		count[c.Label]++
	}
	for i := range choices {
		c := &choices[i]
		t := targets[slices.IndexFunc(targets, func(t view.RollbackTarget) bool { return t.Release == c.Value })]
		same := count[c.Label] > 1
		if groups {
			c.Label += " of " + t.Group
		}
		if t.Active {
			c.Label += ", active now"
		}
		if same {
			c.Label += " (" + t.Release + ")"
		}
	}
}

// versionsOf returns the versions to which a service can be pinned.
func versionsOf(x *view.Service) (out []choice) {
	for _, g := range x.Groups {
		for _, r := range g.Releases {
			if r.Status != "error" && !slices.ContainsFunc(out, func(c choice) bool { return c.Value == r.Version }) {
				out = append(out, choice{Value: r.Version, Label: cut(r.Version)})
			}
		}
	}
	return out
}

// fitting returns the releases whose status allows a decision.
func fitting(x *view.Service, verb string) (out []view.Release) {
	for _, g := range slices.Concat(x.Groups, x.Previews) {
		for _, r := range g.Releases {
			unfinished := r.Status == "canary" || r.Status == "pending"
			fits := map[string]bool{
				"continue": r.Status == "canary" && r.Rollout != nil && r.Rollout.Step > 0, "adopt": unfinished && r.Rollout != nil,
				"deprecate": unfinished, "retry": r.Status == "error",
			}
			if fits[verb] {
				out = append(out, r)
			}
		}
	}
	return out
}

// nameOf returns the version of a release, or its name if the service has several releases of that version.
func nameOf(x *view.Service, r view.Release) string {
	n := 0
	for _, g := range slices.Concat(x.Groups, x.Previews) {
		for _, other := range g.Releases {
			if other.Version == r.Version {
				n++
			}
		}
	}
	if n > 1 {
		return r.Name
	}
	return r.Version
}

// releaseOf returns the release of a service with the given name, or nil.
func releaseOf(x *view.Service, name string) *view.Release {
	for _, g := range slices.Concat(x.Groups, x.Previews) {
		for i := range g.Releases {
			if g.Releases[i].Name == name {
				return &g.Releases[i]
			}
		}
	}
	return nil
}

// versionOf returns the version of the release with the given name. If the service has no such release, it returns the name.
func versionOf(x *view.Service, name string) string {
	if r := releaseOf(x, name); r != nil {
		return cut(r.Version)
	}
	return name
}

// label returns the version of the target for the heading of a form; empty if the reader can choose in the form.
func (q *request) label() string {
	if q.Verb == "pin" || q.Verb == "rollback" {
		return ""
	}
	return versionOf(q.service, q.Target)
}

// aimed rejects an action without a target, and a rollback to a release that was never active or is not retained.
func (q *request) aimed() error {
	switch {
	case q.chosen() == "" && len(q.choices) > 0:
		return errNoTarget
	case q.Verb != "rollback" || slices.ContainsFunc(q.choices, func(c choice) bool { return c.Value == q.Target }):
		return nil
	case q.Target == "":
		return &Problem{Status: http.StatusConflict, Title: "There is no release to roll back to", Text: q.Act.Service + " has no other release that was active and is retained. To run another version, pin it; to stop a canary, deprecate it."}
	}
	return &Problem{Status: http.StatusConflict, Title: "This is not a rollback", Text: versionOf(q.service, q.Target) + " was not active before, or is not retained. Choose another version, or use Pin."}
}
