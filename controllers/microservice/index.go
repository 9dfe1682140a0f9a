package microservice

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/microservice/resources"
	"github.com/heighliner/heighliner/internal/analysistemplate"
	"github.com/heighliner/heighliner/internal/hook"
	"github.com/heighliner/heighliner/internal/index"
)

// Indexes of the cache that this controller reads.
const (
	indexReleases   = "microservice.release.microserviceName"
	indexConfigMaps = "microservice.spec.template.configMaps"
	indexCopies     = "microservice.copy.microservice"
	indexTogether   = "microservice.spec.updateStrategy.canary.together"
)

// indexes are the indexes of the cache.
var indexes = []index.Index{
	index.MicroservicesByImagePolicy,
	index.NetworkPoliciesByMicroservice,
	{Object: &v1alpha1.VersionedMicroservice{}, Field: indexReleases, Values: func(o client.Object) []string {
		return []string{o.(*v1alpha1.VersionedMicroservice).Spec.MicroserviceName}
	}},
	{Object: &v1alpha1.Microservice{}, Field: indexConfigMaps, Values: func(o client.Object) []string {
		return configMapsOf(o.(*v1alpha1.Microservice))
	}},
	{Object: &v1alpha1.Microservice{}, Field: indexTogether, Values: func(o client.Object) []string {
		if name := togetherWith(o.(*v1alpha1.Microservice)); name != "" {
			return []string{name}
		}
		return nil
	}},
	{Object: &corev1.ConfigMap{}, Field: indexCopies, Values: func(o client.Object) []string {
		if name, _ := resources.ReleaseOfCopy(o); name != "" {
			return []string{name}
		}
		return nil
	}},
}

// uncached returns a client that has no cache, but can list objects by the fields of the indexes. The API server
// filters by namespace, labels, and the field selectors that it supports, and the client filters by the indexes.
func uncached(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			var o client.ListOptions
			o.ApplyOptions(opts)
			if o.FieldSelector == nil || o.FieldSelector.Empty() {
				return c.List(ctx, list, &o)
			}
			wanted := o.FieldSelector.Requirements()[0]
			at := slices.IndexFunc(indexes, func(x index.Index) bool { return x.Field == wanted.Field })
			if at < 0 {
				return c.List(ctx, list, &o) // a field selector that the API server supports
			}
			o.FieldSelector = nil
			if err := c.List(ctx, list, &o); err != nil {
				return err
			}
			items, err := meta.ExtractList(list)
			if err != nil {
				return err
			}
			items = slices.DeleteFunc(items, func(item runtime.Object) bool {
				object, ok := item.(client.Object)
				return !ok || !slices.Contains(indexes[at].Values(object), wanted.Value)
			})
			return meta.SetList(list, items)
		},
	})
}

// forTemplate enqueues the Microservices that refer to an AnalysisTemplate or ClusterAnalysisTemplate.
func (r *Reconciler) forTemplate(ctx context.Context, template client.Object) []reconcile.Request {
	return r.microservices(ctx, template.GetNamespace(), func(ms *v1alpha1.Microservice) bool { return analysistemplate.Uses(ms, template) })
}

// forImagePolicy enqueues the Microservices that refer to an ImagePolicy.
func (r *Reconciler) forImagePolicy(ctx context.Context, o client.Object) []reconcile.Request {
	return r.enqueue(ctx, index.MicroservicesByImagePolicy.Field, o)
}

// enqueue returns requests for the Microservices that refer to an object in their namespace. field is the
// index of these references.
func (r *Reconciler) enqueue(ctx context.Context, field string, o client.Object) []reconcile.Request {
	var list v1alpha1.MicroserviceList
	if err := r.List(ctx, &list, client.InNamespace(o.GetNamespace()), client.MatchingFields{field: o.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to list Microservices that refer to an object", "index", field, "name", o.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// forNetworkPolicy enqueues the Microservice that a NetworkPolicy routes to.
func forNetworkPolicy(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: o.(*v1alpha1.NetworkPolicy).MicroserviceName()}}}
}

// forRelease enqueues the Microservice of a release.
func forRelease(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: o.(*v1alpha1.VersionedMicroservice).Spec.MicroserviceName}}}
}

