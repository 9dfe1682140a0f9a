package githubtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testclock "k8s.io/utils/clock/testing"
)

func newServer(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.AddToken("secret-a", Access{})
	return s
}

// ask sends one request and returns the response.
func ask(t *testing.T, s *Server, method, path, body string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://github.test"+Prefix+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer secret-a")
	r.Header.Set("User-Agent", "test")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

// TestReference checks that each part of the reference contains the URL of its page in GitHub's documentation.
func TestReference(t *testing.T) {
	b, err := readReference()
	if err != nil {
		t.Fatal(err)
	}
	page := regexp.MustCompile(`^https://docs\.github\.com/en/[a-z/-]+(#[a-z0-9_-]+)?$`)
	for name, e := range b.examples {
		if !page.MatchString(e.Reference) {
			t.Errorf("example %s: %q is not a page of the reference", name, e.Reference)
		}
		if strings.HasPrefix(name, "error-") != (e.Status != 0) {
			t.Errorf("example %s: status %d", name, e.Status)
		}
	}
	for _, r := range b.routes {
		if !page.MatchString(r.Reference) {
			t.Errorf("%s: %q is not a page of the reference", r.name(), r.Reference)
		}
		if len(r.Statuses) == 0 {
			t.Errorf("%s: no response", r.name())
		}
	}
	for _, answer := range []Answer{ServerError, BadGateway, Unavailable, NotFound, Gone, SecondaryLimit, SecondaryLimit429, DeploymentMerged, DeploymentConflict} {
		if _, ok := b.examples["error-"+string(answer)]; !ok {
			t.Errorf("response %q: the reference has none", answer)
		}
	}
}

// TestEveryRouteIsServed sends a request to each route, and checks that there are no failures.
func TestEveryRouteIsServed(t *testing.T) {
	s := newServer(t, Options{})
	repo := s.AddRepository("acme/shop")
	repo.Open(PullRequest{HeadRef: "topic"})
	for _, r := range s.reference.routes {
		path := strings.NewReplacer("{owner}", "acme", "{repo}", "shop", "{pull_number}", "1", "{issue_number}", "1").Replace(r.Path)
		if response := ask(t, s, r.Method, path, ""); response.StatusCode >= 500 {
			t.Errorf("%s responds with %d", r.name(), response.StatusCode)
		}
	}
	if diff := cmp.Diff([]string(nil), s.Failures()); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}

// TestUndescribedRequestsAreRefused checks that a request must conform to both GitHub's description and this package's reference.
func TestUndescribedRequestsAreRefused(t *testing.T) {
	tests := map[string]struct {
		method, path, body string
		want               int
		failures           []string
	}{
		"path":          {"GET", "/repos/acme/shop/secrets", "", 404, []string{"does not describe"}},
		"method":        {"DELETE", "/repos/acme/shop/pulls/1", "", 404, []string{"does not describe"}},
		"query":         {"GET", "/repos/acme/shop/pulls?labels=x", "", 422, []string{`description has no query parameter "labels"`, `reference has no query parameter "labels"`}},
		"body":          {"POST", "/repos/acme/shop/deployments", `{"ref":"x","force":true}`, 422, []string{`description has no field "force"`, `reference has no parameter "force"`}},
		"not an object": {"POST", "/repos/acme/shop/deployments", `[1]`, 422, []string{"not a JSON object", "not a JSON object"}},
		"state":         {"GET", "/repos/acme/shop/pulls?state=merged", "", 422, []string{"query.state", "state=merged"}},
		"page":          {"GET", "/repos/acme/shop/pulls?page=x", "", 200, []string{"query.page"}},
		"type":          {"POST", "/repos/acme/shop/deployments", `{"ref":1}`, 422, []string{"body.ref"}},
		"value":         {"POST", "/repos/acme/shop/issues/1/comments", `{}`, 422, []string{"body.body"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, Options{})
			s.AddRepository("acme/shop").Open(PullRequest{HeadRef: "topic"})
			if got := ask(t, s, test.method, test.path, test.body).StatusCode; got != test.want {
				t.Errorf("status %d, want %d", got, test.want)
			}
			same := func(failure, part string) bool { return strings.Contains(failure, part) }
			if got := s.Failures(); !slices.EqualFunc(got, test.failures, same) {
				t.Errorf("failures %q, want %q", got, test.failures)
			}
		})
	}
}

