package release

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// load is the required content of routes: weights, matches, mirrors and the active release. It also contains the phase of the group.
type load struct {
	phase    Phase
	backends []backend
}

// required is the required content of routes, the revision and time from which it is required, and the releases
// that were required not to be in any route.
type required struct {
	load
	revision int64
	since    time.Time
	rows     []Row // the rows of the group, which are not modified
}

// stopWaiting stops waiting for a policy if the policy has not confirmed the traffic of the group within the
// deadline and no traffic is moving (rule 10).
func stopWaiting(s *scope) {
	if s.g.Phase == Expired && len(s.g.Releases) == 0 {
		return // The group has no traffic.
	}
	run, canary, _ := s.rollout()
	moves := run != nil && !run.beforeTraffic(canary) || !s.before[s.g.Slug].equal(traffic(s.g))
	for _, r := range s.reports {
		switch {
		case r.Revision >= s.g.TrafficRevision:
			continue
		case r.Revision == 0 && !s.serves():
			continue // The first release of the group has no traffic yet.
		case r.Revision == 0 && s.now.Before(s.g.TrafficTime.Add(s.showAfter())):
			s.requeueAt(s.g.TrafficTime.Add(s.showAfter())) // The traffic was moved only a moment ago.
		case r.Revision == 0 || r.Revision < s.g.SettledRevision:
			s.state(nil, true, PolicyNotProgrammed, fmt.Sprintf("rollouts do not wait for networkpolicies.hlnr.io %q: %s", r.policy, cmp.Or(r.Message, cmp.Or(r.Reason, "it has not confirmed the traffic of a group"))))
		case !moves:
			end := s.policyDeadline(s.g.TrafficTime)
			if s.now.Before(end) {
				s.requeueAt(end)
				continue
			}
			s.g.SettledRevision = s.g.TrafficRevision
		}
	}
}

// serves reports whether a release of the group should have traffic.
func (s *scope) serves() bool {
	return slices.ContainsFunc(s.g.Releases, func(r Row) bool { return r.Status == Active || r.Weight > 0 })
}

// raiseRevision raises the traffic revision when the required content of the routes changes, and marks the
// releases that this change removes from the routes (rules 1 and 11). A revision is the sequence
// number of the rollout state that introduces it. Therefore it is unique even if a group ends and begins again.
func raiseRevision(s *scope) {
	if len(s.g.Releases) == 0 && s.g.TrafficRevision == 0 {
		return
	}
	before := s.before[s.g.Slug]
	if before.equal(traffic(s.g)) {
		s.g.TrafficRevision, s.g.TrafficTime = before.revision, before.since
	} else {
		s.g.TrafficRevision, s.g.TrafficTime = s.next, s.now
	}
	if s.stepped && s.g.Rollout != nil {
		s.g.Rollout.StepRevision = s.g.TrafficRevision
	}
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		serving := r.Weight > 0 || r.Status == Active || r.Status == Canary
		if r.Zero == nil {
			r.Zero = before.zero(r.Release)
		}
		switch {
		case serving:
			r.Zero = nil
		case before.has(r.Release), r.Zero == nil && s.referenced(r.Release):
			r.Zero = &Zero{Revision: s.g.TrafficRevision, Time: s.now}
		}
		s.markNamed(r)
	}
}

// markNamed begins the drain of a release when a policy that never confirmed the group no longer refers to that release. A
// policy without a status may refer to any release until it has a status. In both cases, no confirmed revision shows when
// the traffic of the release ended.
func (s *scope) markNamed(r *Row) {
	z, named := r.Zero, s.unreported() || s.unanswered(r.Release)
	switch {
	case z == nil || z.Named == named:
	case named:
		r.Zero = &Zero{Revision: z.Revision, Time: z.Time, Named: true}
	default:
		r.Zero = &Zero{Revision: z.Revision, Time: s.now}
	}
}

func requiredOf(g *Group) required {
	return required{load: traffic(g), revision: g.TrafficRevision, since: g.TrafficTime, rows: g.Releases}
}

