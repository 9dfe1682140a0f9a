package web

import (
	"slices"

	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/text"
)

// abouts describes the effect of each action, for buttons and forms.
var abouts = map[string]string{
	"continue":  "Completes the current step: approves it, or ends its pause. The next steps still follow.",
	"adopt":     "Skips the remaining steps: the release becomes active as soon as all its pods are available.",
	"deprecate": "Aborts this rollout: the active release gets all traffic, and this version does not start again until a user retries it.",
	"retry":     "Restarts the failed release from its first step.",
	"pin":       "Keeps the group at one version. Newer versions wait until the pin ends or is removed.",
	"unpin":     "Removes the pin: the group moves to the newest version. A version that was active before returns without canary steps.",
	"rollback":  "Returns to a version that was active before, with its configuration and without canary steps. The group is pinned to it.",
	"pause":     "Stops everything that starts automatically: new releases, steps and promotions. Rollbacks, and the decisions Adopt and Deprecate, still work.",
	"resume":    "Ends the pause: releases start and continue again.",
	"freeze":    "No new release starts and no canary gets more traffic until the freeze ends. Rollbacks still work.",
	"thaw":      "Ends the freeze. Everything that is waiting for it to end continues.",
}

// pin is a pin of a service, with the pinned version.
type pin struct {
	view.Pin
	Version string
}

// pinsOf returns the pins that the headline of a service does not show.
func pinsOf(x view.Service) (out []pin) {
	for _, p := range x.Pins {
		shown := pin{p, p.Version}
		if p.Version == "" {
			shown.Version = versionOf(&x, p.Release)
		}
		if x.State.Word != view.WordPinned || x.State.Version != status.Short(shown.Version) {
			out = append(out, shown)
		}
	}
	return out
}

// brief returns the sentence that describes a release. It omits the details of a pin, which the
// headline and the notices of the service show.
func brief(r view.Release) string {
	if r.State.Word == view.WordPinned {
		return "pinned"
	}
	return text.Sentence(r)
}

// result returns the sentence that describes a rollout in the history. It omits the details of a
// pin, which the page shows elsewhere.
func result(s view.State) string {
	if s.Word == view.WordPinned {
		return "active, pinned"
	}
	return s.Sentence
}

// problemsOf returns a service's problems. If several problems have the same object and reason, it returns one of them, with the most detailed message.
func problemsOf(x view.Service) (out []view.Problem) {
	for _, p := range x.Problems {
		i := slices.IndexFunc(out, func(other view.Problem) bool { return other.Object == p.Object && other.Reason == p.Reason })
		switch {
		case i < 0:
			out = append(out, p)
		case len(p.Message) > len(out[i].Message):
			out[i].Message = p.Message
		}
	}
	return out
}
