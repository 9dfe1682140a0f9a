package githubrepository

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github/githubtest"
)

// delivered sends a delivery, which makes the next poll start earlier, and waits until this poll is done.
func (d *door) delivered(delivery githubtest.Delivery) (*v1alpha1.GitHubRepository, time.Duration) {
	d.Helper()
	d.hooks.hint = d.reconciler.polls.hint
	if code := d.send(delivery, "signs"); code != 202 {
		d.Fatalf("answered %d", code)
	}
	d.clock.Step(coalesceDelay)
	return d.pass("shop")
}

// until reconciles whenever a requeue is due within the given duration, and then returns the
// GitHubRepository.
func (d *door) until(next, over time.Duration) (r *v1alpha1.GitHubRepository) {
	d.Helper()
	for next <= over {
		over -= next
		d.clock.Step(next)
		r, next = d.pass("shop")
		if next <= 0 {
			d.Fatal("the repository is not polled again")
		}
	}
	return r
}

// reads returns the number of requests for the list since the counts were reset, regardless of the responses.
func (d *door) reads() (n int) {
	for request, times := range d.github.Counts() {
		if request.Route == routePulls {
			n += times
		}
	}
	return n
}

// TestReadAgainWhileReplicasLag checks that, after a delivery about a change that GitHub's replicas do not
// know about yet, requests are repeated before the end of the interval until a response contains the change.
func TestReadAgainWhileReplicasLag(t *testing.T) {
	const lag = 20 * time.Second
	for name, test := range map[string]struct {
		change func(*githubtest.Repository) githubtest.Delivery
		want   func(*v1alpha1.GitHubRepository) bool
	}{
		"a pull request is opened": {
			func(r *githubtest.Repository) githubtest.Delivery {
				return r.PullRequestEvent(r.Open(githubtest.PullRequest{HeadRef: "other"}), "opened")
			},
			func(r *v1alpha1.GitHubRepository) bool {
				return slices.Equal(numbers(r, v1alpha1.PullRequestOpen), []int64{2, 1})
			},
		},
		"a push": {
			func(r *githubtest.Repository) githubtest.Delivery {
				r.Push(1)
				return r.PullRequestEvent(1, "synchronize")
			},
			func(r *v1alpha1.GitHubRepository) bool { return r.Status.PullRequests[0].HeadTime.Minute() == 9 },
		},
		"a label": {
			func(r *githubtest.Repository) githubtest.Delivery {
				r.Label(1, "preview")
				return r.PullRequestEvent(1, "labeled")
			},
			func(r *v1alpha1.GitHubRepository) bool { return len(r.Status.PullRequests[0].Labels) == 1 },
		},
		"a pull request is closed": {
			func(r *githubtest.Repository) githubtest.Delivery {
				r.Close(1, false)
				return r.PullRequestEvent(1, "closed")
			},
			func(r *v1alpha1.GitHubRepository) bool {
				return slices.Equal(numbers(r, v1alpha1.PullRequestClosed), []int64{1})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := serve(t)
			d.edit("shop", func(r *v1alpha1.GitHubRepository) { r.Spec.Interval = "1h" })
			d.policy("previews", "shop", ofPulls)
			d.repo.Open(githubtest.PullRequest{HeadRef: "feature"})
			d.rest("shop")
			d.clock.Step(5 * time.Minute)
			d.github.SetLag(lag)
			r, next := d.delivered(test.change(d.repo))
			if test.want(r) {
				t.Fatal("the reads do not lag")
			}
			if r = d.until(next, 2*lag); r == nil || !test.want(r) {
				t.Errorf("not known after %s: %+v", 2*lag, d.get("shop").Status.PullRequests)
			}
			d.github.ResetCounts()
			d.until(time.Second, 10*time.Minute)
			same(t, "reads after it is known", d.reads(), 0)
		})
	}
}

// TestReadsForADeliveryAreBounded checks that, if no response ever contains the change, requests are repeated a
// few times and then only at the interval, and that irrelevant deliveries cause only one poll.
func TestReadsForADeliveryAreBounded(t *testing.T) {
	d := serve(t)
	d.edit("shop", func(r *v1alpha1.GitHubRepository) { r.Spec.Interval = "1h" })
	d.policy("previews", "shop", ofPulls)
	n := d.repo.Open(githubtest.PullRequest{HeadRef: "feature"})
	d.rest("shop")
	d.github.SetLag(24 * time.Hour)
	d.clock.Step(5 * time.Minute)
	d.repo.Label(n, "preview")
	d.github.ResetCounts()
	_, next := d.delivered(d.repo.PullRequestEvent(n, "labeled"))
	d.until(next, 10*time.Minute)
	same(t, "reads of the list", d.reads(), 1+maxNoticeReads)

	for what, of := range map[string]githubtest.Delivery{
		"a push": d.repo.PushEvent("main", "cccccccccccccccccccccccccccccccccccccccc"),
		"a closed pull request that was never known": {ID: "9", Event: "pull_request",
			Payload: []byte(`{"action":"closed","number":77,"pull_request":{"number":77,"state":"closed","updated_at":"2027-01-01T00:00:00Z"},"repository":{"full_name":"acme/shop"}}`)},
		"a time that cannot be parsed": {ID: "10", Event: "pull_request",
			Payload: []byte(`{"action":"edited","number":1,"pull_request":{"number":1,"updated_at":"soon"},"repository":{"full_name":"acme/shop"}}`)},
	} {
		d.github.ResetCounts()
		_, next = d.delivered(of)
		d.until(next, 10*time.Minute)
		same(t, "reads of the list after "+what, d.reads(), 1)
	}
}

