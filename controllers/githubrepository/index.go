package githubrepository

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/queue"
)

// requestChanged admits changes to the specification, and to the annotation that requests a poll. It also admits an object that replaced
// another object of the same name while the watch was interrupted. It ignores changes to the status.
func requestChanged() builder.ForOption {
	return builder.WithPredicates(predicate.Or(
		queue.SpecChanged(),
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetAnnotations()[v1alpha1.AnnotationRequestedAt] != e.ObjectNew.GetAnnotations()[v1alpha1.AnnotationRequestedAt]
		}},
	))
}

// delivered polls a repository again after another replica has received a webhook delivery for it. holds reports
// whether this replica reconciles a namespace.
func (r *Reconciler) delivered(holds func(namespace string) bool) handler.EventHandler {
	return handler.Funcs{UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		before, now := e.ObjectOld.GetAnnotations()[v1alpha1.AnnotationDeliveredAt], e.ObjectNew.GetAnnotations()[v1alpha1.AnnotationDeliveredAt]
		if now != "" && now != before && holds(e.ObjectNew.GetNamespace()) { // A user may remove the annotation.
			r.polls.hint(client.ObjectKeyFromObject(e.ObjectNew), nil)
		}
	}}
}

// deliveredAt returns the time of the latest webhook delivery that another replica received, or zero.
func deliveredAt(r *v1alpha1.GitHubRepository) time.Time {
	at, err := time.Parse(time.RFC3339Nano, r.Annotations[v1alpha1.AnnotationDeliveredAt])
	if err != nil {
		return time.Time{} // A user may have changed the annotation.
	}
	return at
}

// sourceChanged admits changes to spec.source and spec.match of ImagePolicies.
func sourceChanged() builder.WatchesOption {
	return builder.WithPredicates(predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, now := e.ObjectOld.(*v1alpha1.ImagePolicy), e.ObjectNew.(*v1alpha1.ImagePolicy)
			return !equality.Semantic.DeepEqual(before.Spec.Source, now.Spec.Source) || !equality.Semantic.DeepEqual(before.Spec.Match, now.Spec.Match)
		},
	})
}

// forImagePolicy enqueues the GitHubRepository that an ImagePolicy reads.
func forImagePolicy(_ context.Context, o client.Object) []reconcile.Request {
	key, ok := o.(*v1alpha1.ImagePolicy).GitHubRepositoryKey()
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}
