package traffic

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/apisix"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/certmanager"
	gatewayapi "github.com/heighliner/heighliner/controllers/networkpolicy/providers/gateway"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/ingress"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/internal/allowedhosts"
)

// Observed contains all facts on which a decision is based, as read in one reconcile.
type Observed struct {
	Policy *v1alpha1.NetworkPolicy
	// Microservice is the Microservice to which the policy routes, or nil.
	Microservice *v1alpha1.Microservice
	// Services are the Services that the policy owns, including Services that are being deleted,
	// keyed by name.
	Services map[string]*corev1.Service
	// View is the view of the provider that the policy uses.
	View providers.View
	// views are the views of all providers, in the order of Known. Input is the input from which
	// they were created.
	views []providers.View
	Input providers.Input
	// Rest contains the policy's objects other than routes and Services, such as Certificates.
	Rest []resources.Object
	// Live contains the live routes of all providers, keyed by name.
	Live map[string]*providers.Live
	// Adopted is the user's Service that the policy adopts; nil if the policy adopts no Service, or if
	// the Service does not exist.
	Adopted *corev1.Service
	// Older contains the older policies that name the same user-managed route.
	Older []*v1alpha1.NetworkPolicy
	// Written contains the known times at which routes were last written, keyed by route name.
	Written map[string]time.Time
	// Probed contains the known results of route probes.
	Probed map[providers.Probe]providers.Probed
	// Endpoints contains the endpoints of the policy's Services, keyed by Service name.
	Endpoints map[string]Endpoints
	// Claims are the claims of other policies with which routes of this policy could conflict.
	Claims []Claim
	// Owned describes the hosts that the list of domains allows for the namespace; nil if there is
	// no list.
	Owned *Ownership
	Now   time.Time
}

// Endpoints contains the identities of the endpoints of one Service.
type Endpoints struct {
	All, Ready []string
	// ReadySince is the time at which the Service got a ready endpoint; zero if this was not observed,
	// or if it was longer ago than FirstTrafficDelay.
	ReadySince time.Time
}

// FirstTrafficDelay is the time for which a release must have a ready endpoint before a route that
// carries traffic refers to the release for the first time. Gateways watch routes and EndpointSlices
// separately. If a gateway received the route first, it would respond to requests with 503.
const FirstTrafficDelay = time.Second

// Claim is a host and path that another policy uses.
type Claim struct {
	host, path, policy string
	// literal reports whether that policy specifies the host without a template.
	literal bool
	// younger reports whether that policy is younger than the observed policy and serves the host.
	younger bool
}

// gatewayProvider writes routes of the Gateway API.
var gatewayProvider providers.Provider = gatewayapi.Provider{}

// Known contains all providers. The last provider is for policies without spec.provider.
var Known = []providers.Provider{gatewayProvider, ingress.Provider{}, apisix.Provider{}, gatewayapi.RouteRef{}, providers.Services{}}

// ProviderOf returns the provider of a policy.
func ProviderOf(p *v1alpha1.NetworkPolicy) providers.Provider {
	for _, candidate := range Known {
		if candidate.Chosen(p) {
			return candidate
		}
	}
	return providers.Services{}
}

// routed reports whether the policy has a provider that writes routes.
func routed(p *v1alpha1.NetworkPolicy) bool {
	return len(ProviderOf(p).Writes()) > 0 || gatewayapi.UserRef(p) != nil
}

// ReleaseService returns the name of a release's Service.
func (f *Observed) ReleaseService(release string) string {
	return resources.ReleaseServiceName(f.Policy.Name, f.Policy.MicroserviceName(), release)
}

// ready reports whether a release currently has a ready endpoint, according to its own Service.
func (f *Observed) ready(release string) bool {
	return len(f.Endpoints[f.ReleaseService(release)].Ready) > 0
}

// StartingServices returns the names of the Services of all releases that have traffic or may get it in
// the current rollout state, whether or not the Services exist.
func StartingServices(f *Observed) (names []string) {
	if f.Microservice == nil {
		return nil
	}
	for i := range f.Microservice.Status.ReleaseGroups {
		for _, r := range f.Microservice.Status.ReleaseGroups[i].Releases {
			if r.Status != v1alpha1.ReleaseError {
				names = append(names, f.ReleaseService(r.VersionedMicroservice))
			}
		}
	}
	return names
}

// firstTrafficAt returns the time until which a release does not get its first traffic; zero if it does not
// have to wait. A release waits only if a live route routes to other releases that are ready, because
// otherwise requests fail anyway, and only if no live route refers to it yet.
func (f *Observed) firstTrafficAt(release string) time.Time {
	name := f.ReleaseService(release)
	since, ready := f.Endpoints[name].ReadySince, false
	if since.IsZero() || f.Now.Before(since) {
		return time.Time{}
	}
	for _, route := range f.Live {
		if slices.Contains(route.Services, name) {
			return time.Time{}
		}
		ready = ready || slices.ContainsFunc(route.Services, func(other string) bool { return len(f.Endpoints[other].Ready) > 0 })
	}
	if end := since.Add(FirstTrafficDelay); ready && f.Now.Before(end) {
		return end
	}
	return time.Time{}
}

