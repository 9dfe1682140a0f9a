package imagepolicy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/preview"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/internal/version"
)

// pull returns an open pull request.
func pull(number int64, branch, commit string, edit ...func(*v1alpha1.PullRequest)) v1alpha1.PullRequest {
	pr := v1alpha1.PullRequest{Number: number, State: v1alpha1.PullRequestOpen, HeadRef: branch, HeadSHA: commit, BaseRef: "main"}
	for _, e := range edit {
		e(&pr)
	}
	return pr
}

// at returns an edit that sets the push time.
func at(pushed time.Time) func(*v1alpha1.PullRequest) {
	return func(pr *v1alpha1.PullRequest) { pr.HeadTime = &metav1.Time{Time: pushed} }
}

// pulls returns an edit that sets pull requests as the source.
func pulls(edit func(*v1alpha1.GitHubPullRequests)) func(*v1alpha1.ImagePolicySpec) {
	return fromGitHub(func(g *v1alpha1.GitHubSource) {
		g.PullRequests = &v1alpha1.GitHubPullRequests{}
		if edit != nil {
			edit(g.PullRequests)
		}
	})
}

// opens creates a GitHubRepository with pull requests.
func (s *story) opens(all ...v1alpha1.PullRequest) {
	s.Helper()
	s.repository("shop", func(st *v1alpha1.GitHubRepositoryStatus) { st.PullRequests = all })
}

// changes edits one pull request by its index.
func (s *story) changes(i int, edit func(*v1alpha1.PullRequest)) {
	s.Helper()
	s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) { edit(&st.PullRequests[i]) })
}

// previews returns the offers in the form "group commit tag", with abbreviated commits.
func previews(p *v1alpha1.ImagePolicy) []string {
	var out []string
	for _, r := range p.Status.Releases {
		line := r.Group + " " + r.SemVer.Version[:4] + " " + tagOf(r.Images)
		if r.Held {
			line += " held"
		}
		out = append(out, line)
	}
	return out
}

// TestLifeOfAPullRequest checks that, after a push, the previous commit remains offered until the new commit
// has an image, that the group of a closed pull request is withdrawn, and that the slug is a DNS label.
func TestLifeOfAPullRequest(t *testing.T) {
	s := begin(t)
	pushed := s.clock.Now().Add(-time.Minute)
	s.opens(pull(12, "feature/Cart", sha("a"), at(pushed)))
	s.policy("shop", pulls(nil))
	p, next := s.pass("shop")
	same(t, "offered before its image exists", previews(p), []string(nil))
	same(t, "refused", p.Status.Candidates, []v1alpha1.RefusedCandidate{{Version: sha("a"), Verdict: "Exists",
		Reason: "pull request 12 (feature-cart): no image yet: the registry has none of the tags pr-12-aaaaaaa, sha-aaaaaaa, " + sha("a") + ", pr-12"}})
	same(t, "Ready", strings.HasPrefix(condition(p, "Ready"), "True NoPullRequests: the only pull request is not offered"), true)
	same(t, "source", p.Status.Source, "github pull requests")
	if next > 10*time.Second {
		t.Errorf("requeue for the image after %s", next)
	}

	digest := s.server.Push(t, path, "sha-aaaaaaa")
	s.clock.Step(next)
	p, _ = s.pass("shop")
	image := []v1alpha1.ReleaseImage{{Image: s.server.Repository(path) + ":sha-aaaaaaa@" + digest, Digest: digest}}
	same(t, "offered", p.Status.Releases[0].Images, image)
	rel := p.Status.Releases[0]
	same(t, "release", []any{rel.SemVer, rel.Group, rel.Level, rel.PullRequest, rel.ReleaseTime.UTC(), rel.Revision, rel.URL}, []any{
		v1alpha1.SemVer{Name: "feature/Cart", Version: sha("a")}, "feature-cart-12", v1alpha1.LevelPreview, int64(12), pushed.UTC(), sha("a"), "https://github.com/acme/shop/pull/12"})
	same(t, "refused when it is offered", verdicts(p), []string(nil))
	s.microservice("shop", "shop", "feature-cart-12 "+sha("a"))

	// After a push, the previous commit remains until the image of the new commit exists.
	s.changes(0, func(pr *v1alpha1.PullRequest) { pr.HeadSHA = sha("b"); at(s.clock.Now())(pr) })
	p, _ = s.pass("shop")
	same(t, "offered after a push", p.Status.Releases, []v1alpha1.OfferedRelease{rel})
	same(t, "refused after a push", verdicts(p), []string{sha("b") + " Exists"})
	s.push("pr-12-bbbbbbb")
	p = s.scan("shop")
	same(t, "offered when it has an image", previews(p), []string{"feature-cart-12 bbbb pr-12-bbbbbbb"})
	same(t, "withdrawn", taken(p), []string(nil))

	// The branch is renamed. The group remains the same.
	s.changes(0, func(pr *v1alpha1.PullRequest) { pr.HeadRef = "cart" })
	p = s.scan("shop")
	same(t, "offered under another name", previews(p), []string{"feature-cart-12 bbbb pr-12-bbbbbbb"})

	// The pull request is missing from the list, which does not prove that it is closed. Then it is closed.
	s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) { st.PullRequests = nil })
	p = s.scan("shop")
	same(t, "offered when it is missing", previews(p), []string{"feature-cart-12 bbbb pr-12-bbbbbbb"})
	closed := metav1.NewTime(s.clock.Now().Add(-time.Second))
	s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) {
		st.PullRequests = []v1alpha1.PullRequest{pull(12, "cart", sha("b"), func(pr *v1alpha1.PullRequest) {
			pr.State, pr.ClosedTime = v1alpha1.PullRequestClosed, &closed
		})}
	})
	want := []v1alpha1.Withdrawal{{Group: "feature-cart-12", Reason: v1alpha1.WithdrawnClosed, Time: closed}}
	same2 := func(what string, p *v1alpha1.ImagePolicy) {
		t.Helper()
		same(t, "offered "+what, previews(p), []string(nil))
		for i := range p.Status.Withdrawn {
			p.Status.Withdrawn[i].Time = metav1.NewTime(p.Status.Withdrawn[i].Time.UTC())
		}
		want[0].Time = metav1.NewTime(want[0].Time.UTC())
		same(t, "withdrawn "+what, p.Status.Withdrawn, want)
	}
	p, _ = s.pass("shop")
	same2("when it is closed", p)
	s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) { st.PullRequests = nil })
	same2("when GitHub no longer lists it", s.scan("shop"))
	s.restart()
	same2("after a restart", s.scan("shop"))

	// The pull request is opened again, with its last commit.
	s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) {
		st.PullRequests = []v1alpha1.PullRequest{pull(12, "feature/Cart", sha("b"))}
	})
	p = s.scan("shop")
	same(t, "offered when it is opened again", previews(p), []string{"feature-cart-12 bbbb pr-12-bbbbbbb"})
	same(t, "withdrawn when it is opened again", taken(p), []string(nil))

	// The closed pull request is no longer in use: nothing is withdrawn.
	s.hold("shop")
	s.changes(0, func(pr *v1alpha1.PullRequest) { pr.State = v1alpha1.PullRequestClosed })
	p = s.scan("shop")
	same(t, "offered and withdrawn at the end", append(previews(p), taken(p)...), []string(nil))
}

