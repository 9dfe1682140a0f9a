package versionedmicroservice

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
	"github.com/heighliner/heighliner/internal/apply"
)

// retryEvery is the least time between two retries that a ReplicaSet is asked for.
const retryEvery = 15 * time.Second

// A ReplicaSet whose pods are refused tries again with a back-off of up to 16 minutes,
// and nothing tells it that the cause is gone. It tries at once when it is written to,
// and the Deployment controller copies annotations of a Deployment to it. So the
// Deployment gets an annotation that changes: with a ResourceQuota once its room has
// changed, and with admission that does not answer, of which no watch tells, after
// retryEvery. Both happen only while pods are refused for such a cause.

// retry is the retry that was asked for last.
type retry struct {
	at time.Time
	// room is the hash of what the quotas left at the time.
	room string
}

func (r retry) String() string {
	return strings.TrimSpace(r.at.UTC().Format(time.RFC3339) + " " + r.room)
}

// retryOf reads the annotation; the zero retry where there is none that can be read.
func retryOf(d *appsv1.Deployment) retry {
	at, room, _ := strings.Cut(d.Annotations[resources.AnnotationRetry], " ")
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return retry{}
	}
	return retry{at: t, room: room}
}

// decideRetry gives the retry that is due; nil: none is. look is when one will be.
func decideRetry(o *observed, now time.Time) (due *retry, look time.Time) {
	d := o.own()
	cause := refused(d).reason
	if cause != hlnr.FailureQuotaExceeded && cause != hlnr.FailureAdmissionUnavailable {
		return nil, time.Time{}
	}
	last := retryOf(d)
	if cause == hlnr.FailureQuotaExceeded && !last.at.IsZero() && last.room == o.room {
		return nil, time.Time{} // the watch of quotas tells when it changes
	}
	since := last.at
	for _, c := range d.Status.Conditions {
		// At first the ReplicaSet itself tries often enough.
		if c.Type == appsv1.DeploymentReplicaFailure && c.LastTransitionTime.After(since) {
			since = c.LastTransitionTime.Time
		}
	}
	if since.After(now) {
		since = now // a clock went back
	}
	if next := since.Add(retryEvery); now.Before(next) {
		return nil, next
	}
	return &retry{at: now, room: o.room}, time.Time{}
}

// observeRoom reads what the quotas of a namespace leave, where one refuses pods.
func (r *reconciler) observeRoom(ctx context.Context, o *observed) error {
	if refused(o.own()).reason != hlnr.FailureQuotaExceeded {
		return nil
	}
	var quotas corev1.ResourceQuotaList
	if err := r.client.List(ctx, &quotas, client.InNamespace(o.release.Namespace)); err != nil {
		return fmt.Errorf("list ResourceQuotas: %w", err)
	}
	var err error
	o.room, err = room(quotas.Items)
	return err
}

// room is the same for quotas that enforce and count the same.
func room(quotas []corev1.ResourceQuota) (string, error) {
	type counted struct {
		Name       string
		Hard, Used corev1.ResourceList
	}
	var all []counted
	for _, q := range quotas {
		all = append(all, counted{q.Name, q.Status.Hard, q.Status.Used})
	}
	slices.SortFunc(all, func(a, b counted) int { return cmp.Compare(a.Name, b.Name) })
	return apply.Hash(all)
}

// roomGrew lets pass what may let pods in that a quota refused.
func roomGrew() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return true },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*corev1.ResourceQuota)
			now, fine := e.ObjectNew.(*corev1.ResourceQuota)
			return ok && fine && grew(before, now)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// grew reports whether a quota leaves more of anything, or speaks of other pods.
func grew(before, now *corev1.ResourceQuota) bool {
	if !equality.Semantic.DeepEqual(before.Spec.Scopes, now.Spec.Scopes) || !equality.Semantic.DeepEqual(before.Spec.ScopeSelector, now.Spec.ScopeSelector) {
		return true
	}
	for name, was := range before.Status.Hard {
		is, ok := now.Status.Hard[name]
		if !ok {
			return true
		}
		was, is := was.DeepCopy(), is.DeepCopy()
		was.Sub(before.Status.Used[name])
		is.Sub(now.Status.Used[name])
		if is.Cmp(was) > 0 {
			return true
		}
	}
	return len(before.Status.Hard) == 0 && len(now.Status.Hard) > 0 // it is enforced from now on, and refused all before
}

// roomToReleases maps a ResourceQuota to the releases of its namespace that a quota
// keeps from running.
func (r *reconciler) roomToReleases() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, quota client.Object) []ctrl.Request {
		var releases hlnr.VersionedMicroserviceList
		if err := r.client.List(ctx, &releases, client.InNamespace(quota.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "list releases of a namespace whose quota changed")
			return nil
		}
		var requests []ctrl.Request
		for i := range releases.Items {
			if releases.Items[i].Status.Failure == hlnr.FailureQuotaExceeded {
				requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&releases.Items[i])})
			}
		}
		return requests
	})
}
