package feedback

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github/githubtest"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/test/await"
)

// expect checks the Deployments on GitHub.
func (s *story) expect(step string, want ...string) {
	s.Helper()
	if diff := cmp.Diff(want, s.deployments()); diff != "" {
		s.Fatalf("%s (-want +got):\n%s\ncondition: %s", step, diff, s.condition())
	}
}

// comment returns the only comment on a pull request.
func (s *story) comment(n int) string {
	s.Helper()
	all := s.repo.Comments(n)
	if len(all) != 1 {
		s.Fatalf("pull request %d has %d comments, want one", n, len(all))
	}
	return all[0].Body
}

func (s *story) commented(step string, n int, words ...string) {
	s.Helper()
	await.Nil(s, func(context.Context) error {
		body := s.comment(n)
		for _, word := range words {
			if !strings.Contains(body, word) {
				return fmt.Errorf("%s: the comment does not contain %q:\n%s", step, word, body)
			}
		}
		return nil
	})
}

const allWritten = "True Succeeded: GitHub is up to date"

func feature() githubtest.PullRequest { return githubtest.PullRequest{HeadRef: "feature"} }

// TestLifeOfAPreview checks that a Deployment is first queued and then in_progress, becomes successful only
// when the preview is ready and routed, and becomes inactive when the pull request is closed.
func TestLifeOfAPreview(t *testing.T) {
	s := begin(t)
	sha := s.open(feature())
	env := envName + " " + short(sha) + ":"
	s.settle()
	s.expect("opened", env+" queued")
	s.commented("opened", 1, "**queued**", "Waiting for the ImagePolicy to offer an image", "`"+s.namespace+"/web`", short(sha))
	if got := s.condition(); got != allWritten {
		t.Errorf("condition %q", got)
	}
	s.rolloutState(1, groupName, sha+" pending")
	s.settle()
	s.expect("pending", env+" queued in_progress")
	s.route(groupName, sha, false)
	s.rolloutState(1, groupName, sha+" +active")
	s.settle()
	s.expect("not routed", env+" queued in_progress in_progress")
	s.commented("not routed", 1, "**in progress**", "not programmed")
	s.route(groupName, sha, true)
	s.settle()
	s.expect("ready", env+" queued in_progress in_progress success")
	s.commented("ready", 1, "**ready**", "<https://feature-1.preview.example.com>")
	if d := s.repo.Deployments()[0]; d.Statuses[3].EnvironmentURL != "https://feature-1.preview.example.com" || !d.Transient || d.Production || d.AutoMerge || d.WantedChecks {
		t.Errorf("deployment %+v", d)
	}
	s.repo.Close(1, true)
	s.poll()
	s.settle()
	s.expect("closed", env+" queued in_progress in_progress success inactive")
	s.commented("closed", 1, "is closed")
	if ghr := s.get(); len(ghr.Finalizers) != 0 {
		t.Errorf("finalizers %q remain although there is no feedback to remove", ghr.Finalizers)
	}
	// If the pull request is later removed from the status, nothing is reported for it.
	s.server.ResetCounts()
	s.pulls = 0
	s.poll()
	s.settle()
	if n := s.server.Count("", 0); n != 0 {
		t.Errorf("%d requests for closed groups", n)
	}
	if diff := cmp.Diff([]string{"Normal Succeeded"}, s.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestTLSDomain checks that a preview behind a domain that browsers cannot open is reported as ready, without a link.
func TestTLSDomain(t *testing.T) {
	s := begin(t)
	sha := s.open(feature())
	s.route(groupName, sha, true)
	policy := &v1alpha1.NetworkPolicy{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: msName}, policy); err != nil {
		t.Fatal(err)
	}
	policy.Status.Domains[0].URL = "tls://feature-1.preview.example.com"
	if err := env.Client.Status().Update(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	s.rolloutState(1, groupName, sha+" +active")
	s.settle()
	s.expect("ready", envName+" "+short(sha)+": success")
	s.commented("ready", 1, "**ready**", `tls\:\/\/feature\-1\.preview\.example\.com`)
	if got := s.repo.Deployments()[0].Statuses[0].EnvironmentURL; got != "" {
		t.Errorf("environment URL %q", got)
	}
}

// TestReopened checks that the Deployment of the commit is used again after the pull request is reopened.
func TestReopened(t *testing.T) {
	s := begin(t)
	sha := s.open(feature())
	s.settle()
	s.repo.Close(1, false)
	s.poll()
	s.settle()
	s.repo.Reopen(1)
	s.rolloutState(1, groupName, sha+" +active")
	s.poll()
	s.settle()
	s.expect("reopened", envName+" "+short(sha)+": queued inactive success")
	s.commented("reopened", 1, "**ready**")
}

// TestThreePushes checks that each commit has one Deployment, and that the previous Deployment remains active
// until the new Deployment is active.
func TestThreePushes(t *testing.T) {
	s := begin(t)
	one := s.open(feature())
	s.route(groupName, one, true)
	s.rolloutState(1, groupName, one+" +active")
	s.settle()
	line := func(sha, states string) string { return envName + " " + short(sha) + ": " + states }
	s.expect("first", line(one, "success"))
	two := s.push(1)
	s.rolloutState(1, groupName, two+" pending", one+" +active")
	s.settle()
	s.expect("second starts", line(one, "success"), line(two, "in_progress"))
	s.commented("second starts", 1, "**in progress**", "`"+short(one)+"` keeps serving in the meantime", "`"+short(two)+"`")
	// The second commit does not become ready before the third commit is pushed.
	three := s.push(1)
	s.rolloutState(1, groupName, two+" pending", one+" +active")
	s.settle()
	s.expect("third waits", line(one, "success"), line(two, "in_progress inactive"), line(three, "queued"))
	s.route(groupName, three, true)
	s.rolloutState(1, groupName, three+" +active", one+" deprecated")
	s.settle()
	s.expect("third is ready", line(one, "success inactive"), line(two, "in_progress inactive"), line(three, "queued success"))
	if got := s.comment(1); strings.Contains(got, "meanwhile") {
		t.Errorf("comment %s", got)
	}
}

// TestFailure checks that the reason for a failure is reported, and that no message from a container is
// reported.
func TestFailure(t *testing.T) {
	s := begin(t)
	sha := s.open(feature())
	release := s.release(groupName, sha, sha)
	release.Status.Failure, release.Status.Message = v1alpha1.FailureCrashLoopBackOff, `container "web" exited with code 1: password hunter2 was refused`
	if err := env.Client.Status().Update(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	s.rolloutState(1, groupName, sha+" error")
	s.settle()
	s.expect("failed", envName+" "+short(sha)+": failure")
	want := "CrashLoopBackOff: a container exits repeatedly."
	if got := s.repo.Deployments()[0].Statuses[0].Description; got != want {
		t.Errorf("description %q, want %q", got, want)
	}
	s.commented("failed", 1, "**failed**", "CrashLoopBackOff")
	if body := s.comment(1); strings.Contains(body, "hunter2") {
		t.Errorf("the comment contains the message of a container:\n%s", body)
	}
}

// TestNothingChanged checks that a reconcile without changes makes no requests and no writes.
func TestNothingChanged(t *testing.T) {
	s := begin(t)
	sha := s.open(feature())
	s.rolloutState(1, groupName, sha+" +active")
	s.settle()
	s.server.ResetCounts()
	s.patches.Store(0)
	version := s.get().ResourceVersion
	for range 20 {
		s.settle()
	}
	s.restart()
	for range 20 {
		s.settle()
	}
	if n := s.server.Count("", 0); n != 0 || s.patches.Load() != 0 || s.get().ResourceVersion != version {
		t.Errorf("%d requests to GitHub and %d patches without a change, want none", n, s.patches.Load())
	}
	s.expect("the same", envName+" "+short(sha)+": success")
}

// TestStatusLost checks that all feedback is found again if the manager stops after a request and
// before it records the response, or if a user removes the status.
func TestStatusLost(t *testing.T) {
	for name, lose := range map[string]func(*v1alpha1.GitHubRepositoryStatus){
		"the records": func(st *v1alpha1.GitHubRepositoryStatus) { st.Feedback, st.Comments = nil, nil },
		"the IDs": func(st *v1alpha1.GitHubRepositoryStatus) {
			for i := range st.Feedback {
				st.Feedback[i].DeploymentID, st.Feedback[i].State, st.Feedback[i].Checksum = 0, "", ""
			}
			st.Comments = nil
		},
		"everything": func(st *v1alpha1.GitHubRepositoryStatus) { *st = v1alpha1.GitHubRepositoryStatus{} },
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			one := s.open(feature())
			s.rolloutState(1, groupName, one+" +active")
			s.settle()
			two := s.push(1)
			s.rolloutState(1, groupName, two+" pending", one+" +active")
			s.settle()
			ghr := s.get()
			lose(&ghr.Status)
			if err := env.Client.Status().Update(t.Context(), ghr); err != nil {
				t.Fatal(err)
			}
			s.restart()
			s.settle()
			s.poll()
			s.server.ResetCounts()
			s.rolloutState(1, groupName, two+" +active")
			s.settle()
			s.expect("found again", envName+" "+short(one)+": success inactive", envName+" "+short(two)+": in_progress success")
			if n := s.server.Count(posts, 0); n != 0 {
				t.Errorf("%d Deployments were created again", n)
			}
			s.commented("found again", 1, "**ready**", short(two))
		})
	}
}

// TestKilledWhileMaking checks that a Deployment that was created but not recorded becomes inactive
// even if its pull request is closed before the manager restarts.
func TestKilledWhileMaking(t *testing.T) {
	s := begin(t)
	sha := s.open(feature())
	s.settle()
	ghr := s.get()
	ghr.Status.Feedback[0] = v1alpha1.FeedbackRecord{Environment: envName, Ref: sha, PullRequest: 1}
	if err := env.Client.Status().Update(t.Context(), ghr); err != nil {
		t.Fatal(err)
	}
	s.restart()
	s.repo.Close(1, false)
	s.poll()
	s.settle()
	s.expect("closed meanwhile", envName+" "+short(sha)+": queued inactive")
}

// TestCommentDeleted checks that a deleted comment is written again once, but not a second time.
func TestCommentDeleted(t *testing.T) {
	s := begin(t)
	sha := s.open(feature())
	s.settle()
	remove := func() {
		s.comment(1)
		s.repo.DeleteComment(s.repo.Comments(1)[0].ID)
	}
	remove()
	s.rolloutState(1, groupName, sha+" pending")
	s.settle()
	s.commented("once more", 1, "**in progress**")
	remove()
	s.restart()
	s.rolloutState(1, groupName, sha+" +active")
	s.settle()
	if all := s.repo.Comments(1); len(all) != 0 {
		t.Errorf("the comment is written a third time: %+v", all)
	}
	if got := s.condition(); got != allWritten {
		t.Errorf("condition %q", got)
	}
}

// TestRefusals tests responses that request a retry, and a GitHub outage.
func TestRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		fault  githubtest.Fault
		reason string
		wait   time.Duration
	}{
		"202":             {githubtest.Fault{Route: posts, Answer: githubtest.DeploymentMerged}, "False Conflict: ", minBackoff},
		"409":             {githubtest.Fault{Route: posts, Answer: githubtest.DeploymentConflict}, "False Conflict: ", minBackoff},
		"down":            {githubtest.Fault{Answer: githubtest.Unavailable}, "False Unreachable: ", minBackoff},
		"secondary limit": {githubtest.Fault{Route: posts, Answer: githubtest.SecondaryLimit, RetryAfter: time.Minute}, "False RateLimited: ", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			sha := s.open(feature())
			s.server.Fail(test.fault)
			wait := s.settle()
			if got := s.condition(); !strings.HasPrefix(got, test.reason) {
				t.Errorf("condition %q, want %q", got, test.reason)
			}
			if wait <= 0 || wait > test.wait {
				t.Errorf("polls again after %s, want within %s", wait, test.wait)
			}
			s.server.ResetCounts()
			for range 5 {
				s.settle()
			}
			if n := s.server.Count("", 0); n != 0 {
				t.Errorf("%d requests before the scheduled time", n)
			}
			// Changes during the outage are reported when GitHub is available again.
			s.rolloutState(1, groupName, sha+" +active")
			s.server.Heal()
			s.clock.Step(test.wait)
			s.settle()
			s.expect("healed", envName+" "+short(sha)+": success")
			if got := s.condition(); got != allWritten {
				t.Errorf("condition %q", got)
			}
			if diff := cmp.Diff([]string{"Warning " + strings.Trim(strings.Fields(test.reason)[1], ":"), "Normal Succeeded"}, s.events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHangingGitHub checks that a reconcile does not wait for GitHub.
func TestHangingGitHub(t *testing.T) {
	s := begin(t)
	sha := s.open(feature())
	hang := make(chan struct{})
	s.hang.Store(&hang)
	for range 10 {
		s.once() // GitHub responds after this reconcile.
	}
	if s.remembered().task == nil {
		t.Error("no task is in progress: a reconcile waited for GitHub until its timeout")
	}
	s.hang.Store(nil)
	close(hang)
	s.settle()
	s.expect("it responds", envName+" "+short(sha)+": queued")
}

// TestMissingPermission checks that the condition contains the missing permission, and that permitted writes are made.
func TestMissingPermission(t *testing.T) {
	for name, test := range map[string]struct {
		may                   map[string]string
		deployments, comments int
		names                 string
	}{
		"of deployments": {map[string]string{"deployments": "read", "pull_requests": "write"}, 0, 1, "deployments=write"},
		"of comments":    {map[string]string{"deployments": "write", "pull_requests": "read"}, 1, 0, "pull_requests=write"},
		"to poll":        {map[string]string{"pull_requests": "write"}, 0, 0, "deployments=read"},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			s.server.AddToken(token, githubtest.Access{Permissions: test.may})
			s.open(feature())
			s.settle()
			got := s.condition()
			if !strings.HasPrefix(got, "False Forbidden: ") || !strings.Contains(got, test.names) || strings.Contains(got, token) {
				t.Errorf("condition %q does not name %s", got, test.names)
			}
			if d, c := len(s.repo.Deployments()), len(s.repo.Comments(1)); d != test.deployments || c != test.comments {
				t.Errorf("%d Deployments and %d comments", d, c)
			}
			// After a user grants the permission and requests a retry, the write is repeated immediately.
			s.server.AddToken(token, githubtest.Access{})
			s.edit(func(g *v1alpha1.GitHubRepository) {
				g.Annotations = map[string]string{v1alpha1.AnnotationRequestedAt: "now"}
			})
			s.settle()
			if got := s.condition(); got != allWritten || len(s.repo.Deployments()) != 1 || len(s.repo.Comments(1)) != 1 {
				t.Errorf("condition %q, %d Deployments", got, len(s.repo.Deployments()))
			}
		})
	}
}

func TestSecrets(t *testing.T) {
	for name, test := range map[string]struct {
		data map[string][]byte
		want string
	}{
		"missing": {nil, `False SecretNotFound: spec.credentialsSecretRef: Secret "other" not found`},
		"empty":   {map[string][]byte{"other": []byte("x")}, "False InvalidSecret: spec.credentialsSecretRef: "},
		"wrong":   {map[string][]byte{"token": []byte("hunter2")}, "False Unauthorized: "},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, func(spec *v1alpha1.GitHubRepositorySpec) { spec.CredentialsSecretRef.Name = "other" })
			if test.data != nil {
				s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "other"}, Data: test.data})
			}
			s.open(feature())
			s.settle()
			if got := s.condition(); !strings.HasPrefix(got, test.want) || strings.Contains(got, "hunter2") {
				t.Errorf("condition %q, want %q", got, test.want)
			}
		})
	}
}