// TestAnnouncedChangesAreKept checks that announced changes are kept after a poll that fails or is replaced.
func TestAnnouncedChangesAreKept(t *testing.T) {
	d := serve(t)
	d.edit("shop", func(r *v1alpha1.GitHubRepository) { r.Spec.Interval = "1h" })
	d.policy("previews", "shop", ofPulls)
	n := d.repo.Open(githubtest.PullRequest{HeadRef: "feature"})
	d.rest("shop")
	d.clock.Step(5 * time.Minute)
	d.github.SetLag(20 * time.Second)
	d.repo.Label(n, "preview")
	d.down.Store(true)
	d.delivered(d.repo.PullRequestEvent(n, "labeled"))
	d.down.Store(false)
	d.edit("shop", func(r *v1alpha1.GitHubRepository) { r.Spec.Interval = "2h" })
	_, next := d.pass("shop")
	known := d.reconciler.polls.entry(d.key("shop"))
	same(t, "pull requests whose changes the poll has not found", slices.Collect(maps.Keys(known.poll.missing)), []int64{int64(n)})
	r := d.until(next, 2*time.Minute)
	same(t, "labels", len(pull(t, r, n).Labels), 1)
}

// TestReplacedPollOfADelivery checks that, if the query changes during the poll that a delivery started, the poll for the changed query
// does not use responses from before the delivery.
func TestReplacedPollOfADelivery(t *testing.T) {
	s := begin(t)
	var blocked atomic.Bool
	unblock := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if blocked.Load() {
			<-unblock
		}
		s.github.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.repository("shop", func(r *v1alpha1.GitHubRepositorySpec) { r.BaseURL, r.Interval = server.URL, "1h" })
	s.policy("releases", "shop", ofReleases)
	s.repo.Publish(githubtest.Release{Tag: "1.0.0"})
	same(t, "releases", len(s.rest("shop").Status.Releases), 1)

	s.clock.Step(5 * time.Minute)
	s.repo.Publish(githubtest.Release{Tag: "1.1.0"})
	blocked.Store(true)
	s.reconciler.polls.hint(s.key("shop"), nil)
	for _, name := range []string{"tags", "previews"} { // The second change replaces the poll that replaced the delivery's poll.
		if _, err := s.reconciler.Reconcile(s.Context(), ctrl.Request{NamespacedName: s.key("shop")}); err != nil {
			t.Fatal(err)
		}
		source := ofTags
		if name == "previews" {
			source = ofPulls
		}
		s.policy(name, "shop", source)
		s.clock.Step(time.Second)
	}
	if _, err := s.reconciler.Reconcile(s.Context(), ctrl.Request{NamespacedName: s.key("shop")}); err != nil {
		t.Fatal(err)
	}
	blocked.Store(false)
	close(unblock)
	r, _ := s.pass("shop")
	same(t, "releases after the delivery", len(r.Status.Releases), 2)
	s.github.ResetCounts()
	s.edit("shop", func(r *v1alpha1.GitHubRepository) { r.Spec.Interval = "2h" })
	s.pass("shop")
	same(t, "requests for a changed query without a delivery", len(s.github.Counts()), 0)
}

// TestDeliveryWhileSuspended checks that a delivery that arrives during a suspension causes a poll when the suspension ends, even
// if the last poll is recent.
func TestDeliveryWhileSuspended(t *testing.T) {
	d := serve(t)
	d.edit("shop", func(r *v1alpha1.GitHubRepository) { r.Spec.Interval = "1h" })
	d.policy("previews", "shop", ofPulls)
	n := d.repo.Open(githubtest.PullRequest{HeadRef: "feature"})
	d.rest("shop")
	d.clock.Step(5 * time.Minute)
	d.edit("shop", func(r *v1alpha1.GitHubRepository) { r.Spec.Suspend = true })
	d.pass("shop")
	d.repo.Label(n, "preview")
	d.github.ResetCounts()
	d.delivered(d.repo.PullRequestEvent(n, "labeled"))
	d.pass("shop")
	same(t, "requests while suspended", len(d.github.Counts()), 0)
	d.edit("shop", func(r *v1alpha1.GitHubRepository) { r.Spec.Suspend = false })
	r, _ := d.pass("shop")
	same(t, "labels", len(pull(t, r, n).Labels), 1)
	d.github.ResetCounts()
	d.pass("shop")
	same(t, "requests after the poll", len(d.github.Counts()), 0)
}

// TestDeliveryBeforeASuspension checks that the changes that a delivery announced are kept if the suspension cancels the poll that the
// delivery started.
func TestDeliveryBeforeASuspension(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "shop", Name: "shop"}
	ls := newPollCache(defaultPolls)
	ls.run(t.Context(), func(types.NamespacedName) {})
	at := time.Now()
	ls.hint(key, map[int64]notice{7: {updated: at}})
	ls.start(key, &poll{startedAt: at}, func(ctx context.Context, _ *poll) { <-ctx.Done() })
	same(t, "hints during the poll", len(ls.entry(key).hints), 0)
	ls.hint(key, map[int64]notice{8: {updated: at}})
	ls.stop(key)
	ls.stop(key) // each reconcile of a suspended repository
	known := ls.entry(key)
	same(t, "hints after the poll was stopped", slices.Sorted(maps.Keys(known.hints)), []int64{0, 7, 8})
	if known.task != nil || !known.hints[7].updated.Equal(at) {
		t.Errorf("after the poll was stopped: %+v", known)
	}
}
