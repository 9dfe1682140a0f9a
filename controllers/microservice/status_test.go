package microservice

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/status"
)

// shown contains the fields that a user reads: the conditions by type, except conditions in their normal state,
// and the columns.
type shown struct {
	Conditions                     []string
	Active, Canary, Groups, Failed string
}

func show(ms *v1alpha1.Microservice) shown {
	s := shown{Active: ms.Status.Summary.Active, Canary: ms.Status.Summary.Canary, Groups: ms.Status.Summary.Groups, Failed: ms.Status.Summary.Failed}
	for _, c := range ms.Status.Conditions {
		if c.Reason == "Idle" {
			continue
		}
		s.Conditions = append(s.Conditions, fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return s
}

// live returns a group with rows in the form "version status weight".
func live(name string, rows ...string) v1alpha1.ReleaseGroup {
	g := v1alpha1.ReleaseGroup{Name: name, Slug: strings.ReplaceAll(name, ".", "-"), Phase: v1alpha1.GroupLive}
	for _, text := range rows {
		r := v1alpha1.Release{}
		fmt.Sscanf(text, "%s %s %d", &r.SemVer.Version, &r.Status, &r.Weight)
		r.VersionedMicroservice = "shop-" + r.SemVer.Version
		r.Available = r.Status == v1alpha1.ReleaseActive
		if r.Status == v1alpha1.ReleaseError {
			r.Reason = "CrashLoopBackOff"
		}
		if r.Status == v1alpha1.ReleaseActive {
			r.Promoted = 1
		}
		g.Releases = append(g.Releases, r)
	}
	return g
}

// waiting blocks the rollout of a group because of a problem outside the release.
func waiting(g v1alpha1.ReleaseGroup, cause string) v1alpha1.ReleaseGroup {
	g.Rollout.WaitsFor = cause
	return g
}

func running(g v1alpha1.ReleaseGroup, release string, step int32) v1alpha1.ReleaseGroup {
	g.Rollout = &v1alpha1.Rollout{Release: "shop-" + release, Step: step}
	return g
}

func TestConditions(t *testing.T) {
	t.Parallel()
	programmed := []release.Policy{{Name: "shop", Groups: []release.Report{{Slug: "1-x", Revision: 1}, {Slug: "2-x", Revision: 1}}}}
	state := func(reason, message string) release.Note {
		return release.Note{Slug: "1-x", Reason: release.Reason(reason), Message: message}
	}
	newest := func(w *pass) {
		w.facts.Policies = []release.Policy{{Name: "shop", Groups: []release.Report{{Slug: "1-x", Revision: 1, Newest: true}, {Slug: "2-x"}}}}
	}
	canaries := func() []v1alpha1.ReleaseGroup {
		return []v1alpha1.ReleaseGroup{running(live("1.x", "1.1.0 canary 10", "1.0.0 active 90"), "1.1.0", 1)}
	}
	for name, test := range map[string]struct {
		groups  []v1alpha1.ReleaseGroup
		notes   []release.Note
		problem *status.Error
		edit    func(*pass)
		want    shown
	}{
		"nothing is offered": {nil, nil, nil, nil, shown{Conditions: []string{
			`Ready False NoVersions: ImagePolicy "shop" offers no version yet`,
			`Reconciling True NoVersions: ImagePolicy "shop" offers no version yet`,
		}}},
		"stable": {[]v1alpha1.ReleaseGroup{live("1.x", "1.0.0 active 100")}, nil, nil, nil, shown{Conditions: []string{
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
		}, Active: "1.0.0", Groups: "1/1"}},
		"two groups": {[]v1alpha1.ReleaseGroup{live("2.x", "2.0.0 active 100"), live("1.x", "1.0.0 active 100")}, nil, nil, nil, shown{Conditions: []string{
			"Ready True Succeeded: active: 2.0.0 in group 2.x, 1.0.0 in group 1.x",
		}, Active: "2.0.0 +1", Groups: "2/2"}},
		"a new group starts": {[]v1alpha1.ReleaseGroup{running(live("2.x", "2.0.0 pending 0"), "2.0.0", 0), live("1.x", "1.0.0 active 100")}, nil, nil, nil, shown{Conditions: []string{
			"Progressing True Canary: the rollout of 2.0.0 in group 2.x is in progress",
			"Ready False NoActiveRelease: group 2.x has no active release yet",
			"Reconciling True NoActiveRelease: group 2.x has no active release yet",
		}, Active: "1.0.0", Canary: "2.0.0 pending", Groups: "1/2"}},
		"the newest domains move to a new group": {[]v1alpha1.ReleaseGroup{running(live("2.x", "2.0.0 canary 10"), "2.0.0", 1), live("1.x", "1.0.0 active 100")}, nil, nil, newest, shown{Conditions: []string{
			"Progressing True Canary: the rollout of 2.0.0 in group 2.x is in progress",
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
		}, Active: "1.0.0", Canary: "2.0.0 10% step 1/2", Groups: "1/2"}},
		"a new group waits for another": {[]v1alpha1.ReleaseGroup{running(live("2.x", "2.0.0 pending 0"), "2.0.0", 0), live("1.x", "1.0.0 active 100")}, []release.Note{state("AwaitingGroup", "2.0.0 waits for 3.0.0")}, nil, newest, shown{Conditions: []string{
			"Progressing True Group: 2.0.0 waits for 3.0.0",
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
		}, Active: "1.0.0", Canary: "2.0.0 pending", Groups: "1/2"}},
		"canary": {[]v1alpha1.ReleaseGroup{running(live("1.x", "1.1.0 canary 10", "1.0.0 active 90"), "1.1.0", 1)}, nil, nil, nil, shown{Conditions: []string{
			"Progressing True Canary: the rollout of 1.1.0 in group 1.x is in progress",
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
		}, Active: "1.0.0", Canary: "1.1.0 10% step 1/2", Groups: "1/1"}},
		"a first release has no capacity": {[]v1alpha1.ReleaseGroup{waiting(running(live("1.x", "1.1.0 pending 0"), "1.1.0", 0), "Unschedulable")}, []release.Note{{Slug: "1-x", Reason: "Blocked", Message: "1.1.0 is blocked at 0%: the cluster has no capacity for its pods", Warning: true}}, nil, nil, shown{Conditions: []string{
			"Blocked True Blocked: 1.1.0 is blocked at 0%: the cluster has no capacity for its pods",
			"Progressing True Blocked: 1.1.0 is blocked at 0%: the cluster has no capacity for its pods",
			"Ready False NoActiveRelease: group 1.x has no active release yet: 1.1.0 is blocked at 0%: the cluster has no capacity for its pods",
			"Reconciling True NoActiveRelease: group 1.x has no active release yet: 1.1.0 is blocked at 0%: the cluster has no capacity for its pods",
		}, Canary: "1.1.0 pending Unschedulable", Groups: "0/1"}},
		"canary waits": {[]v1alpha1.ReleaseGroup{running(live("1.x", "1.1.0 canary 10", "1.0.0 active 90"), "1.1.0", 1)}, []release.Note{state("Waiting", "1.1.0 is waiting at 10% until then")}, nil, nil, shown{Conditions: []string{
			"Progressing True Paused: 1.1.0 is waiting at 10% until then",
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
		}, Active: "1.0.0", Canary: "1.1.0 10% step 1/2 Paused", Groups: "1/1"}},
		"an approval takes precedence over a pause": {[]v1alpha1.ReleaseGroup{running(live("1.x", "1.1.0 canary 10", "1.0.0 active 90"), "1.1.0", 1)}, []release.Note{state("AwaitingApproval", "1.1.0 waits for Continue"), state("Paused", "2.0.0 waits")}, nil, nil, shown{Conditions: []string{
			"Progressing True Approval: 1.1.0 waits for Continue",
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
		}, Active: "1.0.0", Canary: "1.1.0 10% step 1/2 Approval", Groups: "1/1"}},
		"the canary is being measured": {canaries(), []release.Note{state("AnalysisRunning", "1.1.0 is waiting for its analysis")}, nil, nil, shown{Conditions: []string{
			"Progressing True Analysis: 1.1.0 is waiting for its analysis",
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
		}, Active: "1.0.0", Canary: "1.1.0 10% step 1/2 Analysis", Groups: "1/1"}},
		"a pause takes precedence over measurements": {canaries(), []release.Note{state("AnalysisRunning", "1.1.0 is waiting for its analysis"), state("Waiting", "1.1.0 waits until then")}, nil, nil, shown{Conditions: []string{
			"Progressing True Paused: 1.1.0 waits until then",
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
		}, Active: "1.0.0", Canary: "1.1.0 10% step 1/2 Paused", Groups: "1/1"}},
		"inconclusive measurements": {canaries(), []release.Note{{Slug: "1-x", Reason: "AnalysisInconclusive", Message: "1.1.0 waits for a decision", Warning: true}, state("Waiting", "1.1.0 waits until then")}, nil, nil, shown{Conditions: []string{
			"AnalysisInconclusive True AnalysisInconclusive: 1.1.0 waits for a decision",
			"Progressing True Inconclusive: 1.1.0 waits for a decision",
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
		}, Active: "1.0.0", Canary: "1.1.0 10% step 1/2 Inconclusive", Groups: "1/1"}},
		"an empty queue": {canaries(), []release.Note{state("AnalysisNoTraffic", "1.1.0 waits for work")}, nil, nil, shown{Conditions: []string{
			"Progressing True Analysis: 1.1.0 waits for work",
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
		}, Active: "1.0.0", Canary: "1.1.0 10% step 1/2 Analysis", Groups: "1/1"}},
		"unhealthy": {canaries(), []release.Note{state("Unhealthy", "1.1.0 is not healthy: the gateway is gone")}, nil, nil, shown{Conditions: []string{
			"Progressing True Canary: 1.1.0 is not healthy: the gateway is gone",
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
		}, Active: "1.0.0", Canary: "1.1.0 10% step 1/2", Groups: "1/1"}},
		"no traffic to measure": {canaries(), []release.Note{{Slug: "1-x", Reason: "AnalysisNoTraffic", Message: "1.1.0 waits for requests", Warning: true}}, nil, nil, shown{Conditions: []string{
			"AnalysisInconclusive True AnalysisNoTraffic: 1.1.0 waits for requests",
			"Progressing True Analysis: 1.1.0 waits for requests",
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
		}, Active: "1.0.0", Canary: "1.1.0 10% step 1/2 Analysis", Groups: "1/1"}},
		"a gate is closed": {canaries(), []release.Note{state("AwaitingGate", "1.1.0 waits for hooks"), state("Waiting", "2.0.0 waits until then"), state("AwaitingWindow", "3.0.0 waits for its window")}, nil, nil, shown{Conditions: []string{
			"Progressing True Gate: 1.1.0 waits for hooks",
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
		}, Active: "1.0.0", Canary: "1.1.0 10% step 1/2 Gate", Groups: "1/1"}},
		"a window is closed": {canaries(), []release.Note{state("AwaitingWindow", "1.1.0 waits for its window")}, nil, nil, shown{Conditions: []string{
			"Progressing True Window: 1.1.0 waits for its window",
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
		}, Active: "1.0.0", Canary: "1.1.0 10% step 1/2 Window", Groups: "1/1"}},
		"a release lost its configuration": {[]v1alpha1.ReleaseGroup{live("1.x", "1.0.0 active 100")}, nil, nil, func(w *pass) {
			c := &v1alpha1.VersionedMicroservice{ObjectMeta: metav1.ObjectMeta{Name: "shop-1"}}
			c.Spec.SemVer.Version = "1.0.0"
			c.Spec.Template.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "shop-1-abc"}},
			}}}
			w.objects = map[string]*v1alpha1.VersionedMicroservice{"shop-1": c}
		}, shown{Conditions: []string{
			`ConfigurationLost True ConfigurationLost: releases cannot start pods, because copies of their configuration were deleted: 1.0.0 (shop-1) lacks ConfigMap "shop-1-abc"`,
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
		}, Active: "1.0.0", Groups: "1/1"}},
		"after the last step": {[]v1alpha1.ReleaseGroup{running(live("1.x", "1.1.0 canary 50", "1.0.0 active 50"), "1.1.0", 3)}, nil, nil, nil, shown{Conditions: []string{
			"Progressing True Canary: the rollout of 1.1.0 in group 1.x is in progress",
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
		}, Active: "1.0.0", Canary: "1.1.0 50% step 2/2", Groups: "1/1"}},
		"superseded": {[]v1alpha1.ReleaseGroup{live("1.x", "1.1.0 deprecated 0", "1.0.0 active 100")}, nil, nil, nil, shown{Conditions: []string{
			"Progressing True Draining: 1.1.0 of group 1.x is draining",
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
		}, Active: "1.0.0", Groups: "1/1"}},
		"a newer version failed": {[]v1alpha1.ReleaseGroup{live("1.x", "1.1.0 error 0", "1.0.0 active 100")}, nil, nil, nil, shown{Conditions: []string{
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
			"ReleaseFailed True ReleaseFailed: 1.1.0 (CrashLoopBackOff)",
		}, Active: "1.0.0", Groups: "1/1", Failed: "1.1.0 (CrashLoopBackOff)"}},
		"the first release failed": {[]v1alpha1.ReleaseGroup{live("1.x", "1.0.0 error 0")}, nil, nil, nil, shown{Conditions: []string{
			"Ready False ReleaseFailed: group 1.x has no active release: retry a failed release, or push a newer version; failed: 1.0.0 (CrashLoopBackOff)",
			"ReleaseFailed True ReleaseFailed: 1.0.0 (CrashLoopBackOff)",
			"Stalled True ReleaseFailed: group 1.x has no active release: retry a failed release, or push a newer version; failed: 1.0.0 (CrashLoopBackOff)",
		}, Groups: "0/1", Failed: "1.0.0 (CrashLoopBackOff)"}},
		"active unavailable": {[]v1alpha1.ReleaseGroup{live("1.x", "1.0.0 active 100")}, nil, nil, func(w *pass) {
			w.ms.Status.ReleaseGroups[0].Releases[0].Available = false
		}, shown{Conditions: []string{
			"Ready False ActiveUnavailable: the active release 1.0.0 of group 1.x has fewer available replicas than desired",
			"Reconciling True ActiveUnavailable: the active release 1.0.0 of group 1.x has fewer available replicas than desired",
		}, Active: "1.0.0", Groups: "0/1"}},
		"not programmed": {[]v1alpha1.ReleaseGroup{live("1.x", "1.0.0 active 100")}, nil, nil, func(w *pass) {
			w.facts.Policies = []release.Policy{{Name: "shop"}}
		}, shown{Conditions: []string{
			"Ready False NotProgrammed: no networkpolicies.hlnr.io object has programmed routes to group 1.x yet",
			"Reconciling True NotProgrammed: no networkpolicies.hlnr.io object has programmed routes to group 1.x yet",
		}, Active: "1.0.0", Groups: "1/1"}},
		"canary without a policy": {[]v1alpha1.ReleaseGroup{live("1.x", "1.0.0 active 100")}, nil, nil, func(w *pass) {
			w.facts.Policies, w.facts.Spec.SplitBy = nil, release.SplitByRoutes
			w.facts.State.Groups = []release.Group{{}}
		}, shown{Conditions: []string{
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
			"TrafficDegraded True NoNetworkPolicy: no networkpolicies.hlnr.io object routes to this Microservice: weights have no effect, and steps do not shift traffic",
		}, Active: "1.0.0", Groups: "1/1"}},
		"canary of a worker": {[]v1alpha1.ReleaseGroup{live("1.x", "1.0.0 active 100")}, nil, nil, func(w *pass) {
			w.facts.Policies = nil
			w.facts.State.Groups = []release.Group{{}}
		}, shown{Conditions: []string{
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
		}, Active: "1.0.0", Groups: "1/1"}},
		"the source is stale": {[]v1alpha1.ReleaseGroup{live("1.x", "1.0.0 active 100")}, nil, nil, func(w *pass) {
			w.facts.SourceStale = true
		}, shown{Conditions: []string{
			"Ready False SourcePending: the ImagePolicy has not completed a scan with its current specification yet",
			"Reconciling True SourcePending: the ImagePolicy has not completed a scan with its current specification yet",
		}, Active: "1.0.0", Groups: "1/1"}},
		"terminal": {[]v1alpha1.ReleaseGroup{live("1.x", "1.0.0 active 100")}, nil, status.NewTerminal("NameConflict", errors.New("rename it")), nil, shown{Conditions: []string{
			"Ready False NameConflict: rename it",
			"Stalled True NameConflict: rename it",
		}, Active: "1.0.0", Groups: "1/1"}},
		"waiting": {[]v1alpha1.ReleaseGroup{live("1.x", "1.0.0 active 100")}, nil, status.NewWaiting("Terminating", 1, errors.New("it is being deleted")), nil, shown{Conditions: []string{
			"Ready False Terminating: it is being deleted",
			"Reconciling True Terminating: it is being deleted",
		}, Active: "1.0.0", Groups: "1/1"}},
		"pins without effect and an effective pin": {[]v1alpha1.ReleaseGroup{live("1.x", "1.0.0 active 100")}, []release.Note{
			state("Pinned", "group 1.x is pinned to 1.0.0"), {Reason: "PinsConflict", Message: "both select 3.x", Warning: true},
			{Reason: "PinnedVersionMissing", Message: "there is no group 2.X", Warning: true},
		}, nil, nil, shown{Conditions: []string{
			"Pinned False PinnedVersionMissing: there is no group 2.X; both select 3.x; group 1.x is pinned to 1.0.0",
			"Ready False PinsConflict: both select 3.x",
			"Stalled True PinsConflict: both select 3.x",
		}, Active: "1.0.0", Groups: "1/1"}},
		"a pin to a pull request that is not open does not cause Stalled": {[]v1alpha1.ReleaseGroup{live("1.x", "1.0.0 active 100")}, []release.Note{
			state("PinnedVersionMissing", "the pin waits"),
		}, nil, nil, shown{Conditions: []string{
			"Pinned False PinnedVersionMissing: the pin waits",
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
		}, Active: "1.0.0", Groups: "1/1"}},
		"not healthy in a freeze": {canaries(), []release.Note{state("Unhealthy", "1.1.0 is not healthy: CrashLoopBackOff"), state("Frozen", "1.1.0 is waiting at 10%: frozen indefinitely by Freeze \"fair\" (\"fair\")")}, nil, nil, shown{Conditions: []string{
			"Frozen True Frozen: 1.1.0 is waiting at 10%: frozen indefinitely by Freeze \"fair\" (\"fair\")",
			"Progressing True Canary: 1.1.0 is not healthy: CrashLoopBackOff",
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
		}, Active: "1.0.0", Canary: "1.1.0 10% step 1/2", Groups: "1/1"}},
		"states of several groups": {[]v1alpha1.ReleaseGroup{live("1.x", "1.0.0 active 100")}, []release.Note{
			state("Pinned", "group 1.x is pinned to 1.0.0"), state("Pinned", "group 2.x is pinned to 2.0.0"),
			state("TrafficUnconfirmed", "1.0.1 keeps its pods"), {Reason: "Superseded", Message: "1.0.0 was superseded", Event: true},
		}, nil, nil, shown{Conditions: []string{
			"Pinned True Pinned: group 1.x is pinned to 1.0.0; group 2.x is pinned to 2.0.0",
			"Ready True Succeeded: active: 1.0.0 in group 1.x",
			"TrafficDegraded True TrafficUnconfirmed: 1.0.1 keeps its pods",
		}, Active: "1.0.0", Groups: "1/1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Name: "shop", Generation: 3}}
			ms.Spec.ImagePolicyRef.Name = "shop"
			ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Steps: make([]v1alpha1.CanaryStep, 2)}
			ms.Status.ReleaseGroups = test.groups
			w := &pass{observed: observed{ms: ms, facts: release.Observed{Policies: programmed}}, plan: plan{Result: release.Result{Notes: test.notes}}}
			if test.edit != nil {
				test.edit(w)
			}
			say := func() {
				setConditions(w, test.problem)
				summarize(&pass{observed: observed{ms: ms}, plan: w.plan})
			}
			say()
			same(t, "shown", show(ms), test.want)
			for _, c := range ms.Status.Conditions {
				if c.ObservedGeneration != 3 {
					t.Errorf("%s has generation %d", c.Type, c.ObservedGeneration)
				}
			}
			before := ms.DeepCopy()
			say()
			same(t, "reported again", ms, before)

			// States that no longer apply are removed.
			ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{live("1.x", "1.0.0 active 100")}
			w.plan, w.facts, w.objects = plan{}, release.Observed{Policies: programmed}, nil
			setConditions(w, nil)
			summarize(&pass{observed: observed{ms: ms}, plan: w.plan})
			same(t, "stable again", show(ms), shown{Conditions: []string{"Ready True Succeeded: active: 1.0.0 in group 1.x"}, Active: "1.0.0", Groups: "1/1"})
			if p := meta.FindStatusCondition(ms.Status.Conditions, "Progressing"); p == nil || p.Reason != "Idle" || p.Status != "False" {
				t.Errorf("Progressing is %v", p)
			}
		})
	}
}

