package githubrepository

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
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
		HeadTime: timestamp(at), PushTime: timestamp(at), HeadRepo: "acme/shop", BaseRef: "main", Author: "octocat", Association: "FirstTimeContributor",
		Labels: []v1alpha1.PullRequestLabel{{Name: "approved", SHA: was.HeadSHA}, {Name: "preview", SHA: was.HeadSHA}},
		Draft:  true, Title: "One",
	})
	if fork := pull(t, r, two); !fork.Fork || fork.HeadRepo != "stranger/shop" {
		t.Errorf("a fork is %+v", fork)
	}
	same(t, "columns", fmt.Sprint(r.Status.Repository, " ", *r.Status.OpenPullRequests), "acme/shop 2")
	same(t, "Ready", condition(r, "Ready"), "True Succeeded: read 2 open pull requests")
	same(t, "Truncated", condition(r, "Truncated"), "False Complete: the status is complete")
	same(t, "generation", r.Status.ObservedGeneration, r.Generation)
	same(t, "events", s.reported(), []string{"Normal Succeeded: read 2 open pull requests"})
	same(t, "writes", s.writes, 1)
	if next < 54*time.Second || next > time.Minute {
		t.Errorf("next poll in %s, want at most an interval, and at least nine tenths of it", next)
	}
}

// many opens several pull requests, and returns their numbers, highest first.
func (s *story) many(n int) []int64 {
	s.Helper()
	var all []int64
	for i := range n {
		all = append([]int64{int64(s.repo.Open(githubtest.PullRequest{HeadRef: fmt.Sprintf("feature-%d", i)}))}, all...)
	}
	return all
}

// TestLosesNone checks that all pull requests on three pages are in the status, and that no pull request is lost after
// a failure.
func TestLosesNone(t *testing.T) {
	s := begin(t)
	all := s.many(201)
	s.repository("shop")
	s.policy("previews", "shop", ofPulls)
	r := s.rest("shop")
	same(t, "known", numbers(r, v1alpha1.PullRequestOpen), all)
	for _, pr := range r.Status.PullRequests {
		if pr.HeadTime == nil {
			t.Fatalf("the head of pull request %d has no time", pr.Number)
		}
	}
	known := r.Status.PullRequests
	for name, fault := range map[string]githubtest.Fault{
		"first page":            {Route: routePulls, Page: 1, Answer: githubtest.ServerError},
		"second page":           {Route: routePulls, Page: 2, Answer: githubtest.BadGateway},
		"third page":            {Route: routePulls, Page: 3, Answer: githubtest.Unavailable},
		"no such list":          {Route: routePulls, Answer: githubtest.NotFound},
		"no such page":          {Route: routePulls, Page: 3, Answer: githubtest.NotFound},
		"no repository":         {Route: routeRepo, Answer: githubtest.NotFound},
		"GitHub is down":        {Answer: githubtest.Unavailable},
		"secondary limit":       {Route: routePulls, Page: 2, Answer: githubtest.SecondaryLimit, RetryAfter: time.Second},
		"rate limited with 429": {Route: routePulls, Page: 3, Answer: githubtest.SecondaryLimit429, RetryAfter: time.Second},
		"no pull requests":      {Route: routePull, Answer: githubtest.NotFound},
	} {
		s.github.Fail(fault)
		for _, restarts := range []bool{false, true} {
			if restarts {
				s.restart()
			}
			s.clock.Step(10 * time.Minute)
			r, _ = s.pass("shop")
			same(t, fmt.Sprintf("%s, restart %t", name, restarts), r.Status.PullRequests, known)
			if name != "no pull requests" {
				wantCondition(t, r, "Ready", "False")
			}
		}
		s.github.Heal()
		s.clock.Step(10 * time.Minute)
		s.pass("shop")
	}
	s.down.Store(true)
	s.clock.Step(10 * time.Minute)
	r, _ = s.pass("shop")
	same(t, "no connection", r.Status.PullRequests, known)
	wantCondition(t, r, "Ready", "False Unreachable")
	wantCondition(t, r, "Reconciling", "True Unreachable")
	s.restart()
	r, _ = s.pass("shop")
	same(t, "no connection after a restart", r.Status.PullRequests, known)
	s.down.Store(false)
	r = s.poll("shop")
	same(t, "at the end", r.Status.PullRequests, known)
	wantCondition(t, r, "Ready", "True")
}

func TestSteadyStateCostsNothing(t *testing.T) {
	s := begin(t)
	s.many(101)
	s.repo.Publish(githubtest.Release{Tag: "v1.0.0"})
	s.repo.Tag("v1.0.0")
	s.repository("shop")
	s.policy("previews", "shop", ofPulls)
	s.policy("releases", "shop", ofReleases)
	s.policy("tags", "shop", ofTags)
	version := s.rest("shop").ResourceVersion
	s.reported()
	used, writes := s.github.Used("good"), s.writes
	s.github.ResetCounts()
	for range 10 {
		if got := s.poll("shop").ResourceVersion; got != version {
			t.Fatalf("a poll without changes wrote the status: version %s, was %s", got, version)
		}
	}
	same(t, "writes", s.writes, writes)
	same(t, "requests counted against the limit", s.github.Used("good"), used)
	for what, n := range s.github.Counts() {
		if what.Status != 304 {
			t.Errorf("%d times %v", n, what)
		}
	}
	same(t, "lists in ten polls of two pages", s.github.Count(routePulls, 304), 20)
	same(t, "events", s.reported(), []string(nil))
	s.restart()
	same(t, "version after a restart", s.poll("shop").ResourceVersion, version)
}

