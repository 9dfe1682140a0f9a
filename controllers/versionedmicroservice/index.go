package versionedmicroservice

import (
	"context"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/analysistemplate"
	"github.com/heighliner/heighliner/internal/index"
	"github.com/heighliner/heighliner/internal/queue"
)

// indexRelease indexes pods and Jobs by their release. Without this index, a list would read all objects of the
// namespace, and its cost would grow with the number of services.
const indexRelease = "versionedmicroservice.release"

// indexQuota is the index of releases and Deployments whose pods a ResourceQuota rejects. These objects are listed often,
// because the status of a quota changes each time a pod of the namespace is created or deleted.
const indexQuota = "versionedmicroservice.quota"

// rejectedByQuota is the only value of indexQuota.
const rejectedByQuota = "true"

// indexes are the indexes of the cache that this controller reads.
var indexes = []index.Index{
	index.NetworkPoliciesByMicroservice,
	index.ServicesByPolicy,
	{Object: &v1alpha1.VersionedMicroservice{}, Field: indexQuota, Values: func(o client.Object) []string {
		return quotaValue(o.(*v1alpha1.VersionedMicroservice).Status.Failure)
	}},
	{Object: &appsv1.Deployment{}, Field: indexQuota, Values: func(o client.Object) []string {
		return quotaValue(rejection(deploymentStatus(o)).reason)
	}},
	{Object: &corev1.Pod{}, Field: indexRelease, Values: releaseOf},
	{Object: &batchv1.Job{}, Field: indexRelease, Values: releaseOf},
}

// quotaValue returns the values of indexQuota for a failure reason.
func quotaValue(reason string) []string {
	if reason == v1alpha1.FailureQuotaExceeded {
		return []string{rejectedByQuota}
	}
	return nil
}

// releaseOf returns the name of the release in the label of an object.
func releaseOf(o client.Object) []string {
	if name := o.GetLabels()[v1alpha1.LabelRelease]; name != "" {
		return []string{name}
	}
	return nil
}

type workQueue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// changed admits all events except resyncs. It also admits the events for the controller's own writes to the
// status of a release, because a reconcile with a stale cache waits for these events.
func changed() predicate.Predicate { return predicate.ResourceVersionChangedPredicate{} }

// rollsOut reports whether a release is being rolled out.
func rollsOut(o client.Object) bool {
	state := o.(*v1alpha1.VersionedMicroservice).Status.Release
	return state == v1alpha1.ReleasePending || state == v1alpha1.ReleaseCanary
}

// revived reports whether an existing release gets more pods, for example for a rollback.
func revived(before, now client.Object) bool {
	return before.(*v1alpha1.VersionedMicroservice).Spec.Replicas < now.(*v1alpha1.VersionedMicroservice).Spec.Replicas
}

// budgetChanged admits edits. It ignores the status, which changes with the number of healthy pods.
func budgetChanged() predicate.Predicate {
	return predicate.Or(queue.SpecChanged(), predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{})
}

// autoscalerChanged admits edits. It ignores the status, which changes each time the metrics are read. It
// does not use the generation, because not all versions of Kubernetes set it for this kind.
func autoscalerChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*autoscalingv2.HorizontalPodAutoscaler)
			now, fine := e.ObjectNew.(*autoscalingv2.HorizontalPodAutoscaler)
			return ok && fine && (!equality.Semantic.DeepEqual(before.Spec, now.Spec) || !equality.Semantic.DeepEqual(before.Labels, now.Labels) ||
				!equality.Semantic.DeepEqual(before.Annotations, now.Annotations) || !equality.Semantic.DeepEqual(before.OwnerReferences, now.OwnerReferences))
		},
	}
}

