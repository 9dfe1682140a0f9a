package release

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"
)

// load is what routes have to carry: weights, matches, copies, who is active, and
// whether the group is there at all.
type load struct {
	phase Phase
	lanes []lane
}

// asked is the required content of routes, from which revision on, and which releases were to
// be in no route.
type asked struct {
	load
	revision int64
	since    time.Time
	rows     []Row // of the group; they do not change
}

func askedOf(g *Group) asked {
	return asked{load: traffic(g), revision: g.TrafficRevision, since: g.TrafficTime, rows: g.Releases}
}

// zero is since when a release was to be in no route; nil: it was not.
func (a asked) zero(release string) *Zero {
	for i := range a.rows {
		if a.rows[i].Release == release {
			return a.rows[i].Zero
		}
	}
	return nil
}

// lane is what routes have to carry for one release.
type lane struct {
	release        string
	weight, mirror int
	match          bool
	status         Status
}

func traffic(g *Group) load {
	l := load{phase: g.Phase}
	for i := range g.Releases {
		if r := &g.Releases[i]; r.Weight > 0 || r.Status == Active || r.Status == Canary {
			l.lanes = append(l.lanes, lane{r.Release, r.Weight, r.Mirror, r.Match, r.Status})
		}
	}
	return l
}

func (l load) has(release string) bool {
	return slices.ContainsFunc(l.lanes, func(x lane) bool { return x.release == release })
}

func (l load) equal(m load) bool {
	return l.phase == m.phase && len(l.lanes) == len(m.lanes) &&
		!slices.ContainsFunc(l.lanes, func(x lane) bool { return !slices.Contains(m.lanes, x) })
}

// counts reports whether a report is of a policy that confirmed the group, and was not left
// behind since.
func (r Report) counts(g *Group) bool { return r.Revision > 0 && r.Revision >= g.SettledRevision }

// confirmed reports whether the routes carry a revision. To advance, at least one
// policy must confirm it, and so must every one that ever confirmed the group,
// except those that did not confirm for the time of the deadline while the group was stable.
// Without policies there is nothing to confirm (rule 10).
func (s *scope) confirmed(revision int64) bool {
	some, behind := s.confirmations(revision)
	return some && !behind || len(s.reports) == 0
}

// noReadyEndpoints is the reason of a policy that cannot route to the releases that should serve,
// because they have no ready endpoint.
const noReadyEndpoints = "NoReadyEndpoints"

// programmed reports whether the routes of a step are programmed now, or as far as they can be: if the
// active release is dead, and no policy that counts is behind for another reason, the canary alone
// responds, and no traffic can be taken from it.
func (s *scope) programmed(revision int64) bool {
	if from, active := s.rival(); active != nil && from.dead(active) {
		return !slices.ContainsFunc(s.reports, func(r Report) bool {
			return s.counts(r) && r.Revision < revision && r.Reason != noReadyEndpoints
		})
	}
	return s.confirmed(revision) && !slices.ContainsFunc(s.reports, func(r Report) bool { return s.counts(r) && r.Unrouted })
}

// confirmations reports whether some policy that counts confirms a revision, and whether one
// does not.
func (s *scope) confirmations(revision int64) (some, behind bool) {
	for _, r := range s.reports {
		counts := s.counts(r)
		some = some || counts && r.Revision >= revision
		behind = behind || counts && r.Revision < revision
	}
	return some, behind
}

// counts reports whether the traffic of the group waits for the policy of a report.
func (s *scope) counts(r Report) bool {
	from := s.older()
	if r.counts(s.g) || from == nil || !s.follows(r.policy) {
		return r.counts(s.g)
	}
	// It has confirmed what it has to move at the group that has it now.
	return slices.ContainsFunc(from.reports, func(x Report) bool { return x.policy == r.policy && x.counts(from.g) })
}

// confirmedTime is when the last policy confirmed its routes, and not before notBefore.
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

// unconfirmed describes the policies that do not confirm, or that have lost their routes since.
func (s *scope) unconfirmed() string {
	var out []string
	for _, r := range s.reports {
		if r.Revision < s.g.TrafficRevision || r.Unrouted {
			out = append(out, fmt.Sprintf("networkpolicies.hlnr.io %q: %s", r.policy, or(r.Message, or(r.Reason, "has not confirmed"))))
		}
	}
	return strings.Join(out, "; ")
}

// withheld reports whether a policy keeps traffic from a release that has no endpoints. What a
// policy reports that never confirmed the group, was left behind, or has no routes any more, is
// about no traffic.
func (s *scope) withheld(release string) bool {
	return slices.ContainsFunc(s.reports, func(r Report) bool {
		return r.counts(s.g) && !r.Unrouted && slices.Contains(r.Withheld, release)
	})
}

// referenced reports whether a written object names a release, whatever group the report is of:
// while the rollout state is lost, what a route between groups names is reported for one of them.
func (s *scope) referenced(release string) bool { return s.references[release] }

// unanswered reports whether a policy has written a release into an object, and never had an
// answer: what the object carries is not known.
func (s *scope) unanswered(release string) bool {
	return slices.ContainsFunc(s.reports, func(r Report) bool { return r.Revision == 0 && slices.Contains(r.References, release) })
}

