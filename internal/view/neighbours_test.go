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

// objectOf returns the object of a release in a story.
func objectOf(s *viewtest.Story, name string) *v1alpha1.VersionedMicroservice {
	for i := range s.Input.Releases {
		if o := &s.Input.Releases[i]; o.Name == name {
			return o
		}
	}
	return nil
}

// rowOf returns the release with the given version in a group.
func rowOf(g *v1alpha1.ReleaseGroup, version string) *v1alpha1.Release {
	for i := range g.Releases {
		if g.Releases[i].SemVer.Version == version {
			return &g.Releases[i]
		}
	}
	return nil
}

// exclusive returns a story in which 1.1.0 should replace 1.0.0 in an exclusive group, and the API server rejects the
// Deployment of 1.1.0. According to protocol rule 47, the pods of 1.0.0 keep running.
func exclusive(t *testing.T) (viewtest.Story, *v1alpha1.Microservice) {
	t.Helper()
	s, ms := played(t, "pause")
	s.Input.Releases = slices.Clone(s.Input.Releases)
	ms.Spec.Availability.Exclusive = true
	ms.Spec.UpdateStrategy.Canary.Steps = []v1alpha1.CanaryStep{{Weight: 100}}
	g := &ms.Status.ReleaseGroups[0]
	g.Rollout.Step, g.Rollout.Gate = 0, ""
	next, active := rowOf(g, "1.1.0"), rowOf(g, "1.0.0")
	next.Status, next.Weight, next.Available = v1alpha1.ReleasePending, 0, false
	active.Weight, active.Available = 100, true
	o := objectOf(&s, next.VersionedMicroservice)
	o.Spec.Replicas, o.Status.Replicas, o.Status.Available = 3, 0, 0
	o.Status.Failure, o.Status.Message = v1alpha1.FailureAdmissionUnavailable, "the webhook images.example.com does not respond"
	return s, ms
}

// TestActiveBeforeTheReplacement checks that the active release of an exclusive group is live if its pods are still running because the
// Deployment of its successor was rejected.
func TestActiveBeforeTheReplacement(t *testing.T) {
	t.Parallel()
	s, ms := exclusive(t)
	a, err := view.WhyVersion(s.Input, ms.Namespace, ms.Name, "1.0.0", s.Now)
	if err != nil {
		t.Fatal(err)
	}
	if a.Result != view.Serving || strings.Contains(a.Summary, "its pods were stopped") {
		t.Errorf("3 of 3 pods of 1.0.0 are ready; %s: %q", a.Result, a.Summary)
	}
	svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
	for _, r := range svc.Groups[0].Releases {
		if r.Version == "1.0.0" && strings.Contains(r.State.Sentence, "its pods were stopped") {
			t.Errorf("%d/%d pods: %q", r.Pods.Available, r.Pods.Wanted, r.State.Sentence)
		}
	}
}

// TestDownBeforeTheReplacement checks that a rollout in an exclusive group does not hide that the active release should have pods, but has no
// ready pod.
func TestDownBeforeTheReplacement(t *testing.T) {
	t.Parallel()
	s, ms := exclusive(t)
	takeDown(&s, &ms.Status.ReleaseGroups[0])
	svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
	if svc.State.Class != view.Failed || !strings.Contains(svc.State.Sentence, "out of licenses") {
		t.Errorf("the active 1.0.0 has no ready pod, and the state of the service is %s: %q", svc.State.Class, svc.State.Sentence)
	}
	a, err := view.WhyVersion(s.Input, ms.Namespace, ms.Name, "1.0.0", s.Now)
	if err != nil || strings.Contains(a.Summary, "its pods were stopped for") {
		t.Errorf("%v, its pods crash: %q", err, a.Summary)
	}
}

// TestHostOfAReplacement checks that a host is not described as served when the pods of the active release of an exclusive group have terminated
// and the next release has no pods yet. According to the guide for workers, requests fail during a replacement.
func TestHostOfAReplacement(t *testing.T) {
	t.Parallel()
	s, ms := exclusive(t)
	g := &ms.Status.ReleaseGroups[0]
	active, next := rowOf(g, "1.0.0"), rowOf(g, "1.1.0")
	active.Available = false
	o := objectOf(&s, active.VersionedMicroservice)
	o.Spec.Replicas, o.Status.Replicas, o.Status.Available = 0, 0, 0
	o = objectOf(&s, next.VersionedMicroservice)
	o.Status.Failure, o.Status.Message = "", ""
	s.Input.NetworkPolicies = []v1alpha1.NetworkPolicy{*s.Input.NetworkPolicies[0].DeepCopy()}
	s.Input.NetworkPolicies[0].Status.Domains = []v1alpha1.DomainStatus{{
		Domain: "shop.example.com", Group: g.Slug, Programmed: true,
		Backends: []v1alpha1.DomainBackend{{Release: active.VersionedMicroservice, Version: "1.0.0", Weight: 100}},
	}}
	version, err := view.WhyVersion(s.Input, ms.Namespace, ms.Name, "1.0.0", s.Now)
	if err != nil || version.Result == view.Serving {
		t.Errorf("%v, %q", err, version.Summary)
	}
	host, err := view.WhyHost(s.Input, "shop.example.com", "/", s.Now)
	if err != nil {
		t.Fatal(err)
	}
	if host.Result == view.Serving {
		t.Errorf("no pod of the group exists, but the exit code is 0: %q (of the version: %q)", host.Summary, version.Summary)
	}
}