// TestDeletedSecret checks that the credential of a deleted Secret is no longer used.
func TestDeletedSecret(t *testing.T) {
	s := begin(t)
	sha := s.open(feature())
	s.settle()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.get().Spec.CredentialsSecretRef.Name}}
	if err := env.Client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	written := len(s.repo.Deployments())
	s.rolloutState(1, groupName, sha+" +active")
	s.settle()
	if got := s.condition(); !strings.HasPrefix(got, "False SecretNotFound: ") || len(s.repo.Deployments()) != written {
		t.Errorf("condition %q, %d Deployments, previously %d", got, len(s.repo.Deployments()), written)
	}
}

// TestEnds checks that all feedback is removed if the GitHubRepository or its spec.feedback is deleted.
func TestEnds(t *testing.T) {
	for name, end := range map[string]func(*story){
		"deleted": func(s *story) {
			if err := env.Client.Delete(s.Context(), s.get()); err != nil {
				s.Fatal(err)
			}
		},
		"no feedback": func(s *story) { s.edit(func(g *v1alpha1.GitHubRepository) { g.Spec.Feedback = nil }) },
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			sha := s.open(feature())
			s.rolloutState(1, groupName, sha+" +active")
			s.settle()
			if len(s.get().Finalizers) != 1 {
				t.Fatalf("finalizers %q", s.get().Finalizers)
			}
			end(s)
			s.settle()
			s.expect("ended", envName+" "+short(sha)+": success inactive")
			s.commented("ended", 1, "no longer reported")
			ghr := s.get()
			if name == "deleted" {
				if ghr != nil {
					t.Errorf("the object remains: %+v", ghr.ObjectMeta)
				}
				return
			}
			if len(ghr.Finalizers)+len(ghr.Status.Feedback)+len(ghr.Status.Comments) != 0 || s.condition() != "" {
				t.Errorf("feedback remains: %q, %+v, %s", ghr.Finalizers, ghr.Status.Feedback, s.condition())
			}
			// If feedback is configured again, the same Deployment and the same comment are used.
			s.edit(func(g *v1alpha1.GitHubRepository) { g.Spec.Feedback = &v1alpha1.Feedback{} })
			s.settle()
			s.expect("again", envName+" "+short(sha)+": success inactive success")
			s.commented("again", 1, "**ready**")
		})
	}
}

