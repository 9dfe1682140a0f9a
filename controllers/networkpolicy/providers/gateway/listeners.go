package gateway

import (
	"fmt"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
)

// Serves returns the URL of a host at the best matching listener. It returns a problem if the listener
// has a problem, or if no listener matches and all Gateways of the route exist. A host with TLS is not
// served until its listener has a certificate.
func (v *view) Serves(r providers.Route, host string) (string, *providers.Problem) {
	asked, tls := r.TLS[host]
	if tls && asked.Mode == v1alpha1.TLSListenerSet {
		for _, p := range v.parents(r) {
			if problem := v.setServes(v.setName(p, host, asked)); problem != nil {
				return address("https", host, gatewayv1.PortNumber(asked.Port), r.Path), problem
			}
		}
		return address("https", host, gatewayv1.PortNumber(asked.Port), r.Path), nil
	}
	wanted := listenerProtocols(r.Protocol)
	scheme := "http"
	switch {
	case r.Protocol == v1alpha1.ProtocolTLS:
		scheme = "tls"
	case tls:
		wanted, scheme = wanted[:1], "https"
	}
	l, known := v.listener(r, host, wanted)
	if l == nil {
		if !known {
			return address(scheme, host, 0, r.Path), nil
		}
		names := make([]string, 0, len(wanted))
		for _, p := range slices.Backward(wanted) {
			names = append(names, string(p))
		}
		return address(scheme, host, 0, r.Path), &providers.Problem{Reason: providers.ReasonNoMatchingListener, Message: fmt.Sprintf(
			"no %s listener of the Gateways that accepts %ss from namespace %q has a hostname that matches %q: add one, or change the domain",
			strings.Join(names, " or "), kindOf(r.Protocol).Kind, v.Policy.Namespace, host)}
	}
	if l.Protocol == gatewayv1.HTTPSProtocolType {
		scheme = "https"
	}
	return address(scheme, host, l.Port, r.Path), l.problem
}

// brokenListener returns the problem with a Gateway listener that should serve a host of the route;
// nil if there is no problem.
func (v *view) brokenListener(r providers.Route) *providers.Problem {
	for _, host := range r.Hostnames {
		if t, ok := r.TLS[host]; ok && t.Mode == v1alpha1.TLSListenerSet {
			continue
		}
		if _, problem := v.Serves(r, host); problem != nil && problem.Reason != providers.ReasonNoMatchingListener {
			return problem
		}
	}
	return nil
}

// served is a listener of a Gateway, with its problem, if any.
type served struct {
	gatewayv1.Listener
	problem *providers.Problem
}

// listener returns the best listener for a host; nil if there is none. The candidates are those
// listeners of the route's parents that accept the route. Listeners without a problem take
// precedence. If several listeners remain, the order of the protocols in wanted decides. known is
// false if a Gateway that could have such a listener does not exist.
func (v *view) listener(r providers.Route, host string, wanted []gatewayv1.ProtocolType) (best *served, known bool) {
	known = true
	rank := func(l *served) int {
		i := slices.Index(wanted, l.Protocol)
		if l.problem != nil {
			i += len(wanted)
		}
		return i
	}
	for _, p := range v.parents(r) {
		g := v.gateway(p.ParentReference)
		if g == nil {
			known = false
			continue
		}
		for _, candidate := range g.Spec.Listeners {
			if p.SectionName != "" && string(candidate.Name) != p.SectionName || !takes(deref(candidate.Hostname), host) || !slices.Contains(wanted, candidate.Protocol) {
				continue
			}
			if !takesKind(candidate, kindOf(r.Protocol)) || !admits(g, string(candidate.Name), v.Policy.Namespace) {
				continue
			}
			l := &served{Listener: candidate}
			for _, s := range g.Status.Listeners {
				if s.Name == candidate.Name {
					l.problem = listenerProblem(s.Conditions, g.Generation, fmt.Sprintf("listener %q of Gateway %q", s.Name, key(v.Policy.Namespace, p.ParentReference)))
				}
			}
			if best == nil || rank(l) < rank(best) {
				best = l
			}
		}
	}
	return best, known
}

// listenerProtocols returns the listener protocols that can serve a port's protocol, with the
// preferred protocol first.
func listenerProtocols(protocol v1alpha1.PortProtocol) []gatewayv1.ProtocolType {
	if protocol == v1alpha1.ProtocolTLS {
		return []gatewayv1.ProtocolType{gatewayv1.TLSProtocolType}
	}
	return []gatewayv1.ProtocolType{gatewayv1.HTTPSProtocolType, gatewayv1.HTTPProtocolType}
}

// takesKind reports whether a listener accepts routes of a kind.
func takesKind(l gatewayv1.Listener, kind providers.Kind) bool {
	kinds := deref(l.AllowedRoutes).Kinds
	return len(kinds) == 0 || slices.ContainsFunc(kinds, func(k gatewayv1.RouteGroupKind) bool {
		return string(k.Kind) == kind.Kind && (k.Group == nil || *k.Group == gatewayv1.GroupName)
	})
}

// takes reports whether the hostname of a listener matches a host.
func takes(listener gatewayv1.Hostname, host string) bool {
	name := string(listener)
	if name == "" || name == host {
		return true
	}
	if suffix, wildcard := strings.CutPrefix(name, "*"); wildcard && strings.HasSuffix(host, suffix) {
		return true
	}
	if suffix, wildcard := strings.CutPrefix(host, "*"); wildcard && strings.HasSuffix(name, suffix) {
		return true
	}
	return false
}

// admits returns false if the parent has listeners and each of them excludes the given namespace: it
// accepts no routes, or only routes in the Gateway's namespace, which is a different one. Selectors
// are not considered, because the gateway evaluates them.
func admits(g *gatewayv1.Gateway, section, namespace string) bool {
	shut := false
	for _, l := range g.Spec.Listeners {
		if section != "" && string(l.Name) != section {
			continue
		}
		from := gatewayv1.NamespacesFromAll
		if l.AllowedRoutes != nil && l.AllowedRoutes.Namespaces != nil && l.AllowedRoutes.Namespaces.From != nil {
			from = *l.AllowedRoutes.Namespaces.From
		}
		if from != gatewayv1.NamespacesFromNone && (from != gatewayv1.NamespacesFromSame || g.Namespace == namespace) {
			return true
		}
		shut = true
	}
	return !shut
}

// noListener reports whether a parent refers to a listener that does not exist in its Gateway.
func (v *view) noListener(a attachment) bool {
	g := v.gateway(a.ParentReference)
	return g != nil && a.set == "" && a.SectionName != "" &&
		!slices.ContainsFunc(g.Spec.Listeners, func(l gatewayv1.Listener) bool { return string(l.Name) == a.SectionName })
}

// address returns the URL of a host. Port 0 means the default port of the scheme.
func address(scheme, host string, port gatewayv1.PortNumber, path string) string {
	usual := map[string]gatewayv1.PortNumber{"http": 80, "https": 443, "tls": 443}[scheme]
	if port != 0 && port != usual {
		host = fmt.Sprintf("%s:%d", host, port)
	}
	return scheme + "://" + host + strings.TrimSuffix(path, "/")
}