// TestWaitForAnImage checks that the wait for an image becomes longer each time, and that a push or a requested
// scan resets the wait.
func TestWaitForAnImage(t *testing.T) {
	s := begin(t)
	s.opens(pull(1, "fix", sha("a")))
	s.policy("shop", pulls(nil), func(p *v1alpha1.ImagePolicySpec) { p.Interval = "10m" })
	waits := func(want ...time.Duration) {
		t.Helper()
		for _, wait := range want {
			before := manifests(s.server)
			_, next := s.pass("shop")
			if asked := manifests(s.server) - before; asked != 4 || next > wait || next < wait-wait/8 {
				t.Fatalf("%d requests and %s to wait, want 4 and %s", asked, next, wait)
			}
			s.pass("shop") // an event causes no request
			s.clock.Step(next)
		}
	}
	waits(10*time.Second, 20*time.Second, 40*time.Second, 80*time.Second, 160*time.Second, 5*time.Minute, 5*time.Minute)
	s.changes(0, func(pr *v1alpha1.PullRequest) { pr.HeadSHA = sha("b") })
	waits(10*time.Second, 20*time.Second)
	s.edit("shop", func(p *v1alpha1.ImagePolicy) {
		p.Annotations = map[string]string{v1alpha1.AnnotationRequestedAt: "now"}
	})
	waits(10*time.Second, 20*time.Second)
	s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.Interval = "15s" })
	waits(15*time.Second, 15*time.Second)
}

// TestTagsThatMove checks that a moved tag counts only if its image was built from the head commit.
func TestTagsThatMove(t *testing.T) {
	s := begin(t)
	pushed := s.clock.Now()
	s.opens(pull(7, "fix", sha("a"), at(pushed), func(pr *v1alpha1.PullRequest) { pr.MergeSHA = sha("d") }))
	s.build(path, "pr-7", pushed.Add(-time.Minute), nil)
	s.policy("shop", pulls(nil))
	p, _ := s.pass("shop")
	same(t, "offered with the previous image", previews(p), []string(nil))
	same(t, "refused", p.Status.Candidates[0].Reason, "pull request 7 (fix): no image yet: tag pr-7: it has no revision label, and was built before the head commit was pushed")
	s.build(path, "pr-7", pushed.Add(time.Minute), nil)
	same(t, "offered with a newer image", previews(s.scan("shop")), []string{"fix-7 aaaa pr-7"})

	s.changes(0, func(pr *v1alpha1.PullRequest) { pr.HeadSHA = sha("b"); at(pushed)(pr) })
	same(t, "offered after a push", previews(s.scan("shop")), []string{"fix-7 aaaa pr-7"}) // the image is newer than the push, but was built from the previous commit
	s.build(path, "pr-7", pushed.Add(2*time.Minute), map[string]string{revision: sha("a")})
	same(t, "offered with the previous revision", previews(s.scan("shop")), []string{"fix-7 aaaa pr-7"})
	s.build(path, "pr-7", time.Time{}, map[string]string{revision: sha("d")})
	p = s.scan("shop")
	same(t, "offered with the merge commit", previews(p), []string{"fix-7 bbbb pr-7"})
	for _, event := range s.reported() {
		if strings.Contains(event, "TagMoved") {
			t.Errorf("event %q for another commit", event)
		}
	}
}

// TestLateImageOfAnEarlierCommit checks that, if a tag without a commit refers to the late image of an earlier commit, the image of the
// head commit replaces it later. Each scan requests the tag at most once, and only while the image has no revision.
func TestLateImageOfAnEarlierCommit(t *testing.T) {
	s := begin(t)
	pushed := s.clock.Now()
	s.opens(pull(7, "fix", sha("c"), at(pushed)))
	late := s.build(path, "pr-7", pushed.Add(10*time.Second), nil)
	s.policy("shop", pulls(nil))
	digest := func(p *v1alpha1.ImagePolicy) string {
		t.Helper()
		same(t, "offered", previews(p), []string{"fix-7 cccc pr-7"})
		return p.Status.Releases[0].Images[0].Digest
	}
	p, next := s.pass("shop")
	same(t, "first image", digest(p), late)
	if next > headFirst {
		t.Errorf("the tag is requested again after %s", next)
	}
	head := s.build(path, "pr-7", pushed.Add(30*time.Second), nil)
	s.clock.Step(next)
	p, _ = s.pass("shop")
	same(t, "image of the head commit", digest(p), head)

	s.build(path, "pr-7", pushed.Add(20*time.Second), nil)
	for range 4 {
		same(t, "image after an older image was pushed", digest(s.scan("shop")), head)
	}
	s.server.Delete(s, path, "pr-7")
	same(t, "image after the tag was deleted", digest(s.scan("shop")), head)
	s.restart()
	same(t, "image after a restart", digest(s.scan("shop")), head)
	newer := s.build(path, "pr-7", pushed.Add(40*time.Second), nil)
	same(t, "image that was pushed after a restart", digest(s.scan("shop")), newer)
	for range 4 {
		s.scan("shop") // the delays become longer
	}
	for range 4 {
		asked := s.server.Total()
		s.scan("shop")
		if asked = s.server.Total() - asked; asked > 1 {
			t.Errorf("%d requests without a change", asked)
		}
	}

	final := s.build(path, "pr-7", time.Time{}, map[string]string{revision: sha("c")})
	s.scan("shop")
	same(t, "image with a revision", digest(s.scan("shop")), final)
	s.build(path, "pr-7", pushed.Add(time.Hour), nil)
	asked := s.server.Total()
	for range 4 {
		same(t, "image with a revision", digest(s.scan("shop")), final)
	}
	same(t, "requests after the image has a revision", s.server.Total()-asked, 0)
	s.restart()
	for range 3 {
		same(t, "image with a revision after a restart", digest(s.scan("shop")), final)
	}
}