// TestDeletedWhileDown checks that an outage of GitHub blocks a deletion only until the deadline, and that
// a Secret that was deleted earlier does not block the deletion.
func TestDeletedWhileDown(t *testing.T) {
	s := begin(t)
	s.open(feature())
	s.settle()
	s.server.Fail(githubtest.Fault{Answer: githubtest.Unavailable})
	if err := env.Client.Delete(t.Context(), s.get()); err != nil {
		t.Fatal(err)
	}
	if wait := s.settle(); s.get() == nil || wait <= 0 || wait > cleanupDeadline+2*time.Second {
		t.Fatalf("polls again after %s", wait)
	}
	s.clock.SetTime(time.Now().Add(cleanupDeadline + 2*time.Second))
	s.settle()
	if s.get() != nil {
		t.Error("the deletion is blocked beyond the deadline")
	}
	if got := s.events[len(s.events)-1]; got != "Warning FeedbackNotRemoved" {
		t.Errorf("events %q", s.events)
	}
}

func TestDeletedAfterItsSecret(t *testing.T) {
	s := begin(t)
	sha := s.open(feature())
	s.settle()
	ghr := s.get()
	if err := env.Client.Delete(t.Context(), ghr); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "github"}}
	if err := env.Client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	s.settle()
	if s.get() != nil {
		t.Error("the object remains")
	}
	s.expect("deleted", envName+" "+short(sha)+": queued inactive")
}

