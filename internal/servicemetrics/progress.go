package servicemetrics

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/view"
)

// These constants are the results of rollouts.
const (
	// resultPromoted means that a release became active for the first time.
	resultPromoted = "Promoted"
	// resultFailed means that a rollout ended in error.
	resultFailed = "Failed"
	// resultAborted means that a user aborted a rollout.
	resultAborted = "Aborted"
	// resultRolledBack means that an earlier release replaced an active release.
	resultRolledBack = "RolledBack"
)

// results contains all results of rollouts. Each result has a series.
var results = []string{resultAborted, resultFailed, resultPromoted, resultRolledBack}

// gates contains the states in which a group is waiting for a user, a time or another system. Hooks count separately for each point of the
// rollout at which they are called.
var gates = []view.Word{
	view.WordPause, view.WordApproval, view.WordAnalysis, view.WordInconclusive, view.WordNoTraffic, view.WordProgramming,
	view.WordBlocked, view.WordRetryTime, view.WordGate, view.WordTogether, view.WordTogetherHeld, view.WordWindow, view.WordPaused,
	view.WordFrozen,
}

// groupKey identifies a group by Microservice and slug.
type groupKey struct {
	service types.NamespacedName
	slug    string
}

// progress contains the counts since the process started. The zero value is ready to use.
type progress struct {
	// last is the time of the last scrape, or zero before the first scrape.
	last     time.Time
	groups   map[groupKey]seenGroup
	services map[types.NamespacedName]*totals
}

// seenGroup is the state of a group at the last scrape.
type seenGroup struct {
	word     view.Word
	since    time.Time // start of the state or, if unknown, when the state was first seen
	promoted int64
	rows     []seenRow
}

// row returns the state of a release. ok is false if the release did not exist.
func (g seenGroup) row(release string) (row seenRow, ok bool) {
	i := slices.IndexFunc(g.rows, func(r seenRow) bool { return r.release == release })
	if i < 0 {
		return seenRow{}, false
	}
	return g.rows[i], true
}

// seenRow is the state of a release at the last scrape.
type seenRow struct {
	release string
	status  v1alpha1.ReleaseStatus
	since   time.Time
}

// totals contains the counts of a service since the process started.
type totals struct {
	rollouts map[string]float64 // keyed by result
	leadTime sum
	restored sum
	gates    map[string]float64 // seconds, keyed by gate
}

// sum contains the number of observations and their sum in seconds.
type sum struct {
	count   uint64
	seconds float64
}

func (s *sum) add(d time.Duration) {
	s.count++
	s.seconds += max(0, d.Seconds())
}

// advance counts the changes between the last scrape and now. The state at the first scrape is the baseline and does not count. Deleted
// services are dropped.
func (p *progress) advance(states []view.GroupState, starts starts, now time.Time) {
	first := p.last.IsZero()
	groups, services := make(map[groupKey]seenGroup, len(states)), make(map[types.NamespacedName]*totals, len(states))
	for _, g := range states {
		k := keyOf(g)
		total := services[k.service]
		if total == nil {
			if total = p.services[k.service]; total == nil {
				total = &totals{rollouts: map[string]float64{}, gates: map[string]float64{}}
			}
			services[k.service] = total
		}
		was, known := p.groups[k]
		seen := see(g, was, known, now)
		groups[k] = seen
		if gate := gateOf(g.State); gate != "" {
			total.gates[gate] += waited(p.last, seen.since, now).Seconds()
		}
		if !first && !g.Preview {
			total.promotions(g, was, starts)
			total.failures(g, was)
		}
	}
	p.last, p.groups, p.services = now, groups, services
}

// keyOf returns the key of a group.
func keyOf(g view.GroupState) groupKey {
	return groupKey{types.NamespacedName{Namespace: g.Microservice.Namespace, Name: g.Microservice.Name}, g.Group.Slug}
}

// see records the state of a group. If the start of the state is unknown, the start is the time at which the state is
// first seen.
func see(g view.GroupState, was seenGroup, known bool, now time.Time) seenGroup {
	out := seenGroup{word: g.State.Word, since: now, rows: make([]seenRow, len(g.Group.Releases))}
	switch {
	case g.State.Since != nil && g.State.Word != view.WordUnavailable: // For WordUnavailable, Since is when the active release became active.
		out.since = g.State.Since.Time
	case known && was.word == out.word:
		out.since = was.since
	}
	for i := range g.Group.Releases {
		r := &g.Group.Releases[i]
		out.promoted = max(out.promoted, r.Promoted)
		out.rows[i] = seenRow{r.VersionedMicroservice, r.Status, r.LastTransitionTime.Time}
	}
	return out
}

// waited returns how long a state has lasted since the last scrape.
func waited(last, since, now time.Time) time.Duration {
	if last.IsZero() {
		return 0
	}
	if since.After(last) {
		last = since
	}
	return max(0, now.Sub(last))
}

// gateOf returns the gate of a state, or an empty string if the state is not a gate.
func gateOf(s view.State) string {
	if !slices.Contains(gates, s.Word) {
		return ""
	}
	if s.Word == view.WordGate && s.Reason != "" {
		return s.Reason
	}
	return string(s.Word)
}

// activeOf returns the index of the active release, or -1 if there is none.
func activeOf(g *v1alpha1.ReleaseGroup) int {
	return slices.IndexFunc(g.Releases, func(r v1alpha1.Release) bool { return r.Status == v1alpha1.ReleaseActive })
}

