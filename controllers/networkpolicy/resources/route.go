package resources

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// MaxHostnames is the number of hosts that an HTTPRoute may hold.
const MaxHostnames = 16

// Route is what an HTTPRoute of a policy is made from: hosts that lead, under
// one path, to the releases of one group.
type Route struct {
	// Name of the HTTPRoute.
	Name string
	// Hostnames, sorted; 1 to MaxHostnames.
	Hostnames []string
	// Path prefix, "/" for all.
	Path string
	// Port of the Services behind.
	Port int32
	// Backends in the order in which they are written.
	Backends []Backend
	// Canary is the Service that gets the requests that Matches choose; "": none.
	Canary string
	// Matches choose requests for Canary, whatever the weights.
	Matches []v1alpha1.CanaryMatch
	// Mirror is the Service that gets a copy of MirrorPercent of the requests, whose
	// answers nobody sees; "": none.
	Mirror string
	// MirrorPercent is from 1 to 100.
	MirrorPercent int32
	// Stamp of the ledger that the route carries.
	Stamp Stamp
}

// Backend is a Service and its share of the traffic.
type Backend struct {
	Service string
	// Weight is from 1 to 100: what gets nothing is not in the route.
	Weight int32
}

// Build gives the HTTPRoute as it is applied. What the API server would fill in
// is spelled out, so that a comparison with the live object finds no difference.
func (r Route) Build(policy *v1alpha1.NetworkPolicy, microservice string) *gatewayv1.HTTPRoute {
	route := &gatewayv1.HTTPRoute{
		TypeMeta: metav1.TypeMeta{APIVersion: gatewayv1.GroupVersion.String(), Kind: "HTTPRoute"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: policy.Namespace, Name: r.Name,
			Labels: labelsOf(policy, microservice, r.Stamp.Group), Annotations: r.Stamp.annotations(),
		},
	}
	for _, p := range policy.Spec.Provider.Gateway.ParentRefs {
		route.Spec.ParentRefs = append(route.Spec.ParentRefs, parentRef(p))
	}
	for _, h := range r.Hostnames {
		route.Spec.Hostnames = append(route.Spec.Hostnames, gatewayv1.Hostname(h))
	}
	if rule := r.matchRule(); rule != nil {
		route.Spec.Rules = append(route.Spec.Rules, *rule)
	}
	route.Spec.Rules = append(route.Spec.Rules, r.weightRule())
	return route
}

// weightRule splits all requests by weight. Of the rules of a route it is the last
// one: one with more matches goes before it, by GEP-718's order of precedence.
func (r Route) weightRule() gatewayv1.HTTPRouteRule {
	rule := gatewayv1.HTTPRouteRule{Matches: []gatewayv1.HTTPRouteMatch{{Path: r.pathMatch()}}}
	for _, b := range r.Backends {
		rule.BackendRefs = append(rule.BackendRefs, r.backend(b))
	}
	if r.Mirror != "" {
		mirror := &gatewayv1.HTTPRequestMirrorFilter{BackendRef: r.object(r.Mirror)}
		if r.MirrorPercent < 100 {
			mirror.Percent = new(r.MirrorPercent)
		}
		rule.Filters = []gatewayv1.HTTPRouteFilter{{Type: gatewayv1.HTTPRouteFilterRequestMirror, RequestMirror: mirror}}
	}
	return rule
}

// matchRule leads chosen requests to the canary; nil where none are chosen.
func (r Route) matchRule() *gatewayv1.HTTPRouteRule {
	if r.Canary == "" || len(r.Matches) == 0 {
		return nil
	}
	rule := &gatewayv1.HTTPRouteRule{BackendRefs: []gatewayv1.HTTPBackendRef{r.backend(Backend{Service: r.Canary, Weight: 100})}}
	for _, m := range r.Matches {
		match := gatewayv1.HTTPRouteMatch{Path: r.pathMatch()}
		for _, h := range m.Headers {
			match.Headers = append(match.Headers, gatewayv1.HTTPHeaderMatch{
				Type: new(gatewayv1.HeaderMatchType(matchType(h.Type))), Name: gatewayv1.HTTPHeaderName(h.Name), Value: h.Value,
			})
		}
		if c := m.Cookie; c != nil {
			match.Headers = append(match.Headers, gatewayv1.HTTPHeaderMatch{
				Type: new(gatewayv1.HeaderMatchRegularExpression), Name: "Cookie", Value: cookiePattern(c.Name, c.Value),
			})
		}
		slices.SortFunc(match.Headers, func(a, b gatewayv1.HTTPHeaderMatch) int { return cmp.Compare(a.Name, b.Name) })
		for _, q := range m.QueryParams {
			match.QueryParams = append(match.QueryParams, gatewayv1.HTTPQueryParamMatch{
				Type: new(gatewayv1.QueryParamMatchType(matchType(q.Type))), Name: gatewayv1.HTTPHeaderName(q.Name), Value: q.Value,
			})
		}
		slices.SortFunc(match.QueryParams, func(a, b gatewayv1.HTTPQueryParamMatch) int { return cmp.Compare(a.Name, b.Name) })
		rule.Matches = append(rule.Matches, match)
	}
	return rule
}

