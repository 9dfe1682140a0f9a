package providertest

import (
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
)

// Pass runs one reconcile of the controller. If this reconcile only reserves references, Pass runs
// another reconcile.
func (w *World) Pass() (*traffic.Decision, v1alpha1.NetworkPolicyStatus) {
	w.t.Helper()
	f := w.Observed()
	out := traffic.Plan(f)
	if now, more := traffic.Reserve(f, out); more {
		w.Policy.Status = now
		w.Writes++
		f = w.Observed()
		out = traffic.Plan(f)
	}
	done := w.carryOut(f, out)
	now, _ := traffic.Status(f, out, done)
	if mustJSON(now) != mustJSON(w.Policy.Status) {
		w.Writes++
	}
	w.Policy.Status = now
	w.check()
	return out, now
}

// Settle repeats Pass and Accept until nothing more is written.
func (w *World) Settle() v1alpha1.NetworkPolicyStatus {
	w.t.Helper()
	for range 12 {
		before, unanswered := w.Writes, mustJSON(w.Routes)+mustJSON(w.Others)+mustJSON(w.Users)
		w.Pass()
		w.Accept()
		if w.Writes == before && mustJSON(w.Routes)+mustJSON(w.Others)+mustJSON(w.Users) == unanswered {
			return w.Policy.Status
		}
	}
	w.t.Fatalf("still writing after 12 reconciles")
	return v1alpha1.NetworkPolicyStatus{}
}

// check checks the invariants that must be true after every reconcile.
func (w *World) check() {
	w.t.Helper()
	for name, route := range w.Routes {
		for _, rule := range route.Spec.Rules {
			if slices.ContainsFunc(rule.Filters, func(f gatewayv1.HTTPRouteFilter) bool { return f.RequestRedirect != nil }) {
				continue // The rule responds to probes, and has no backends.
			}
			sum := 0
			for _, b := range rule.BackendRefs {
				sum += int(deref(b.Weight))
				if deref(b.Weight) <= 0 {
					w.t.Fatalf("route %s gives %s the weight %d", name, b.Name, deref(b.Weight))
				}
			}
			if sum != 100 {
				w.t.Fatalf("weights of a rule of route %s add up to %d", name, sum)
			}
		}
		for service := range ServicesOf(route) {
			if w.Services[service] == nil {
				w.t.Fatalf("route %s names Service %s, which does not exist", name, service)
			}
		}
		if n := len(route.Spec.Hostnames); n < 1 || n > 16 {
			w.t.Fatalf("route %s has %d hosts", name, n)
		}
	}
	f := &traffic.Observed{Policy: w.Policy}
	f.SetViews(w.input(w.Policy))
	for name, route := range f.Live {
		if w.Routes[name] != nil || route.User && route.Managed == nil {
			continue
		}
		sum := 0
		for _, weight := range route.Weights {
			sum += weight
			if weight <= 0 {
				w.t.Fatalf("route %s gives a Service the weight %d", name, weight)
			}
		}
		if sum != 100 {
			w.t.Fatalf("weights of route %s add up to %d", name, sum)
		}
		for _, service := range route.Services {
			if w.Services[service] == nil && !strings.HasPrefix(service, "users-") {
				w.t.Fatalf("route %s names Service %s, which does not exist", name, service)
			}
		}
		if n := len(route.Hostnames); n > 16 {
			w.t.Fatalf("route %s has %d hosts", name, n)
		}
	}
}

// GroupTraffic returns the traffic status of the group with the given slug.
func (w *World) GroupTraffic(slug string) v1alpha1.GroupTraffic {
	return traffic.Find(w.Policy.Status.Groups, slug)
}

// Condition returns the status and reason of one of the policy's conditions, or "" if the policy
// does not have the condition.
func (w *World) Condition(kind string) string {
	for _, c := range w.Policy.Status.Conditions {
		if c.Type == kind {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

// Change edits the spec of the policy.
func (w *World) Change(edit func(*v1alpha1.NetworkPolicySpec)) {
	edit(&w.Policy.Spec)
	w.Policy.Generation++
}

// Rollout replaces the groups with those of a later rollout state.
func (w *World) Rollout(groups ...v1alpha1.ReleaseGroup) {
	w.Microservice = w.Microservice.DeepCopy()
	w.Microservice.Status.Internal = &v1alpha1.MicroserviceInternal{Sequence: w.Microservice.Status.Sequence() + 1}
	w.Microservice.Status.ReleaseGroups = groups
}
