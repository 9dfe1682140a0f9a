package providers

import (
	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// Referrer is a Provider that looks at objects which it does not write, such as Gateways.
type Referrer interface {
	// Reads are the kinds of objects that Refers names.
	Reads() []Kind
	// Refers are the objects of others on which the policy's routes depend. A change
	// of one of them brings a reconcile.
	Refers(policy *v1alpha1.NetworkPolicy) []Reference
}

// Selective is a Provider that does not need all kinds that it writes for each policy.
type Selective interface {
	// Needs are those of the kinds without which it cannot serve what a policy asks for.
	Needs(policy *v1alpha1.NetworkPolicy) []Kind
}

// Prober is a View that learns by probes whether a route is served.
type Prober interface {
	// Probes are those without which the verdict on a route does not accept it; none
	// while it has something else to wait for.
	Probes(route Route, built []resources.Object) []Probe
}

// Certificates is a View of live objects that name the Secrets which hosts are served with.
type Certificates interface {
	// Secret with which live objects serve a host, or "" if they name none.
	Secret(host string) string
}

// Sharing is a View of routes that rest on objects next to them, such as listeners.
type Sharing interface {
	// Shared returns the objects on which these routes rest in addition to their own, such as
	// listeners, as they are applied and in the order of writing. They are written before routes, and
	// deleted after them.
	Shared([]Route) []Shared
	// Holds reports whether a live object that carries no route has to stay for the sake of
	// live routes which these, the decided ones, do not replace.
	Holds(o resources.Object, decided []Route) bool
}

// Switcher is a View that can change the weights of routes that a policy has already, and
// nothing else of them. Routes of other providers stay as they are when a policy leaves
// the provider, or when the API server refuses what the specification asks for of a route.
type Switcher interface {
	// Carry returns the objects of a live route that routes to the Services of a decided one: what
	// serves it, and what else its rules say, stays. A hostname that the decided one lacks goes; no
	// hostnames, no path and no port stand for those that it has. None: it is so already. It is asked
	// of routes whose provider the policy has left, so that nothing of what the specification asks for
	// of a provider may be used.
	Carry(live *Live, route Route) []resources.Object
}

// Limited is a View that cannot express all that Routes ask for.
type Limited interface {
	// Splits reports whether weights have an effect. Where they have none, the traffic of a
	// group moves as a whole, and routes route to its active release alone.
	Splits() bool
	// Apart reports that each host and path has its own route, which changes in place
	// whatever it routes to: that two routes never hold the same host and path.
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
	// Referent names what is wrong with an object that the policy names, or nil.
	Referent() *Problem
	// Health names what serves no traffic although all is accepted, or nil.
	Health() *Problem
}

// Sharer is a View that knows which policies of its provider never meet.
type Sharer interface {
	// Shares reports whether the policy's routes could meet those of another policy, so
	// that both must not hold the same host.
	Shares(other *v1alpha1.NetworkPolicy) bool
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

// SharedOf returns the objects of a Sharing view; none for others.
func SharedOf(v View, routes []Route) []Shared {
	if s, ok := v.(Sharing); ok {
		return s.Shared(routes)
	}
	return nil
}

// Holds of a Sharing view; others hold no object.
func Holds(v View, o resources.Object, decided []Route) bool {
	s, ok := v.(Sharing)
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
