package traffic

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// addAdopted decides about the Service that the policy adopts. It is marked first,
// which makes its EndpointSlices visible; then its selector moves, once the active
// release of the newest group that serves has as many ready endpoints as the
// Service has, and from then on it follows like the policy's own Service.
func (d *planner) addAdopted(out *Decision) {
	name := AdoptedName(d.Policy)
	if name == "" {
		return
	}
	out.Adoption = &adoption{}
	wait := func(reason, format string, args ...any) {
		out.Adoption.Reason, out.Adoption.message = reason, fmt.Sprintf(format, args...)
	}
	live := d.Adopted
	if live == nil {
		wait(ReasonAdoptedMissing, "spec.adoptFrom.serviceName: Service %q does not exist: create the Service, or delete and re-create this networkpolicies.hlnr.io, because the field is immutable", name)
		return
	}
	if cause := unsuitable(live, d.Policy.Name); cause != "" {
		wait(ReasonAdoptedUnsuitable, "spec.adoptFrom.serviceName: Service %q %s", name, cause)
		return
	}
	if d.Policy.DeletionTimestamp != nil && d.Selected(name) == "" {
		wait(ReasonAdoptionWaits, "this networkpolicies.hlnr.io is being deleted")
		return // It was restored, or was never routed elsewhere.
	}
	if !resources.Marked(live, d.Policy.Name) && d.Microservice.DeletionTimestamp == nil {
		next, err := resources.Mark(live, d.Policy.Name)
		if err != nil {
			wait(ReasonAdoptedUnsuitable, "spec.adoptFrom.serviceName: %v", err)
			return
		}
		out.Adoption.Mark = next
		wait(ReasonPending, "Service %q is being marked", name)
		return
	}
	if going := d.Microservice.DeletionTimestamp; going != nil {
		wait(ReasonAdoptionWaits, "Microservice %q is being deleted", d.Policy.MicroserviceName())
		return
	}
	current := ""
	if g := d.rollout.groupOf[d.Selected(name)]; g != nil {
		current = g.Slug
	}
	g := d.choose(d.liveGroups(), current)
	if g == nil {
		wait(reasonNoActiveRelease, "Microservice %q has no active release yet", d.Policy.MicroserviceName())
		return
	}
	if d.Selected(name) == "" {
		if !d.mayAdopt(name, g, wait) {
			return
		}
	}
	before := len(out.Services)
	if out.Services = d.follow(out.Services, name, g, ""); len(out.Services) > before {
		out.Services[before].Adopted = true
	}
}

// mayAdopt reports whether the active release can carry what the Service carries now.
func (d *planner) mayAdopt(name string, g *v1alpha1.ReleaseGroup, wait func(string, string, ...any)) bool {
	active := activeOf(g)
	if active == nil {
		wait(reasonNoActiveRelease, "release group %q has no active release yet", g.Name)
		return false
	}
	now, seen := d.Endpoints[name]
	if !seen {
		wait(ReasonPending, "the EndpointSlices of Service %q have not been read yet", name)
		return false
	}
	// Pods of releases that bear the labels which the Service selects are no pods of
	// before.
	previous := difference(now.Ready, d.released())
	have, need := len(d.Endpoints[d.ReleaseService(active.VersionedMicroservice)].Ready), max(1, len(previous))
	if have < need {
		wait(ReasonAdoptionWaits, "release %q has %d ready endpoints, and Service %q has %d: the Service is adopted when the release has at least as many; if that cannot happen, increase spec.availability.replicas of Microservice %q",
			active.VersionedMicroservice, have, name, need, d.Policy.MicroserviceName())
		return false
	}
	return true
}

// released are the endpoints of all releases.
func (d *planner) released() []string {
	var out []string
	for name := range d.rollout.rows {
		out = append(out, d.Endpoints[d.ReleaseService(name)].All...)
	}
	return out
}

// unsuitable reports what keeps a Service from being adopted; "": nothing.
func unsuitable(s *corev1.Service, policy string) string {
	switch {
	case s.DeletionTimestamp != nil:
		return "is being deleted"
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		return "is of type ExternalName, which has no pods"
	case len(s.Spec.Selector) == 0:
		return "has no selector, so its endpoints are not managed by Kubernetes"
	case metav1.GetControllerOf(s) != nil:
		return fmt.Sprintf("is controlled by %s %q, which would revert its selector", metav1.GetControllerOf(s).Kind, metav1.GetControllerOf(s).Name)
	case s.Labels[v1alpha1.LabelPolicy] != "" && s.Labels[v1alpha1.LabelPolicy] != policy:
		return fmt.Sprintf("is adopted by networkpolicies.hlnr.io %q", s.Labels[v1alpha1.LabelPolicy])
	}
	return ""
}
