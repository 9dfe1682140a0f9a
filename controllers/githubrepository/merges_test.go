package githubrepository

import (
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/github/githubtest"
)

const routeCommit = "GET /repos/{owner}/{repo}/git/commits/{commit_sha}"

// TestMergeOfThePushBefore checks that the test merge of the previous push, which GitHub lists until the
// pull request is read, does not count, because an image of this merge is an image of the previous push. This
// also applies to forks.
func TestMergeOfThePushBefore(t *testing.T) {
	for name, fork := range map[string]string{"from the repository": "", "from a fork": "stranger/shop"} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			s.repo.SetLateMerges(true)
			n := s.repo.Open(githubtest.PullRequest{HeadRef: "feature", Fork: fork})
			stale := s.repo.PullRequest(n).MergeCommitSHA
			s.repository("shop")
			s.policy("previews", "shop", ofPulls)
			same(t, "merge of the first head", pull(t, s.poll("shop"), n).MergeSHA, stale)

			head := s.repo.Push(n)
			for range 3 {
				got := pull(t, s.poll("shop"), n)
				same(t, "head after a push", got.HeadSHA, head)
				same(t, "merge while GitHub lists the merge of the previous push", got.MergeSHA, "")
			}
			fresh := s.repo.Merge(n)
			same(t, "merge of the second head", pull(t, s.poll("shop"), n).MergeSHA, fresh)

			// The base branch changes, and GitHub has no test merge for a while.
			s.repo.Edit(n, "edited", func(p *githubtest.PullRequest) { p.MergeCommitSHA = "" })
			same(t, "merge while there is none", pull(t, s.poll("shop"), n).MergeSHA, fresh)
			rebased := s.repo.Merge(n)
			same(t, "merge with another base", pull(t, s.poll("shop"), n).MergeSHA, rebased)
			s.restart()
			same(t, "merge after a restart", pull(t, s.poll("shop"), n).MergeSHA, rebased)
		})
	}
}

// TestMergesAreAskedForOnce checks that each commit is requested only once, because it never changes, and
// that a commit without a conclusive response is not requested in every poll.
func TestMergesAreAskedForOnce(t *testing.T) {
	s := begin(t)
	s.repo.SetLateMerges(true)
	s.many(3)
	s.repository("shop")
	s.policy("previews", "shop", ofPulls)
	s.rest("shop")
	same(t, "commits of three heads and their merges", s.github.Count(routeCommit, 200), 6)
	s.repo.Push(1)
	for range 5 {
		s.clock.Step(time.Minute)
		s.pass("shop")
	}
	same(t, "commits after a push", s.github.Count(routeCommit, 200), 7)
}

// TestClosedStaysClosedForAReplicaThatLags checks that a closed pull request is not reopened by the list
// from a lagging replica, but is reopened by a later list after the pull request was reopened on GitHub.
func TestClosedStaysClosedForAReplicaThatLags(t *testing.T) {
	t.Parallel()
	pr := github.PullRequest{Number: 7, State: github.Open, HeadRef: "feature", BaseRef: "main", HeadSHA: sha(1), CreatedAt: epoch, UpdatedAt: epoch}
	open := &pullRequests{time: epoch, listed: []github.PullRequest{pr}}
	known := merge(nil, open, mergeContext{})
	closed := pr
	closed.State, closed.ClosedAt, closed.UpdatedAt = github.Closed, epoch.Add(time.Minute), epoch.Add(time.Minute)
	known = merge(known, &pullRequests{time: epoch.Add(61 * time.Second), asked: map[int64]github.PullRequest{7: closed}}, mergeContext{})
	reopened := pr
	reopened.UpdatedAt = epoch.Add(time.Minute)
	for _, step := range []struct {
		name string
		poll *pullRequests
		want v1alpha1.PullRequestState
	}{
		{"closed", &pullRequests{time: epoch.Add(62 * time.Second)}, v1alpha1.PullRequestClosed},
		{"listed by a replica that lags", open, v1alpha1.PullRequestClosed},
		{"opened again in the same second", &pullRequests{time: epoch.Add(63 * time.Second), listed: []github.PullRequest{reopened}}, v1alpha1.PullRequestOpen},
	} {
		known = merge(known, step.poll, mergeContext{})
		if len(known) != 1 || known[0].State != step.want {
			t.Fatalf("%s: %+v, want state %s", step.name, known, step.want)
		}
	}
}
