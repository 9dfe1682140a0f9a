package githubrepository

import (
	"fmt"
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github/githubtest"
)

func TestReadsPullRequests(t *testing.T) {
	s := begin(t)
	s.clock.Step(-2 * time.Hour)
	one := s.repo.Open(githubtest.PullRequest{HeadRef: "feature/one", Title: "One", Labels: []string{"preview", "approved"}, Draft: true, Association: "FIRST_TIME_CONTRIBUTOR"})
	at := s.clock.Now()
	s.clock.Step(2 * time.Hour)
	two := s.repo.Open(githubtest.PullRequest{HeadRef: "two", Fork: "stranger/shop"})
	s.repository("shop")
	s.policy("previews", "shop", ofPulls)
	r, next := s.pass("shop")

	same(t, "open", numbers(r, v1alpha1.PullRequestOpen), []int64{int64(two), int64(one)})
	was := s.repo.PullRequest(one)
	same(t, "the first one", pull(t, r, one), v1alpha1.PullRequest{
		Number: 1, State: "Open", HeadRef: "feature/one", HeadSHA: was.HeadSHA, MergeSHA: was.MergeCommitSHA,
		HeadTime: stamp(at), HeadRepo: "acme/shop", BaseRef: "main", Author: "octocat", Association: "FirstTimeContributor",
		Labels: []v1alpha1.PullRequestLabel{{Name: "approved", SHA: was.HeadSHA}, {Name: "preview", SHA: was.HeadSHA}},
		Draft:  true, Title: "One",
	})
	if fork := pull(t, r, two); !fork.Fork || fork.HeadRepo != "stranger/shop" {
		t.Errorf("a fork is %+v", fork)
	}
	same(t, "columns", fmt.Sprint(r.Status.Repository, " ", *r.Status.OpenPullRequests), "acme/shop 2")
	same(t, "Ready", condition(r, "Ready"), "True Succeeded: read 2 open pull requests")
	same(t, "Truncated", condition(r, "Truncated"), "False Complete: all that is wanted is in the status")
	same(t, "generation", r.Status.ObservedGeneration, r.Generation)
	same(t, "events", s.told(), []string{"Normal Succeeded: read 2 open pull requests"})
	same(t, "writes", s.writes, 1)
	if next < 54*time.Second || next > time.Minute {
		t.Errorf("next look in %s, want an interval less up to a tenth", next)
	}
}
