package githubrepository

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
)

// renamedEvent returns the event for a repository that was renamed.
func renamedEvent(before, now string) status.Event {
	return status.NormalEvent("Renamed", "Poll", fmt.Sprintf("the repository was renamed from %s to %s", before, now))
}

// recordEvents records the events for a status that was written: an event for each changed
// condition, with the reason and message of the condition, and renamedEvent if the repository was
// renamed.
func (r *Reconciler) recordEvents(repository, before *v1alpha1.GitHubRepository) {
	was, is := before.Status, repository.Status
	r.events.Transitions(repository, was.Conditions, is.Conditions, "Poll",
		status.TransitionRule{Kind: v1alpha1.ConditionReady, Good: metav1.ConditionTrue},
		status.TransitionRule{Kind: v1alpha1.ConditionRateLimited, Good: metav1.ConditionFalse, Worry: true},
		status.TransitionRule{Kind: v1alpha1.ConditionTruncated, Good: metav1.ConditionFalse, Worry: true},
		status.TransitionRule{Kind: v1alpha1.ConditionWebhookReady, Good: metav1.ConditionTrue, Worry: true},
	)
	if was.Repository != "" && was.Repository != is.Repository && was.RepositoryID == is.RepositoryID {
		r.events.Record(repository, renamedEvent(was.Repository, is.Repository))
	}
}
