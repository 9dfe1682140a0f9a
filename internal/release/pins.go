package release

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// missingPin returns a Global pin whose version or release is not in any group to which the pin applies,
// or nil if there is no such pin.
func (b *planner) missingPin() *Pin {
	for i := range b.o.Spec.Pins {
		pin := &b.o.Spec.Pins[i]
		if !pin.Global || expired(*pin, b.now) {
			continue
		}
		held := slices.ContainsFunc(b.o.Candidates, func(c Candidate) bool {
			return !(c.Level == preview && b.withdrawnGroup(c.Slug)) && pin.means(c.Version, c.Release) && pin.names(c.Slug, c.Name, c.PullRequest)
		})
		for _, g := range b.groups {
			ends := g.Phase == Closing || g.Level == preview && b.withdrawnGroup(g.Slug) // Once the group has ended, it no longer has the pinned release.
			held = held || !ends && pin.names(g.Slug, g.Name, g.PullRequest) && slices.ContainsFunc(g.Releases, func(r Row) bool { return pin.means(r.Version, r.Release) && !b.pinnedAway(&g, r) })
		}
		if !held {
			return pin
		}
	}
	return nil
}

// pinnedAway reports whether a release was never active, and a pin that names its group selects
// another release. The pinned release then supersedes this release.
func (b *planner) pinnedAway(g *Group, r Row) bool {
	return r.Promoted == 0 && slices.ContainsFunc(b.o.Spec.Pins, func(p Pin) bool {
		return !p.Global && p.names(g.Slug, g.Name, g.PullRequest) && !p.means(r.Version, r.Release) && !expired(p, b.now)
	})
}

// noteMissingPin reports a pin whose version or release is not in any group, unless a live group reports the pin. A
// group that a user ends does not report it. As long as nothing is offered, the pin is not reported, because its
// version may still appear.
func (b *planner) noteMissingPin() {
	live := slices.ContainsFunc(b.groups, func(g Group) bool { return g.Phase == Live && !b.ended(g.Slug, g.Name, g.PullRequest) })
	if missing := b.missingPin(); missing != nil && !live && len(b.o.Candidates) > 0 {
		b.note(Note{Warning: true, Reason: PinnedVersionMissing, Message: missing.missing()})
	}
}

// missing returns the message for a pin whose version or release is not in any group.
func (p Pin) missing() string {
	return fmt.Sprintf("spec.updateStrategy.manual pins %s, which no group has: no release starts; correct or remove the pin", p.wanted())
}

// strayPins returns the pins for groups that do not exist and for which no version is offered. As long as no
// group is known, strayPins returns nil.
func (b *planner) strayPins() []Pin {
	if len(b.groups) == 0 && len(b.o.Candidates) == 0 {
		return nil
	}
	var stray []Pin
	for _, pin := range b.o.Spec.Pins {
		if pin.Global || pin.Group == "" || expired(pin, b.now) ||
			slices.ContainsFunc(b.groups, func(g Group) bool { return pin.names(g.Slug, g.Name, g.PullRequest) }) ||
			slices.ContainsFunc(b.o.Candidates, func(c Candidate) bool { return pin.names(c.Slug, c.Name, c.PullRequest) }) {
			continue
		}
		stray = append(stray, pin)
	}
	return stray
}

// noteStrayPins reports pins whose group does not exist, and lists the existing groups.
func (b *planner) noteStrayPins() {
	stray := b.strayPins()
	if len(stray) == 0 {
		return
	}
	var names []string
	for _, g := range b.groups {
		names = append(names, g.Name)
	}
	for _, c := range b.o.Candidates {
		names = append(names, c.Name)
	}
	slices.SortFunc(names, func(x, y string) int { return cmp.Or(compareNames(y, x), cmp.Compare(x, y)) })
	names = slices.Compact(names)
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("%d more", more))
	}
	follows := "no release starts in groups without a pin; correct the name, or remove the pin"
	if b.o.PullRequests {
		follows = "the pin applies once the group exists, and other groups continue"
	}
	for _, pin := range stray {
		b.note(Note{Warning: !b.o.PullRequests, Reason: PinnedVersionMissing, Message: fmt.Sprintf("%s: group %q does not exist (existing groups: %s); %s", pin.Field, pin.Group, strings.Join(names, ", "), follows)})
	}
}

// maxNamed is the maximum number of groups that a message lists.
const maxNamed = 8

// means reports whether a pin selects the release with the given version and name.
func (p Pin) means(version, release string) bool {
	if p.Release != "" {
		return p.Release == release
	}
	return p.Version == version
}

// wanted describes the version or release that a pin selects, for messages.
func (p Pin) wanted() string {
	if p.Release != "" {
		return fmt.Sprintf("release %q", p.Release)
	}
	return fmt.Sprintf("version %q", p.Version)
}

// String returns the release or, if the pin selects no release, the version and whether it runs with the
// current template.
func (p Pin) String() string {
	if p.Release != "" {
		return p.Release
	}
	if p.Current {
		return p.Version + " (Current)"
	}
	return p.Version
}

func (p Pin) names(slug, name string, pullRequest int64) bool {
	return p.Group == "" || p.Group == slug || p.Group == name || pullRequest > 0 && p.Group == strconv.FormatInt(pullRequest, 10)
}

func expired(p Pin, now time.Time) bool { return !p.Expire.IsZero() && !now.Before(p.Expire) }

