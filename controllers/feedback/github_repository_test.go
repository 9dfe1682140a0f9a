package feedback

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github/githubtest"
)

// point changes the GitHubRepository so that it refers to another repository, whose pull requests are known from then on.
func (s *story) point(repo *githubtest.Repository, pulls int) {
	s.Helper()
	s.repo, s.pulls = repo, pulls
	owner, name, _ := strings.Cut(repo.FullName(), "/")
	s.edit(func(g *v1alpha1.GitHubRepository) { g.Spec.Owner, g.Spec.Repo = owner, name })
	s.poll()
}

// ready creates a preview of acme/shop that is reported as ready.
func (s *story) ready() (sha string) {
	s.Helper()
	sha = s.open(feature())
	s.route(groupName, sha, true)
	s.rolloutState(1, groupName, sha+" +active")
	s.settle()
	s.expect("ready", envName+" "+short(sha)+": success")
	return sha
}

// recorded returns the records in the form "repository environment ref: state".
func (s *story) recorded() []string {
	var out []string
	for _, r := range s.get().Status.Feedback {
		out = append(out, r.Repository+" "+r.Environment+" "+short(r.Ref)+": "+string(r.State))
	}
	return out
}

// TestPullRequestsOfADeletedPolicy checks that nothing is reported for pull requests in the status that were not read for the current
// ImagePolicy, and that feedback continues when they have been read.
func TestPullRequestsOfADeletedPolicy(t *testing.T) {
	s := begin(t)
	sha := s.open(feature())
	ghr := s.get()
	ghr.Status.OpenPullRequests = nil
	if err := env.Client.Status().Update(s.Context(), ghr); err != nil {
		t.Fatal(err)
	}
	s.settle()
	s.expect("before the pull requests were read")
	if comments := s.repo.Comments(1); len(comments) != 0 {
		t.Errorf("comments before the pull requests were read: %v", comments)
	}
	s.poll()
	s.settle()
	s.expect("after the pull requests were read", envName+" "+short(sha)+": queued")
}