// service returns the Service with the given name: a live Service of the policy, or the Service that
// the policy adopts. It returns nil if there is no such Service.
func (f *Observed) service(name string) *corev1.Service {
	if f.Adopted != nil && f.Adopted.Name == name {
		return f.Adopted
	}
	return f.Services[name]
}

// Selected returns the release that a live Service of the policy selects, or "".
func (f *Observed) Selected(service string) string {
	s := f.service(service)
	if s == nil || s.DeletionTimestamp != nil {
		return ""
	}
	return s.Spec.Selector[v1alpha1.LabelRelease]
}

// OfRelease reports whether a Service of the policy belongs to one release.
func OfRelease(s *corev1.Service) bool {
	return s.Labels[v1alpha1.LabelRelease] != ""
}

// report returns the report about a group in the policy's current status. The report is empty if the
// status does not contain the group.
func (f *Observed) report(slug string) v1alpha1.GroupTraffic {
	i := slices.IndexFunc(f.Policy.Status.Groups, func(g v1alpha1.GroupTraffic) bool { return g.Slug == slug })
	if i < 0 {
		return v1alpha1.GroupTraffic{Slug: slug}
	}
	return f.Policy.Status.Groups[i]
}

// AdoptedName returns the name of the Service that a policy adopts, or "".
func AdoptedName(p *v1alpha1.NetworkPolicy) string {
	if p.Spec.AdoptFrom == nil {
		return ""
	}
	return p.Spec.AdoptFrom.ServiceName
}

// previous reports whether a live route belongs to a provider that the policy no longer uses.
func (f *Observed) previous(route *providers.Live) bool {
	return route.Provider != ProviderOf(f.Policy).Name()
}

// shares reports whether the routes of the policy could conflict with those of another policy. By
// default, this is the case if both policies use the same provider.
func (f *Observed) shares(other *v1alpha1.NetworkPolicy) bool {
	if s := other.Status.ProviderSwitch; s != nil && slices.Contains(s.From, ProviderOf(f.Policy).Name()) {
		return true // The other policy's previous routes keep serving until they are deleted.
	}
	if s, ok := f.View.(providers.ConflictChecker); ok {
		return s.MayConflict(other)
	}
	return ProviderOf(other).Name() == ProviderOf(f.Policy).Name()
}

// viewOf returns the view of the provider with the given name.
func (f *Observed) viewOf(name string) providers.View {
	return f.views[slices.IndexFunc(Known, func(p providers.Provider) bool { return p.Name() == name })]
}

// previousRoutes returns the sorted names of the live routes of previous providers.
func (f *Observed) previousRoutes() []string {
	return slices.DeleteFunc(providers.Sorted(f.Live), func(name string) bool { return !f.previous(f.Live[name]) })
}

// hasPreviousRoutes reports whether a group has routes of a previous provider.
func (f *Observed) hasPreviousRoutes(slug string) bool {
	return slices.ContainsFunc(f.previousRoutes(), func(name string) bool { return f.Live[name].Group() == slug })
}

// ListenerHost returns the key that represents a listener among hosts. The key differs from all
// host names.
func ListenerHost(p *v1alpha1.NetworkPolicy, l v1alpha1.Listener) string {
	return "listener " + cmp.Or(l.ParentRef.Namespace, p.Namespace) + "/" + l.ParentRef.Name + "/" + l.ParentRef.SectionName
}

// AllKinds returns the kinds of all providers, and the Certificate kind.
func AllKinds() []providers.Kind {
	var out []providers.Kind
	for _, p := range Known {
		out = append(append(out, providers.Reads(p)...), p.Writes()...)
	}
	return append(out, certmanager.Kind)
}

// WrittenKinds returns the kinds of all objects that the controller writes, except Services.
func WrittenKinds() []providers.Kind {
	var out []providers.Kind
	for _, p := range Known {
		out = append(out, p.Writes()...)
	}
	return append(out, certmanager.Kind)
}

// Written reports whether a kind is one of WrittenKinds.
func Written(kind string) bool {
	return kind == certmanager.Kind.Kind || slices.ContainsFunc(Known, func(p providers.Provider) bool { return writesKind(p, kind) })
}

// writesKind reports whether a provider writes objects of a kind.
func writesKind(p providers.Provider, kind string) bool {
	return slices.ContainsFunc(p.Writes(), func(k providers.Kind) bool { return k.Kind == kind })
}

// OfAnother reports whether a kind is written only by providers other than the policy's.
func OfAnother(policy *v1alpha1.NetworkPolicy, kind string) bool {
	own := ProviderOf(policy)
	return !writesKind(own, kind) && slices.ContainsFunc(Known, func(p providers.Provider) bool { return writesKind(p, kind) })
}