// TestSuspended checks that a suspended GitHubRepository writes nothing, and that nothing delays its
// deletion.
func TestSuspended(t *testing.T) {
	s := begin(t)
	sha := s.open(feature())
	s.settle()
	s.edit(func(g *v1alpha1.GitHubRepository) { g.Spec.Suspend = true })
	s.server.ResetCounts()
	s.rolloutState(1, groupName, sha+" +active")
	s.settle()
	if n := s.server.Count("", 0); n != 0 {
		t.Errorf("%d requests while it is suspended", n)
	}
	if err := env.Client.Delete(t.Context(), s.get()); err != nil {
		t.Fatal(err)
	}
	s.settle()
	if s.get() != nil || s.server.Count("", 0) != 0 {
		t.Error("the deletion waits, or sends requests")
	}
}

// TestReleases checks that each version that becomes active gets a Deployment in production.
func TestReleases(t *testing.T) {
	s := begin(t, func(spec *v1alpha1.GitHubRepositorySpec) {
		spec.Feedback.Deployments.Releases = true
		spec.Feedback.Environment = "{{.Microservice}}/{{.ReleaseGroupName}}"
	})
	policy := &v1alpha1.ImagePolicy{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: msName}, policy); err != nil {
		t.Fatal(err)
	}
	policy.Spec.Source.GitHub.PullRequests, policy.Spec.Source.GitHub.Tags = nil, &v1alpha1.GitHubTags{}
	if err := env.Client.Update(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	one, two := s.repo.Tag("v1.0.0"), s.repo.Tag("v1.1.0")
	tag := func(name, sha string) {
		t.Helper()
		ghr := s.get()
		before := ghr.DeepCopy()
		ghr.Status.Tags = append([]v1alpha1.GitHubTag{{Name: name, SHA: sha}}, slices.DeleteFunc(ghr.Status.Tags, func(g v1alpha1.GitHubTag) bool { return g.Name == name })...)
		if _, err := status.Patch(t.Context(), env.Client, "looker", ghr, before); err != nil {
			t.Fatal(err)
		}
	}
	tag("v1.0.0", one)
	tag("v1.1.0", two)
	s.release("1-x", "1.0.0", one)
	s.rolloutState(0, "1-x", "1.0.0 pending")
	s.settle()
	s.expect("pending")
	s.rolloutState(0, "1-x", "1.0.0 +active")
	s.settle()
	s.expect("active", "web/1-x "+short(one)+": success")
	if d := s.repo.Deployments()[0]; d.Transient || !d.Production {
		t.Errorf("deployment %+v", d)
	}
	tag("v1.0.0", s.repo.Commit()) // The release from this commit is not active yet.
	s.settle()
	s.expect("tag moved", "web/1-x "+short(one)+": success")
	s.rolloutState(0, "1-x", "1.1.0 canary", "1.0.0 +active")
	s.settle()
	s.rolloutState(0, "1-x", "1.1.0 +active", "1.0.0 deprecated")
	s.settle()
	s.expect("promoted", "web/1-x "+short(one)+": success inactive", "web/1-x "+short(two)+": success")
	s.rolloutState(0, "1-x", "1.2.0 +active", "1.1.0 deprecated")
	s.settle()
	s.expect("without a commit", "web/1-x "+short(one)+": success inactive", "web/1-x "+short(two)+": success inactive")
	if got := s.condition(); !strings.Contains(got, "releases without a deployment on GitHub, because their commit is unknown: 1;") {
		t.Errorf("condition %q", got)
	}
}

