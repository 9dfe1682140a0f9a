package githubrepository

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/github/githubtest"
	"github.com/heighliner/heighliner/internal/index"
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

// Routes in GitHub's API reference. Tests count the requests to these routes, or make them fail.
const (
	routePulls = "GET /repos/{owner}/{repo}/pulls"
	routePull  = "GET /repos/{owner}/{repo}/pulls/{pull_number}"
	routeRepo  = "GET /repos/{owner}/{repo}"
)

// story is a test namespace with a GitHub server, a clock that the test sets, and a reconciler that the
// test calls. The reconciler reads from the API server, so that no cache lags.
type story struct {
	*testing.T
	github     *githubtest.Server
	repo       *githubtest.Repository
	address    string
	clock      *testingclock.FakeClock
	namespace  string
	reconciler *Reconciler
	client     client.WithWatch
	writes     int
	events     []string
	down       atomic.Bool // the GitHub server does not respond
	lost       bool        // the API server stores statuses, but its responses are lost
}

func begin(t *testing.T) *story {
	t.Helper()
	t.Parallel()
	s := &story{
		T: t, namespace: env.Namespace(t),
		clock: testingclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
	}
	var err error
	if s.github, err = githubtest.New(githubtest.Options{Clock: s.clock}); err != nil {
		t.Fatal(err)
	}
	s.repo = s.github.AddRepository("acme/shop")
	s.github.AddToken("good", githubtest.Access{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.down.Load() {
			panic(http.ErrAbortHandler)
		}
		s.github.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.Close()
		for _, failure := range s.github.Failures() {
			t.Errorf("GitHub does not provide this operation: %s", failure)
		}
	})
	s.address = server.URL
	s.client = interceptor.NewClient(apiserver.Indexed(env.Client, apiserver.Index{Field: index.ImagePoliciesByRepository.Field, Values: index.ImagePoliciesByRepository.Values}), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			s.writes++
			err := c.SubResource(sub).Patch(ctx, obj, patch, opts...)
			if err == nil && s.lost {
				return errors.New("the connection was closed")
			}
			return err
		},
	})
	s.secret("github", "token", "good")
	s.restart()
	return s
}

// Eventf collects events in the form "Type Reason: note".
func (s *story) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	s.events = append(s.events, fmt.Sprintf("%s %s: %s", kind, reason, fmt.Sprintf(note, args...)))
}

// reported returns the events since the last call.
func (s *story) reported() []string {
	reported := s.events
	s.events = nil
	return reported
}

// restart recreates the reconciler and its caches, as a restart of the manager does.
func (s *story) restart() {
	s.Helper()
	allowed, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.1"}})
	if err != nil {
		s.Fatal(err)
	}
	pool := github.NewPool(github.Options{Outbound: allowed, Clock: s.clock})
	ls := newPollCache(defaultPolls)
	m, err := newMetrics(prometheus.NewRegistry(), ls, pool)
	if err != nil {
		s.Fatal(err)
	}
	s.reconciler = &Reconciler{
		Client: s.client, uncached: s.client, pool: pool, metrics: m, clock: s.clock, polls: ls,
		requests: newRequestCache(s.clock), events: status.Recorder{Events: s}, servesWebhooks: true,
	}
	ls.run(s.Context(), func(types.NamespacedName) {}) // pass checks whether the poll is done
}

func (s *story) create(obj client.Object) {
	s.Helper()
	if err := env.Client.Create(s.Context(), obj); err != nil {
		s.Fatalf("create %T: %v", obj, err)
	}
}

// secret creates a Secret with a key, or updates the key.
func (s *story) secret(name, key, value string) {
	s.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, StringData: map[string]string{key: value}}
	err := env.Client.Create(s.Context(), secret)
	if err != nil {
		err = env.Client.Update(s.Context(), secret)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// repository creates a GitHubRepository of acme/shop.
func (s *story) repository(name string, edit ...func(*v1alpha1.GitHubRepositorySpec)) {
	s.Helper()
	r := &v1alpha1.GitHubRepository{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: v1alpha1.GitHubRepositorySpec{
			Owner: "acme", Repo: "shop", BaseURL: s.address, Interval: "60s",
			CredentialsSecretRef: &v1alpha1.Reference{Name: "github"},
		},
	}
	for _, e := range edit {
		e(&r.Spec)
	}
	s.create(r)
}

// policy creates an ImagePolicy that reads a GitHubRepository of its namespace.
func (s *story) policy(name, repository string, source v1alpha1.GitHubSource, edit ...func(*v1alpha1.ImagePolicy)) {
	s.Helper()
	source.RepositoryRef.Name = repository
	p := &v1alpha1.ImagePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       v1alpha1.ImagePolicySpec{Image: "registry.example.com/shop", Source: &v1alpha1.ImageSource{GitHub: &source}},
	}
	for _, e := range edit {
		e(p)
	}
	s.create(p)
}

