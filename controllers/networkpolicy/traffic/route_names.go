package traffic

import (
	"fmt"
	"slices"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// currentGroup returns the slug of the group to which a live route sends requests for the host of a
// shared domain. If the host itself depends on the group, currentGroup uses the first group whose
// host has a live route.
func (d *planner) currentGroup(r DomainRow, entry v1alpha1.Domain) string {
	path := r.path
	if r.user != "" {
		if live := d.Live[r.user]; live != nil && !live.Deleting {
			return live.Group()
		}
		return ""
	}
	if r.listener != "" {
		if live := d.Live[listenerKey(r.listener, r.port).Name(d.Policy.Name, 0)]; live != nil && !live.Deleting {
			return live.Group()
		}
		return ""
	}
	if templated(entry.Domain) {
		for _, g := range d.liveGroups() {
			if host, err := render(entry.Domain, d.Policy, g); err == nil {
				if slug := d.hostGroup(host, path); slug != "" {
					return slug
				}
			}
		}
		return ""
	}
	host, err := render(entry.Domain, d.Policy, nil)
	if err != nil {
		return ""
	}
	return d.hostGroup(host, path)
}

// RouteKey identifies rows that share routes.
type RouteKey struct {
	Target, Path, Port string
	// protocol prevents routes of two kinds from having the same name; empty for HTTP and HTTPS.
	protocol v1alpha1.PortProtocol
	// matches distinguishes rows by their canaryMatches, and parents distinguishes rows by the parents
	// of their individual domains. matches is empty if there are no canaryMatches, and parents is
	// empty if there are no such parents.
	matches, parents string
	// provider is the name of the provider, or empty for the gateway provider: objects of two
	// providers must not have the same name when a policy switches between them.
	provider string
	// own distinguishes rows by the settings that apply to a whole route: whether the route is attached
	// to ListenerSets, and the TTL of its DNS records. own is empty if no such setting is specified.
	own string
	// user is the name of a user-managed route; empty for routes of the policy.
	user string
}

func keyOf(r *DomainRow) RouteKey {
	if r.user != "" {
		return RouteKey{user: r.user}
	}
	key := RouteKey{Target: r.target, Path: r.path, Port: r.port.Name, protocol: r.port.Protocol, matches: resources.MatchesKey(r.matches)}
	if r.listener != "" {
		return key // The name of the listener identifies the route.
	}
	if ofSet(r.tls) {
		key.own = "/" + string(r.tls.Mode)
	}
	if r.recordTTL > 0 {
		key.own += fmt.Sprintf("/%d", r.recordTTL)
	}
	for _, p := range r.parents {
		key.parents += fmt.Sprintf("/%s/%s/%s", p.Namespace, p.Name, p.SectionName)
	}
	return key.plain()
}

// listenerKey returns the key of a listener's route.
func listenerKey(name string, port v1alpha1.NetworkPort) RouteKey {
	return RouteKey{Target: "listener/" + name, Port: port.Name, protocol: port.Protocol}
}

// plain returns the key without its protocol if the protocol is HTTP or HTTPS: a port may change
// between these protocols without requiring a new route.
func (k RouteKey) plain() RouteKey {
	if k.protocol == v1alpha1.ProtocolHTTP || k.protocol == v1alpha1.ProtocolHTTPS {
		k.protocol = ""
	}
	return k
}

// Name returns the name of the index-th route of the key.
func (k RouteKey) Name(policy string, index int) string {
	if k.user != "" {
		return k.user
	}
	target, port := k.Target, k.Port
	if k.matches != "" {
		target += "/" + k.matches
	}
	target += k.parents + k.own
	if k.provider != "" {
		port += "/" + k.provider
	}
	if k.protocol != "" {
		port += "/" + string(k.protocol)
	}
	return resources.RouteName(policy, target, k.Path, port, index)
}

// serves reports whether a live route serves the host or listener of a row.
func (d *planner) serves(route *providers.Live, r *DomainRow) bool {
	if r.user != "" {
		return route.Name == r.user
	}
	if r.listener != "" {
		return route.Name == listenerKey(r.listener, r.port).Name(d.Policy.Name, 0)
	}
	return route.Path == r.path && slices.Contains(route.Hostnames, r.host)
}

// placed returns the index of the key's live route that has the host, or -1.
func (d *planner) placed(key RouteKey, host string) int {
	for i := range maxRows / providers.MaxHostnames {
		name := key.Name(d.Policy.Name, i)
		if route, ok := d.Live[name]; ok && !route.Deleting && slices.Contains(route.Hostnames, host) {
			return i
		}
	}
	return -1
}

// tlsOf returns the TLS settings of one route's rows, keyed by host.
func tlsOf(rows []*DomainRow) map[string]providers.TLS {
	var out map[string]providers.TLS
	for _, r := range rows {
		if r.tls == nil {
			continue
		}
		if out == nil {
			out = map[string]providers.TLS{}
		}
		out[r.host] = *r.tls
	}
	return out
}

// tlsByHost returns the TLS settings of a row, keyed by host.
func (r *DomainRow) tlsByHost() map[string]providers.TLS { return tlsOf([]*DomainRow{r}) }

// ofSet reports whether TLS settings give a host its own listeners.
func ofSet(t *providers.TLS) bool { return t != nil && t.Mode == v1alpha1.TLSListenerSet }