// TestLateImagesOfSeveralRepositories checks that the images of a version are replaced together.
func TestLateImagesOfSeveralRepositories(t *testing.T) {
	s := begin(t)
	pushed := s.clock.Now()
	s.opens(pull(7, "fix", sha("c"), at(pushed)))
	build := func(at string, after time.Duration) string { return s.build(at, "pr-7", pushed.Add(after), nil) }
	web, migrate := build(path, 10*time.Second), build("team/migrate", 11*time.Second)
	s.policy("shop", pulls(nil), func(p *v1alpha1.ImagePolicySpec) {
		p.AdditionalImages = []v1alpha1.AdditionalImage{{ContainerName: "migrate", Image: s.server.Repository("team/migrate")}}
	})
	digests := func(p *v1alpha1.ImagePolicy) []string {
		t.Helper()
		same(t, "offered", previews(p), []string{"fix-7 cccc pr-7"})
		return []string{p.Status.Releases[0].Images[0].Digest, p.Status.Releases[0].Images[1].Digest}
	}
	same(t, "first images", digests(s.scan("shop")), []string{web, migrate})
	newWeb := build(path, 30*time.Second)
	for range 3 {
		same(t, "images after one was replaced", digests(s.scan("shop")), []string{web, migrate})
	}
	newMigrate := build("team/migrate", 31*time.Second)
	s.scan("shop")
	same(t, "images after both were replaced", digests(s.scan("shop")), []string{newWeb, newMigrate})
}

// TestFiltersWithdraw checks that pull requests that the filters no longer select are withdrawn only after GitHub has been
// polled.
func TestFiltersWithdraw(t *testing.T) {
	for name, test := range map[string]struct {
		spec func(*v1alpha1.GitHubPullRequests)
		edit func(*v1alpha1.PullRequest)
		back func(*v1alpha1.PullRequest)
	}{
		"label": {
			func(g *v1alpha1.GitHubPullRequests) { g.Labels = &v1alpha1.PullRequestLabels{All: []string{"preview"}} },
			func(pr *v1alpha1.PullRequest) { pr.Labels = nil },
			func(pr *v1alpha1.PullRequest) { pr.Labels = []v1alpha1.PullRequestLabel{{Name: "preview"}} },
		},
		"draft": {
			nil, func(pr *v1alpha1.PullRequest) { pr.Draft = true }, func(pr *v1alpha1.PullRequest) { pr.Draft = false },
		},
		"base": {
			func(g *v1alpha1.GitHubPullRequests) { g.Base = "main" },
			func(pr *v1alpha1.PullRequest) { pr.BaseRef = "next" }, func(pr *v1alpha1.PullRequest) { pr.BaseRef = "main" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			s.opens(pull(1, "fix", sha("a"), test.back))
			s.push("sha-aaaaaaa")
			s.policy("shop", pulls(test.spec))
			s.microservice("shop", "shop", "fix-1 "+sha("a"))
			same(t, "offered", previews(s.scan("shop")), []string{"fix-1 aaaa sha-aaaaaaa"})
			s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) {
				status.Reconciling(&st.Conditions, 1, "Unreachable", "no answer")
				test.edit(&st.PullRequests[0])
			})
			p := s.scan("shop")
			same(t, "offered by an outdated poll", previews(p), []string{"fix-1 aaaa sha-aaaaaaa"})
			same(t, "withdrawn by an outdated poll", taken(p), []string(nil))
			s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) { status.Ready(&st.Conditions, 1, "Succeeded", "") })
			for range 3 {
				p = s.scan("shop")
				same(t, "offered", previews(p), []string(nil))
				same(t, "withdrawn", taken(p), []string{" in fix-1: Excluded"})
				same(t, "refused", verdicts(p), []string{sha("a") + " PullRequest"})
			}
			s.changes(0, test.back)
			p = s.scan("shop")
			same(t, "offered again", append(previews(p), taken(p)...), []string{"fix-1 aaaa sha-aaaaaaa"})
		})
	}
}

// TestForks checks that branches with the same name in two forks result in two groups.
func TestForks(t *testing.T) {
	s := begin(t)
	fork := func(pr *v1alpha1.PullRequest) { pr.Fork = true }
	s.opens(pull(2, "patch", sha("b"), fork), pull(1, "patch", sha("a"), fork))
	s.push("sha-aaaaaaa", "sha-bbbbbbb", "sha-ccccccc", sha("a"), sha("c"))
	s.policy("deny", pulls(nil))
	s.policy("allow", pulls(func(g *v1alpha1.GitHubPullRequests) { g.Forks = &v1alpha1.Forks{Policy: v1alpha1.ForksAllow} }))
	s.policy("shop", pulls(func(g *v1alpha1.GitHubPullRequests) {
		g.Forks = &v1alpha1.Forks{Policy: v1alpha1.ForksApproved, Label: "ok"}
	}))
	p, _ := s.pass("deny")
	same(t, "refused", verdicts(p), []string{sha("b") + " Fork", sha("a") + " Fork"})
	p, _ = s.pass("allow")
	same(t, "branches with the same name in two forks", previews(p), []string{"patch-2 bbbb sha-bbbbbbb", "patch-1 aaaa sha-aaaaaaa"})
	for _, rel := range p.Status.Releases {
		if !rel.Fork {
			t.Errorf("%s is offered without being marked as a fork", rel.Group)
		}
	}
	p, _ = s.pass("shop")
	same(t, "offered without approval", previews(p), []string(nil))
	s.microservice("shop", "shop", "patch-1 "+sha("a"))

	// A commit is approved, then a commit is pushed and approved, and then the approval is withdrawn.
	approve := func(commit string) func(*v1alpha1.PullRequest) {
		return func(pr *v1alpha1.PullRequest) {
			pr.Labels = []v1alpha1.PullRequestLabel{{Name: "ok", SHA: commit}}
		}
	}
	s.changes(1, approve(sha("a")))
	same(t, "offered when it is approved", previews(s.scan("shop")), []string{"patch-1 aaaa " + sha("a")})
	s.changes(1, func(pr *v1alpha1.PullRequest) { pr.HeadSHA = sha("c") })
	p = s.scan("shop")
	same(t, "offered after a push", append(previews(p), taken(p)...), []string{"patch-1 aaaa " + sha("a")})
	s.changes(1, approve(sha("c")))
	same(t, "offered when it is approved again", previews(s.scan("shop")), []string{"patch-1 cccc " + sha("c")})
	s.changes(1, func(pr *v1alpha1.PullRequest) { pr.Labels = nil })
	p = s.scan("shop")
	same(t, "withdrawn", append(previews(p), taken(p)...), []string{" in patch-1: Excluded"})
}

