package feedback

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/github/githubtest"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

var env *apiserver.Env

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(apiserver.Run(m, apiserver.Options{}, &env))
}

const (
	token     = "github_pat_secret"
	posts     = "POST /repos/{owner}/{repo}/deployments"
	statuses  = "POST /repos/{owner}/{repo}/deployments/{deployment_id}/statuses"
	comments  = "POST /repos/{owner}/{repo}/issues/{issue_number}/comments"
	edits     = "PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}"
	listing   = "GET /repos/{owner}/{repo}/deployments"
	ghrName   = "shop"
	msName    = "web"
	envName   = "web/feature-1"
	groupName = "feature-1"
)

// story is a test namespace with a GitHub server, a clock that the test sets, and a reconciler that the
// test calls. The reconciler reads from the API server, so that no cache lags.
type story struct {
	*testing.T
	server     *githubtest.Server
	repo       *githubtest.Repository
	url        string
	clock      *testingclock.FakeClock
	namespace  string
	reconciler *Reconciler
	client     client.WithWatch
	patches    atomic.Int32 // number of status patches
	hang       atomic.Pointer[chan struct{}]
	answer     atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
	events     []string
	pulls      int    // number of opened pull requests
	race       func() // runs just before each status patch
}

func begin(t *testing.T, edit ...func(*v1alpha1.GitHubRepositorySpec)) *story {
	t.Helper()
	t.Parallel()
	s := &story{T: t, namespace: env.Namespace(t), clock: testingclock.NewFakeClock(time.Now().Truncate(time.Second))}
	var err error
	if s.server, err = githubtest.New(githubtest.Options{Clock: s.clock}); err != nil {
		t.Fatal(err)
	}
	s.repo = s.server.AddRepository("acme/shop")
	s.server.AddToken(token, githubtest.Access{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hang := s.hang.Load(); hang != nil {
			select {
			case <-*hang:
			case <-r.Context().Done():
				return
			}
		}
		if answer := s.answer.Load(); answer != nil && (*answer)(w, r) {
			return
		}
		s.server.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	s.url = web.URL
	t.Cleanup(func() {
		for _, failure := range s.server.Failures() {
			t.Errorf("GitHub: %s", failure)
		}
	})
	var x []apiserver.Index
	for _, i := range indexes {
		x = append(x, apiserver.Index{Field: i.Field, Values: i.Values})
	}
	s.client = interceptor.NewClient(apiserver.Indexed(env.Client, x...), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			s.patches.Add(1)
			if s.race != nil {
				s.race()
			}
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	})
	s.restart()
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "github"}, StringData: map[string]string{"token": token}})
	ghr := &v1alpha1.GitHubRepository{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: ghrName},
		Spec: v1alpha1.GitHubRepositorySpec{
			Owner: "acme", Repo: "shop", BaseURL: s.url, CredentialsSecretRef: &v1alpha1.Reference{Name: "github"}, Feedback: &v1alpha1.Feedback{},
		},
	}
	for _, e := range edit {
		e(&ghr.Spec)
	}
	s.create(ghr)
	t.Cleanup(func() { // the deletion of the namespace must not be blocked
		s.edit(func(g *v1alpha1.GitHubRepository) { g.Finalizers = nil })
	})
	s.create(&v1alpha1.ImagePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: msName},
		Spec: v1alpha1.ImagePolicySpec{Image: "registry.example.com/web", Source: &v1alpha1.ImageSource{GitHub: &v1alpha1.GitHubSource{
			RepositoryRef: v1alpha1.NamespacedReference{Name: ghrName}, PullRequests: &v1alpha1.GitHubPullRequests{},
		}}},
	})
	ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: msName}}
	ms.Spec.ImagePolicyRef.Name = msName
	ms.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web"}}
	s.create(ms)
	return s
}

// Eventf collects events in the form "Type Reason".
func (s *story) Eventf(_, _ runtime.Object, kind, reason, _, _ string, _ ...any) {
	s.events = append(s.events, kind+" "+reason)
}

// restart creates the reconciler again, as a restart of the manager does.
func (s *story) restart() {
	s.Helper()
	allowed, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.1"}})
	if err != nil {
		s.Fatal(err)
	}
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		s.Fatal(err)
	}
	s.reconciler = &Reconciler{
		Client: s.client, live: env.Client, clock: s.clock, metrics: m, tasks: newTaskQueue(s.clock, defaultTasks),
		pool: github.NewPool(github.Options{Outbound: allowed, Clock: s.clock}), events: status.Recorder{Events: s},
	}
	s.reconciler.tasks.run(s.Context(), func(types.NamespacedName) {}) // settle waits for the end of the task
}

func (s *story) create(obj client.Object) {
	s.Helper()
	if err := env.Client.Create(s.Context(), obj); err != nil {
		s.Fatalf("create %T: %v", obj, err)
	}
}