// NeededKinds returns the kinds that the specification of a policy requires.
func NeededKinds(p *v1alpha1.NetworkPolicy) []providers.Kind {
	out := providers.Needs(ProviderOf(p), p)
	if certmanager.Needed(p) {
		out = append(out, certmanager.Kind)
	}
	return out
}

// ReadKinds returns the kinds of the objects that a policy has or needs. Objects of all these kinds
// must be read; otherwise, it is unknown which releases the routes target.
func ReadKinds(p *v1alpha1.NetworkPolicy) []providers.Kind {
	out := NeededKinds(p)
	from := []string{p.Status.Provider}
	if s := p.Status.ProviderSwitch; s != nil {
		from = append(from, s.From...)
	}
	for _, previous := range Known {
		if previous != ProviderOf(p) && slices.Contains(from, previous.Name()) {
			out = append(out, previous.Writes()...)
		}
	}
	for _, kind := range WrittenKinds() {
		if slices.ContainsFunc(p.Status.Routes, func(s v1alpha1.RouteStatus) bool { return s.Kind == kind.Kind }) {
			out = append(out, kind)
		}
	}
	return out
}

// SetViews creates the views of all providers from an input, and sets the live routes and the other
// objects of the policy.
func (f *Observed) SetViews(input providers.Input) {
	f.Input, f.Live, f.views, f.Rest = input, map[string]*providers.Live{}, nil, nil
	own := ProviderOf(f.Policy)
	ofRoutes := map[resources.Object]bool{}
	for _, p := range Known {
		view := p.NewView(input)
		f.views = append(f.views, view)
		if p == own {
			f.View = view
		}
		for name, live := range view.Live() {
			live.Provider = p.Name()
			f.Live[name] = live
			for _, o := range live.Objects {
				ofRoutes[o] = true
			}
		}
	}
	for _, o := range input.Objects {
		if !ofRoutes[o] {
			f.Rest = append(f.Rest, o)
		}
	}
}

// Orphans reports whether a policy is being deleted but its objects are not.
func Orphans(p *v1alpha1.NetworkPolicy) bool {
	return p.DeletionTimestamp != nil && p.Spec.DeletionPolicy == v1alpha1.DeletionOrphan
}

// Older reports whether policy a has precedence over policy b, by the same rules as for routes in
// the Gateway API: the older policy has precedence, and the name decides if both have the same age.
func Older(a, b *v1alpha1.NetworkPolicy) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Namespace+"/"+a.Name < b.Namespace+"/"+b.Name
}

// Ownership describes which hosts the list of domains allows for a policy's namespace. If it is
// nil, there is no list, and every host is allowed.
type Ownership struct {
	// Hosts are the hosts that the list allows for the namespace.
	Hosts allowedhosts.Hosts
	// Unread is the error that prevents the list from being applied; nil if there is none.
	Unread error
}

// ObjectName returns the kind and name of an object that was read or built.
func ObjectName(o resources.Object) string {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	return fmt.Sprintf("%s %q", cmp.Or(kind, "route"), o.GetName())
}

// Union returns the elements of both slices, sorted and without duplicates.
func Union(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// difference returns the elements of a that are not in b.
func difference(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

func sameSet(a, b []string) bool { return slices.Equal(Union(a, nil), Union(b, nil)) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// UserNames returns the names of the user-managed routes to which a policy refers or that may still
// contain rules of the policy.
func UserNames(p *v1alpha1.NetworkPolicy) []string {
	var out []string
	if ref := gatewayapi.UserRef(p); ref != nil {
		out = append(out, providers.UserRoute(ref.Kind, ref.Name))
	}
	for _, s := range p.Status.Routes {
		out = append(out, providers.UserRoute(s.Kind, s.Name))
	}
	return Union(out, nil)
}

// RouteHost returns the key that represents the user-managed route of a policy among hosts. The key
// differs from all host names.
func RouteHost(p *v1alpha1.NetworkPolicy) string {
	ref := gatewayapi.UserRef(p)
	if ref == nil {
		return ""
	}
	return "route " + p.Namespace + "/" + providers.UserRoute(ref.Kind, ref.Name)
}

// liveSlugs returns the slugs of the groups for which live objects were written.
func (f *Observed) liveSlugs() map[string]bool { return f.liveSlugsBut(nil) }

// liveSlugsBut is like liveSlugs, but ignores the given routes.
func (f *Observed) liveSlugsBut(without map[string]bool) map[string]bool {
	out := map[string]bool{}
	for _, s := range f.Services {
		stamp, _ := resources.StampOf(s)
		if slug := cmp.Or(s.Labels[v1alpha1.LabelGroup], stamp.Group); slug != "" && !OfRelease(s) {
			out[slug] = true
		}
	}
	for name, route := range f.Live {
		if slug := route.Group(); slug != "" && !without[name] {
			out[slug] = true
		}
	}
	return out
}
