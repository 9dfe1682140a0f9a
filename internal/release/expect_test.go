package release

import (
	"slices"
	"strings"
	"testing"
)

// outsideCauses are the simulated failures that are not caused by a release.
var outsideCauses = []Reason{"Unschedulable", "ContainerCreating", "QuotaExceeded", "ImagePullBackOff", "AdmissionUnavailable", "NameConflict", "TrafficNotProgrammed", "NotCreated", "HookUnanswered"}

// denied reports whether a version of a group is withdrawn, according to the facts of a plan.
func denied(o Observed, slug, version string) bool {
	return slices.ContainsFunc(o.Withdrawn, func(x Withdrawal) bool {
		return x.Slug == slug && (x.Version == version || x.Version == "") && (x.Reason == Denied || x.Reason == Gone)
	})
}

// checkOlder checks a write of the rollout state against users' expectations about older versions. A problem outside the newer
// version does not make an older version start or become active. Only a pin, the withdrawal or loss of the newer version, or a
// failure caused by the newer version does.
func (w *world) checkOlder(o Observed, g, h *Group) {
	if h.Level == preview || g.Phase != Live || h.Phase != Live || len(g.Releases) == 0 {
		return
	}
	for i := range h.Releases {
		r := &h.Releases[i]
		was := g.Row(r.Release)
		if was != nil && was.Status != Error && r.Status == Error && slices.Contains(outsideCauses, r.Reason) && !o.Spec.Exclusive {
			w.fail("older: %s fails because of %s, which is a problem outside the release", r.Release, r.Reason)
		}
		ran := g.Rollout != nil && g.Rollout.Release == r.Release
		starts := h.Rollout != nil && h.Rollout.Release == r.Release && !ran
		active := r.Status == Active && !ran && (was == nil || was.Status != Active)
		if !starts && !active || r.Reason == "Rebuilt" || h.Target.Reason == "Pinned" && h.Target.Release == r.Release {
			continue
		}
		names := func(p Pin) bool { return p.names(g.Slug, g.Name, g.PullRequest) }
		if a := g.ActiveRow(); (o.Spec.Paused || o.Spec.Freeze != nil || slices.ContainsFunc(o.Spec.Pins, names)) && was != nil && was.Promoted > 0 && a != nil && denied(o, g.Slug, a.Version) {
			continue // A retained release replaces a denied one. No new release starts. A release that was replaced because of a pin does not start either.
		}
		if newer := w.newerThan(o, g, h, r.Version); newer != "" {
			w.fail("older: %s starts or becomes active (%s), although %s is wanted\n%s%s", r.Release, r.Reason, newer, renderGroup(g), renderGroup(h))
		}
	}
}

// newerThan finds, in a group, a release that is newer than a version and could serve. Such a release is offered or
// in progress, is not withdrawn, and has not failed because of a problem in the release itself.
func (w *world) newerThan(o Observed, g, h *Group, version string) string {
	good := func(release, v, config string) bool {
		r := h.Row(release)
		return compare(v, version) > 0 && !denied(o, g.Slug, v) && !g.forgot(v, config) && !h.forgot(v, config) &&
			(r == nil || r.Status != Error || slices.Contains(outsideCauses, r.Reason))
	}
	for _, c := range o.Candidates {
		if c.Slug == g.Slug && good(c.Release, c.Version, o.Config) {
			return c.Release
		}
	}
	for _, r := range g.Releases {
		current := o.Config == "" || r.Config == o.Config // A release with another template is not a candidate.
		serves := r.Status == Active || current && g.Rollout != nil && g.Rollout.Release == r.Release
		if h.Row(r.Release) == nil && r.Config != o.Config {
			continue // The release failed with another template, so the failure is dropped immediately.
		}
		if h.Row(r.Release) == nil && slices.ContainsFunc(h.Releases, func(x Row) bool { return x.Reason == "Aborted" && compare(x.Version, r.Version) > 0 }) {
			continue // The same write recorded that the release was superseded, and that a user deprecated the release that superseded it.
		}
		if serves && hasObject(o, r.Release) && good(r.Release, r.Version, r.Config) {
			return r.Release
		}
	}
	return ""
}