// TestClosed checks that a pull request counts as closed only after GitHub responds to a request for it,
// that a closed pull request is kept for a day, and that it can be opened again.
func TestClosed(t *testing.T) {
	s := begin(t)
	s.many(2)
	s.repository("shop")
	s.policy("previews", "shop", ofPulls)
	before := s.rest("shop")
	s.down.Store(true)
	s.repo.Close(1, true)
	closed := s.clock.Now()
	r := s.poll("shop")
	same(t, "while GitHub is down", r.Status.PullRequests, before.Status.PullRequests)
	s.down.Store(false)
	s.github.Fail(githubtest.Fault{Route: routePull, Answer: githubtest.NotFound, Times: 1})
	r = s.poll("shop")
	same(t, "while GitHub does not find the number", numbers(r, v1alpha1.PullRequestOpen), []int64{2, 1})
	same(t, "requests while the state is unclear", s.github.Count(routePull, 404), 1)
	s.poll("shop")
	same(t, "further requests within ten minutes", s.github.Count(routePull, 200), 0)
	s.clock.Step(unsettledDelay)
	r = s.poll("shop")
	want := pull(t, before, 1)
	want.State, want.ClosedTime = "Closed", timestamp(closed)
	same(t, "closed", pull(t, r, 1), want)
	same(t, "open pull requests", *r.Status.OpenPullRequests, int32(1))
	version := r.ResourceVersion
	same(t, "requests for the closed pull request", s.github.Count(routePull, 200), 1)
	same(t, "version of later polls", s.poll("shop").ResourceVersion, version)
	same(t, "further requests for the closed pull request", s.github.Count(routePull, 200), 1)

	s.repo.Reopen(1)
	r = s.poll("shop")
	same(t, "opened again", numbers(r, v1alpha1.PullRequestOpen), []int64{2, 1})
	if pull(t, r, 1).ClosedTime != nil {
		t.Error("an open pull request has a closing time")
	}
	s.repo.Close(1, false)
	s.poll("shop")
	s.offer("previews", 1)
	s.clock.Step(2 * keepClosed)
	r = s.poll("shop")
	same(t, "closed while it is offered", numbers(r, v1alpha1.PullRequestClosed), []int64{1})
	s.offer("previews", 2)
	r = s.poll("shop")
	same(t, "closed when no policy offers it", numbers(r, v1alpha1.PullRequestClosed), []int64(nil))
}

// offer makes an ImagePolicy offer only one pull request.
func (s *story) offer(policy string, number int64) {
	s.Helper()
	p := &v1alpha1.ImagePolicy{}
	if err := env.Client.Get(s.Context(), s.key(policy), p); err != nil {
		s.Fatal(err)
	}
	p.Status.Releases = []v1alpha1.OfferedRelease{{
		Group: fmt.Sprint("feature-", number), PullRequest: number, Level: v1alpha1.LevelPreview,
		SemVer: v1alpha1.SemVer{Name: "feature", Version: "0000000000000000000000000000000000000000"},
		Images: []v1alpha1.ReleaseImage{{Image: "registry.example.com/shop:a@sha256:a", Digest: "sha256:a"}},
	}}
	if err := env.Client.Status().Update(s.Context(), p); err != nil {
		s.Fatal(err)
	}
}

// TestManyClosedTogether checks that any number of missing pull requests are requested in bounded batches.
func TestManyClosedTogether(t *testing.T) {
	s := begin(t)
	s.many(45)
	s.repository("shop")
	s.policy("previews", "shop", ofPulls)
	s.rest("shop")
	for n := range 45 {
		s.repo.Close(n+1, false)
	}
	for _, want := range []int{25, 5, 0} {
		s.clock.Step(continueDelay)
		if want == 25 {
			s.clock.Step(time.Minute)
		}
		r, _ := s.pass("shop")
		same(t, "open", len(numbers(r, v1alpha1.PullRequestOpen)), want)
	}
	same(t, "requests", s.github.Count(routePull, 200), 45)
}

