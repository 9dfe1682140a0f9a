package microservice

import (
	"slices"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
)

// plan contains the writes for one Microservice.
type plan struct {
	release.Result
	// adoption is the progress of the takeover from a Deployment; nil if there is no takeover, or if it is complete.
	adoption *adoption
}

// newPlan computes the plan of a reconcile. It is pure.
func newPlan(o *observed, now time.Time) plan {
	p := plan{Result: release.Plan(o.facts, now)}
	if o.adopting {
		p.adoption = adopt(o, now)
	}
	return p
}

// startsInLine reports whether a plan starts only new versions, which wait for their turn while many other rollouts are starting. The
// result is true for the first release of a new Microservice, and for a new version while all groups are stable. It is false for
// previews, pinned Microservices, changes to the specification or the configuration, decisions, releases that are created again, groups
// without an available active release, the replacement of a denied version, and a takeover from a Deployment. startsInLine is pure.
func startsInLine(o *observed, p plan) bool {
	if o.adopting || len(o.facts.Spec.Pins) > 0 {
		return false
	}
	creates := false
	for _, e := range p.Ensure {
		if !e.Create {
			continue
		}
		creates = true
		if offer := o.offered[e.Release]; offer == nil || offer.Level == v1alpha1.LevelPreview || hasVersion(o.facts.State, e.Slug, offer.SemVer.Version) {
			return false
		}
	}
	if len(o.facts.State.Groups) == 0 {
		return creates && len(o.facts.Objects) == 0
	}
	return creates && o.ms.Status.ObservedGeneration == o.ms.Generation && !slices.ContainsFunc(o.facts.State.Groups, o.unstable) && !slices.ContainsFunc(o.facts.Objects, o.undecided)
}

// hasVersion reports whether a group has a release of a version.
func hasVersion(s release.State, slug, version string) bool {
	return slices.ContainsFunc(s.Groups, func(g release.Group) bool {
		return g.Slug == slug && slices.ContainsFunc(g.Releases, func(r release.Row) bool { return r.Version == version })
	})
}

// unstable reports whether a group may require other changes before a new version starts, because the group is not live or has
// a rollout or a pending release, or because its active release is missing, not available, or no longer offered.
func (o *observed) unstable(g release.Group) bool {
	active := g.ActiveRow()
	return g.Phase != release.Live || g.Rollout != nil || active == nil || !active.Available || o.offered[active.Release] == nil ||
		slices.ContainsFunc(g.Releases, func(r release.Row) bool { return r.Status == release.Pending })
}

// undecided reports whether a release has a decision that has not been handled yet.
func (o *observed) undecided(c release.Object) bool {
	return c.Decision != nil && !slices.ContainsFunc(o.facts.State.Groups, func(g release.Group) bool {
		r := g.Row(c.Release)
		return r != nil && r.Decision != nil && r.Decision.ID == c.Decision.ID
	})
}

// settled reports whether no rollout is starting: each has ended, has reached a step with a pause or an approval, or is waiting,
// for example for a hook. At the ConfirmRollout gate, a rollout is still starting, because its pods do not exist yet.
func settled(o *observed, p plan) bool {
	steps := o.facts.Spec.Steps
	return !slices.ContainsFunc(p.State.Groups, func(g release.Group) bool {
		run := g.Rollout
		switch {
		case run == nil:
			return o.unconfirmed(g)
		case run.Gate == release.ConfirmRollout:
			return true
		case run.Step > 0 && run.Step <= len(steps) && (steps[run.Step-1].Pause > 0 || steps[run.Step-1].Approval):
			return false
		}
		return !slices.ContainsFunc(p.Notes, func(n release.Note) bool {
			return n.Slug == g.Slug && !n.Event && waits[n.Reason] != "" && n.Reason != release.Unhealthy
		})
	})
}

// unconfirmed reports whether any NetworkPolicy has not yet confirmed the traffic of the first release of a group. This release
// becomes active before the confirmation (rule 12), while its Services and routes are still being written. Each NetworkPolicy
// reports all groups as soon as it has observed them.
func (o *observed) unconfirmed(g release.Group) bool {
	active := g.ActiveRow()
	return active != nil && active.Reason == release.First && g.TrafficRevision > g.SettledRevision && slices.ContainsFunc(o.facts.Policies, func(p release.Policy) bool {
		return p.Unreported || !slices.ContainsFunc(p.Groups, func(r release.Report) bool { return r.Slug == g.Slug && r.Revision >= g.TrafficRevision })
	})
}

// inLine returns the planner's input for a Microservice that waits in line. In this input, the ImagePolicy does not offer the new
// versions yet. Versions that already have a release or are the target of a group are still offered. inLine is pure.
func inLine(o *observed) release.Observed {
	facts := o.facts
	facts.SourceStale = true
	facts.Candidates = slices.DeleteFunc(slices.Clone(facts.Candidates), func(c release.Candidate) bool {
		return o.objects[c.Release] == nil && !slices.ContainsFunc(facts.State.Groups, func(g release.Group) bool {
			return g.Target.Release == c.Release || g.Row(c.Release) != nil
		})
	})
	return facts
}

// standing returns the notes about versions that would not start even if the Microservice did not wait in line.
func standing(notes []release.Note) []release.Note {
	reasons := []release.Reason{release.TooManyGroups, release.TooManyReleases, release.TogetherHeld}
	return slices.DeleteFunc(slices.Clone(notes), func(n release.Note) bool { return n.Event || !slices.Contains(reasons, n.Reason) })
}

func planned(plan release.Result, name string) bool {
	return slices.ContainsFunc(plan.Ensure, func(e release.Ensure) bool { return e.Release == name }) ||
		slices.ContainsFunc(plan.Retire, func(x release.Retire) bool { return x.Release == name })
}