// checkDenied checks a write of the rollout state against users' expectations about denied versions. A
// denied version is not promoted, gets no additional weight, and has no weight as a canary. A denied active
// release keeps its traffic until another release has taken it over. If the active release is lost and no
// other release has an object, a denied release serves.
func (w *world) checkDenied(o Observed, g, h *Group) {
	if h.Phase != Live {
		return
	}
	for _, r := range h.Releases {
		if !denied(o, g.Slug, r.Version) {
			continue
		}
		was := Row{}
		if x := g.Row(r.Release); x != nil {
			was = *x
		}
		switch {
		case r.Status == Active && was.Status == Active, r.Reason == "Rebuilt", r.Reason == "ActiveLost" && !othersLeft(o, g, r.Release):
		case r.Reason == GroupReopened && slices.Contains(o.Withdrawn, Withdrawal{Slug: g.Slug, Version: r.Version, Reason: Gone}): // It serves until the next release does.
		case r.Status == Active:
			w.fail("denied: %s is withdrawn, and becomes active (%s)\n%s%s", r.Release, r.Reason, renderGroup(g), renderGroup(h))
		case r.Status == Canary && r.Weight > was.Weight:
			w.fail("denied: %s is withdrawn, and gets %d%% after %d%%\n%s%s", r.Release, r.Weight, was.Weight, renderGroup(g), renderGroup(h))
		case (r.Weight > 0 || r.Match || r.Mirror > 0) && !o.Spec.Paused:
			w.fail("denied: %s is withdrawn, and keeps %d%%\n%s%s", r.Release, r.Weight, renderGroup(g), renderGroup(h))
		}
	}
}

// othersLeft reports whether a group has another release that could follow the active release and
// is not withdrawn.
func othersLeft(o Observed, g *Group, release string) bool {
	return slices.ContainsFunc(g.Releases, func(x Row) bool {
		runs := g.Rollout != nil && g.Rollout.Release == x.Release
		return x.Release != release && hasObject(o, x.Release) && (runs || x.Promoted > 0 && x.Status == Deprecated) && !denied(o, g.Slug, x.Version)
	})
}

// checkReturn checks a write of the rollout state against users' expectations about reopened groups and
// failed releases.
func (w *world) checkReturn(o Observed, g, h *Group) {
	if g.Phase == Closing && h.Phase != Closing && (h.Phase == Live || h.Level == preview) {
		best := (*Row)(nil)
		for i := range g.Releases {
			r := &g.Releases[i]
			c := objectOf(o, r.Release)
			// The approval of the commit of an excluded preview may have been removed, so only an offered commit is active again.
			offered := g.Level != preview || r.Reason != Reason(Excluded) || slices.ContainsFunc(o.Candidates, func(x Candidate) bool { return x.Slug == g.Slug && x.Version == r.Version })
			if offered && r.Promoted > 0 && c.Available > 0 && !c.Terminating && c.Replicas > 0 && (best == nil || r.Promoted > best.Promoted) {
				best = r
			}
		}
		if best != nil && !denied(o, g.Slug, best.Version) && h.ActiveRow() == nil && h.Phase == Live && h.Target.Reason != Pinned {
			w.fail("return: group %s is reopened without an active release, although %s was active\n%s%s", g.Slug, best.Release, renderGroup(g), renderGroup(h))
		}
	}
	if g.Level == preview || h.Level == preview {
		return
	}
	for i := range h.Releases {
		r := &h.Releases[i]
		was := g.Row(r.Release)
		if was == nil || !hasObject(o, r.Release) || objectOf(o, r.Release).Terminating || was.Status != Error || r.Status == Error {
			continue
		}
		if r.Decision != nil && r.Decision.Action == Retry && r.Decision.Time.Equal(w.now) || r.Reason == Retried {
			continue
		}
		d := objectOf(o, r.Release).Decision
		if d != nil && d.Action == Retry {
			continue
		}
		w.fail("return: %s failed (%s), and is %s (%s) without a decision\n%s%s", r.Release, was.Reason, r.Status, r.Reason, renderGroup(g), renderGroup(h))
	}
}