// promotions counts a new active release as a rollback if it replaced a later release, or as a promotion, with its lead time, if
// it is active for the first time.
func (t *totals) promotions(g view.GroupState, was seenGroup, starts starts) {
	at := activeOf(g.Group)
	if at < 0 || g.Group.Releases[at].Promoted <= was.promoted {
		return
	}
	active := &g.Group.Releases[at]
	before := slices.IndexFunc(g.Group.Releases, func(r v1alpha1.Release) bool { return r.Promoted > 0 && r.Promoted == active.Promoted-1 })
	if before >= 0 && starts.later(g, before, at) {
		from, _ := was.row(g.Group.Releases[before].VersionedMicroservice)
		t.rolledBack(from, active)
		return
	}
	if again(active) {
		return
	}
	t.rollouts[resultPromoted]++
	if leadTime, _, ok := starts.leadTime(g, active); ok {
		t.leadTime.add(leadTime)
	}
}

// rolledBack counts a return to an earlier release. The time during which the later release had traffic is known only if a scrape observed
// that release while it had traffic.
func (t *totals) rolledBack(from seenRow, to *v1alpha1.Release) {
	t.rollouts[resultRolledBack]++
	if from.status == v1alpha1.ReleaseActive || from.status == v1alpha1.ReleaseCanary {
		t.restored.add(to.LastTransitionTime.Sub(from.since))
	}
}

// again reports whether an active release was active before.
func again(r *v1alpha1.Release) bool {
	return !slices.Contains([]release.Reason{release.Promoted, release.First, release.Adopted}, release.Reason(r.Reason))
}

// failures counts releases that ended in error, and adds the time during which they had traffic.
func (t *totals) failures(g view.GroupState, was seenGroup) {
	for i := range g.Group.Releases {
		r := &g.Group.Releases[i]
		old, ok := was.row(r.VersionedMicroservice)
		if r.Status != v1alpha1.ReleaseError || ok && old.status == v1alpha1.ReleaseError && old.since.Equal(r.LastTransitionTime.Time) {
			continue
		}
		result := resultFailed
		if r.Reason == string(release.Aborted) {
			result = resultAborted
		}
		t.rollouts[result]++
		if ok && old.status == v1alpha1.ReleaseCanary {
			t.restored.add(r.LastTransitionTime.Sub(old.since))
		}
	}
}

// These constants are the starting points of a lead time.
const (
	// fromPublished means that the lead time starts when the version was published, or its commit was pushed, as reported by the source.
	fromPublished = "Published"
	// fromStarted means that the lead time starts when the release was created.
	fromStarted = "Started"
)

// starts contains the times at which versions were published and releases were created.
type starts struct {
	published map[types.NamespacedName]map[string]time.Time // keyed by ImagePolicy and version
	created   map[types.NamespacedName]time.Time            // keyed by release
}

// startsOf returns the start times of the versions and releases in the input.
func startsOf(in view.Input) starts {
	out := starts{published: map[types.NamespacedName]map[string]time.Time{}, created: make(map[types.NamespacedName]time.Time, len(in.Releases))}
	for i := range in.ImagePolicies {
		p := &in.ImagePolicies[i]
		for _, r := range p.Status.Releases {
			if r.ReleaseTime == nil {
				continue
			}
			k := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
			if out.published[k] == nil {
				out.published[k] = map[string]time.Time{}
			}
			out.published[k][r.SemVer.Version] = r.ReleaseTime.Time
		}
	}
	for i := range in.Releases {
		r := &in.Releases[i]
		out.created[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}] = r.CreationTimestamp.Time
	}
	return out
}

// later reports whether a release of a group has a newer version than another release that was promoted after it, or
// the same version and a newer configuration.
func (s starts) later(g view.GroupState, i, other int) bool {
	x, y := &g.Group.Releases[i], &g.Group.Releases[other]
	if x.SemVer.Version != y.SemVer.Version {
		return i < other // The releases are sorted by version, newest first.
	}
	created := func(r *v1alpha1.Release) time.Time {
		return s.created[types.NamespacedName{Namespace: g.Microservice.Namespace, Name: r.VersionedMicroservice}]
	}
	return again(y) && !created(x).Before(created(y))
}

// leadTime returns the time from the publication of the version until its release became active. It starts no earlier than the creation of the
// Microservice. If the time of publication is unknown, or if the release is a new configuration of a version that was active before, the lead time
// starts at the creation of the release. ok is false if the release became active again, or if its start is unknown.
func (s starts) leadTime(g view.GroupState, active *v1alpha1.Release) (leadTime time.Duration, from string, ok bool) {
	if again(active) {
		return 0, "", false
	}
	ms := g.Microservice
	reconfigured := slices.ContainsFunc(g.Group.Releases, func(r v1alpha1.Release) bool {
		return r.SemVer.Version == active.SemVer.Version && 0 < r.Promoted && r.Promoted < active.Promoted
	})
	if at, ok := s.published[types.NamespacedName{Namespace: ms.Namespace, Name: ms.Spec.ImagePolicyRef.Name}][active.SemVer.Version]; ok && !reconfigured {
		if created := ms.CreationTimestamp.Time; created.After(at) {
			at = created
		}
		return max(0, active.LastTransitionTime.Sub(at)), fromPublished, true
	}
	if at, ok := s.created[types.NamespacedName{Namespace: ms.Namespace, Name: active.VersionedMicroservice}]; ok {
		return max(0, active.LastTransitionTime.Sub(at)), fromStarted, true
	}
	return 0, "", false
}