// TestTwoHundredPullRequests checks that all two hundred pull requests are found, a limited number in each
// scan, and that no pull request is lost because of an outage, a failing page, or a restart.
func TestTwoHundredPullRequests(t *testing.T) {
	s := begin(t)
	var all []v1alpha1.PullRequest
	var held []string
	for i := range 200 {
		commit := fmt.Sprintf("%040x", 0xabc0000000+i)
		all = append(all, pull(int64(200-i), fmt.Sprintf("fix/%d", i), commit, at(s.clock.Now().Add(-time.Duration(i)*time.Minute))))
	}
	digest := s.server.Push(t, path, "base")
	image := registrytest.Image(t, path+":base", "linux/amd64", time.Time{})
	for _, pr := range all {
		s.server.PushImage(t, path, pr.HeadSHA, image)
	}
	s.repository("shop", func(st *v1alpha1.GitHubRepositoryStatus) { st.PullRequests = all })
	s.policy("shop", pulls(nil), func(p *v1alpha1.ImagePolicySpec) {
		p.Match = &v1alpha1.Match{Candidates: []string{"pr-{{.Number}}-{{.SHA7}}", "{{.SHA}}"}}
	})
	// Each scan requests the images of a bounded number of head commits.
	for i := 1; ; i++ {
		before := manifests(s.server)
		p, _ := s.once("shop")
		s.await("shop")
		if asked := manifests(s.server) - before; asked > 2*maxHeads {
			t.Errorf("%d requests in one scan", asked)
		}
		if len(p.Status.Releases) == 200 {
			break
		}
		if i > 10 {
			t.Fatalf("%d offered after %d scans", len(p.Status.Releases), i)
		}
	}
	p, _ := s.pass("shop")
	before := previews(p)
	same(t, "newest push first", []string{before[0], before[199]},
		[]string{"fix-0-200 0000 " + all[0].HeadSHA, "fix-199-1 0000 " + all[199].HeadSHA})
	same(t, "image", p.Status.Releases[7].Images[0].Digest, digest)
	for _, rel := range p.Status.Releases {
		held = append(held, rel.Group+" "+rel.SemVer.Version)
	}
	s.microservice("shop", "shop", held...)
	heads := manifests(s.server)
	for name, spoil := range map[string]func(){
		"a page is missing": func() {
			s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) {
				st.PullRequests = slices.Concat(all[:60], all[160:])
			})
		},
		"nothing is known": func() {
			s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) { st.PullRequests = nil })
		},
		"GitHub is unavailable": func() {
			s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) {
				st.PullRequests = all[:3]
				status.Stalled(&st.Conditions, 1, "NotFound", "404")
			})
		},
		"the registry is unavailable": func() {
			s.server.Fail(registrytest.Head, -1, registrytest.Status(503, "UNAVAILABLE"))
			s.server.Fail(registrytest.Get, -1, registrytest.Status(503, "UNAVAILABLE"))
		},
		"a restart": s.restart,
	} {
		spoil()
		p = s.scan("shop")
		same(t, "offered when "+name, previews(p), before)
		same(t, "withdrawn when "+name, taken(p), []string(nil))
		s.server.Heal()
	}
	same(t, "requests in a steady state", manifests(s.server)-heads, 0)
}

// TestPullRequestsInAnyOrder checks that the offered, rejected, and withdrawn pull requests do not depend on
// the order of the pull requests from GitHub or of the offers in the status.
func TestPullRequestsInAnyOrder(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		var all []v1alpha1.PullRequest
		var before []v1alpha1.OfferedRelease
		heads := map[int64]head{}
		for n := int64(1); n <= int64(rapid.IntRange(0, 8).Draw(t, "pull requests")); n++ {
			pr := pull(n, rapid.SampledFrom([]string{"fix", "main"}).Draw(t, "branch"), sha("a"))
			pr.Draft, pr.Fork = rapid.Bool().Draw(t, "draft"), rapid.Bool().Draw(t, "fork")
			at(now.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "pushed")) * time.Minute))(&pr)
			if rapid.Bool().Draw(t, "closed") {
				pr.State = v1alpha1.PullRequestClosed
			}
			switch rapid.IntRange(0, 3).Draw(t, "head") {
			case 0:
				heads[n] = head{sha: pr.HeadSHA, refusal: rejectf(version.VerdictExists, "no image yet"), next: now.Add(time.Minute)}
			case 1:
				heads[n] = head{sha: pr.HeadSHA, images: []v1alpha1.ReleaseImage{{Image: "r.example/shop:a@sha256:2", Digest: "sha256:2"}}}
			}
			if rapid.Bool().Draw(t, "offered") {
				before = append(before, v1alpha1.OfferedRelease{
					SemVer: v1alpha1.SemVer{Name: pr.HeadRef, Version: sha("0")}, Group: preview.Slug(pr.HeadRef, n), Level: v1alpha1.LevelPreview, PullRequest: n,
					Revision: sha("0"), URL: fmt.Sprintf("https://github.com/acme/shop/pull/%d", n),
					Images: []v1alpha1.ReleaseImage{{Image: "r.example/shop:b@sha256:1", Digest: "sha256:1"}},
				})
			}
			if rapid.IntRange(0, 4).Draw(t, "listed") > 0 {
				all = append(all, pr)
			}
		}
		result := func(all []v1alpha1.PullRequest, before []v1alpha1.OfferedRelease) plan {
			policy := &v1alpha1.ImagePolicy{Spec: v1alpha1.ImagePolicySpec{Image: "r.example/shop", Limits: v1alpha1.ImageLimits{Groups: 3}}}
			pulls(nil)(&policy.Spec)
			policy.Status.Releases = before
			o := fromSpec(policy, "linux/amd64")
			repository := &v1alpha1.GitHubRepository{Spec: v1alpha1.GitHubRepositorySpec{Owner: "acme", Repo: "shop"}}
			repository.Status.Repository, repository.Status.PullRequests = "acme/shop", all
			status.Ready(&repository.Status.Conditions, 1, "Succeeded", "")
			o.readRepository(repository)
			for n := int64(1); n <= 8; n++ {
				o.inUse = append(o.inUse, version.Held{Group: preview.Slug("fix", n), Version: sha("0")})
			}
			l := newScanRecord(o.query, access{}, false)
			l.heads, l.tags = heads, &answer[registry.Scan]{}
			s := selectReleases(o, &recordReader{scanRecord: l, clock: testingclock.NewFakeClock(now)}, nil, nil)
			return newPlan(o, s, now)
		}
		want := result(all, before)
		got := result(rapid.Permutation(all).Draw(t, "order"), rapid.Permutation(before).Draw(t, "order of offers"))
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(plan{})); diff != "" {
			t.Errorf("the result depends on the order (-want +got):\n%s", diff)
		}
		offers, takes := map[string]bool{}, map[string]bool{}
		for _, r := range want.releases {
			offers[r.Group] = true
		}
		for _, w := range want.withdrawn {
			if takes[w.Group] || offers[w.Group] {
				t.Errorf("group %s is withdrawn twice, or is also offered", w.Group)
			}
			takes[w.Group] = true
		}
		for _, r := range before { // no preview in use is removed without a reason
			if strings.HasPrefix(r.Group, "fix-") && !offers[r.Group] && !takes[r.Group] {
				t.Errorf("group %s is lost", r.Group)
			}
		}
	})
}

