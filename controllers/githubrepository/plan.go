package githubrepository

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// paused reports whether GitHub must not be called.
func (o *observed) paused() bool { return o.problem != nil || o.repository.Spec.Suspend }

// unreported reports whether a completed poll for this query is still missing from the status.
func (m cacheEntry) unreported(q query) bool {
	return m.poll != nil && !m.reported && m.poll.query.isSame(q)
}

// settled reports whether a poll for this query is complete and had no transient error.
func (m cacheEntry) settled(q query) bool {
	return m.poll != nil && m.poll.query.isSame(q) && (m.poll.err == nil || !transient(m.poll.err))
}

// firstReportDelay is the time after which the status of a new repository shows that the first poll is not complete.
const firstReportDelay = 10 * time.Second

// reportable reports whether the status must be updated because of the results of a poll, a problem
// that a user must fix, or a slow first poll.
func reportable(o *observed, known cacheEntry, now time.Time) bool {
	if o.paused() || known.unreported(o.query) {
		return true
	}
	if known.settled(o.query) && o.repository.Status.ObservedGeneration != o.repository.Generation {
		return true // the specification has changed, but the change does not affect the query
	}
	return neverReported(o) && known.task != nil && now.Sub(known.task.since) >= firstReportDelay
}

// neverReported reports whether the status is still empty.
func neverReported(o *observed) bool {
	return meta.FindStatusCondition(o.repository.Status.Conditions, v1alpha1.ConditionReady) == nil
}

// requeueAfter returns the time until the next reconcile, or 0 if none needs to be scheduled. A poll enqueues the
// repository when it is complete. Problems are checked again after the interval, because they may be caused by
// Secrets, which are not watched.
func requeueAfter(o *observed, known cacheEntry, now time.Time) time.Duration {
	switch {
	case o.repository.Spec.Suspend:
		return 0
	case o.problem != nil:
		return o.query.interval
	case known.task != nil && neverReported(o):
		return firstReportDelay
	case known.task != nil || known.poll == nil:
		return 0
	default:
		return max(time.Second, known.poll.due.Sub(now))
	}
}