func (s *story) key() types.NamespacedName {
	return types.NamespacedName{Namespace: s.namespace, Name: ghrName}
}

// get returns the GitHubRepository, or nil if it does not exist.
func (s *story) get() *v1alpha1.GitHubRepository {
	s.Helper()
	ghr := &v1alpha1.GitHubRepository{}
	if err := env.Client.Get(context.Background(), s.key(), ghr); client.IgnoreNotFound(err) != nil {
		s.Fatal(err)
	} else if err != nil {
		return nil
	}
	return ghr
}

// edit changes the GitHubRepository if it exists.
func (s *story) edit(change func(*v1alpha1.GitHubRepository)) {
	s.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		ghr := s.get()
		if ghr == nil {
			return nil
		}
		change(ghr)
		return client.IgnoreNotFound(env.Client.Update(context.Background(), ghr))
	})
	if err != nil {
		s.Fatal(err)
	}
}

// request requests a retry, as do users, and replicas that receive a webhook delivery for another replica.
func (s *story) request(n int) {
	s.Helper()
	s.edit(func(g *v1alpha1.GitHubRepository) {
		g.Annotations = map[string]string{v1alpha1.AnnotationRequestedAt: fmt.Sprint(n)}
	})
}

// poll writes the pull requests on GitHub to the status, as the GitHubRepository controller does.
func (s *story) poll() {
	s.Helper()
	if err := retry.RetryOnConflict(retry.DefaultBackoff, s.pollOnce); err != nil {
		s.Fatal(err)
	}
}

func (s *story) pollOnce() error {
	ghr := s.get()
	before := ghr.DeepCopy()
	ghr.Status.PullRequests, ghr.Status.OpenPullRequests, ghr.Status.Repository = nil, ptr.To[int32](0), s.repo.FullName()
	ghr.Status.RepositoryID = s.repo.ID()
	for n := s.pulls; n > 0; n-- {
		p := s.repo.PullRequest(n)
		pr := v1alpha1.PullRequest{
			Number: int64(n), State: v1alpha1.PullRequestOpen, HeadRef: p.HeadRef, HeadSHA: p.HeadSHA, BaseRef: "main", Fork: p.Fork != "", Draft: p.Draft,
		}
		if p.Closed {
			pr.State = v1alpha1.PullRequestClosed
		} else {
			*ghr.Status.OpenPullRequests++
		}
		for _, l := range p.Labels {
			pr.Labels = append(pr.Labels, v1alpha1.PullRequestLabel{Name: l})
		}
		ghr.Status.PullRequests = append(ghr.Status.PullRequests, pr)
	}
	status.Set(&ghr.Status.Conditions, ghr.Generation, v1alpha1.ConditionReady, "True", "Looked", "")
	_, err := status.Patch(s.Context(), env.Client, "looker", ghr, before, status.AtResourceVersion)
	return err
}

// open opens a pull request, and returns its commit.
func (s *story) open(p githubtest.PullRequest) string {
	s.Helper()
	n := s.repo.Open(p)
	s.pulls = n
	s.poll()
	return s.repo.PullRequest(n).HeadSHA
}

func (s *story) push(n int) string {
	s.Helper()
	sha := s.repo.Push(n)
	s.poll()
	return sha
}

func (s *story) microservice() *v1alpha1.Microservice {
	s.Helper()
	ms := &v1alpha1.Microservice{}
	if err := env.Client.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: msName}, ms); err != nil {
		s.Fatal(err)
	}
	return ms
}

// rolloutState sets a pull request's group. Rows have the form "sha status", newest first, with a "+" before
// the status of an available release. Without rows, the group is removed.
func (s *story) rolloutState(number int64, slug string, rows ...string) {
	s.Helper()
	ms := s.microservice()
	ms.Status.ReleaseGroups = nil
	if len(rows) > 0 {
		ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{groupWith(number, slug, rows...)}
	}
	if err := env.Client.Status().Update(s.Context(), ms); err != nil {
		s.Fatal(err)
	}
}

func groupWith(number int64, slug string, rows ...string) v1alpha1.ReleaseGroup {
	g := v1alpha1.ReleaseGroup{Slug: slug, Name: slug, Level: v1alpha1.LevelPreview, Phase: v1alpha1.GroupLive, PullRequest: number}
	if number == 0 {
		g.Level = v1alpha1.LevelRelease
	}
	for _, r := range rows {
		version, state, _ := strings.Cut(r, " ")
		g.Releases = append(g.Releases, v1alpha1.Release{
			VersionedMicroservice: msName + "-" + short(version), SemVer: v1alpha1.SemVer{Name: slug, Version: version},
			Status: v1alpha1.ReleaseStatus(strings.TrimPrefix(state, "+")), Available: strings.HasPrefix(state, "+"), LastTransitionTime: metav1.NowMicro(),
		})
	}
	return g
}

