package release

import (
	"fmt"
	"slices"

	"github.com/heighliner/heighliner/internal/frozen"
)

// chooseTarget sets the target of the group.
func chooseTarget(s *scope) {
	if s.g.Phase != Live {
		return
	}
	target, notes := s.choose()
	s.g.Target = target
	s.notes = append(s.notes, notes...)
}

// finishFirst lets the rollout in progress finish before a newer version starts, for example if too many releases
// were superseded, or if the rollout is in its last step (rule 28).
func finishFirst(s *scope) {
	if !s.finishes(s.g.Target) {
		return
	}
	_, r, _ := s.rollout()
	next, first := s.distinct(s.g.Target.Release, r)
	s.state(r, false, FinishFirst, fmt.Sprintf("%s is waiting: the rollout of %s must finish first", next, first))
	s.g.Target = Target{Release: r.Release, Reason: FinishFirst}
}

// distinct returns, for messages, the versions of another release and of r, or their names if both have the same version.
func (s *scope) distinct(other string, r *Row) (string, string) {
	if version := s.versionOf(other); version != r.Version {
		return version, r.Version
	}
	return other, r.Release
}

// supersede ends the rollout in progress if its release is no longer the target (rule 24).
func supersede(s *scope) {
	if s.g.Phase != Live {
		return
	}
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		running := s.g.Rollout != nil && s.g.Rollout.Release == r.Release
		if r.Release == s.g.Target.Release || r.Status != Pending && r.Status != Canary && !running {
			continue
		}
		if next := s.g.Target.Release; s.g.Target.Reason == Latest && !s.isWithdrawn(r) && s.halted(s.g.Row(next)) {
			if r.Status == Pending {
				s.record(s.haltWait(s.g.Row(next), frozen.Release(s.versionOf(next))))
			}
			continue
		}
		if running {
			s.returnPods()
			s.endRollout()
			if s.g.Target.Reason == Latest {
				s.g.Superseded++
			}
		}
		r.leave()
		if r.Status == Pending || r.Status == Canary {
			s.setStatus(r, Deprecated, Superseded)
		}
		next, earlier := s.distinct(s.g.Target.Release, r)
		message := fmt.Sprintf("%s is superseded by %s", earlier, next)
		if s.g.Target.Release == "" {
			message = fmt.Sprintf("%s is not rolled out, because no version of the group may be deployed", r.Version)
		}
		s.event(r, false, Superseded, message)
	}
}

// choose returns the target of the group, and notes about it.
func (s *scope) choose() (Target, []Note) {
	if s.ended(s.g.Slug, s.g.Name, s.g.PullRequest) {
		return s.hold(GroupExcluded), nil // The group closes when its domains have moved.
	}
	if missing := s.missingPin(); missing != nil {
		return s.hold(PinnedVersionMissing), []Note{s.stateOf(nil, true, PinnedVersionMissing, missing.missing())}
	}
	pin, other, notes := s.pin()
	switch {
	case other != nil:
		message := fmt.Sprintf("%s and %s pin group %s to different releases, %s and %s: no release starts; remove one of these pins", pin.Field, other.Field, s.g.Name, pin, other)
		return s.hold(PinsConflict), append(notes, s.stateOf(nil, true, PinsConflict, message))
	case pin != nil:
		target, note := s.choosePinned(*pin)
		return target, append(notes, note)
	case !s.o.PullRequests && len(s.strayPins()) > 0:
		return s.hold(PinnedVersionMissing), notes // A pin whose group does not exist may be meant for this group.
	}
	target := s.latest()
	return target, append(notes, s.spoiledAbove(target)...)
}

// hold returns the release that is being rolled out, unless its version is withdrawn, and otherwise the active
// release. If the active release is denied, hold returns a replacement if there is one.
func (s *scope) hold(reason Reason) Target {
	if s.activeDenied() {
		if r := s.belowPin(); r != nil {
			return Target{Release: r.Release, Reason: Latest}
		}
		if t := s.latest(); t.Reason == Latest {
			return t
		}
	}
	t := Target{Reason: reason}
	if a := s.g.ActiveRow(); a != nil {
		t.Release = a.Release
	}
	if run := s.g.Rollout; run != nil {
		if r := s.g.Row(run.Release); r != nil && !s.isWithdrawn(r) {
			t.Release = run.Release
		}
	}
	return t
}

// latest returns the highest offered version that has not failed with the current configuration and
// is not below the active version. If the active version is withdrawn, the target may be below it
// (rules 3 and 4). Commits of a pull request have no order.
func (s *scope) latest() Target {
	active := s.g.ActiveRow()
	for _, c := range s.choices() {
		if _, out := s.withdrawn(c.Version); out {
			continue
		}
		if kept := s.comeback(c.Version); kept != nil {
			c.Release = kept.Release
		}
		if r := s.g.Row(c.Release); r != nil && s.failed(r) && s.replacesPods() && !s.activeDenied() {
			break // A rollout of a lower version would terminate the pods of the active release again.
		}
		if r := s.g.Row(c.Release); r != nil && s.failed(r) || s.forgotten(c) || s.spoiled(c.Release, c.Version) != "" {
			continue
		}
		if s.below(c.Version) {
			break
		}
		return Target{Release: c.Release, Reason: Latest}
	}
	if active == nil {
		return Target{}
	}
	return Target{Release: active.Release, Reason: Held}
}

