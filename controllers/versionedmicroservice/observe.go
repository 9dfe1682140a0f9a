package versionedmicroservice

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
)

// observed is all that a pass reads, before it decides anything.
type observed struct {
	release      *hlnr.VersionedMicroservice
	deployment   *appsv1.Deployment                     // nil: absent
	budget       *policyv1.PodDisruptionBudget          // nil: absent
	autoscaler   *autoscalingv2.HorizontalPodAutoscaler // nil: absent
	microservice *hlnr.Microservice                     // nil: absent
	pods         []corev1.Pod                           // read only while they may explain something
	answers      map[string]string                      // what failing probes got, by container
	way          *underWay                              // nil: it has no row in the ledger
	room         string                                 // what the quotas leave, while one refuses pods
}

// observe reads the release and what belongs to it; nil where there is nothing to do.
func (r *reconciler) observe(ctx context.Context, key client.ObjectKey) (*observed, error) {
	release, err := get(ctx, r.client, key, &hlnr.VersionedMicroservice{})
	if err != nil {
		return nil, err
	}
	if release == nil || release.DeletionTimestamp != nil {
		r.ask.Forget(key)
		return nil, nil
	}
	if r.journal.Behind(release) {
		return nil, nil // the event of our own write will wake us
	}
	o := &observed{release: release}
	if o.deployment, err = get(ctx, r.client, key, &appsv1.Deployment{}); err != nil {
		return nil, err
	}
	if o.budget, err = get(ctx, r.client, key, &policyv1.PodDisruptionBudget{}); err != nil {
		return nil, err
	}
	if o.autoscaler, err = get(ctx, r.client, key, &autoscalingv2.HorizontalPodAutoscaler{}); err != nil {
		return nil, err
	}
	owner := client.ObjectKey{Namespace: key.Namespace, Name: release.Spec.MicroserviceName}
	if o.microservice, err = get(ctx, r.client, owner, &hlnr.Microservice{}); err != nil {
		return nil, err
	}
	if o.way, err = r.observeWay(ctx, o); err != nil {
		return nil, err
	}
	row := mirrorOf(o.microservice, release.Name)
	if o.short() || o.failed(row) && release.Status.Message == "" {
		var pods corev1.PodList
		if err := r.client.List(ctx, &pods, client.InNamespace(key.Namespace), client.MatchingLabels{hlnr.LabelRelease: release.Name}); err != nil {
			return nil, fmt.Errorf("list pods of release %q: %w", release.Name, err)
		}
		o.pods = pods.Items
	}
	if err := r.observeRoom(ctx, o); err != nil {
		return nil, err
	}
	if f := diagnose(o, row, r.now()); f.reason == hlnr.FailureReadinessFailing && release.Status.Failure != f.reason {
		o.answers = r.answers(ctx, o)
	}
	return o, nil
}

// own is the Deployment, if this release controls it.
func (o *observed) own() *appsv1.Deployment {
	if o.deployment == nil || !metav1.IsControlledBy(o.deployment, o.release) {
		return nil
	}
	return o.deployment
}

// counted gives the replicas that exist and those that are available, of those that
// the Deployment is to have: what is wanted, or more by its autoscaler.
func (o *observed) counted() (replicas, available int32) {
	d := o.own()
	if d == nil {
		return 0, 0
	}
	want := o.release.Spec.Replicas
	if resources.Autoscaled(o.release) && d.Spec.Replicas != nil {
		want = max(want, *d.Spec.Replicas)
	}
	return min(want, d.Status.Replicas), min(want, d.Status.AvailableReplicas)
}

// short says that fewer replicas are available than are wanted.
func (o *observed) short() bool {
	_, available := o.counted()
	return available < o.release.Spec.Replicas
}

// failed says that the ledger has given the release up because of its pods.
func (o *observed) failed(row mirror) bool {
	return row.release == hlnr.ReleaseError && (row.reason == "ProgressDeadlineExceeded" || row.reason == "AvailabilityLost")
}

// settled says that the Deployment's status speaks of what is wanted now.
func (o *observed) settled() bool {
	d := o.own()
	return d != nil && d.Status.ObservedGeneration >= d.Generation && sized(o.release, d)
}

// sized says that a Deployment is to have the replicas that are wanted; with an
// autoscaler it may have more, and that is none of our business.
func sized(release *hlnr.VersionedMicroservice, d *appsv1.Deployment) bool {
	if d.Spec.Replicas == nil {
		return false
	}
	if resources.Autoscaled(release) {
		return *d.Spec.Replicas >= release.Spec.Replicas
	}
	return *d.Spec.Replicas == release.Spec.Replicas
}

// answers reads what the probes of containers that are not ready got, which only the
// kubelet's events tell. They are read once for a failure, and live: a cache of events
// would hold those of all pods. Without them the failure is only less well explained.
func (r *reconciler) answers(ctx context.Context, o *observed) map[string]string {
	found := map[string]string{}
	for i := range o.pods {
		var list eventsv1.EventList
		if err := r.live.List(ctx, &list, client.InNamespace(o.release.Namespace), client.Limit(100),
			client.MatchingFields{"regarding.uid": string(o.pods[i].UID), "reason": "Unhealthy"}); err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info("cannot read why a probe fails", "error", err.Error())
			return found
		}
		for _, e := range list.Items {
			container, ok := strings.CutPrefix(e.Regarding.FieldPath, "spec.containers{")
			if _, answer, cut := strings.Cut(e.Note, " probe failed: "); ok && cut {
				found[strings.TrimSuffix(container, "}")] = answer
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return found
}

// get reads an object; the nil object where there is none.
func get[T client.Object](ctx context.Context, from client.Reader, key client.ObjectKey, into T) (T, error) {
	if err := from.Get(ctx, key, into); err != nil {
		var none T
		if client.IgnoreNotFound(err) == nil {
			return none, nil
		}
		return none, fmt.Errorf("get %T %q: %w", into, key.Name, err)
	}
	return into, nil
}
