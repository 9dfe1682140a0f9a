package gateway

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

var _ providers.Prober = (*view)(nil)

const (
	// probePath is the path of probes, relative to the path of the route.
	probePath = "/.well-known/hlnr/"
	// answerSuffix is the suffix of the hosts to which probes are redirected. The domain never
	// exists (RFC 6761), so no client is redirected to a server.
	answerSuffix = ".hlnr.invalid"
	// maxProbes is the maximum number of probes of one route. A route can have up to 8 parents, each
	// with up to 64 listeners and 16 addresses. Addresses beyond the limit are not probed: for them,
	// only the status counts.
	maxProbes = 64
)

// probes reports whether the policy's routes for the given protocol are probed. Only HTTPRoutes
// have a filter that responds without a backend.
func (v *view) probes(protocol v1alpha1.PortProtocol) bool {
	p := v.Policy.Spec.Provider
	return p != nil && p.Gateway != nil && p.Gateway.Confirm == v1alpha1.ConfirmProbe && kindOf(protocol).Kind == httpKind.Kind
}

// probeRule returns a rule that makes the gateway respond to probes of a route. The route must already
// contain all its other rules, because the response depends on them. The path of the probes does not
// change during the lifetime of the route. The response identifies the content: a gateway that still
// serves earlier content returns the response for that earlier content. No probe reaches a backend.
// The path match is exact, so the rule does not affect other requests.
func (v *view) probeRule(r providers.Route, done *gatewayv1.HTTPRoute) gatewayv1.HTTPRouteRule {
	return gatewayv1.HTTPRouteRule{
		Matches: []gatewayv1.HTTPRouteMatch{{Path: pathMatch(v1alpha1.MatchPath{Value: v.probedPath(r), Type: v1alpha1.PathExact})}},
		Filters: []gatewayv1.HTTPRouteFilter{{Type: gatewayv1.HTTPRouteFilterRequestRedirect, RequestRedirect: &gatewayv1.HTTPRequestRedirectFilter{
			Hostname: new(gatewayv1.PreciseHostname(v.answerOf(r, done))), StatusCode: new(302),
		}}},
	}
}

// probedPath returns a path below the path of the route, because a policy must not use a path
// outside its own route.
func (v *view) probedPath(r providers.Route) string {
	return strings.TrimSuffix(r.Path, "/") + probePath + digest(v.Policy.UID, r.Name)
}

// answerOf returns a redirect host that no earlier content of the route used. Restored content has
// the same digest as before, so the host also contains the number of changes. For the same live
// route and content, answerOf returns the same host, so no write is needed.
func (v *view) answerOf(r providers.Route, done *gatewayv1.HTTPRoute) string {
	content := digest(done.Spec.Hostnames, done.Spec.Rules, r.Stamp)
	changes := 1
	if old := v.live[r.Name]; old != nil {
		was, n, ok := parseAnswer(answerIn(old.Objects[0]))
		switch {
		case ok && was == content:
			changes = n
		case ok:
			changes = n + 1
		}
	}
	return fmt.Sprintf("%s-%d%s", content, changes, answerSuffix)
}

// parseAnswer returns the parts of an answer, which is the host of a redirect: the digest of the content,
// and the number of changes.
func parseAnswer(host string) (content string, changes int, ok bool) {
	label, suffixed := strings.CutSuffix(host, answerSuffix)
	content, number, counted := strings.Cut(label, "-")
	changes, err := strconv.Atoi(number)
	return content, changes, suffixed && counted && err == nil && changes > 0 && changes < 1<<30
}

// answerIn returns the answer to the probes of a live route, or "" if the route has no answer.
func answerIn(o resources.Object) string {
	route, ok := o.(*gatewayv1.HTTPRoute)
	if !ok {
		return ""
	}
	for _, rule := range route.Spec.Rules {
		for _, f := range rule.Filters {
			if f.RequestRedirect != nil && strings.HasSuffix(string(deref(f.RequestRedirect.Hostname)), answerSuffix) {
				return string(*f.RequestRedirect.Hostname)
			}
		}
	}
	return ""
}

