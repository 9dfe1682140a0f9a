package github

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heighliner/heighliner/internal/github/githubtest"
)

const commitStatusRoute = "POST /repos/{owner}/{repo}/statuses/{sha}"

// TestSetCommitStatus checks that commit statuses are added in order, within GitHub's limits.
func TestSetCommitStatus(t *testing.T) {
	w := newWorld(t)
	sha := w.repo.Commit()
	c := w.token()
	for _, s := range []CommitStatus{
		{SHA: sha, State: CommitPending, Context: "heighliner/shop/shop", Description: strings.Repeat("ä", 100)},
		{SHA: sha, State: CommitSuccess, Context: "heighliner/shop/shop", Description: "is active", TargetURL: "https://board.example.com/services/shop/shop"},
	} {
		if err := c.SetCommitStatus(t.Context(), shop, s); err != nil {
			t.Fatal(err)
		}
	}
	got := w.repo.CommitStatuses(sha)
	if len(got) != 2 || len(got[0].Description) > maxDescription || got[0].TargetURL != "" {
		t.Fatalf("statuses %+v", got)
	}
	want := githubtest.CommitStatus{ID: got[1].ID, State: "success", Context: "heighliner/shop/shop", Description: "is active", TargetURL: "https://board.example.com/services/shop/shop", Owner: "octocat"}
	if diff := cmp.Diff(want, got[1]); diff != "" {
		t.Error(diff)
	}
}

// TestCommitStatusErrors checks that a status that GitHub rejects results in a typed error that contains the fix.
func TestCommitStatusErrors(t *testing.T) {
	w := newWorld(t)
	w.AddToken("reader", githubtest.Access{Permissions: map[string]string{"statuses": "read", "metadata": "read"}})
	sha := w.repo.Commit()
	for name, tc := range map[string]struct {
		token string
		repo  Repo
		s     CommitStatus
		kind  Kind
		text  string
	}{
		"unknown commit": {"secret-a", shop, CommitStatus{SHA: strings.Repeat("f", 40), State: CommitError, Context: "x"}, Invalid, ""},
		"short commit":   {"secret-a", shop, CommitStatus{SHA: sha[:8], State: CommitError, Context: "x"}, BadConfig, "the full SHA"},
		"no context":     {"secret-a", shop, CommitStatus{SHA: sha, State: CommitError}, BadConfig, "the context is missing"},
		"wrong name":     {"secret-a", Repo{"acme", ".."}, CommitStatus{SHA: sha, State: CommitError, Context: "x"}, BadConfig, "does not allow"},
		"no repository":  {"secret-a", Repo{"acme", "none"}, CommitStatus{SHA: sha, State: CommitError, Context: "x"}, NotFound, ""},
		"no permission":  {"reader", shop, CommitStatus{SHA: sha, State: CommitError, Context: "x"}, Forbidden, "statuses=write"},
	} {
		err := w.client(Credential{Token: tc.token}).SetCommitStatus(t.Context(), tc.repo, tc.s)
		if KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.text) || strings.Contains(err.Error(), tc.token) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := w.repo.CommitStatuses(sha); len(got) > 0 {
		t.Errorf("statuses %+v", got)
	}
	w.Fail(githubtest.Fault{Route: commitStatusRoute, Times: 1, Answer: githubtest.SecondaryLimit})
	c := w.token()
	s := CommitStatus{SHA: sha, State: CommitError, Context: "x"}
	for range 2 { // The second status is not sent, because GitHub requested a pause.
		if err := c.SetCommitStatus(t.Context(), shop, s); KindOf(err) != RateLimited {
			t.Errorf("limited: %v", err)
		}
	}
	if n := w.Count(commitStatusRoute, 403); n != 2 { // one of them because of the missing permission
		t.Errorf("%d refused requests", n)
	}
}