// TestHostOfAnActiveReleaseThatIsDown checks that the first line of the answer about a host shows that the release that gets 90% of
// the requests has no ready pod.
func TestHostOfAnActiveReleaseThatIsDown(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "pause")
	takeDown(&s, &ms.Status.ReleaseGroups[0])
	a, err := view.WhyHost(s.Input, "shop.example.com", "/", s.Now)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(a.Summary, "ready pod") {
		t.Errorf("%s: %q", a.Result, a.Summary)
	}
}

// TestCanaryWithoutPods checks that a canary with a weight but without a ready pod is not called live.
func TestCanaryWithoutPods(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "pause")
	s.Input.Releases = slices.Clone(s.Input.Releases)
	row := rowOf(&ms.Status.ReleaseGroups[0], "1.1.0")
	row.Available = false
	o := objectOf(&s, row.VersionedMicroservice)
	o.Status.Available, o.Status.Failure, o.Status.Message = 0, "CrashLoopBackOff", "container shop: exit 1: out of licenses"
	a, err := view.WhyVersion(s.Input, ms.Namespace, ms.Name, "1.1.0", s.Now)
	if err != nil {
		t.Fatal(err)
	}
	if a.Result == view.Serving {
		t.Errorf("no pod of the canary is ready, but the exit code is 0: %q", a.Summary)
	}
}

// measuring returns the story of an analysis and the time at which its next round is due.
func measuring(t *testing.T) (viewtest.Story, *v1alpha1.Microservice, *v1alpha1.VersionedMicroservice) {
	t.Helper()
	s, ms := played(t, "analysis")
	s.Input.Releases = slices.Clone(s.Input.Releases)
	o := objectOf(&s, ms.Status.ReleaseGroups[0].Rollout.Release)
	o.Status.Analysis = o.Status.Analysis.DeepCopy()
	return s, ms, o
}

// TestAnalysisThatWaitsForAJob checks that, if a round is delayed because it is waiting for the Job of a Rollout hook, the delay is not attributed
// to a manager that is not running. The Job may run for its whole timeout, and is the reason why the round is not complete.
func TestAnalysisThatWaitsForAJob(t *testing.T) {
	t.Parallel()
	s, ms, o := measuring(t)
	run := ms.Status.ReleaseGroups[0].Rollout
	ms.Spec.UpdateStrategy.Canary.Hooks = []v1alpha1.Hook{{Name: "load", Type: v1alpha1.HookRollout, Job: &v1alpha1.HookJob{Command: []string{"/load"}, Timeout: "30m"}}}
	o.Status.Hooks = []v1alpha1.HookStatus{{Name: "load", Type: v1alpha1.HookRollout, Run: run.Sequence, Step: run.Step, Phase: v1alpha1.HookWaiting, Job: "shop-load-1", Message: "Job shop-load-1 is running"}}
	svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, o.Status.Analysis.NextTime.Add(10*time.Minute))
	if strings.Contains(svc.State.Sentence, "hlnr doctor") {
		t.Errorf("the Job of the hook runs: %q", svc.State.Sentence)
	}
}

// TestAnalysisWithoutItsTemplate checks that a canary that is waiting because its AnalysisTemplate was deleted shows this reason instead of a
// hint that the manager may not be running.
func TestAnalysisWithoutItsTemplate(t *testing.T) {
	t.Parallel()
	s, ms, o := measuring(t)
	c := ms.Spec.UpdateStrategy.Canary
	c.Analysis, c.AnalysisTemplateRef = nil, &v1alpha1.AnalysisTemplateReference{Name: "http"}
	s.Input.Templates = []v1alpha1.AnalysisTemplate{}
	why := `spec.updateStrategy.canary.analysisTemplateRef: AnalysisTemplate "http" does not exist in namespace shop`
	ms.Status.Conditions = append(ms.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: "AnalysisTemplateNotFound", Message: why})
	now := o.Status.Analysis.NextTime.Add(10 * time.Minute)
	svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, now)
	if got := svc.Groups[0].State.Sentence; strings.Contains(got, "hlnr doctor") {
		t.Errorf("group: %q", got)
	}
	a, err := view.WhyVersion(s.Input, ms.Namespace, ms.Name, "1.1.0", now)
	if err != nil || strings.Contains(a.Summary+a.Do, "hlnr doctor") {
		t.Errorf("%v, %q; %q", err, a.Summary, a.Do)
	}
}

