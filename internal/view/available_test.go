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
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// TestAvailableBeforeItsRecord checks that an active release whose pods are all ready does not count as failed while its
// recorded availability is outdated, for example directly after a promotion.
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

// TestActiveWithoutPods checks that answers about an active release without a ready pod, and about its hosts, do not call it live,
// and that a rollback to a retained release is offered.
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

// TestActiveOfExclusiveGroup checks that an active release whose pods were stopped for the next release is called neither live nor unavailable, and
// that no rollback is advised.
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
	if want := "its pods were stopped for " + next + ", which is being rolled out. If that release fails, the pods of " + row.SemVer.Version + " start again."; a.Result == view.Serving || !strings.Contains(a.Summary, want) {
		t.Errorf("%s: %s, want %q", a.Result, a.Summary, want)
	}
	for _, n := range a.Next {
		if n.Verb == "rollback" {
			t.Errorf("a rollback is offered: %+v", n)
		}
	}
	g.Rollout.Gate = v1alpha1.GateConfirmRollout
	a, err = view.WhyVersion(s.Input, ms.Namespace, ms.Name, row.SemVer.Version, s.Now)
	if err != nil || strings.Contains(a.Summary, "its pods were stopped") {
		t.Errorf("before its pods terminate: %s, %v", a.Summary, err)
	}
}

// TestPauseThatEndedLongAgo checks that a step shows the end of its pause only if the pause ended more than a minute ago. In that case, the manager
// may not be running.
func TestPauseThatEndedLongAgo(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "pause")
	now := view.New(s.Input, s.Now).Services[0].State
	if now.Until == nil {
		t.Fatalf("the rollout is not paused: %s", now.Sentence)
	}
	for after, want := range map[time.Duration]bool{30 * time.Second: false, 3 * time.Minute: true} {
		state := view.New(s.Input, now.Until.Add(after)).Services[0].State
		if got := strings.Contains(state.Sentence, "its pause ended 3m ago; if this persists, check the manager with hlnr doctor"); got != want {
			t.Errorf("%s: %s after its pause: %s", ms.Name, after, state.Sentence)
		}
	}
}

// TestTemplateOfAnAnalysis checks that answers about a release that failed its analysis contain the template and the generation that were
// used.
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

// takeDown removes all pods of the active release of a group, and returns the release.
func takeDown(s *viewtest.Story, g *v1alpha1.ReleaseGroup) *v1alpha1.Release {
	s.Input.Releases = slices.Clone(s.Input.Releases)
	for i := range g.Releases {
		row := &g.Releases[i]
		if row.Status != v1alpha1.ReleaseActive {
			continue
		}
		row.Available = false
		for j := range s.Input.Releases {
			if o := &s.Input.Releases[j]; o.Name == row.VersionedMicroservice {
				o.Status.Available, o.Status.Failure, o.Status.Message = 0, "CrashLoopBackOff", "container shop: exit 1: out of licenses"
			}
		}
		return row
	}
	return nil
}

// TestDownBehindAnOldFailure checks that an earlier failed release does not hide that the active release has no ready pod.
func TestDownBehindAnOldFailure(t *testing.T) {
	t.Parallel()
	for _, story := range []string{"crashes", "rolled back", "aborted"} {
		s, ms := played(t, story)
		row := takeDown(&s, &ms.Status.ReleaseGroups[0])
		if row == nil {
			t.Fatal("no active release")
		}
		svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now.Add(8*24*time.Hour))
		if !strings.Contains(svc.State.Sentence, "out of licenses") || svc.State.Class != view.Failed {
			t.Errorf("%s: the active %s has no ready pod, and the state of the service is %s: %q, next %+v", story, row.SemVer.Version, svc.State.Class, svc.State.Sentence, svc.State.Next)
		}
	}
}

