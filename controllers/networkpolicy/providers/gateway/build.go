package gateway

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1alpha2 "sigs.k8s.io/gateway-api/apis/v1alpha2"

	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// maxParents is the maximum number of parents of a route.
const maxParents = 32

// Build returns the object of a route. Parents that currently serve the route but that the
// specification no longer names stay in the route until all named parents have accepted it.
func (v *view) Build(r providers.Route) []resources.Object {
	common := gatewayv1.CommonRouteSpec{}
	var kept []gatewayv1.ParentReference
	if old := v.live[r.Name]; old != nil {
		kept = v.parentsToKeep(r, old.Objects[0])
	}
	excludes := func(p gatewayv1.ParentReference) func(gatewayv1.ParentReference) bool {
		return func(q gatewayv1.ParentReference) bool { return v.exclude(p, q) }
	}
	for _, a := range v.attachments(r) {
		p := v.parentRef(a)
		if v.noListener(a) && slices.ContainsFunc(kept, excludes(p)) {
			continue // The named listener does not exist, so the previous parent stays.
		}
		common.ParentRefs = append(common.ParentRefs, p)
	}
	kept = slices.DeleteFunc(kept, func(p gatewayv1.ParentReference) bool { return slices.ContainsFunc(common.ParentRefs, excludes(p)) })
	common.ParentRefs = append(common.ParentRefs, kept[:min(len(kept), maxParents-len(common.ParentRefs))]...)
	return []resources.Object{v.build(r, common)}
}

// exclude reports whether the Gateway API allows only one of two parents, such as a Gateway and a
// listener of the same Gateway.
func (v *view) exclude(p, q gatewayv1.ParentReference) bool {
	namespace := v.Policy.Namespace
	return !ofSet(p) && !ofSet(q) && keyOf(p, namespace) == keyOf(q, namespace) && (deref(p.SectionName) == "" || deref(q.SectionName) == "")
}

// build returns the route in the version that the API server serves.
func (v *view) build(r providers.Route, common gatewayv1.CommonRouteSpec) resources.Object {
	kind := kindOf(r.Protocol)
	version := v.Served[kind.Kind].Version
	about := metav1.TypeMeta{APIVersion: kind.Group + "/" + version, Kind: kind.Kind}
	alpha := version == gatewayv1alpha2.GroupVersion.Version
	switch kind.Kind {
	case grpcKind.Kind:
		return v.grpcRoute(r, common, about)
	case tlsKind.Kind:
		rule := gatewayv1.TLSRouteRule{BackendRefs: backends(r)}
		if alpha {
			return &gatewayv1alpha2.TLSRoute{TypeMeta: about, ObjectMeta: v.meta(r), Spec: gatewayv1alpha2.TLSRouteSpec{
				CommonRouteSpec: common, Hostnames: hostnames(r), Rules: []gatewayv1alpha2.TLSRouteRule{gatewayv1alpha2.TLSRouteRule(rule)},
			}}
		}
		return &gatewayv1.TLSRoute{TypeMeta: about, ObjectMeta: v.meta(r), Spec: gatewayv1.TLSRouteSpec{
			CommonRouteSpec: common, Hostnames: hostnames(r), Rules: []gatewayv1.TLSRouteRule{rule},
		}}
	case tcpKind.Kind:
		rule := gatewayv1.TCPRouteRule{BackendRefs: backends(r)}
		if alpha {
			return &gatewayv1alpha2.TCPRoute{TypeMeta: about, ObjectMeta: v.meta(r), Spec: gatewayv1alpha2.TCPRouteSpec{
				CommonRouteSpec: common, Rules: []gatewayv1alpha2.TCPRouteRule{gatewayv1alpha2.TCPRouteRule(rule)},
			}}
		}
		return &gatewayv1.TCPRoute{TypeMeta: about, ObjectMeta: v.meta(r), Spec: gatewayv1.TCPRouteSpec{
			CommonRouteSpec: common, Rules: []gatewayv1.TCPRouteRule{rule},
		}}
	case udpKind.Kind:
		rule := gatewayv1.UDPRouteRule{BackendRefs: backends(r)}
		if alpha {
			return &gatewayv1alpha2.UDPRoute{TypeMeta: about, ObjectMeta: v.meta(r), Spec: gatewayv1alpha2.UDPRouteSpec{
				CommonRouteSpec: common, Rules: []gatewayv1alpha2.UDPRouteRule{gatewayv1alpha2.UDPRouteRule(rule)},
			}}
		}
		return &gatewayv1.UDPRoute{TypeMeta: about, ObjectMeta: v.meta(r), Spec: gatewayv1.UDPRouteSpec{
			CommonRouteSpec: common, Rules: []gatewayv1.UDPRouteRule{rule},
		}}
	}
	return v.httpRoute(r, common, about)
}

// parentsToKeep returns the Gateways and listeners that serve a route but that the specification no
// longer names. They are removed when all named parents have accepted the route, so that a wrong
// name does not interrupt traffic.
func (v *view) parentsToKeep(r providers.Route, old resources.Object) []gatewayv1.ParentReference {
	named := map[string]bool{}
	accepted := true
	for _, a := range v.attachments(r) {
		named[refKey(v.parentRef(a), v.Policy.Namespace)] = true
		accepted = accepted && v.answer(old, a).Accepted
	}
	if accepted {
		return nil
	}
	var kept []gatewayv1.ParentReference
	parts, _ := partsOf(old)
	for _, p := range parts.parents {
		if !named[refKey(p, old.GetNamespace())] {
			kept = append(kept, p)
		}
	}
	return kept
}

// parentRef returns the parent reference of an attachment.
func (v *view) parentRef(a attachment) gatewayv1.ParentReference {
	if a.set != "" {
		group, _, kind := v.setType()
		return gatewayv1.ParentReference{Group: new(gatewayv1.Group(group)), Kind: new(gatewayv1.Kind(kind)), Name: gatewayv1.ObjectName(a.set)}
	}
	ref := gatewayv1.ParentReference{
		Group: new(gatewayv1.Group(gatewayv1.GroupName)), Kind: new(gatewayv1.Kind("Gateway")),
		Name: gatewayv1.ObjectName(a.Name),
	}
	if a.Namespace != "" {
		ref.Namespace = new(gatewayv1.Namespace(a.Namespace))
	}
	if a.SectionName != "" {
		ref.SectionName = new(gatewayv1.SectionName(a.SectionName))
	}
	return ref
}

// refKey returns a key that is unique among the parents of a route.
func refKey(p gatewayv1.ParentReference, namespace string) string {
	if ofSet(p) {
		return "ListenerSet " + keyOf(p, namespace)
	}
	return keyOf(p, namespace) + "/" + string(deref(p.SectionName))
}
