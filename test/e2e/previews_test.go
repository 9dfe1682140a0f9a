//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github/githubtest"
	"github.com/heighliner/heighliner/test/harness"
)

// These are the names that TestPreviews uses in the stand-in for GitHub.
const (
	hubToken   = "e2e-token"
	hubSecret  = "e2e-webhook-secret"
	hooksHost  = "hooks.previews.localhost"
	hubBranch  = "feature/cart"
	previewOf1 = "feature-cart-1"
)

// hub is a stand-in for GitHub in the cluster's network. The deliveries of its webhook arrive through the gateway.
type hub struct {
	*githubtest.Server
	t    *testing.T
	url  string
	hook string // The URL for deliveries.
	sent atomic.Int32
	took atomic.Int32
}

func newHub(t *testing.T, hook string) *hub {
	t.Helper()
	h := &hub{t: t, hook: hook}
	var err error
	if h.Server, err = githubtest.New(githubtest.Options{OnEvent: h.deliver}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, failure := range h.Failures() {
			t.Errorf("GitHub received a request that its reference does not describe: %s", failure)
		}
	})
	h.url = serveInside(t, h.Server)
	h.AddToken(hubToken, githubtest.Access{Login: "heighliner-e2e"})
	return h
}

// openPreview creates the service with a preview of a pull request, and waits until the preview is served.
func (s *service) openPreview(h *hub) (repo *githubtest.Repository, number int, host string) {
	s.t.Helper()
	repo = h.AddRepository("acme/app")
	s.images.Spec.Source = &v1alpha1.ImageSource{GitHub: &v1alpha1.GitHubSource{
		RepositoryRef: v1alpha1.NamespacedReference{Name: appName}, PullRequests: &v1alpha1.GitHubPullRequests{},
	}}
	s.images.Spec.Match = &v1alpha1.Match{Candidates: []string{"pr-{{.Number}}-{{.SHA7}}"}}
	s.create(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "github"}, StringData: map[string]string{"token": hubToken}},
		&v1alpha1.GitHubRepository{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: appName}, Spec: v1alpha1.GitHubRepositorySpec{
			Owner: "acme", Repo: "app", BaseURL: h.url, Interval: "5s", CredentialsSecretRef: &v1alpha1.Reference{Name: "github"},
		}},
		s.images, s.ms, s.network,
	)
	number = repo.Open(githubtest.PullRequest{Title: "A cart", HeadRef: hubBranch})
	head := repo.PullRequest(number).HeadSHA
	s.push(fmt.Sprintf("pr-%d-%.7s", number, head), "VERSION", head[:7])
	s.preview(head)
	host = previewOf1 + "." + s.name + ".localhost"
	answers(s.t, host)
	return repo, number, host
}

func (h *hub) deliver(d githubtest.Delivery) {
	h.sent.Add(1)
	code, err := d.Send(context.Background(), web(), h.hook, []byte(hubSecret))
	if err == nil && code == http.StatusAccepted {
		h.took.Add(1)
	}
}