// TestLimitOfPullRequests checks that the pull requests with the newest pushes are selected up to the limit, and
// that previews in use remain.
func TestLimitOfPullRequests(t *testing.T) {
	s := begin(t)
	now := s.clock.Now()
	s.opens(
		pull(1, "one", sha("1"), at(now.Add(-3*time.Minute))), pull(2, "two", sha("2"), at(now.Add(-2*time.Minute))),
		pull(3, "three", sha("3"), at(now.Add(-time.Minute))), pull(4, "four", sha("4"), at(now)),
	)
	s.push("sha-1111111", "sha-2222222", "sha-3333333")
	s.policy("shop", pulls(nil), func(p *v1alpha1.ImagePolicySpec) { p.Limits.Groups = 2 })
	p, _ := s.pass("shop")
	same(t, "offered", previews(p), []string{"three-3 3333 sha-3333333", "two-2 2222 sha-2222222"})
	same(t, "refused", verdicts(p), []string{sha("4") + " Exists", sha("1") + " Limits"})
	if got := condition(p, "Truncated"); !strings.HasPrefix(got, "True TooManyGroups: not offered, because of spec.limits.groups: one-1;") {
		t.Errorf("Truncated is %q", got)
	}
	s.microservice("shop", "shop", "two-2 "+sha("2"))
	s.push("sha-4444444")
	p = s.scan("shop")
	same(t, "offered with another push", previews(p), []string{"four-4 4444 sha-4444444", "three-3 3333 sha-3333333", "two-2 2222 sha-2222222 held"})
}

// TestPullRequestsRespectARateLimit checks that scans for pull requests send no requests to a registry that limits requests.
func TestPullRequestsRespectARateLimit(t *testing.T) {
	s := begin(t)
	for _, name := range []string{"shop", "web"} {
		s.policy(name, pulls(nil))
	}
	s.opens(pull(1, "one", sha("1")), pull(2, "two", sha("2")), pull(3, "three", sha("3")), pull(4, "four", sha("4")), pull(5, "five", sha("5")))
	s.push("sha-1111111")
	s.server.Fail(registrytest.Get, 1, registrytest.Status(429, "TOOMANYREQUESTS", "Retry-After", "60"))
	s.pass("shop")
	asked := s.server.Total()
	for range 5 {
		s.pass("web")
		s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) {
			st.PullRequests[4].HeadSHA = fmt.Sprintf("%040x", s.clock.Now().Unix())
		})
		p, next := s.pass("shop")
		if got := condition(p, "RateLimited"); !strings.HasPrefix(got, "True TooManyRequests: ") {
			t.Errorf("RateLimited is %q", got)
		}
		if next > 61*time.Second+spread {
			t.Errorf("the next scan is in %s", next)
		}
		s.clock.Step(11 * time.Second)
	}
	same(t, "requests during the pause", s.server.Total()-asked, 0)
	s.clock.Step(11*time.Second + spread)
	p, _ := s.pass("shop")
	same(t, "offered after the pause", previews(p), []string{"one-1 1111 sha-1111111"})
}

// TestOneBadImageDoesNotBlockOthers checks that a head commit with an unusable image does not prevent other head
// commits from being offered.
func TestOneBadImageDoesNotBlockOthers(t *testing.T) {
	s := begin(t)
	s.opens(pull(1, "one", sha("1")), pull(2, "two", sha("2")))
	s.server.Push(t, path, "sha-2222222", "linux/arm64")
	s.push("sha-1111111")
	s.policy("shop", pulls(nil))
	p, _ := s.pass("shop")
	same(t, "offered", previews(p), []string{"one-1 1111 sha-1111111"})
	same(t, "refused", verdicts(p), []string{sha("2") + " Platform"})
	s.push("pr-2-2222222")
	same(t, "offered when another tag is valid", previews(s.scan("shop")), []string{"two-2 2222 pr-2-2222222", "one-1 1111 sha-1111111"})
}