// TestAnswersAreHeldToTheDescription checks that a response that does not conform to GitHub's description is a failure of the server.
func TestAnswersAreHeldToTheDescription(t *testing.T) {
	const tags = "GET /repos/{owner}/{repo}/tags"
	tests := map[string]struct {
		change func(tag map[string]any)
		want   []string
	}{
		"unchanged":             {func(map[string]any) {}, nil},
		"field of another type": {func(tag map[string]any) { tag["name"] = 1 }, []string{"response[0].name"}},
		"without a field":       {func(tag map[string]any) { delete(tag, "name") }, []string{"response[0].name"}},
		"null":                  {func(tag map[string]any) { tag["commit"] = nil }, []string{"response[0].commit"}},
		"no address":            {func(tag map[string]any) { tag["zipball_url"] = "" }, []string{"response[0].zipball_url"}},
		"field within":          {func(tag map[string]any) { tag["commit"] = map[string]any{"url": "x y"} }, []string{"response[0].commit.sha", "response[0].commit.url"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			operations, err := contract()
			if err != nil {
				t.Fatal(err)
			}
			tag := maps.Clone(operations[tags].example.([]any)[0].(map[string]any))
			test.change(tag)
			text, err := json.Marshal([]any{tag})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // A rejected response is not cached as conforming.
				same := func(problem, part string) bool { return strings.Contains(problem, part) }
				if got := checkAnswer(tags, 200, text); !slices.EqualFunc(got, test.want, same) {
					t.Errorf("problems %q, want %q", got, test.want)
				}
			}
		})
	}
}

