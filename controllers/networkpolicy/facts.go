package networkpolicy

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/apisix"
	gatewayapi "github.com/heighliner/heighliner/controllers/networkpolicy/providers/gateway"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/ingress"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// facts is all that a decision rests on, as read in one pass.
type facts struct {
	policy *v1alpha1.NetworkPolicy
	// microservice that the policy routes to; nil where there is none.
	microservice *v1alpha1.Microservice
	// services that the policy owns, by name; those that are being deleted included.
	services map[string]*corev1.Service
	// view of the provider that the policy chose.
	view providers.View
	// views of all providers, that one included, and the scene that they were made from.
	views []providers.View
	scene providers.Scene
	// rest are the policy's objects that carry no route, such as Certificates.
	rest []client.Object
	// live routes by name: those of the provider, and those that another one left.
	live map[string]*providers.Live
	// adopted is the Service of the user that the policy adopts; nil: none, or it is
	// not there.
	adopted *corev1.Service
	// older are the policies that name the same route of somebody else, and are older.
	older []*v1alpha1.NetworkPolicy
	// written is when routes were written last, by name, where that is known.
	written map[string]time.Time
	// probed is what is known of the probes of routes.
	probed map[providers.Probe]providers.Probed
	// endpoints by name of the policy's Services.
	endpoints map[string]endpoints
	// claims of other policies that this one's routes could meet.
	claims []claim
	// owned is what the list of domains gives to the namespace; nil: there is no list.
	owned *ownership
	now   time.Time
}

// endpoints of one Service, by identity.
type endpoints struct {
	all, ready []string
}

// claim is a host and path that another policy holds.
type claim struct {
	host, path, policy string
	// literal: an entry of that policy names the host, and no group has a say in it.
	literal bool
	// younger: that policy is, and serves the host.
	younger bool
}

// microserviceName is the name that the policy refers to.
func microserviceName(p *v1alpha1.NetworkPolicy) string {
	if p.Spec.MicroserviceRef != nil {
		return p.Spec.MicroserviceRef.Name
	}
	return p.Name
}

// gatewayProvider routes by the Gateway API.
var gatewayProvider providers.Provider = gatewayapi.Provider{}

// known are the providers. The last one is that of policies which name none.
var known = []providers.Provider{gatewayProvider, ingress.Provider{}, apisix.Provider{}, gatewayapi.RouteRef{}, providers.Services{}}

// provider that a policy chose.
func provider(p *v1alpha1.NetworkPolicy) providers.Provider {
	for _, candidate := range known {
		if candidate.Chosen(p) {
			return candidate
		}
	}
	return providers.Services{}
}

// routed says whether the policy has a provider that writes routes.
func routed(p *v1alpha1.NetworkPolicy) bool {
	return len(provider(p).Writes()) > 0 || gatewayapi.UserRef(p) != nil
}

func (f *facts) releaseService(release string) string {
	return resources.ReleaseServiceName(f.policy.Name, microserviceName(f.policy), release)
}

// ready says whether a release has a ready endpoint now, by its own Service.
func (f *facts) ready(release string) bool {
	return len(f.endpoints[f.releaseService(release)].ready) > 0
}

// service is a live Service of the policy, or the one that it adopts; nil: there is
// none.
func (f *facts) service(name string) *corev1.Service {
	if f.adopted != nil && f.adopted.Name == name {
		return f.adopted
	}
	return f.services[name]
}

// selected is the release that a live Service of the policy selects.
func (f *facts) selected(service string) string {
	s := f.service(service)
	if s == nil || s.DeletionTimestamp != nil {
		return ""
	}
	return s.Spec.Selector[v1alpha1.LabelRelease]
}

// ofRelease says whether a Service of the policy belongs to one release.
func ofRelease(s *corev1.Service) bool {
	return s.Labels[v1alpha1.LabelRelease] != ""
}

// report of a group in the policy's present status.
func (f *facts) report(slug string) v1alpha1.GroupTraffic {
	i := slices.IndexFunc(f.policy.Status.Groups, func(g v1alpha1.GroupTraffic) bool { return g.Slug == slug })
	if i < 0 {
		return v1alpha1.GroupTraffic{Slug: slug}
	}
	return f.policy.Status.Groups[i]
}

// activeOf is the active release of a group; nil where there is none.
func activeOf(g *v1alpha1.ReleaseGroup) *v1alpha1.Release {
	for i := range g.Releases {
		if g.Releases[i].Status == v1alpha1.ReleaseActive {
			return &g.Releases[i]
		}
	}
	return nil
}

// mainOf is what a group serves by itself: its active release, else the canary that is
// its first one; nil where there is none.
func mainOf(g *v1alpha1.ReleaseGroup) *v1alpha1.Release {
	if a := activeOf(g); a != nil {
		return a
	}
	for i := range g.Releases {
		if g.Releases[i].Status == v1alpha1.ReleaseCanary {
			return &g.Releases[i]
		}
	}
	return nil
}

// triable is the release of a group to which domains of the canary route: the canary, or
// one that is available and about which hooks of PreRollout are asked; nil: there is none.
func triable(g *v1alpha1.ReleaseGroup) *v1alpha1.Release {
	for i := range g.Releases {
		r := &g.Releases[i]
		asked := g.Run != nil && g.Run.Release == r.VersionedMicroservice && g.Run.Gate == v1alpha1.GatePreRollout
		if r.Status == v1alpha1.ReleaseCanary || r.Status == v1alpha1.ReleasePending && asked {
			return r
		}
	}
	return nil
}

// turnedDown says that nothing of a group is to serve, and that none of the releases
// ever was active: what leads to them goes.
func turnedDown(g *v1alpha1.ReleaseGroup, releases ...string) bool {
	if mainOf(g) != nil || slices.ContainsFunc(g.Releases, func(r v1alpha1.Release) bool { return r.Promoted > 0 }) {
		return false
	}
	for _, name := range releases {
		i := slices.IndexFunc(g.Releases, func(r v1alpha1.Release) bool { return r.VersionedMicroservice == name })
		if i < 0 {
			return false
		}
	}
	return true
}

// live says that a group is to have routes: it is neither closing nor an expired preview.
func live(g *v1alpha1.ReleaseGroup) bool {
	return g.Phase != v1alpha1.GroupClosing && g.Phase != v1alpha1.GroupExpired
}

// ledger finds groups and rows of a Microservice's status.
type ledger struct {
	groups []*v1alpha1.ReleaseGroup
	// row and group by name of the release.
	rows     map[string]*v1alpha1.Release
	groupOf  map[string]*v1alpha1.ReleaseGroup
	bySlug   map[string]*v1alpha1.ReleaseGroup
	uid      string
	sequence int64
}

func readLedger(m *v1alpha1.Microservice) ledger {
	l := ledger{
		rows: map[string]*v1alpha1.Release{}, groupOf: map[string]*v1alpha1.ReleaseGroup{},
		bySlug: map[string]*v1alpha1.ReleaseGroup{},
	}
	if m == nil {
		return l
	}
	l.uid, l.sequence = string(m.UID), m.Status.Sequence
	for i := range m.Status.ReleaseGroups {
		g := &m.Status.ReleaseGroups[i]
		l.groups = append(l.groups, g)
		l.bySlug[g.Slug] = g
		for j := range g.Releases {
			r := &g.Releases[j]
			l.rows[r.VersionedMicroservice], l.groupOf[r.VersionedMicroservice] = r, g
		}
	}
	return l
}
