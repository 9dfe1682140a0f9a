package githubrepository

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/github/githubtest"
	"github.com/heighliner/heighliner/test/await"
)

// polls applies polls of a repository, one per minute, as the reconciler does.
type polls struct {
	o   *observed
	now time.Time
	ls  *pollCache
	key types.NamespacedName
}

func newPolls() *polls {
	return &polls{&observed{repository: &v1alpha1.GitHubRepository{}}, epoch, newPollCache(4), types.NamespacedName{Namespace: "a", Name: "b"}}
}

// poll completes a poll that read the listed pull requests while ImagePolicies referred to the
// given labels.
func (p *polls) poll(labels string, listed ...github.PullRequest) *poll {
	p.now = p.now.Add(time.Minute)
	l := &poll{query: query{interval: time.Minute, wanted: wanted{pulls: true, labels: labels}}, pulls: &pullRequests{time: p.now, listed: listed}}
	p.ls.ensure(p.key).poll = l
	return l
}

// apply adds the results of the poll to the status.
func (p *polls) apply() map[string]time.Time {
	var cut truncation
	return applyPullRequests(p.o, p.ls.entry(p.key), p.now, &cut)
}

// read completes a poll whose results are written to the status.
func (p *polls) read(labels string, listed ...github.PullRequest) {
	l := p.poll(labels, listed...)
	p.ls.markReported(p.key, l, p.apply())
}

// forked returns a pull request from a fork with the given number of other labels, and the given
// labels.
func forked(head string, others int, labels ...string) github.PullRequest {
	g := github.PullRequest{Number: 1, State: github.Open, HeadSHA: head, HeadRef: "x", Fork: true}
	for i := range others {
		g.Labels = append(g.Labels, "area/"+string(rune('a'+i)))
	}
	g.Labels = append(g.Labels, labels...)
	return g
}

// TestLabelsOfUnreadPullRequests checks that a label approves the head commit only if the label cannot be older than the commit, even
// if polls do not read the pull request or their results are not written.
func TestLabelsOfUnreadPullRequests(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		play     func(*polls)
		approved bool
	}{
		"each poll reads the pull request": {func(p *polls) {
			p.read("ok", forked(sha(1), someLabels))
			p.read("ok", forked(sha(1), someLabels, "ok"))
		}, true},
		"the first poll with the label does not read the pull request": {func(p *polls) {
			p.read("", forked(sha(1), someLabels, "ok"))
			p.read("", forked(sha(2), someLabels, "ok"))
			p.read("ok")
			p.read("ok", forked(sha(2), someLabels, "ok"))
		}, false},
		"no poll reads the pull request for an hour, during which the head commit can change and change back": {func(p *polls) {
			p.read("ok", forked(sha(1), 0))
			for range 60 {
				p.read("ok")
			}
			p.read("ok", forked(sha(1), 0, "ok"))
		}, false},
		"a write fails, and is repeated": {func(p *polls) {
			p.read("ok", forked(sha(1), someLabels))
			l := p.poll("ok", forked(sha(1), someLabels, "ok"))
			p.ls.doubtful(p.key, l)
			p.ls.markReported(p.key, l, p.apply())
			p.read("ok", forked(sha(1), someLabels, "ok"))
		}, true},
		"the response to a write without the label is lost": {func(p *polls) {
			p.read("ok", forked(sha(1), someLabels))
			l := p.poll("", forked(sha(2), someLabels, "ok"))
			p.apply()
			p.ls.doubtful(p.key, l)
			p.read("ok", forked(sha(2), someLabels, "ok"))
		}, false},
		"another poll has started before a write without the label is recorded": {func(p *polls) {
			p.read("ok", forked(sha(1), someLabels))
			l := p.poll("", forked(sha(2), someLabels, "ok"))
			late := p.apply()
			p.poll("ok", forked(sha(2), someLabels, "ok"))
			p.ls.markReported(p.key, l, late)
			p.read("ok", forked(sha(2), someLabels, "ok"))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPolls()
			test.play(p)
			if pr := p.o.repository.Status.PullRequests[0]; takes(t, pr) != test.approved {
				t.Errorf("approved %t, want %t: %v", !test.approved, test.approved, pr.Labels)
			}
		})
	}
}

// TestLostResponse checks that a label does not approve a later commit if the status contains the results of a poll whose write was not confirmed.
func TestLostResponse(t *testing.T) {
	s := begin(t)
	var labels []string
	for i := range 2 * someLabels {
		labels = append(labels, fmt.Sprintf("area/%02d", i))
	}
	s.repository("shop")
	approvedBy := func(label string) v1alpha1.GitHubSource {
		return v1alpha1.GitHubSource{PullRequests: &v1alpha1.GitHubPullRequests{Forks: &v1alpha1.Forks{Policy: v1alpha1.ForksApproved, Label: label}}}
	}
	s.policy("previews", "shop", approvedBy("ok"))
	s.poll("shop")
	n := s.repo.Open(githubtest.PullRequest{HeadRef: "patch", Fork: "stranger/shop"})
	s.repo.Label(n, labels...)
	s.poll("shop")
	change := func(label string) {
		p := &v1alpha1.ImagePolicy{}
		if err := env.Client.Get(t.Context(), s.key("previews"), p); err != nil {
			t.Fatal(err)
		}
		p.Spec.Source.GitHub.PullRequests.Forks.Label = label
		if err := env.Client.Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}

	change("other")
	s.repo.Label(n, append(labels, "ok")...) // approves the first commit, but no policy refers to it
	s.repo.Push(n)
	s.lost = true
	s.clock.Step(time.Minute)
	var err error
	for range 2 { // The reconcile that starts the poll writes its results, or the next one does.
		if _, err = s.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: s.key("shop")}); err != nil {
			break
		}
		await.Until(t, "the end of the poll", func() bool { return s.reconciler.polls.entry(s.key("shop")).task == nil })
	}
	if err == nil {
		t.Fatal("the write succeeded")
	}
	s.lost = false
	change("ok")
	if pr := pull(t, s.poll("shop"), n); takes(t, pr) {
		t.Errorf("the second commit is approved: %v", pr.Labels)
	}
}
