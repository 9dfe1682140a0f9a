package github

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-github/v57/github"
	testclock "k8s.io/utils/clock/testing"

	"github.com/heighliner/heighliner/internal/certs/certstest"
	"github.com/heighliner/heighliner/internal/github/githubtest"
	"github.com/heighliner/heighliner/internal/outbound"
)

const (
	pullsRoute       = "GET /repos/{owner}/{repo}/pulls"
	pullRoute        = "GET /repos/{owner}/{repo}/pulls/{pull_number}"
	deploymentsRoute = "GET /repos/{owner}/{repo}/deployments"
	deployRoute      = "POST /repos/{owner}/{repo}/deployments"
	statusRoute      = "POST /repos/{owner}/{repo}/deployments/{deployment_id}/statuses"
	commentRoute     = "POST /repos/{owner}/{repo}/issues/{issue_number}/comments"
	editRoute        = "PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}"
	tokenRoute       = "POST /app/installations/{installation_id}/access_tokens"
)

var shop = Repo{Owner: "acme", Name: "shop"}

// world contains a server with one repository, and a pool of clients that use the same clock.
type world struct {
	*githubtest.Server
	t     *testing.T
	clock *testclock.FakeClock
	front *httptest.Server
	repo  *githubtest.Repository
	pool  *Pool

	mu   sync.Mutex
	seen []string // values of Authorization, in the order of the requests
}

// newWorld returns a world. The test fails at its end if there was a request that the reference does not describe.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, clock: testclock.NewFakeClock(time.Date(2100, 3, 1, 12, 0, 0, 0, time.UTC))}
	var err error
	if w.Server, err = githubtest.New(githubtest.Options{Clock: w.clock}); err != nil {
		t.Fatal(err)
	}
	w.front = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.seen = append(w.seen, r.Header.Get("Authorization"))
		w.mu.Unlock()
		w.Server.ServeHTTP(rw, r)
	}))
	t.Cleanup(w.front.Close)
	t.Cleanup(func() {
		for _, failure := range w.Failures() {
			t.Errorf("server: %s", failure)
		}
	})
	w.repo = w.AddRepository("acme/shop")
	w.AddToken("secret-a", githubtest.Access{})
	w.pool = NewPool(Options{Clock: w.clock, Outbound: loopback(t)})
	return w
}

// loopback returns a policy that allows tests to connect to loopback addresses.
func loopback(t testing.TB) *outbound.Policy {
	t.Helper()
	policy, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.0/8", "::1"}})
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

// restart drops the state that the process keeps in memory.
func (w *world) restart() { w.pool = NewPool(Options{Clock: w.clock, Outbound: loopback(w.t)}) }

func (w *world) client(credential Credential) *Client {
	w.t.Helper()
	c, err := w.pool.Client(Config{BaseURL: w.front.URL, Credential: credential})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) token() *Client { return w.client(Credential{Token: "secret-a"}) }

// open opens n pull requests.
func (w *world) open(n int) {
	for i := range n {
		w.repo.Open(githubtest.PullRequest{Title: fmt.Sprintf("Change %d", i), HeadRef: fmt.Sprintf("topic-%d", i)})
	}
}

// counts checks how often each request was sent since the last poll.
func (w *world) counts(want map[githubtest.Request]int) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.Counts()); diff != "" {
		w.t.Errorf("requests (-want +got):\n%s", diff)
	}
	w.ResetCounts()
}

