package githubrepository

import (
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestDeliveryBeforeTakeover checks that a replica that takes the shard of a GitHubRepository polls for the deliveries that were passed on while
// no replica held the shard, although another GitHubRepository of this replica, with the same repository and credential, was polled a minute before.
func TestDeliveryBeforeTakeover(t *testing.T) {
	for _, annotation := range []string{v1alpha1.AnnotationRequestedAt, v1alpha1.AnnotationDeliveredAt} {
		t.Run(annotation, func(t *testing.T) {
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
				r.Annotations = map[string]string{annotation: s.clock.Now().UTC().Format(time.RFC3339Nano)}
			})
			s.clock.Step(15 * time.Second)
			r, _ := s.pass("shop") // the first reconcile after the takeover
			same(t, "open", numbers(r, v1alpha1.PullRequestOpen), []int64{2, 1})
		})
	}
}

// TestDeliveryFromAClockAhead is the case of TestDeliveryBeforeTakeover, if the clock of the replica that received the delivery is ahead.
func TestDeliveryFromAClockAhead(t *testing.T) {
	s := begin(t)
	s.many(1)
	s.repository("here")
	s.policy("previews-here", "here", ofPulls)
	s.rest("here")
	s.repository("shop")
	s.policy("previews", "shop", ofPulls)
	s.rest("shop")
	s.reconciler.polls.forget(s.key("shop"))
	s.clock.Step(20 * time.Second)
	s.many(1)
	s.clock.Step(10 * time.Second)
	s.edit("shop", func(r *v1alpha1.GitHubRepository) {
		r.Annotations = map[string]string{v1alpha1.AnnotationDeliveredAt: s.clock.Now().Add(2 * time.Second).UTC().Format(time.RFC3339Nano)}
	})
	s.clock.Step(time.Second)
	r, _ := s.pass("shop")
	same(t, "open", numbers(r, v1alpha1.PullRequestOpen), []int64{2, 1})
}