// TestDownDuringARollout checks that a rollout in progress, whatever it is waiting for, does not hide that the
// active release has no ready pod. The sentence still describes the rollout, and the actions that give the group
// another active release are still offered.
func TestDownDuringARollout(t *testing.T) {
	t.Parallel()
	for story, c := range map[string]struct{ sentence, adopt string }{
		"pause":     {"out of licenses; 1.1.0 is being rolled out: step 1 of 2 (10%), pause ends in ", "hlnr adopt shop 1.1.0"},
		"frozen":    {"out of licenses; 1.1.0 is being rolled out: ", ""},
		"window":    {"out of licenses; 1.1.0 is being rolled out: waits for the window ", "hlnr adopt shop 1.1.0"},
		"approval":  {"out of licenses; 1.1.0 is being rolled out: waits for approval ", "hlnr adopt shop 1.1.0"},
		"approvals": {"out of licenses; 1.1.0 is being rolled out: waits for approval ", ""}, // A single user cannot skip an approval that requires two users.
	} {
		s, ms := played(t, story)
		row := takeDown(&s, &ms.Status.ReleaseGroups[0])
		svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
		if svc.State.Class != view.Failed || svc.State.Version != row.SemVer.Version || !strings.Contains(svc.State.Sentence, c.sentence) {
			t.Errorf("%s: the active %s has no ready pod, and the service is %s: %q", story, row.SemVer.Version, svc.State.Class, svc.State.Sentence)
		}
		i := slices.IndexFunc(svc.State.Next, func(n view.Action) bool { return n.Verb == "adopt" })
		if i >= 0 != (c.adopt != "") || i >= 0 && svc.State.Next[i].Command != c.adopt {
			t.Errorf("%s: %+v, want %q", story, svc.State.Next, c.adopt)
		}
		if approve := slices.ContainsFunc(svc.State.Next, func(n view.Action) bool { return n.Verb == "continue" }); approve != (story == "approvals") {
			t.Errorf("%s: %+v", story, svc.State.Next)
		}
	}
}

// TestPreviewWithoutPods checks that a preview whose only release has no ready pod is not described as serving.
func TestPreviewWithoutPods(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "previews")
	n := 0
	for i := range ms.Status.ReleaseGroups {
		g := &ms.Status.ReleaseGroups[i]
		if g.PullRequest == 0 || takeDown(&s, g) == nil {
			continue
		}
		n++
		a, err := view.WhyPullRequest(s.Input, ms.Namespace, ms.Name, g.PullRequest, s.Now)
		if err != nil {
			t.Fatal(err)
		}
		if a.Result == view.Serving {
			t.Errorf("exit code 0: %q", a.Summary)
		}
	}
	if n == 0 {
		t.Fatal("no preview")
	}
}

// TestPodsBeforeTheRecord checks that an active release without a ready pod counts as unavailable even if its recorded availability is
// outdated, unless its pods changed a few seconds ago.
func TestPodsBeforeTheRecord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		unready time.Duration // how long one pod has not been ready; 0 if there is no pod
		in      map[string]bool
		class   view.Class
	}{
		"no pod":                         {0, nil, view.Failed},
		"for a minute":                   {time.Minute, nil, view.Failed},
		"just now":                       {2 * time.Second, nil, view.Stable},
		"pods read in this namespace":    {0, map[string]bool{"shop": true}, view.Failed},
		"pods read in another namespace": {0, map[string]bool{"search": true}, view.Stable},
	} {
		s, ms := played(t, "active")
		s.Input.Pods, s.Input.PodNamespaces = []corev1.Pod{}, c.in
		if c.unready > 0 {
			p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ms.Namespace, Name: "a", Labels: map[string]string{v1alpha1.LabelRelease: ms.Status.ReleaseGroups[0].Releases[0].VersionedMicroservice}}}
			p.Status.Phase = corev1.PodRunning
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(s.Now.Add(-c.unready))}}
			s.Input.Pods = append(s.Input.Pods, p)
		}
		svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
		if svc.State.Class != c.class {
			t.Errorf("%s: %s, %q (%+v)", name, svc.State.Class, svc.State.Sentence, svc.Groups[0].Releases[0].Pods)
		}
	}
}

// TestRollbackForOneMissingPod checks that no rollback is offered while some pods of the active release are ready.
func TestRollbackForOneMissingPod(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "promoted")
	g := &ms.Status.ReleaseGroups[0]
	row := takeDown(&s, g)
	for j := range s.Input.Releases {
		if o := &s.Input.Releases[j]; o.Name == row.VersionedMicroservice {
			o.Status.Available, o.Status.Failure, o.Status.Message = o.Spec.Replicas-1, "", ""
		}
	}
	svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
	if len(svc.State.Next) > 0 && svc.State.Next[0].Verb == "rollback" {
		t.Errorf("%q: %s", svc.State.Sentence, svc.State.Next[0].Command)
	}
}

// TestAnalysisOfAManagerThatIsAway checks that a step shows that its measurement is overdue, just as a step shows that
// its pause is overdue.
func TestAnalysisOfAManagerThatIsAway(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "analysis")
	svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now.Add(24*time.Hour))
	if !strings.Contains(svc.State.Sentence, "doctor") {
		t.Errorf("the manager has measured nothing for a day: %q (%s)", svc.State.Sentence, svc.State.Class)
	}
}