// TestScanOfGitHub checks that for versions from GitHub, the advice is to poll the GitHubRepository, because the poll reads the tags on GitHub. A
// scan of the ImagePolicy reads only the tags in the status of the GitHubRepository.
func TestScanOfGitHub(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "active")
	s.Input.ImagePolicies = []v1alpha1.ImagePolicy{*s.Input.ImagePolicies[0].DeepCopy()}
	s.Input.ImagePolicies[0].Spec.Source = &v1alpha1.ImageSource{GitHub: &v1alpha1.GitHubSource{RepositoryRef: v1alpha1.NamespacedReference{Name: "shop"}, Tags: &v1alpha1.GitHubTags{}}}
	repo := v1alpha1.GitHubRepository{ObjectMeta: metav1.ObjectMeta{Namespace: ms.Namespace, Name: "shop"}}
	repo.Status.Tags = []v1alpha1.GitHubTag{{Name: "v1.0.0"}}
	s.Input.Repositories = []v1alpha1.GitHubRepository{repo}
	a, err := view.WhyVersion(s.Input, ms.Namespace, ms.Name, "1.4.0", s.Now)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(a.Do, "hlnr scan") && !strings.Contains(strings.ToLower(a.Do), "githubrepository/shop") {
		t.Errorf("the tag v1.4.0 is not in the status of the GitHubRepository; do %q", a.Do)
	}
}

// TestReleaseOfAPreviewThatEnds covers the last release of a preview after the pods of the release are gone. Output that does not show the
// state of the group (hlnr why for the commit, hlnr tree, and the pages of the board) must show that the release is waiting for the hooks of
// type PostPreview.
func TestReleaseOfAPreviewThatEnds(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "previews")
	s.Input.Releases = slices.Clone(s.Input.Releases)
	i := slices.IndexFunc(ms.Status.ReleaseGroups, func(g v1alpha1.ReleaseGroup) bool { return g.PullRequest == 17 })
	g := &ms.Status.ReleaseGroups[i]
	row := &g.Releases[0]
	g.Phase, row.Status, row.Weight, row.Available = v1alpha1.GroupClosing, v1alpha1.ReleaseDeprecated, 0, false
	g.End = &v1alpha1.PreviewEnd{Release: row.VersionedMicroservice, Time: metav1.NewMicroTime(s.Now.Add(-5 * time.Minute))}
	o := objectOf(&s, row.VersionedMicroservice)
	o.Spec.Replicas, o.Status.Replicas, o.Status.Available = 0, 0, 0
	o.Status.Hooks = []v1alpha1.HookStatus{{Name: "drop", Type: v1alpha1.HookPostPreview, Phase: v1alpha1.HookWaiting, Message: "cannot create Job shop-1: exceeded quota"}}
	a, err := view.WhyVersion(s.Input, ms.Namespace, ms.Name, row.SemVer.Version, s.Now)
	if err != nil || !strings.Contains(a.Summary, "PostPreview") {
		t.Errorf("%v, hlnr why COMMIT: %q", err, a.Summary)
	}
	svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
	for _, p := range svc.Previews {
		if p.PullRequest.Number != 17 {
			continue
		}
		if got := p.Releases[0].State.Sentence; !strings.Contains(got, "PostPreview") {
			t.Errorf("state of the release: %q, of the group: %q", got, p.State.Sentence)
		}
		if p.State.Since == nil {
			t.Errorf("releaseGroups[].end.time is not shown: %+v", p.State)
		}
	}
}

// TestPodsOfAReaderWithoutReleases checks that an active release does not count as unavailable if the reader is not
// allowed to read the object and the pods of the release.
func TestPodsOfAReaderWithoutReleases(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "active")
	s.Input.Pods, s.Input.PodNamespaces, s.Input.Releases = []corev1.Pod{}, map[string]bool{}, nil
	svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
	if svc.State.Class != view.Stable {
		t.Errorf("%s: %q", svc.State.Class, svc.State.Sentence)
	}
}