// MatchesKey tells lists of matches apart; "" for none.
func MatchesKey(matches []v1alpha1.CanaryMatch) string {
	if len(matches) == 0 {
		return ""
	}
	var parts []string
	byName := func(a, b v1alpha1.MatchValue) int { return cmp.Compare(a.Name, b.Name) }
	for _, m := range matches {
		parts = append(parts, "match")
		for _, h := range slices.SortedFunc(slices.Values(m.Headers), byName) {
			parts = append(parts, "header", strings.ToLower(h.Name), string(matchType(h.Type)), h.Value)
		}
		for _, q := range slices.SortedFunc(slices.Values(m.QueryParams), byName) {
			parts = append(parts, "query", q.Name, string(matchType(q.Type)), q.Value)
		}
		if m.Cookie != nil {
			parts = append(parts, "cookie", m.Cookie.Name, m.Cookie.Value)
		}
	}
	return digest(parts...)
}

// cookiePattern finds one cookie among those of a Cookie header (RFC 6265, 4.2.1).
func cookiePattern(name, value string) string {
	return "^(?:.*; *)?" + regexp.QuoteMeta(name+"="+value) + "(?:;.*)?$"
}

func matchType(t v1alpha1.MatchType) v1alpha1.MatchType { return cmp.Or(t, v1alpha1.MatchExact) }

func (r Route) pathMatch() *gatewayv1.HTTPPathMatch {
	return &gatewayv1.HTTPPathMatch{Type: new(gatewayv1.PathMatchPathPrefix), Value: new(r.Path)}
}

func (r Route) backend(b Backend) gatewayv1.HTTPBackendRef {
	return gatewayv1.HTTPBackendRef{BackendRef: gatewayv1.BackendRef{BackendObjectReference: r.object(b.Service), Weight: new(b.Weight)}}
}

func (r Route) object(service string) gatewayv1.BackendObjectReference {
	return gatewayv1.BackendObjectReference{
		Group: new(gatewayv1.Group("")), Kind: new(gatewayv1.Kind("Service")),
		Name: gatewayv1.ObjectName(service), Port: new(gatewayv1.PortNumber(r.Port)),
	}
}

// WeightRule is the rule of a route of ours that splits by weight: the last one.
// nil where somebody took all rules away.
func WeightRule(route *gatewayv1.HTTPRoute) *gatewayv1.HTTPRouteRule {
	if len(route.Spec.Rules) == 0 {
		return nil
	}
	return &route.Spec.Rules[len(route.Spec.Rules)-1]
}

// ServicesOf are all Services that a route names: by weight, by match or as a
// mirror.
func ServicesOf(route *gatewayv1.HTTPRoute) map[string]bool {
	out := map[string]bool{}
	for _, rule := range route.Spec.Rules {
		for _, b := range rule.BackendRefs {
			out[string(b.Name)] = true
		}
		for _, f := range rule.Filters {
			if f.RequestMirror != nil {
				out[string(f.RequestMirror.BackendRef.Name)] = true
			}
		}
	}
	return out
}

func parentRef(p v1alpha1.ParentReference) gatewayv1.ParentReference {
	ref := gatewayv1.ParentReference{
		Group: new(gatewayv1.Group(gatewayv1.GroupName)), Kind: new(gatewayv1.Kind("Gateway")),
		Name: gatewayv1.ObjectName(p.Name),
	}
	if p.Namespace != "" {
		ref.Namespace = new(gatewayv1.Namespace(p.Namespace))
	}
	if p.SectionName != "" {
		ref.SectionName = new(gatewayv1.SectionName(p.SectionName))
	}
	return ref
}