// TestHostOfTwoGroupsWithoutPods checks that a host that two groups share is not described as served if no release in either group has a ready
// pod.
func TestHostOfTwoGroupsWithoutPods(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "two groups")
	var d v1alpha1.DomainStatus
	for i := range ms.Status.ReleaseGroups {
		g := &ms.Status.ReleaseGroups[i]
		row := takeDown(&s, g)
		d.Group = g.Slug
		d.Backends = append(d.Backends, v1alpha1.DomainBackend{Release: row.VersionedMicroservice, Version: row.SemVer.Version, Weight: 50})
	}
	d.Domain, d.Programmed = "www.example.com", true
	s.Input.NetworkPolicies = []v1alpha1.NetworkPolicy{*s.Input.NetworkPolicies[0].DeepCopy()}
	s.Input.NetworkPolicies[0].Status.Domains = []v1alpha1.DomainStatus{d}
	a, err := view.WhyHost(s.Input, "www.example.com", "/", s.Now)
	if err != nil {
		t.Fatal(err)
	}
	if a.Result == view.Serving {
		t.Errorf("%q, although no release has a ready pod", a.Summary)
	}
}

// TestEndOfAPreview checks that a closing group shows the hooks that it is waiting for, and the reason why a hook is not
// running.
func TestEndOfAPreview(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "active")
	g := &ms.Status.ReleaseGroups[0]
	name := g.Releases[0].VersionedMicroservice
	g.Phase, g.Releases[0].Status, g.End = v1alpha1.GroupClosing, v1alpha1.ReleaseDeprecated, &v1alpha1.PreviewEnd{Release: name}
	for i := range s.Input.Releases {
		if o := &s.Input.Releases[i]; o.Name == name {
			o.Status.Hooks = []v1alpha1.HookStatus{{Name: "drop", Type: v1alpha1.HookPostPreview, Phase: v1alpha1.HookWaiting, Message: "cannot create Job shop-1: exceeded quota"}}
		}
	}
	svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
	want := "it waits for its hooks of type PostPreview: cannot create Job shop-1: exceeded quota"
	if got := svc.Groups[0].State.Sentence; !strings.Contains(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestActiveWithoutRoutes checks that an active release, pinned or not, is not called live if no policy has ever programmed its group.
func TestActiveWithoutRoutes(t *testing.T) {
	t.Parallel()
	for _, story := range []string{"active", "pinned"} {
		s, ms := played(t, story)
		p := s.Input.NetworkPolicies[0].DeepCopy()
		s.Input.NetworkPolicies = []v1alpha1.NetworkPolicy{*p}
		p = &s.Input.NetworkPolicies[0]
		for i := range p.Status.Groups {
			g := &p.Status.Groups[i]
			g.Revision, g.ConfirmedTime, g.Reason, g.Message = 0, nil, "NotAccepted", "gateway infra/public has no listener for the host"
		}
		for i := range p.Status.Domains {
			d := &p.Status.Domains[i]
			d.Programmed, d.Reason, d.Message = false, "NotAccepted", "gateway infra/public has no listener for the host"
		}
		a, err := view.WhyVersion(s.Input, ms.Namespace, ms.Name, "1.0.0", s.Now)
		want := "1.0.0 is active, and no route targets it: NetworkPolicy shop: gateway infra/public has no listener for the host."
		if err != nil || a.Result != view.NotServing || a.Summary != want {
			t.Errorf("%s: %s %q, want %q (%v)", story, a.Result, a.Summary, want, err)
		}
		if svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now); svc.State.Class != view.Failed {
			t.Errorf("%s: %s: %q", story, svc.State.Class, svc.State.Sentence)
		}
	}
}

// TestOutageOfAnExclusiveGroup checks that a service is listed as failed if no pod of its exclusive group is serving because the pods of
// the active release were stopped for a release that fails, or for a release that has ready pods but no traffic.
func TestOutageOfAnExclusiveGroup(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"exclusive crash", "exclusive approval crash", "exclusive step crash", "exclusive frozen crash", "exclusive paused crash", "exclusive return", "exclusive pre"} {
		s, _ := viewtest.Play(name, "shop")
		h, err := view.WhyHost(s.Input, "shop.example.com", "/", s.Now)
		if err != nil || h.Result == view.Serving {
			t.Fatal(name, err, h.Summary)
		}
		b := view.New(s.Input, s.Now)
		state := b.Services[0].State
		if len(b.Of([]view.Class{view.Failed}).Services) != 1 || b.Counts.Failed != 1 || !state.Outage || !strings.HasSuffix(state.Sentence, "; no pod serves traffic") {
			t.Errorf("%s: %+v, %s: %q, but: %q", name, b.Counts, state.Class, state.Sentence, h.Summary)
		}
	}
}