// TestAnotherSource checks that a policy whose source changes to pull requests, or from pull requests, withdraws its
// previous groups.
func TestAnotherSource(t *testing.T) {
	s := begin(t)
	s.opens(pull(1, "one", sha("1")))
	s.push("1.0.0", "sha-1111111")
	s.policy("shop")
	s.microservice("shop", "shop", "release 1.0.0")
	s.pass("shop")
	s.edit("shop", func(p *v1alpha1.ImagePolicy) { pulls(nil)(&p.Spec) })
	p := s.scan("shop")
	same(t, "changed to pull requests", append(previews(p), taken(p)...), []string{"one-1 1111 sha-1111111", " in release: Excluded"})
	s.hold("shop", "one-1 "+sha("1"))
	s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.Source = nil })
	p = s.scan("shop")
	same(t, "changed to the registry", append(offered(p), taken(p)...), []string{"1.0.0 in release", " in one-1: Excluded"})
}

// TestAnotherRepository checks that a renamed repository counts as the same repository, and that another
// repository does not.
func TestAnotherRepository(t *testing.T) {
	s := begin(t)
	s.opens(pull(1, "one", sha("1")))
	s.push("sha-1111111")
	s.policy("shop", pulls(nil))
	s.microservice("shop", "shop", "one-1 "+sha("1"))
	s.pass("shop")
	s.changes(0, func(pr *v1alpha1.PullRequest) { pr.HeadSHA = sha("2") }) // the commit has no image yet
	s.scan("shop")
	for _, name := range []string{"store", "market", "mall"} { // the specification changes later than GitHub, or at the same time
		if name == "mall" {
			s.respell("shop", name)
		}
		s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) { st.Repository = "acme/" + name })
		p := s.scan("shop")
		same(t, "renamed", append(previews(p), taken(p)...), []string{"one-1 1111 sha-1111111"})
		same(t, "identity", p.Status.RepositoryID, "github.com/1296269")
	}
	s.push("sha-2222222")
	p := s.scan("shop")
	same(t, "link", p.Status.Releases[0].URL, "https://github.com/acme/mall/pull/1")
	s.hold("shop", "one-1 "+sha("2"))

	// A user changes the reference so that it points to another GitHubRepository.
	s.create(&v1alpha1.GitHubRepository{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "other"}, Spec: v1alpha1.GitHubRepositorySpec{Owner: "acme", Repo: "other"}})
	s.setRepositoryStatus("other", func(st *v1alpha1.GitHubRepositoryStatus) {
		st.Repository, st.RepositoryID, st.OpenPullRequests = "acme/other", 2, new(int32)
		st.PullRequests = []v1alpha1.PullRequest{pull(1, "uno", sha("3"))}
		status.Reconciling(&st.Conditions, 1, "Unreachable", "no answer")
	})
	s.push("sha-3333333")
	s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.Source.GitHub.RepositoryRef.Name = "other" })
	p = s.scan("shop")
	same(t, "another repository that is not ready", append(previews(p), taken(p)...), []string{"one-1 2222 sha-2222222"})
	s.setRepositoryStatus("other", func(st *v1alpha1.GitHubRepositoryStatus) { status.Ready(&st.Conditions, 1, "Succeeded", "") })
	for range 2 {
		p = s.scan("shop")
		same(t, "another repository", append(previews(p), taken(p)...), []string{"uno-1 3333 sha-3333333", " in one-1: Excluded"})
	}
	same(t, "identity", p.Status.RepositoryID, "github.com/2")
}

// respell changes the repository name in a GitHubRepository's specification.
func (s *story) respell(name, repo string) {
	s.Helper()
	r := &v1alpha1.GitHubRepository{}
	s.get(name, r)
	r.Spec.Repo = repo
	if err := env.Client.Update(s.Context(), r); err != nil {
		s.Fatal(err)
	}
}

func TestIDOfARepository(t *testing.T) {
	for name, test := range map[string]struct {
		base   string
		number int64
		want   string
	}{
		"GitHub":         {"https://github.com", 7, "github.com/7"},
		"GitHub's API":   {"https://API.github.com/", 7, "github.com/7"},
		"another server": {"https://git.example.com:8443/api/v3", 7, "git.example.com:8443/7"},
		"no number":      {"https://github.com", 0, ""},
	} {
		t.Run(name, func(t *testing.T) { same(t, "identity", idOf(test.base, test.number), test.want) })
	}
}

// TestRenamedBranchAndNewPolicy checks that an ImagePolicy uses the pull request's number to find the group of
// a pull request whose branch was renamed, even after the ImagePolicy was deleted and recreated.
func TestRenamedBranchAndNewPolicy(t *testing.T) {
	s := begin(t)
	s.opens(pull(12, "old", sha("1")))
	s.push("sha-1111111")
	s.policy("shop", pulls(nil))
	s.microservice("shop", "shop", "old-12 "+sha("1"))
	s.pass("shop")
	policy := &v1alpha1.ImagePolicy{}
	s.get("shop", policy)
	if err := env.Client.Delete(s.Context(), policy); err != nil {
		t.Fatal(err)
	}
	if _, err := s.reconciler.Reconcile(s.Context(), ctrl.Request{NamespacedName: s.key("shop")}); err != nil {
		t.Fatal(err)
	}
	s.changes(0, func(pr *v1alpha1.PullRequest) { pr.HeadRef = "new" })
	s.policy("shop", pulls(nil))
	p := s.scan("shop")
	same(t, "after the policy was recreated", append(previews(p), taken(p)...), []string{"old-12 1111 sha-1111111"})
	s.hold("shop", "old-12 "+sha("1"), "new-12 "+sha("1")) // the group from before the rename
	s.changes(0, func(pr *v1alpha1.PullRequest) { pr.State = v1alpha1.PullRequestClosed })
	p = s.scan("shop")
	same(t, "closed", append(previews(p), taken(p)...), []string{" in new-12: Closed", " in old-12: Closed"})
}