// pinnedByDomain reports whether a domain with a version names a release.
func (s *scope) pinnedByDomain(release string) bool {
	return slices.ContainsFunc(s.reports, func(r Report) bool { return slices.Contains(r.Pinned, release) })
}

// undrained is the wait for the drain of a release: until no route names it, until policies confirm
// this, and until the drain delay has passed since then (rules 11 and 12). It waits without
// limit; nil: the release is drained.
func (s *scope) undrained(r Row) *wait {
	if s.referenced(r.Release) {
		return s.zeroWait(r)
	}
	return s.leaving(r)
}

// leaving is what a release waits for that no route names: until every policy that ever
// confirmed the group has confirmed the revision that takes it out, and the drain since is
// over.
func (s *scope) leaving(r Row) *wait {
	if r.Zero == nil {
		return nil // it was in none
	}
	if s.unreported() {
		return s.zeroWait(r)
	}
	since := r.Zero.Time
	for _, rep := range s.reports {
		if rep.Revision == 0 && !(s.g.ActiveRow() == nil && s.follows(rep.policy)) {
			continue // It never routed to this group, nor moved anything to it.
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

// unreported reports whether there is a policy of which nothing is known.
func (b *planner) unreported() bool {
	return slices.ContainsFunc(b.o.Policies, func(p Policy) bool { return p.Unreported })
}

// zeroWait is that a release is not confirmed to be in no route: reported from the deadline
// on.
func (s *scope) zeroWait(r Row) *wait {
	if r.Zero == nil {
		return &wait{}
	}
	if end := r.Zero.Time.Add(s.o.Spec.Deadline); s.now.Before(end) {
		return &wait{Until: end}
	}
	return newWait(&r, true, TrafficUnconfirmed, "%s keeps its pods until it is confirmed that no route points to it: %s", r.Version, or(s.unconfirmed(), "a route points to it"))
}

// Share is one release of a group in the question of who gets traffic.
type Share struct {
	Release string
	Status  Status
	// Weight that the rollout state asks for.
	Weight int
	// Ready: it has at least one ready endpoint now.
	Ready bool
	// Available: the rollout state's row shows that it has all its replicas.
	Available bool
	// Masked: it was withheld at the last write.
	Withheld bool
}

// Split gives the effective weights, whole numbers from 1 to 100 that add up to
// 100, and the releases that are withheld: those that ask for weight and get none
// because they have no ready endpoint.
//
// Only active and canary releases are eligible, the latter as a stand-in even at
// weight 0 (rule 5). A withheld release returns when its row says available, not at
// its first endpoint, unless nothing else has one. With no eligible endpoint at
// all weights is nil: the writer of routes then leaves what is written.
func Split(shares []Share) (weights map[string]int, withheld []string) {
	if weights, withheld = split(shares, true); weights == nil {
		weights, withheld = split(shares, false)
	}
	return weights, withheld
}

func split(shares []Share, damped bool) (weights map[string]int, withheld []string) {
	type part struct {
		release string
		weight  int
	}
	var serving, standins []part
	for _, s := range shares {
		if s.Status != Active && s.Status != Canary {
			continue
		}
		ready := s.Ready && (!damped || !s.Withheld || s.Available)
		switch {
		case ready && s.Weight > 0:
			serving = append(serving, part{s.Release, s.Weight})
		case ready:
			standins = append(standins, part{s.Release, 0})
		case s.Weight > 0:
			withheld = append(withheld, s.Release)
		}
	}
	sort.Strings(withheld)
	if len(serving) == 0 && len(standins) == 0 {
		return nil, withheld
	}
	if len(serving) == 0 {
		sort.Slice(standins, func(i, j int) bool { return standins[i].release < standins[j].release })
		return map[string]int{standins[0].release: 100}, withheld
	}
	weights = make(map[string]int, len(serving))
	for _, p := range serving {
		weights[p.release] = p.weight
	}
	return Percent(weights), withheld
}

// Percent makes weights above 0 add up to 100, each at least 1. The largest takes what
// rounding leaves, so that no rounding pushes a release to zero; of equal ones the first
// by name does.
func Percent(weights map[string]int) map[string]int {
	names, total := slices.Sorted(maps.Keys(weights)), 0
	slices.SortStableFunc(names, func(a, b string) int { return weights[b] - weights[a] })
	for _, w := range weights {
		total += w
	}
	out, rest := make(map[string]int, len(weights)), 100
	for _, name := range names[min(1, len(names)):] {
		out[name] = max(1, weights[name]*100/total)
		rest -= out[name]
	}
	if len(names) > 0 {
		out[names[0]] = rest
	}
	return out
}

// Joined are the shares of domains moving from one group to a newer one: the
// canary of the newer group has its weight, and the older group splits what remains as
// it splits its own domains.
func Joined(older []Share, canary Share) []Share {
	out := make([]Share, 0, len(older)+1)
	for _, s := range older {
		s.Weight *= 100 - canary.Weight
		out = append(out, s)
	}
	canary.Weight *= 100
	return append(out, canary)
}
