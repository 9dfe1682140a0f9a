// Package weighted implements a provider that uses WeightedRoutes of example.com/v1. Its files refer only to
// files further down in this list:
//
//	weighted.go  the provider
//	types.go     the types of the API
package weighted

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

var kind = providers.Kind{Group: "example.com", Kind: "WeightedRoute", Versions: []string{"v1"}}

// Provider writes WeightedRoutes.
type Provider struct{}

// Name returns "weighted".
func (Provider) Name() string { return "weighted" }

// Writes returns the WeightedRoute kind.
func (Provider) Writes() []providers.Kind { return []providers.Kind{kind} }

// Chosen reports whether the policy names the class "weighted".
func (Provider) Chosen(p *v1alpha1.NetworkPolicy) bool {
	return p.Spec.Provider != nil && p.Spec.Provider.Ingress != nil && p.Spec.Provider.Ingress.ClassName == "weighted"
}

// NewView returns the view of one reconcile.
func (Provider) NewView(s providers.Input) providers.View { return view{s} }

type view struct{ providers.Input }

// Missing returns a problem if the API server lacks WeightedRoutes, or if they do not support the protocol.
func (v view) Missing(protocol v1alpha1.PortProtocol) *providers.Problem {
	if _, served := v.Served[kind.Kind]; !served {
		return &providers.Problem{Reason: providers.ReasonProviderAPIMissing, Message: "spec.provider.ingress: the API server lacks WeightedRoute of example.com: install its CustomResourceDefinition"}
	}
	if protocol != "" && protocol != v1alpha1.ProtocolHTTP {
		return &providers.Problem{Reason: providers.ReasonNotSupported, Message: "spec.ports: a WeightedRoute serves protocol HTTP only"}
	}
	return nil
}

// Unsupported returns a problem if the route has a setting that a WeightedRoute cannot express, and nil otherwise.
func (v view) Unsupported(r providers.Route) *providers.Problem {
	switch {
	case len(r.Matches) > 0:
		return &providers.Problem{Reason: providers.ReasonNotSupported, Message: "canaryMatches: a WeightedRoute cannot select requests"}
	case len(r.TLS) > 0:
		return &providers.Problem{Reason: providers.ReasonNotSupported, Message: "tls: a WeightedRoute has no certificates"}
	}
	return nil
}

// Build returns the WeightedRoute of a route.
func (v view) Build(r providers.Route) []resources.Object {
	labels, annotations := r.Metadata(v.Policy, v.Microservice)
	out := &WeightedRoute{
		TypeMeta:   metav1.TypeMeta{APIVersion: "example.com/v1", Kind: kind.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: v.Policy.Namespace, Name: r.Name, Labels: labels, Annotations: annotations},
		Spec:       Spec{Hosts: r.Hostnames, Path: r.Path},
	}
	for _, b := range r.Backends {
		out.Spec.Backends = append(out.Spec.Backends, Backend{Service: b.Service, Port: r.Port, Weight: b.Weight})
	}
	return []resources.Object{out}
}

// Live returns the policy's routes by name.
func (v view) Live() map[string]*providers.Live {
	out := map[string]*providers.Live{}
	for _, o := range v.Objects {
		r, ok := o.(*WeightedRoute)
		if !ok {
			continue
		}
		served := r.Status.ObservedGeneration == r.Generation && r.Status.Error == ""
		live := &providers.Live{
			Name: r.Name, Objects: []resources.Object{r}, Hostnames: r.Spec.Hosts, Path: r.Spec.Path, Weights: map[string]int{},
			Deleting: r.DeletionTimestamp != nil, Accepted: served, Acknowledged: served,
		}
		for _, b := range r.Spec.Backends {
			live.Weights[b.Service] = int(b.Weight)
			live.Services = append(live.Services, b.Service)
		}
		slices.Sort(live.Services)
		out[r.Name] = live
	}
	return out
}

// Verdict reports whether a live route has the desired content, and whether it is served.
func (v view) Verdict(r providers.Route, built []resources.Object) providers.Verdict {
	for _, o := range v.Objects {
		live, ok := o.(*WeightedRoute)
		if !ok || live.Name != r.Name || live.DeletionTimestamp != nil || live.Status.ObservedGeneration != live.Generation || !Same(live, built[0]) {
			continue
		}
		if live.Status.Error != "" {
			return providers.Verdict{Reason: providers.ReasonNotAccepted, Message: live.Status.Error}
		}
		return providers.Verdict{Accepted: true}
	}
	return providers.Verdict{Pending: true, Reason: providers.ReasonPending, Message: "the WeightedRoute is not served yet", Late: providers.ReasonNotAccepted}
}

// Same reports whether a live WeightedRoute has the desired stamp and spec.
func Same(live, decided resources.Object) bool {
	has, _ := resources.StampOf(live)
	wants, _ := resources.StampOf(decided)
	return has == wants && equality.Semantic.DeepEqual(live.(*WeightedRoute).Spec, decided.(*WeightedRoute).Spec)
}

// Serves returns the URL of a host.
func (v view) Serves(_ providers.Route, host string) (string, *providers.Problem) {
	return "http://" + host, nil
}
