package view

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: 2}
}

// TestGatewayLines checks that the lines of a route and its Gateways contain their status and the
// cause of a fault.
func TestGatewayLines(t *testing.T) {
	t.Parallel()
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	infra := gatewayv1.Namespace("infra")
	parent := func(conditions ...metav1.Condition) gatewayv1.RouteParentStatus {
		return gatewayv1.RouteParentStatus{ParentRef: gatewayv1.ParentReference{Namespace: &infra, Name: "public"}, Conditions: conditions}
	}
	for name, test := range map[string]struct {
		parents    []gatewayv1.RouteParentStatus
		generation int64
		gateway    []metav1.Condition
		listener   []metav1.Condition
		route, has string
	}{
		"no fault": {
			[]gatewayv1.RouteParentStatus{parent(condition("Accepted", yes, "Accepted", ""), condition("ResolvedRefs", yes, "ResolvedRefs", ""))}, 2,
			[]metav1.Condition{condition("Programmed", yes, "Programmed", "")}, []metav1.Condition{condition("Programmed", yes, "Programmed", "")},
			"accepted by infra/public", "programmed, listeners http (3 routes)",
		},
		"no listener": {
			[]gatewayv1.RouteParentStatus{parent(condition("Accepted", no, "NoMatchingListenerHostname", "no listener for it"))}, 2,
			[]metav1.Condition{condition("Programmed", yes, "Programmed", "")}, nil,
			"not accepted by infra/public: NoMatchingListenerHostname: no listener for it", "programmed, listeners http (3 routes)",
		},
		"missing backend": {
			[]gatewayv1.RouteParentStatus{parent(condition("Accepted", yes, "Accepted", ""), condition("ResolvedRefs", no, "BackendNotFound", ""))}, 2,
			[]metav1.Condition{condition("Programmed", no, "Invalid", "no address")}, nil,
			"not accepted by infra/public: BackendNotFound", "not programmed: Invalid: no address",
		},
		"late": {
			[]gatewayv1.RouteParentStatus{parent(condition("Accepted", yes, "Accepted", ""))}, 3, nil, []metav1.Condition{condition("ResolvedRefs", no, "InvalidCertificateRef", "Secret tls is not there")},
			"infra/public has not observed the latest change to the route", "does not report whether it is programmed, listeners http not programmed: InvalidCertificateRef: Secret tls is not there",
		},
		"no controller": {nil, 2, nil, nil, "no gateway reports the status of the route: check the parents of the route, and check that a controller for their GatewayClass is running", "does not report whether it is programmed, listeners http (3 routes)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := &v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
			policy.Spec.Provider = &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Namespace: "infra", Name: "public"}, {Namespace: "infra", Name: "public", SectionName: "http"}}}}
			route := gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop-1-x", Generation: test.generation}}
			route.Spec.Hostnames, route.Status.Parents = []gatewayv1.Hostname{"shop.example.com"}, test.parents
			other := gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "cart", Name: "shop-1-x"}}
			other.Spec.Hostnames = route.Spec.Hostnames
			gateway := gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "public"}}
			gateway.Status.Conditions = test.gateway
			gateway.Status.Listeners = []gatewayv1.ListenerStatus{{Name: "http", AttachedRoutes: 3, Conditions: test.listener}}
			x := &index{Input: Input{Routes: []gatewayv1.HTTPRoute{other, route}, Gateways: []gatewayv1.Gateway{gateway, {ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "other"}}}}}
			var a Answer
			policyDomain{x.service(&v1alpha1.Microservice{}), policy, &v1alpha1.DomainStatus{Domain: "shop.example.com"}}.gatewayLines(&a)
			want := []Line{{"httproute", test.route, "HTTPRoute shop/shop-1-x"}, {"gateway", test.has, "Gateway infra/public"}}
			if len(a.Lines) != 2 || a.Lines[0] != want[0] || a.Lines[1] != want[1] {
				t.Errorf("%+v, want %+v", a.Lines, want)
			}
		})
	}
}
