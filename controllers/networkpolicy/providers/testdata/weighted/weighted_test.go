package weighted_test

import (
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/testdata/weighted"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providertest"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

func TestConformance(t *testing.T) {
	providertest.Run(t, weighted.Provider{}, providertest.Case{
		Name: "weighted",
		Spec: func(spec *v1alpha1.NetworkPolicySpec, entries ...providertest.Entry) {
			spec.Provider = &v1alpha1.NetworkProvider{Ingress: &v1alpha1.IngressProvider{ClassName: "weighted"}}
			spec.Ports, spec.Domains = []v1alpha1.NetworkPort{{Name: "main", Port: 8080}}, providertest.Domains(entries...)
		},
		AddToScheme: weighted.AddToScheme,
		Same:        weighted.Same,
		Serve: func(live resources.Object) {
			route := live.(*weighted.WeightedRoute)
			route.Status.ObservedGeneration = route.Generation
		},
	})
}
