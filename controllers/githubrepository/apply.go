package githubrepository

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/internal/status"
)

// writeStatus writes the status if it has changed, and records events. The write fails if the
// object has changed since it was read.
func (r *Reconciler) writeStatus(ctx context.Context, o *observed, known cacheEntry) error {
	repository := o.repository
	before := repository.DeepCopy()
	st := &repository.Status
	st.WebhookPath = webhookPath(repository)
	learned := known.unreported(o.query)
	var late map[string]time.Time
	if learned {
		late = applyPoll(o, known, r.clock.Now())
	}
	if !o.query.wanted.pulls {
		// status.pullRequests is kept for approvals and feedback. Because status.openPullRequests is removed, a new
		// ImagePolicy waits until the pull requests have been listed again.
		st.OpenPullRequests = nil
	}
	answered := known.settled(o.query)
	switch {
	case o.problem != nil:
		st.LastHandledRequest = o.query.requested
	case answered:
		st.LastHandledRequest = known.poll.query.requested // A later request starts another poll.
	}
	if answered || o.paused() {
		st.ObservedGeneration = repository.Generation
	}
	setReady(o, known)
	setWebhook(o, known, r.servesWebhooks)
	wrote, err := status.Patch(ctx, r.Client, FieldOwner, repository, before, status.AtResourceVersion)
	if err != nil {
		if learned {
			r.polls.doubtful(client.ObjectKeyFromObject(repository), known.poll)
		}
		return client.IgnoreNotFound(err)
	}
	if learned {
		r.polls.markReported(client.ObjectKeyFromObject(repository), known.poll, late)
	}
	if wrote {
		r.recordEvents(repository, before)
	}
	return nil
}
