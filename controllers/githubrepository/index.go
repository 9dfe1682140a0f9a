package githubrepository

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// indexReaders of the cache: ImagePolicies by "namespace/name" of their
// GitHubRepository.
const indexReaders = "githubrepository.imagepolicy.repositoryRef"

// readerOf names the GitHubRepository that an ImagePolicy reads.
func readerOf(p *v1alpha1.ImagePolicy) (types.NamespacedName, bool) {
	if p.Spec.Source == nil || p.Spec.Source.GitHub == nil {
		return types.NamespacedName{}, false
	}
	ref := p.Spec.Source.GitHub.RepositoryRef
	key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	if key.Namespace == "" {
		key.Namespace = p.Namespace
	}
	return key, true
}

// readers is the function of indexReaders.
func readers(o client.Object) []string {
	key, ok := readerOf(o.(*v1alpha1.ImagePolicy))
	if !ok {
		return nil
	}
	return []string{key.String()}
}

func setupIndexes(ctx context.Context, mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.ImagePolicy{}, indexReaders, readers); err != nil {
		return fmt.Errorf("index ImagePolicies: %w", err)
	}
	return nil
}

// asked lets a repository's specification and requests through, and not its status,
// which is ours.
func asked() builder.ForOption {
	return builder.WithPredicates(predicate.Or(
		predicate.GenerationChangedPredicate{},
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetAnnotations()[v1alpha1.AnnotationRequestedAt] != e.ObjectNew.GetAnnotations()[v1alpha1.AnnotationRequestedAt]
		}},
	))
}

// wantsChanged lets an ImagePolicy through that reads something else than before.
func wantsChanged() builder.WatchesOption {
	return builder.WithPredicates(predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, now := e.ObjectOld.(*v1alpha1.ImagePolicy), e.ObjectNew.(*v1alpha1.ImagePolicy)
			return !equality.Semantic.DeepEqual(before.Spec.Source, now.Spec.Source) || !equality.Semantic.DeepEqual(before.Spec.Match, now.Spec.Match)
		},
	})
}

// forReader enqueues the GitHubRepository that an ImagePolicy reads.
func forReader(_ context.Context, o client.Object) []reconcile.Request {
	key, ok := readerOf(o.(*v1alpha1.ImagePolicy))
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}
