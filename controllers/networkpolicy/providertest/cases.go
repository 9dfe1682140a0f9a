package providertest

import (
	"fmt"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
)

// Switches returns, by name, the ordered pairs of providers between which a policy can switch.
func Switches() map[string][2]Case {
	cases, out := Cases(), map[string][2]Case{}
	for _, pair := range []struct{ from, to []string }{
		{from: []string{"services", "gateway HTTP", "ingress", "ingress nginx", "apisix"}, to: []string{"services", "gateway HTTP", "ingress", "ingress nginx", "apisix"}},
		{from: []string{"services"}, to: []string{"gateway TCP", "gateway UDP", "gateway GRPC", "gateway TLS"}},
		{from: []string{"gateway TCP", "gateway UDP", "gateway GRPC", "gateway TLS"}, to: []string{"services"}},
	} {
		for _, from := range pair.from {
			for _, to := range pair.to {
				if cases[from].Name != cases[to].Name {
					out[from+" to "+to] = [2]Case{cases[from], cases[to]}
				}
			}
		}
	}
	return out
}

// Cases returns the cases of all of the project's providers, by name. The gateway provider has a
// case for each kind of route.
func Cases() map[string]Case {
	parents := []v1alpha1.ParentReference{{Name: "public"}} // The Gateway is in the namespace of the policy.
	gateway := v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: parents}}
	through := func(by v1alpha1.NetworkProvider, protocol v1alpha1.PortProtocol) Case {
		name := traffic.ProviderOf(&v1alpha1.NetworkPolicy{Spec: v1alpha1.NetworkPolicySpec{Provider: &by}}).Name()
		return Case{Name: name, Spec: func(spec *v1alpha1.NetworkPolicySpec, entries ...Entry) {
			spec.Provider = &by
			spec.Ports, spec.Domains, spec.Listeners = []v1alpha1.NetworkPort{{Name: "main", Port: 8080, Protocol: protocol}}, Domains(entries...), nil
		}}
	}
	hosts := func(protocol v1alpha1.PortProtocol) Case { return through(gateway, protocol) }
	listeners := func(protocol v1alpha1.PortProtocol) Case {
		return Case{Name: "gateway", Spec: func(spec *v1alpha1.NetworkPolicySpec, entries ...Entry) {
			spec.Provider = &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: parents}}
			spec.Ports, spec.Domains, spec.Listeners = []v1alpha1.NetworkPort{{Name: "main", Port: 8080, Protocol: protocol}}, nil, nil
			for _, e := range entries {
				l := v1alpha1.Listener{Name: listenerOf(e.Name), Port: "main", ParentRef: v1alpha1.ParentReference{Name: "public", SectionName: listenerOf(e.Name)}}
				if e.Version != "" {
					l.Release = &v1alpha1.DomainRelease{Version: e.Version}
				}
				spec.Listeners = append(spec.Listeners, l)
			}
		}}
	}
	plain := through(v1alpha1.NetworkProvider{Ingress: &v1alpha1.IngressProvider{ClassName: "traefik"}}, v1alpha1.ProtocolHTTP)
	plain.Whole = true
	// Each case has its own class, because policies with the same class must not have the same
	// hosts.
	annotated := func(class string) v1alpha1.NetworkProvider {
		return v1alpha1.NetworkProvider{Ingress: &v1alpha1.IngressProvider{ClassName: class, AnnotationPrefix: "nginx.ingress.kubernetes.io"}}
	}
	cases := map[string]Case{
		"services": {Name: "services", Whole: true, Bare: true, Spec: func(spec *v1alpha1.NetworkPolicySpec, _ ...Entry) {
			spec.Provider, spec.Domains, spec.Listeners = nil, nil, nil
			spec.Ports = []v1alpha1.NetworkPort{{Name: "main", Port: 8080}}
		}},
		"gateway HTTP":  hosts(v1alpha1.ProtocolHTTP),
		"gateway HTTPS": hosts(v1alpha1.ProtocolHTTPS),
		"gateway GRPC":  hosts(v1alpha1.ProtocolGRPC),
		"gateway TLS":   hosts(v1alpha1.ProtocolTLS),
		"gateway TCP":   listeners(v1alpha1.ProtocolTCP),
		"gateway UDP":   listeners(v1alpha1.ProtocolUDP),
		"ingress":       plain,
		"ingress nginx": through(annotated("nginx"), v1alpha1.ProtocolHTTP),
		"ingress HTTPS": through(annotated("nginx-https"), v1alpha1.ProtocolHTTPS),
		"apisix":        through(v1alpha1.NetworkProvider{APISIX: &v1alpha1.APISIXProvider{ClassName: "apisix"}}, v1alpha1.ProtocolHTTP),
	}
	for _, kind := range []string{"HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"} {
		cases["route "+kind] = ofUser(kind)
	}
	return cases
}

// Domains converts the entries to the domains of a policy.
func Domains(entries ...Entry) []v1alpha1.Domain {
	var out []v1alpha1.Domain
	for _, e := range entries {
		d := v1alpha1.Domain{Domain: e.Name}
		if e.Version != "" {
			d.Release = &v1alpha1.DomainRelease{Version: e.Version}
		}
		out = append(out, d)
	}
	return out
}

// ofUser returns the case for a user-managed route of the given kind.
func ofUser(kind string) Case {
	version, protocol, hosts := "v1alpha2", v1alpha1.ProtocolTCP, false
	switch kind {
	case "HTTPRoute", "GRPCRoute":
		version, protocol, hosts = "v1", v1alpha1.ProtocolHTTP, true
	case "TLSRoute":
		hosts = true
	case "UDPRoute":
		protocol = v1alpha1.ProtocolUDP
	}
	route := Parse(fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/%s
kind: %s
metadata: {name: web, namespace: prod, generation: 1}
spec:
  parentRefs: [{name: public}]
  rules:
  - backendRefs: [{name: users-old, namespace: infra, port: 80}]
`, version, kind))
	if hosts {
		route.Object["spec"].(map[string]any)["hostnames"] = []any{"first.example.com", "second.example.com"}
	}
	return Case{Name: "route", User: route, Spec: func(spec *v1alpha1.NetworkPolicySpec, _ ...Entry) {
		spec.Provider = &v1alpha1.NetworkProvider{RouteRef: &v1alpha1.RouteReference{Kind: kind, Name: "web"}}
		spec.Ports, spec.Domains = []v1alpha1.NetworkPort{{Name: "main", Port: 8080, Protocol: protocol}}, nil
		spec.DeletionPolicy = v1alpha1.DeletionRestore
	}}
}