func TestLifeOfAPullRequest(t *testing.T) {
	s := begin(t)
	n := s.repo.Open(githubtest.PullRequest{HeadRef: "feature", Fork: "stranger/shop", Draft: true})
	first := s.repo.PullRequest(n).HeadSHA
	s.repository("shop")
	s.policy("previews", "shop", ofPulls)
	r, _ := s.pass("shop")
	same(t, "draft", pull(t, r, n).Draft, true)

	s.repo.SetDraft(n, false)
	s.repo.Label(n, "preview")
	r = s.poll("shop")
	same(t, "draft", pull(t, r, n).Draft, false)
	same(t, "label on the first head", pull(t, r, n).Labels, []v1alpha1.PullRequestLabel{{Name: "preview", SHA: first}})

	s.clock.Step(10 * time.Second)
	second := s.repo.Push(n)
	pushed := s.clock.Now()
	r = s.poll("shop")
	same(t, "head", pull(t, r, n).HeadSHA, second)
	same(t, "time of a push with a new commit", pull(t, r, n).HeadTime, timestamp(pushed))
	same(t, "a label stays on the commit that it approved", pull(t, r, n).Labels, []v1alpha1.PullRequestLabel{{Name: "preview", SHA: first}})

	saw := s.clock.Now()
	s.clock.Step(10 * time.Second)
	s.repo.Edit(n, "synchronize", func(p *githubtest.PullRequest) { p.HeadSHA = first })
	r = s.poll("shop")
	same(t, "head after a force push", pull(t, r, n).HeadSHA, first)
	same(t, "time of the head: the last poll that saw another head", pull(t, r, n).HeadTime, timestamp(saw))

	s.repo.Label(n)
	r = s.poll("shop")
	same(t, "label removed", pull(t, r, n).Labels, []v1alpha1.PullRequestLabel(nil))
	s.repo.Label(n, "preview")
	third := s.repo.Push(n)
	r = s.poll("shop")
	same(t, "label added between two polls, as the head changed", pull(t, r, n).Labels, []v1alpha1.PullRequestLabel{{Name: "preview"}})
	s.repo.Label(n)
	s.poll("shop")
	s.repo.Label(n, "preview")
	r = s.poll("shop")
	same(t, "label added again", pull(t, r, n).Labels, []v1alpha1.PullRequestLabel{{Name: "preview", SHA: third}})

	s.repo.DeleteFork(n)
	s.repo.DeleteAuthor(n)
	r = s.poll("shop")
	got := pull(t, r, n)
	same(t, "deleted fork and ghost", fmt.Sprintf("%t %q %q", got.Fork, got.HeadRepo, got.Author), `true "" ""`)
	wantCondition(t, r, "Ready", "True")
}

// TestClosedWhileItWasMadeAgain checks that a GitHubRepository that was deleted and created again requests
// the pull requests that an ImagePolicy offers but that are missing from the list.
func TestClosedWhileItWasMadeAgain(t *testing.T) {
	s := begin(t)
	s.many(2)
	s.repository("shop")
	s.policy("previews", "shop", ofPulls)
	s.rest("shop")
	s.offer("previews", 1)
	s.remove("shop")
	s.repo.Close(1, true)
	s.repository("shop")
	for range 5 {
		s.poll("shop")
	}
	r := s.rest("shop")
	same(t, "closed, while an ImagePolicy offers it", numbers(r, v1alpha1.PullRequestClosed), []int64{1})
	same(t, "requests by number", s.github.Count(routePull, 200), 1)
}

// TestUnobservedReplacement checks that a GitHubRepository that replaced another one with the same specification, while no reconcile
// observed this, is polled again, and that its status is complete.
func TestUnobservedReplacement(t *testing.T) {
	s := begin(t)
	s.many(2)
	s.repository("shop")
	s.policy("previews", "shop", ofPulls)
	s.rest("shop")
	if err := env.Client.Delete(t.Context(), s.get("shop")); err != nil {
		t.Fatal(err)
	}
	s.repository("shop")
	s.many(1)
	s.reconciler.polls.hint(s.key("shop"), nil) // a delivery before the first reconcile of the new GitHubRepository
	r, _ := s.pass("shop")
	same(t, "open", numbers(r, v1alpha1.PullRequestOpen), []int64{3, 2, 1})
	same(t, "repository", r.Status.Repository, "acme/shop")
}

// TestBranchWithoutAName checks that a pull request whose branch name is displayed as a space does not affect
// other pull requests. Git allows such names.
func TestBranchWithoutAName(t *testing.T) {
	s := begin(t)
	s.many(2)
	s.repository("shop")
	s.policy("previews", "shop", ofPulls)
	s.rest("shop")
	odd := s.repo.Open(githubtest.PullRequest{HeadRef: "\u3000", Fork: "stranger/shop"})
	n := s.repo.Open(githubtest.PullRequest{HeadRef: "fine"})
	pushed := s.repo.Push(1)
	s.poll("shop")
	r := s.poll("shop")
	same(t, "Ready", condition(r, "Ready"), "True Succeeded: read 3 open pull requests; omitted because the branch name cannot be displayed: pull request 3")
	same(t, "known", numbers(r, v1alpha1.PullRequestOpen), []int64{int64(n), 2, 1})
	same(t, "head of 1", pull(t, r, 1).HeadSHA, pushed)

	before := pull(t, r, n)
	s.repo.Edit(n, "edited", func(p *githubtest.PullRequest) { p.HeadRef = "\u2028" }) // a pull request that was known before
	s.repo.Push(n)
	r = s.poll("shop")
	same(t, "pull request that was known before", pull(t, r, n), before)
	same(t, "requests by number", s.github.Count(routePull, 200), 0)
	s.repo.Close(n, false)
	s.repo.Close(odd, false)
	r = s.poll("shop")
	same(t, "closed", numbers(r, v1alpha1.PullRequestClosed), []int64{int64(n)})
	same(t, "Ready", condition(r, "Ready"), "True Succeeded: read 2 open pull requests")
}