// isKind checks the kind of an error, and that its message is suitable for a condition.
func isKind(t *testing.T, err error, want Kind) {
	t.Helper()
	if got := KindOf(err); got != want {
		t.Fatalf("kind %q of error %v, want %q", got, err, want)
	}
	for _, bad := range []string{"secret-", "ghs_", "127.0.0.1:", "0001:", "2100"} {
		if strings.Contains(err.Error(), bad) {
			t.Errorf("the message %q contains %q", err, bad)
		}
	}
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func TestThreePagesOfPullRequests(t *testing.T) {
	w := newWorld(t)
	w.open(202)
	w.repo.Close(7, false)
	got := must(w.token().OpenPullRequests(t.Context(), shop))(t)
	var numbers []int
	for _, p := range got.Items {
		numbers = append(numbers, p.Number)
	}
	var want []int
	for n := 1; n <= 202; n++ {
		if n != 7 {
			want = append(want, n)
		}
	}
	if diff := cmp.Diff(want, numbers); diff != "" || got.Truncated || got.Unchanged {
		t.Errorf("truncated %v, unchanged %v, numbers (-want +got):\n%s", got.Truncated, got.Unchanged, diff)
	}
	w.counts(map[githubtest.Request]int{{Route: pullsRoute, Status: 200}: 3})
	w.open(1)
	if got := must(w.token().OpenPullRequests(t.Context(), shop))(t); len(got.Items) != 202 {
		t.Errorf("%d pull requests, want 202", len(got.Items))
	}
	w.counts(map[githubtest.Request]int{{Route: pullsRoute, Status: 304}: 2, {Route: pullsRoute, Status: 200}: 1})
}

// TestFullPageGetsASuccessor checks that a new second page is found although the bytes of the first page do not change.
func TestFullPageGetsASuccessor(t *testing.T) {
	w := newWorld(t)
	w.open(100)
	for want := 100; want <= 102; want++ {
		for range 2 {
			if got := must(w.token().OpenPullRequests(t.Context(), shop))(t); len(got.Items) != want {
				t.Fatalf("%d pull requests, want %d", len(got.Items), want)
			}
		}
		w.open(1)
	}
	w.ResetCounts()
	w.repo.Close(103, false)
	w.repo.Close(102, false)
	w.repo.Close(101, false)
	if got := must(w.token().OpenPullRequests(t.Context(), shop))(t); len(got.Items) != 100 {
		t.Fatalf("%d pull requests, want 100", len(got.Items))
	}
	w.counts(map[githubtest.Request]int{{Route: pullsRoute, Status: 304}: 1, {Route: pullsRoute, Status: 200}: 1})
}

func TestUnchangedCostsNothing(t *testing.T) {
	w := newWorld(t)
	w.open(250)
	w.repo.Tag("v1")
	w.repo.Publish(githubtest.Release{Tag: "v1"})
	c := w.token()
	poll := func() []any {
		one := must(c.PullRequest(t.Context(), shop, 3))(t)
		pulls := must(c.OpenPullRequests(t.Context(), shop))(t)
		tags := must(c.Tags(t.Context(), shop))(t)
		releases := must(c.Releases(t.Context(), shop))(t)
		return []any{one, pulls.Items, tags.Items, releases.Items, pulls.Unchanged, tags.Unchanged, releases.Unchanged}
	}
	first := poll()
	w.ResetCounts()
	used := w.Used("secret-a")
	for range 5 {
		w.clock.Step(time.Minute)
		again := poll()
		if diff := cmp.Diff(first[:4], again[:4]); diff != "" {
			t.Fatalf("an unchanged repository differs (-first +again):\n%s", diff)
		}
		if diff := cmp.Diff([]any{true, true, true}, again[4:]); diff != "" {
			t.Fatalf("unchanged (-want +got):\n%s", diff)
		}
	}
	if got := w.Count("", 304); got != 30 || w.Count("", 0) != 30 {
		t.Errorf("%d of %d requests had a response with status 304, want 30 of 30", got, w.Count("", 0))
	}
	if got := w.Used("secret-a"); got != used {
		t.Errorf("%d requests counted against the limit, want 0", got-used)
	}
}

func TestReads(t *testing.T) {
	w := newWorld(t)
	sha := w.repo.Commit()
	w.repo.Open(githubtest.PullRequest{
		Title: "Add\n\u202ecarts " + strings.Repeat("x", 500), HeadRef: "feature/carts", HeadSHA: sha, Labels: []string{"preview", "ui"},
		Author: "ada", Association: "CONTRIBUTOR", Fork: "ada/shop", Draft: true, BaseRef: "release-1",
	})
	w.clock.Step(time.Minute)
	tagged := w.repo.Tag("v1.0.0")
	w.repo.Publish(githubtest.Release{Tag: "v1.0.0", Name: "One"})
	w.repo.Publish(githubtest.Release{Tag: "v1.1.0-rc.1", Prerelease: true})
	w.repo.Publish(githubtest.Release{Tag: "v2.0.0", Draft: true})
	w.repo.Publish(githubtest.Release{Tag: "v0.9.0", Draft: true, Published: w.clock.Now()}) // a draft, which was withdrawn
	c := w.token()

	opened := time.Date(2100, 3, 1, 12, 0, 0, 0, time.UTC)
	published := opened.Add(time.Minute)
	pull := PullRequest{
		Number: 1, State: Open, Title: "Add \u202ecarts " + strings.Repeat("x", 200-len("Add \u202ecarts ")), Draft: true, Author: "ada", Association: "CONTRIBUTOR",
		Labels: []string{"preview", "ui"}, HeadRef: "feature/carts", HeadSHA: sha, HeadRepo: "ada/shop", Fork: true, BaseRef: "release-1",
		RepositoryID: w.repo.ID(), MergeCommitSHA: w.repo.PullRequest(1).MergeCommitSHA, URL: "https://github.com/acme/shop/pull/1", CreatedAt: opened, UpdatedAt: opened,
	}
	if diff := cmp.Diff(pull, must(c.PullRequest(t.Context(), shop, 1))(t)); diff != "" {
		t.Errorf("pull request (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]PullRequest{pull}, must(c.OpenPullRequests(t.Context(), shop))(t).Items); diff != "" {
		t.Errorf("pull requests (-want +got):\n%s", diff)
	}
	releases := must(c.Releases(t.Context(), shop))(t).Items
	for i := range releases {
		releases[i].ID = 0
	}
	wantReleases := []Release{
		{Tag: "v1.1.0-rc.1", Prerelease: true, Published: published, URL: "https://github.com/acme/shop/releases/tag/v1.1.0-rc.1"},
		{Tag: "v1.0.0", Name: "One", Published: published, URL: "https://github.com/acme/shop/releases/tag/v1.0.0"},
	}
	if diff := cmp.Diff(wantReleases, releases); diff != "" {
		t.Errorf("releases (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Tag{{"v1.0.0", tagged}}, must(c.Tags(t.Context(), shop))(t).Items); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Commit{SHA: sha, Committed: opened}, must(c.Commit(t.Context(), shop, sha))(t)); diff != "" {
		t.Errorf("commit (-want +got):\n%s", diff)
	}
	got := must(c.Repository(t.Context(), shop))(t)
	got.ID = 0
	if diff := cmp.Diff(Repository{Repo: shop, DefaultBranch: "main", URL: "https://github.com/acme/shop"}, got); diff != "" {
		t.Errorf("repository (-want +got):\n%s", diff)
	}
}

func TestClosedPullRequest(t *testing.T) {
	for name, merged := range map[string]bool{"closed": false, "merged": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.open(1)
			w.clock.Step(time.Hour)
			w.repo.Close(1, merged)
			p := must(w.token().PullRequest(t.Context(), shop, 1))(t)
			if p.State != Closed || p.Merged != merged || !p.ClosedAt.Equal(w.clock.Now()) {
				t.Errorf("state %s, merged %v, closed at %s", p.State, p.Merged, p.ClosedAt)
			}
			if got := must(w.token().OpenPullRequests(t.Context(), shop))(t); len(got.Items) != 0 {
				t.Errorf("open pull requests %v, want none", got.Items)
			}
		})
	}
}

func TestDeletedForkAndGhost(t *testing.T) {
	w := newWorld(t)
	w.repo.Open(githubtest.PullRequest{HeadRef: "topic", Fork: "ada/shop", Author: "ada"})
	w.repo.Open(githubtest.PullRequest{HeadRef: "topic", Fork: "bob/shop", Author: "bob"})
	w.repo.DeleteFork(1)
	w.repo.DeleteAuthor(2)
	got := must(w.token().OpenPullRequests(t.Context(), shop))(t).Items
	type part struct {
		HeadRepo, Author string
		Fork             bool
	}
	var parts []part
	for _, p := range got {
		parts = append(parts, part{p.HeadRepo, p.Author, p.Fork})
	}
	if diff := cmp.Diff([]part{{"", "ada", true}, {"bob/shop", "", true}}, parts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLinkOfNotModified uses a server that sends the current Link header with 304.
func TestLinkOfNotModified(t *testing.T) {
	more := false
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		tag := fmt.Sprintf(`{"name":"v%s","commit":{"sha":"%s"}}`, r.URL.Query().Get("page"), strings.Repeat("a", 40))
		rw.Header().Set("ETag", `"`+r.URL.Query().Get("page")+`"`)
		if more && r.URL.Query().Get("page") == "1" {
			rw.Header().Set("Link", fmt.Sprintf(`<http://%s%s?page=2>; rel="next"`, r.Host, r.URL.Path))
		}
		if r.Header.Get("If-None-Match") == rw.Header().Get("ETag") {
			rw.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprintf(rw, "[%s]", tag)
	}))
	defer front.Close()
	c := must(NewPool(Options{Outbound: loopback(t)}).Client(Config{BaseURL: front.URL}))(t)
	for want := 1; want <= 2; want++ {
		if got := must(c.Tags(t.Context(), shop))(t); len(got.Items) != want {
			t.Errorf("tags %v, want %d", got.Items, want)
		}
		more = true
	}
}

// TestShiftedPages covers a list in which a pull request is on two pages, because another one was opened between the requests.
func TestShiftedPages(t *testing.T) {
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("page") == "1" {
			rw.Header().Set("Link", fmt.Sprintf(`<http://%s%s?page=2>; rel="next"`, r.Host, r.URL.Path))
		}
		fmt.Fprintf(rw, `[{"number":4,"state":"open","head":{"ref":"topic","sha":"%s"}}]`, strings.Repeat("a", 40))
	}))
	defer front.Close()
	c := must(NewPool(Options{Outbound: loopback(t)}).Client(Config{BaseURL: front.URL}))(t)
	if got := must(c.OpenPullRequests(t.Context(), shop))(t); len(got.Items) != 1 {
		t.Errorf("%d pull requests, want 1", len(got.Items))
	}
}

