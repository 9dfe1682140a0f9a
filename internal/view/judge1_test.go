package view_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// judge1Down takes all pods of the active release of a group.
func judge1Down(s *viewtest.Story, g *v1alpha1.ReleaseGroup) *v1alpha1.Release {
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

// TestJudge1DownBehindAnOldFailure: an earlier release that failed hides that the active one is down now: neither the state of the
// service nor its actions name it.
func TestJudge1DownBehindAnOldFailure(t *testing.T) {
	for _, story := range []string{"crashes", "rolled back", "aborted"} {
		s, ms := played(t, story)
		row := judge1Down(&s, &ms.Status.ReleaseGroups[0])
		if row == nil {
			t.Fatal("no active release")
		}
		svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now.Add(8*24*time.Hour))
		if !strings.Contains(svc.State.Sentence, "out of licenses") || svc.State.Class != view.Failed {
			t.Errorf("%s: the active %s has no ready pod, and the state of the service is %s: %q, next %+v", story, row.SemVer.Version, svc.State.Class, svc.State.Sentence, svc.State.Next)
		}
	}
}

// TestJudge1DownDuringARollout: the active release, with most of the traffic, is down while a canary is in a pause.
func TestJudge1DownDuringARollout(t *testing.T) {
	for _, story := range []string{"pause", "frozen", "window"} {
		s, ms := played(t, story)
		row := judge1Down(&s, &ms.Status.ReleaseGroups[0])
		svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
		if svc.State.Class != view.Failed {
			t.Errorf("%s: the active %s has no ready pod, and the service is %s: %q", story, row.SemVer.Version, svc.State.Class, svc.State.Sentence)
		}
	}
}

// TestJudge1ReturnOfAPinnedRelease: a user rolled back from 1.1.0 to 1.0.0, which crashes. What is offered is a return to the version that
// they left, as a new pin, and the pin is not mentioned.
func TestJudge1ReturnOfAPinnedRelease(t *testing.T) {
	s, ms := played(t, "pinned")
	g := &ms.Status.ReleaseGroups[0]
	row := judge1Down(&s, g)
	svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
	t.Logf("active %s: %q %+v", row.SemVer.Version, svc.State.Sentence, svc.State.Next)
	if slices.ContainsFunc(svc.State.Next, func(n view.Action) bool { return n.Verb == "rollback" && n.Target == "1.1.0" }) {
		t.Errorf("the group is pinned to %s for \"sessions lost\", and a rollback to 1.1.0, which the pin left, is offered instead of unpin: %+v", row.SemVer.Version, svc.State.Next)
	}
	if !strings.Contains(svc.State.Sentence, "pinned") {
		t.Errorf("the sentence does not name the pin: %q", svc.State.Sentence)
	}
}

// TestJudge1ReturnToTheLast: the rollback that is offered is the one that hlnr rollback chooses without --to, the release that was active last.
func TestJudge1ReturnToTheLast(t *testing.T) {
	s, ms := played(t, "promoted")
	g := &ms.Status.ReleaseGroups[0]
	judge1Down(&s, g)
	for i := range g.Releases {
		if r := &g.Releases[i]; r.SemVer.Version == "1.0.0" {
			r.Promoted = 2 // active last, after a return from 1.0.5
			x := *r.DeepCopy()
			x.VersionedMicroservice, x.SemVer.Version, x.Promoted = "shop-1-0-5", "1.0.5", 1
			g.Releases = slices.Insert(g.Releases, i, x)
			break
		}
	}
	last := ""
	for _, x := range view.RollbackTargets(s.Input, ms.Namespace, ms.Name) {
		if x.Last {
			last = x.Version
		}
	}
	svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
	for _, n := range svc.State.Next {
		if n.Verb == "rollback" && n.Target != last {
			t.Errorf("offered: %s; hlnr rollback would return to %s", n.Command, last)
		}
	}
}

