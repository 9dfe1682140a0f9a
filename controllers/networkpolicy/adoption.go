package networkpolicy

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// Reasons of condition ServiceAdopted.
const (
	reasonAdoptedMissing    = "ServiceNotFound"
	reasonAdoptedUnsuitable = "ServiceNotAdoptable"
	reasonAdoptionWaits     = "WaitingForCapacity"
	reasonAdopted           = "Adopted"
)

// adoptedName is the Service that a policy adopts; "" where it adopts none.
func adoptedName(p *v1alpha1.NetworkPolicy) string {
	if p.Spec.AdoptFrom == nil {
		return ""
	}
	return p.Spec.AdoptFrom.ServiceName
}

// readAdopted reads the Service that the policy adopts. Until it is marked no watch
// knows of it, and the server is asked.
func (r *Reconciler) readAdopted(ctx context.Context, f *facts) error {
	name := adoptedName(f.policy)
	if name == "" {
		return nil
	}
	key := client.ObjectKey{Namespace: f.policy.Namespace, Name: name}
	var s corev1.Service
	err := r.Client.Get(ctx, key, &s)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, key, &s)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get Service %q: %w", name, err)
	}
	if !metav1.IsControlledBy(&s, f.policy) {
		f.adopted = &s
	}
	return nil
}

// adoption is what becomes of the Service that the policy adopts.
type adoption struct {
	// mark is the Service to be marked; nil: it is, or cannot be.
	mark *corev1.Service
	// reason and message why it does not lead to the active release yet.
	reason, message string
}

// addAdopted decides about the Service that the policy adopts. It is marked first,
// which makes its EndpointSlices visible; then its selector moves, once the active
// release of the newest group that serves has as many ready endpoints as the
// Service has, and from then on it follows like the policy's own Service.
func (d *decider) addAdopted(out *decision) {
	name := adoptedName(d.policy)
	if name == "" {
		return
	}
	out.adoption = &adoption{}
	wait := func(reason, format string, args ...any) {
		out.adoption.reason, out.adoption.message = reason, fmt.Sprintf(format, args...)
	}
	live := d.adopted
	if live == nil {
		wait(reasonAdoptedMissing, "spec.adoptFrom.serviceName: Service %q does not exist: create the Service, or delete this networkpolicies.hlnr.io and make another, because the field cannot be changed", name)
		return
	}
	if cause := unsuitable(live, d.policy.Name); cause != "" {
		wait(reasonAdoptedUnsuitable, "spec.adoptFrom.serviceName: Service %q %s", name, cause)
		return
	}
	if d.policy.DeletionTimestamp != nil && d.selected(name) == "" {
		wait(reasonAdoptionWaits, "the networkpolicies.hlnr.io is being deleted")
		return // It was given back, or was never led elsewhere.
	}
	if !resources.Marked(live, d.policy.Name) && d.microservice.DeletionTimestamp == nil {
		next, err := resources.Mark(live, d.policy.Name)
		if err != nil {
			wait(reasonAdoptedUnsuitable, "spec.adoptFrom.serviceName: %v", err)
			return
		}
		out.adoption.mark = next
		wait(reasonPending, "Service %q is being marked", name)
		return
	}
	if going := d.microservice.DeletionTimestamp; going != nil {
		wait(reasonAdoptionWaits, "Microservice %q is being deleted", microserviceName(d.policy))
		return
	}
	current := ""
	if g := d.ledger.groupOf[d.selected(name)]; g != nil {
		current = g.Slug
	}
	g := d.choose(d.liveGroups(), current)
	if g == nil {
		wait(reasonNoActiveRelease, "Microservice %q has no active release yet", microserviceName(d.policy))
		return
	}
	if d.selected(name) == "" {
		if !d.mayAdopt(name, g, wait) {
			return
		}
	}
	before := len(out.services)
	if out.services = d.follow(out.services, name, g, ""); len(out.services) > before {
		out.services[before].Adopted = true
	}
}