func TestRenamedRepository(t *testing.T) {
	s := begin(t)
	s.many(3)
	s.repository("shop")
	s.policy("previews", "shop", ofPulls)
	before := s.rest("shop")
	s.repo.Rename("acme/store")
	s.clock.Step(credentialCheckInterval)
	r := s.poll("shop")
	same(t, "name", r.Status.Repository, "acme/store")
	same(t, "known", heads(r), heads(before))
	same(t, "repository of a head", pull(t, r, 1).HeadRepo, "acme/store")
	wantCondition(t, r, "Ready", "True")
	if reported := s.reported(); reported[len(reported)-1] != "Normal Renamed: the repository was renamed from acme/shop to acme/store" {
		t.Errorf("reported %q", reported)
	}
	s.edit("shop", func(r *v1alpha1.GitHubRepository) { r.Spec.Repo = "store" })
	r = s.poll("shop")
	same(t, "known by the new name", heads(r), heads(before))
}

// heads returns the head commits of the open pull requests.
func heads(r *v1alpha1.GitHubRepository) []string {
	var all []string
	for _, pr := range r.Status.PullRequests {
		if pr.State == v1alpha1.PullRequestOpen {
			all = append(all, fmt.Sprint(headOf(pr.Number, pr.HeadSHA), " since ", pr.HeadTime))
		}
	}
	return all
}

// TestAnotherRepository checks that pull requests in another repository count as different pull requests even if they have
// the same numbers.
func TestAnotherRepository(t *testing.T) {
	s := begin(t)
	s.many(3)
	s.repository("shop")
	s.policy("previews", "shop", ofPulls)
	s.rest("shop")
	other := s.github.AddRepository("acme/cart")
	other.Open(githubtest.PullRequest{HeadRef: "cart", Labels: []string{"preview"}})
	s.edit("shop", func(r *v1alpha1.GitHubRepository) { r.Spec.Repo = "cart" })
	s.github.Fail(githubtest.Fault{Route: routePulls, Answer: githubtest.ServerError})
	r := s.poll("shop")
	same(t, "while the list fails", numbers(r, v1alpha1.PullRequestOpen), []int64{3, 2, 1})
	s.github.Heal()
	r = s.poll("shop")
	same(t, "open", numbers(r, v1alpha1.PullRequestOpen), []int64{1})
	same(t, "closed", numbers(r, v1alpha1.PullRequestClosed), []int64{3, 2})
	same(t, "head", pull(t, r, 1).HeadSHA, other.PullRequest(1).HeadSHA)
	for _, line := range s.reported() {
		if strings.Contains(line, "Renamed") {
			t.Errorf("reported %q", line)
		}
	}
}

// TestPullRequestsBeyondTheStatus checks that commits of pull requests that do not fit into the status are read only once, and that they
// do not delay the commits of known pull requests.
func TestPullRequestsBeyondTheStatus(t *testing.T) {
	s := begin(t)
	var labels []string
	for n := range someLabels {
		labels = append(labels, fmt.Sprintf("%02d%s", n, strings.Repeat("x", maxLabel-2)))
	}
	all := s.many(140)
	for _, n := range all {
		s.repo.Label(int(n), labels...)
	}
	s.clock.Step(time.Minute)
	s.repo.Push(1) // now has the last push, and fits into the status
	s.repository("shop")
	s.policy("previews", "shop", ofPulls)
	r := s.rest("shop")
	if omitted := len(all) - len(numbers(r, v1alpha1.PullRequestOpen)); omitted <= maxReads {
		t.Fatalf("%d pull requests are omitted, want more than %d", omitted, maxReads)
	}
	same(t, "head of 1", pull(t, r, 1).HeadSHA, s.repo.PullRequest(1).HeadSHA)
	s.github.ResetCounts()
	for _, wait := range []time.Duration{time.Minute, 2 * answerLifetime} {
		s.clock.Step(wait)
		if _, next := s.pass("shop"); next <= continueDelay {
			t.Errorf("polls again after %s, although nothing has changed", next)
		}
	}
	same(t, "commits that are read again", s.github.Count(routeCommit, 0), 0)

	s.restart()
	s.repo.Push(1)
	r, next := s.pass("shop")
	same(t, "merge of the push", pull(t, r, 1).MergeSHA, s.repo.PullRequest(1).MergeCommitSHA)
	if pull(t, r, 1).HeadTime == nil {
		t.Error("the head commit of the push was not read in the first poll")
	}
	same(t, "time until the next poll reads more commits", next, continueDelay)
}