// zero returns the record of the write that removes a release from the routes, or nil if there is no such
// record.
func (a required) zero(release string) *Zero {
	for i := range a.rows {
		if a.rows[i].Release == release {
			return a.rows[i].Zero
		}
	}
	return nil
}

// backend is the required content of routes for one release.
type backend struct {
	release        string
	weight, mirror int
	match          bool
	status         Status
}

func traffic(g *Group) load {
	l := load{phase: g.Phase}
	for i := range g.Releases {
		if r := &g.Releases[i]; r.Weight > 0 || r.Status == Active || r.Status == Canary {
			l.backends = append(l.backends, backend{r.Release, r.Weight, r.Mirror, r.Match, r.Status})
		}
	}
	return l
}

func (l load) has(release string) bool {
	return slices.ContainsFunc(l.backends, func(x backend) bool { return x.release == release })
}

func (l load) equal(m load) bool {
	return l.phase == m.phase && len(l.backends) == len(m.backends) &&
		!slices.ContainsFunc(l.backends, func(x backend) bool { return !slices.Contains(m.backends, x) })
}

// counts reports whether a report is from a policy that has confirmed the group and has confirmed at least
// the settled revision.
func (r Report) counts(g *Group) bool { return r.Revision > 0 && r.Revision >= g.SettledRevision }

// confirmed reports whether the policies have confirmed a revision. At least one policy must confirm the revision. Every
// policy that ever confirmed the group must also confirm the revision, except policies that lagged for longer
// than the deadline while the group was stable. If there are no policies, there is nothing to confirm,
// and confirmed returns true (rule 10).
func (s *scope) confirmed(revision int64) bool {
	some, behind := s.confirmations(revision)
	return some && !behind || len(s.reports) == 0
}

// noReadyEndpoints is the reason that a policy reports if it cannot route to the releases that should serve traffic,
// because these releases have no ready endpoint.
const noReadyEndpoints = "NoReadyEndpoints"

// programmed reports whether the routes of a step are now programmed as far as possible. If no pod of the
// active release can respond, the routes also count as programmed when every policy for which counts returns true either
// has confirmed the revision or reports noReadyEndpoints. In that case, only the canary can serve traffic, and no traffic
// can be moved away from it.
func (s *scope) programmed(revision int64) bool {
	if from, active := s.rival(); active != nil && from.dead(active) {
		return !slices.ContainsFunc(s.reports, func(r Report) bool {
			return s.counts(r) && r.Revision < revision && r.Reason != noReadyEndpoints
		})
	}
	return s.confirmed(revision) && !slices.ContainsFunc(s.reports, func(r Report) bool { return s.counts(r) && r.Unrouted })
}

// confirmations reports whether at least one of the policies for which counts returns true has confirmed a revision,
// and whether at least one of them has not.
func (s *scope) confirmations(revision int64) (some, behind bool) {
	for _, r := range s.reports {
		counts := s.counts(r)
		some = some || counts && r.Revision >= revision
		behind = behind || counts && r.Revision < revision
	}
	return some, behind
}

// counts reports whether traffic changes of the group wait for the policy that sent a report.
func (s *scope) counts(r Report) bool {
	from := s.older()
	if r.counts(s.g) || from == nil || !s.follows(r.policy) {
		return r.counts(s.g)
	}
	// The domains that move to this group still route to the older group: the policy counts if it has confirmed that group.
	return slices.ContainsFunc(from.reports, func(x Report) bool { return x.policy == r.policy && x.counts(from.g) })
}

// confirmedTime returns the time at which the last policy confirmed its routes, or notBefore if that is later.
func (s *scope) confirmedTime(notBefore time.Time) time.Time {
	at := notBefore
	for _, r := range s.reports {
		if r.Confirmed.After(at) {
			at = r.Confirmed
		}
	}
	if at.After(s.now) {
		return s.now
	}
	return stored(at)
}