// TestAnswersAreCompleted checks that only the fields that the reference lacks come from GitHub's example.
func TestAnswersAreCompleted(t *testing.T) {
	whole, err := completeAnswer("GET /repos/{owner}/{repo}/tags", 200, []any{map[string]any{"name": "v9", "zipball_url": "", "commit": map[string]any{"sha": "abc"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []any{map[string]any{
		"name": "v9", "node_id": "MDQ6VXNlcjE=",
		"commit":      map[string]any{"sha": "abc", "url": "https://api.github.com/repos/octocat/Hello-World/commits/c5b97d5ae6c19d5c5df71a34c7fbeeda2479ccbc"},
		"tarball_url": "https://github.com/octocat/Hello-World/tarball/v0.1",
		"zipball_url": "https://github.com/octocat/Hello-World/zipball/v0.1",
	}}
	if diff := cmp.Diff(want, whole); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
	// Empty URLs in a status remain empty.
	status := []any{map[string]any{"environment_url": "", "target_url": ""}}
	whole, err = completeAnswer("GET /repos/{owner}/{repo}/deployments/{deployment_id}/statuses", 200, status)
	if err != nil {
		t.Fatal(err)
	}
	if got := whole.([]any)[0].(map[string]any); got["environment_url"] != "" || got["target_url"] != "" || got["state"] == nil {
		t.Errorf("status %v", got)
	}
}

func TestUndocumentedFaultIsAFailure(t *testing.T) {
	s := newServer(t, Options{})
	s.AddRepository("acme/shop").Open(PullRequest{HeadRef: "topic"})
	s.Fail(Fault{Answer: DeploymentMerged, Times: 1}) // 202 is not a valid response for a list
	ask(t, s, "GET", "/repos/acme/shop/pulls", "")
	if got := s.Failures(); len(got) != 1 || !strings.Contains(got[0], "no response with status 202") {
		t.Errorf("failures %q", got)
	}
}

func TestFieldsOfTheReferenceOnly(t *testing.T) {
	b, err := readReference()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.fill("tag", fields{"committed_at": "today"}); err == nil {
		t.Error("a field that the reference does not have was filled")
	}
	if _, err := b.fill("branch", nil); err == nil {
		t.Error("an example that the reference does not have was filled")
	}
}

func TestPages(t *testing.T) {
	s := newServer(t, Options{})
	repo := s.AddRepository("acme/shop")
	for i := range 65 {
		repo.Tag(fmt.Sprintf("v%d", i))
	}
	base := "http://github.test" + Prefix + "/repos/acme/shop/tags"
	tests := map[string]struct{ query, want string }{
		"first":  {"?per_page=30", fmt.Sprintf(`<%s?page=2&per_page=30>; rel="next", <%s?page=3&per_page=30>; rel="last"`, base, base)},
		"last":   {"?page=3", fmt.Sprintf(`<%s?page=2>; rel="prev", <%s?page=1>; rel="first"`, base, base)},
		"whole":  {"?per_page=1000", ""},
		"beyond": {"?page=9", fmt.Sprintf(`<%s?page=3>; rel="prev", <%s?page=1>; rel="first"`, base, base)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, ask(t, s, "GET", "/repos/acme/shop/tags"+test.query, "").Header.Get("Link")); diff != "" {
				t.Errorf("link (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNotModified(t *testing.T) {
	s := newServer(t, Options{})
	repo := s.AddRepository("acme/shop")
	first := ask(t, s, "GET", "/repos/acme/shop/tags", "")
	tag := first.Header.Get("ETag")
	again := ask(t, s, "GET", "/repos/acme/shop/tags", "", "If-None-Match", tag)
	body, err := io.ReadAll(again.Body)
	if again.StatusCode != 304 || len(body) != 0 || err != nil || s.Used("secret-a") != 1 {
		t.Errorf("status %d, body %q, %d requests counted, want 304, none and 1", again.StatusCode, body, s.Used("secret-a"))
	}
	repo.Tag("v1")
	if got := ask(t, s, "GET", "/repos/acme/shop/tags", "", "If-None-Match", tag).StatusCode; got != 200 {
		t.Errorf("status %d after a change, want 200", got)
	}
}

// TestEventsFollowChanges checks the deliveries during the lifetime of a pull request, with a receiver that sends requests to the
// server.
func TestEventsFollowChanges(t *testing.T) {
	var got []string
	var repo *Repository
	s := newServer(t, Options{OnEvent: func(d Delivery) {
		r, err := d.Request(context.Background(), "http://hook.test", []byte("x"))
		if err != nil || r.Header.Get("X-Hub-Signature-256") != Sign(d.Payload, []byte("x")) {
			t.Errorf("request %v, %v", r, err)
		}
		repo.PullRequest(1)
		_, after, _ := strings.Cut(string(d.Payload), `"action":"`)
		action, _, _ := strings.Cut(after, `"`)
		got = append(got, d.Event+" "+action)
	}})
	repo = s.AddRepository("acme/shop")
	n := repo.Open(PullRequest{HeadRef: "topic"})
	repo.Push(n)
	repo.Label(n, "preview")
	repo.SetDraft(n, true)
	repo.Close(n, true)
	repo.Publish(Release{Tag: "v1", Draft: true})
	repo.Publish(Release{Tag: "v1"})
	want := []string{"pull_request opened", "pull_request synchronize", "pull_request labeled", "pull_request converted_to_draft", "pull_request closed", "release published"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// fieldOf returns a field of a response.
func fieldOf(t *testing.T, response *http.Response, field string) any {
	t.Helper()
	var body any
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	if all, ok := body.([]any); ok {
		body = all[0]
	}
	return body.(map[string]any)[field]
}

// TestMergesAreLate checks that the test merge of a push is created only after the pull request itself has been read, as on GitHub. Until then,
// lists contain the test merge of the previous push.
func TestMergesAreLate(t *testing.T) {
	s := newServer(t, Options{})
	r := s.AddRepository("acme/shop")
	r.SetLateMerges(true)
	n := r.Open(PullRequest{HeadRef: "topic"})
	list := func() any { return fieldOf(t, ask(t, s, "GET", "/repos/acme/shop/pulls", ""), "merge_commit_sha") }
	single := func() any { return fieldOf(t, ask(t, s, "GET", "/repos/acme/shop/pulls/1", ""), "merge_commit_sha") }
	first := list()
	r.Push(n)
	if got := list(); got != first || got == nil {
		t.Errorf("merge %v after a push, want the previous one: %v", got, first)
	}
	if got := single(); got != first {
		t.Errorf("merge %v in the response that creates the next merge, want %v", got, first)
	}
	if got := list(); got == first || got != single() {
		t.Errorf("merge %v after the pull request was read, want a merge other than %v", got, first)
	}
	r.Edit(n, "edited", func(p *PullRequest) { p.MergeCommitSHA = "" })
	if got := list(); got != nil {
		t.Errorf("merge %v where there is none, want null", got)
	}
}

func TestLagOfReads(t *testing.T) {
	c := testclock.NewFakeClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	s := newServer(t, Options{Clock: c})
	r := s.AddRepository("acme/shop")
	r.Open(PullRequest{HeadRef: "topic"})
	s.AddToken("secret", Access{})
	s.SetLag(5 * time.Second)
	auth := []string{"Authorization", "Bearer secret"}
	made := ask(t, s, "POST", "/repos/acme/shop/issues/1/comments", `{"body":"hello"}`, auth...)
	if got := made.Header.Get("Location"); !strings.HasSuffix(got, fmt.Sprintf("/issues/comments/%d", r.Comments(1)[0].ID)) {
		t.Errorf("Location %q", got)
	}
	address := fmt.Sprintf("/repos/acme/shop/issues/comments/%d", r.Comments(1)[0].ID)
	r.Edit(1, "edited", func(p *PullRequest) { p.Title = "later" })
	if got := ask(t, s, "GET", address, "", auth...).StatusCode; got != 404 {
		t.Errorf("status %d for a stale read, want 404", got)
	}
	if got := ask(t, s, "PATCH", address, `{"body":"again"}`, auth...).StatusCode; got != 200 {
		t.Errorf("status %d for a write, want 200", got)
	}
	if got := fieldOf(t, ask(t, s, "GET", "/repos/acme/shop/pulls/1", "", auth...), "title"); got == "later" {
		t.Error("a stale read contains the new title")
	}
	c.Step(5 * time.Second)
	if got := fieldOf(t, ask(t, s, "GET", address, "", auth...), "body"); got != "again" {
		t.Errorf("body %q after the lag", got)
	}
	if got := fieldOf(t, ask(t, s, "GET", "/repos/acme/shop/pulls/1", "", auth...), "title"); got != "later" {
		t.Errorf("title %q after the lag", got)
	}
}

// TestTagsAreOfTheCredential checks that the ETag of a response depends on the credential. A response that one client has read is new to another
// client.
func TestTagsAreOfTheCredential(t *testing.T) {
	s := newServer(t, Options{})
	s.AddRepository("acme/shop")
	for _, token := range []string{"one", "two"} {
		s.AddToken(token, Access{})
	}
	tag := ask(t, s, "GET", "/repos/acme/shop", "", "Authorization", "Bearer one").Header.Get("ETag")
	for token, want := range map[string]int{"one": 304, "two": 200} {
		if got := ask(t, s, "GET", "/repos/acme/shop", "", "Authorization", "Bearer "+token, "If-None-Match", tag).StatusCode; got != want {
			t.Errorf("status %d for token %s, want %d", got, token, want)
		}
	}
}