// TestPreviews uses a webhook to test the previews of a pull request. The pull request is opened before its
// image exists, gets three pushes, one of them while the manager is killed, and is closed during an outage of
// GitHub. The polling interval is ten minutes, so the manager learns of the changes in time only through the
// deliveries. An outage of GitHub does not cause any preview to be removed.
func TestPreviews(t *testing.T) {
	s := newService(t, "previews")
	hook := fmt.Sprintf("http://%s/github/%s/%s", hooksHost, s.namespace, appName)
	h := newHub(t, hook)
	repo := h.AddRepository("acme/app")
	s.exposeWebhooks()
	s.images.Spec.Source = &v1alpha1.ImageSource{GitHub: &v1alpha1.GitHubSource{
		RepositoryRef: v1alpha1.NamespacedReference{Name: appName}, PullRequests: &v1alpha1.GitHubPullRequests{},
	}}
	s.images.Spec.Match = &v1alpha1.Match{Candidates: []string{"pr-{{.Number}}-{{.SHA7}}"}}
	ghr := &v1alpha1.GitHubRepository{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: appName}, Spec: v1alpha1.GitHubRepositorySpec{
		Owner: "acme", Repo: "app", BaseURL: h.url, Interval: "10m",
		CredentialsSecretRef: &v1alpha1.Reference{Name: "github"}, WebhookSecretRef: &v1alpha1.Reference{Name: "webhook"},
		Feedback: &v1alpha1.Feedback{},
	}}
	s.create(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "github"}, StringData: map[string]string{"token": hubToken}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "webhook"}, StringData: map[string]string{"secret": hubSecret}},
		ghr, s.images, s.ms, s.network,
	)
	wait(t, "deliveries to be accepted", func(ctx context.Context) (bool, string, error) {
		code, err := repo.Ping().Send(ctx, web(), hook, []byte(hubSecret))
		return code == http.StatusAccepted, fmt.Sprint(code, err), nil
	})
	for name, secret := range map[string]string{"a wrong signature": "other", "no signature": ""} {
		if code, err := repo.Ping().Send(t.Context(), web(), hook, []byte(secret)); err != nil || code != http.StatusUnauthorized {
			t.Errorf("a delivery with %s: %d, %v, want 401", name, code, err)
		}
	}

	opened := time.Now()
	n := repo.Open(githubtest.PullRequest{Title: "A cart", HeadRef: hubBranch})
	head := func() string { return repo.PullRequest(n).HeadSHA }
	s.deployed(repo, head(), "queued")
	t.Logf("a pull request was detected %s after it was opened, with an interval of %s", time.Since(opened).Round(100*time.Millisecond), ghr.Spec.Interval)
	built := func() { s.push(fmt.Sprintf("pr-%d-%.7s", n, head()), "VERSION", head()[:7]) }
	built()
	s.preview(head())
	l := s.loadOn(previewOf1+"."+s.name+".localhost", 30, false)
	s.sees(l, head()[:7])
	l.Mark("first commit")
	s.deployed(repo, head(), "success")

	// Without faults: a pushed commit is not served before its image exists.
	s.next(l, repo, n, "a push", false, built)
	// The delivery may be lost with the manager. The next manager polls when it starts.
	s.next(l, repo, n, "a push, while the manager is killed", true, built)
	s.next(l, repo, n, "a third push", false, built)

	l.Mark("closed while GitHub is unavailable")
	h.Fail(githubtest.Fault{Answer: githubtest.Unavailable})
	repo.Close(n, true)
	time.Sleep(20 * time.Second) // Nothing should happen during this time.
	s.preview(head())
	l.Mark("GitHub is available again")
	report := l.Stop()
	if report.Total.Failed > 0 || report.Total.Sent == 0 {
		t.Errorf("%d of %d requests failed", report.Total.Failed, report.Total.Sent)
	}
	t.Logf("%d of %d requests failed", report.Total.Failed, report.Total.Sent)
	h.Heal()
	back := time.Now()
	if code, err := repo.PullRequestEvent(n, "closed").Send(t.Context(), web(), hook, []byte(hubSecret)); err != nil || code != http.StatusAccepted {
		t.Errorf("the repeated delivery: %d, %v", code, err)
	}
	s.until("the preview to be removed", func(ms *v1alpha1.Microservice) (bool, string) {
		return len(ms.Status.ReleaseGroups) == 0, fmt.Sprintf("%d groups", len(ms.Status.ReleaseGroups))
	})
	wait(t, "releases and pods to be removed", func(ctx context.Context) (bool, string, error) {
		var releases v1alpha1.VersionedMicroserviceList
		var pods corev1.PodList
		if err := env.Client.List(ctx, &releases, client.InNamespace(s.namespace)); err != nil {
			return false, "", err
		}
		err := env.Client.List(ctx, &pods, client.InNamespace(s.namespace))
		return len(releases.Items)+len(pods.Items) == 0, fmt.Sprintf("%d releases, %d pods", len(releases.Items), len(pods.Items)), err
	})
	t.Logf("the preview was removed %s after GitHub was available again", time.Since(back).Round(100*time.Millisecond))
	s.deployed(repo, head(), "inactive")
	made := map[string]int{}
	for _, d := range repo.Deployments() {
		if made[d.SHA]++; made[d.SHA] > 1 {
			t.Errorf("%d deployments on GitHub for commit %.7s", made[d.SHA], d.SHA)
		}
	}
	if comments := repo.Comments(n); len(comments) != 1 {
		t.Errorf("%d comments on the pull request, want 1", len(comments))
	}
	t.Logf("%d of %d deliveries were accepted", h.took.Load(), h.sent.Load())
}

