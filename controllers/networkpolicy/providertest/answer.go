package providertest

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1alpha2 "sigs.k8s.io/gateway-api/apis/v1alpha2"

	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/apisix"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/certmanager"
	gatewayapi "github.com/heighliner/heighliner/controllers/networkpolicy/providers/gateway"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// Accept sets the status of all routes and other objects as if all existing parents had accepted
// them.
func (w *World) Accept() {
	routes := map[string]*gatewayv1.HTTPRoute{}
	for name, route := range w.Routes {
		route = route.DeepCopy()
		route.Status.Parents = nil
		for _, p := range route.Spec.ParentRefs {
			if w.exists(p, route.Namespace) {
				route.Status.Parents = append(route.Status.Parents, Answer(p, route.Generation, metav1.ConditionTrue, "Accepted"))
			}
		}
		routes[name] = route
	}
	w.Routes = routes
	users := map[string]*unstructured.Unstructured{}
	for name, u := range w.Users {
		users[name] = u.DeepCopy()
		var route gatewayv1.HTTPRoute
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &route); err != nil {
			panic(err)
		}
		parents := []any{}
		for _, p := range route.Spec.ParentRefs {
			if w.Gateways[refNamespace(p, route.Namespace)+"/"+string(p.Name)] == nil {
				continue
			}
			a := Answer(p, route.Generation, metav1.ConditionTrue, "Accepted")
			parent, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&a)
			if err != nil {
				panic(err)
			}
			parents = append(parents, parent)
		}
		users[name].Object["status"] = map[string]any{"parents": parents}
	}
	w.Users = users
	others := map[string]resources.Object{}
	for name, o := range w.Others {
		o = o.DeepCopyObject().(resources.Object)
		switch o := o.(type) {
		case *apisix.ApisixRoute:
			o.Status.Conditions = []metav1.Condition{Taken(o)}
		case *certmanager.Certificate:
			ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", ObservedGeneration: o.Generation}
			o.Status.Conditions = []metav1.Condition{ready}
		case *gatewayv1.ListenerSet:
			if w.Gateways[setGateway(o)] != nil {
				programSet(o)
			}
		case *gatewayapi.XListenerSet:
			if w.Gateways[setGateway((*gatewayv1.ListenerSet)(o))] != nil {
				programSet((*gatewayv1.ListenerSet)(o))
			}
		}
		if _, _, ours := common(o); !ours {
			w.serve(o)
		}
		var answers []gatewayv1.RouteParentStatus
		for _, p := range ParentsOf(o) {
			if w.exists(p, o.GetNamespace()) {
				answers = append(answers, Answer(p, o.GetGeneration(), metav1.ConditionTrue, "Accepted"))
			}
		}
		SetAnswers(o, answers)
		others[name] = o
	}
	w.Others = others
}

// exists reports whether the parent of a route exists and therefore can accept the route.
func (w *World) exists(p gatewayv1.ParentReference, namespace string) bool {
	if deref(p.Kind) == "Gateway" {
		return w.Gateways[refNamespace(p, namespace)+"/"+string(p.Name)] != nil
	}
	switch set := w.Others[string(p.Name)].(type) {
	case *gatewayv1.ListenerSet:
		return w.Gateways[setGateway(set)] != nil
	case *gatewayapi.XListenerSet:
		return w.Gateways[setGateway((*gatewayv1.ListenerSet)(set))] != nil
	}
	return false
}

// setGateway returns the namespace and name of the Gateway to which a ListenerSet adds listeners. Without this Gateway,
// no controller accepts the set.
func setGateway(s *gatewayv1.ListenerSet) string {
	namespace := s.Namespace
	if s.Spec.ParentRef.Namespace != nil {
		namespace = string(*s.Spec.ParentRef.Namespace)
	}
	return namespace + "/" + string(s.Spec.ParentRef.Name)
}

// programSet sets the status of a ListenerSet as if a gateway had programmed it.
func programSet(s *gatewayv1.ListenerSet) {
	var conditions []metav1.Condition
	for _, kind := range []string{"Accepted", "ResolvedRefs", "Programmed"} {
		conditions = append(conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, ObservedGeneration: s.Generation})
	}
	s.Status.Conditions = conditions
	s.Status.Listeners = nil
	for _, l := range s.Spec.Listeners {
		s.Status.Listeners = append(s.Status.Listeners, gatewayv1.ListenerEntryStatus{Name: l.Name, Conditions: conditions})
	}
}

// Taken returns the condition with which APISIX reports that it has accepted a route.
func Taken(r *apisix.ApisixRoute) metav1.Condition {
	return metav1.Condition{
		Type: "ResourcesAvailable", Status: metav1.ConditionTrue, Reason: "ResourcesSynced", Message: "Sync Successfully",
		ObservedGeneration: r.Generation, LastTransitionTime: r.CreationTimestamp,
	}
}

// ParentsOf returns the parents of a route of any kind.
func ParentsOf(o resources.Object) []gatewayv1.ParentReference {
	parents, _, _ := common(o)
	return parents.ParentRefs
}

// AnswersOf returns the status that each parent has reported for a route of any kind.
func AnswersOf(o resources.Object) []gatewayv1.RouteParentStatus {
	_, s, _ := common(o)
	return s.Parents
}

// SetAnswers replaces the status that the parents have reported for a route of any kind.
func SetAnswers(o resources.Object, answers []gatewayv1.RouteParentStatus) {
	_, s, _ := common(o)
	s.Parents = answers
}

// common returns the parts of the spec and status that all routes of the Gateway API share, and
// reports whether one of this project's providers writes the object's kind.
func common(o resources.Object) (_ *gatewayv1.CommonRouteSpec, _ *gatewayv1.RouteStatus, ours bool) {
	switch r := o.(type) {
	case *gatewayv1.HTTPRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus, true
	case *gatewayv1.GRPCRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus, true
	case *gatewayv1.TLSRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus, true
	case *gatewayv1alpha2.TLSRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus, true
	case *gatewayv1.TCPRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus, true
	case *gatewayv1alpha2.TCPRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus, true
	case *gatewayv1.UDPRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus, true
	case *gatewayv1alpha2.UDPRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus, true
	case *networkingv1.Ingress, *apisix.ApisixRoute, *apisix.ApisixTls, *certmanager.Certificate, *gatewayv1.ListenerSet, *gatewayapi.XListenerSet:
		return &gatewayv1.CommonRouteSpec{}, &gatewayv1.RouteStatus{}, true // These kinds do not have parentRefs.
	}
	return &gatewayv1.CommonRouteSpec{}, &gatewayv1.RouteStatus{}, false
}

// Answer returns the status that a parent reports for a generation of a route: whether the parent accepted the route,
// and the reason. The status always reports that the references of the route are resolved.
func Answer(p gatewayv1.ParentReference, generation int64, accepted metav1.ConditionStatus, reason string) gatewayv1.RouteParentStatus {
	return gatewayv1.RouteParentStatus{ParentRef: p, ControllerName: "example.com/gateway", Conditions: []metav1.Condition{
		{Type: string(gatewayv1.RouteConditionAccepted), Status: accepted, Reason: reason, ObservedGeneration: generation},
		{Type: string(gatewayv1.RouteConditionResolvedRefs), Status: metav1.ConditionTrue, Reason: "ResolvedRefs", ObservedGeneration: generation},
	}}
}
