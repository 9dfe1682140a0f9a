package gateway

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

func (v *view) httpRoute(r providers.Route, common gatewayv1.CommonRouteSpec, about metav1.TypeMeta) resources.Object {
	route := &gatewayv1.HTTPRoute{
		TypeMeta: about, ObjectMeta: v.meta(r), Spec: gatewayv1.HTTPRouteSpec{CommonRouteSpec: common, Hostnames: hostnames(r)},
	}
	for _, matches := range v.chosen(r) {
		rule := v.httpRule(r, []gatewayv1.BackendRef{backend(r, r.Canary, 100)})
		for _, m := range matches {
			rule.Matches = append(rule.Matches, httpMatch(r, m))
		}
		rule.Filters = filtersBelow(r.Path, rule.Matches[0], rule.Filters)
		route.Spec.Rules = append(route.Spec.Rules, rule)
	}
	// The rule that splits all requests by weight is the last rule of a route.
	rule := v.httpRule(r, backends(r))
	rule.Matches = []gatewayv1.HTTPRouteMatch{{Path: pathMatch(v1alpha1.MatchPath{Value: r.Path})}}
	if m := mirror(r); m != nil {
		rule.Filters = append(rule.Filters, gatewayv1.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterRequestMirror, RequestMirror: m})
	}
	route.Spec.Rules = append(route.Spec.Rules, rule)
	if v.probes(r.Protocol) {
		route.Spec.Rules = slices.Insert(route.Spec.Rules, 0, v.probeRule(r, route))
	}
	return route
}

// chosen returns the matches of each rule that routes to the canary. All matches share one rule,
// unless a filter replaces a prefix: a rule with such a filter can have only one path.
func (v *view) chosen(r providers.Route) [][]v1alpha1.CanaryMatch {
	switch replaces := slices.ContainsFunc(v.filters(), func(f v1alpha1.RouteFilter) bool {
		return f.URLRewrite != nil && f.URLRewrite.ReplacePrefixMatch != ""
	}); {
	case r.Canary == "" || len(r.Matches) == 0:
		return nil
	case replaces:
		return slices.Collect(slices.Chunk(r.Matches, 1))
	}
	return [][]v1alpha1.CanaryMatch{r.Matches}
}

// filtersBelow returns the filters of a rule whose match is for a path below the path of the route, given the filters of
// the rule for the whole route. A gateway replaces the prefix that the rule matches, not the path of the route. The
// replacement must therefore contain the rest of that prefix; otherwise, the canary and the active release would get
// different paths for the same request.
func filtersBelow(path string, match gatewayv1.HTTPRouteMatch, filters []gatewayv1.HTTPRouteFilter) []gatewayv1.HTTPRouteFilter {
	rest, below := strings.CutPrefix(strings.TrimSuffix(deref(deref(match.Path).Value), "/"), strings.TrimSuffix(path, "/"))
	if !below || !strings.HasPrefix(rest, "/") {
		return filters
	}
	out := slices.Clone(filters)
	for i := range out {
		if u := out[i].URLRewrite; u != nil && u.Path != nil && u.Path.ReplacePrefixMatch != nil {
			out[i].URLRewrite = u.DeepCopy() // The rule for the whole route can share this filter.
			out[i].URLRewrite.Path.ReplacePrefixMatch = new(strings.TrimSuffix(*u.Path.ReplacePrefixMatch, "/") + rest)
		}
	}
	return out
}

// httpRule returns a rule with the settings that apply to all requests of the policy.
func (v *view) httpRule(_ providers.Route, backends []gatewayv1.BackendRef) gatewayv1.HTTPRouteRule {
	rule := gatewayv1.HTTPRouteRule{SessionPersistence: v.session(httpKind)}
	for _, b := range backends {
		rule.BackendRefs = append(rule.BackendRefs, gatewayv1.HTTPBackendRef{BackendRef: b})
	}
	for _, f := range v.filters() {
		rule.Filters = append(rule.Filters, httpFilter(f))
	}
	if t := v.Policy.Spec.Timeouts; t != nil {
		rule.Timeouts = &gatewayv1.HTTPRouteTimeouts{Request: duration(t.Request), BackendRequest: duration(t.BackendRequest)}
	}
	return rule
}