// exposeWebhooks routes a host of the gateway to the manager's Service for deliveries.
func (s *service) exposeWebhooks() {
	s.t.Helper()
	route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: "e2e-webhooks"}}
	infra, port := gatewayv1.Namespace("infra"), gatewayv1.PortNumber(80)
	route.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "public", Namespace: &infra}}
	route.Spec.Hostnames = []gatewayv1.Hostname{hooksHost}
	backend := gatewayv1.HTTPBackendRef{}
	backend.Name, backend.Port = "heighliner-webhooks", &port
	route.Spec.Rules = []gatewayv1.HTTPRouteRule{{BackendRefs: []gatewayv1.HTTPBackendRef{backend}}}
	if err := env.Client.Delete(s.t.Context(), route.DeepCopy()); client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	s.create(route)
	s.t.Cleanup(func() {
		if err := env.Client.Delete(context.Background(), route); err != nil {
			s.t.Errorf("delete the webhook route: %v", err)
		}
	})
}

// next pushes a commit to a pull request, and pushes the commit's image after the commit is reported to GitHub
// as queued. Until then, only the previous commit serves, and no request fails until the next commit serves. If
// killed is true, the manager is killed between the two pushes.
func (s *service) next(l *harness.Load, repo *githubtest.Repository, n int, what string, killed bool, build func()) {
	s.t.Helper()
	previous := repo.PullRequest(n).HeadSHA
	before := l.Report().Total
	l.Mark(what + ", without its image")
	began := time.Now()
	sha := repo.Push(n)
	if killed {
		if err := (&killer{}).kill(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
	s.deployed(repo, sha, "queued")
	known := time.Since(began)
	s.serves(l, 2*time.Second)
	if f := l.Recent(time.Second).Split().Fraction(previous[:7]); f != 1 {
		s.t.Errorf("%s: %.7s has no image yet, and %.7s serves %.0f%% of the requests", what, sha, previous, f*100)
	}
	l.Mark(what)
	imaged := time.Now()
	build()
	var first time.Duration
	wait(s.t, fmt.Sprintf("%.7s to answer", sha), func(context.Context) (bool, string, error) {
		first = time.Since(imaged)
		return l.Split(what).Fraction(sha[:7]) > 0, "", nil
	})
	s.preview(sha)
	s.sees(l, sha[:7])
	alone := time.Since(imaged)
	s.deployed(repo, sha, "success")
	reported := time.Since(imaged)
	s.deployed(repo, previous, "inactive")
	now := l.Report().Total
	const tenth = 100 * time.Millisecond
	s.t.Logf("%s: known after %s; after its image was pushed: first response %s, all responses %s, success on GitHub %s; %d of %d requests failed",
		what, known.Round(tenth), first.Round(tenth), alone.Round(tenth), reported.Round(tenth), now.Failed-before.Failed, now.Sent-before.Sent)
	if url := lastStatus(repo, sha).EnvironmentURL; !strings.Contains(url, previewOf1+"."+s.name+".localhost") {
		s.t.Errorf("%s: the deployment on GitHub points to %q", what, url)
	}
}

// lastStatus returns the last status that GitHub received for a commit.
func lastStatus(repo *githubtest.Repository, sha string) (last githubtest.DeploymentStatus) {
	for _, d := range repo.Deployments() {
		if d.SHA == sha && len(d.Statuses) > 0 {
			last = d.Statuses[len(d.Statuses)-1]
		}
	}
	return last
}

// preview waits until a commit is active in the group of pull request 1, and no rollout is in progress.
func (s *service) preview(sha string) {
	s.t.Helper()
	s.until(fmt.Sprintf("%.7s to be the preview", sha), func(ms *v1alpha1.Microservice) (bool, string) {
		for _, g := range ms.Status.ReleaseGroups {
			if g.Slug == previewOf1 {
				return g.Active == sha && g.Rollout == nil && g.Phase == v1alpha1.GroupLive, fmt.Sprintf("%s is active, %s", g.Active, g.Phase)
			}
		}
		return false, "no group"
	})
}

// deployed waits until GitHub has received the given state of a commit.
func (s *service) deployed(repo *githubtest.Repository, sha, state string) {
	s.t.Helper()
	wait(s.t, fmt.Sprintf("GitHub to receive state %[2]s for %.7[1]s", sha, state), func(context.Context) (bool, string, error) {
		last := lastStatus(repo, sha).State
		return last == state, fmt.Sprintf("%q", last), nil
	})
}