func TestAnswerAboutSomethingElse(t *testing.T) {
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(rw, `{"number":4,"state":"closed","head":{"ref":"topic","sha":"%s"},"sha":"%[1]s"}`, strings.Repeat("a", 40))
	}))
	defer front.Close()
	c := must(NewPool(Options{Outbound: loopback(t)}).Client(Config{BaseURL: front.URL}))(t)
	_, err := c.PullRequest(t.Context(), shop, 5)
	isKind(t, err, Malformed)
	_, err = c.Commit(t.Context(), shop, strings.Repeat("b", 40))
	isKind(t, err, Malformed)
	_, err = c.Repository(t.Context(), shop)
	isKind(t, err, Malformed)
}

func TestPullRequestWithoutRepositoriesIsAFork(t *testing.T) {
	p, err := pullRequest(&github.PullRequest{Number: github.Int(1), State: github.String("open"), Head: &github.PullRequestBranch{Ref: github.String("topic"), SHA: github.String(strings.Repeat("a", 40))}})
	if err != nil || !p.Fork {
		t.Errorf("fork %v, error %v", p.Fork, err)
	}
}

func TestFailingPageFailsTheList(t *testing.T) {
	tests := map[string]struct {
		page   int
		answer githubtest.Answer
	}{
		"first page, 500":  {1, githubtest.ServerError},
		"second page, 500": {2, githubtest.ServerError},
		"second page, 502": {2, githubtest.BadGateway},
		"second page, 503": {2, githubtest.Unavailable},
		"third page, 500":  {3, githubtest.ServerError},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.open(201)
			w.Fail(githubtest.Fault{Route: pullsRoute, Page: test.page, Answer: test.answer, Times: 1})
			got, err := w.token().OpenPullRequests(t.Context(), shop)
			isKind(t, err, Unreachable)
			if len(got.Items) != 0 {
				t.Errorf("%d pull requests with an error", len(got.Items))
			}
			if got := must(w.token().OpenPullRequests(t.Context(), shop))(t); len(got.Items) != 201 {
				t.Errorf("%d pull requests afterwards, want 201", len(got.Items))
			}
		})
	}
}