// pin returns the pin of this group. A pin that is not Global is preferred to a Global pin. other is another
// pin that is not Global and contradicts found. expiries are notes about pins that have expired.
func (s *scope) pin() (found, other *Pin, expiries []Note) {
	for i := range s.o.Spec.Pins {
		p := &s.o.Spec.Pins[i]
		if !p.names(s.g.Slug, s.g.Name, s.g.PullRequest) {
			continue
		}
		if expired(*p, s.now) {
			expiries = append(expiries, s.stateOf(nil, false, PinExpired, fmt.Sprintf("the pin to %s expired at %s", p, p.Expire.UTC().Format(time.RFC3339))))
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
	return found, other, expiries
}

// holds reports whether the version or release of a pin is offered to the group or has a row in the group.
func (s *scope) holds(p Pin) bool {
	return slices.ContainsFunc(s.candidates, func(c Candidate) bool { return p.means(c.Version, c.Release) }) ||
		slices.ContainsFunc(s.g.Releases, func(r Row) bool { return p.means(r.Version, r.Release) })
}

// pinned reports whether a pin selects a release, by version or name.
func (s *scope) pinned(r Row) bool {
	return slices.ContainsFunc(s.o.Spec.Pins, func(p Pin) bool {
		return p.names(s.g.Slug, s.g.Name, s.g.PullRequest) && p.means(r.Version, r.Release) && !expired(p, s.now)
	})
}

// choosePinned resolves a pin. The result stays the same until the pin or the configuration changes, or the release
// no longer exists (rule 16).
func (s *scope) choosePinned(p Pin) (Target, Note) {
	from := fmt.Sprintf("%s/retained@%s", p.Version, s.o.Config)
	switch {
	case p.Release != "":
		from = "release/" + p.Release
	case p.Current:
		from = fmt.Sprintf("%s/current@%s", p.Version, s.o.Config)
	}
	target := s.g.Target.Release
	if s.g.Target.Reason != Pinned || s.g.Target.ResolvedFrom != from || !s.known(target) {
		target = s.resolve(p)
	}
	if target == "" {
		return s.hold(PinnedVersionMissing), s.stateOf(nil, true, PinnedVersionMissing, fmt.Sprintf("group %s is pinned to %s, which it does not have: no release starts; correct or remove the pin", s.g.Name, p.wanted()))
	}
	if why := s.withdrawnPin(target); why != "" {
		held := s.hold(PinnedVersionMissing)
		follows := ": no release starts"
		switch a := s.g.ActiveRow(); {
		case a == nil || a.Release != target:
		case held.Release == target:
			follows = " but keeps serving because no other release can"
		default:
			follows = " and will be replaced by " + s.versionOf(held.Release)
			if run := s.g.Rollout; run != nil && run.Release == held.Release {
				follows = " and is being replaced by " + s.versionOf(held.Release)
			}
		}
		return held, s.stateOf(s.g.Row(target), true, PinnedVersionMissing, fmt.Sprintf("group %s is pinned to version %s, which is withdrawn (%s)%s; offer it again, or remove the pin", s.g.Name, s.versionOf(target), why, follows))
	}
	if message := s.pinFailed(target); message != "" {
		held := s.hold(PinnedReleaseFailed)
		held.ResolvedFrom = from
		return held, s.stateOf(s.g.Row(target), true, PinnedReleaseFailed, message)
	}
	message := fmt.Sprintf("group %s is pinned to %s", s.g.Name, cmp.Or(s.versionOf(target), cmp.Or(p.Release, p.Version)))
	if !p.Expire.IsZero() {
		message += " until " + p.Expire.UTC().Format(time.RFC3339)
	}
	if p.By != "" {
		message += " by " + p.By
	}
	if p.Reason != "" {
		message += fmt.Sprintf(" (%q)", p.Reason)
	}
	if l := s.latest(); l.Release != target {
		if would := s.versionOf(l.Release); would != "" && would != s.versionOf(target) {
			message += fmt.Sprintf("; strategy latest would select %s", would)
		}
	}
	return Target{Release: target, Reason: Pinned, ResolvedFrom: from}, s.stateOf(nil, false, Pinned, message)
}

// pinFailed returns a message if a pinned release does not start because the release failed, or because its
// version failed in another Microservice. Otherwise it returns "".
func (s *scope) pinFailed(target string) string {
	if r := s.g.Row(target); r != nil && s.failed(r) {
		return fmt.Sprintf("group %s is pinned to version %s, which failed (%s): to try it again, %s", s.g.Name, r.Version, r.Reason, howToDecide(r.Release, Retry))
	}
	if why := s.spoiled(target, s.versionOf(target)); why != "" {
		return fmt.Sprintf("group %s is pinned to version %s, which does not start: %s; retry the version in that Microservice", s.g.Name, s.versionOf(target), why)
	}
	return ""
}

// withdrawnPin returns why a pin has no effect: its version is denied, or is proven to be gone. A pin to an
// active release that is not denied stays effective.
func (s *scope) withdrawnPin(release string) WithdrawReason {
	version, active := s.versionOf(release), s.g.ActiveRow()
	switch {
	case s.denied(version): // Denied takes precedence over Gone.
		return Denied
	case active != nil && active.Release == release:
		return ""
	case s.withdrawnFor(version, Gone):
		return Gone
	}
	return ""
}

// belowPin returns the retained release with the highest version that is not above the pinned version, or nil.
// It is used while the active release is denied. A version above the pin is not returned, because it may be the
// reason for the pin.
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
			c, there := s.object(r.Release)
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

// resolve returns the release that a pin selects. A retained release, with its configuration, is preferred to a
// release with the current template. Among several retained releases, resolve returns the release that was active
// most recently.
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
