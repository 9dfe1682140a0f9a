package gateway

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

func policy() *v1alpha1.NetworkPolicy {
	return &v1alpha1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "prod", Labels: map[string]string{"team": "a"}},
		Spec: v1alpha1.NetworkPolicySpec{
			Ports:    []v1alpha1.NetworkPort{{Name: "http", Port: 80}},
			Provider: &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Namespace: "infra", Name: "public", SectionName: "web"}}}},
		},
	}
}

// see a policy whose API server has every kind in the preferred version.
func see(p *v1alpha1.NetworkPolicy, objects ...client.Object) providers.View {
	s := providers.Scene{Policy: p, Microservice: "shop", Served: map[string]providers.Served{}, Objects: objects}
	for _, kind := range append(Provider{}.Writes(), gatewayKind) {
		s.Served[kind.Kind] = providers.Served{Version: kind.Versions[0]}
	}
	return Provider{}.See(s)
}

func TestRouteGolden(t *testing.T) {
	got := see(policy()).Build(providers.Route{
		Name: "shop-1-x-0", Hostnames: []string{"shop.example.com"}, Path: "/", Port: 80,
		Backends: []providers.Backend{{Service: "shop-a", Weight: 90}, {Service: "shop-b", Weight: 10}}, Stamp: resources.Stamp{Group: "1-x", Revision: 7, Ledger: "uid", Sequence: 12},
	})[0]
	golden(t, got, `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  annotations:
    hlnr.io/ledger: uid/12
    hlnr.io/traffic-revision: 1-x=7
  labels:
    hlnr.io/group: 1-x
    hlnr.io/microservice: shop
    hlnr.io/policy: shop
  name: shop-1-x-0
  namespace: prod
spec:
  hostnames:
  - shop.example.com
  parentRefs:
  - group: gateway.networking.k8s.io
    kind: Gateway
    name: public
    namespace: infra
    sectionName: web
  rules:
  - backendRefs:
    - group: ""
      kind: Service
      name: shop-a
      port: 80
      weight: 90
    - group: ""
      kind: Service
      name: shop-b
      port: 80
      weight: 10
    matches:
    - path:
        type: PathPrefix
        value: /
status:
  parents: null
`)
}

func golden(t *testing.T, got any, want string) {
	t.Helper()
	text, err := yaml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), string(text)); diff != "" {
		t.Error(diff)
	}
}