func TestRenamedRepository(t *testing.T) {
	w := newWorld(t)
	w.open(101)
	w.repo.Rename("acme-inc/store")
	c := w.token()
	got := must(c.Repository(t.Context(), shop))(t)
	if want := (Repo{"acme-inc", "store"}); got.Repo != want {
		t.Errorf("the repository is now %s, want %s", got.Repo, want)
	}
	if got := must(c.OpenPullRequests(t.Context(), shop))(t); len(got.Items) != 101 {
		t.Errorf("%d pull requests under the previous name, want 101", len(got.Items))
	}
	id := must(c.EnsureDeployment(t.Context(), shop, Deployment{SHA: w.repo.PullRequest(1).HeadSHA, Environment: "pr-1", Marker: "m"}))(t)
	if all := w.repo.Deployments(); len(all) != 1 || all[0].ID != id {
		t.Errorf("deployments %v, want the one with ID %d", all, id)
	}

	another := w.AddRepository(shop.String())
	if got := must(c.Repository(t.Context(), shop))(t); got.ID != another.ID() || got.Repo != shop {
		t.Errorf("the previous name refers to %s with ID %d, want the repository that has the name now, with ID %d", got.Repo, got.ID, another.ID())
	}
}

func TestErrors(t *testing.T) {
	tests := map[string]struct {
		setup func(*world) *Client
		repo  Repo
		want  Kind
		words string
	}{
		"wrong token": {func(w *world) *Client { return w.client(Credential{Token: "secret-wrong"}) }, shop, Unauthorized, "spec.credentialsSecretRef"},
		"revoked token": {func(w *world) *Client {
			w.RevokeToken("secret-a")
			return w.token()
		}, shop, Unauthorized, "revoked"},
		"no such repository": {func(w *world) *Client { return w.token() }, Repo{"acme", "gone"}, NotFound, "spec.owner"},
		"private repository, anonymous": {func(w *world) *Client {
			w.repo.SetPrivate(true)
			return w.client(Credential{})
		}, shop, NotFound, "needs spec.credentialsSecretRef"},
		"lost access": {func(w *world) *Client {
			w.repo.SetPrivate(true)
			w.AddToken("secret-b", githubtest.Access{Repositories: []string{"acme/other"}})
			return w.client(Credential{Token: "secret-b"})
		}, shop, NotFound, "can access the repository"},
		"no permission": {func(w *world) *Client {
			w.AddToken("secret-b", githubtest.Access{Permissions: map[string]string{"contents": "read"}})
			return w.client(Credential{Token: "secret-b"})
		}, shop, Forbidden, "pull_requests=read"},
		"name with a path": {func(w *world) *Client { return w.token() }, Repo{"acme", "../../user"}, BadConfig, "spec.repo"},
		"only dots":        {func(w *world) *Client { return w.token() }, Repo{"acme", ".."}, BadConfig, "spec.repo"},
		"server is down": {func(w *world) *Client {
			w.Fail(githubtest.Fault{Answer: githubtest.Unavailable})
			return w.token()
		}, shop, Unreachable, "503"},
		"no server": {func(w *world) *Client {
			w.front.URL = "http://127.0.0.1:1" // Linux never assigns this port to a server of another test.
			return w.token()
		}, shop, Unreachable, "connection refused"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := test.setup(w)
			_, err := c.OpenPullRequests(t.Context(), test.repo)
			isKind(t, err, test.want)
			if !strings.Contains(err.Error(), test.words) {
				t.Errorf("message %q does not name %q", err, test.words)
			}
			if _, again := c.OpenPullRequests(t.Context(), test.repo); again.Error() != err.Error() {
				t.Errorf("messages of the same failure differ:\n%s\n%s", err, again)
			}
		})
	}
}

