package servicemetrics

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
)

var epoch = time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)

// at returns the time that is the given number of minutes after the epoch.
func at(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }

// row returns a release whose status began at the given minute.
func row(version string, status v1alpha1.ReleaseStatus, reason string, since int, promoted int64) v1alpha1.Release {
	return v1alpha1.Release{
		VersionedMicroservice: "shop-" + version, SemVer: v1alpha1.SemVer{Version: version}, Status: status, Reason: reason,
		LastTransitionTime: metav1.NewMicroTime(at(since)), Promoted: promoted, Available: true,
	}
}

// shop returns a service with one group of releases, newest first. They were created at minute 0, and 1.2.0 was
// published at minute -30.
func shop(rollout *v1alpha1.Rollout, rows ...v1alpha1.Release) view.Input {
	ms := v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
	ms.Spec.ImagePolicyRef.Name = "shop"
	ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Weight: 10, Approval: &v1alpha1.CanaryApproval{}}}}
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{Name: "1.x", Slug: "1-x", Phase: v1alpha1.GroupLive, Releases: rows, Rollout: rollout}}
	in := view.Input{Microservices: []v1alpha1.Microservice{ms}}
	for _, r := range rows {
		o := v1alpha1.VersionedMicroservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: r.VersionedMicroservice, CreationTimestamp: metav1.NewTime(at(0))}}
		o.Spec.MicroserviceName, o.Spec.Replicas, o.Status.Available = "shop", 1, 1
		in.Releases = append(in.Releases, o)
	}
	published := metav1.NewTime(at(-30))
	p := v1alpha1.ImagePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
	p.Status.Releases = []v1alpha1.OfferedRelease{{SemVer: v1alpha1.SemVer{Version: "1.2.0"}, ReleaseTime: &published}, {SemVer: v1alpha1.SemVer{Version: "1.1.0"}}}
	in.ImagePolicies = []v1alpha1.ImagePolicy{p}
	return in
}

// named returns a copy of a release with another name.
func named(name string, r v1alpha1.Release) v1alpha1.Release {
	r.VersionedMicroservice = name
	return r
}

// step is the state at a given minute.
type step struct {
	minute int
	input  view.Input
}