// TestTwoWriters checks that this controller and the controller that polls GitHub do not revert each other's
// writes to the same status, in either order.
func TestTwoWriters(t *testing.T) {
	s := begin(t)
	sha := s.open(feature())
	poll := func(ghr *v1alpha1.GitHubRepository, title string) error {
		before := ghr.DeepCopy()
		status.Set(&ghr.Status.Conditions, 1, v1alpha1.ConditionRateLimited, "True", "RateLimited", title)
		ghr.Status.PullRequests[0].Title = title
		_, err := status.Patch(t.Context(), env.Client, "looker", ghr, before, status.AtResourceVersion)
		return err
	}
	// The other controller writes between this controller's reads and writes, several times in a row.
	title := ""
	for _, rows := range []string{"", sha + " pending", sha + " +active"} {
		if rows != "" {
			s.rolloutState(1, groupName, rows)
		}
		races := 0
		s.race = func() {
			if races++; races > 4 {
				return
			}
			title = fmt.Sprintf("%s: %d", rows, races)
			if err := poll(s.get(), title); err != nil {
				t.Error(err)
			}
		}
		s.settle()
		if races < 5 {
			t.Errorf("%d races", races)
		}
		ghr := s.get()
		limited := meta.FindStatusCondition(ghr.Status.Conditions, v1alpha1.ConditionRateLimited)
		if len(ghr.Status.Feedback) != 1 || len(ghr.Status.Comments) != 1 || ghr.Status.PullRequests[0].Title != title || limited == nil || limited.Message != title {
			t.Errorf("feedback for %q is lost: %+v", title, ghr.Status)
		}
	}
	s.race = nil
	ghr := s.get()
	s.expect("everything is reported", envName+" "+short(sha)+": queued in_progress success")
	// The other controller writes a state that it read before this controller's write.
	s.rolloutState(1, groupName, sha+" pending")
	s.settle()
	if err := poll(ghr, "stale"); !apierrors.IsConflict(err) {
		t.Errorf("a write from a stale copy returned %v, want a conflict", err)
	}
}