// release creates the object of a release from a commit.
func (s *story) release(slug, version, sha string) *v1alpha1.VersionedMicroservice {
	s.Helper()
	release := &v1alpha1.VersionedMicroservice{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.namespace, Name: msName + "-" + short(version), Annotations: map[string]string{v1alpha1.AnnotationCommit: sha},
	}}
	release.Spec.MicroserviceName, release.Spec.Group, release.Spec.SemVer = msName, slug, v1alpha1.SemVer{Version: version}
	release.Spec.Images = []v1alpha1.ReleaseImage{{Image: "registry.example.com/web@sha256:1", Digest: "sha256:1"}}
	release.Spec.Template = s.microservice().DeepCopy().Spec.Template
	release.Spec.Template.Spec.Containers[0].Image = "registry.example.com/web@sha256:1"
	s.create(release)
	return release
}

// route creates a NetworkPolicy for the Microservice, or updates the policy's status for the group: the
// release that it routes to, and whether the route is programmed.
func (s *story) route(slug, sha string, programmed bool) {
	s.Helper()
	key := client.ObjectKey{Namespace: s.namespace, Name: msName}
	p := &v1alpha1.NetworkPolicy{}
	if err := env.Client.Get(s.Context(), key, p); err != nil {
		p = &v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: networkPolicySpec()}
		s.create(p)
	}
	p.Status = networkPolicyStatus(slug, sha, programmed)
	if err := env.Client.Status().Update(s.Context(), p); err != nil {
		s.Fatal(err)
	}
}

func networkPolicySpec() v1alpha1.NetworkPolicySpec {
	return v1alpha1.NetworkPolicySpec{
		Ports:    []v1alpha1.NetworkPort{{Name: "http", Port: 80, TargetPort: ptr.To(intstr.FromInt32(8080)), Protocol: "HTTP"}},
		Provider: &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Name: "public"}}}},
		Domains:  []v1alpha1.Domain{{Domain: "{{.ReleaseGroupName}}.preview.example.com", Port: "http"}},
	}
}

func networkPolicyStatus(slug, sha string, programmed bool) v1alpha1.NetworkPolicyStatus {
	release := msName + "-" + short(sha)
	d := v1alpha1.DomainStatus{Domain: slug + ".preview.example.com", URL: "https://" + slug + ".preview.example.com", Group: slug, Programmed: programmed}
	if programmed {
		d.Backends = []v1alpha1.DomainBackend{{Release: release, Version: sha, Weight: 100}}
	} else {
		d.Reason = "Pending"
	}
	return v1alpha1.NetworkPolicyStatus{
		Domains: []v1alpha1.DomainStatus{d}, Groups: []v1alpha1.GroupTraffic{{Slug: slug, Active: release, Split: v1alpha1.SplitWeighted}},
	}
}

// once reconciles once, and returns the time until the next reconcile.
func (s *story) once() time.Duration {
	s.Helper()
	result, err := s.reconciler.Reconcile(s.Context(), ctrl.Request{NamespacedName: s.key()})
	if err != nil {
		s.Fatalf("reconcile: %v", err)
	}
	return result.RequeueAfter
}

func (s *story) remembered() *repositoryEntry {
	w := s.reconciler.tasks
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.repositories[s.key()]; m != nil {
		copied := *m
		return &copied
	}
	return &repositoryEntry{}
}

// settle reconciles until further changes require an edit or an advance of the clock. It
// returns the time until the next reconcile. A task might end before the reconcile that started it; settle
// then detects the task by its outcome.
func (s *story) settle() time.Duration {
	s.Helper()
	for range 200 {
		before, known := s.get(), s.remembered().outcome
		next := s.once()
		await.Until(s, "the task to end", func() bool { return s.remembered().task == nil })
		if outcome := s.remembered().outcome; outcome != nil && outcome != known {
			continue
		}
		after := s.get()
		if before == nil || after == nil || before.ResourceVersion == after.ResourceVersion {
			return next
		}
	}
	s.Fatal("the tasks never stop")
	return 0
}

// deployments returns the history of the Deployments on GitHub, in the order of their creation, in
// the form "environment sha: state state".
func (s *story) deployments() []string {
	var out []string
	for _, d := range s.repo.Deployments() {
		line := fmt.Sprintf("%s %s:", d.Environment, short(d.SHA))
		for _, t := range d.Statuses {
			line += " " + t.State
		}
		out = append(out, line)
	}
	return out
}

// condition returns the condition in the form "True Reason: message", or "" if it is not set.
func (s *story) condition() string {
	ghr := s.get()
	c := meta.FindStatusCondition(ghr.Status.Conditions, v1alpha1.ConditionFeedbackReady)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}