func TestProgress(t *testing.T) {
	t.Parallel()
	const active, canary, failed, deprecated = v1alpha1.ReleaseActive, v1alpha1.ReleaseCanary, v1alpha1.ReleaseError, v1alpha1.ReleaseDeprecated
	one := row("1.0.0", active, "First", 1, 1)
	was := row("1.0.0", deprecated, "Replaced", 20, 1)
	approval := func(release string) *v1alpha1.Rollout {
		return &v1alpha1.Rollout{Release: release, Step: 1, StartedTime: metav1.NewMicroTime(at(10))}
	}
	for name, tc := range map[string]struct {
		steps []step
		// leadTimes and restored contain the number of observations and the sum of the minutes. rollouts contains counts by result, and gates contains
		// minutes by gate.
		leadTimes, restored []float64
		rollouts            map[string]float64
		gates               map[string]float64
	}{
		"earlier releases do not count": {
			steps: []step{{40, shop(nil, row("1.1.0", failed, "ReleaseFailed", 20, 0), row("1.0.0", active, "First", 1, 1))}, {41, shop(nil, row("1.1.0", failed, "ReleaseFailed", 20, 0), one)}},
		},
		"promotion of a release": {
			steps:     []step{{15, shop(approval("shop-1.1.0"), row("1.1.0", canary, "", 10, 0), one)}, {25, shop(nil, row("1.1.0", active, "Promoted", 20, 2), was)}},
			leadTimes: []float64{1, 20},
			rollouts:  map[string]float64{resultPromoted: 1},
		},
		"promotion of a published version": {
			steps:     []step{{15, shop(nil, one)}, {25, shop(nil, row("1.2.0", active, "Promoted", 20, 2), was)}},
			leadTimes: []float64{1, 50},
			rollouts:  map[string]float64{resultPromoted: 1},
		},
		"first release of a new service": {
			steps:     []step{{0, view.Input{}}, {5, shop(nil, one)}},
			leadTimes: []float64{1, 1},
			rollouts:  map[string]float64{resultPromoted: 1},
		},
		"rollback to the previous release": {
			steps:    []step{{25, shop(nil, row("1.1.0", active, "Promoted", 20, 2), was)}, {35, shop(nil, row("1.1.0", deprecated, "Replaced", 32, 2), row("1.0.0", active, "RolledBack", 32, 3))}},
			restored: []float64{1, 12},
			rollouts: map[string]float64{resultRolledBack: 1},
		},
		"rollback of a release that was never observed as active": {
			steps:    []step{{15, shop(nil, one)}, {35, shop(nil, row("1.1.0", deprecated, "Replaced", 32, 2), row("1.0.0", active, "RolledBack", 32, 3))}},
			rollouts: map[string]float64{resultRolledBack: 1},
		},
		"rollback to a version that had been removed": {
			steps:    []step{{25, shop(nil, row("1.1.0", active, "Promoted", 20, 2))}, {35, shop(nil, row("1.1.0", deprecated, "Replaced", 32, 2), row("1.0.0", active, "Promoted", 32, 3))}},
			restored: []float64{1, 12},
			rollouts: map[string]float64{resultRolledBack: 1},
		},
		"rollback of a configuration": { // The same version with another template is another release. The later release is active first.
			steps: []step{
				{25, shop(nil, named("shop-1.1.0-b", row("1.1.0", active, "Promoted", 20, 2)), named("shop-1.1.0-a", row("1.1.0", deprecated, "Replaced", 20, 1)))},
				{35, shop(nil, named("shop-1.1.0-a", row("1.1.0", active, "RolledBack", 32, 3)), named("shop-1.1.0-b", row("1.1.0", deprecated, "Replaced", 32, 2)))},
			},
			restored: []float64{1, 12},
			rollouts: map[string]float64{resultRolledBack: 1},
		},
		"return to the newer release": {
			steps: []step{{35, shop(nil, row("1.1.0", deprecated, "Replaced", 32, 2), row("1.0.0", active, "RolledBack", 32, 3))}, {45, shop(nil, row("1.1.0", active, "RolledBack", 40, 4), row("1.0.0", deprecated, "Replaced", 40, 3))}},
		},
		"canary that fails": {
			steps:    []step{{15, shop(approval("shop-1.1.0"), row("1.1.0", canary, "", 10, 0), one)}, {19, shop(nil, row("1.1.0", failed, "AnalysisFailed", 17, 0), one)}, {20, shop(nil, row("1.1.0", failed, "AnalysisFailed", 17, 0), one)}},
			restored: []float64{1, 7},
			rollouts: map[string]float64{resultFailed: 1},
		},
		"release that fails twice, without traffic": {
			steps:    []step{{1, shop(nil, one)}, {19, shop(nil, row("1.1.0", failed, "ReleaseFailed", 17, 0), one)}, {30, shop(nil, row("1.1.0", failed, "ReleaseFailed", 29, 0), one)}},
			rollouts: map[string]float64{resultFailed: 2},
		},
		"abort by a user": {
			steps:    []step{{1, shop(nil, one)}, {19, shop(nil, row("1.1.0", failed, "Aborted", 17, 0), one)}},
			rollouts: map[string]float64{resultAborted: 1},
		},
		"approval": {
			steps: []step{
				{5, shop(nil, one)}, {12, shop(approval("shop-1.1.0"), row("1.1.0", canary, "", 10, 0), one)},
				{20, shop(approval("shop-1.1.0"), row("1.1.0", canary, "", 10, 0), one)}, {25, shop(nil, row("1.1.0", active, "Promoted", 22, 2), was)},
			},
			leadTimes: []float64{1, 22},
			rollouts:  map[string]float64{resultPromoted: 1},
			gates:     map[string]float64{"Approval": 10},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p progress
			for _, s := range tc.steps {
				now := at(s.minute)
				p.advance(view.GroupStates(s.input, now), startsOf(s.input), now)
			}
			got := p.services[keyOf(view.GroupStates(tc.steps[len(tc.steps)-1].input, epoch)[0]).service]
			minutes := func(s sum) []float64 {
				if s.count == 0 {
					return nil
				}
				return []float64{float64(s.count), s.seconds / 60}
			}
			for what, diff := range map[string]string{
				"lead time": cmp.Diff(tc.leadTimes, minutes(got.leadTime)), "restored": cmp.Diff(tc.restored, minutes(got.restored)), "rollouts": cmp.Diff(orEmpty(tc.rollouts), got.rollouts),
			} {
				if diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
			for gate, want := range tc.gates {
				if got.gates[gate]/60 != want {
					t.Errorf("%v minutes in gate %s, want %v", got.gates[gate]/60, gate, want)
				}
			}
			if tc.gates == nil && got.gates["Approval"] > 10*60 {
				t.Errorf("gates: %v", got.gates)
			}
		})
	}
}