// TestCommitsOfReleasesAmongManyTags checks that the status contains the commit of a release even if it cannot contain all tags.
func TestCommitsOfReleasesAmongManyTags(t *testing.T) {
	s := begin(t)
	s.repo.Tag("v1.0.0")
	s.repo.Publish(githubtest.Release{Tag: "v1.0.0"})
	for n := range maxTags {
		s.repo.Tag(fmt.Sprintf("v2.0.%d", n))
	}
	s.repository("shop")
	s.policy("releases", "shop", ofReleases, func(p *v1alpha1.ImagePolicy) {
		p.Spec.Match = &v1alpha1.Match{Labels: []v1alpha1.LabelMatch{{Name: "a", Value: "{{.SHA}}"}}}
	})
	tags := s.poll("shop").Status.Tags
	same(t, "tags", len(tags), maxTags)
	same(t, "the lowest tag", tags[len(tags)-1].Name, "v1.0.0")
}

// TestCommitsOfReleases checks that, for releases, tags are read only if the commits of the releases are needed. The tags contain these
// commits.
func TestCommitsOfReleases(t *testing.T) {
	for name, test := range map[string]struct {
		labels   []v1alpha1.LabelMatch
		feedback *v1alpha1.Feedback
		want     []string
	}{
		"not needed":      {[]v1alpha1.LabelMatch{{Name: "a", Value: "{{.Tag}}"}}, &v1alpha1.Feedback{}, nil},
		"for a label":     {[]v1alpha1.LabelMatch{{Name: "a", Value: "{{.SHA}}"}}, nil, []string{"v1.0.0"}},
		"for deployments": {nil, &v1alpha1.Feedback{Deployments: v1alpha1.FeedbackDeployments{Releases: true}}, []string{"v1.0.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			s.repo.Tag("v1.0.0")
			s.repo.Tag("other")
			s.repo.Publish(githubtest.Release{Tag: "v1.0.0"})
			s.repository("shop", func(r *v1alpha1.GitHubRepositorySpec) { r.Feedback = test.feedback })
			s.policy("releases", "shop", ofReleases, func(p *v1alpha1.ImagePolicy) {
				p.Spec.Match = &v1alpha1.Match{Labels: test.labels, Name: &v1alpha1.NameMatch{From: `^v(.*)$`, To: "$1"}}
			})
			r := s.poll("shop")
			var tags []string
			for _, tag := range r.Status.Tags {
				tags = append(tags, tag.Name)
			}
			same(t, "tags", tags, test.want)
			same(t, "releases", len(r.Status.Releases), 1)
		})
	}
}

