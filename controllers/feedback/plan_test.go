package feedback

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/status"
)

// commit returns a full SHA that consists of one repeated letter.
func commit(letter string) string { return strings.Repeat(letter, 40) }

// world returns the input to a plan: one Microservice with one ImagePolicy for pull requests.
func world(prs []v1alpha1.PullRequest, groups ...v1alpha1.ReleaseGroup) *observed {
	policy := &v1alpha1.ImagePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	policy.Spec.Source = &v1alpha1.ImageSource{GitHub: &v1alpha1.GitHubSource{PullRequests: &v1alpha1.GitHubPullRequests{}}}
	ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	ms.Status.ReleaseGroups = groups
	return &observed{
		feedback: &v1alpha1.Feedback{}, pullRequestsComplete: true, pullRequests: prs,
		services: []service{{policy: policy, microservice: ms, failures: map[string]string{}, commits: map[string]string{}, stable: map[string]bool{}}},
	}
}

func pull(number int64, sha string) v1alpha1.PullRequest {
	return v1alpha1.PullRequest{Number: number, State: v1alpha1.PullRequestOpen, HeadRef: "feature", HeadSHA: sha, BaseRef: "main"}
}

// routedTo returns the NetworkPolicy of the world.
func routedTo(slug, sha string, programmed bool) v1alpha1.NetworkPolicy {
	return v1alpha1.NetworkPolicy{Spec: networkPolicySpec(), Status: networkPolicyStatus(slug, sha, programmed)}
}

// stateWrites returns the states in the Deployment writes of a plan, in the form "ref state: text url".
func stateWrites(p plan) []string {
	var out []string
	for _, w := range p.writes {
		if w.deployment != nil {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s: %s %s", short(w.deployment.Ref), w.want.state, w.want.description, w.want.url)))
		}
	}
	return out
}

