package githubrepository

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/github/githubtest"
	"github.com/heighliner/heighliner/internal/preview"
)

// takes reports whether a pull request from a fork is selected if its commit must be approved with
// the ok label.
func takes(t *testing.T, pr v1alpha1.PullRequest) bool {
	t.Helper()
	c, err := preview.Compile(v1alpha1.GitHubPullRequests{Forks: &v1alpha1.Forks{Policy: v1alpha1.ForksApproved, Label: "ok"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Choose(&pr).Taken()
}

// stranger opens a pull request from a fork, in a repository that an ImagePolicy reads. It returns the
// number of the pull request as soon as the status contains it.
func (s *story) stranger() int {
	s.Helper()
	s.repository("shop")
	s.policy("previews", "shop", ofPulls)
	s.poll("shop")
	n := s.repo.Open(githubtest.PullRequest{HeadRef: "patch", Fork: "stranger/shop"})
	s.poll("shop")
	return n
}

func TestApproval(t *testing.T) {
	s := begin(t)
	n := s.stranger()
	s.repo.Label(n, "ok")
	if pr := pull(t, s.poll("shop"), n); !takes(t, pr) {
		t.Errorf("the commit is not approved after the label was added: %+v", pr.Labels)
	}
	s.restart()
	if pr := pull(t, s.poll("shop"), n); !takes(t, pr) {
		t.Errorf("the commit is not approved after a restart: %+v", pr.Labels)
	}
	s.repo.Push(n)
	if pr := pull(t, s.poll("shop"), n); takes(t, pr) {
		t.Errorf("a commit that was pushed later is approved: %+v", pr.Labels)
	}
	s.repo.Label(n)
	s.poll("shop")
	s.repo.Label(n, "ok")
	if pr := pull(t, s.poll("shop"), n); !takes(t, pr) {
		t.Errorf("the later commit is not approved after the label was added again: %+v", pr.Labels)
	}
}

// TestApprovalByCommit checks that a label with a commit approves this commit, even if the label was added before the first poll or
// while the manager was down, and that the label approves no other commit.
func TestApprovalByCommit(t *testing.T) {
	s := begin(t)
	n := s.repo.Open(githubtest.PullRequest{HeadRef: "patch", Fork: "stranger/shop"})
	read := s.repo.PullRequest(n).HeadSHA
	var labels []string
	for i := range 40 {
		labels = append(labels, fmt.Sprintf("area/%02d", i))
	}
	s.repo.Label(n, append(labels, "preview:"+read)...)
	s.repository("shop")
	choice := v1alpha1.GitHubPullRequests{Forks: &v1alpha1.Forks{Policy: v1alpha1.ForksApproved, Label: "preview:{{.SHA}}"}}
	s.policy("previews", "shop", v1alpha1.GitHubSource{PullRequests: &choice})
	c, err := preview.Compile(choice, nil)
	if err != nil {
		t.Fatal(err)
	}
	judge := func(what string, want preview.Choice) {
		t.Helper()
		pr := pull(t, s.poll("shop"), n)
		got := c.Choose(&pr)
		got.Reason = ""
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	judge("approved before it was known", preview.Choice{Approved: []string{read}})
	s.restart()
	judge("after a restart", preview.Choice{Approved: []string{read}})
	next := s.repo.Push(n)
	judge("after a push", preview.Choice{Verdict: preview.VerdictFork, Approved: []string{read}})
	s.restart() // a later commit is approved during the restart
	s.repo.Label(n, append(labels, "preview:"+read, "preview:"+next)...)
	judge("approved while the manager was down", preview.Choice{Approved: []string{read, next}})
	s.repo.Label(n, labels...)
	judge("removed", preview.Choice{Verdict: preview.VerdictFork})
}

// TestApprovalOfAHeadThatWasSwapped checks that a label that appeared together with another head commit approves neither commit.
func TestApprovalOfAHeadThatWasSwapped(t *testing.T) {
	s := begin(t)
	n := s.stranger()
	evil := s.repo.PullRequest(n).HeadSHA
	s.repo.Push(n)
	s.repo.Label(n, "ok")
	s.poll("shop")
	s.repo.Edit(n, "synchronize", func(p *githubtest.PullRequest) { p.HeadSHA = evil })
	if pr := pull(t, s.poll("shop"), n); takes(t, pr) {
		t.Errorf("commit %s, which never had the label, is approved: %+v", evil, pr.Labels)
	}
}

func TestApprovalThatNoPollSaw(t *testing.T) {
	for name, unseen := range map[string]func(*story, int){
		"the manager was down":                  func(s *story, _ int) { s.restart() },
		"GitHub was not polled for a long time": func(s *story, _ int) { s.clock.Step(time.Hour) },
		"the pull request was closed": func(s *story, n int) {
			s.repo.Label(n)
			s.repo.Close(n, false)
			s.poll("shop")
			s.repo.Label(n, "ok")
			s.repo.Reopen(n)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			n := s.stranger()
			s.repo.Label(n, "ok")
			unseen(s, n)
			if pr := pull(t, s.poll("shop"), n); takes(t, pr) {
				t.Errorf("the commit is approved: %+v", pr.Labels)
			}
			s.repo.Label(n)
			s.poll("shop")
			s.repo.Label(n, "ok")
			if pr := pull(t, s.poll("shop"), n); !takes(t, pr) {
				t.Errorf("the commit is not approved after the label was added again: %+v", pr.Labels)
			}
		})
	}
}

// TestApprovalBeforeItWasKnown covers a pull request that is opened, approved, and pushed to between two polls.
func TestApprovalBeforeItWasKnown(t *testing.T) {
	s := begin(t)
	s.many(1)
	s.repository("shop")
	s.policy("previews", "shop", ofPulls)
	s.rest("shop")
	n := s.repo.Open(githubtest.PullRequest{HeadRef: "patch", Fork: "stranger/shop"})
	s.clock.Step(time.Hour)
	s.repo.Label(n, "ok")
	s.clock.Step(time.Hour)
	s.repo.Push(n)
	if pr := pull(t, s.poll("shop"), n); takes(t, pr) {
		t.Errorf("a commit that was pushed after the label is approved: %+v", pr.Labels)
	}
}

// TestApprovalAfterRecreation checks that a GitHubRepository that was created again has no approvals.
func TestApprovalAfterRecreation(t *testing.T) {
	s := begin(t)
	n := s.stranger()
	s.repo.Label(n, "ok")
	s.poll("shop")
	s.repo.Push(n)
	if r := s.poll("shop"); takes(t, pull(t, r, n)) {
		t.Fatal("approved after a push")
	}
	s.remove("shop")
	s.repository("shop")
	if pr := pull(t, s.poll("shop"), n); takes(t, pr) {
		t.Errorf("a commit that was rejected a minute ago is approved: %+v", pr.Labels)
	}
}

func TestApprovalThatWasRevoked(t *testing.T) {
	t.Parallel()
	at := func(head string, labels ...string) *pullRequests {
		return &pullRequests{time: epoch, listed: []github.PullRequest{{Number: 1, State: github.Open, HeadSHA: head, HeadRef: "x", Fork: true, Labels: labels}}}
	}
	known := merge(nil, at(sha(1)), mergeContext{})
	known = merge(known, at(sha(1), "ok"), mergeContext{})
	if !takes(t, known[0]) {
		t.Fatalf("the commit is not approved after the label was added: %v", known[0].Labels)
	}
	for _, p := range []*pullRequests{at(sha(1)), at(sha(2), "ok"), at(sha(1), "ok")} {
		if known = merge(known, p, mergeContext{}); takes(t, known[0]) {
			t.Errorf("a commit is approved although the approval was revoked: %v", known[0].Labels)
		}
	}
}

// TestPullRequestsOfADeletedPolicy checks that, after the last ImagePolicy for pull requests is deleted, the list of pull requests remains, but
// their number is not set until they have been read for another ImagePolicy.
func TestPullRequestsOfADeletedPolicy(t *testing.T) {
	for name, edit := range map[string]func(*v1alpha1.GitHubRepository){
		"polled": func(*v1alpha1.GitHubRepository) {}, "suspended": func(r *v1alpha1.GitHubRepository) { r.Spec.Suspend = true },
		"another query": func(r *v1alpha1.GitHubRepository) { r.Spec.Interval = "2h" },
		"without credentials": func(r *v1alpha1.GitHubRepository) {
			r.Spec.CredentialsSecretRef = &v1alpha1.Reference{Name: "missing"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			n := s.stranger()
			s.repo.Label(n, "ok")
			if pr := pull(t, s.poll("shop"), n); !takes(t, pr) {
				t.Fatalf("the commit is not approved: %+v", pr.Labels)
			}
			policy := &v1alpha1.ImagePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "previews"}}
			if err := env.Client.Delete(s.Context(), policy); err != nil {
				t.Fatal(err)
			}
			s.edit("shop", edit)
			r := s.poll("shop")
			if r.Status.OpenPullRequests != nil {
				t.Errorf("%d open pull requests without an ImagePolicy", *r.Status.OpenPullRequests)
			}
			same(t, "the list remains", numbers(r, v1alpha1.PullRequestOpen), []int64{int64(n)})

			s.edit("shop", func(r *v1alpha1.GitHubRepository) {
				r.Spec.Suspend, r.Spec.CredentialsSecretRef = false, &v1alpha1.Reference{Name: "github"}
			})
			s.clock.Step(24 * time.Hour)
			s.repo.Close(n, false)
			s.policy("again", "shop", ofPulls)
			if r, _ = s.pass("shop"); r.Status.OpenPullRequests == nil || *r.Status.OpenPullRequests != 0 {
				t.Errorf("open pull requests after they were read: %v", r.Status.OpenPullRequests)
			}
			same(t, "open", numbers(r, v1alpha1.PullRequestOpen), []int64(nil))
		})
	}
}

// TestApprovalAmongManyLabels checks that a label that previously did not fit into the status does not count
// as new.
func TestApprovalAmongManyLabels(t *testing.T) {
	t.Parallel()
	g := github.PullRequest{Number: 1, State: github.Open, HeadSHA: sha(1), HeadRef: "x", Fork: true, Labels: []string{"ok"}}
	for n := range someLabels {
		g.Labels = append(g.Labels, "area/"+string(rune('a'+n)))
	}
	known := merge(nil, &pullRequests{time: epoch, listed: []github.PullRequest{g}}, mergeContext{})
	g.HeadSHA = sha(2)
	poll := &pullRequests{time: epoch, listed: []github.PullRequest{g}}
	known = merge(known, poll, mergeContext{})
	known = merge(known, poll, mergeContext{wanted: map[string]bool{"ok": true}}) // an ImagePolicy refers to the label now
	if takes(t, known[0]) {
		t.Errorf("the commit is approved: %v", known[0].Labels)
	}
	// A reviewer adds the label again while ImagePolicies refer to it.
	seen := mergeContext{wanted: map[string]bool{"ok": true}, lastRead: map[int64]lastRead{1: {labels: map[string]bool{"ok": true}}}}
	g.Labels = g.Labels[1:]
	known = merge(known, &pullRequests{time: epoch, listed: []github.PullRequest{g}}, seen)
	g.Labels = append(g.Labels, "ok")
	approved := &pullRequests{time: epoch, listed: []github.PullRequest{g}}
	if again := merge(known, approved, seen); !takes(t, again[0]) {
		t.Errorf("the commit is not approved: %v", again[0].Labels)
	}
	seen.gap = true
	if again := merge(known, approved, seen); takes(t, again[0]) {
		t.Errorf("the commit is approved after a gap in polling: %v", again[0].Labels)
	}
}

// TestRenamedLabel checks that a label whose name changes only in case does not approve a later
// commit.
func TestRenamedLabel(t *testing.T) {
	t.Parallel()
	at := func(head string, labels ...string) *pullRequests {
		return &pullRequests{time: epoch, listed: []github.PullRequest{{Number: 1, State: github.Open, HeadSHA: head, HeadRef: "x", Fork: true, Labels: labels}}}
	}
	known := merge(nil, at(sha(1)), mergeContext{})
	for _, p := range []*pullRequests{at(sha(1), "ok"), at(sha(2), "ok"), at(sha(2), "OK")} {
		known = merge(known, p, mergeContext{})
	}
	if takes(t, known[0]) {
		t.Errorf("the commit is approved: %v", known[0].Labels)
	}
}

// TestApprovalWithManyLabels checks that a label approves the head commit of a pull request with many labels only if ImagePolicies referred to the
// label when it was added.
func TestApprovalWithManyLabels(t *testing.T) {
	s := begin(t)
	var labels []string
	for i := range 40 {
		labels = append(labels, fmt.Sprintf("area/%02d", i))
	}
	s.repository("shop")
	choice := v1alpha1.GitHubPullRequests{Forks: &v1alpha1.Forks{Policy: v1alpha1.ForksApproved, Label: "ok"}}
	s.policy("previews", "shop", v1alpha1.GitHubSource{PullRequests: &choice})
	s.poll("shop")
	n := s.repo.Open(githubtest.PullRequest{HeadRef: "patch", Fork: "stranger/shop"})
	s.repo.Label(n, append(labels, "later")...)
	s.poll("shop")
	s.repo.Label(n, append(labels, "later", "ok")...)
	if pr := pull(t, s.poll("shop"), n); !takes(t, pr) {
		t.Errorf("the commit is not approved: %v", pr.Labels)
	}
	other := v1alpha1.GitHubPullRequests{Forks: &v1alpha1.Forks{Policy: v1alpha1.ForksApproved, Label: "later"}}
	s.policy("others", "shop", v1alpha1.GitHubSource{PullRequests: &other})
	for range 2 {
		for _, l := range pull(t, s.poll("shop"), n).Labels {
			if l.Name == "later" && l.SHA != "" {
				t.Errorf("a label to which no ImagePolicy referred has the commit %s", l.SHA)
			}
		}
	}
}

// TestManyLabels checks that labels to which ImagePolicies refer are kept regardless of the number of other
// labels.
func TestManyLabels(t *testing.T) {
	s := begin(t)
	var labels []string
	for n := range 40 {
		labels = append(labels, fmt.Sprintf("area/%02d", n))
	}
	n := s.repo.Open(githubtest.PullRequest{HeadRef: "x", Labels: append(labels, "No-Preview", "preview")})
	s.repository("shop")
	choice := v1alpha1.GitHubPullRequests{Labels: &v1alpha1.PullRequestLabels{All: []string{"preview"}, None: []string{"no-preview"}}}
	s.policy("previews", "shop", v1alpha1.GitHubSource{PullRequests: &choice})
	kept := map[string]bool{}
	for _, l := range pull(t, s.poll("shop"), n).Labels {
		kept[l.Name] = true
	}
	if len(kept) != someLabels || !kept["preview"] || !kept["No-Preview"] {
		t.Errorf("kept labels: %v", kept)
	}
	for i, name := range []string{"more", "others"} {
		choice.Labels.Any = labels[16*i : 16*(i+1)]
		s.policy(name, "shop", v1alpha1.GitHubSource{PullRequests: &choice})
	}
	same(t, "kept labels to which ImagePolicies refer", len(pull(t, s.poll("shop"), n).Labels), 34)
}
