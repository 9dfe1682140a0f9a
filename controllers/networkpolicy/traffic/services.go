package traffic

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// verdict describes the state of objects that were written.
type verdict = providers.Verdict

// followVerdict reports whether a Service routes to the active release of the group that it follows
// (rule 36): the Service's EndpointSlices contain only endpoints of the release, at least one of which is
// ready. If the release itself has no ready endpoint, the Service does not need one either: the
// release is withheld, and waiting for an endpoint would block the release that fixes the problem.
func (d *planner) followVerdict(s resources.Service, g *v1alpha1.ReleaseGroup) verdict {
	active := mainOf(g)
	if active == nil || s.Release != active.VersionedMicroservice {
		return verdict{Reason: reasonNoReadyEndpoints, Message: fmt.Sprintf("Service %q keeps routing to release %q until the active release has a ready endpoint", s.Name, s.Release)}
	}
	return d.carriedOut(s)
}

// carriedOut reports whether a Service that follows a group routes to the desired release and to no
// other release.
func (d *planner) carriedOut(s resources.Service) verdict {
	pending := verdict{Pending: true, Reason: ReasonPending, Message: fmt.Sprintf("the EndpointSlices of Service %q do not have the endpoints of release %q yet", s.Name, s.Release)}
	if d.Selected(s.Name) != s.Release {
		return pending
	}
	own, released := d.Endpoints[s.Name], d.Endpoints[d.ReleaseService(s.Release)]
	for _, e := range own.All {
		if !slices.Contains(released.All, e) {
			return pending
		}
	}
	if len(own.Ready) == 0 && len(released.Ready) > 0 {
		return pending
	}
	return verdict{Accepted: true}
}

// addServices determines the desired Services: one for each release in the rollout state, then the
// Services that follow the active release of a group, then the Service of the policy itself.
func (d *planner) addServices(out *Decision) {
	for _, g := range d.rollout.groups {
		for i := range g.Releases {
			name := g.Releases[i].VersionedMicroservice
			out.Services = append(out.Services, resources.Service{
				Name: d.ReleaseService(name), Release: name, Group: g.Slug, OfRelease: true,
			})
		}
	}
	slices.SortFunc(out.Services, func(a, b resources.Service) int { return cmp.Compare(a.Name, b.Name) })
	for _, g := range d.liveGroups() {
		if d.alone(g) {
			continue
		}
		out.Services = d.follow(out.Services, resources.GroupServiceName(d.Policy.Name, g.Slug), g, g.Slug)
	}
	current := ""
	if g := d.rollout.groupOf[d.Selected(d.Policy.Name)]; g != nil {
		current = g.Slug
	}
	if g := d.choose(d.liveGroups(), current); g != nil && AdoptedName(d.Policy) != d.Policy.Name {
		out.Services = d.follow(out.Services, d.Policy.Name, g, "")
	}
}

// groupOfAll is the slug of the group that contains all releases if versions are not grouped.
const groupOfAll = "release"

// alone reports whether the Service of the policy is the only Service that follows a group. This is
// the case if versions are not grouped, there is no other group, and the policy does not adopt a Service
// with its own name: a second Service would always select the same pods. If a second Service already
// exists, it stays, and alone returns false.
func (d *planner) alone(g *v1alpha1.ReleaseGroup) bool {
	return g.Slug == groupOfAll && len(d.rollout.groups) == 1 && AdoptedName(d.Policy) != d.Policy.Name && d.service(resources.GroupServiceName(d.Policy.Name, g.Slug)) == nil
}

// following returns the name of the Service that follows the active release of a group.
func (d *planner) following(g *v1alpha1.ReleaseGroup) string {
	if d.alone(g) {
		return d.Policy.Name
	}
	return resources.GroupServiceName(d.Policy.Name, g.Slug)
}

// follow adds a Service that routes to a group's active release. The Service moves only to a release
// that has a ready endpoint. Until there is such a release, the Service does not change, unless the release
// that it selects is no longer in the rollout state, was rejected, or belongs to a closing or expired group.
func (d *planner) follow(services []resources.Service, name string, g *v1alpha1.ReleaseGroup, label string) []resources.Service {
	selected := d.Selected(name)
	of := d.rollout.groupOf[selected]
	target := selected
	if of != nil && !live(of) || label != "" && d.rejected(cmp.Or(of, g), selected) {
		target = ""
	}
	if active := mainOf(g); active != nil && (target == "" || of == nil || d.ready(active.VersionedMicroservice)) {
		target = active.VersionedMicroservice
	}
	if target == "" {
		return services
	}
	s := resources.Service{Name: name, Release: target, Group: label, Stamp: d.stamp(g)}
	if old := d.service(name); old != nil && target == selected {
		// The stamp stays if the selector does not change, so that the Service is not written at every canary step.
		if stamp, stamped := resources.StampOf(old); stamped && stamp.RolloutState == s.Stamp.RolloutState && stamp.Group == s.Stamp.Group {
			s.Stamp = stamp
		}
	}
	return append(services, s)
}

