package providertest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/apisix"
	gatewayapi "github.com/heighliner/heighliner/controllers/networkpolicy/providers/gateway"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/ingress"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/internal/status"
)

// carryOut applies a decision in the same way as the controller's apply.go does.
func (w *World) carryOut(f *traffic.Observed, out *traffic.Decision) traffic.Applied {
	done := traffic.Applied{Changed: map[string]bool{}, Refused: map[string]*status.Error{}}
	w.carryServices(f, out, done)
	w.Routes, w.Others, w.Users = maps.Clone(w.Routes), maps.Clone(w.Others), maps.Clone(w.Users)
	w.carryShared(out, done)
	for _, name := range out.DeleteRoutes {
		if f.Live[name].User {
			next, _ := gatewayapi.Restore(w.Users[name], w.Policy.Name, f.Input.Releases)
			w.carryUser(name, next, done)
		}
	}
	for _, route := range slices.Concat(out.Routes, out.Previous) {
		if len(route.Objects) == 0 {
			continue // A route in out.Previous that has no objects does not change.
		}
		if cause, missing := f.RestsOnFailed(route, out, done); missing {
			done.Refused[traffic.AppliedRouteKey(route.Name)] = cause
			continue
		}
		switch o := route.Objects[0].(type) {
		case *unstructured.Unstructured:
			w.carryUser(route.Name, o.DeepCopy(), done)
		case *gatewayv1.HTTPRoute:
			w.carryHTTP(route.Name, o.DeepCopy(), done)
		default:
			w.carryOther(route, done)
		}
	}
	for _, o := range slices.Concat(traffic.Surplus(f, out), out.DeleteShared) {
		w.Writes++
		delete(w.Routes, o.GetName())
		delete(w.Others, o.GetName())
	}
	for _, name := range out.DeleteServices {
		w.Writes++
		delete(w.Services, name)
	}
	return done
}

// carryServices writes Services.
func (w *World) carryServices(f *traffic.Observed, out *traffic.Decision, done traffic.Applied) {
	w.Services = maps.Clone(w.Services)
	for _, s := range out.Services {
		built := s.Build(f.Policy, "shop")
		if old, ok := w.Services[s.Name]; !ok || mustJSON(old) != mustJSON(built) {
			done.Changed[traffic.AppliedServiceKey(s.Name)] = true
			w.Writes++
		}
		w.Services[s.Name] = built
	}
}

// carryUser writes a user-managed route.
func (w *World) carryUser(name string, next *unstructured.Unstructured, done traffic.Applied) {
	if gatewayapi.Patch(w.Users[name], next) == nil {
		return
	}
	if mustJSON(next.Object["spec"]) != mustJSON(w.Users[name].Object["spec"]) {
		next.SetGeneration(next.GetGeneration() + 1)
	}
	w.Written[name] = w.Now
	done.Changed[traffic.AppliedRouteKey(name)] = true
	w.Writes++
	w.Users[name] = next
}

// carryHTTP writes an HTTPRoute.
func (w *World) carryHTTP(name string, next *gatewayv1.HTTPRoute, done traffic.Applied) {
	old, ok := w.Routes[name]
	if ok && fmt.Sprint(old.Labels) == fmt.Sprint(next.Labels) && gatewayapi.Same(old, next) {
		return
	}
	next.Generation, next.UID = 1, types.UID(name)
	if ok {
		next.Generation, next.Status = old.Generation, old.Status
		if mustJSON(old.Spec) != mustJSON(next.Spec) {
			next.Generation++
		}
	}
	w.Written[name] = w.Now
	done.Changed[traffic.AppliedRouteKey(name)] = true
	w.Writes++
	w.Routes[name] = next
}

// carryShared writes the objects on which routes depend.
func (w *World) carryShared(out *traffic.Decision, done traffic.Applied) {
	for _, s := range out.Shared {
		next := s.Object.DeepCopyObject().(resources.Object)
		next.SetGeneration(1)
		if old := w.Others[next.GetName()]; old != nil {
			if reflect.DeepEqual(content(old), content(next)) {
				continue
			}
			next.SetGeneration(old.GetGeneration() + 1)
		}
		done.Changed[traffic.SharedKey(next)] = true
		w.Writes++
		w.Others[next.GetName()] = next
	}
}

// content returns the fields of an object except its type, metadata and status.
func content(o resources.Object) map[string]any {
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		panic(fmt.Sprintf("convert %T: %v", o, err)) // This cannot happen for types that encoding/json can encode.
	}
	for _, field := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(out, field)
	}
	return out
}

// carryOther writes the objects of a route that is not an HTTPRoute.
func (w *World) carryOther(route *traffic.RouteDecision, done traffic.Applied) {
	for _, built := range route.Objects {
		next := built.DeepCopyObject().(resources.Object)
		old, ok := w.Others[next.GetName()]
		if ok && fmt.Sprint(old.GetLabels()) == fmt.Sprint(next.GetLabels()) && w.sameObject(old, next) {
			continue
		}
		next.SetGeneration(1)
		next.SetUID(types.UID(next.GetName()))
		if ok {
			SetAnswers(next, AnswersOf(old))
			next.SetGeneration(old.GetGeneration() + 1)
		}
		w.Written[route.Name] = w.Now
		done.Changed[traffic.AppliedRouteKey(route.Name)] = true
		w.Writes++
		w.Others[next.GetName()] = next
	}
}

// sameObject reports whether a live object matches the desired object, according to the provider
// that writes its kind.
func (w *World) sameObject(old, want resources.Object) bool {
	switch want.(type) {
	case *networkingv1.Ingress:
		return ingress.Same(old, want)
	case *apisix.ApisixRoute:
		return apisix.Same(old, want)
	}
	if _, _, ours := common(want); !ours {
		return w.same(old, want)
	}
	return gatewayapi.Same(old, want)
}