// TestRenamedWithTheSpecification checks that a repository that is renamed both on GitHub and in the
// specification, once or twice, counts as the same repository.
func TestRenamedWithTheSpecification(t *testing.T) {
	for name, rename := range map[string]func(*story){
		"both at the same time": func(s *story) {
			s.repo.Rename("acme/store")
			s.edit("shop", func(r *v1alpha1.GitHubRepository) { r.Spec.Repo = "store" })
		},
		"twice": func(s *story) {
			s.repo.Rename("acme/b")
			s.poll("shop")
			s.repo.Rename("acme/c")
		},
		"twice between two polls": func(s *story) {
			s.repo.Rename("acme/b")
			s.repo.Rename("acme/c")
			s.edit("shop", func(r *v1alpha1.GitHubRepository) { r.Spec.Repo = "c" })
		},
		"the previous name belongs to another repository": func(s *story) {
			s.repo.Rename("acme/store")
			s.github.AddRepository("acme/shop").Open(githubtest.PullRequest{HeadRef: "evil"})
			s.edit("shop", func(r *v1alpha1.GitHubRepository) { r.Spec.Repo = "store" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			s.many(3)
			s.repository("shop")
			s.policy("previews", "shop", ofPulls)
			before := s.rest("shop")
			rename(s)
			r := s.poll("shop")
			same(t, "known", heads(r), heads(before))
			same(t, "ID", r.Status.RepositoryID, before.Status.RepositoryID)
			wantCondition(t, r, "Ready", "True")
		})
	}
}

// TestReplacedRepository checks that another repository with the same name is not read until a user confirms the change.
func TestReplacedRepository(t *testing.T) {
	s := begin(t)
	s.many(3)
	s.repo.Tag("v1.0.0")
	s.repository("shop")
	s.policy("previews", "shop", ofPulls)
	s.policy("tags", "shop", ofTags)
	before := s.rest("shop")
	s.repo.Rename("acme2/shop")
	r := s.poll("shop")
	same(t, "renamed", r.Status.Repository, "acme2/shop")

	stranger := s.github.AddRepository("acme/shop")
	stranger.Open(githubtest.PullRequest{HeadRef: "evil"})
	n := stranger.Open(githubtest.PullRequest{HeadRef: "evil"})
	stranger.Close(n, false)
	stranger.Tag("v6.6.6")
	for range 3 {
		s.edit("shop", func(r *v1alpha1.GitHubRepository) {
			metav1.SetMetaDataAnnotation(&r.ObjectMeta, v1alpha1.AnnotationRequestedAt, s.clock.Now().String())
			r.Spec.Interval = "59s"
		})
		r = s.poll("shop")
		wantCondition(t, r, "Stalled", "True RepositoryReplaced: spec.owner, spec.repo: acme/shop is now another repository: its ID is ")
		same(t, "known", heads(r), heads(before))
		same(t, "tags", r.Status.Tags, before.Status.Tags)
		same(t, "ID", r.Status.RepositoryID, before.Status.RepositoryID)
		s.restart()
	}

	s.edit("shop", func(r *v1alpha1.GitHubRepository) { r.Spec.Owner = "acme2" })
	r = s.poll("shop")
	wantCondition(t, r, "Ready", "True")
	same(t, "known by the new name", heads(r), heads(before))

	s.edit("shop", func(r *v1alpha1.GitHubRepository) { r.Spec.Owner = "acme" }) // the user's confirmation
	r = s.poll("shop")
	same(t, "open in the other repository", numbers(r, v1alpha1.PullRequestOpen), []int64{1})
	same(t, "closed, from the previous repository", numbers(r, v1alpha1.PullRequestClosed), []int64{3, 2})
}

// TestReplacedInTheMiddleOfAPoll checks that pull requests are rejected if another repository takes over the
// name of the repository between two requests in one poll.
func TestReplacedInTheMiddleOfAPoll(t *testing.T) {
	s := begin(t)
	s.many(3)
	s.repository("shop")
	s.policy("previews", "shop", ofPulls)
	before := s.rest("shop")
	a := &poller{poll: &poll{repository: &github.Repository{ID: before.Status.RepositoryID}, pulls: &pullRequests{}}}
	if a.isForeign(&github.PullRequest{Number: 1, RepositoryID: before.Status.RepositoryID}) || a.err != nil {
		t.Errorf("a delivery for the repository is attributed to another repository: %v", a.err)
	}
	if !a.isForeign(&github.PullRequest{Number: 1, RepositoryID: 1}) || a.pulls != nil || !transient(a.err) {
		t.Errorf("a delivery for another repository is accepted: %v", a.err)
	}
}

func TestCredentials(t *testing.T) {
	s := begin(t)
	s.many(1)
	s.repository("shop", func(r *v1alpha1.GitHubRepositorySpec) { r.CredentialsSecretRef.Name = "absent" })
	s.policy("previews", "shop", ofPulls)
	r, next := s.pass("shop")
	wantCondition(t, r, "Stalled", `True SecretNotFound: spec.credentialsSecretRef.name: Secret "absent" not found in this namespace`)
	same(t, "polls again after the interval", next, time.Minute)
	s.secret("absent", "tokens", "good")
	wantCondition(t, s.poll("shop"), "Stalled", `True InvalidSecret: spec.credentialsSecretRef.name: Secret "absent": `)
	same(t, "requests without a credential", len(s.github.Counts()), 0)

	s.secret("absent", "token", "wrong")
	r = s.poll("shop")
	wantCondition(t, r, "Stalled", "True Unauthorized: ")
	same(t, "known without access to the repository", len(r.Status.PullRequests), 0)
	s.secret("absent", "token", "good")
	r = s.poll("shop")
	wantCondition(t, r, "Ready", "True Succeeded")
	same(t, "known", numbers(r, v1alpha1.PullRequestOpen), []int64{1})

	s.github.RevokeToken("good")
	r = s.poll("shop")
	wantCondition(t, r, "Ready", "False Unauthorized: ")
	same(t, "known without a credential", numbers(r, v1alpha1.PullRequestOpen), []int64{1})
	s.github.AddToken("rotated", githubtest.Access{})
	s.secret("absent", "token", "rotated")
	wantCondition(t, s.poll("shop"), "Ready", "True Succeeded")
}

// TestTenantsAreIsolated checks that a user without permission for a repository does not see the
// responses to requests that use another user's credential.
func TestTenantsAreIsolated(t *testing.T) {
	s := begin(t)
	s.repo.SetPrivate(true)
	s.many(1)
	s.github.AddRepository("evil/shop")
	s.github.AddToken("evil", githubtest.Access{Repositories: []string{"evil/shop"}})
	s.secret("evil", "token", "evil")
	s.repository("shop")
	s.repository("evil", func(r *v1alpha1.GitHubRepositorySpec) { r.CredentialsSecretRef.Name = "evil" })
	s.repository("anonymous", func(r *v1alpha1.GitHubRepositorySpec) { r.CredentialsSecretRef = nil })
	for _, name := range []string{"shop", "evil", "anonymous"} {
		s.policy(name, name, ofPulls)
	}
	for range 2 {
		r := s.poll("shop")
		same(t, "known to its owner", numbers(r, v1alpha1.PullRequestOpen), []int64{1})
		for _, name := range []string{"evil", "anonymous"} {
			r := s.poll(name)
			wantCondition(t, r, "Ready", "False NotFound: ")
			same(t, "known by "+name, len(r.Status.PullRequests), 0)
			same(t, "name that is known to "+name, r.Status.Repository, "")
		}
	}
}

// TestNothingIsAskedTwice checks that several GitHubRepositories with the same repository and credential share requests.
func TestNothingIsAskedTwice(t *testing.T) {
	s := begin(t)
	s.many(3)
	for _, name := range []string{"one", "two", "three"} {
		s.repository(name)
		for i := range 3 {
			s.policy(fmt.Sprint(name, "-", i), name, ofPulls)
		}
	}
	for range 5 {
		s.clock.Step(time.Minute)
		for _, name := range []string{"one", "two", "three"} {
			r, _ := s.pass(name)
			same(t, "known by "+name, numbers(r, v1alpha1.PullRequestOpen), []int64{3, 2, 1})
		}
	}
	same(t, "lists", s.github.Count(routePulls, 200)+s.github.Count(routePulls, 304), 5)
	same(t, "reads of commits", s.github.Count(routeCommit, 200), 6)
}

func TestLimits(t *testing.T) {
	for name, test := range map[string]struct {
		limit  func(*story)
		reason string
		pause  time.Duration // minimum wait
	}{
		"hourly limit": {func(s *story) { s.github.SetLimit("good", 5000, 0, 30*time.Minute) }, "RateLimited", 29 * time.Minute},
		"hourly limit with 429": {func(s *story) {
			s.github.LimitBy429()
			s.github.SetLimit("good", 5000, 0, 30*time.Minute)
		}, "RateLimited", 29 * time.Minute},
		"the reserve": {func(s *story) { s.github.SetLimit("good", 5000, 499, 30*time.Minute) }, "Reserved", 29 * time.Minute},
		"secondary limit": {func(s *story) {
			s.github.Fail(githubtest.Fault{Answer: githubtest.SecondaryLimit, Times: 1, RetryAfter: 10 * time.Minute})
		}, "RateLimited", 10 * time.Minute},
		"secondary limit with 429": {func(s *story) {
			s.github.Fail(githubtest.Fault{Answer: githubtest.SecondaryLimit429, Times: 1, RetryAfter: 10 * time.Minute})
		}, "RateLimited", 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			s.many(1)
			s.repository("shop")
			s.repository("twin", func(r *v1alpha1.GitHubRepositorySpec) { r.Interval = "5m" })
			s.policy("previews", "shop", ofPulls)
			s.policy("twins", "twin", ofPulls)
			before := s.rest("shop")
			s.pass("twin")
			test.limit(s)
			s.many(1) // without a change, GitHub responds with 304, which costs nothing
			s.poll("shop")
			r := s.poll("shop")
			wantCondition(t, r, "RateLimited", "True "+test.reason)
			wantCondition(t, r, "Reconciling", "True "+test.reason)
			same(t, "known", pull(t, r, 1), pull(t, before, 1))
			_, next := s.pass("shop")
			if next < test.pause-3*time.Minute || next > 31*time.Minute {
				t.Errorf("polls again after %s, want the end of the pause of %s", next, test.pause)
			}
			s.github.ResetCounts()
			s.clock.Step(5 * time.Minute)
			s.pass("shop")
			twin, _ := s.pass("twin")
			wantCondition(t, twin, "RateLimited", "True "+test.reason)
			same(t, "requests during the pause", len(s.github.Counts()), 0)
			s.clock.Step(next)
			r, _ = s.pass("shop")
			wantCondition(t, r, "RateLimited", "False NotLimited")
			same(t, "known after the pause", numbers(r, v1alpha1.PullRequestOpen), []int64{2, 1})
		})
	}
}