// TestMetrics checks that the metrics count events, and that the census counts the releases in the rollout states.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := begin(t)
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry, s.client)
	if err != nil {
		t.Fatal(err)
	}
	s.reconciler.metrics = m
	s.offer("1.0.0")
	s.play()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, f := range families {
		got[f.GetName()] = true
		for _, x := range f.GetMetric() {
			for _, l := range x.GetLabel() {
				if l.GetName() != "reason" && l.GetName() != "status" {
					t.Errorf("%s has the label %s", f.GetName(), l.GetName())
				}
			}
			if x.GetCounter() != nil && x.GetCounter().GetValue() != 1 {
				t.Errorf("%v is not 1", x)
			}
			if h := x.GetHistogram(); h != nil && h.GetSampleCount() != 1 {
				t.Errorf("%s has %d samples, want 1", f.GetName(), h.GetSampleCount())
			}
		}
	}
	same(t, "metrics", got, map[string]bool{"heighliner_release_events_total": true, "heighliner_release_promotion_seconds": true, "heighliner_releases": true})
}

// TestEventsOfSteps checks how many events steps cause. Eventf also fails the test if two events have the
// same key: the second event would be combined with the first, lose its note, and be written again minutes
// later.
func TestEventsOfSteps(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		steps []v1alpha1.CanaryStep
		want  int
	}{
		"steps without waits": {[]v1alpha1.CanaryStep{{Weight: 10}, {Weight: 50}, {Weight: 90}}, 0},
		"steps with approval": {[]v1alpha1.CanaryStep{{Weight: 10}, {Weight: 50, Approval: &v1alpha1.CanaryApproval{}}, {Weight: 90}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, func(ms *v1alpha1.Microservice) { ms.Spec.UpdateStrategy.Canary.Steps = test.steps })
			s.offer("1.0.0")
			s.play()
			s.offer("1.1.0", "1.0.0")
			s.play()
			steps := 0
			for _, e := range s.events {
				if strings.HasPrefix(e, "Step:") {
					steps++
				}
			}
			same(t, "events of steps", steps, test.want)
		})
	}
}
