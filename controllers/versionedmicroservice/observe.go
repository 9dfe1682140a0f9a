package versionedmicroservice

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
)

// observed is all that a pass reads, before it decides anything.
type observed struct {
	release      *hlnr.VersionedMicroservice
	deployment   *appsv1.Deployment            // nil: absent
	budget       *policyv1.PodDisruptionBudget // nil: absent
	microservice *hlnr.Microservice            // nil: absent
	pods         []corev1.Pod                  // read only while they may explain something
	way          *underWay                     // nil: it has no row in the ledger
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
	owner := client.ObjectKey{Namespace: key.Namespace, Name: release.Spec.MicroserviceName}
	if o.microservice, err = get(ctx, r.client, owner, &hlnr.Microservice{}); err != nil {
		return nil, err
	}
	if o.way, err = r.observeWay(ctx, o); err != nil {
		return nil, err
	}
	if o.short() {
		var pods corev1.PodList
		if err := r.client.List(ctx, &pods, client.InNamespace(key.Namespace), client.MatchingLabels{hlnr.LabelRelease: release.Name}); err != nil {
			return nil, fmt.Errorf("list pods of release %q: %w", release.Name, err)
		}
		o.pods = pods.Items
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
// are wanted.
func (o *observed) counted() (replicas, available int32) {
	d, want := o.own(), o.release.Spec.Replicas
	if d == nil {
		return 0, 0
	}
	return min(want, d.Status.Replicas), min(want, d.Status.AvailableReplicas)
}

// short says that fewer replicas are available than are wanted.
func (o *observed) short() bool {
	_, available := o.counted()
	return available < o.release.Spec.Replicas
}

// settled says that the Deployment's status speaks of what is wanted now.
func (o *observed) settled() bool {
	d := o.own()
	return d != nil && d.Status.ObservedGeneration >= d.Generation && d.Spec.Replicas != nil && *d.Spec.Replicas == o.release.Spec.Replicas
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