// unconfirmedText describes the policies that have not confirmed the latest revision, or that have lost their routes since they
// confirmed a revision.
func (s *scope) unconfirmedText() string {
	var out []string
	for _, r := range s.reports {
		if r.Revision < s.g.TrafficRevision || r.Unrouted {
			out = append(out, fmt.Sprintf("networkpolicies.hlnr.io %q: %s", r.policy, cmp.Or(r.Message, cmp.Or(r.Reason, "it has not confirmed the latest traffic change"))))
		}
	}
	return strings.Join(out, "; ")
}

// withheld reports whether a policy withholds traffic from a release because the release has no ready
// endpoints. A report does not count if its policy has never confirmed the group, is behind the settled
// revision, or no longer has routes.
func (s *scope) withheld(release string) bool {
	return slices.ContainsFunc(s.reports, func(r Report) bool {
		return r.counts(s.g) && !r.Unrouted && slices.Contains(r.Withheld, release)
	})
}

// referenced reports whether an object that a policy has written refers to a release, according to a report for any
// group. Reports for other groups count too, because a route that two groups share is reported for only one of them while
// the rollout state is lost.
func (s *scope) referenced(release string) bool { return s.references[release] }

// unanswered reports whether a policy has written an object that refers to a release, but the gateway has never confirmed the routes of that policy
// for the group. In that case it is not known whether the gateway routes to the release. References in reports for other groups count too, because
// a route that two groups share is reported for only one of them while the rollout state is lost.
func (s *scope) unanswered(release string) bool {
	return slices.ContainsFunc(s.o.Policies, func(p Policy) bool {
		confirmed := slices.ContainsFunc(p.Groups, func(r Report) bool { return r.Slug == s.g.Slug && r.Revision > 0 })
		return !confirmed && slices.ContainsFunc(p.Groups, func(r Report) bool { return slices.Contains(r.References, release) })
	})
}

// pinnedByDomain reports whether a domain that specifies a version refers to a release.
func (s *scope) pinnedByDomain(release string) bool {
	return slices.ContainsFunc(s.reports, func(r Report) bool { return slices.Contains(r.Pinned, release) })
}

// drainWait returns why a release is not drained yet, or nil if it is drained. A release is drained when no route
// refers to it, policies confirm this, and the drain delay after the confirmation has passed (rules 11 and 12).
// This wait has no time limit.
func (s *scope) drainWait(r Row) *wait {
	if s.referenced(r.Release) {
		return s.zeroWait(r)
	}
	return s.leaving(r)
}

// leaving returns why a release is not drained yet although no route refers to it. It returns nil if the release is
// drained. Every policy that ever confirmed the group must confirm the revision that removes the release, and the drain
// delay after the last confirmation must have passed.
func (s *scope) leaving(r Row) *wait {
	if s.unreported() { // A policy that has not reported yet may have routed to a release with this name.
		r.Zero = cmp.Or(r.Zero, &Zero{Time: r.Since})
		return s.zeroWait(r)
	}
	if r.Zero == nil {
		return nil // The release was in no route.
	}
	since := r.Zero.Time
	for _, rep := range s.reports {
		if rep.Revision == 0 && !(s.g.ActiveRow() == nil && s.follows(rep.policy)) {
			continue // The policy never routed to this group.
		}
		if rep.Revision < r.Zero.Revision {
			return s.zeroWait(r)
		}
		if rep.Confirmed.After(since) {
			since = rep.Confirmed
		}
	}
	if end := since.Add(s.o.Spec.Drain); s.now.Before(end) {
		return &wait{Until: end}
	}
	return nil
}

// unreported reports whether any policy has not reported yet.
func (b *planner) unreported() bool {
	return slices.ContainsFunc(b.o.Policies, func(p Policy) bool { return p.Unreported })
}

// zeroWait reports that a release is waiting for confirmation that no route refers to it. This is shown to users
// only after the deadline.
func (s *scope) zeroWait(r Row) *wait {
	if r.Zero == nil {
		return &wait{}
	}
	if end := r.Zero.Time.Add(s.o.Spec.Deadline); s.now.Before(end) {
		return &wait{Until: end}
	}
	return newWait(&r, true, TrafficUnconfirmed, "%s keeps its pods until it is confirmed that no route points to it: %s", r.Version, cmp.Or(s.unconfirmedText(), "a route points to it"))
}
