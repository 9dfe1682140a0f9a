package networkpolicy

import (
	"encoding/json"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providertest"
)

// world is the World of the provider test suite. The following variables refer to other parts of
// the suite, which the tests with an API server also use.
type world = providertest.World

var (
	newWorld    = providertest.NewWorld
	group       = providertest.Group
	openGateway = providertest.OpenGateway
	gateway     = providertest.Gateway
	answer      = providertest.Answer
	setAnswers  = providertest.SetAnswers
	answersOf   = providertest.AnswersOf
	parentsOf   = providertest.ParentsOf
	parse       = providertest.Parse
)

const host = "1-x.shop.example.com"

// stepOf returns the group 1-x with the given releases.
func stepOf(revision int64, rows ...string) v1alpha1.ReleaseGroup {
	return group("1-x", revision, rows...)
}

// onlyRoute returns the only route of a world.
func onlyRoute(t *testing.T, w *world) *gatewayv1.HTTPRoute {
	t.Helper()
	if len(w.Routes) != 1 {
		t.Fatalf("there are %d routes, want 1", len(w.Routes))
	}
	for _, r := range w.Routes {
		return r
	}
	return nil
}

func listener(port, section string) v1alpha1.Listener {
	return v1alpha1.Listener{Name: port, Port: port, ParentRef: v1alpha1.ParentReference{Namespace: "infra", Name: "public", SectionName: section}}
}

var byNginx = v1alpha1.NetworkProvider{Ingress: &v1alpha1.IngressProvider{ClassName: "nginx", AnnotationPrefix: "nginx.ingress.kubernetes.io"}}

// routedBy returns a world with a provider, in which a canary receives 10 percent of the traffic.
func routedBy(t *testing.T, provider v1alpha1.NetworkProvider) *world {
	w := newWorld(t, group("1-x", 1, "b 1.1.0 canary 10", "a 1.0.0 active 90"))
	w.Policy.Spec.Provider = &provider
	w.Ready["a"], w.Ready["b"] = 1, 1
	w.Settle()
	return w
}

// ownListener returns TLS settings with mode ListenerSet and a Secret that cert-manager creates.
func ownListener(secret string) *v1alpha1.DomainTLS {
	return &v1alpha1.DomainTLS{Mode: v1alpha1.TLSListenerSet, SecretName: secret, IssuerRef: &v1alpha1.IssuerReference{Name: "ca", Kind: "ClusterIssuer"}}
}

// usersRoute is a user-managed route with two named rules. One of these rules has a filter, and a
// field that no Go type of the project contains.
const usersRoute = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: web
  namespace: prod
  generation: 1
  annotations: {team: web}
spec:
  parentRefs: [{name: public}]
  hostnames: [first.example.com]
  rules:
  - name: static
    matches: [{path: {type: PathPrefix, value: /static}}]
    backendRefs: [{name: users-static, port: 80}]
  - name: main
    matches: [{path: {type: PathPrefix, value: /shop}}]
    fromTheFuture: {keep: me}
    filters:
    - type: ResponseHeaderModifier
      responseHeaderModifier: {remove: [Server]}
    backendRefs: [{name: users-old, port: 8080, weight: 3}]
`

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func mustJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
