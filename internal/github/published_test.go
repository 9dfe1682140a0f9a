package github

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-github/v57/github"
)

// TestPublishedAnswers checks that the example responses that GitHub publishes are read without changes.
func TestPublishedAnswers(t *testing.T) {
	text, err := os.ReadFile("githubtest/testdata/examples.json")
	if err != nil {
		t.Fatal(err)
	}
	var examples map[string]struct {
		Status int
		Body   json.RawMessage
	}
	if err := json.Unmarshal(text, &examples); err != nil {
		t.Fatal(err)
	}
	const repo = "/repos/octocat/Hello-World"
	routes := map[string]string{
		"GET " + repo:                 "GET /repos/{owner}/{repo}",
		"GET " + repo + "/pulls":      "GET /repos/{owner}/{repo}/pulls",
		"GET " + repo + "/pulls/1347": "GET /repos/{owner}/{repo}/pulls/{pull_number}",
		"GET " + repo + "/releases":   "GET /repos/{owner}/{repo}/releases",
		"GET " + repo + "/tags":       "GET /repos/{owner}/{repo}/tags",
		"GET " + repo + "/git/commits/7638417db6d59f3c431d3e1f261cc637155684cd": "GET /repos/{owner}/{repo}/git/commits/{commit_sha}",
		"GET " + repo + "/deployments":                                          "GET /repos/{owner}/{repo}/deployments",
		"POST " + repo + "/deployments":                                         "POST /repos/{owner}/{repo}/deployments",
		"GET " + repo + "/deployments/1/statuses":                               "GET /repos/{owner}/{repo}/deployments/{deployment_id}/statuses",
		"POST " + repo + "/deployments/1/statuses":                              "POST /repos/{owner}/{repo}/deployments/{deployment_id}/statuses",
		"POST " + repo + "/statuses/7638417db6d59f3c431d3e1f261cc637155684cd":   commitStatusRoute,
		"GET " + repo + "/issues/1347/comments":                                 "GET /repos/{owner}/{repo}/issues/{issue_number}/comments",
		"POST " + repo + "/issues/1347/comments":                                "POST /repos/{owner}/{repo}/issues/{issue_number}/comments",
		"GET " + repo + "/issues/comments/1":                                    "GET /repos/{owner}/{repo}/issues/comments/{comment_id}",
		"PATCH " + repo + "/issues/comments/1":                                  "PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}",
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/api/v3")
		e, ok := examples[routes[name]]
		if !ok {
			t.Errorf("there is no example of %s", name)
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(e.Status)
		w.Write(e.Body)
	}))
	defer front.Close()
	c := must(NewPool(Options{Outbound: loopback(t)}).Client(Config{BaseURL: front.URL, Credential: Credential{Token: "secret-a"}}))(t)
	hello := Repo{"octocat", "Hello-World"}
	if got := must(c.Repository(t.Context(), hello))(t); got.ID != 1296269 || got.Repo != hello {
		t.Errorf("repository %+v", got)
	}
	if got := must(c.OpenPullRequests(t.Context(), hello))(t); len(got.Items) != 1 || got.Items[0].HeadRef != "new-topic" {
		t.Errorf("pull requests %+v", got)
	}
	if got := must(c.PullRequest(t.Context(), hello, 1347))(t); got.Author != "octocat" || len(got.Labels) != 1 {
		t.Errorf("pull request %+v", got)
	}
	if got := must(c.Releases(t.Context(), hello))(t); len(got.Items) != 1 || got.Items[0].Tag != "v1.0.0" {
		t.Errorf("releases %+v", got)
	}
	if got := must(c.Tags(t.Context(), hello))(t); len(got.Items) != 1 || got.Items[0].Name != "v0.1" {
		t.Errorf("tags %+v", got)
	}
	if got := must(c.Commit(t.Context(), hello, "7638417db6d59f3c431d3e1f261cc637155684cd"))(t); got.Committed.IsZero() {
		t.Errorf("commit %+v", got)
	}
	if got := must(c.EnsureDeployment(t.Context(), hello, Deployment{SHA: strings.Repeat("a", 40), Environment: "production", Marker: "x"}))(t); got != 1 {
		t.Errorf("deployment %d", got)
	}
	if wrote := must(c.SetDeploymentStatus(t.Context(), hello, 1, DeploymentStatus{State: Failure}))(t); !wrote {
		t.Error("no status was written")
	}
	if err := c.SetCommitStatus(t.Context(), hello, CommitStatus{SHA: "7638417db6d59f3c431d3e1f261cc637155684cd", State: CommitSuccess, Context: "x"}); err != nil {
		t.Error(err)
	}
	if got := must(c.EnsureComment(t.Context(), hello, 1347, CommentState{}, Comment{Key: "x", Body: "b"}))(t); got.ID != 1 {
		t.Errorf("comment %+v", got)
	}
	must(c.EnsureComment(t.Context(), hello, 1347, CommentState{ID: 1}, Comment{Key: "x", Body: "b"}))(t)
}

// TestPublishedPullRequests checks that the pull requests in GitHub's example webhooks are read without changes.
func TestPublishedPullRequests(t *testing.T) {
	f, err := os.Open("githubtest/testdata/webhooks.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, count := bufio.NewScanner(f), 0
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var example struct {
			Event   string
			Payload struct {
				PullRequest json.RawMessage `json:"pull_request"`
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &example); err != nil {
			t.Fatal(err)
		}
		if example.Event != "pull_request" {
			continue
		}
		count++
		var p github.PullRequest
		if err := json.Unmarshal(example.Payload.PullRequest, &p); err != nil {
			t.Fatal(err)
		}
		if _, err := pullRequest(&p); err != nil {
			t.Errorf("pull request %d: %v", count, err)
		}
	}
	if err := lines.Err(); err != nil || count < 25 {
		t.Errorf("%d pull requests, %v", count, err)
	}
}
