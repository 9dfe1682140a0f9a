package versionedmicroservice

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
)

type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// CacheByObject is how this controller wants a manager's cache: only what carries
// the label of a release, and of pods only what tells why they are not ready.
func CacheByObject() map[client.Object]cache.ByObject {
	ours, err := labels.NewRequirement(hlnr.LabelRelease, selection.Exists, nil)
	if err != nil {
		return nil // cannot be: the label is a constant
	}
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}:                            {Label: labels.NewSelector().Add(*ours), Transform: trimPod},
		&appsv1.Deployment{}:                     {Label: labels.NewSelector().Add(*ours)},
		&policyv1.PodDisruptionBudget{}:          {Label: labels.NewSelector().Add(*ours)},
		&autoscalingv2.HorizontalPodAutoscaler{}: {Label: labels.NewSelector().Add(*ours)},
	}
}

// trimPod keeps a pod's names, labels and status.
func trimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	pod.ManagedFields, pod.Annotations = nil, nil
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName}
	return pod, nil
}

// changed lets all pass but repeats of the same. A release's own status passes too:
// a pass that found the cache behind waits for it.
func changed() predicate.Predicate { return predicate.ResourceVersionChangedPredicate{} }

// budgetChanged lets edits pass, and not the status that is written with each pod.
func budgetChanged() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{})
}

// autoscalerChanged lets edits pass, and not the status that is written with each look
// at the metrics. Not every version of Kubernetes counts generations of this kind.
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

// podChanged lets pass what may explain why a pod is not ready. How many are
// available the Deployment tells.
func podChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return true },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*corev1.Pod)
			now, fine := e.ObjectNew.(*corev1.Pod)
			return ok && fine && !equality.Semantic.DeepEqual(before.Status, now.Status)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// podToRelease maps a pod to the release that its label names.
func podToRelease() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []ctrl.Request {
		release := obj.GetLabels()[hlnr.LabelRelease]
		if release == "" {
			return nil
		}
		return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: release}}}
	})
}

// rowsToReleases maps a Microservice to the releases whose rows changed.
func rowsToReleases() handler.EventHandler {
	enqueue := func(before, now client.Object, q queue) {
		ms, ok := now.(*hlnr.Microservice)
		if !ok {
			return
		}
		old, _ := before.(*hlnr.Microservice)
		for _, release := range changedRows(old, ms) {
			q.Add(ctrl.Request{NamespacedName: types.NamespacedName{Namespace: ms.Namespace, Name: release}})
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { enqueue(nil, e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { enqueue(e.ObjectOld, e.ObjectNew, q) },
	}
}