// TestJudge1PreviewWithoutPods: an answer about a preview whose only release has no ready pod.
func TestJudge1PreviewWithoutPods(t *testing.T) {
	s, ms := played(t, "previews")
	n := 0
	for i := range ms.Status.ReleaseGroups {
		g := &ms.Status.ReleaseGroups[i]
		if g.PullRequest == 0 || judge1Down(&s, g) == nil {
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

// TestJudge1HostOfTwoGroupsWithoutPods: the newest domain splits between the active release of 1.x and the canary of 2.x; both are down.
func TestJudge1HostOfTwoGroupsWithoutPods(t *testing.T) {
	s, ms := played(t, "two groups")
	var d v1alpha1.DomainStatus
	for i := range ms.Status.ReleaseGroups {
		g := &ms.Status.ReleaseGroups[i]
		row := judge1Down(&s, g)
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
		t.Errorf("%q, and no release has a ready pod", a.Summary)
	}
}

// TestJudge1AnalysisOfAManagerThatIsAway: a step that measures shows no more than the pause did that its manager is away.
func TestJudge1AnalysisOfAManagerThatIsAway(t *testing.T) {
	s, ms := played(t, "analysis")
	svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now.Add(24*time.Hour))
	if !strings.Contains(svc.State.Sentence, "doctor") {
		t.Errorf("the manager has measured nothing for a day: %q (%s)", svc.State.Sentence, svc.State.Class)
	}
}

// TestJudge1ScanOfASuspendedPolicy: the advice is a command that answers "is suspended: remove spec.suspend first".
func TestJudge1ScanOfASuspendedPolicy(t *testing.T) {
	s, ms := played(t, "active")
	s.Input.ImagePolicies = []v1alpha1.ImagePolicy{*s.Input.ImagePolicies[0].DeepCopy()}
	s.Input.ImagePolicies[0].Spec.Suspend = true
	a, err := view.WhyVersion(s.Input, ms.Namespace, ms.Name, "1.4.0", s.Now)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(a.Do, "hlnr scan") {
		t.Errorf("%q; %q; lines %+v", a.Summary, a.Do, a.Lines)
	}
}

// TestJudge1PodsBeforeTheRecord: with pods read, the command knows that none is ready, while the record of a manager that is away says otherwise.
func TestJudge1PodsBeforeTheRecord(t *testing.T) {
	s, ms := played(t, "active")
	s.Input.Pods = []corev1.Pod{}
	svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
	if svc.State.Class == view.Stable {
		t.Errorf("no pod of the active release exists (%+v): %q", svc.Groups[0].Releases[0].Pods, svc.State.Sentence)
	}
}

// TestJudge1ReturnDuringAPause: a group returns to a retained release after its pin is removed, and spec.paused stops it: the release waits
// for a user (hlnr why, hlnr wait), and hlnr status and the board show the service as stable.
func TestJudge1ReturnDuringAPause(t *testing.T) {
	s, ms := played(t, "pinned")
	g := &ms.Status.ReleaseGroups[0]
	newer := ""
	for i := range g.Releases {
		if g.Releases[i].SemVer.Version == "1.1.0" {
			newer = g.Releases[i].VersionedMicroservice
		}
	}
	ms.Spec.Paused, ms.Spec.UpdateStrategy.Manual = true, nil
	g.Target = v1alpha1.GroupTarget{Release: newer, Reason: "Newest"}
	svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
	a, err := view.WhyVersion(s.Input, ms.Namespace, ms.Name, "1.1.0", s.Now)
	if err != nil {
		t.Fatal(err)
	}
	if a.Result == view.ForPerson && svc.State.Class != view.Waiting {
		t.Errorf("hlnr why: %q; hlnr status: %s %q", a.Summary, svc.State.Class, svc.State.Sentence)
	}
}

// TestJudge1ScanOfAList: versions of spec.source.pinned are an explicit list: a version that is not in it is never found by a scan.
func TestJudge1ScanOfAList(t *testing.T) {
	s, ms := played(t, "active")
	s.Input.ImagePolicies = []v1alpha1.ImagePolicy{*s.Input.ImagePolicies[0].DeepCopy()}
	s.Input.ImagePolicies[0].Spec.Source = &v1alpha1.ImageSource{Pinned: &v1alpha1.PinnedSource{Versions: []string{"1.0.0"}}}
	a, err := view.WhyVersion(s.Input, ms.Namespace, ms.Name, "1.4.0", s.Now)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(a.Do, "hlnr scan") {
		t.Errorf("%q; %q; lines %+v", a.Summary, a.Do, a.Lines)
	}
}

// TestJudge1RollbackForOneMissingPod: one of three pods of the active release moves to another node, and the first action that status and the board
// offer is to return to an earlier release.
func TestJudge1RollbackForOneMissingPod(t *testing.T) {
	s, ms := played(t, "promoted")
	g := &ms.Status.ReleaseGroups[0]
	row := judge1Down(&s, g)
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