// TestPullRequestsOfADeletedPolicy checks that a new ImagePolicy does not use the list of pull requests from before it was created, and
// starts a scan as soon as the pull requests have been read.
func TestPullRequestsOfADeletedPolicy(t *testing.T) {
	s := begin(t)
	s.opens(pull(2, "patch", sha("2"), approvedAt(sha("2"))), pull(1, "old", sha("1")))
	s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) { st.OpenPullRequests = nil })
	s.push("sha-1111111", sha("2"))
	s.policy("shop", pulls(approvedForks))
	p, _ := s.pass("shop")
	same(t, "offered before the pull requests were read", previews(p), []string(nil))
	same(t, "requests", s.server.Total(), 0)
	same(t, "Ready", condition(p, "Ready"), `False RepositoryNotReady: spec.source.github.repositoryRef: GitHubRepository "shop" has not read the pull requests yet: Succeeded: GitHub responds`)

	var repository v1alpha1.GitHubRepository
	s.get("shop", &repository)
	before := repository.DeepCopy()
	s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) { st.OpenPullRequests = new(int32) })
	s.get("shop", &repository)
	same(t, "the policy is enqueued", repositoryUpdated(event.UpdateEvent{ObjectOld: before, ObjectNew: &repository}), true)
	p, _ = s.pass("shop")
	same(t, "offered after the pull requests were read", previews(p), []string{"patch-2 2222 " + sha("2"), "old-1 1111 sha-1111111"})

	// The policy remains, but may not use the GitHubRepository for some time.
	s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) { st.OpenPullRequests = nil })
	s.changes(0, func(pr *v1alpha1.PullRequest) { pr.Labels = nil })
	p = s.scan("shop")
	same(t, "offered until the pull requests are read again", append(previews(p), taken(p)...), []string{"patch-2 2222 " + sha("2"), "old-1 1111 sha-1111111"})
}

const revision = "org.opencontainers.image.revision"

// approvedForks selects forks that are approved with the ok label.
func approvedForks(g *v1alpha1.GitHubPullRequests) {
	g.Forks = &v1alpha1.Forks{Policy: v1alpha1.ForksApproved, Label: "ok"}
}

// approvedAt returns an edit that makes a pull request come from a fork, and approves a commit.
func approvedAt(commit string) func(*v1alpha1.PullRequest) {
	return func(pr *v1alpha1.PullRequest) {
		pr.Fork, pr.Labels = true, []v1alpha1.PullRequestLabel{{Name: "ok", SHA: commit}}
	}
}

// TestForkOverwritesItsTag checks that the revision label of a fork's image is not sufficient, because the
// Dockerfile can set it: an image built from a commit that was not approved could claim that it was built from the
// approved commit. Only a tag with the full commit SHA, which CI writes, counts, and only if the label does not
// contradict the tag.
func TestForkOverwritesItsTag(t *testing.T) {
	s := begin(t)
	pushed := s.clock.Now()
	s.opens(pull(1, "patch", sha("a"), at(pushed), approvedAt(sha("a"))))
	s.policy("shop", pulls(approvedForks))
	for name, labels := range map[string]map[string]string{
		"from a later push": {revision: sha("b")}, "without a commit": nil, "with the approved commit": {revision: sha("a")},
	} {
		s.build(path, "pr-1", pushed.Add(time.Minute), labels)
		s.build(path, "sha-aaaaaaa", pushed.Add(time.Minute), labels)
		same(t, "offered with an image "+name, previews(s.scan("shop")), []string(nil))
	}
	s.build(path, sha("a"), pushed.Add(time.Minute), map[string]string{revision: sha("b")})
	p := s.scan("shop")
	same(t, "offered with an image whose label contradicts its tag", previews(p), []string(nil))
	same(t, "refused", p.Status.Candidates[0].Reason, "pull request 1 (patch): no image yet: tag "+sha("a")+": its revision is "+sha("b")+", which is neither the head commit nor the merge commit")
	s.build(path, sha("a"), pushed.Add(time.Minute), map[string]string{revision: sha("a")})
	same(t, "offered with the image of the approved commit", previews(s.scan("shop")), []string{"patch-1 aaaa " + sha("a")})
}

// TestForkWithTheSameDigits checks two commits with the same first seven digits, which can be created within
// seconds. CI builds a fork's commit that was not approved, and pushes the image with the tag of the approved
// commit.
func TestForkWithTheSameDigits(t *testing.T) {
	s := begin(t)
	good, evil := "4c1a2b3"+strings.Repeat("0", 33), "4c1a2b3"+strings.Repeat("f", 33)
	bad := func(pr *v1alpha1.PullRequest) { pr.Fork = true }
	s.opens(pull(12, "nice", good, approvedAt(good)), pull(13, "evil", evil, bad), pull(14, "ours", good))
	s.build(path, "sha-4c1a2b3", s.clock.Now(), map[string]string{revision: evil}) // the label of docker/metadata-action
	s.policy("shop", pulls(approvedForks))
	p, _ := s.pass("shop")
	same(t, "offered with the image of another commit", previews(p), []string(nil))
	s.build(path, "sha-4c1a2b3", s.clock.Now(), map[string]string{revision: good})
	same(t, "offered by the first digits", previews(s.scan("shop")), []string{"ours-14 4c1a sha-4c1a2b3"})
	s.build(path, good, s.clock.Now(), map[string]string{revision: good})
	same(t, "offered by the full commit SHA", previews(s.scan("shop")), []string{"ours-14 4c1a sha-4c1a2b3", "nice-12 4c1a " + good})
}

// TestForksNeedAnApprovalNow checks that previews of forks are withdrawn if they were offered without approval
// and approval becomes required, unless the tag of the preview contains the approved commit.
func TestForksNeedAnApprovalNow(t *testing.T) {
	s := begin(t)
	s.opens(pull(2, "two", sha("b"), approvedAt(sha("b"))), pull(1, "one", sha("a"), approvedAt(sha("a"))))
	s.push("sha-aaaaaaa", sha("b"))
	s.policy("shop", pulls(func(g *v1alpha1.GitHubPullRequests) { g.Forks = &v1alpha1.Forks{Policy: v1alpha1.ForksAllow} }))
	s.microservice("shop", "shop", "one-1 "+sha("a"), "two-2 "+sha("b"))
	p, _ := s.pass("shop")
	same(t, "offered from all pull requests", previews(p), []string{"two-2 bbbb " + sha("b"), "one-1 aaaa sha-aaaaaaa"})
	s.edit("shop", func(p *v1alpha1.ImagePolicy) { approvedForks(p.Spec.Source.GitHub.PullRequests) })
	p = s.scan("shop")
	same(t, "offered from approved pull requests", append(previews(p), taken(p)...), []string{"two-2 bbbb " + sha("b"), " in one-1: Excluded"})
	s.restart()
	p = s.scan("shop")
	same(t, "after a restart", append(previews(p), taken(p)...), []string{"two-2 bbbb " + sha("b"), " in one-1: Excluded"})
}