func httpMatch(r providers.Route, m v1alpha1.CanaryMatch) gatewayv1.HTTPRouteMatch {
	match := gatewayv1.HTTPRouteMatch{Path: pathMatch(v1alpha1.MatchPath{Value: r.Path})}
	if m.Path != nil {
		match.Path = pathMatch(*m.Path)
	}
	if m.Method != "" {
		match.Method = new(gatewayv1.HTTPMethod(m.Method))
	}
	for _, h := range headers(m) {
		match.Headers = append(match.Headers, gatewayv1.HTTPHeaderMatch{
			Type: new(gatewayv1.HeaderMatchType(h.Type)), Name: gatewayv1.HTTPHeaderName(h.Name), Value: h.Value,
		})
	}
	for _, q := range m.QueryParams {
		match.QueryParams = append(match.QueryParams, gatewayv1.HTTPQueryParamMatch{
			Type: new(gatewayv1.QueryParamMatchType(providers.MatchType(q.Type))), Name: gatewayv1.HTTPHeaderName(q.Name), Value: q.Value,
		})
	}
	slices.SortFunc(match.QueryParams, func(a, b gatewayv1.HTTPQueryParamMatch) int { return cmp.Compare(a.Name, b.Name) })
	return match
}

func (v *view) grpcRoute(r providers.Route, common gatewayv1.CommonRouteSpec, about metav1.TypeMeta) resources.Object {
	route := &gatewayv1.GRPCRoute{
		TypeMeta: about, ObjectMeta: v.meta(r), Spec: gatewayv1.GRPCRouteSpec{CommonRouteSpec: common, Hostnames: hostnames(r)},
	}
	if r.Canary != "" && len(r.Matches) > 0 {
		rule := v.grpcRule([]gatewayv1.BackendRef{backend(r, r.Canary, 100)})
		for _, m := range r.Matches {
			rule.Matches = append(rule.Matches, grpcMatch(m))
		}
		route.Spec.Rules = append(route.Spec.Rules, rule)
	}
	rule := v.grpcRule(backends(r))
	if m := mirror(r); m != nil {
		rule.Filters = append(rule.Filters, gatewayv1.GRPCRouteFilter{Type: gatewayv1.GRPCRouteFilterRequestMirror, RequestMirror: m})
	}
	route.Spec.Rules = append(route.Spec.Rules, rule)
	return route
}

func (v *view) grpcRule(backends []gatewayv1.BackendRef) gatewayv1.GRPCRouteRule {
	rule := gatewayv1.GRPCRouteRule{SessionPersistence: v.session(grpcKind)}
	for _, b := range backends {
		rule.BackendRefs = append(rule.BackendRefs, gatewayv1.GRPCBackendRef{BackendRef: b})
	}
	for _, f := range v.filters() {
		if f.URLRewrite == nil { // Unapplied reports URL rewrites.
			h := httpFilter(f)
			rule.Filters = append(rule.Filters, gatewayv1.GRPCRouteFilter{
				Type: gatewayv1.GRPCRouteFilterType(h.Type), RequestHeaderModifier: h.RequestHeaderModifier,
				ResponseHeaderModifier: h.ResponseHeaderModifier, ExtensionRef: h.ExtensionRef,
			})
		}
	}
	return rule
}

func grpcMatch(m v1alpha1.CanaryMatch) gatewayv1.GRPCRouteMatch {
	match := gatewayv1.GRPCRouteMatch{}
	for _, h := range headers(m) {
		match.Headers = append(match.Headers, gatewayv1.GRPCHeaderMatch{
			Type: new(gatewayv1.GRPCHeaderMatchType(h.Type)), Name: gatewayv1.GRPCHeaderName(h.Name), Value: h.Value,
		})
	}
	if m.GRPC != nil {
		match.Method = &gatewayv1.GRPCMethodMatch{Type: new(gatewayv1.GRPCMethodMatchExact), Service: some(m.GRPC.Service), Method: some(m.GRPC.Method)}
	}
	return match
}

// mirror returns the mirror filter of a route, or nil.
func mirror(r providers.Route) *gatewayv1.HTTPRequestMirrorFilter {
	if r.Mirror == "" {
		return nil
	}
	m := &gatewayv1.HTTPRequestMirrorFilter{BackendRef: object(r, r.Mirror)}
	if r.MirrorPercent < 100 {
		m.Percent = new(r.MirrorPercent)
	}
	return m
}

