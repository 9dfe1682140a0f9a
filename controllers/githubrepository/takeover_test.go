package githubrepository

import (
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestDeliveryBeforeTakeover checks that a replica that takes the shard of a GitHubRepository polls for the deliveries that were passed on while
// no replica held the shard, although another GitHubRepository of this replica, with the same repository and credential, was polled shortly before. The clock of
// the replica that received the delivery may be ahead.
func TestDeliveryBeforeTakeover(t *testing.T) {
	for name, test := range map[string]struct {
		annotation    string
		ahead, before time.Duration // how far the clock is ahead, and how long before the takeover the delivery arrives
	}{
		"request":                             {v1alpha1.AnnotationRequestedAt, 0, 15 * time.Second},
		"delivery":                            {v1alpha1.AnnotationDeliveredAt, 0, 15 * time.Second},
		"delivery with a clock that is ahead": {v1alpha1.AnnotationDeliveredAt, 2 * time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			s.many(1)
			s.repository("here")
			s.policy("previews-here", "here", ofPulls)
			s.rest("here") // polled by this replica
			s.repository("shop")
			s.policy("previews", "shop", ofPulls)
			s.rest("shop")
			s.reconciler.polls.forget(s.key("shop")) // So far, another replica has polled it: this one knows only its status.
			s.clock.Step(20 * time.Second)
			s.rest("here")
			s.many(1)
			s.clock.Step(10 * time.Second)
			// The other replica exits. The delivery about the new pull request arrives here before this replica takes the shard.
			s.edit("shop", func(r *v1alpha1.GitHubRepository) {
				r.Annotations = map[string]string{test.annotation: s.clock.Now().Add(test.ahead).UTC().Format(time.RFC3339Nano)}
			})
			s.clock.Step(test.before)
			r, _ := s.pass("shop") // the first reconcile after the takeover
			same(t, "open", numbers(r, v1alpha1.PullRequestOpen), []int64{2, 1})
		})
	}
}
