package githubrepository

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// requestChanged admits changes to the specification, and to the annotation that requests a poll. It ignores changes to the status.
func requestChanged() builder.ForOption {
	return builder.WithPredicates(predicate.Or(
		predicate.GenerationChangedPredicate{},
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetAnnotations()[v1alpha1.AnnotationRequestedAt] != e.ObjectNew.GetAnnotations()[v1alpha1.AnnotationRequestedAt]
		}},
	))
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
