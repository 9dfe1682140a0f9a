package notify

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/github/githubtest"
)

// TestCommitStates checks that each event has a state, and that only the events of a rollout in progress have the
// state pending.
func TestCommitStates(t *testing.T) {
	t.Parallel()
	want := map[v1alpha1.NotificationEvent]github.CommitState{
		"Started": "pending", "Step": "pending", "Waiting": "pending", "Promoted": "success", "Restored": "success", "Deprecated": "success",
		"RolledBack": "failure", "Failed": "failure", "Aborted": "failure", "Superseded": "error", "Removed": "error",
	}
	if diff := cmp.Diff(want, commitStates); diff != "" {
		t.Error(diff)
	}
	for event, state := range commitStates {
		if Ended(event) == (state == github.CommitPending) {
			t.Errorf("%s is %s", event, state)
		}
	}
}

// TestCommitStatusOf checks that a status contains the brief title, the address on the board and a context for its Microservice. If the
// release is gone, the status is for the commit of the earlier message.
func TestCommitStatusOf(t *testing.T) {
	t.Parallel()
	m := example(v1alpha1.NotifyFailed)
	m.Brief = "shop 1.1.0 failed"
	want := github.CommitStatus{SHA: "4be1c02d", State: github.CommitFailure, Context: "heighliner/shop/shop", Description: "shop 1.1.0 failed", TargetURL: m.URL}
	r := &v1alpha1.NotificationReceiver{Type: v1alpha1.ReceiverGitHubStatus}
	if diff := cmp.Diff(want, commitStatusOf(r, m, "old")); diff != "" {
		t.Error(diff)
	}
	r.Context, m.Commit, m.URL, m.Event = "production", "", "", v1alpha1.NotifyRemoved
	want = github.CommitStatus{SHA: "old", State: github.CommitError, Context: "production/shop/shop", Description: "shop 1.1.0 failed"}
	if diff := cmp.Diff(want, commitStatusOf(r, m, "old")); diff != "" {
		t.Error(diff)
	}
}

// TestGitHubStatus sends statuses to a server that checks them against GitHub's description. Errors show who caused them, and contain no
// credentials.
func TestGitHubStatus(t *testing.T) {
	t.Parallel()
	const token = "github-secret-token"
	server, err := githubtest.New(githubtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(server)
	t.Cleanup(front.Close)
	repository := server.AddRepository("acme/shop")
	server.AddToken(token, githubtest.Access{})
	server.AddToken("reader-token", githubtest.Access{Permissions: map[string]string{"metadata": "read"}})
	s := newStand(t, nil).Sender
	r := &v1alpha1.NotificationReceiver{Name: "github", Type: v1alpha1.ReceiverGitHubStatus, RepositoryRef: &v1alpha1.Reference{Name: "shop"}}
	c := Credentials{URL: front.URL, GitHub: github.Credential{Token: token}, Repository: github.Repo{Owner: "acme", Name: "shop"}}
	sha := repository.Commit()
	m := example(v1alpha1.NotifyStarted)
	m.Commit, m.Brief = sha, "shop 1.1.0 started"
	called, failure := s.Send(t.Context(), r, c, m, "")
	if failure != nil || called != sha {
		t.Fatalf("%q, %v", called, failure)
	}
	gone := example(v1alpha1.NotifyRemoved)
	gone.Commit, gone.Brief = "", "shop 1.1.0 was removed before its rollout ended"
	if called, failure := s.Send(t.Context(), r, c, gone, called); failure != nil || called != sha {
		t.Fatalf("%q, %v", called, failure)
	}
	want := []githubtest.CommitStatus{
		{State: "pending", Context: "heighliner/shop/shop", Description: "shop 1.1.0 started", TargetURL: m.URL, Owner: "octocat"},
		{State: "error", Context: "heighliner/shop/shop", Description: "shop 1.1.0 was removed before its rollout ended", TargetURL: m.URL, Owner: "octocat"},
	}
	if diff := cmp.Diff(want, repository.CommitStatuses(sha), cmpopts.IgnoreFields(githubtest.CommitStatus{}, "ID")); diff != "" {
		t.Error(diff)
	}

	for name, tc := range map[string]struct {
		commit, token   string
		rejected, final bool
		text            string
	}{
		"no commit":      {"", token, true, true, "the commit of the release is not known"},
		"short commit":   {"4be1c02d", token, true, true, "is not a full commit SHA"},
		"another's":      {strings.Repeat("e", 40), token, true, false, "422"},
		"wrong token":    {sha, "unknown-token", false, false, "store a new one"},
		"no permission":  {sha, "reader-token", false, false, "statuses=write"},
		"not authorized": {sha, "", false, false, ""},
	} {
		m, c := m, c
		m.Commit, c.GitHub.Token = tc.commit, tc.token
		_, failure := s.Send(t.Context(), r, c, m, "")
		if failure == nil || failure.Rejected != tc.rejected || failure.Final != tc.final || !strings.Contains(failure.Error(), tc.text) {
			t.Errorf("%s: %+v", name, failure)
		} else if tc.token != "" && strings.Contains(failure.Error(), tc.token) {
			t.Errorf("%s shows the token: %v", name, failure)
		}
	}
	server.Fail(githubtest.Fault{Times: 1, Answer: githubtest.SecondaryLimit})
	if _, failure := s.Send(t.Context(), r, c, m, ""); failure == nil || failure.Rejected || failure.After <= 0 || failure.After > maxRetryAfter {
		t.Errorf("limited: %+v", failure)
	}
	for _, failure := range server.Failures() {
		t.Errorf("server: %s", failure)
	}
}