// mayAdopt says whether the active release can carry what the Service carries now.
func (d *decider) mayAdopt(name string, g *v1alpha1.ReleaseGroup, wait func(string, string, ...any)) bool {
	active := activeOf(g)
	if active == nil {
		wait(reasonNoActiveRelease, "release group %q has no active release yet", g.Name)
		return false
	}
	now, seen := d.endpoints[name]
	if !seen {
		wait(reasonPending, "the EndpointSlices of Service %q are not known yet", name)
		return false
	}
	// Pods of releases that bear the labels which the Service selects are no pods of
	// before.
	former := difference(now.ready, d.released())
	have, need := len(d.endpoints[d.releaseService(active.VersionedMicroservice)].ready), max(1, len(former))
	if have < need {
		wait(reasonAdoptionWaits, "release %q has %d ready endpoints, and Service %q has %d: it is adopted when they are as many; raise spec.availability.replicas of Microservice %q if they never will be",
			active.VersionedMicroservice, have, name, need, microserviceName(d.policy))
		return false
	}
	return true
}

// adoptedMissing says that the Service that the policy adopts does not exist; nil: it
// does, or it adopts none.
func (r *reporter) adoptedMissing() *problem {
	if a := r.out.adoption; a != nil && a.reason == reasonAdoptedMissing {
		return &problem{a.reason, a.message}
	}
	return nil
}

// released are the endpoints of all releases.
func (d *decider) released() []string {
	var out []string
	for name := range d.ledger.rows {
		out = append(out, d.endpoints[d.releaseService(name)].all...)
	}
	return out
}

// unsuitable says what keeps a Service from being adopted; "": nothing.
func unsuitable(s *corev1.Service, policy string) string {
	switch {
	case s.DeletionTimestamp != nil:
		return "is being deleted"
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		return "is of type ExternalName: it has no pods that could be taken over"
	case len(s.Spec.Selector) == 0:
		return "has no selector: its endpoints are written by somebody else"
	case metav1.GetControllerOf(s) != nil:
		return fmt.Sprintf("is controlled by %s %q, which would set its selector back", metav1.GetControllerOf(s).Kind, metav1.GetControllerOf(s).Name)
	case s.Labels[v1alpha1.LabelPolicy] != "" && s.Labels[v1alpha1.LabelPolicy] != policy:
		return fmt.Sprintf("is adopted by networkpolicies.hlnr.io %q", s.Labels[v1alpha1.LabelPolicy])
	}
	return ""
}

// givesBack says that the Microservice is being deleted, and that its Deployment of
// before comes back: then the adopted Service follows.
func givesBack(f *facts) bool {
	return f.microservice != nil && f.microservice.DeletionTimestamp != nil && f.microservice.Spec.DeletionPolicy == v1alpha1.DeletionRestore &&
		f.adopted != nil && resources.Marked(f.adopted, f.policy.Name)
}

// patchAdopted writes a Service of the user: only what differs, and only onto the
// state that was read.
func (r *Reconciler) patchAdopted(ctx context.Context, live, next *corev1.Service) error {
	patch := client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, next, patch, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("patch Service %q: %w", live.Name, err)
	}
	return nil
}

// adoptionReport is how far the policy is with the Service that it adopts.
func (r *reporter) adoptionReport(prev *v1alpha1.AdoptedService) *v1alpha1.AdoptedService {
	name := adoptedName(r.policy)
	if name == "" {
		return nil
	}
	out := &v1alpha1.AdoptedService{ServiceName: name, Release: r.selected(name)}
	if prev != nil && prev.ServiceName == name && out.Release != "" {
		out.AdoptedTime = prev.AdoptedTime
	}
	for _, s := range r.out.services {
		if s.Adopted && out.AdoptedTime == nil && r.carriedOut(s).Accepted && !r.writes.touched(serviceKey(name)) {
			out.AdoptedTime = &metav1.MicroTime{Time: r.now}
		}
	}
	return out
}
