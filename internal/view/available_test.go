package view_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
)

// TestAvailableBeforeItsRecord checks that an active release whose pods are all ready does not count as failed while its record
// is older, as right after a promotion.
func TestAvailableBeforeItsRecord(t *testing.T) {
	t.Parallel()
	for _, ready := range []int{3, 2} {
		s, ms := played(t, "active")
		row := &ms.Status.ReleaseGroups[0].Releases[0]
		row.Available = false
		s.Input.Pods = []corev1.Pod{}
		for i := range 3 {
			p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ms.Namespace, Name: string(rune('a' + i)), Labels: map[string]string{v1alpha1.LabelRelease: row.VersionedMicroservice}}}
			p.Status.Phase = corev1.PodRunning
			if i < ready {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			}
			s.Input.Pods = append(s.Input.Pods, p)
		}
		svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
		want := view.Stable
		if ready < 3 {
			want = view.Failed
		}
		if svc.State.Class != want {
			t.Errorf("%d of 3 pods are ready: %s, %s", ready, svc.State.Class, svc.State.Sentence)
		}
	}
}

// TestActiveWithoutPods checks that an active release without a ready pod is not called live, in answers about it and about its hosts, and
// that a rollback to what the group retains is offered.
func TestActiveWithoutPods(t *testing.T) {
	t.Parallel()
	for _, ready := range []bool{false, true} {
		s, ms := played(t, "active")
		g := &ms.Status.ReleaseGroups[0]
		row := &g.Releases[0]
		row.Available = ready
		retained := *row.DeepCopy()
		retained.VersionedMicroservice, retained.SemVer.Version = "shop-0", "0.9.0"
		retained.Status, retained.Promoted, retained.Weight, retained.Available = v1alpha1.ReleaseDeprecated, 1, 0, false
		g.Releases = append(g.Releases, retained)
		s.Input.Pods = []corev1.Pod{}
		if ready {
			p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ms.Namespace, Name: "a", Labels: map[string]string{v1alpha1.LabelRelease: row.VersionedMicroservice}}}
			p.Status.Phase, p.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			s.Input.Pods = append(s.Input.Pods, p)
		}
		s.Input.NetworkPolicies = []v1alpha1.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{Namespace: ms.Namespace, Name: ms.Name}}}
		s.Input.NetworkPolicies[0].Status.Domains = []v1alpha1.DomainStatus{{
			Domain: "shop.example.com", Group: g.Slug, Programmed: true,
			Backends: []v1alpha1.DomainBackend{{Release: row.VersionedMicroservice, Version: row.SemVer.Version, Weight: 100}},
		}}
		host, err := view.WhyHost(s.Input, "shop.example.com", "/", s.Now)
		if err != nil {
			t.Fatal(err)
		}
		version, err := view.WhyVersion(s.Input, ms.Namespace, ms.Name, row.SemVer.Version, s.Now)
		if err != nil {
			t.Fatal(err)
		}
		for what, a := range map[string]view.Answer{"host": host, "version": version} {
			if got := a.Result == view.Serving; got != ready {
				t.Errorf("a pod is ready: %t, %s: %s", ready, what, a.Summary)
			}
		}
		state := view.New(s.Input, s.Now).Services[0].State
		back := slices.ContainsFunc(state.Next, func(n view.Action) bool { return n.Verb == "rollback" && n.Target == "0.9.0" })
		if back == ready {
			t.Errorf("a pod is ready: %t, a rollback is offered: %t (%s)", ready, back, state.Sentence)
		}
	}
}

// TestActiveOfExclusiveGroup checks that an active release whose pods ended for the next one is not called live or unavailable, and that
// no rollback is advised.
func TestActiveOfExclusiveGroup(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "pause")
	ms.Spec.Availability.Exclusive = true
	g := &ms.Status.ReleaseGroups[0]
	i := slices.IndexFunc(g.Releases, func(r v1alpha1.Release) bool { return r.Status == v1alpha1.ReleaseActive })
	row := &g.Releases[i]
	row.Available, row.Weight = false, 0
	for j := range s.Input.Releases {
		if o := &s.Input.Releases[j]; o.Name == row.VersionedMicroservice {
			o.Spec.Replicas, o.Status.Replicas, o.Status.Available = 0, 0, 0
		}
	}
	a, err := view.WhyVersion(s.Input, ms.Namespace, ms.Name, row.SemVer.Version, s.Now)
	if err != nil {
		t.Fatal(err)
	}
	next := ""
	for _, r := range g.Releases {
		if r.VersionedMicroservice == g.Rollout.Release {
			next = r.SemVer.Version
		}
	}
	if want := "its pods ended for " + next + ", which is being rolled out. If that release fails, the pods of " + row.SemVer.Version + " start again."; a.Result == view.Serving || !strings.Contains(a.Summary, want) {
		t.Errorf("%s: %s, want %q", a.Result, a.Summary, want)
	}
	for _, n := range a.Next {
		if n.Verb == "rollback" {
			t.Errorf("a rollback is offered: %+v", n)
		}
	}
	g.Rollout.Gate = v1alpha1.GateConfirmRollout
	a, err = view.WhyVersion(s.Input, ms.Namespace, ms.Name, row.SemVer.Version, s.Now)
	if err != nil || strings.Contains(a.Summary, "its pods ended") {
		t.Errorf("before its pods end: %s, %v", a.Summary, err)
	}
}

// TestPauseThatEndedLongAgo checks that a step whose pause ended more than a minute ago shows it, and not before: the manager may be away.
func TestPauseThatEndedLongAgo(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "pause")
	now := view.New(s.Input, s.Now).Services[0].State
	if now.Until == nil {
		t.Fatalf("the story is not in a pause: %s", now.Sentence)
	}
	for after, want := range map[time.Duration]bool{30 * time.Second: false, 3 * time.Minute: true} {
		state := view.New(s.Input, now.Until.Add(after)).Services[0].State
		if got := strings.Contains(state.Sentence, "its pause ended 3m ago; if this lasts, check the manager with hlnr doctor"); got != want {
			t.Errorf("%s: %s after its pause: %s", ms.Name, after, state.Sentence)
		}
	}
}

// TestTemplateOfAnAnalysis checks that answers about a release that its analysis failed name the template and generation that measured it.
func TestTemplateOfAnAnalysis(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "pause")
	row := &ms.Status.ReleaseGroups[0].Releases[0]
	ms.Status.ReleaseGroups[0].Rollout, row.Status, row.Reason, row.Weight = nil, v1alpha1.ReleaseError, "AnalysisFailed", 0
	for i := range s.Input.Releases {
		if o := &s.Input.Releases[i]; o.Name == row.VersionedMicroservice {
			o.Status.Analysis = &v1alpha1.ReleaseAnalysis{Phase: v1alpha1.AnalysisFailed, Template: "AnalysisTemplate/errors@3", Metrics: []v1alpha1.MetricStatus{{Name: "errors", Result: v1alpha1.MeasurementFailed}}}
		}
	}
	a, err := view.WhyVersion(s.Input, ms.Namespace, ms.Name, row.SemVer.Version, s.Now)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(a.Lines, func(e view.Line) bool { return e.Name == "template" && e.Text == "AnalysisTemplate/errors@3" }) {
		t.Errorf("%+v", a)
	}
}