func (d *planner) stamp(g *v1alpha1.ReleaseGroup) resources.Stamp {
	return resources.Stamp{Group: g.Slug, Revision: g.TrafficRevision, RolloutState: types.UID(d.rollout.uid), Sequence: d.rollout.sequence}
}

// addAdopted decides what happens to the Service that the policy adopts. First, the Service is
// labeled, so that the controller can read its EndpointSlices. Its selector changes when the active release of
// the newest group that serves traffic has at least as many ready endpoints as the Service. From then on,
// the adopted Service follows this group in the same way as the Service of the policy.
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
		wait(ReasonAdoptedMissing, "spec.adoptFrom.serviceName: Service %q does not exist: create the Service, or delete and re-create this NetworkPolicy, because the field is immutable", name)
		return
	}
	if cause := unsuitable(live, d.Policy.Name); cause != "" {
		wait(ReasonAdoptedUnsuitable, "spec.adoptFrom.serviceName: Service %q %s", name, cause)
		return
	}
	if d.Policy.DeletionTimestamp != nil && d.Selected(name) == "" {
		wait(ReasonAdoptionWaits, "this NetworkPolicy is being deleted")
		return // The Service was restored, or its selector was never changed.
	}
	if !resources.Marked(live, d.Policy.Name) && d.Microservice.DeletionTimestamp == nil {
		next, err := resources.Mark(live, d.Policy.Name)
		if err != nil {
			wait(ReasonAdoptedUnsuitable, "spec.adoptFrom.serviceName: %v", err)
			return
		}
		out.Adoption.Mark = next
		wait(ReasonPending, "Service %q is being labeled", name)
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

// mayAdopt reports whether the active release has enough ready endpoints for the traffic of the
// Service.
func (d *planner) mayAdopt(name string, g *v1alpha1.ReleaseGroup, wait func(string, string, ...any)) bool {
	active := g.ActiveRelease()
	if active == nil {
		wait(reasonNoActiveRelease, "release group %q has no active release yet", g.Name)
		return false
	}
	now, seen := d.Endpoints[name]
	if !seen {
		wait(ReasonPending, "the EndpointSlices of Service %q have not been read yet", name)
		return false
	}
	// Release pods can have the labels that the Service selects, so endpoints of releases do not count
	// as endpoints that the active release replaces.
	previous := difference(now.Ready, d.released())
	have, need := len(d.Endpoints[d.ReleaseService(active.VersionedMicroservice)].Ready), max(1, len(previous))
	if have < need {
		wait(ReasonAdoptionWaits, "release %q has %d ready endpoints: Service %q is adopted when the release has at least %d; if that cannot happen, increase spec.availability.replicas (or autoscaling.minReplicas) of Microservice %q",
			active.VersionedMicroservice, have, name, need, d.Policy.MicroserviceName())
		return false
	}
	return true
}

// released returns the endpoints of all releases.
func (d *planner) released() []string {
	var out []string
	for name := range d.rollout.rows {
		out = append(out, d.Endpoints[d.ReleaseService(name)].All...)
	}
	return out
}

// unsuitable returns why a Service cannot be adopted, or "".
func unsuitable(s *corev1.Service, policy string) string {
	switch {
	case s.DeletionTimestamp != nil:
		return "is being deleted"
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		return "is of type ExternalName, so it does not select pods"
	case len(s.Spec.Selector) == 0:
		return "has no selector, so its endpoints are not managed by Kubernetes"
	case metav1.GetControllerOf(s) != nil:
		return fmt.Sprintf("is controlled by %s %q, which would revert changes to the selector", metav1.GetControllerOf(s).Kind, metav1.GetControllerOf(s).Name)
	case s.Labels[v1alpha1.LabelPolicy] != "" && s.Labels[v1alpha1.LabelPolicy] != policy:
		return fmt.Sprintf("is adopted by networkpolicies.hlnr.io %q", s.Labels[v1alpha1.LabelPolicy])
	}
	return ""
}