// TestReplacementOfAnExclusiveGroup checks that a replacement is not an outage while the pods of the previous release are terminating, and in the
// first seconds after they have terminated. For a working release without routes, a replacement never counts as an outage.
func TestReplacementOfAnExclusiveGroup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failure   string
		available int32
		weight    int32
		routes    bool
		ended     time.Duration
		class     view.Class
	}{
		"the old pods are terminating":              {v1alpha1.FailureOtherReleaseRunning, 0, 0, true, 3 * time.Second, view.Moving},
		"the old pods do not terminate":             {v1alpha1.FailureOtherReleaseRunning, 0, 0, true, time.Minute, view.Failed},
		"the new pods start":                        {"", 0, 0, true, 3 * time.Second, view.Moving},
		"the new pods are not ready after a minute": {"", 0, 0, true, time.Minute, view.Failed},
		"the new pods crash":                        {"CrashLoopBackOff", 0, 0, true, 3 * time.Second, view.Failed},
		"the new pods have no traffic":              {"", 3, 0, true, time.Minute, view.Failed},
		"the new pods have traffic":                 {"", 3, 100, true, time.Minute, view.Moving},
		"the new pods have no routes":               {"", 3, 0, false, time.Minute, view.Moving},
		"some new pods are missing":                 {"", 1, 100, true, time.Minute, view.Moving},
	} {
		s, ms := exclusive(t)
		g := &ms.Status.ReleaseGroups[0]
		next, active := rowOf(g, "1.1.0"), rowOf(g, "1.0.0")
		next.Weight, active.Available = c.weight, false
		if c.weight > 0 {
			next.Status, active.Weight = v1alpha1.ReleaseCanary, 0
		}
		if !c.routes {
			s.Input.NetworkPolicies = nil
		}
		o, old := objectOf(&s, next.VersionedMicroservice), objectOf(&s, active.VersionedMicroservice)
		o.Status.Failure, o.Status.Message, o.Status.Replicas, o.Status.Available = c.failure, c.failure, c.available, c.available
		old.Spec.Replicas, old.Status.Replicas, old.Status.Available = 0, 0, 0
		at := metav1.NewTime(s.Now.Add(-c.ended))
		old.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionFalse, Reason: "ScaledToZero", LastTransitionTime: at}}
		svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
		if svc.State.Class != c.class {
			t.Errorf("%s, %s after the pods have terminated: %s, %q", name, c.ended, svc.State.Class, svc.State.Sentence)
		}
	}
}

// TestJobsOfAPreviewThatEnds checks that a preview that is ending shows that it is waiting for the Job of a hook to
// end.
func TestJobsOfAPreviewThatEnds(t *testing.T) {
	t.Parallel()
	for _, phase := range []v1alpha1.GroupPhase{v1alpha1.GroupClosing, v1alpha1.GroupExpired} {
		s, ms := played(t, "previews")
		s.Input.Releases = slices.Clone(s.Input.Releases)
		i := slices.IndexFunc(ms.Status.ReleaseGroups, func(g v1alpha1.ReleaseGroup) bool { return g.PullRequest == 17 })
		g := &ms.Status.ReleaseGroups[i]
		row := &g.Releases[0]
		g.Phase, row.Status, row.Weight, row.Available = phase, v1alpha1.ReleaseDeprecated, 0, false
		o := objectOf(&s, row.VersionedMicroservice)
		o.Spec.Replicas, o.Status.Replicas, o.Status.Available, o.Status.ActiveJobs = 0, 0, 0, 1
		svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now.Add(time.Hour))
		at := slices.IndexFunc(svc.Previews, func(p view.Group) bool { return p.PullRequest.Number == 17 })
		want := "it waits until the Jobs of its hooks other than PostPreview have ended"
		if p := svc.Previews[at]; !strings.Contains(p.State.Sentence, want) || !strings.Contains(p.Releases[0].State.Sentence, want) {
			t.Errorf("%s: group: %q, release: %q, want %q", phase, p.State.Sentence, p.Releases[0].State.Sentence, want)
		}
	}
}