// TestUndocumentedAnswers uses servers that are not GitHub, or whose responses were damaged by a proxy.
func TestUndocumentedAnswers(t *testing.T) {
	page := func(link, body string) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Link", strings.ReplaceAll(link, "HOST", "http://"+r.Host))
			fmt.Fprint(rw, body)
		}
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another host received a request") }))
	defer elsewhere.Close()
	tests := map[string]struct {
		answer http.HandlerFunc
		want   Kind
	}{
		"link to the same page":       {page(`<HOST/api/v3/repos/acme/shop/pulls?page=1>; rel="next"`, "[]"), Malformed},
		"link to another host":        {page(`<`+elsewhere.URL+`/x?page=2>; rel="next"`, "[]"), Refused},
		"link without a page":         {page(`<HOST/api/v3/x?cursor=abc>; rel="next"`, "[]"), Malformed},
		"empty response":              {page("", ""), Malformed},
		"null":                        {page("", "null"), Malformed},
		"null in the list":            {page("", "[null]"), Malformed},
		"a proxy's page":              {page("", "<html>Sign in</html>"), Malformed},
		"an object":                   {page("", "{}"), Malformed},
		"pull request without a head": {page("", `[{"number":1,"state":"open"}]`), Malformed},
		"larger than allowed":         {page("", `["`+strings.Repeat("x", maxBody)+`"]`), Malformed},
		"redirect to another host":    {http.RedirectHandler(elsewhere.URL, http.StatusMovedPermanently).ServeHTTP, Refused},
		"redirect to itself": {func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, r.URL.String(), http.StatusMovedPermanently)
		}, Malformed},
		"not modified without a store": {func(rw http.ResponseWriter, r *http.Request) { rw.WriteHeader(304) }, Malformed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			front := httptest.NewServer(test.answer)
			defer front.Close()
			c := must(NewPool(Options{Outbound: loopback(t)}).Client(Config{BaseURL: front.URL, Credential: Credential{Token: "secret-a"}}))(t)
			got, err := c.OpenPullRequests(t.Context(), shop)
			isKind(t, err, test.want)
			if len(got.Items) != 0 {
				t.Errorf("items %v with an error", got.Items)
			}
		})
	}
}

// TestAnswerOfManyElements checks that a response with more elements than GitHub sends is not decoded, because a few bytes of text need kilobytes of
// memory after decoding.
func TestAnswerOfManyElements(t *testing.T) {
	for name, objects := range map[string]int{"as many as allowed": maxElements/2 - 1, "more": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			fmt.Fprint(z, "[", strings.Repeat("{},", objects-1), "{}]")
			z.Close()
			for _, code := range []int{http.StatusOK, http.StatusUnprocessableEntity} {
				front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Encoding", "gzip")
					w.WriteHeader(code)
					w.Write(packed.Bytes())
				}))
				defer front.Close()
				c := must(NewPool(Options{Outbound: loopback(t)}).Client(Config{BaseURL: front.URL}))(t)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := c.OpenPullRequests(t.Context(), shop)
				runtime.ReadMemStats(&after)
				if KindOf(err) == "" {
					t.Errorf("status %d: no error", code)
				}
				if taken := (after.TotalAlloc - before.TotalAlloc) >> 20; taken > 128 {
					t.Errorf("status %d: %d MiB were allocated for a response of %d bytes", code, taken, packed.Len())
				}
			}
		})
	}
}