// approves returns an edit that makes a pull request come from a fork, with one label for each approved commit.
func approves(commits ...string) func(*v1alpha1.PullRequest) {
	return func(pr *v1alpha1.PullRequest) {
		pr.Fork, pr.Labels = true, nil
		for _, commit := range commits {
			pr.Labels = append(pr.Labels, v1alpha1.PullRequestLabel{Name: "preview:" + commit})
		}
	}
}

// TestApprovalThatNamesTheCommit checks that a label with a commit approves this commit, regardless of when
// the label was added and of later pushes.
func TestApprovalThatNamesTheCommit(t *testing.T) {
	s := begin(t)
	s.push(sha("a"), sha("b"))
	s.opens(pull(1, "patch", sha("b"), approves(sha("a")))) // the push happened after the reviewer loaded the page
	s.policy("shop", pulls(func(g *v1alpha1.GitHubPullRequests) {
		g.Forks = &v1alpha1.Forks{Policy: v1alpha1.ForksApproved, Label: "preview:{{.SHA}}"}
	}))
	p, _ := s.pass("shop")
	same(t, "offered from the commit that was pushed in the meantime", previews(p), []string(nil))
	s.changes(0, approves(sha("a"), sha("b")))
	same(t, "offered when it is approved", previews(s.scan("shop")), []string{"patch-1 bbbb " + sha("b")})
	s.changes(0, func(pr *v1alpha1.PullRequest) { pr.HeadSHA = sha("c") })
	same(t, "offered after a push", previews(s.scan("shop")), []string{"patch-1 bbbb " + sha("b")})
	s.microservice("shop", "shop", "patch-1 "+sha("b"))
	s.changes(0, approves(sha("a")))
	p = s.scan("shop")
	same(t, "offered when the label is removed", append(previews(p), taken(p)...), []string{" in patch-1: Excluded"})
}

// TestApprovalReplaced checks that a commit is withdrawn when its approval is removed and another commit
// without an image is approved at the same time, and that the other commit is offered when it has an image.
func TestApprovalReplaced(t *testing.T) {
	s := begin(t)
	s.push(sha("a"))
	s.opens(pull(1, "patch", sha("a"), approves(sha("a"))))
	s.policy("shop", pulls(func(g *v1alpha1.GitHubPullRequests) {
		g.Forks = &v1alpha1.Forks{Policy: v1alpha1.ForksApproved, Label: "preview:{{.SHA}}"}
	}))
	p, _ := s.pass("shop")
	same(t, "offered", previews(p), []string{"patch-1 aaaa " + sha("a")})
	s.microservice("shop", "shop", "patch-1 "+sha("a"))
	push := func(pr *v1alpha1.PullRequest) { pr.HeadSHA = sha("b") }
	s.changes(0, func(pr *v1alpha1.PullRequest) { push(pr); approves(sha("a"), sha("b"))(pr) })
	same(t, "offered while both are approved", previews(s.scan("shop")), []string{"patch-1 aaaa " + sha("a")})
	s.changes(0, approves(sha("b")))
	for range 2 {
		p = s.scan("shop")
		same(t, "offered after the approval was removed", append(previews(p), taken(p)...), []string{" in patch-1: Excluded"})
	}
	s.push(sha("b"))
	p = s.scan("shop")
	same(t, "offered with an image", append(previews(p), taken(p)...), []string{"patch-1 bbbb " + sha("b")})
}

// TestImageOfThePushBefore checks that the test merge of the previous push is not matched to the new head
// commit, and that an image that was offered because it was built from that test merge is not offered for
// the new head commit.
func TestImageOfThePushBefore(t *testing.T) {
	s := begin(t)
	pushed := s.clock.Now()
	merge := func(commit string) func(*v1alpha1.PullRequest) {
		return func(pr *v1alpha1.PullRequest) { pr.MergeSHA = commit }
	}
	s.opens(pull(7, "fix", sha("a"), at(pushed), merge(sha("d"))))
	before := s.build(path, "pr-7", pushed.Add(time.Minute), map[string]string{revision: sha("d")}) // github.sha, docker/metadata-action's default
	s.policy("shop", pulls(nil))
	p, _ := s.pass("shop")
	same(t, "offered", previews(p), []string{"fix-7 aaaa pr-7"})
	for _, known := range []string{"", sha("d")} { // sha("d") is from a status that an earlier manager wrote
		s.changes(0, func(pr *v1alpha1.PullRequest) {
			pr.HeadSHA = sha("b")
			at(pushed.Add(2 * time.Minute))(pr)
			merge(known)(pr)
		})
		p = s.scan("shop")
		same(t, "offered after a push", append(previews(p), p.Status.Releases[0].Images[0].Digest), []string{"fix-7 aaaa pr-7", before})
	}
	after := s.build(path, "pr-7", pushed.Add(3*time.Minute), map[string]string{revision: sha("e")})
	s.changes(0, merge(sha("e")))
	p = s.scan("shop")
	same(t, "offered with the merge of the head", append(previews(p), p.Status.Releases[0].Images[0].Digest), []string{"fix-7 bbbb pr-7", after})
}

// TestPushTime checks that offered releases contain the push time as soon as it is known.
func TestPushTime(t *testing.T) {
	s := begin(t)
	made, pushed := metav1.NewTime(s.clock.Now().Add(-48*time.Hour)), metav1.NewTime(s.clock.Now().Add(-time.Hour))
	s.opens(pull(1, "one", sha("1"), at(made.Time)))
	s.push("sha-1111111")
	s.policy("shop", pulls(nil))
	p, _ := s.pass("shop")
	same(t, "before the push time is known", p.Status.Releases[0].ReleaseTime.UTC(), made.UTC())
	s.changes(0, func(pr *v1alpha1.PullRequest) { pr.PushTime = &pushed })
	p, _ = s.pass("shop")
	same(t, "when the push time is known", p.Status.Releases[0].ReleaseTime.UTC(), pushed.UTC())
}

// TestManyPullRequestsAreValid checks that each limit that the schema admits for pull requests is valid.
func TestManyPullRequestsAreValid(t *testing.T) {
	policy := &v1alpha1.ImagePolicy{}
	pulls(nil)(&policy.Spec)
	policy.Spec.Limits = v1alpha1.ImageLimits{Groups: 256, ReleasesPerGroup: 10}
	if o := fromSpec(policy, "linux/amd64"); o.problem != nil {
		t.Errorf("256 pull requests cause a problem: %v", o.problem)
	}
}