// checkNewest checks that, in a stable group without external faults, the newest good version or
// the pinned version is active, or that the group reports what it is waiting for.
func (w *world) checkNewest(o Observed, g *Group, notes []Note) {
	reported := func(reasons ...Reason) bool {
		return slices.ContainsFunc(notes, func(n Note) bool { return (n.Slug == g.Slug || n.Slug == "") && slices.Contains(reasons, n.Reason) })
	}
	if g.Phase != Live || reported("Pinned", "PinnedVersionMissing", "PinnedReleaseFailed", PinsConflict, "TooManyReleases", "TooManyGroups", "GroupExcluded") {
		return
	}
	if g.Rollout != nil && w.away() && g.Row(g.Rollout.Release).Attempt > 0 {
		return // It is retried at increasing intervals, because a gateway accepts nothing.
	}
	if g.Rollout != nil && reported("AwaitingApproval", "AwaitingGroup", "AwaitingGate", "AwaitingTurn", "TrafficLost", "AnalysisInconclusive", "AnalysisNoTraffic", Blocked, "OnlyServing") {
		return
	}
	wanted := ""
	for _, c := range o.Candidates {
		r := g.Row(c.Release)
		switch {
		case slices.ContainsFunc(g.Releases, func(x Row) bool {
			return o.Spec.Exclusive && g.ActiveRow() != nil && x.Status == Error && compare(c.Version, x.Version) < 0
		}): // An older version would need another replacement of pods.
		case c.Slug != g.Slug || denied(o, g.Slug, c.Version) || g.forgot(c.Version, o.Config):
		case r != nil && r.Status == Error:
			if slices.Contains(outsideCauses, r.Reason) && o.Spec.Exclusive {
				return // Neither this release nor an older version starts until a user retries it.
			}
			if slices.Contains(outsideCauses, r.Reason) {
				w.fail("newest: %s of a stable group is in error because of %s, which is a problem outside the release", r.Release, r.Reason)
			}
		case wanted == "" || g.Level != preview && compare(c.Version, wanted) > 0:
			wanted = c.Version
		}
	}
	a := g.ActiveRow()
	switch {
	case wanted == "":
	case a == nil:
		w.fail("newest: stable group %s has no active release, although %s is offered\n%s%v", g.Slug, wanted, renderGroup(g), notes)
	case g.Level == preview && a.Version != wanted, g.Level != preview && compare(a.Version, wanted) < 0, a.Version != wanted && denied(o, g.Slug, a.Version):
		w.fail("newest: stable group %s is at %s, although %s is offered\n%s%v", g.Slug, a.Version, wanted, renderGroup(g), notes)
	}
}

// checkGroups checks, in a stable state, that each offered group exists or the reason why it does not
// exist is reported, and that each denied version that serves is reported.
func (w *world) checkGroups(o Observed, p Result) {
	for i := range p.State.Groups {
		g := &p.State.Groups[i]
		a := g.ActiveRow()
		isDenied := func(x Withdrawal) bool {
			return x.Slug == g.Slug && x.Reason == Denied && (x.Version == "" || x.Version == a.Version)
		}
		if a != nil && g.Phase == Live && slices.ContainsFunc(o.Withdrawn, isDenied) &&
			!slices.ContainsFunc(p.Notes, func(n Note) bool { return n.Slug == g.Slug && n.Reason == DeniedServes && !n.Event }) {
			w.fail("denied: %s is denied and serves, and no state reports it\n%s", a.Release, renderGroup(g))
		}
	}
	for _, c := range o.Candidates {
		if p.State.group(c.Slug) == nil && !w.endedByUser(&Group{Slug: c.Slug, Name: c.Name, PullRequest: c.PullRequest}) && !slices.ContainsFunc(o.Withdrawn, func(x Withdrawal) bool { return x.Slug == c.Slug && x.Version == "" }) &&
			!slices.ContainsFunc(p.Notes, func(n Note) bool {
				return n.Slug == c.Slug && n.Reason == "OlderGroup" || slices.Contains([]Reason{"PinnedVersionMissing", PinsConflict, "TooManyGroups"}, n.Reason)
			}) {
			w.fail("newest: stable group %s does not exist, although %s is offered", c.Slug, c.Version)
		}
	}
}

// instead returns the rules of the planner, with a replacement for the named rule.
func instead(name string, apply func(*scope)) []rule {
	out := slices.Clone(rules)
	i := slices.IndexFunc(out, func(r rule) bool { return r.name == name })
	out[i].apply = apply
	return out
}

// TestExpectationsCanFail runs random histories with faults in the planner. Each fault can be
// found by only one of the checks on versions.
func TestExpectationsCanFail(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		rules      []rule
	}{
		{"a release that is blocked by a problem outside the release fails at its deadline", "older:", instead("Fail", func(s *scope) {
			if fail(s); s.g.Rollout != nil && s.g.Rollout.WaitsFor != "" && !s.now.Before(s.stepDeadline(s.g.Rollout)) {
				s.failRow(s.g.Row(s.g.Rollout.Release), s.g.Rollout.WaitsFor)
			}
		})},
		{"the target is chosen without regard to denied versions", "denied:", instead("Choose the target", func(s *scope) {
			withdrawn := s.o.Withdrawn
			s.o.Withdrawn = nil
			chooseTarget(s)
			s.o.Withdrawn = withdrawn
		})},
		{"the active release remains the target", "newest:", instead("Choose the target", func(s *scope) {
			chooseTarget(s)
			if a := s.g.ActiveRow(); a != nil && s.g.Rollout == nil && s.g.Target.Reason == "Latest" {
				s.g.Target = Target{Release: a.Release, Reason: "Held"}
			}
		})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= 600; seed++ {
				if w := playSeed(seed, tc.rules); w.err != nil && strings.Contains(w.err.Error(), tc.want) {
					t.Logf("seed %d: %v", seed, w.err)
					return
				}
			}
			t.Errorf("no history fails with %q", tc.want)
		})
	}
}
