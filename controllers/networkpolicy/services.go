package networkpolicy

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// addServices decides the Services: one for each row of the ledger, then those that
// follow the active release of a group, then the policy's own.
func (d *decider) addServices(out *decision) {
	for _, g := range d.ledger.groups {
		for i := range g.Releases {
			name := g.Releases[i].VersionedMicroservice
			out.services = append(out.services, resources.Service{
				Name: d.releaseService(name), Release: name, Group: g.Slug, OfRelease: true,
			})
		}
	}
	slices.SortFunc(out.services, func(a, b resources.Service) int { return cmp.Compare(a.Name, b.Name) })
	for _, g := range d.liveGroups() {
		out.services = d.follow(out.services, resources.GroupServiceName(d.policy.Name, g.Slug), g, g.Slug)
	}
	current := ""
	if g := d.ledger.groupOf[d.selected(d.policy.Name)]; g != nil {
		current = g.Slug
	}
	if g := d.choose(d.liveGroups(), current); g != nil && adoptedName(d.policy) != d.policy.Name {
		out.services = d.follow(out.services, d.policy.Name, g, "")
	}
}

// follow adds a Service that leads to a group's active release. It moves only to a
// release that has a ready endpoint, and stays where it is until then, unless what
// it leads to has no row any more or is of a group that is closing.
func (d *decider) follow(services []resources.Service, name string, g *v1alpha1.ReleaseGroup, label string) []resources.Service {
	selected := d.selected(name)
	of := d.ledger.groupOf[selected]
	target := selected
	if of != nil && (!live(of) || label != "" && turnedDown(of, selected)) {
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
		// The stamp tells when the selector moved, so that a step of a canary writes
		// no Service.
		if stamp, stamped := resources.StampOf(old); stamped && stamp.Ledger == s.Stamp.Ledger && stamp.Group == s.Stamp.Group {
			s.Stamp = stamp
		}
	}
	return append(services, s)
}

func (d *decider) stamp(g *v1alpha1.ReleaseGroup) resources.Stamp {
	return resources.Stamp{Group: g.Slug, Revision: g.TrafficRevision, Ledger: types.UID(d.ledger.uid), Sequence: d.ledger.sequence}
}
