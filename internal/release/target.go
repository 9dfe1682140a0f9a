package release

import (
	"fmt"
	"slices"
	"time"
)

var noTime time.Time

// aim finds the release that the group is to move to.
func aim(s *scope) {
	if s.g.Phase != Live {
		return
	}
	if s.ended(s.g.Slug, s.g.Name, s.g.PullRequest) {
		s.hold("GroupExcluded") // it closes when its domains have moved
		return
	}
	if missing := s.missingPin(); missing != nil {
		s.state(nil, true, "PinnedVersionMissing", missing.missing())
		s.hold("PinnedVersionMissing")
		return
	}
	pin, other := s.pin()
	switch {
	case other != nil:
		s.state(nil, true, PinsConflict, fmt.Sprintf("%s and %s: both name group %s, and pin it to %s and %s: nothing is started; remove one of them", pin.Field, other.Field, s.g.Name, pin, other))
		s.hold(PinsConflict)
	case pin != nil:
		s.aimPinned(*pin)
	case !s.o.PullRequests && len(s.strayPins()) > 0:
		s.hold("PinnedVersionMissing") // It may be this group that is meant.
	default:
		s.g.Target = s.latest()
		s.noteSpoiled()
	}
}

// PinsConflict is the reason of a group that two pins by name pin to different releases:
// nothing of it starts.
const PinsConflict = "PinsConflict"

// hold keeps the group where it is, with what is under way, unless that is withdrawn. An
// active release that is denied makes room all the same.
func (s *scope) hold(reason string) {
	if s.activeDenied() {
		if r := s.belowPin(); r != nil {
			s.g.Target = Target{Release: r.Release, Reason: "Latest"}
			return
		}
		if t := s.latest(); t.Reason == "Latest" {
			s.g.Target = t
			return
		}
	}
	t := Target{Reason: reason}
	if a := s.g.ActiveRow(); a != nil {
		t.Release = a.Release
	}
	if run := s.g.Run; run != nil {
		if r := s.g.Row(run.Release); r != nil && !s.free(r) {
			t.Release = run.Release
		}
	}
	s.g.Target = t
}

// belowPin is the kept release of the highest version that is not above one to which the
// group is pinned, while the active one is denied: what the pin left may be why there is a
// pin. nil: there is none.
func (s *scope) belowPin() (kept *Row) {
	for _, p := range s.o.Spec.Pins {
		pinned := p.Version
		if r := s.g.Row(p.Release); p.Release != "" && r != nil {
			pinned = r.Version
		}
		if pinned == "" || expired(p, s.now) || !p.names(s.g.Slug, s.g.Name, s.g.PullRequest) {
			continue
		}
		for i := range s.g.Releases {
			r := &s.g.Releases[i]
			c, there := s.child(r.Release)
			if _, out := s.withdrawn(r.Version); out || !there || c.Terminating || s.comeback(r.Version) != r || compare(r.Version, pinned) > 0 {
				continue
			}
			if kept == nil || compare(r.Version, kept.Version) > 0 {
				kept = r
			}
		}
	}
	return kept
}

// pin finds the pin of this group, one by name before one for any group, and another one
// by name that contradicts it.
func (s *scope) pin() (found, other *Pin) {
	for i := range s.o.Spec.Pins {
		p := &s.o.Spec.Pins[i]
		if !p.names(s.g.Slug, s.g.Name, s.g.PullRequest) {
			continue
		}
		if expired(*p, s.now) {
			s.state(nil, false, "PinExpired", fmt.Sprintf("the pin to %s ended at %s", p, p.Expire.UTC().Format(time.RFC3339)))
			continue
		}
		if p.Global && !s.holds(*p) {
			continue
		}
		switch {
		case found == nil || found.Global:
			found = p
		case !p.Global && (p.Version != found.Version || p.Release != found.Release || p.Current != found.Current):
			other = p
		}
	}
	return found, other
}

// holds says that what a pin names is offered to the group, or a row of it.
func (s *scope) holds(p Pin) bool {
	return slices.ContainsFunc(s.candidates, func(c Candidate) bool { return p.means(c.Version, c.Release) }) ||
		slices.ContainsFunc(s.g.Releases, func(r Row) bool { return p.means(r.Version, r.Release) })
}