// TestOnlyRequiredPartsAreRead checks that only the parts that ImagePolicies read are requested, and that the
// credential is always checked.
func TestOnlyRequiredPartsAreRead(t *testing.T) {
	s := begin(t)
	s.many(1)
	for _, tag := range []string{"v1.9.0", "v1.10.0", "cart/v1.0.0", "v1.2.0"} {
		s.repo.Tag(tag)
	}
	s.repo.Publish(githubtest.Release{Tag: "v1.9.0"})
	s.clock.Step(time.Minute)
	s.repo.Publish(githubtest.Release{Tag: "v1.10.0-rc.1", Prerelease: true})
	s.repo.Publish(githubtest.Release{Tag: "v2.0.0", Draft: true})
	s.repository("shop")
	r, next := s.pass("shop")
	same(t, "Ready", condition(r, "Ready"), "True Succeeded: GitHub is reachable; no ImagePolicy that is allowed to use this repository reads from it")
	if next < 9*time.Minute {
		t.Errorf("polls again after %s, although no policy reads the result", next)
	}
	same(t, "requests", len(s.github.Counts()), 1)

	s.policy("tags", "shop", ofTags, func(p *v1alpha1.ImagePolicy) {
		p.Spec.Match = &v1alpha1.Match{Name: &v1alpha1.NameMatch{From: `v(.*)`, To: "$1"}}
	})
	s.policy("releases", "shop", ofReleases)
	r = s.poll("shop")
	var tags, releases []string
	for _, tag := range r.Status.Tags {
		tags = append(tags, tag.Name)
	}
	for _, release := range r.Status.Releases {
		releases = append(releases, fmt.Sprint(release.Tag, " ", release.Prerelease))
	}
	same(t, "tags that a policy selects", tags, []string{"v1.10.0", "v1.9.0", "v1.2.0"})
	same(t, "releases", releases, []string{"v1.10.0-rc.1 true", "v1.9.0 false"})
	same(t, "lists of pull requests", s.github.Count(routePulls, 200), 0)
	same(t, "Ready", condition(r, "Ready"), "True Succeeded: read 2 releases, 3 tags")

	p := &v1alpha1.ImagePolicy{}
	p.Namespace, p.Name = s.namespace, "tags"
	if err := env.Client.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r = s.poll("shop")
	same(t, "tags that no policy selects", len(r.Status.Tags), 0)
	same(t, "releases", len(r.Status.Releases), 2)
}

