package feedback

import (
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/index"
)

// indexes are the cache indexes that this controller reads.
var indexes = []index.Index{index.ImagePoliciesByRepository, index.MicroservicesByImagePolicy, index.NetworkPoliciesByMicroservice}

// forPolicy enqueues the GitHubRepository that an ImagePolicy refers to.
func forPolicy(_ context.Context, o client.Object) []reconcile.Request {
	if key, ok := o.(*v1alpha1.ImagePolicy).GitHubRepositoryKey(); ok {
		return []reconcile.Request{{NamespacedName: key}}
	}
	return nil
}

// forMicroservice enqueues the GitHubRepository that a Microservice's ImagePolicy refers to.
func (r *Reconciler) forMicroservice(ctx context.Context, o client.Object) []reconcile.Request {
	var policy v1alpha1.ImagePolicy
	key := client.ObjectKey{Namespace: o.GetNamespace(), Name: o.(*v1alpha1.Microservice).Spec.ImagePolicyRef.Name}
	if r.find(ctx, key, &policy) {
		return forPolicy(ctx, &policy)
	}
	return nil
}

// forNetworkPolicy enqueues the GitHubRepository for the Microservice of a NetworkPolicy.
func (r *Reconciler) forNetworkPolicy(ctx context.Context, o client.Object) []reconcile.Request {
	return r.forNamed(ctx, o.GetNamespace(), o.(*v1alpha1.NetworkPolicy).MicroserviceName())
}

// forRelease enqueues the GitHubRepository for the Microservice of a release.
func (r *Reconciler) forRelease(ctx context.Context, o client.Object) []reconcile.Request {
	return r.forNamed(ctx, o.GetNamespace(), o.(*v1alpha1.VersionedMicroservice).Spec.MicroserviceName)
}

func (r *Reconciler) forNamed(ctx context.Context, namespace, name string) []reconcile.Request {
	var ms v1alpha1.Microservice
	if r.find(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &ms) {
		return r.forMicroservice(ctx, &ms)
	}
	return nil
}

// find reads an object from the cache, and reports whether it exists. The object is not a deep copy, and must not be changed.
// If the object is created later, its own event triggers a reconcile.
func (r *Reconciler) find(ctx context.Context, key client.ObjectKey, obj client.Object) bool {
	err := r.Get(ctx, key, obj, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to map an event to its GitHubRepository", "object", key)
	}
	return err == nil
}

// changed returns a predicate that passes updates that change the result of f.
func changed[T client.Object](f func(T) any) builder.Predicates {
	return builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(T)
		now, ok2 := e.ObjectNew.(T)
		if !ok1 || !ok2 {
			return true
		}
		was, is := f(before), f(now)
		return !reflect.DeepEqual(was, is) && !equality.Semantic.DeepEqual(was, is) // The semantic comparison is much slower, so it comes second.
	}})
}

// Each predicate passes updates to objects of one kind if they change any of the listed fields.
var (
	repositoryChanged = changed(func(g *v1alpha1.GitHubRepository) any {
		return []any{
			g.Generation, g.DeletionTimestamp, g.Finalizers, g.Annotations[v1alpha1.AnnotationRequestedAt],
			g.Status.RepositoryID, g.Status.Repository, g.Status.OpenPullRequests != nil, pullRequestsComplete(g), g.Status.PullRequests, g.Status.Tags, g.Status.Feedback, g.Status.Comments,
			meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionFeedbackReady),
		}
	})
	policyChanged = changed(func(p *v1alpha1.ImagePolicy) any {
		var offered []any
		for _, r := range p.Status.Releases {
			offered = append(offered, []any{r.Group, r.SemVer, r.PullRequest, r.Revision})
		}
		return []any{p.Spec.Source, p.DeletionTimestamp, offered}
	})
	microserviceChanged = changed(func(ms *v1alpha1.Microservice) any {
		var groups []any
		for _, g := range ms.Status.ReleaseGroups {
			groups = append(groups, []any{g.Slug, g.Phase, g.PullRequest, g.Head, g.Target.Reason})
			if g.Rollout != nil {
				groups = append(groups, []any{g.Rollout.Release, g.Rollout.WaitsFor})
			}
			for _, row := range g.Releases {
				groups = append(groups, []any{row.VersionedMicroservice, row.SemVer, row.Status, row.Available, row.Reason})
			}
		}
		return []any{ms.Spec.ImagePolicyRef, ms.DeletionTimestamp, groups}
	})
	networkPolicyChanged = changed(func(p *v1alpha1.NetworkPolicy) any {
		var groups []any
		for _, g := range p.Status.Groups {
			groups = append(groups, []any{g.Slug, g.Active})
		}
		return []any{p.Spec.MicroserviceRef, p.Spec.Provider == nil, len(p.Spec.Domains), p.DeletionTimestamp, p.Status.Domains, groups}
	})
	releaseChanged = changed(func(release *v1alpha1.VersionedMicroservice) any {
		return release.Status.Failure
	})
)