// The sources of policies.
var (
	ofPulls    = v1alpha1.GitHubSource{PullRequests: &v1alpha1.GitHubPullRequests{}}
	ofReleases = v1alpha1.GitHubSource{Releases: &v1alpha1.GitHubReleases{}}
	ofTags     = v1alpha1.GitHubSource{Tags: &v1alpha1.GitHubTags{}}
)

func (s *story) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.namespace, Name: name}
}

func (s *story) get(name string) *v1alpha1.GitHubRepository {
	s.Helper()
	r := &v1alpha1.GitHubRepository{}
	if err := env.Client.Get(s.Context(), s.key(name), r); err != nil {
		s.Fatal(err)
	}
	return r
}

// remove deletes a repository, and reconciles the deletion.
func (s *story) remove(name string) {
	s.Helper()
	if err := env.Client.Delete(s.Context(), s.get(name)); err != nil {
		s.Fatal(err)
	}
	s.once(name)
}

// edit changes a repository's specification or annotations.
func (s *story) edit(name string, change func(*v1alpha1.GitHubRepository)) {
	s.Helper()
	r := s.get(name)
	change(r)
	if err := env.Client.Update(s.Context(), r); err != nil {
		s.Fatal(err)
	}
}

// once reconciles one repository once, and waits until its poll is done.
func (s *story) once(name string) time.Duration {
	s.Helper()
	result, err := s.reconciler.Reconcile(s.Context(), ctrl.Request{NamespacedName: s.key(name)})
	if err != nil {
		s.Fatalf("reconcile %s: %v", name, err)
	}
	await.Until(s, "the poll of "+name+" to end", func() bool { return s.reconciler.polls.entry(s.key(name)).task == nil })
	return result.RequeueAfter
}

// pass reconciles one repository, and reconciles it again each time its poll is done, as the
// controller does.
func (s *story) pass(name string) (*v1alpha1.GitHubRepository, time.Duration) {
	s.Helper()
	for {
		before := s.reconciler.polls.entry(s.key(name)).poll
		next := s.once(name)
		if s.reconciler.polls.entry(s.key(name)).poll == before {
			return s.get(name), next
		}
	}
}

// poll sets the clock to the time at which the repository is due, and reconciles it.
func (s *story) poll(name string) *v1alpha1.GitHubRepository {
	s.Helper()
	s.clock.Step(time.Minute)
	r, _ := s.pass(name)
	return r
}

// rest reconciles until a poll makes no further requests.
func (s *story) rest(name string) *v1alpha1.GitHubRepository {
	s.Helper()
	for range 100 {
		r, next := s.pass(name)
		if next > continueDelay {
			return r
		}
		s.clock.Step(next)
	}
	s.Fatal("polls do not end")
	return nil
}

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// numbers returns the numbers of the pull requests in a state.
func numbers(r *v1alpha1.GitHubRepository, state v1alpha1.PullRequestState) []int64 {
	var all []int64
	for _, pr := range r.Status.PullRequests {
		if pr.State == state {
			all = append(all, pr.Number)
		}
	}
	return all
}

// pull returns a pull request from the status.
func pull(t testing.TB, r *v1alpha1.GitHubRepository, number int) v1alpha1.PullRequest {
	t.Helper()
	i := slices.IndexFunc(r.Status.PullRequests, func(pr v1alpha1.PullRequest) bool { return pr.Number == int64(number) })
	if i < 0 {
		t.Fatalf("pull request %d is not known", number)
	}
	return r.Status.PullRequests[i]
}

// condition returns the condition in the form "True Reason: message", or "" if it is not set.
func condition(r *v1alpha1.GitHubRepository, kind string) string {
	c := meta.FindStatusCondition(r.Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// wantCondition checks that the condition begins with the given text.
func wantCondition(t testing.TB, r *v1alpha1.GitHubRepository, kind, want string) {
	t.Helper()
	if got := condition(r, kind); !strings.HasPrefix(got, want) {
		t.Errorf("%s is %q, want %q", kind, got, want)
	}
}
