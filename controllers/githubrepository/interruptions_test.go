package githubrepository

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github/githubtest"
)

// TestPollCompletesDespiteDeliveries covers 15-second polls of a large or slow repository, with a delivery
// every ten seconds. The list must be known after five minutes, regardless of which replica gets the
// deliveries.
func TestPollCompletesDespiteDeliveries(t *testing.T) {
	for name, leader := range map[string]bool{"to the leader": true, "to another replica": false} {
		t.Run(name, func(t *testing.T) {
			d := serve(t)
			slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for end := d.clock.Now().Add(7500 * time.Millisecond); d.clock.Now().Before(end); time.Sleep(time.Millisecond) {
					if r.Context().Err() != nil {
						panic(http.ErrAbortHandler)
					}
				}
				d.github.ServeHTTP(w, r)
			}))
			t.Cleanup(slow.Close)
			d.repository("slow", func(r *v1alpha1.GitHubRepositorySpec) {
				r.BaseURL, r.WebhookSecretRef = slow.URL, &v1alpha1.Reference{Name: "webhook"}
			})
			d.policy("previews", "slow", ofPulls)
			d.repo.Open(githubtest.PullRequest{HeadRef: "feature"})
			d.reconciler.polls.run(d.Context(), func(types.NamespacedName) {})
			if leader {
				d.hooks.hint = d.reconciler.polls.hint
			} else {
				d.hooks.elected = make(chan struct{})
			}
			polls := func() float64 { return float64(len(d.get("slow").Status.PullRequests)) }
			seen := "" // the latest annotation of the replica that received deliveries
			for second := range 300 {
				if second%10 == 0 {
					d.send(d.repo.PushEvent("main", "cccccccccccccccccccccccccccccccccccccccc"), "signs")
				}
				d.clock.Step(time.Second)
				time.Sleep(15 * time.Millisecond)
				if at := d.get("slow").Annotations[v1alpha1.AnnotationDeliveredAt]; at != seen {
					seen = at
					d.observe("slow")
				}
				if _, err := d.reconciler.Reconcile(d.Context(), ctrl.Request{NamespacedName: d.key("slow")}); err != nil {
					t.Fatal(err)
				}
				if polls() > 0 && (leader || seen != "") {
					t.Logf("known after %d s", second)
					return
				}
			}
			t.Errorf("after five minutes, no poll has ended, or no delivery was passed on (%q): %q", seen, condition(d.get("slow"), "Ready"))
		})
	}
}