func orEmpty(m map[string]float64) map[string]float64 {
	if m == nil {
		return map[string]float64{}
	}
	return m
}

// TestForgotten checks that no data about deleted services is kept.
func TestForgotten(t *testing.T) {
	t.Parallel()
	var p progress
	in := shop(nil, row("1.0.0", v1alpha1.ReleaseActive, "First", 1, 1))
	p.advance(view.GroupStates(in, at(2)), startsOf(in), at(2))
	p.advance(nil, starts{}, at(3))
	if len(p.groups)+len(p.services) > 0 {
		t.Errorf("it remembers %v and %v", p.groups, p.services)
	}
}

// TestGates checks that the wait for the end of a freeze counts as a gate, and that each gate has a series in
// heighliner_groups.
func TestGates(t *testing.T) {
	t.Parallel()
	if !slices.Contains(gates, view.WordFrozen) {
		t.Error("a freeze is not a gate")
	}
	for _, gate := range gates {
		if !slices.Contains(words, gate) {
			t.Errorf("gate %s has no series in heighliner_groups", gate)
		}
	}
}

// TestLeadTimeOfOldVersions checks that the age of a version is not part of the lead time if the version is rolled out again with another
// configuration, or if the Microservice is newer than the version.
func TestLeadTimeOfOldVersions(t *testing.T) {
	t.Parallel()
	active, deprecated := v1alpha1.ReleaseActive, v1alpha1.ReleaseDeprecated
	next, first := row("1.2.0", active, "Promoted", 1000, 2), row("1.2.0", active, "First", 1000, 1)
	next.VersionedMicroservice = "shop-1.2.0-b"
	for name, test := range map[string]struct {
		rows    []v1alpha1.Release
		created int // when the Microservice was created
		want    int // in minutes
		from    string
	}{
		"new version":                     {[]v1alpha1.Release{next, row("1.1.0", deprecated, "Replaced", 1000, 1)}, -5000, 1030, fromPublished},
		"new configuration":               {[]v1alpha1.Release{next, row("1.2.0", deprecated, "Replaced", 1000, 1)}, -5000, 10, fromStarted},
		"the other release never served":  {[]v1alpha1.Release{next, row("1.2.0", v1alpha1.ReleaseError, "CrashLoopBackOff", 900, 0)}, -5000, 1030, fromPublished},
		"first release of a new service":  {[]v1alpha1.Release{first}, 990, 10, fromPublished},
		"first release of an old service": {[]v1alpha1.Release{first}, -5000, 1030, fromPublished},
	} {
		in := shop(nil, test.rows...)
		in.Microservices[0].CreationTimestamp = metav1.NewTime(at(test.created))
		s := starts{
			published: map[types.NamespacedName]map[string]time.Time{{Namespace: "shop", Name: "shop"}: {"1.2.0": at(-30)}},
			created:   map[types.NamespacedName]time.Time{{Namespace: "shop", Name: "shop-1.2.0-b"}: at(990), {Namespace: "shop", Name: "shop-1.2.0"}: at(990)},
		}
		g := view.GroupState{Microservice: &in.Microservices[0], Group: &in.Microservices[0].Status.ReleaseGroups[0]}
		got, from, ok := s.leadTime(g, &g.Group.Releases[0])
		if want := time.Duration(test.want) * time.Minute; got != want || from != test.from || !ok {
			t.Errorf("%s: %s from %s, %t, want %s from %s", name, got, from, ok, want, test.from)
		}
	}
}
