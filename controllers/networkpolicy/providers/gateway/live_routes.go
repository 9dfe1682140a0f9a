package gateway

import (
	"maps"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// Carry returns a live route with its Services replaced by those of a desired route. The parents do
// not change. All rules get the filters, timeouts and session affinity of the rule that splits by
// weight.
func (v *view) Carry(live *providers.Live, r providers.Route) []resources.Object {
	old := live.Objects[0]
	p, ok := partsOf(old)
	if !ok {
		return nil
	}
	r.Name, r.Path, r.Protocol = live.Name, live.Path, protocolOf(old)
	if len(r.Hostnames) == 0 {
		r.Hostnames = live.Hostnames
	}
	if r.Port == 0 && len(p.split) > 0 {
		r.Port = int32(deref(p.split[0].Port))
	}
	if v.Unsupported(r) != nil {
		r.Canary = "" // Unsupported matches get no rule.
	}
	next := v.build(r, gatewayv1.CommonRouteSpec{ParentRefs: p.parents})
	kept := r.Kept(v.Policy, v.Microservice, old)
	next.SetLabels(kept.Labels)
	next.SetAnnotations(kept.Annotations)
	keepRules(next, old)
	if maps.Equal(old.GetLabels(), next.GetLabels()) && Same(old, next) {
		return nil
	}
	return []resources.Object{next}
}

// protocolOf returns the protocol of the ports that a route of this kind targets.
func protocolOf(route resources.Object) v1alpha1.PortProtocol {
	for _, p := range []v1alpha1.PortProtocol{v1alpha1.ProtocolGRPC, v1alpha1.ProtocolTLS, v1alpha1.ProtocolTCP, v1alpha1.ProtocolUDP} {
		if kindOf(p).Kind == route.GetObjectKind().GroupVersionKind().Kind {
			return p
		}
	}
	return v1alpha1.ProtocolHTTP
}

// keepRules copies everything except matches and backends from the last rule of the old route to
// the rules of the next route. Mirrors are not copied, because the canary's step sets them. Filters
// that replace a path prefix are adapted to the match of each rule.
func keepRules(next, old resources.Object) {
	switch next := next.(type) {
	case *gatewayv1.HTTPRoute:
		was, ok := old.(*gatewayv1.HTTPRoute)
		if !ok || len(was.Spec.Rules) == 0 {
			return
		}
		last := was.Spec.Rules[len(was.Spec.Rules)-1]
		var rules []gatewayv1.HTTPRouteRule
		for _, rule := range next.Spec.Rules {
			rule.Timeouts, rule.SessionPersistence = last.Timeouts, last.SessionPersistence
			filters := slices.Clone(last.Filters)
			filters = slices.DeleteFunc(filters, func(f gatewayv1.HTTPRouteFilter) bool { return f.RequestMirror != nil })
			for _, f := range rule.Filters {
				if f.RequestMirror != nil {
					filters = append(filters, f)
				}
			}
			rule.Filters = filters
			// A rule that replaces a prefix can have only one path.
			if one := slices.ContainsFunc(filters, func(f gatewayv1.HTTPRouteFilter) bool { return f.URLRewrite != nil && f.URLRewrite.Path != nil }); !one {
				rules = append(rules, rule)
				continue
			}
			for _, m := range rule.Matches {
				single := rule
				single.Matches = []gatewayv1.HTTPRouteMatch{m}
				single.Filters = filtersBelow(pathOf(next), m, filters)
				rules = append(rules, single)
			}
		}
		next.Spec.Rules = rules
	case *gatewayv1.GRPCRoute:
		was, ok := old.(*gatewayv1.GRPCRoute)
		if !ok || len(was.Spec.Rules) == 0 {
			return
		}
		last := was.Spec.Rules[len(was.Spec.Rules)-1]
		for i := range next.Spec.Rules {
			rule := &next.Spec.Rules[i]
			rule.SessionPersistence = last.SessionPersistence
			filters := slices.Clone(last.Filters)
			filters = slices.DeleteFunc(filters, func(f gatewayv1.GRPCRouteFilter) bool { return f.RequestMirror != nil })
			for _, f := range rule.Filters {
				if f.RequestMirror != nil {
					filters = append(filters, f)
				}
			}
			rule.Filters = filters
		}
	}
}