func TestJudge(t *testing.T) {
	t.Parallel()
	head := commit("a")
	group := func(rows ...string) []v1alpha1.ReleaseGroup {
		return []v1alpha1.ReleaseGroup{groupWith(1, groupName, rows...)}
	}
	phase := func(phase v1alpha1.GroupPhase, head, reason string) []v1alpha1.ReleaseGroup {
		g := groupWith(1, groupName)
		g.Phase, g.Head, g.Target.Reason = phase, head, reason
		return []v1alpha1.ReleaseGroup{g}
	}
	blocked := func(release, cause string) []v1alpha1.ReleaseGroup {
		g := groupWith(1, groupName, head+" pending")
		g.Rollout = &v1alpha1.Rollout{Release: release, WaitsFor: cause}
		return []v1alpha1.ReleaseGroup{g}
	}
	url := "https://feature-1.preview.example.com"
	withURL := func(url string) v1alpha1.NetworkPolicy {
		p := routedTo(groupName, head, true)
		p.Status.Domains[0].URL = url
		return p
	}
	for name, test := range map[string]struct {
		groups []v1alpha1.ReleaseGroup
		edit   func(*service)
		want   releaseState
	}{
		"no image": {nil, nil, releaseState{state: "queued", description: "Waiting for the ImagePolicy to offer an image."}},
		"image, no release": {nil, func(s *service) {
			s.policy.Status.Releases = []v1alpha1.OfferedRelease{{SemVer: v1alpha1.SemVer{Version: head}, PullRequest: 1}}
		}, releaseState{state: "queued", description: "The image exists. The rollout has not started."}},
		"another commit's group":      {group(commit("b") + " +active"), nil, releaseState{state: "queued", description: "Waiting for the ImagePolicy to offer an image."}},
		"pending":                     {group(head + " pending"), nil, releaseState{state: "in_progress", description: "The rollout is in progress."}},
		"pending and available":       {group(head + " +pending"), nil, releaseState{state: "in_progress", description: "The rollout is in progress."}},
		"canary":                      {group(head + " +canary"), nil, releaseState{state: "in_progress", description: "The rollout is in progress."}},
		"waits for capacity":          {blocked(msName+"-"+short(head), v1alpha1.FailureUnschedulable), nil, releaseState{state: "in_progress", description: "Blocked (Unschedulable): no node can run a pod."}},
		"blocked before its creation": {blocked(msName+"-"+short(head), "NotCreated"), nil, releaseState{state: "in_progress", description: "Blocked (NotCreated): the object of the release cannot be created or changed."}},
		"another release is blocked":  {blocked("another", v1alpha1.FailureUnschedulable), nil, releaseState{state: "in_progress", description: "The rollout is in progress."}},
		"not blocked":                 {blocked(msName+"-"+short(head), ""), nil, releaseState{state: "in_progress", description: "The rollout is in progress."}},
		"active, not available":       {group(head + " active"), nil, releaseState{state: "in_progress", description: "Not all pods of the release are ready.", active: true}},
		"active, no routes":           {group(head + " +active"), nil, releaseState{state: "success", description: "The release is available.", active: true}},
		"Services only": {group(head + " +active"), func(s *service) {
			p := routedTo(groupName, head, false)
			p.Spec.Provider = nil
			s.routes = []v1alpha1.NetworkPolicy{p}
		}, releaseState{state: "success", description: "The release is available.", active: true}},
		"routed": {group(head + " +active"), func(s *service) {
			s.routes = []v1alpha1.NetworkPolicy{routedTo(groupName, head, true)}
		}, releaseState{state: "success", description: "The release is available and routed.", url: url, active: true}},
		"routed, TLS": {group(head + " +active"), func(s *service) {
			s.routes = []v1alpha1.NetworkPolicy{withURL("tls://db.example.com")}
		}, releaseState{state: "success", description: "The release is available and routed.", url: "tls://db.example.com", active: true}},
		"routed, TLS and HTTP": {group(head + " +active"), func(s *service) {
			s.routes = []v1alpha1.NetworkPolicy{withURL("tls://db.example.com"), withURL("http://a.example.com"), withURL(url)}
		}, releaseState{state: "success", description: "The release is available and routed.", url: "http://a.example.com", active: true}},
		"not programmed": {group(head + " +active"), func(s *service) {
			s.routes = []v1alpha1.NetworkPolicy{routedTo(groupName, head, false)}
		}, releaseState{state: "in_progress", description: "A route of the release is not programmed: Pending.", active: true}},
		"one of two not programmed": {group(head + " +active"), func(s *service) {
			s.routes = []v1alpha1.NetworkPolicy{routedTo(groupName, head, true), routedTo(groupName, head, false)}
		}, releaseState{state: "in_progress", description: "A route of the release is not programmed: Pending.", active: true}},
		"policy has not observed the pull request": {group(head + " +active"), func(s *service) {
			s.routes = []v1alpha1.NetworkPolicy{routedTo(groupName, commit("b"), true)}
		}, releaseState{state: "in_progress", description: "The routes of the release have not been created yet.", active: true}},
		"policy has not observed the group": {group(head + " +active"), func(s *service) {
			s.routes = []v1alpha1.NetworkPolicy{routedTo("other-2", head, true)}
		}, releaseState{state: "in_progress", description: "The routes of the release have not been created yet.", active: true}},
		"failed": {group(head + " error"), func(s *service) {
			s.failures[msName+"-"+short(head)] = v1alpha1.FailureImageNotFound
		}, releaseState{state: "failure", description: "ImageNotFound: the image does not exist in the registry."}},
		"failed, without a message": {group(head + " error"), nil, releaseState{state: "failure", description: "Failed: the release did not become available."}},
		"aborted":                   {group(head + " deprecated"), nil, releaseState{state: "inactive", description: "Replaced by another release."}},
		"configuration changed": {group(head+" pending", head+" +active"), nil,
			releaseState{state: "success", description: "The release is available.", active: true}},
		"too old": {phase(v1alpha1.GroupExpired, head, "MaxAge"), nil,
			releaseState{state: "inactive", description: "The preview expired because of its age. The next push creates it again."}},
		"too old, and pushed": {phase(v1alpha1.GroupExpired, commit("b"), "MaxAge"), nil, releaseState{state: "queued", description: "Waiting for the ImagePolicy to offer an image."}},
		"no slot":             {phase(v1alpha1.GroupExpired, head, "NoSlot"), nil, releaseState{state: "queued", description: "Waiting for a preview slot: the maximum number of previews has been reached."}},
		"closing":             {phase(v1alpha1.GroupClosing, "", ""), nil, releaseState{state: "inactive", description: "The preview is being deleted."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := world(nil, test.groups...)
			s := &f.services[0]
			if test.edit != nil {
				test.edit(s)
			}
			got := s.stateOf(s.groupOf(1), head)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(releaseState{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPodsThatComeAndGo checks that a preview's state is reported only once while its pods come and go, for
// example in a crash loop in which the pods are briefly ready after each restart.
func TestPodsThatComeAndGo(t *testing.T) {
	t.Parallel()
	head := commit("a")
	release := msName + "-" + short(head)
	crashing := func(s *service) { s.failures[release] = v1alpha1.FailureCrashLoopBackOff }
	settled := func(s *service) { s.stable[release] = true }
	type want struct {
		state v1alpha1.DeploymentState
		hold  bool
	}
	for name, test := range map[string]struct {
		row      string
		edit     func(*service)
		reported v1alpha1.DeploymentState
		want     want
	}{
		"starts":                          {" active", nil, v1alpha1.DeploymentInProgress, want{"in_progress", false}},
		"first ready":                     {" +active", nil, v1alpha1.DeploymentInProgress, want{"success", false}},
		"lost, no cause yet":              {" active", nil, v1alpha1.DeploymentSuccess, want{"in_progress", true}},
		"lost for a long time, no cause":  {" active", settled, v1alpha1.DeploymentSuccess, want{"in_progress", false}},
		"lost, with the cause":            {" active", crashing, v1alpha1.DeploymentSuccess, want{"failure", false}},
		"still lost":                      {" active", crashing, v1alpha1.DeploymentFailure, want{"failure", false}},
		"lost again, no cause yet":        {" active", nil, v1alpha1.DeploymentFailure, want{"in_progress", true}},
		"ready for a moment":              {" +active", nil, v1alpha1.DeploymentFailure, want{"success", true}},
		"ready permanently":               {" +active", settled, v1alpha1.DeploymentFailure, want{"success", false}},
		"ready, but an old cause remains": {" +active", crashing, v1alpha1.DeploymentSuccess, want{"success", false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := world(nil, groupWith(1, groupName, head+test.row))
			s := &f.services[0]
			if test.edit != nil {
				test.edit(s)
			}
			got := s.stableState(s.groupOf(1), head, test.reported)
			if diff := cmp.Diff(test.want, want{got.state, got.unstable}, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			// An unchanged state is written neither to the Deployment nor to the comment.
			f.pullRequests = []v1alpha1.PullRequest{pull(1, head)}
			f.records = []v1alpha1.FeedbackRecord{{Environment: envName, Ref: head, PullRequest: 1, DeploymentID: 7, State: test.reported, Checksum: "old"}}
			f.comments = []v1alpha1.CommentRecord{{PullRequest: 1, CommentID: 8, Checksum: "old"}}
			if writes := newPlan(f).writes; test.want.hold != (len(writes) == 0) {
				t.Errorf("%d writes, hold %t", len(writes), test.want.hold)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	a, b, c := commit("a"), commit("b"), commit("c")
	written := func(sha string, state v1alpha1.DeploymentState) v1alpha1.FeedbackRecord {
		return v1alpha1.FeedbackRecord{Environment: envName, Ref: sha, PullRequest: 1, DeploymentID: 7, State: state, Checksum: "old"}
	}
	open := []v1alpha1.PullRequest{pull(1, b)}
	shut := []v1alpha1.PullRequest{pull(1, b)}
	shut[0].State = v1alpha1.PullRequestClosed
	over := func(text string) []string { return []string{short(b) + " inactive: " + text} }
	for name, test := range map[string]struct {
		facts *observed
		edit  func(*observed)
		want  []string
	}{
		"new":        {world(open), nil, []string{"bbbbbbb queued: Waiting for the ImagePolicy to offer an image."}},
		"draft":      {world(open), func(f *observed) { f.pullRequests[0].Draft = true }, nil},
		"turned off": {world(open), func(f *observed) { f.feedback.Deployments.PullRequests = ptr.To(false) }, nil},
		"expired, never reported": {world(open), func(f *observed) {
			g := groupWith(1, groupName)
			g.Phase, g.Head, g.Target.Reason = v1alpha1.GroupExpired, b, "MaxAge"
			f.services[0].microservice.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{g}
		}, nil},
		"closed":      {world(shut), func(f *observed) { f.records = append(f.records, written(b, "success")) }, over("The pull request is closed.")},
		"closed once": {world(shut), func(f *observed) { f.records = append(f.records, written(b, "inactive")) }, nil},
		"gone":        {world(nil), func(f *observed) { f.records = append(f.records, written(b, "success")) }, over("The pull request is closed.")},
		"not polled": {world(nil), func(f *observed) {
			f.pullRequestsComplete, f.records = false, append(f.records, written(b, "success"))
		}, nil},
		"filtered out": {world(open), func(f *observed) {
			f.pullRequests[0].Draft, f.records = true, append(f.records, written(b, "success"))
		}, over("The pull request no longer has a preview in this environment.")},
		"Microservice gone": {world(open), func(f *observed) {
			f.services, f.records = nil, append(f.records, written(b, "success"))
		}, over("The pull request no longer has a preview in this environment.")},
		"feedback gone": {world(open), func(f *observed) {
			f.feedback, f.records = nil, append(f.records, written(b, "success"))
		}, over("This environment is no longer reported.")},
		"pushed, previous commit serves": {world(open, groupWith(1, groupName, b+" pending", a+" +active")), func(f *observed) {
			f.records = append(f.records, written(a, "success"))
		}, []string{"aaaaaaa success: The release is available.", "bbbbbbb in_progress: The rollout is in progress."}},
		"pushed, previous commit failed": {world(open, groupWith(1, groupName, a+" error")), func(f *observed) {
			f.records = append(f.records, written(a, "failure"))
		}, []string{"bbbbbbb queued: Waiting for the ImagePolicy to offer an image.", "aaaaaaa inactive: Replaced by bbbbbbb."}},
		"ready, not written": {world(open, groupWith(1, groupName, b+" +active", a+" deprecated")), func(f *observed) {
			f.records = append(f.records, written(a, "success"))
		}, []string{"bbbbbbb success: The release is available."}},
		"ready and written": {world(open, groupWith(1, groupName, b+" +active", a+" deprecated")), func(f *observed) {
			r := written(b, "success")
			r.Checksum = checksum("success", "The release is available.", "")
			f.records = append(f.records, written(a, "success"), r)
		}, []string{"aaaaaaa inactive: Replaced by bbbbbbb."}},
		"new commit fails, previous commit serves": {world(open, groupWith(1, groupName, b+" error", a+" +active")), func(f *observed) {
			f.records = append(f.records, written(a, "success"), written(c, "inactive"))
		}, []string{"aaaaaaa success: The release is available.", "bbbbbbb failure: Failed: the release did not become available."}},
		"two Microservices in one environment": {world(open, groupWith(1, groupName, b+" +active")), func(f *observed) {
			f.feedback.Environment = "preview/{{.ReleaseGroupName}}"
			api := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api"}}
			api.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{groupWith(1, groupName, b+" pending")}
			f.services = append(f.services, service{policy: f.services[0].policy, microservice: api})
		}, []string{"bbbbbbb in_progress: The rollout is in progress."}},
		"two pull requests with the same commit in the same environment": {world([]v1alpha1.PullRequest{pull(2, b), pull(1, b)}), func(f *observed) {
			f.feedback.Environment = "preview"
		}, []string{"bbbbbbb queued: Waiting for the ImagePolicy to offer an image."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := *test.facts
			f.feedback = &v1alpha1.Feedback{}
			f.pullRequests = slices.Clone(f.pullRequests)
			if test.edit != nil {
				test.edit(&f)
			}
			if diff := cmp.Diff(test.want, stateWrites(newPlan(&f))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestReleasesInOneEnvironment checks that the Deployment of a replaced release remains active until the release that replaced it
// is reported, and that its description names another commit only if there is only one.
func TestReleasesInOneEnvironment(t *testing.T) {
	t.Parallel()
	a, b, x := commit("a"), commit("b"), commit("d")
	record := func(sha string, state v1alpha1.DeploymentState) v1alpha1.FeedbackRecord {
		return v1alpha1.FeedbackRecord{Environment: "production", Ref: sha, DeploymentID: 7, State: state, Checksum: checksum(string(state), "The release is available.", "")}
	}
	withRoute := func(programmed bool) func(*service) {
		return func(s *service) { s.routes = []v1alpha1.NetworkPolicy{routedTo("1-x", "2.0.0", programmed)} }
	}
	withoutCommit := func(s *service) {
		s.commits[msName+"-1.9.0"] = ""
		withRoute(false)(s)
	}
	api, web, db := "api", "web", "db"
	for name, test := range map[string]struct {
		services []string
		web      func(*service)
		records  []v1alpha1.FeedbackRecord
		want     []string
	}{
		"not ready": {[]string{api, web}, withRoute(false), []v1alpha1.FeedbackRecord{record(x, "success"), record(a, "success")}, nil},
		"not ready, the commit of the replaced release is not known": {[]string{api, web}, withoutCommit, []v1alpha1.FeedbackRecord{record(x, "success"), record(a, "success")}, nil},
		"written, another release is never ready": {[]string{api, db, web}, nil, []v1alpha1.FeedbackRecord{record(x, "success"), record(a, "success"), record(b, "success")},
			[]string{"aaaaaaa inactive: Replaced by another release."}},
		"ready":           {[]string{api, web}, nil, []v1alpha1.FeedbackRecord{record(x, "success"), record(a, "success")}, []string{"bbbbbbb success: The release is available."}},
		"not written yet": {[]string{api, web}, nil, []v1alpha1.FeedbackRecord{record(x, "success"), record(a, "success"), record(b, "")}, []string{"bbbbbbb success: The release is available."}},
		"written":         {[]string{api, web}, nil, []v1alpha1.FeedbackRecord{record(x, "success"), record(a, "success"), record(b, "success")}, []string{"aaaaaaa inactive: Replaced by another release."}},
		"written, another release fails": {[]string{api, web}, nil, []v1alpha1.FeedbackRecord{record(x, "failure"), record(a, "success"), record(b, "success")},
			[]string{"aaaaaaa inactive: Replaced by another release."}},
		"returns, not ready": {[]string{web}, withRoute(false), []v1alpha1.FeedbackRecord{record(a, "success"), record(b, "in_progress")},
			[]string{"bbbbbbb in_progress: A route of the release is not programmed: Pending."}},
		"one Microservice": {[]string{web}, nil, []v1alpha1.FeedbackRecord{record(a, "success"), record(b, "success")}, []string{"aaaaaaa inactive: Replaced by bbbbbbb."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := world(nil)
			f.feedback.Environment, f.feedback.Deployments.Releases = "production", true
			f.services, f.records = nil, test.records
			for _, name := range test.services {
				version, sha, rows := "2.0.0", b, []string{"2.0.0 +active", "1.9.0 deprecated"}
				switch name {
				case api:
					version, sha, rows = "1.0.0", x, []string{"1.0.0 +active"}
				case db:
					version, sha, rows = "3.0.0", commit("c"), []string{"3.0.0 +active"}
				}
				s := world(nil, groupWith(0, "1-x", rows...)).services[0]
				s.microservice.Name, s.policy.Spec.Source.GitHub = name, &v1alpha1.GitHubSource{Tags: &v1alpha1.GitHubTags{}}
				s.commits[msName+"-"+version], s.commits[msName+"-1.9.0"] = sha, a
				if name == db {
					s.routes = []v1alpha1.NetworkPolicy{routedTo("1-x", "3.0.0", false)}
				}
				if name == web && test.web != nil {
					test.web(&s)
				}
				f.services = append(f.services, s)
			}
			if diff := cmp.Diff(test.want, stateWrites(newPlan(f))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestHeadOf checks which commit gets a preview. The filters are tested separately.
func TestHeadOf(t *testing.T) {
	t.Parallel()
	a, b := commit("a"), commit("b")
	approve := func(s *service, pr *v1alpha1.PullRequest) {
		pr.Fork, pr.Labels = true, []v1alpha1.PullRequestLabel{{Name: "ok", SHA: b}}
		s.policy.Spec.Source.GitHub.PullRequests.Forks = &v1alpha1.Forks{Policy: v1alpha1.ForksApproved, Label: "ok"}
	}
	offer := func(s *service, sha string) {
		s.policy.Status.Releases = []v1alpha1.OfferedRelease{{PullRequest: 1, Revision: sha}}
	}
	for name, test := range map[string]struct {
		edit func(*service, *v1alpha1.PullRequest)
		want string
	}{
		"open":             {func(*service, *v1alpha1.PullRequest) {}, a},
		"closed":           {func(_ *service, pr *v1alpha1.PullRequest) { pr.State = v1alpha1.PullRequestClosed }, ""},
		"draft":            {func(_ *service, pr *v1alpha1.PullRequest) { pr.Draft = true }, ""},
		"draft, offered":   {func(s *service, pr *v1alpha1.PullRequest) { pr.Draft = true; offer(s, a) }, ""},
		"fork":             {func(_ *service, pr *v1alpha1.PullRequest) { pr.Fork = true }, ""},
		"approved earlier": {func(s *service, pr *v1alpha1.PullRequest) { approve(s, pr) }, ""},
		"approved earlier, and offered": {func(s *service, pr *v1alpha1.PullRequest) {
			approve(s, pr)
			offer(s, b)
		}, b},
		"approved, another commit offered": {func(s *service, pr *v1alpha1.PullRequest) {
			approve(s, pr)
			offer(s, commit("c"))
		}, ""},
		"filters that cannot be read": {func(s *service, _ *v1alpha1.PullRequest) {
			s.policy.Spec.Source.GitHub.PullRequests.Base = "("
			offer(s, b)
		}, b},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, pr := &world(nil).services[0], pull(1, a)
			test.edit(s, &pr)
			if got := s.previewCommit(s.chooser(), &pr); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestPolled checks that only a complete list shows that a pull request is missing.
func TestPolled(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		counted bool
		reason  string
		want    bool
	}{
		"never": {}, "whole": {true, "", true}, "tags truncated": {true, "TooManyTags", true}, "pull requests truncated": {true, reasonTooManyPullRequests, false},
	} {
		ghr := &v1alpha1.GitHubRepository{}
		if test.counted {
			ghr.Status.OpenPullRequests = ptr.To[int32](1)
		}
		if test.reason != "" {
			status.Set(&ghr.Status.Conditions, 1, v1alpha1.ConditionTruncated, metav1.ConditionTrue, test.reason, "")
		}
		if got := pullRequestsComplete(ghr); got != test.want {
			t.Errorf("%s: polled %t, want %t", name, got, test.want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	s := &world(nil).services[0]
	pr := pull(7, commit("a"))
	pr.HeadRef = "feature/x, y"
	for template, want := range map[string]string{
		"": "web/feature-7", "{{.Namespace}}/{{.Number}}": "shop/7", "{{.Branch}}": "feature/x--y",
	} {
		if got := environmentOf(template, s, "feature-7", &pr); got != want {
			t.Errorf("%q results in %q, want %q", template, got, want)
		}
	}
	pr.HeadRef = strings.Repeat("é", 127)
	long := environmentOf("{{.Namespace}}{{.Branch}}", s, "", &pr)
	pr.HeadRef += "x"
	if other := environmentOf("{{.Namespace}}{{.Branch}}", s, "", &pr); len(long) > maxEnvironment || len(other) > maxEnvironment || other == long {
		t.Errorf("%d bytes; the name of another environment is %q", len(long), other)
	}
}

func TestCommentText(t *testing.T) {
	t.Parallel()
	rows := []row{
		{microservice: "shop/web", ref: commit("a"), releaseState: releaseState{state: "success", description: "x", url: "https://a.example.com/"}},
		{microservice: "shop/api", ref: commit("a"), releaseState: releaseState{state: "failure", description: "Bad|<b>@team"}, serving: commit("b")},
	}
	want := "### Previews\n\n| Microservice | State | URL | Commit |\n| --- | --- | --- | --- |\n" +
		"| `shop/api` | **failed**. Bad\\|&lt;b&gt;\\@\u200bteam `bbbbbbb` keeps serving in the meantime. |  | `aaaaaaa` |\n" +
		"| `shop/web` | **ready** | <https://a.example.com/> | `aaaaaaa` |\n"
	if diff := cmp.Diff(want, commentText(rows)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	slices.Reverse(rows)
	if got := commentText(rows); got != want {
		t.Error("the order of the input changes the text")
	}
	if got := commentText(nil); got != textNone {
		t.Errorf("no rows: %q", got)
	}
	if got := commentText(make([]row, 1000)); len(got) > 60000 || !strings.Contains(got, "and 950 more") {
		t.Errorf("%d bytes", len(got))
	}
}

// TestBounds checks that the oldest inactive records are dropped first, and that further Deployments wait.
func TestBounds(t *testing.T) {
	t.Parallel()
	f := world(nil)
	for i := range maxRecords {
		state := v1alpha1.DeploymentInactive
		if i%2 == 1 {
			state = v1alpha1.DeploymentSuccess
		}
		number := int64(i + 1)
		f.records = append(f.records, v1alpha1.FeedbackRecord{Environment: fmt.Sprint("e", i), Ref: commit("a"), PullRequest: number, DeploymentID: number, State: state})
	}
	f.pullRequestsComplete = false // records do not change
	f.pullRequests = []v1alpha1.PullRequest{pull(1001, commit("b")), pull(1002, commit("b"))}
	p := newPlan(f)
	if len(p.records) != maxRecords || p.omitted != 0 {
		t.Fatalf("%d records, %d omitted", len(p.records), p.omitted)
	}
	if p.records[0].Environment != "e1" || p.records[1].Environment != "e3" || p.records[maxRecords-2].PullRequest != 1002 {
		t.Errorf("the oldest inactive records were not dropped first: %+v", p.records[:3])
	}
	for i := range f.records {
		f.records[i].State = v1alpha1.DeploymentSuccess
	}
	p = newPlan(f)
	if len(p.records) != maxRecords || p.omitted != 2 || len(stateWrites(p)) != 0 {
		t.Errorf("%d records, %d omitted, writes %q", len(p.records), p.omitted, stateWrites(p))
	}
}

// carryOutAll simulates GitHub: it carries out all writes of a plan.
func carryOutAll(f *observed, p plan, next int64) {
	ghr := &v1alpha1.GitHubRepository{}
	ghr.Status.Feedback, ghr.Status.Comments = p.records, p.comments
	out := applied{}
	for i, w := range p.writes {
		res := result{write: w}
		if w.deployment != nil {
			if res.id = w.deployment.DeploymentID; res.id == 0 && w.want.state != v1alpha1.DeploymentInactive {
				res.id = next + int64(i)
			}
		} else {
			res.kept.ID = 1
		}
		out.results = append(out.results, res)
	}
	recordResults(ghr, &out)
	f.records, f.comments = ghr.Status.Feedback, ghr.Status.Comments
}

// TestPlanProperties checks, for random histories, that a plan is the same for the same input, writes each
// Deployment and comment once, and reports success only for releases that are ready and routed. After
// a few plans are carried out, the next plan contains no writes, and each environment has at most one
// successful Deployment.
func TestPlanProperties(t *testing.T) {
	t.Parallel()
	for seed := range uint64(120) {
		random := rand.New(rand.NewPCG(seed, 4))
		shas := []string{commit("a"), commit("b"), commit("c")}
		f := world(nil)
		next := int64(1)
		for range 25 {
			f.pullRequests, f.services[0].microservice.Status.ReleaseGroups, f.services[0].routes = nil, nil, nil
			for n := int64(3); n > 0; n-- {
				pr := pull(n, shas[random.IntN(3)])
				if random.IntN(4) == 0 {
					pr.State = v1alpha1.PullRequestClosed
				}
				pr.Draft = random.IntN(5) == 0
				if random.IntN(6) > 0 {
					f.pullRequests = append(f.pullRequests, pr)
				}
				slug := fmt.Sprintf("feature-%d", n)
				var rows []string
				for _, sha := range shas {
					if state := []string{"", "pending", "error", "deprecated", "+canary"}[random.IntN(5)]; state != "" {
						rows = append(rows, sha+" "+state)
					}
				}
				if random.IntN(2) == 0 {
					active := shas[random.IntN(3)]
					rows = slices.DeleteFunc(rows, func(r string) bool { return strings.HasPrefix(r, active) })
					rows = append(rows, active+" "+[]string{"active", "+active"}[random.IntN(2)])
					if random.IntN(3) == 0 {
						f.services[0].routes = append(f.services[0].routes, routedTo(slug, active, random.IntN(2) == 0))
					}
				}
				f.services[0].microservice.Status.ReleaseGroups = append(f.services[0].microservice.Status.ReleaseGroups, groupWith(n, slug, rows...))
			}
			f.feedback = &v1alpha1.Feedback{}
			if random.IntN(6) == 0 {
				f.feedback = nil
			}
			f.pullRequestsComplete = random.IntN(4) > 0
			settled := false
			for range 6 {
				p, again := newPlan(f), newPlan(f)
				if !reflect.DeepEqual(p.records, again.records) || !reflect.DeepEqual(p.writes, again.writes) {
					t.Fatalf("seed %d: two plans from the same input differ", seed)
				}
				keys := map[string]bool{}
				for _, w := range p.writes {
					if keys[w.key] {
						t.Fatalf("seed %d: %s is written twice", seed, w.key)
					}
					keys[w.key] = true
					if w.deployment != nil && w.want.state == v1alpha1.DeploymentSuccess && !ready(f, w.deployment) {
						t.Fatalf("seed %d: success is reported for %+v, which is not ready", seed, w.deployment)
					}
				}
				back := *f
				back.feedback, back.records, back.comments = nil, p.records, p.comments
				if takes := len(newPlan(&back).writes) > 0; takes != p.needsFinalizer() {
					t.Fatalf("seed %d: needsFinalizer is %t, but cleanup has writes: %t", seed, p.needsFinalizer(), takes)
				}
				if len(p.writes) == 0 {
					settled = true
					break
				}
				carryOutAll(f, p, next)
				next += 100
			}
			if !settled {
				t.Fatalf("seed %d: feedback never becomes stable", seed)
			}
			if f.feedback != nil && f.pullRequestsComplete {
				alone(t, seed, f)
			}
		}
	}
}

// ready determines whether a release is ready. It does so independently of the plan.
func ready(f *observed, r *v1alpha1.FeedbackRecord) bool {
	ms := f.services[0].microservice
	for _, g := range ms.Status.ReleaseGroups {
		for _, row := range g.Releases {
			if g.PullRequest == r.PullRequest && row.SemVer.Version == r.Ref && row.Status == v1alpha1.ReleaseActive && row.Available {
				for _, route := range f.services[0].routes {
					if d := route.Status.Domains[0]; d.Group == g.Slug && !d.Programmed {
						return false
					}
				}
				return true
			}
		}
	}
	return false
}

// alone checks that no environment has two successful Deployments, and that all Deployments of closed,
// missing, and draft pull requests are inactive.
func alone(t *testing.T, seed uint64, f *observed) {
	t.Helper()
	success := map[string]int{}
	for _, r := range f.records {
		if r.State == v1alpha1.DeploymentSuccess {
			success[r.Environment]++
		}
		open := slices.ContainsFunc(f.pullRequests, func(p v1alpha1.PullRequest) bool {
			return p.Number == r.PullRequest && p.State == v1alpha1.PullRequestOpen && !p.Draft
		})
		if !open && r.State != v1alpha1.DeploymentInactive {
			t.Fatalf("seed %d: %+v is active, but its pull request is not open", seed, r)
		}
	}
	for environment, n := range success {
		if n > 1 {
			t.Fatalf("seed %d: %s has %d successful Deployments", seed, environment, n)
		}
	}
}

// TestBlockedMessages checks that a Deployment describes each problem outside a release that can block its rollout.
func TestBlockedMessages(t *testing.T) {
	for _, reason := range release.OutsideReasons() {
		if text := blockedMessage(string(reason)); strings.Contains(text, "a problem outside the release") {
			t.Errorf("%s is not described: %s", reason, text)
		}
	}
}