// TestAllowedNamespaces checks that ImagePolicies in other namespaces count only if the repository allows
// these namespaces.
func TestAllowedNamespaces(t *testing.T) {
	s := begin(t)
	s.many(1)
	s.repository("shop")
	other := env.Namespace(t)
	p := &v1alpha1.ImagePolicy{}
	p.Namespace, p.Name = other, "previews"
	from := ofPulls
	from.RepositoryRef = v1alpha1.NamespacedReference{Namespace: s.namespace, Name: "shop"}
	p.Spec.Image, p.Spec.Source = "registry.example.com/shop", &v1alpha1.ImageSource{GitHub: &from}
	s.create(p)
	for _, test := range []struct {
		name    string
		allowed *v1alpha1.AllowedNamespaces
		reads   bool
	}{
		{"allowedNamespaces not set", nil, false},
		{"all", &v1alpha1.AllowedNamespaces{From: "All"}, true},
		{"same", &v1alpha1.AllowedNamespaces{From: "Same"}, false},
		{"by label", selector("kubernetes.io/metadata.name", other), true},
		{"by another label", selector("kubernetes.io/metadata.name", s.namespace), false},
	} {
		s.edit("shop", func(r *v1alpha1.GitHubRepository) { r.Spec.AllowedNamespaces = test.allowed })
		s.github.ResetCounts()
		s.poll("shop")
		if reads := s.github.Count(routePulls, 200)+s.github.Count(routePulls, 304) > 0; reads != test.reads {
			t.Errorf("%s: reads %t", test.name, reads)
		}
	}
}

func selector(key, value string) *v1alpha1.AllowedNamespaces {
	return &v1alpha1.AllowedNamespaces{From: v1alpha1.NamespacesSelector, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}
}

func TestAskedForAPoll(t *testing.T) {
	s := begin(t)
	s.many(1)
	s.repository("shop")
	s.policy("previews", "shop", ofPulls)
	s.pass("shop")
	s.many(1)
	r, _ := s.pass("shop")
	same(t, "known before the interval", len(r.Status.PullRequests), 1)
	s.edit("shop", func(r *v1alpha1.GitHubRepository) {
		metav1.SetMetaDataAnnotation(&r.ObjectMeta, v1alpha1.AnnotationRequestedAt, "now")
	})
	s.clock.Step(time.Millisecond)
	r, _ = s.pass("shop")
	same(t, "known after a user's request", len(r.Status.PullRequests), 2)
	same(t, "handled", r.Status.LastHandledRequest, "now")
	s.many(1)
	s.clock.Step(time.Millisecond)
	s.reconciler.polls.hint(s.key("shop"), nil)
	r, _ = s.pass("shop")
	same(t, "known after a hint", len(r.Status.PullRequests), 3)

	s.github.ResetCounts()
	s.edit("shop", func(r *v1alpha1.GitHubRepository) { r.Spec.Feedback = &v1alpha1.Feedback{} })
	r, _ = s.pass("shop")
	same(t, "generation", r.Status.ObservedGeneration, r.Generation)
	same(t, "requests for parts that no policy reads", len(s.github.Counts()), 0)

	s.edit("shop", func(r *v1alpha1.GitHubRepository) { r.Spec.Suspend = true })
	r = s.poll("shop")
	same(t, "Ready", condition(r, "Ready"), "True Suspended: spec.suspend is true: GitHub is not polled, and the status is kept")
	same(t, "known while suspended", len(r.Status.PullRequests), 3)
	s.reconciler.polls.hint(s.key("shop"), nil)
	s.poll("shop")
	same(t, "requests while suspended", len(s.github.Counts()), 0)
	s.edit("shop", func(r *v1alpha1.GitHubRepository) { r.Spec.Suspend = false })
	s.repo.Close(1, false)
	r = s.poll("shop")
	same(t, "closed meanwhile", numbers(r, v1alpha1.PullRequestClosed), []int64{1})
}
