package imagepolicy

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/index"
	"github.com/heighliner/heighliner/internal/queue"
	"github.com/heighliner/heighliner/internal/version"
)

// Names of this controller's cache indexes.
const (
	indexPins = "imagepolicy.networkpolicy.microservice"
)

// indexes are the cache indexes that this controller uses.
var indexes = []index.Index{
	index.MicroservicesByImagePolicy,
	index.ImagePoliciesByRepository,
	{Object: &v1alpha1.NetworkPolicy{}, Field: indexPins, Values: func(o client.Object) []string {
		p := o.(*v1alpha1.NetworkPolicy)
		if len(pins(p)) == 0 {
			return nil
		}
		return []string{p.MicroserviceName()}
	}},
}

// pins returns the versions to which the domains and listeners of a NetworkPolicy refer.
func pins(p *v1alpha1.NetworkPolicy) []string {
	var versions []string
	add := func(r *v1alpha1.DomainRelease) {
		if r != nil && r.Version != "" {
			versions = append(versions, r.Version)
		}
	}
	for _, d := range p.Spec.Domains {
		add(d.Release)
	}
	for _, l := range p.Spec.Listeners {
		add(l.Release)
	}
	return versions
}

// requestChanged admits changes to the specification, and new requests for a scan. It also admits an object that replaced another object
// of the same name while the watch was interrupted. It ignores changes to the status.
func requestChanged() builder.ForOption {
	return builder.WithPredicates(predicate.Or(
		queue.SpecChanged(),
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetAnnotations()[v1alpha1.AnnotationRequestedAt] != e.ObjectNew.GetAnnotations()[v1alpha1.AnnotationRequestedAt]
		}},
	))
}

// usageChanged admits changes to the versions that Microservices use or pin, and changes to the references to
// their ImagePolicies.
func usageChanged() builder.WatchesOption {
	return builder.WithPredicates(predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, now := e.ObjectOld.(*v1alpha1.Microservice), e.ObjectNew.(*v1alpha1.Microservice)
			return before.Spec.ImagePolicyRef != now.Spec.ImagePolicyRef || !slices.Equal(versionsInUse(before), versionsInUse(now))
		},
	})
}

// versionsInUse returns the versions that a Microservice runs or pins, and the head commits of its
// previews that have no release. Such a preview remains until its pull request is closed.
func versionsInUse(ms *v1alpha1.Microservice) []version.Held {
	var held []version.Held
	for _, g := range ms.Status.ReleaseGroups {
		if len(g.Releases) == 0 && g.Head != "" {
			held = append(held, version.Held{Group: g.Slug, Version: g.Head})
		}
		for _, row := range g.Releases {
			held = append(held, version.Held{Group: g.Slug, Version: row.SemVer.Version})
		}
	}
	if m := ms.Spec.UpdateStrategy.Manual; m != nil {
		if m.SemVer != nil {
			held = append(held, version.Held{Version: m.SemVer.Version})
		}
		for _, g := range m.Groups {
			if g.Version != "" { // if the group pins a release instead, the version of the release is already in the list
				held = append(held, version.Held{Version: g.Version})
			}
		}
	}
	return held
}

// pinsChanged admits changes to the versions to which NetworkPolicies refer, and changes to the references to
// their Microservices.
func pinsChanged() builder.WatchesOption {
	return builder.WithPredicates(predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, now := e.ObjectOld.(*v1alpha1.NetworkPolicy), e.ObjectNew.(*v1alpha1.NetworkPolicy)
			return before.MicroserviceName() != now.MicroserviceName() || !slices.Equal(pins(before), pins(now))
		},
	})
}

// forMicroservice enqueues the ImagePolicy that a Microservice uses.
func forMicroservice(_ context.Context, o client.Object) []reconcile.Request {
	ms := o.(*v1alpha1.Microservice)
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: ms.Namespace, Name: ms.Spec.ImagePolicyRef.Name}}}
}

// forNetworkPolicy enqueues the ImagePolicy that a NetworkPolicy's Microservice uses.
func (r *Reconciler) forNetworkPolicy(ctx context.Context, o client.Object) []reconcile.Request {
	var ms v1alpha1.Microservice
	key := client.ObjectKey{Namespace: o.GetNamespace(), Name: o.(*v1alpha1.NetworkPolicy).MicroserviceName()}
	if err := r.Get(ctx, key, &ms); err != nil {
		if client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "failed to get the Microservice to which a networkpolicies.hlnr.io object refers", "microservice", key.Name)
		}
		return nil
	}
	return forMicroservice(ctx, &ms)
}

// repositoryStatusChanged admits changes to the specification of GitHubRepositories, and to the status fields
// that this controller reads. It ignores other changes, such as those to status.feedback.
func repositoryStatusChanged() builder.WatchesOption {
	return builder.WithPredicates(predicate.Funcs{UpdateFunc: repositoryUpdated})
}

// repositoryUpdated reports whether repositoryStatusChanged admits an update.
func repositoryUpdated(e event.UpdateEvent) bool {
	before, now := e.ObjectOld.(*v1alpha1.GitHubRepository), e.ObjectNew.(*v1alpha1.GitHubRepository)
	b, n := &before.Status, &now.Status
	return before.Generation != now.Generation || b.ObservedGeneration != n.ObservedGeneration || b.Repository != n.Repository || b.RepositoryID != n.RepositoryID ||
		(b.OpenPullRequests == nil) != (n.OpenPullRequests == nil) ||
		!equality.Semantic.DeepEqual(b.Conditions, n.Conditions) || !equality.Semantic.DeepEqual(b.PullRequests, n.PullRequests) ||
		!equality.Semantic.DeepEqual(b.Releases, n.Releases) || !equality.Semantic.DeepEqual(b.Tags, n.Tags)
}

// packageDelivered enqueues, for an immediate scan, the ImagePolicies that read a GitHubRepository for which a
// webhook delivery announced a new version of a package.
func (r *Reconciler) packageDelivered() handler.EventHandler {
	return handler.Funcs{UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		before, now := e.ObjectOld.GetAnnotations()[v1alpha1.AnnotationPackageDeliveredAt], e.ObjectNew.GetAnnotations()[v1alpha1.AnnotationPackageDeliveredAt]
		if now == "" || now == before { // A user may remove the annotation.
			return
		}
		for _, request := range r.forRepository(ctx, e.ObjectNew) {
			r.scans.markStale(request.NamespacedName)
			q.Add(request)
		}
	}}
}

// forRepository enqueues the ImagePolicies in all namespaces that refer to a GitHubRepository.
func (r *Reconciler) forRepository(ctx context.Context, o client.Object) []reconcile.Request {
	var policies v1alpha1.ImagePolicyList
	if err := r.List(ctx, &policies, client.MatchingFields{index.ImagePoliciesByRepository.Field: client.ObjectKeyFromObject(o).String()}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to list ImagePolicies of a GitHubRepository", "githubrepository", o.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range policies.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&policies.Items[i])})
	}
	return requests
}