// TestAdoptDuringAHiddenFreeze checks that no adoption is offered during a freeze that the reader is not allowed to
// list. Users with permissions in only one namespace cannot list ClusterFreezes. The Frozen condition shows the
// freeze, and the planner rejects the decision (protocol rule 45).
func TestAdoptDuringAHiddenFreeze(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "frozen")
	takeDown(&s, &ms.Status.ReleaseGroups[0])
	s.Input.Freezes, s.Input.ClusterFreezes = nil, nil
	svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
	for _, n := range svc.State.Next {
		if n.Verb == "adopt" {
			t.Errorf("%q: %s", svc.State.Sentence, n.Command)
		}
	}
}

// TestProgramOfAPlugin checks that the command in the text about a manager that is not running begins with the user's
// program, like all commands.
func TestProgramOfAPlugin(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "pause")
	s.Input.Program = "kubectl hlnr"
	svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now.Add(24*time.Hour))
	if strings.Contains(svc.State.Sentence, "hlnr doctor") && !strings.Contains(svc.State.Sentence, "kubectl hlnr doctor") {
		t.Errorf("%q", svc.State.Sentence)
	}
}

// TestPeers checks that a rollout waits only for the Microservices for which the planner waits: not for Microservices whose group has a higher active
// version, and not for Microservices in which the version failed. A failed version needs a decision, even if only the Blocked condition shows the
// failure. A condition about another version has no effect.
func TestPeers(t *testing.T) {
	t.Parallel()
	row := func(version string, status v1alpha1.ReleaseStatus, reason string) v1alpha1.Release {
		return v1alpha1.Release{VersionedMicroservice: "peer-" + version, SemVer: v1alpha1.SemVer{Version: version}, Status: status, Reason: reason}
	}
	const late, failed = "waits for peer (rolled out together)", "waits for a decision because the version failed in another Microservice: peer ("
	const held, started = "1.1.0 is waiting at 10%: it failed in Microservice peer (Crashed)", "1.3.0 does not start: it failed in Microservice peer (Crashed)"
	const other = "11.1.0 is waiting at 10%: it failed in Microservice peer (Crashed)"
	for name, c := range map[string]struct {
		slug    string
		rows    []v1alpha1.Release
		blocked string
		want    string
	}{
		"no release":                           {"1-x", nil, "", late},
		"a lower active version":               {"1-x", []v1alpha1.Release{row("1.0.0", v1alpha1.ReleaseActive, "")}, "", late},
		"the version is active":                {"1-x", []v1alpha1.Release{row("1.1.0", v1alpha1.ReleaseActive, "")}, "", "waits for the services of checkout (rolled out together)"},
		"a higher active version":              {"1-x", []v1alpha1.Release{row("1.2.0", v1alpha1.ReleaseActive, "")}, "", "waits for the services of checkout (rolled out together)"},
		"a higher version in another group":    {"2-x", []v1alpha1.Release{row("2.0.0", v1alpha1.ReleaseActive, "")}, "", late},
		"the version failed":                   {"1-x", []v1alpha1.Release{row("1.1.0", v1alpha1.ReleaseError, "CrashLoopBackOff"), row("1.0.0", v1alpha1.ReleaseActive, "")}, "", failed + "CrashLoopBackOff)"},
		"the version failed because of peers":  {"1-x", []v1alpha1.Release{row("1.1.0", v1alpha1.ReleaseError, "TogetherFailed"), row("1.0.0", v1alpha1.ReleaseActive, "")}, "", late},
		"another group is held":                {"1-x", nil, other, late},
		"another version is not started":       {"1-x", nil, started, late},
		"another group is held, and failed":    {"1-x", []v1alpha1.Release{row("1.1.0", v1alpha1.ReleaseError, "CrashLoopBackOff")}, other, failed + "CrashLoopBackOff)"},
		"the version is held, and another one": {"1-x", nil, started + "; " + held, "waits for a decision because the version failed in another Microservice: " + started},
		"the version is held":                  {"1-x", nil, held, "waits for a decision because the version failed in another Microservice: " + held},
	} {
		s, ms := played(t, "pause")
		ms.Spec.UpdateStrategy.Canary.Together = &v1alpha1.TogetherStrategy{Name: "checkout"}
		run := ms.Status.ReleaseGroups[0].Rollout
		run.Continued, run.Gate = run.Step, v1alpha1.GateTogether
		if c.blocked != "" {
			ms.Status.Conditions = append(ms.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionBlocked, Status: metav1.ConditionTrue, Reason: "TogetherHeld", Message: c.blocked})
		}
		peer := v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: ms.Namespace, Name: "peer"}}
		peer.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Together: &v1alpha1.TogetherStrategy{Name: "checkout"}}
		peer.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{Name: c.slug, Slug: c.slug, Level: v1alpha1.LevelRelease, Phase: v1alpha1.GroupLive, Releases: c.rows}}
		s.Input.Microservices = append(s.Input.Microservices, peer)
		svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
		if got := svc.Groups[0].State.Sentence; !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