// TestGateBehindOtherJobs checks that a release whose ConfirmRollout hooks have not been called yet shows
// which release's Jobs it is waiting for.
func TestGateBehindOtherJobs(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]v1alpha1.VersionedMicroserviceStatus{
		"a migration": {Release: v1alpha1.ReleaseDeprecated, ActiveJobs: 1},
		"a revert that the API server rejects": {Release: v1alpha1.ReleaseError, Hooks: []v1alpha1.HookStatus{
			{Name: "revert", Type: v1alpha1.HookPostRollout, Phase: v1alpha1.HookWaiting, Message: "cannot create Job shop-1: forbidden"},
		}},
	} {
		s, _ := viewtest.Play("gate confirm", "shop")
		ms := s.Input.Microservices[0].DeepCopy()
		s.Input.Microservices = []v1alpha1.Microservice{*ms}
		run := ms.Status.ReleaseGroups[0].Rollout
		run.GateTime = nil
		other := objectOf(&s, run.Release).DeepCopy()
		other.Name, other.Spec.SemVer.Version, other.Status = "shop-1-0-9-0a1b2c3d", "1.0.9", status
		s.Input.Releases = append(slices.Clone(s.Input.Releases), *other)
		svc, _ := view.NewService(s.Input, "shop", "shop", s.Now)
		if got, want := svc.State.Sentence, "waits for the hook Jobs of 1.0.9 to end before the ConfirmRollout hooks are called"; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestGateOfAJob checks that a gate that is waiting for a Job, or whose call has received no response, shows the cause instead
// of a response.
func TestGateOfAJob(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"Job shop-1 is running":            "waits for hook migrate (PreRollout; Job shop-1 is running) since ",
		"no response within 10s":           "waits for hook migrate (PreRollout; no response within 10s) since ",
		"HTTP 503: the database is locked": `waits for hook migrate (PreRollout; response "HTTP 503: the database is locked") since `,
	} {
		s, _ := viewtest.Play("gate pre", "shop")
		s.Input.Releases = slices.Clone(s.Input.Releases)
		ms := s.Input.Microservices[0].DeepCopy()
		s.Input.Microservices = []v1alpha1.Microservice{*ms}
		ms = &s.Input.Microservices[0]
		run := ms.Status.ReleaseGroups[0].Rollout
		hook := v1alpha1.Hook{Name: "migrate", Type: v1alpha1.HookPreRollout}
		if strings.HasPrefix(message, "Job ") {
			hook.Job = &v1alpha1.HookJob{}
		}
		ms.Spec.UpdateStrategy.Canary.Hooks = []v1alpha1.Hook{hook}
		objectOf(&s, run.Release).Status.Hooks = []v1alpha1.HookStatus{{Name: "migrate", Type: v1alpha1.HookPreRollout, Run: run.Sequence, Phase: v1alpha1.HookWaiting, Message: message}}
		svc, _ := view.NewService(s.Input, "shop", "shop", s.Now)
		if got := svc.State.Sentence; !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestWindowOfARolloutWithoutSteps checks that a window of the steps is shown only if the release takes the steps. The first release of a group,
// adopted releases and previously active releases do not wait for windows.
func TestWindowOfARolloutWithoutSteps(t *testing.T) {
	t.Parallel()
	same := func(*v1alpha1.Release, *v1alpha1.ReleaseGroup) {}
	for name, c := range map[string]struct {
		story string
		edit  func(row *v1alpha1.Release, g *v1alpha1.ReleaseGroup)
		want  string
	}{
		"first release of a group":    {"gate first window", same, "waits for the PreRollout hooks since "},
		"first release, domains move": {"gate first window", func(_ *v1alpha1.Release, g *v1alpha1.ReleaseGroup) { g.Rollout.From = "0-x" }, "waits for the window "},
		"takes steps":                 {"window", same, "waits for the window "},
		"adopted":                     {"window", func(row *v1alpha1.Release, _ *v1alpha1.ReleaseGroup) { row.Internal.Adopted = true }, "step 1 of 2 (10%), proceeds"},
		"previously active":           {"window", func(row *v1alpha1.Release, _ *v1alpha1.ReleaseGroup) { row.Promoted = 1 }, "step 1 of 2 (10%), proceeds"},
	} {
		s, _ := viewtest.Play(c.story, "shop")
		s.Input.Microservices = []v1alpha1.Microservice{*s.Input.Microservices[0].DeepCopy()}
		g := &s.Input.Microservices[0].Status.ReleaseGroups[0]
		for i := range g.Releases {
			if row := &g.Releases[i]; row.VersionedMicroservice == g.Rollout.Release {
				c.edit(row, g)
			}
		}
		svc, _ := view.NewService(s.Input, "shop", "shop", s.Now)
		if got := svc.Groups[0].State.Sentence; !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestAdoptedRelease checks that an adopted release does not wait for an approval, a pause or a hook of its step.
func TestAdoptedRelease(t *testing.T) {
	t.Parallel()
	for story, gate := range map[string]v1alpha1.Gate{"approval": "", "pause": "", "gate pre": v1alpha1.GatePreRollout} {
		s, ms := played(t, story)
		g := &ms.Status.ReleaseGroups[0]
		if g.Rollout.Gate != gate {
			t.Fatalf("%s: gate %q, want %q", story, g.Rollout.Gate, gate)
		}
		rowOf(g, "1.1.0").Internal.Adopted = true
		svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
		if st := svc.Groups[0].State; st.Word != view.WordProgressing && st.Word != view.WordStarting {
			t.Errorf("%s: %s, %q", story, st.Word, st.Sentence)
		}
	}
}

// TestReplacementInAFreeze checks that the host of an exclusive group does not remain without a ready pod if a freeze or a pause begins, or
// a window ends, after the previous pods have terminated.
func TestReplacementInAFreeze(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"exclusive freeze during rollout", "exclusive freeze during rollout with steps", "exclusive pause during rollout", "exclusive window closes during rollout", "exclusive freeze during return"} {
		s, _ := viewtest.Play(name, "shop")
		if h, err := view.WhyHost(s.Input, "shop.example.com", "/", s.Now); err != nil || h.Result != view.Serving {
			t.Errorf("%s: %s, %v", name, h.Summary, err)
		}
	}
}

// TestWindowBeforeAReplacement checks that a release of an exclusive group that waits for the window of its first step, before its pods may start, is
// shown as waiting for the window and not for hooks. The window applies only when the ConfirmRollout hooks have approved.
func TestWindowBeforeAReplacement(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hook bool
		as   v1alpha1.HookPhase
		want view.Word
	}{
		"no hook":                  {want: view.WordWindow},
		"a hook, not called":       {hook: true, want: view.WordGate},
		"a hook that waits":        {hook: true, as: v1alpha1.HookWaiting, want: view.WordGate},
		"a hook that has approved": {hook: true, as: v1alpha1.HookOpen, want: view.WordWindow},
	} {
		s, ms := played(t, "exclusive window before")
		run := ms.Status.ReleaseGroups[0].Rollout
		if run == nil || run.Gate != v1alpha1.GateConfirmRollout {
			t.Fatalf("the rollout is %+v", run)
		}
		if c.hook {
			ms.Spec.UpdateStrategy.Canary.Hooks = []v1alpha1.Hook{{Name: "ticket", Type: v1alpha1.HookConfirmRollout}}
		}
		for i := range s.Input.Releases {
			if o := &s.Input.Releases[i]; o.Name == run.Release && c.as != "" {
				o.Status.Hooks = []v1alpha1.HookStatus{{Name: "ticket", Type: v1alpha1.HookConfirmRollout, Run: run.Sequence, Phase: c.as}}
			}
		}
		svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
		if st := svc.Groups[0].State; st.Word != c.want {
			t.Errorf("%s: %s, %q, want %s", name, st.Word, st.Sentence, c.want)
		}
	}
}

// TestCanaryBeforeARaisedStep checks that a canary with traffic that waits for its raised first step is shown as a canary: it is interrupted while it
// lacks pods, and its analysis is shown.
func TestCanaryBeforeARaisedStep(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "raised step crash")
	if run := ms.Status.ReleaseGroups[0].Rollout; run == nil || run.Step != 0 {
		t.Fatalf("the rollout is %+v", run)
	}
	svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
	for _, r := range svc.Groups[0].Releases {
		if r.Version != "1.1.0" {
			continue
		}
		if r.Status != string(v1alpha1.ReleaseCanary) || r.State.Word != view.WordInterrupted {
			t.Errorf("%s is shown as %s: %q", r.Status, r.State.Word, r.State.Sentence)
		}
		if r.Rollout == nil || !slices.ContainsFunc(r.Rollout.Checks, func(c view.Check) bool { return c.Name == "analysis" && c.Message != "no round yet" }) {
			t.Errorf("no result of the analysis in %+v", r.Rollout)
		}
	}
}