// digest returns a 32-character digest of the values.
func digest(values ...any) string {
	text, err := json.Marshal(values)
	if err != nil {
		panic(err) // Parts of routes, names and numbers can always be encoded as JSON.
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// Probes returns the probes of a route, provided that the live route matches the object that Build
// returned and that all parents of the route have accepted it.
func (v *view) Probes(r providers.Route, built []resources.Object) []providers.Probe {
	live := v.live[r.Name]
	if !v.probes(r.Protocol) || live == nil || live.Deleting || !Same(live.Objects[0], built[0]) {
		return nil
	}
	for _, p := range v.attachments(r) {
		if !v.answer(live.Objects[0], p).Accepted {
			return nil
		}
	}
	var out []providers.Probe
	for _, q := range v.questions(r, live.Objects[0]) {
		if q.problem == "" {
			out = append(out, q.Probe)
		}
	}
	return out
}

// proven reports whether all addresses serve a route that its parents have accepted.
func (v *view) proven(r providers.Route, live resources.Object) providers.Verdict {
	if !v.probes(r.Protocol) {
		return providers.Verdict{Accepted: true}
	}
	for _, q := range v.questions(r, live) {
		known := v.Probed[q.Probe]
		if known.Served {
			continue
		}
		return providers.Verdict{Pending: true, Reason: providers.ReasonPending, Late: providers.ReasonProbeUnanswered, Message: fmt.Sprintf(
			"%s: Gateway %q does not serve %s %q as written: %s; or set spec.provider.gateway.confirm to Status",
			q.parent.Field, key(v.Policy.Namespace, q.parent.ParentReference), httpKind.Kind, r.Name,
			cmp.Or(q.problem, q.at()+": "+cmp.Or(known.Problem, "the address has not responded yet")+": check that the manager can reach the address, and see what the controller of the gateway reports"))}
	}
	return providers.Verdict{Accepted: true}
}

// question is a probe, with its parent and listener.
type question struct {
	providers.Probe
	parent   providers.Parent
	listener gatewayv1.SectionName
	// problem explains why there is no address to probe. It is empty if there is an address.
	problem string
}

// at returns the address of a probe, for messages.
func (q question) at() string {
	scheme := "http"
	if q.TLS {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s (listener %q, host %q)", scheme, net.JoinHostPort(q.Address, strconv.Itoa(int(q.Port))), q.listener, q.Host)
}

// questions returns the probes of a route: for each listener that serves the route, one probe for
// each address of the Gateway. All hosts of a route have the same rules, so one host is sufficient.
// If no listener matches a host of the route, there are no probes, and Serves reports the problem.
func (v *view) questions(r providers.Route, live resources.Object) []question {
	var out []question
	for _, p := range v.attachments(r) {
		g := v.gateway(p.ParentReference)
		if g == nil {
			continue
		}
		listeners := v.listeners(g, p, r)
		addresses := addressesOf(g)
		if len(listeners) > 0 && len(addresses) == 0 {
			out = append(out, question{parent: p.Parent, problem: "the status of the Gateway has no address: check that its controller assigns one"})
		}
		for _, l := range listeners {
			for _, address := range addresses {
				q := question{parent: p.Parent, listener: l.Name, Probe: providers.Probe{
					Route: live.GetUID(), Generation: live.GetGeneration(),
					Address: address, Port: int32(l.Port), TLS: l.Protocol == gatewayv1.HTTPSProtocolType,
					Host: v.askedHost(l, r), Path: v.probedPath(r), Answer: answerIn(live),
				}}
				if !slices.ContainsFunc(out, func(other question) bool { return other.Probe == q.Probe }) && len(out) < maxProbes {
					out = append(out, q)
				}
			}
		}
	}
	return out
}

// addressesOf returns those addresses in the status of a Gateway that probes can be sent to.
func addressesOf(g *gatewayv1.Gateway) []string {
	var out []string
	for _, a := range g.Status.Addresses {
		if kind := deref(a.Type); a.Value != "" && (a.Type == nil || kind == gatewayv1.IPAddressType || kind == gatewayv1.HostnameAddressType) {
			out = append(out, a.Value)
		}
	}
	return out
}

// listeners returns the listeners of a parent that serve a route and have no problem. For example, a
// listener that lacks its certificate is not probed: it does not block the route, and Serves reports
// the problem. If all of a Gateway's listeners for the route have a problem, all of them are probed.
func (v *view) listeners(g *gatewayv1.Gateway, p attachment, r providers.Route) []gatewayv1.Listener {
	if p.set != "" {
		set := v.set(p.set)
		if set == nil || v.setServes(p.set) != nil {
			return nil
		}
		l := ownListener(set)
		if l == nil {
			return nil
		}
		return []gatewayv1.Listener{{Name: l.Name, Hostname: l.Hostname, Port: l.Port, Protocol: l.Protocol}}
	}
	var fit, sound []gatewayv1.Listener
	for _, l := range g.Spec.Listeners {
		if p.SectionName != "" && string(l.Name) != p.SectionName || !slices.Contains(listenerProtocols(r.Protocol), l.Protocol) || !v.takesRoute(g, l) || v.askedHost(l, r) == "" {
			continue
		}
		fit = append(fit, l)
		if !slices.ContainsFunc(g.Status.Listeners, func(s gatewayv1.ListenerStatus) bool {
			return s.Name == l.Name && listenerProblem(s.Conditions, g.Generation, "") != nil
		}) {
			sound = append(sound, l)
		}
	}
	if len(sound) > 0 {
		return sound
	}
	return fit
}

// takesRoute reports whether a listener admits HTTPRoutes from the policy's namespace. The API server
// has set omitted fields to their defaults.
func (v *view) takesRoute(g *gatewayv1.Gateway, l gatewayv1.Listener) bool {
	if !takesKind(l, httpKind) {
		return false
	}
	namespaces := deref(deref(l.AllowedRoutes).Namespaces)
	switch cmp.Or(deref(namespaces.From), gatewayv1.NamespacesFromAll) {
	case gatewayv1.NamespacesFromAll:
		return true
	case gatewayv1.NamespacesFromSelector:
		s, err := metav1.LabelSelectorAsSelector(namespaces.Selector)
		return err == nil && s.Matches(labels.Set(v.Namespace))
	case gatewayv1.NamespacesFromSame:
		return g.Namespace == v.Policy.Namespace
	}
	return false
}

// askedHost returns a host without a wildcard that a listener and a route have in common. If all
// common hosts have a wildcard, it returns a host that the first of them matches. If there is no
// common host, it returns "".
func (v *view) askedHost(l gatewayv1.Listener, r providers.Route) string {
	wild := ""
	for _, host := range r.Hostnames {
		if !takes(deref(l.Hostname), host) {
			continue
		}
		// Of two overlapping names, the one without a wildcard is narrower. If both have a
		// wildcard, the longer one is narrower.
		if name := string(deref(l.Hostname)); strings.HasPrefix(host, "*") && name != "" && (name[0] != '*' || len(name) > len(host)) {
			host = name
		}
		if !strings.HasPrefix(host, "*") {
			return host
		}
		wild = cmp.Or(wild, "hlnr-"+digest(v.Policy.UID, r.Name)+host[1:])
	}
	return wild
}

func pathMatch(p v1alpha1.MatchPath) *gatewayv1.HTTPPathMatch {
	return &gatewayv1.HTTPPathMatch{Type: new(gatewayv1.PathMatchType(cmp.Or(p.Type, v1alpha1.PathPrefix))), Value: new(p.Value)}
}
