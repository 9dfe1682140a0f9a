package githubrepository

import (
	"testing"
	"time"

	"github.com/heighliner/heighliner/internal/github/githubtest"
)

const routeCommit = "GET /repos/{owner}/{repo}/git/commits/{commit_sha}"

// GitHub lists the trial merge of the push before until the pull request is read: an
// image of that merge is the image of the push before. The same holds for forks.
func TestMergeOfThePushBefore(t *testing.T) {
	for name, fork := range map[string]string{"of the repository": "", "of a fork": "stranger/shop"} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			s.repo.SetLateMerges(true)
			n := s.repo.Open(githubtest.PullRequest{HeadRef: "feature", Fork: fork})
			stale := s.repo.PullRequest(n).MergeCommitSHA
			s.repository("shop")
			s.policy("previews", "shop", ofPulls)
			same(t, "merge of the first head", pull(t, s.look("shop"), n).MergeSHA, stale)

			head := s.repo.Push(n)
			for range 3 {
				got := pull(t, s.look("shop"), n)
				same(t, "head after a push", got.HeadSHA, head)
				same(t, "merge while GitHub lists that of the push before", got.MergeSHA, "")
			}
			fresh := s.repo.Merge(n)
			same(t, "merge of the second head", pull(t, s.look("shop"), n).MergeSHA, fresh)

			// The base branch changes, and GitHub has no merge for a while.
			s.repo.Edit(n, "edited", func(p *githubtest.PullRequest) { p.MergeCommitSHA = "" })
			same(t, "merge while there is none", pull(t, s.look("shop"), n).MergeSHA, fresh)
			rebased := s.repo.Merge(n)
			same(t, "merge with another base", pull(t, s.look("shop"), n).MergeSHA, rebased)
			s.restart()
			same(t, "merge after a restart", pull(t, s.look("shop"), n).MergeSHA, rebased)
		})
	}
}

// A commit never changes: each is asked for once, and one that settles nothing not in
// every look.
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