// TestPullRequestsWithLongTexts checks that no pull request is missing if 60 users write descriptions that are so long that a page
// is too large.
func TestPullRequestsWithLongTexts(t *testing.T) {
	const strangers = 60
	long := strings.Repeat("😀", 65536)
	var sizes []string
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
		page := max(1, func() int { n, _ := strconv.Atoi(r.URL.Query().Get("page")); return n }())
		sizes = append(sizes, fmt.Sprintf("%d of %d", page, size))
		const all = 230
		if page*size < all {
			w.Header().Set("Link", fmt.Sprintf(`<http://%s%s?per_page=%d&page=%d>; rel="next"`, r.Host, r.URL.Path, size, page+1))
		}
		var items []string
		for n := (page-1)*size + 1; n <= min(page*size, all); n++ {
			text := "short"
			if n > 100 && n <= 100+strangers {
				text = long
			}
			items = append(items, fmt.Sprintf(`{"number":%d,"state":"open","body":%q,"head":{"ref":"topic","sha":"%040x"}}`, n, text, n))
		}
		fmt.Fprint(w, "[", strings.Join(items, ","), "]")
	}))
	defer front.Close()
	c := must(NewPool(Options{Outbound: loopback(t)}).Client(Config{BaseURL: front.URL}))(t)
	list := must(c.OpenPullRequests(t.Context(), shop))(t)
	if len(list.Items) != 230 || list.Truncated {
		t.Errorf("%d pull requests, truncated %t, want 230", len(list.Items), list.Truncated)
	}
	want := []string{"1 of 100", "2 of 100"}
	for page := 11; page <= 20; page++ {
		want = append(want, fmt.Sprintf("%d of 10", page))
	}
	if diff := cmp.Diff(append(want, "3 of 100"), sizes); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
}

func TestListWithoutEndIsTruncated(t *testing.T) {
	requests := 0
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		requests++
		n, _ := strconv.Atoi(r.URL.Query().Get("page"))
		rw.Header().Set("Link", fmt.Sprintf(`<http://%s%s?page=%d>; rel="next"`, r.Host, r.URL.Path, n+1))
		fmt.Fprintf(rw, `[{"name":"v%d","commit":{"sha":"%s"}}]`, n, strings.Repeat("a", 40))
	}))
	defer front.Close()
	c := must(NewPool(Options{Outbound: loopback(t)}).Client(Config{BaseURL: front.URL}))(t)
	got := must(c.Tags(t.Context(), shop))(t)
	if !got.Truncated || len(got.Items) != maxPages || requests != maxPages {
		t.Errorf("truncated %v, %d tags, %d requests, want %d of each", got.Truncated, len(got.Items), requests, maxPages)
	}
}

func TestMovedWriteDoesNotBecomeARead(t *testing.T) {
	var methods []string
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		methods = append(methods, r.Method)
		if r.Method == http.MethodPost {
			http.Redirect(rw, r, "/elsewhere", http.StatusMovedPermanently)
			return
		}
		fmt.Fprint(rw, "[]")
	}))
	defer front.Close()
	c := must(NewPool(Options{Outbound: loopback(t)}).Client(Config{BaseURL: front.URL}))(t)
	_, err := c.EnsureDeployment(t.Context(), shop, Deployment{SHA: strings.Repeat("a", 40), Environment: "pr-1", Marker: "m"})
	isKind(t, err, NotFound)
	if diff := cmp.Diff([]string{"GET", "POST"}, methods); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestDeadline(t *testing.T) {
	release := make(chan struct{})
	front := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer front.Close()
	defer close(release)
	c := must(NewPool(Options{Outbound: loopback(t)}).Client(Config{BaseURL: front.URL}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Tags(ctx, shop)
	isKind(t, err, Unreachable)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cause %v, want the deadline", errors.Unwrap(err))
	}
}

func TestMetadataServiceIsNotDialled(t *testing.T) {
	for name, address := range map[string]string{"metadata": "http://169.254.169.254", "loopback": "http://127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			c := must(NewPool(Options{}).Client(Config{BaseURL: address}))(t)
			_, err := c.Tags(t.Context(), shop)
			if KindOf(err) != Refused {
				t.Errorf("error %v, want kind Refused", err)
			}
		})
	}
}

func TestBaseURL(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"none":                   {"", "https://api.github.com/"},
		"github.com":             {"https://github.com", "https://api.github.com/"},
		"the API itself":         {"https://api.github.com", "https://api.github.com/"},
		"Enterprise":             {"https://GHE.example/", "https://ghe.example/api/v3/"},
		"its API":                {"https://ghe.example/api/v3", "https://ghe.example/api/v3/"},
		"below a path":           {"https://example.com/git", "https://example.com/git/api/v3/"},
		"data residency":         {"https://api.acme.ghe.com", "https://api.acme.ghe.com/"},
		"its page":               {"https://acme.ghe.com", "https://api.acme.ghe.com/"},
		"its page, with a slash": {"https://acme.ghe.com/", "https://api.acme.ghe.com/"},
		"no subdomain":           {"https://ghe.com", "https://ghe.com/api/v3/"},
		"with a port":            {"http://ghe.svc:8080", "http://ghe.svc:8080/api/v3/"},
		"no scheme":              {"ghe.example", ""},
		"another scheme":         {"file:///etc/passwd", ""},
		"with a password":        {"https://a:b@ghe.example", ""},
		"with a query":           {"https://ghe.example?x=y", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			u, err := parseBase(test.text)
			if test.want == "" {
				isKind(t, err, BadConfig)
				return
			}
			if err != nil || u.String() != test.want {
				t.Errorf("%v, %v, want %s", u, err, test.want)
			}
		})
	}
}

