package providers

import (
	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// Referrer is a Provider that reads objects which it does not write, such as Gateways.
type Referrer interface {
	// Reads returns the kinds of objects that Refers names.
	Reads() []Kind
	// Refers returns the objects of other owners on which the policy's routes depend. A change of one
	// of them triggers a reconcile.
	Refers(policy *v1alpha1.NetworkPolicy) []Reference
}

// Selective is a Provider that does not need all kinds that it writes for each policy.
type Selective interface {
	// Needs returns the kinds that the specification of a policy requires.
	Needs(policy *v1alpha1.NetworkPolicy) []Kind
}

// Prober is a View that finds out by probes whether a route is served.
type Prober interface {
	// Probes returns the probes that have to pass before a route counts as accepted; none while it
	// waits for something else.
	Probes(route Route, built []resources.Object) []Probe
}

// Certificates is a View of live objects that name the Secrets of hosts.
type Certificates interface {
	// Secret with which live objects serve a host, or "" if they name none.
	Secret(host string) string
}

// SharedObjects is a View of routes that depend on additional objects, such as listeners.
type SharedObjects interface {
	// Shared returns the additional objects on which these routes depend, such as listeners, as they
	// are applied and in the order of writing. They are written before routes, and deleted after them.
	Shared([]Route) []Shared
	// Holds reports whether a live object that is not part of a route has to stay for live routes that
	// the decided ones do not replace.
	Holds(o resources.Object, decided []Route) bool
}

// Switcher is a View that can change only the weights of existing routes. Without it, routes stay
// as they are when a policy changes its provider, or when the API server rejects a decided route.
type Switcher interface {
	// Carry returns the objects of a live route with the Services of a decided one, or none if it has
	// them already: its parents and the other parts of its rules stay. Hostnames that the decided route
	// lacks are removed; no hostnames, no path and no port mean that they do not change. It is called
	// for routes whose provider the policy no longer uses, so it must not use the provider's part of
	// the specification.
	Carry(live *Live, route Route) []resources.Object
}

// Limited is a View that cannot express all Routes.
type Limited interface {
	// Splits reports whether weights have an effect. If not, the traffic of a group moves as a whole,
	// and routes route only to its active release.
	Splits() bool
	// Apart reports whether each host and path has its own route, which is changed in place, so that
	// two routes never have the same host and path.
	Apart() bool
}

// Configurable is a View of a provider with settings that have no effect on some routes.
type Configurable interface {
	// Unapplied reports which setting of the specification has no effect on these routes, which are
	// written without it, or nil.
	Unapplied([]Route) *Problem
}

// Dependent is a View whose routes depend on objects of other owners.
type Dependent interface {
	// Referent returns the problem of an object that the policy names, or nil.
	Referent() *Problem
	// Health returns the problem of an object that serves no traffic although all routes are accepted,
	// or nil.
	Health() *Problem
}

// ConflictChecker is a View that knows which policies of its provider never conflict.
type ConflictChecker interface {
	// MayConflict reports whether the policy's routes could conflict with those of another policy, so that
	// they must not have the same host.
	MayConflict(other *v1alpha1.NetworkPolicy) bool
}

// Reads returns the kinds of a Referrer; none for other providers.
func Reads(p Provider) []Kind {
	if r, ok := p.(Referrer); ok {
		return r.Reads()
	}
	return nil
}

// Refers returns the references of a Referrer; none for other providers.
func Refers(p Provider, policy *v1alpha1.NetworkPolicy) []Reference {
	if r, ok := p.(Referrer); ok {
		return r.Refers(policy)
	}
	return nil
}

// Needs returns the kinds that a policy needs: all that the provider writes, where it is not
// Selective.
func Needs(p Provider, policy *v1alpha1.NetworkPolicy) []Kind {
	if s, ok := p.(Selective); ok {
		return s.Needs(policy)
	}
	return p.Writes()
}

// Probes of a Prober; none for other views.
func Probes(v View, route Route, built []resources.Object) []Probe {
	if p, ok := v.(Prober); ok {
		return p.Probes(route, built)
	}
	return nil
}

// SharedOf returns the objects of a SharedObjects view; none for others.
func SharedOf(v View, routes []Route) []Shared {
	if s, ok := v.(SharedObjects); ok {
		return s.Shared(routes)
	}
	return nil
}

// Holds of a SharedObjects view; others hold no object.
func Holds(v View, o resources.Object, decided []Route) bool {
	s, ok := v.(SharedObjects)
	return ok && s.Holds(o, decided)
}

// Secret of a view with Certificates; others name none.
func Secret(v View, host string) string {
	if c, ok := v.(Certificates); ok {
		return c.Secret(host)
	}
	return ""
}

// Carry of a Switcher; other views change nothing.
func Carry(v View, live *Live, route Route) []resources.Object {
	if s, ok := v.(Switcher); ok {
		return s.Carry(live, route)
	}
	return nil
}

// Splits of a Limited view; others split.
func Splits(v View) bool {
	l, ok := v.(Limited)
	return !ok || l.Splits()
}

// Apart of a Limited view; others put hosts together.
func Apart(v View) bool {
	l, ok := v.(Limited)
	return ok && l.Apart()
}

// Unapplied of a Configurable view; others apply all settings.
func Unapplied(v View, routes []Route) *Problem {
	if c, ok := v.(Configurable); ok {
		return c.Unapplied(routes)
	}
	return nil
}

// Referent of a Dependent view; others name no object.
func Referent(v View) *Problem {
	if d, ok := v.(Dependent); ok {
		return d.Referent()
	}
	return nil
}

// Health of a Dependent view; others depend on no object.
func Health(v View) *Problem {
	if d, ok := v.(Dependent); ok {
		return d.Health()
	}
	return nil
}