// podChanged admits changes that may explain why a pod is not ready. It ignores deletions, because the number of
// available pods comes from the Deployment.
func podChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return true },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := podStatus(e.ObjectOld)
			now, fine := podStatus(e.ObjectNew)
			return ok && fine && !reflect.DeepEqual(&before, &now) // Cached pods contain no quantities, which would require a semantic comparison.
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// labeledRelease enqueues the release that the label of a pod or Job contains.
func labeledRelease(_ context.Context, obj client.Object) []ctrl.Request {
	release := obj.GetLabels()[v1alpha1.LabelRelease]
	if release == "" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: release}}}
}

// statesToReleases enqueues those releases of a Microservice whose rollout state changed.
func statesToReleases() handler.EventHandler {
	enqueue := func(before, now client.Object, q workQueue) {
		ms, ok := now.(*v1alpha1.Microservice)
		if !ok {
			return
		}
		old, _ := before.(*v1alpha1.Microservice)
		for _, release := range changedStates(old, ms) {
			q.Add(ctrl.Request{NamespacedName: types.NamespacedName{Namespace: ms.Namespace, Name: release}})
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q workQueue) { enqueue(nil, e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workQueue) { enqueue(e.ObjectOld, e.ObjectNew, q) },
	}
}

// templateToReleases enqueues the releases that are being rolled out and whose analysis uses the changed template.
func (r *reconciler) templateToReleases() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, template client.Object) []ctrl.Request {
		var list v1alpha1.MicroserviceList
		if err := r.client.List(ctx, &list, client.InNamespace(template.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "failed to list the Microservices that may use a changed template")
			return nil
		}
		var out []ctrl.Request
		for i := range list.Items {
			ms := &list.Items[i]
			if !analysistemplate.Uses(ms, template) {
				continue
			}
			for _, g := range ms.Status.ReleaseGroups {
				if g.Rollout != nil {
					out = append(out, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: ms.Namespace, Name: g.Rollout.Release}})
				}
			}
		}
		return out
	})
}

// quotaRelaxed admits changes after which a quota may admit more pods.
func quotaRelaxed() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return true },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*corev1.ResourceQuota)
			now, fine := e.ObjectNew.(*corev1.ResourceQuota)
			return ok && fine && relaxed(before, now)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// relaxed reports whether a quota now admits more of a resource, or applies to other pods.
func relaxed(before, now *corev1.ResourceQuota) bool {
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
	return len(before.Status.Hard) == 0 && len(now.Status.Hard) > 0 // a quota rejects all pods until its status contains the limits
}

// quotaToReleases enqueues the releases in a namespace that are blocked by a ResourceQuota, and those whose Deployment lacks pods
// because of a quota. A release with an autoscaler can lack pods and still be available.
func (r *reconciler) quotaToReleases() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, quota client.Object) []ctrl.Request {
		var releases v1alpha1.VersionedMicroserviceList
		var deployments appsv1.DeploymentList
		rejected := []client.ListOption{client.InNamespace(quota.GetNamespace()), client.MatchingFields{indexQuota: rejectedByQuota}}
		for list, options := range map[client.ObjectList][]client.ListOption{
			&releases:    append(rejected, client.UnsafeDisableDeepCopy),
			&deployments: rejected, // packed in the cache
		} {
			if err := r.client.List(ctx, list, options...); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "failed to list releases and Deployments of a namespace whose quota changed")
				return nil
			}
		}
		var requests []ctrl.Request
		for i := range releases.Items {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&releases.Items[i])})
		}
		for i := range deployments.Items { // The queue contains each request only once.
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&deployments.Items[i])})
		}
		return requests
	})
}

// changedStates returns the names of the releases whose state differs between two
// versions of a Microservice; before may be nil.
func changedStates(before, now *v1alpha1.Microservice) []string {
	var names []string
	for i := range now.Status.ReleaseGroups {
		for j := range now.Status.ReleaseGroups[i].Releases {
			name := now.Status.ReleaseGroups[i].Releases[j].VersionedMicroservice
			if before == nil || !rolloutStateOf(before, name).equal(rolloutStateOf(now, name)) {
				names = append(names, name)
			}
		}
	}
	return names
}
