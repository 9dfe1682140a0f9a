package gateway

import (
	"fmt"
	"slices"
	"strings"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
)

// Missing returns a problem if the API server lacks a kind that the protocol requires.
func (v *view) Missing(protocol v1alpha1.PortProtocol) *providers.Problem {
	for _, kind := range []providers.Kind{gatewayKind, kindOf(protocol)} {
		if _, served := v.Served[kind.Kind]; !served {
			return &providers.Problem{Reason: providers.ReasonAPIMissing, Message: fmt.Sprintf(
				"spec.provider.gateway: the API server does not have %s of %s/%s: %s", kind.Kind, kind.Group, strings.Join(kind.Versions, " or "), fixMissing(kind))}
		}
	}
	return nil
}

// Unsupported returns a problem if the protocol does not support a match, or if the route requires
// ListenerSets and the API server does not serve them; otherwise, it returns nil.
func (v *view) Unsupported(r providers.Route) *providers.Problem {
	for _, t := range r.TLS {
		if _, served := v.Served[listenerSetKind.Kind]; t.Mode == v1alpha1.TLSListenerSet && !served {
			return &providers.Problem{Reason: providers.ReasonAPIMissing, Message: fmt.Sprintf(
				"tls.mode: the API server has neither %s of %s/v1 nor %s of %s: install a release of the Gateway API that has one of them, or use mode Gateway",
				listenerSetKind.Kind, listenerSetKind.Group, listenerSetKind.Previous.Kind, previousGroupVersion)}
		}
	}
	for i, m := range r.Matches {
		field := ""
		switch grpc := r.Protocol == v1alpha1.ProtocolGRPC; {
		case grpc && len(m.QueryParams) > 0:
			field = "queryParams"
		case grpc && m.Path != nil:
			field = "path"
		case grpc && m.Method != "":
			field = "method"
		case !grpc && m.GRPC != nil:
			return &providers.Problem{Reason: providers.ReasonNotSupported, Message: fmt.Sprintf("canaryMatches[%d].grpc requires a port with protocol GRPC: use path", i)}
		}
		if field != "" {
			return &providers.Problem{Reason: providers.ReasonNotSupported, Message: fmt.Sprintf("canaryMatches[%d].%s cannot be combined with a port with protocol GRPC: use headers or grpc", i, field)}
		}
	}
	return nil
}

// Unapplied returns a problem that names a setting that has no effect on these routes, or nil if there is no
// such setting.
func (v *view) Unapplied(routes []providers.Route) *providers.Problem {
	spec := v.Policy.Spec
	for _, r := range routes {
		kind := kindOf(r.Protocol)
		text := ""
		switch requests := kind.Kind == httpKind.Kind || kind.Kind == grpcKind.Kind; {
		case spec.SessionAffinity != nil && spec.SessionAffinity.ClientIP != nil:
			text = fmt.Sprintf("spec.sessionAffinity.clientIP applies only to clients of the Services: %ss have no affinity by client address; use cookie for domains", kind.Kind)
		case requests && spec.SessionAffinity != nil && !v.Served[kind.Kind].Experimental:
			text = fmt.Sprintf("spec.sessionAffinity.cookie: the installed CRD of %s has no field sessionPersistence: install the experimental channel of the Gateway API and restart the manager, or remove the field", kind.Kind)
		case kind.Kind != httpKind.Kind && v.probes(v1alpha1.ProtocolHTTP):
			text = fmt.Sprintf("spec.provider.gateway.confirm: %ss are confirmed by their status, because only HTTPRoutes can be probed", kind.Kind)
		case kind.Kind == grpcKind.Kind && spec.Timeouts != nil:
			text = "spec.timeouts: GRPCRoutes have no timeouts: set deadlines in the clients"
		case kind.Kind == grpcKind.Kind && slices.ContainsFunc(v.filters(), func(f v1alpha1.RouteFilter) bool { return f.URLRewrite != nil }):
			text = "spec.provider.gateway.filters[].urlRewrite: GRPCRoutes have no such filter: use separate policies for HTTP and GRPC"
		}
		if text != "" {
			return &providers.Problem{Reason: providers.ReasonNotSupported, Message: text}
		}
	}
	return nil
}