// choices returns the candidates, and also the release that is being rolled out if its version is no longer offered. If the
// active release is denied, the result also includes the retained releases. It also includes them if the active release is
// withdrawn and there are no candidates because the template is not known. If there are such retained releases while the
// Microservice is paused or frozen, the result contains only these releases. For a pull request, the result is the
// offered head commit, regardless of which commits were previously active or failed.
func (s *scope) choices() []Candidate {
	cs := s.candidates
	if s.g.Level == preview && len(cs) > 0 {
		return cs[:1]
	}
	var kept []Candidate
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		running := s.g.Rollout != nil && s.g.Rollout.Release == r.Release
		back := (s.activeDenied() || s.o.Config == "") && s.g.Level != preview && s.comeback(r.Version) == r
		if !running && !back {
			continue
		}
		c := Candidate{Slug: s.g.Slug, Name: s.g.Name, Version: r.Version, Release: r.Release}
		if _, out := s.withdrawn(r.Version); back && !out {
			kept = append(kept, c)
		}
		if slices.ContainsFunc(cs, func(c Candidate) bool { return c.Version == r.Version }) {
			continue
		}
		below := slices.IndexFunc(cs, func(c Candidate) bool { return compare(c.Version, r.Version) < 0 })
		if below < 0 {
			below = len(cs)
		}
		cs = slices.Insert(slices.Clone(cs), below, c)
	}
	if s.stopped() && len(kept) > 0 {
		slices.SortFunc(kept, byOffer)
		return kept
	}
	return cs
}

// below reports whether a version is below the active version and the active version is not withdrawn. Such a version
// no longer starts automatically. Commits of a pull request have no order.
func (s *scope) below(version string) bool {
	a := s.g.ActiveRow()
	return a != nil && s.g.Level != preview && !s.isWithdrawn(a) && compare(version, a.Version) < 0
}

// comeback returns the retained release of a version if the active release is withdrawn. Otherwise it
// returns nil. The retained release keeps its configuration and skips the steps.
func (s *scope) comeback(version string) *Row {
	a := s.g.ActiveRow()
	if a == nil || !s.isWithdrawn(a) {
		return nil
	}
	var kept *Row
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		if r.Version == version && r.Promoted > 0 && r.Status == Deprecated && (kept == nil || r.Promoted > kept.Promoted) {
			kept = r
		}
	}
	return kept
}

// failed reports whether a release has the status error because it failed. A release with a retry
// time lost its traffic because of a problem outside the release, and has not failed (rule 29). A
// rollout state that an earlier version of the manager wrote may list such a release with the status error.
func (s *scope) failed(r *Row) bool { return r.Status == Error && r.RetryTime.IsZero() }

// MaxSuperseded is the number of releases that may be superseded before the rollout in progress
// must finish first (rule 28).
const MaxSuperseded = 3

// finishes reports whether the rollout in progress must finish before a newer target starts.
func (s *scope) finishes(target Target) bool {
	run, r, _ := s.rollout()
	if run == nil || target.Reason != Latest || target.Release == run.Release {
		return false
	}
	if _, out := s.withdrawn(r.Version); out {
		return false
	}
	switch {
	case s.overdue():
		return false
	case s.standsIn(r):
		return true
	}
	if run.Gate == Together || run.Gate == ConfirmRollout {
		return false // The peers may already be rolling out the newer version, and superseding a release without pods loses nothing.
	}
	if a := s.g.ActiveRow(); s.g.Level == preview && a != nil && a.Release == target.Release {
		return false // The active commit was pushed again.
	}
	if s.now.Before(r.RetryTime) {
		return false // The traffic of the release was removed, and it gets no traffic before the retry time.
	}
	last := run.Step > 0 && run.Step >= len(s.steps())
	return (last || s.g.Superseded >= MaxSuperseded) && run.WaitsFor == ""
}

// standsIn reports whether the release that is being rolled out can respond while no pod of the active release can
// respond. Without it, no release would respond until a newer release is available.
func (s *scope) standsIn(r *Row) bool {
	from, active := s.rival()
	return active != nil && !s.o.Spec.Exclusive && r.Status == Canary && from.dead(active) && !s.dead(r)
}

// overdue reports whether a rollout is past its deadline and continues only because no other
// release serves traffic. A newer version supersedes such a rollout.
func (s *scope) overdue() bool {
	run, r, c := s.rollout()
	healthy, cause, _ := s.health(run, r, c)
	if healthy || run.WaitsFor != "" || cause == TrafficLost || run.Grace.IsZero() && s.justStarted() {
		return false
	}
	return !s.now.Before(s.deadlineIfInterrupted(run, cause))
}

func (s *scope) known(release string) bool {
	_, offered := s.offered(release)
	return release != "" && (offered || s.g.Row(release) != nil)
}

func (s *scope) versionOf(release string) string {
	if r := s.g.Row(release); r != nil {
		return r.Version
	}
	c, _ := s.offered(release)
	return c.Version
}
