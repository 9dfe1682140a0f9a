package providers

import (
	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// Referrer is a Provider that reads objects that it does not write, such as Gateways.
type Referrer interface {
	// Reads returns the kinds of the objects that Refers returns.
	Reads() []Kind
	// Refers returns the objects that the policy's routes depend on and that have other owners. A
	// change to such an object triggers a reconcile.
	Refers(policy *v1alpha1.NetworkPolicy) []Reference
}

// Selective is a Provider that does not need all of its kinds for each policy.
type Selective interface {
	// Needs returns the kinds that the specification of a policy requires.
	Needs(policy *v1alpha1.NetworkPolicy) []Kind
}

// Prober is a View that uses probes to verify whether a route is served.
type Prober interface {
	// Probes returns the probes that must succeed before a route counts as accepted. It returns
	// no probes while the route is pending for another reason.
	Probes(route Route, built []resources.Object) []Probe
}

// Certificates is a View whose live objects refer to the TLS Secrets of hosts.
type Certificates interface {
	// LiveTLS returns the mode, the Secret and the port with which live objects serve a host, or nil
	// if no live object refers to a Secret for the host.
	LiveTLS(host string) *TLS
}

// SharedObjects is a View of routes that depend on additional objects, such as listeners.
type SharedObjects interface {
	// Shared returns the additional objects that these routes depend on, in the form in which they are
	// applied and in the order in which they are written. They are written before the routes, and
	// deleted after them.
	Shared([]Route) []Shared
	// Holds reports whether a live object that is not part of a route must stay, for
	// example because live routes that the desired routes do not replace depend on it.
	Holds(o resources.Object, decided []Route) bool
}

// Switcher is a View that can change the weights of existing routes without other changes. If a view
// is not a Switcher, routes stay as they are when a policy changes its provider, or when the API
// server rejects a desired route.
type Switcher interface {
	// Carry returns the objects of a live route with its Services replaced by those of a desired route,
	// or no objects if the live route already has these Services. The parents, the path and the other
	// parts of the rules do not change. Hostnames that the desired route lacks are removed. If the
	// desired route has no hostnames at all, or no port, the live values remain. Carry is called for
	// routes whose provider the policy no longer uses, so it must not use the provider's part of the
	// specification.
	Carry(live *Live, route Route) []resources.Object
}

// Limited is a View that cannot express every Route.
type Limited interface {
	// Splits reports whether weights have an effect. If not, all traffic of a group moves in one
	// step, and routes target only the active release of the group.
	Splits() bool
	// Apart reports whether each combination of host and path has its own route, which is updated in
	// place, so that two routes never have the same host and path.
	Apart() bool
}

// Configurable is a View of a provider with settings that have no effect on some routes.
type Configurable interface {
	// Unapplied returns a problem that names a setting of the specification that has no effect on
	// these routes, and nil if there is no such setting. The routes are written without the setting.
	Unapplied([]Route) *Problem
}

// Dependent is a View whose routes depend on objects that have other owners.
type Dependent interface {
	// Referent returns the problem with an object to which the policy refers, for example that it does
	// not exist; nil if there is no problem.
	Referent() *Problem
	// Health returns the problem with an object that serves no traffic even though it has accepted
	// all routes; nil if there is no such object.
	Health() *Problem
}

// ConflictChecker is a View that can rule out conflicts with other policies that use the same provider.
type ConflictChecker interface {
	// MayConflict reports whether the policy's routes could conflict with those of another policy, in
	// which case the two policies must not have the same host.
	MayConflict(other *v1alpha1.NetworkPolicy) bool
}

// Reads returns the kinds that a provider reads. Only Referrers read objects.
func Reads(p Provider) []Kind {
	if r, ok := p.(Referrer); ok {
		return r.Reads()
	}
	return nil
}

// Refers returns the objects to which a policy refers. Only Referrers have references.
func Refers(p Provider, policy *v1alpha1.NetworkPolicy) []Reference {
	if r, ok := p.(Referrer); ok {
		return r.Refers(policy)
	}
	return nil
}

// Needs returns the kinds that a policy requires: all kinds of the provider, unless the provider is
// Selective.
func Needs(p Provider, policy *v1alpha1.NetworkPolicy) []Kind {
	if s, ok := p.(Selective); ok {
		return s.Needs(policy)
	}
	return p.Writes()
}

// Probes returns the probes of a route. Only Probers have probes.
func Probes(v View, route Route, built []resources.Object) []Probe {
	if p, ok := v.(Prober); ok {
		return p.Probes(route, built)
	}
	return nil
}

// SharedOf returns the additional objects that routes depend on. Only SharedObjects views have such objects.
func SharedOf(v View, routes []Route) []Shared {
	if s, ok := v.(SharedObjects); ok {
		return s.Shared(routes)
	}
	return nil
}

// Holds reports whether a live object must stay, as SharedObjects.Holds does. It returns false
// if the view does not implement SharedObjects.
func Holds(v View, o resources.Object, decided []Route) bool {
	s, ok := v.(SharedObjects)
	return ok && s.Holds(o, decided)
}

// LiveTLS returns the TLS settings with which live objects serve a host, or nil if no live object
// refers to a Secret for the host or the view does not implement Certificates.
func LiveTLS(v View, host string) *TLS {
	if c, ok := v.(Certificates); ok {
		return c.LiveTLS(host)
	}
	return nil
}

// Carry returns the result of Switcher.Carry, or nil if the view is not a Switcher and therefore
// changes nothing.
func Carry(v View, live *Live, route Route) []resources.Object {
	if s, ok := v.(Switcher); ok {
		return s.Carry(live, route)
	}
	return nil
}

// Splits reports whether weights have an effect. They do, unless a Limited view reports otherwise.
func Splits(v View) bool {
	l, ok := v.(Limited)
	return !ok || l.Splits()
}

// Apart reports whether each combination of host and path has its own route. Only Limited views can
// require separate routes.
func Apart(v View) bool {
	l, ok := v.(Limited)
	return ok && l.Apart()
}

// Unapplied returns a problem if a setting has no effect on these routes, and nil otherwise. Views that
// are not Configurable apply all settings.
func Unapplied(v View, routes []Route) *Problem {
	if c, ok := v.(Configurable); ok {
		return c.Unapplied(routes)
	}
	return nil
}

// Referent returns the problem with an object to which the policy refers; nil if there is no problem. Only
// Dependent views have such objects.
func Referent(v View) *Problem {
	if d, ok := v.(Dependent); ok {
		return d.Referent()
	}
	return nil
}

// Health returns the problem with an object that serves no traffic; nil if there is no such object.
// Only Dependent views have such objects.
func Health(v View) *Problem {
	if d, ok := v.(Dependent); ok {
		return d.Health()
	}
	return nil
}