// inProgress reports whether a release of a Microservice is being rolled out, or whether a user edited the Microservice
// while no manager observed this. The edit may be a pin that rolls back a version.
func inProgress(o client.Object) bool {
	ms := o.(*v1alpha1.Microservice)
	return rollsOut(ms) || ms.Status.ObservedGeneration > 0 && ms.Status.ObservedGeneration < ms.Generation
}

// rollsOut reports whether a release of a Microservice is being rolled out.
func rollsOut(o client.Object) bool {
	return slices.ContainsFunc(o.(*v1alpha1.Microservice).Status.ReleaseGroups, func(g v1alpha1.ReleaseGroup) bool { return g.Rollout != nil })
}

// decidedOrFailed reports whether an update to a release contains a user's new decision, a new failure, or a
// new answer from a hook that can cause a rollback of the release.
func decidedOrFailed(before, now client.Object) bool {
	old, release := before.(*v1alpha1.VersionedMicroservice), now.(*v1alpha1.VersionedMicroservice)
	failed := func(v *v1alpha1.VersionedMicroservice) bool {
		return v.Status.Failure != "" || v.Status.Analysis != nil && v.Status.Analysis.Phase == v1alpha1.AnalysisFailed
	}
	rejected := func(v *v1alpha1.VersionedMicroservice) bool {
		return slices.ContainsFunc(v.Status.Hooks, func(h v1alpha1.HookStatus) bool {
			return h.Type == v1alpha1.HookRollback && h.Phase == v1alpha1.HookOpen || hook.IsGate(h.Type) && h.Phase == v1alpha1.HookFailed
		})
	}
	return !equality.Semantic.DeepEqual(old.Spec.Decision, release.Spec.Decision) || !failed(old) && failed(release) || !rejected(old) && rejected(release)
}

// withdrew reports whether an ImagePolicy now denies a version or group that a Microservice uses. Other edits, such as
// a new list of versions, can also exclude versions in use, but such edits result in normal upgrades, which are not urgent.
func withdrew(before, now client.Object) bool {
	old := before.(*v1alpha1.ImagePolicy).Status.Withdrawn
	return slices.ContainsFunc(now.(*v1alpha1.ImagePolicy).Status.Withdrawn, func(w v1alpha1.Withdrawal) bool {
		return w.Reason == v1alpha1.WithdrawnDenied && !slices.ContainsFunc(old, func(o v1alpha1.Withdrawal) bool {
			return o.Group == w.Group && o.Version == w.Version && o.Reason == w.Reason
		})
	})
}

// forPeers enqueues the Microservices that may be waiting for a changed Microservice.
func (r *Reconciler) forPeers(ctx context.Context, o client.Object) []reconcile.Request {
	peers, err := r.peers(ctx, o.(*v1alpha1.Microservice))
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to enqueue Microservices with the same together.name", "name", o.GetName())
	}
	var requests []reconcile.Request
	for i := range peers {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&peers[i])})
	}
	return requests
}

// stateChanged admits changes to the specification or the rollout state of a Microservice, because other
// Microservices may be waiting for these changes.
func stateChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*v1alpha1.Microservice), e.ObjectNew.(*v1alpha1.Microservice)
		return before.Generation != after.Generation || before.Status.Sequence() != after.Status.Sequence()
	}}
}

// configMapChanged admits creations and deletions of ConfigMaps, changes to their content, and all changes to
// copies, for example to the owners of a copy.
func configMapChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*corev1.ConfigMap)
			now, fine := e.ObjectNew.(*corev1.ConfigMap)
			return ok && fine && (resources.HashOfConfigMap(before) != resources.HashOfConfigMap(now) ||
				len(now.Labels) > 0 && now.Labels[v1alpha1.LabelRelease] != "")
		},
	}
}

// forConfigMap enqueues the Microservices whose templates refer to a ConfigMap. For a copy, it also enqueues
// the Microservice for which the copy was created.
func (r *Reconciler) forConfigMap(ctx context.Context, o client.Object) []reconcile.Request {
	requests := r.enqueue(ctx, indexConfigMaps, o)
	if name, _ := resources.ReleaseOfCopy(o); name != "" {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: name}})
	}
	return requests
}

// configMapsOf returns the names of the ConfigMaps that are part of a Microservice's releases.
func configMapsOf(ms *v1alpha1.Microservice) []string {
	var names []string
	for s := range resources.Tracked(ms) {
		if s.Kind == resources.KindConfigMap {
			names = append(names, s.Name)
		}
	}
	return names
}