// TestManyPullRequests checks that the feedback for many pull requests is written in batches, at the rate
// that GitHub accepts, and that the feedback for each pull request is written exactly once.
func TestManyPullRequests(t *testing.T) {
	s := begin(t)
	for i := range 16 {
		s.pulls = s.repo.Open(githubtest.PullRequest{HeadRef: fmt.Sprintf("branch%d", i)})
	}
	s.poll()
	for range 2000 {
		wait := s.settle()
		if wait == 0 {
			break
		}
		s.clock.Step(wait)
	}
	if got := s.condition(); got != allWritten {
		t.Fatalf("condition %q", got)
	}
	if d := s.repo.Deployments(); len(d) != 16 {
		t.Errorf("%d Deployments, want 16", len(d))
	}
	for n := 1; n <= 16; n++ {
		s.comment(n)
	}
	if n := s.server.Count(posts, 201); n != 16 {
		t.Errorf("%d Deployments were created, want 16", n)
	}
	if n := s.server.Count(statuses, 201); n != 16 {
		t.Errorf("%d states were written, want 16", n)
	}
	if n := s.server.Count(comments, 201); n != 16 {
		t.Errorf("%d comments were written, want 16", n)
	}
}

// TestOnlyComments checks that no permission for Deployments is required if Deployments are disabled.
func TestOnlyComments(t *testing.T) {
	s := begin(t, func(spec *v1alpha1.GitHubRepositorySpec) { spec.Feedback.Deployments.PullRequests = ptr.To(false) })
	s.server.AddToken(token, githubtest.Access{Permissions: map[string]string{"pull_requests": "write"}})
	s.open(feature())
	s.settle()
	s.expect("only comments")
	s.commented("only comments", 1, "**queued**")
	if got := s.condition(); got != allWritten {
		t.Errorf("condition %q", got)
	}
}

// TestNamespaceGoes checks that cleanup does not block the deletion of a namespace.
func TestNamespaceGoes(t *testing.T) {
	s := begin(t)
	s.open(feature())
	s.settle()
	s.server.Fail(githubtest.Fault{Answer: githubtest.Unavailable})
	if err := env.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}); err != nil {
		t.Fatal(err)
	}
	if err := client.IgnoreNotFound(env.Client.Delete(t.Context(), s.get())); err != nil {
		t.Fatal(err)
	}
	s.server.ResetCounts()
	s.once()
	if s.get() != nil || s.server.Count("", 0) != 0 {
		t.Errorf("got %d requests to GitHub, want none", s.server.Count("", 0))
	}
}