// aimPinned resolves a pin: once, until pin or configuration change (rule 16).
func (s *scope) aimPinned(p Pin) {
	from := fmt.Sprintf("%s/retained@%s", p.Version, s.o.Config)
	switch {
	case p.Release != "":
		from = "release/" + p.Release
	case p.Current:
		from = fmt.Sprintf("%s/current@%s", p.Version, s.o.Config)
	}
	target := s.g.Target.Release
	if s.g.Target.Reason != "Pinned" || s.g.Target.ResolvedFrom != from || !s.known(target) {
		target = s.resolve(p)
	}
	if target == "" {
		s.state(nil, true, "PinnedVersionMissing", fmt.Sprintf("group %s does not hold %s that it is pinned to: nothing is started", s.g.Name, p.wanted()))
		s.hold("PinnedVersionMissing")
		return
	}
	if why := s.takenBack(target); why != "" {
		s.hold("PinnedVersionMissing")
		follows := ": nothing is started"
		switch a := s.g.ActiveRow(); {
		case a == nil || a.Release != target:
		case s.g.Target.Release == target:
			follows = ", and serves on: nothing is left in its place"
		default:
			follows = ", and makes room for " + s.versionOf(s.g.Target.Release)
		}
		s.state(s.g.Row(target), true, "PinnedVersionMissing", fmt.Sprintf("version %s that group %s is pinned to is withdrawn (%s)%s; offer it again, or remove the pin", s.versionOf(target), s.g.Name, why, follows))
		return
	}
	if r := s.g.Row(target); r != nil && s.failed(r) {
		s.state(r, true, "PinnedReleaseFailed", fmt.Sprintf("version %s that group %s is pinned to failed (%s): decide Retry on %s to try it again", r.Version, s.g.Name, r.Reason, r.Release))
		s.hold("PinnedReleaseFailed")
		s.g.Target.ResolvedFrom = from
		return
	}
	if why := s.spoiled(target, s.versionOf(target)); why != "" {
		s.state(s.g.Row(target), true, "PinnedReleaseFailed", fmt.Sprintf("version %s that group %s is pinned to does not start: %s; decide Retry there", s.versionOf(target), s.g.Name, why))
		s.hold("PinnedReleaseFailed")
		s.g.Target.ResolvedFrom = from
		return
	}
	would := ""
	if l := s.latest(); l.Release != target {
		would = s.versionOf(l.Release)
	}
	message := fmt.Sprintf("group %s is pinned to %s", s.g.Name, or(p.Release, p.Version))
	if would != "" && would != s.versionOf(target) {
		message += fmt.Sprintf("; latest would be %s", would)
	}
	if p.Reason != "" {
		message += fmt.Sprintf(" (%q)", p.Reason)
	}
	s.state(nil, false, "Pinned", message)
	s.g.Target = Target{Release: target, Reason: "Pinned", ResolvedFrom: from}
}

// takenBack is why a pin has no effect: its version is denied, or proven gone. What is active
// and was not denied stays.
func (s *scope) takenBack(release string) WithdrawReason {
	version, active := s.versionOf(release), s.g.ActiveRow()
	switch {
	case s.denied(version): // reported before a loss
		return Denied
	case active != nil && active.Release == release:
		return ""
	case s.withdrawnFor(version, Gone):
		return Gone
	}
	return ""
}

// passedOver says what is wanted instead of a failed release that a person asks to try
// again; nil: nothing.
func (s *scope) passedOver(r *Row) *Target {
	was, target, notes, wake := *r, s.g.Target, s.notes, s.wake
	r.Status, r.RetryTime = Pending, noTime
	aim(s)
	finishFirst(s)
	next := s.g.Target
	*r, s.g.Target, s.notes, s.wake = was, target, notes, wake
	if next.Release == r.Release {
		return nil
	}
	return &next
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

// resolve finds the release that a pin means: the last one of that version that
// was active, configuration included, else one with the present template.
func (s *scope) resolve(p Pin) string {
	var retained, other *Row
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		switch {
		case !p.means(r.Version, r.Release) || p.Current && r.Config != s.o.Config:
		case r.Promoted > 0 && (retained == nil || r.Promoted > retained.Promoted):
			retained = r
		case r.Promoted == 0 && other == nil:
			other = r
		}
	}
	if retained != nil && !p.Current {
		return retained.Release
	}
	for _, c := range s.candidates {
		if p.means(c.Version, c.Release) {
			return c.Release
		}
	}
	if retained != nil {
		return retained.Release
	}
	if other != nil {
		return other.Release
	}
	return ""
}

// latest finds the highest version that is offered, has not failed as it is now,
// and is not below the active one; a withdrawn active lets the target go below
// it (rules 3 and 4). The commits of a pull request have no order.
func (s *scope) latest() Target {
	active := s.g.ActiveRow()
	for _, c := range s.choices() {
		if _, out := s.withdrawn(c.Version); out {
			continue
		}
		if kept := s.comeback(c.Version); kept != nil {
			c.Release = kept.Release
		}
		if r := s.g.Row(c.Release); r != nil && s.failed(r) || s.forgotten(c) || s.spoiled(c.Release, c.Version) != "" {
			continue
		}
		if s.below(c.Version) {
			break
		}
		return Target{Release: c.Release, Reason: "Latest"}
	}
	if active == nil {
		return Target{}
	}
	return Target{Release: active.Release, Reason: "Held"}
}

// below says that a version is below the active one, which is not withdrawn: it starts by
// itself no more. The commits of a pull request have no order.
func (s *scope) below(version string) bool {
	a := s.g.ActiveRow()
	return a != nil && s.g.Level != preview && !s.free(a) && compare(version, a.Version) < 0
}

// comeback is the kept release of a version, with the configuration that it had, where
// the active release is withdrawn: it takes no steps.
func (s *scope) comeback(version string) *Row {
	a := s.g.ActiveRow()
	if a == nil || !s.free(a) {
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

// failed says that a release is in error. One that has a time for another try failed for a
// cause outside of it, which is none any more (rule 29): a ledger may still have it.
func (s *scope) failed(r *Row) bool { return r.Status == Error && r.RetryTime.IsZero() }

// choices are the candidates, and, where their versions are not offered any more, the
// running release, and those that are kept where the active one is denied, or where it is
// withdrawn and the template is not known, which gives no candidates: absence is no fact. While
// paused, it makes room for what is kept alone, if there is any. Of a pull request it is the
// head commit that is offered, whatever was active or failed before.
func (s *scope) choices() []Candidate {
	cs := s.candidates
	if s.g.Level == preview && len(cs) > 0 {
		return cs[:1]
	}
	var kept []Candidate
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		running := s.g.Run != nil && s.g.Run.Release == r.Release
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
	if s.o.Spec.Paused && len(kept) > 0 {
		slices.SortFunc(kept, byOffer)
		return kept
	}
	return cs
}