// TestTokensStayApart uses tenants with different tokens on one server.
func TestTokensStayApart(t *testing.T) {
	w := newWorld(t)
	w.repo.SetPrivate(true)
	w.open(1)
	w.AddToken("secret-b", githubtest.Access{Repositories: []string{"acme/other"}})
	w.AddToken("secret-c", githubtest.Access{})
	a, b, anonymous := w.token(), w.client(Credential{Token: "secret-b"}), w.client(Credential{})
	if a == b || b == anonymous || a.api.Client() == b.api.Client() {
		t.Fatal("credentials share a client")
	}
	if w.token() != a {
		t.Error("the same credential got another client")
	}
	for range 2 { // the second time with a stored response of tenant A
		if got := must(a.OpenPullRequests(t.Context(), shop))(t); len(got.Items) != 1 {
			t.Errorf("tenant A sees %d pull requests, want 1", len(got.Items))
		}
		_, err := b.OpenPullRequests(t.Context(), shop)
		isKind(t, err, NotFound)
		_, err = anonymous.OpenPullRequests(t.Context(), shop)
		isKind(t, err, NotFound)
	}
	want := []string{"Bearer secret-a", "Bearer secret-b", "", "Bearer secret-a", "Bearer secret-b", ""}
	w.ResetCounts()
	if got := must(w.client(Credential{Token: "secret-c"}).OpenPullRequests(t.Context(), shop))(t); got.Unchanged || w.Count("", 304) != 0 {
		t.Error("another tenant gets a response for tenant A")
	}
	if diff := cmp.Diff(append(want, "Bearer secret-c"), w.seen); diff != "" {
		t.Errorf("credentials that were sent (-want +got):\n%s", diff)
	}
}

// key is the key of the tests' GitHub App. It is created only once, because creating a key takes a long time.
var key = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

func keyPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key())})
}

func TestGitHubApp(t *testing.T) {
	tests := map[string]struct {
		user, known bool
	}{
		"of an organization": {false, false},
		"of a user":          {true, false},
		"by installation ID": {false, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.repo.SetPrivate(true)
			w.open(1)
			w.AddApp(7, &key().PublicKey)
			id := w.Install(7, "acme", test.user, githubtest.Access{})
			app := App{ID: 7, Owner: "acme", PrivateKey: keyPEM()}
			if test.known {
				app.InstallationID = id
			}
			c := w.client(Credential{App: &app})
			poll := func() {
				t.Helper()
				if got := must(c.OpenPullRequests(t.Context(), shop))(t); len(got.Items) != 1 {
					t.Errorf("%d pull requests, want 1", len(got.Items))
				}
			}
			poll()
			w.clock.Step(50 * time.Minute)
			poll()
			if got := w.Count(tokenRoute, 201); got != 1 {
				t.Errorf("%d tokens within the hour, want 1", got)
			}
			w.clock.Step(6 * time.Minute)
			poll()
			if got := w.Count(tokenRoute, 201); got != 2 {
				t.Errorf("%d tokens, want a second one before the first one expires", got)
			}
			for _, token := range w.Tokens() {
				w.RevokeToken(token)
			}
			_, err := c.OpenPullRequests(t.Context(), shop)
			isKind(t, err, Unauthorized)
			poll()
			if got := w.Count(tokenRoute, 201); got != 3 {
				t.Errorf("%d tokens, want a third one after the second was revoked", got)
			}
		})
	}
}

func TestGitHubAppErrors(t *testing.T) {
	tests := map[string]struct {
		app   App
		want  Kind
		words string
	}{
		"not installed":        {App{ID: 7, Owner: "other", PrivateKey: keyPEM()}, NotFound, "install the GitHub App"},
		"unknown App":          {App{ID: 8, Owner: "acme", PrivateKey: keyPEM()}, Unauthorized, "appID"},
		"unknown installation": {App{ID: 7, InstallationID: 1, PrivateKey: keyPEM()}, NotFound, "installationID"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.AddApp(7, &key().PublicKey)
			w.Install(7, "acme", false, githubtest.Access{})
			_, err := w.client(Credential{App: &test.app}).OpenPullRequests(t.Context(), shop)
			isKind(t, err, test.want)
			if !strings.Contains(err.Error(), test.words) {
				t.Errorf("message %q does not name %q", err, test.words)
			}
		})
	}
}