func httpFilter(f v1alpha1.RouteFilter) gatewayv1.HTTPRouteFilter {
	switch {
	case f.RequestHeaderModifier != nil:
		return gatewayv1.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterRequestHeaderModifier, RequestHeaderModifier: headerFilter(f.RequestHeaderModifier)}
	case f.ResponseHeaderModifier != nil:
		return gatewayv1.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterResponseHeaderModifier, ResponseHeaderModifier: headerFilter(f.ResponseHeaderModifier)}
	case f.URLRewrite != nil:
		rewrite := &gatewayv1.HTTPURLRewriteFilter{}
		if f.URLRewrite.Hostname != "" {
			rewrite.Hostname = new(gatewayv1.PreciseHostname(f.URLRewrite.Hostname))
		}
		if prefix := f.URLRewrite.ReplacePrefixMatch; prefix != "" {
			rewrite.Path = &gatewayv1.HTTPPathModifier{Type: gatewayv1.PrefixMatchHTTPPathModifier, ReplacePrefixMatch: new(prefix)}
		}
		return gatewayv1.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterURLRewrite, URLRewrite: rewrite}
	}
	ref := deref(f.ExtensionRef)
	return gatewayv1.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterExtensionRef, ExtensionRef: &gatewayv1.LocalObjectReference{
		Group: gatewayv1.Group(ref.Group), Kind: gatewayv1.Kind(ref.Kind), Name: gatewayv1.ObjectName(ref.Name),
	}}
}

func headerFilter(m *v1alpha1.HeaderModifier) *gatewayv1.HTTPHeaderFilter {
	values := func(from []v1alpha1.HeaderValue) (out []gatewayv1.HTTPHeader) {
		for _, h := range from {
			out = append(out, gatewayv1.HTTPHeader{Name: gatewayv1.HTTPHeaderName(h.Name), Value: h.Value})
		}
		return out
	}
	return &gatewayv1.HTTPHeaderFilter{Set: values(m.Set), Add: values(m.Add), Remove: m.Remove}
}

// session returns the cookie-based session affinity, or nil if the policy does not request it or
// the kind has no field for it.
func (v *view) session(kind providers.Kind) *gatewayv1.SessionPersistence {
	a := v.Policy.Spec.SessionAffinity
	if a == nil || a.Cookie == nil || !v.Served[kind.Kind].Experimental {
		return nil
	}
	out := &gatewayv1.SessionPersistence{
		Type: new(gatewayv1.CookieBasedSessionPersistence), SessionName: some(a.Cookie.Name), AbsoluteTimeout: duration(a.Cookie.Lifetime),
		CookieConfig: &gatewayv1.CookieConfig{LifetimeType: new(gatewayv1.SessionCookieLifetimeType)},
	}
	if a.Cookie.Lifetime != "" {
		out.CookieConfig.LifetimeType = new(gatewayv1.PermanentCookieLifetimeType)
	}
	return out
}

func duration(text string) *gatewayv1.Duration {
	if text == "" {
		return nil
	}
	return new(gatewayv1.Duration(text))
}

func some(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func (v *view) meta(r providers.Route) metav1.ObjectMeta {
	labels, annotations := r.Metadata(v.Policy, v.Microservice)
	return metav1.ObjectMeta{Namespace: v.Policy.Namespace, Name: r.Name, Labels: labels, Annotations: annotations}
}

func hostnames(r providers.Route) []gatewayv1.Hostname {
	var out []gatewayv1.Hostname
	for _, h := range r.Hostnames {
		out = append(out, gatewayv1.Hostname(h))
	}
	return out
}

// headers returns the headers that a request must have, including the Cookie header, sorted by
// name.
func headers(m v1alpha1.CanaryMatch) []v1alpha1.MatchValue {
	var out []v1alpha1.MatchValue
	for _, h := range m.Headers {
		h.Type = providers.MatchType(h.Type)
		out = append(out, h)
	}
	if c := m.Cookie; c != nil {
		out = append(out, v1alpha1.MatchValue{Name: "Cookie", Value: cookiePattern(c.Name, c.Value), Type: v1alpha1.MatchRegularExpression})
	}
	slices.SortFunc(out, func(a, b v1alpha1.MatchValue) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// cookiePattern returns a regular expression that matches a Cookie header that contains the given
// cookie (RFC 6265, 4.2.1).
func cookiePattern(name, value string) string {
	return "^(?:.*; *)?" + regexp.QuoteMeta(name+"="+value) + "(?:;.*)?$"
}

func backends(r providers.Route) []gatewayv1.BackendRef {
	out := make([]gatewayv1.BackendRef, 0, len(r.Backends))
	for _, b := range r.Backends {
		out = append(out, backend(r, b.Service, b.Weight))
	}
	return out
}

func backend(r providers.Route, service string, weight int32) gatewayv1.BackendRef {
	return gatewayv1.BackendRef{BackendObjectReference: object(r, service), Weight: new(weight)}
}

func object(r providers.Route, service string) gatewayv1.BackendObjectReference {
	return gatewayv1.BackendObjectReference{
		Group: new(gatewayv1.Group("")), Kind: new(gatewayv1.Kind("Service")),
		Name: gatewayv1.ObjectName(service), Port: new(gatewayv1.PortNumber(r.Port)),
	}
}