// TestAnotherRepository checks that feedback in the previous repository is removed, and does not
// count as feedback in the new repository.
func TestAnotherRepository(t *testing.T) {
	s := begin(t)
	sha := s.ready()
	shop, cart := s.repo, s.server.AddRepository("acme/cart")
	cart.Open(githubtest.PullRequest{HeadRef: "other"})
	head := cart.PullRequest(1).HeadSHA
	s.rolloutState(1, groupName)
	s.point(cart, 1)
	s.settle()
	s.expect("in the new one", "web/other-1 "+short(head)+": queued")
	s.commented("in the new one", 1, "**queued**")
	s.repo = shop
	s.expect("in the previous one", envName+" "+short(sha)+": success inactive")
	s.commented("in the previous one", 1, "no longer reported")
	ghr := s.get()
	if diff := cmp.Diff([]string{"acme/cart web/other-1 " + short(head) + ": queued"}, s.recorded()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if c := ghr.Status.Comments; len(c) != 1 || c[0].Repository != "acme/cart" || c[0].RepositoryID != cart.ID() || c[0].Deletions != 0 {
		t.Errorf("comments %+v", c)
	}
	if got := s.condition(); got != allWritten {
		t.Errorf("condition %q", got)
	}
	// After the change is reverted, the same Deployment and the same comment are used again.
	s.rolloutState(1, groupName, sha+" +active")
	s.point(shop, 1)
	s.settle()
	s.expect("back", envName+" "+short(sha)+": success inactive success")
	s.commented("back", 1, "**ready**")
	s.repo = cart
	s.expect("left", "web/other-1 "+short(head)+": queued inactive")
}

// TestNameOfAnother checks that a renamed repository is found by its ID if another repository
// has its previous name.
func TestNameOfAnother(t *testing.T) {
	s := begin(t)
	sha := s.ready()
	shop := s.repo
	shop.Rename("acme/store")
	heir := s.server.AddRepository("acme/shop")
	s.rolloutState(1, groupName)
	s.point(heir, 0)
	s.settle()
	s.expect("in the new one")
	s.repo = shop
	s.expect("in the previous one", envName+" "+short(sha)+": success inactive")
	s.commented("in the previous one", 1, "no longer reported")
	if ghr := s.get(); len(ghr.Status.Feedback)+len(ghr.Status.Comments)+len(ghr.Finalizers) != 0 {
		t.Errorf("feedback remains: %q, %+v, %+v", ghr.Finalizers, ghr.Status.Feedback, ghr.Status.Comments)
	}
}

// TestRenamed checks that feedback is not written again after a repository is renamed.
func TestRenamed(t *testing.T) {
	s := begin(t)
	sha := s.ready()
	s.repo.Rename("acme/store")
	heir := s.server.AddRepository("acme/shop")
	heir.Open(feature())
	// There has been no poll since the rename, and the previous name now belongs to another repository.
	s.route(groupName, sha, false)
	s.settle()
	s.expect("renamed", envName+" "+short(sha)+": success in_progress")
	s.route(groupName, sha, true)
	s.settle()
	if len(heir.Deployments())+len(heir.Comments(1)) != 0 {
		t.Errorf("feedback was written to the repository that now has the name: %+v, %+v", heir.Deployments(), heir.Comments(1))
	}
	s.poll()
	s.server.ResetCounts()
	s.settle()
	if n := s.server.Count("", 0); n != 0 {
		t.Errorf("%d requests for the other name", n)
	}
	if diff := cmp.Diff([]string{"acme/store " + envName + " " + short(sha) + ": success"}, s.recorded()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	s.repo.Close(1, true)
	s.poll()
	s.settle()
	s.expect("closed", envName+" "+short(sha)+": success in_progress success inactive")
	s.commented("closed", 1, "is closed")
}

// TestPreviousRepositoryWithoutAccess checks that, if the credentials have no access to the previous repository, no Deployment is
// recorded as inactive, feedback is written to the new repository, and the previous repository is eventually abandoned, even if retries are
// requested.
func TestPreviousRepositoryWithoutAccess(t *testing.T) {
	s := begin(t)
	sha := s.ready()
	shop, cart := s.repo, s.server.AddRepository("acme/cart")
	shop.SetPrivate(true)
	s.server.AddToken(token, githubtest.Access{Repositories: []string{"acme/cart"}})
	cart.Open(githubtest.PullRequest{HeadRef: "other"})
	head := cart.PullRequest(1).HeadSHA
	s.rolloutState(1, groupName)
	s.point(cart, 1)
	wait := s.settle()
	s.expect("in the new one", "web/other-1 "+short(head)+": queued")
	here, there := "acme/cart web/other-1 "+short(head)+": queued", "acme/shop "+envName+" "+short(sha)+": success"
	if diff := cmp.Diff([]string{there, here}, s.recorded()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if got := s.condition(); !strings.HasPrefix(got, "False NotFound: ") {
		t.Errorf("condition %q", got)
	}
	for try := 1; wait > 0; try++ {
		if try > maxAbandonTries {
			t.Fatalf("the task is retried indefinitely: %s", s.condition())
		}
		if try%2 == 0 {
			s.request(try)
		}
		s.clock.Step(wait)
		wait = s.settle()
	}
	if diff := cmp.Diff([]string{here}, s.recorded()); diff != "" {
		t.Errorf("records after the previous repository was abandoned (-want +got):\n%s", diff)
	}
	if got := s.condition(); got != allWritten {
		t.Errorf("condition %q", got)
	}
	if !strings.Contains(strings.Join(s.events, ","), "Warning FeedbackNotRemoved") {
		t.Errorf("events %q", s.events)
	}
	s.repo = shop
	s.expect("in the previous one", envName+" "+short(sha)+": success")
}

// TestDeletedDeployment checks that the record of a Deployment that was deleted on GitHub is removed after the Deployment has
// been missing on GitHub for a minute.
func TestDeletedDeployment(t *testing.T) {
	s := begin(t)
	s.ready()
	s.repo.DeleteDeployment(s.repo.Deployments()[0].ID)
	s.repo.Close(1, false)
	s.poll()
	for range 20 {
		wait := s.settle()
		if s.recorded() == nil {
			break
		}
		s.clock.Step(wait)
	}
	s.expect("closed")
	if got := s.recorded(); got != nil {
		t.Errorf("records %q", got)
	}
}