func TestReadCredential(t *testing.T) {
	data := func(pairs ...string) map[string][]byte {
		d := map[string][]byte{}
		for i := 0; i < len(pairs); i += 2 {
			d[pairs[i]] = []byte(pairs[i+1])
		}
		return d
	}
	pem := string(keyPEM())
	tests := map[string]struct {
		data  map[string][]byte
		want  Credential
		words string
	}{
		"token":                  {data("token", "secret-a\n"), Credential{Token: "secret-a"}, ""},
		"App":                    {data("appID", "7", "privateKey", pem), Credential{App: &App{ID: 7, Owner: "acme", PrivateKey: keyPEM()}}, ""},
		"App, installation":      {data("appID", "7", "privateKey", pem, "installationID", "9"), Credential{App: &App{ID: 7, InstallationID: 9, Owner: "acme", PrivateKey: keyPEM()}}, ""},
		"nothing":                {data("password", "x"), Credential{}, "token"},
		"empty token":            {data("token", " "), Credential{}, "token"},
		"two lines":              {data("token", "a\nb"), Credential{}, "token"},
		"both":                   {data("token", "a", "appID", "7"), Credential{}, "either"},
		"no key":                 {data("appID", "7"), Credential{}, "privateKey"},
		"no ID":                  {data("privateKey", pem), Credential{}, "appID"},
		"key with a huge factor": {data("appID", "7", "privateKey", string(certstest.KeyPEM(t, 5_000_000))), Credential{}, "more than 8192 bits: in the Secret, set privateKey to the private key that GitHub generated for the App"},
		"bad installation":       {data("appID", "7", "privateKey", pem, "installationID", "x"), Credential{}, "installationID"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ReadCredential(test.data, "acme")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if test.words == "" && err != nil {
				t.Error(err)
			}
			if test.words != "" {
				isKind(t, err, BadConfig)
				if !strings.Contains(err.Error(), test.words) {
					t.Errorf("message %q does not name %q", err, test.words)
				}
			}
		})
	}
}

// TestConcurrentUse uses one client from several goroutines while the repository changes.
func TestConcurrentUse(t *testing.T) {
	w := newWorld(t)
	w.open(120)
	w.AddApp(7, &key().PublicKey)
	w.Install(7, "acme", false, githubtest.Access{})
	c := w.client(Credential{App: &App{ID: 7, Owner: "acme", PrivateKey: keyPEM()}})
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for range 2 {
				if got, err := c.OpenPullRequests(t.Context(), shop); err != nil || len(got.Items) != 120 {
					t.Errorf("%d pull requests, %v", len(got.Items), err)
				}
				w.repo.Push(i + 1)
				c.Budget()
				w.pool.Budgets()
			}
		})
	}
	group.Wait()
	if got := w.Count(tokenRoute, 0); got != 1 {
		t.Errorf("%d tokens, want 1 for all callers", got)
	}
}

// TestNamesThatShowNothing checks that names without visible characters, or with the same visible characters, do not
// make a list fail. A pull request is omitted and counted if its branch name has no printable character. A tag is
// omitted if it would be displayed with the same name as another tag.
func TestNamesThatShowNothing(t *testing.T) {
	w := newWorld(t)
	c := w.token()
	w.repo.Open(githubtest.PullRequest{HeadRef: "fine"})
	odd := w.repo.Open(githubtest.PullRequest{HeadRef: "\u3000"})
	list := must(c.OpenPullRequests(t.Context(), shop))(t)
	if len(list.Items) != 1 || !slices.Equal(list.Unusable, []int{odd}) {
		t.Errorf("listed %+v, omitted %v", list.Items, list.Unusable)
	}
	if _, err := c.PullRequest(t.Context(), shop, odd); KindOf(err) != Malformed {
		t.Errorf("requested by number: %v", err)
	}
	w.repo.Close(odd, false)
	if closed := must(c.PullRequest(t.Context(), shop, odd))(t); closed.State != Closed {
		t.Errorf("the closed pull request has the state %s", closed.State)
	}

	for _, name := range []string{"v1.0.0\u2028", "v1.0.0", "\u3000", "v1.1.0"} {
		w.repo.Tag(name)
		w.repo.Publish(githubtest.Release{Tag: name})
	}
	var names []string
	for _, tag := range must(c.Tags(t.Context(), shop))(t).Items {
		names = append(names, tag.Name)
	}
	for _, release := range must(c.Releases(t.Context(), shop))(t).Items {
		names = append(names, release.Tag)
	}
	slices.Sort(names)
	if want := []string{"v1.0.0", "v1.0.0", "v1.1.0", "v1.1.0"}; !slices.Equal(names, want) {
		t.Errorf("tags and releases are %q, want %q", names, want)
	}
}
