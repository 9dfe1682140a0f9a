package networkpolicy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// grace is how long a written route may go without an answer of its parents before
// that is called a fault.
const grace = 30 * time.Second

// verdict is what is known of an object that was written.
type verdict struct {
	accepted bool
	// pending: nobody has answered yet.
	pending         bool
	reason, message string
	// late is the reason once nobody has answered for the grace; empty: the same.
	late string
}

// acceptance is what a live route's status says of one parent. It is believed at
// the route's present generation only, and a parent that says nothing is pending.
// Of several controllers that speak of a parent one is enough.
func acceptance(route *gatewayv1.HTTPRoute, parent v1alpha1.ParentReference) verdict {
	out := verdict{pending: true}
	for _, p := range route.Status.Parents {
		if !names(p.ParentRef, parent, route.Namespace) {
			continue
		}
		v := judge(p.Conditions, route.Generation)
		if v.accepted {
			return v
		}
		if !v.pending {
			out = v
		}
	}
	return out
}

func judge(conditions []metav1.Condition, generation int64) verdict {
	for _, kind := range []gatewayv1.RouteConditionType{gatewayv1.RouteConditionAccepted, gatewayv1.RouteConditionResolvedRefs} {
		c := meta.FindStatusCondition(conditions, string(kind))
		if c == nil || c.ObservedGeneration != generation || c.Status == metav1.ConditionUnknown {
			return verdict{pending: true}
		}
		if c.Status != metav1.ConditionTrue {
			return verdict{reason: c.Reason, message: c.Message}
		}
	}
	return verdict{accepted: true}
}

// names says whether a route's reference is the one that a policy makes.
func names(ref gatewayv1.ParentReference, p v1alpha1.ParentReference, namespace string) bool {
	if ref.Kind != nil && *ref.Kind != "Gateway" || ref.Group != nil && *ref.Group != gatewayv1.GroupName {
		return false
	}
	section := ""
	if ref.SectionName != nil {
		section = string(*ref.SectionName)
	}
	return refNamespace(ref, namespace)+"/"+string(ref.Name) == gatewayKey(namespace, p) && section == p.SectionName
}

// mends of the reasons for which parents turn routes down.
var mends = map[string]string{
	string(gatewayv1.RouteReasonNotAllowedByListeners):      "let a listener's allowedRoutes admit HTTPRoutes from namespace %q",
	string(gatewayv1.RouteReasonNoMatchingListenerHostname): "give the Gateway a listener whose hostname fits spec.domains (namespace %q)",
	string(gatewayv1.RouteReasonNoMatchingParent):           "set sectionName to the name of one of the Gateway's listeners, or leave it out (namespace %q)",
}

// answer is what a parent says of a live route, as far as the Gateway itself bears it
// out: a gateway's word on one of several parents may be that on another.
func (d *decider) answer(route *gatewayv1.HTTPRoute, p v1alpha1.ParentReference) verdict {
	v := acceptance(route, p)
	g := d.gateway(p)
	switch {
	case !v.accepted:
		return v
	case g == nil:
		return d.parentMissing()
	case !admits(g, p.SectionName, d.policy.Namespace):
		return verdict{reason: string(gatewayv1.RouteReasonNotAllowedByListeners), message: "its listeners take routes of their own namespace only"}
	}
	return v
}

// admits is false where all listeners that a parent names take routes of the
// Gateway's namespace only, and that is another one. Selectors are the gateway's to
// judge.
func admits(g *gatewayv1.Gateway, section, namespace string) bool {
	shut := false
	for _, l := range g.Spec.Listeners {
		if section != "" && string(l.Name) != section {
			continue
		}
		from := gatewayv1.NamespacesFromAll
		if l.AllowedRoutes != nil && l.AllowedRoutes.Namespaces != nil && l.AllowedRoutes.Namespaces.From != nil {
			from = *l.AllowedRoutes.Namespaces.From
		}
		if from != gatewayv1.NamespacesFromNone && (from != gatewayv1.NamespacesFromSame || g.Namespace == namespace) {
			return true
		}
		shut = true
	}
	return !shut
}

// settled says whether a route is live as decided, and accepted by every parent.
func (d *decider) settled(r *routeDecision) bool { return d.routeVerdict(r).accepted }

// routeVerdict tells how far a decided route is.
func (d *decider) routeVerdict(r *routeDecision) verdict {
	old, ok := d.routes[r.Name]
	if !ok || old.DeletionTimestamp != nil || !carries(old, r.object) {
		if v := d.parentMissing(); v.reason != "" {
			return v
		}
		return verdict{pending: true, reason: reasonPending, message: fmt.Sprintf("HTTPRoute %q is being written", r.Name)}
	}
	for i, p := range d.parents() {
		v := d.answer(old, p)
		if v.accepted {
			continue
		}
		field := fmt.Sprintf("spec.provider.gateway.parentRefs[%d]", i)
		key := gatewayKey(d.policy.Namespace, p)
		switch {
		case d.gateway(p) == nil:
			return d.parentMissing()
		case v.pending:
			return verdict{pending: true, late: reasonNotAccepted, reason: reasonPending, message: fmt.Sprintf("%s: Gateway %q has not answered on HTTPRoute %q: see that a controller serves its GatewayClass %q", field, key, r.Name, d.gateway(p).Spec.GatewayClassName)}
		}
		mend := "see the status of the HTTPRoute"
		if text, ok := mends[v.reason]; ok {
			mend = fmt.Sprintf(text, d.policy.Namespace)
		}
		return verdict{reason: reasonNotAccepted, message: fmt.Sprintf("%s: Gateway %q does not accept HTTPRoute %q: %s: %s: %s", field, key, r.Name, v.reason, strings.TrimSuffix(v.message, "."), mend)}
	}
	return verdict{accepted: true}
}

// parentMissing names the first parent that does not exist.
func (d *decider) parentMissing() verdict {
	for i, p := range d.parents() {
		if d.gateway(p) == nil {
			return verdict{reason: reasonParentNotFound, message: fmt.Sprintf("spec.provider.gateway.parentRefs[%d]: Gateway %q does not exist: create it, or name one that does", i, gatewayKey(d.policy.Namespace, p))}
		}
	}
	return verdict{}
}

// carries says whether a live route is what was decided.
func carries(old, want *gatewayv1.HTTPRoute) bool {
	if len(old.Spec.ParentRefs) != len(want.Spec.ParentRefs) {
		return false
	}
	a, _ := resources.StampOf(old)
	b, _ := resources.StampOf(want)
	if a != b || pathOf(old) != pathOf(want) || !slices.Equal(hostsOf(old), hostsOf(want)) {
		return false
	}
	for i, p := range want.Spec.ParentRefs {
		q := old.Spec.ParentRefs[i]
		if q.Name != p.Name || refNamespace(q, old.Namespace) != refNamespace(p, old.Namespace) || deref(q.SectionName) != deref(p.SectionName) {
			return false
		}
	}
	return slices.EqualFunc(old.Spec.Rules, want.Spec.Rules, sameRule)
}

// sameRule says whether two rules lead the same requests to the same place. Only what
// we write is compared: what a server adds anew after each write, such as a default
// for timeouts, must not keep a route from ever being confirmed.
func sameRule(a, b gatewayv1.HTTPRouteRule) bool {
	return equality.Semantic.DeepEqual(a.Matches, b.Matches) &&
		slices.EqualFunc(a.BackendRefs, b.BackendRefs, func(a, b gatewayv1.HTTPBackendRef) bool {
			return sameObject(a.BackendObjectReference, b.BackendObjectReference) && deref(a.Weight) == deref(b.Weight) && len(a.Filters) == len(b.Filters)
		}) &&
		slices.EqualFunc(a.Filters, b.Filters, func(a, b gatewayv1.HTTPRouteFilter) bool {
			x, y := deref(a.RequestMirror), deref(b.RequestMirror)
			return a.Type == b.Type && sameObject(x.BackendRef, y.BackendRef) && deref(x.Percent) == deref(y.Percent)
		})
}

func sameObject(a, b gatewayv1.BackendObjectReference) bool {
	return a.Name == b.Name && deref(a.Port) == deref(b.Port)
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// followVerdict tells how far a Service that follows a group is (rule 36): it is
// confirmed when its EndpointSlices name only endpoints of the release, at least
// one of them ready. Where the release itself has none ready, it is masked, and
// waiting for one would keep the release that mends it from coming.
func (d *decider) followVerdict(s resources.Service, g *v1alpha1.ReleaseGroup) verdict {
	active := activeOf(g)
	if active == nil || s.Release != active.VersionedMicroservice {
		return verdict{reason: reasonNoReadyEndpoints, message: fmt.Sprintf("Service %q stays on release %q until the active one has a ready endpoint", s.Name, s.Release)}
	}
	return d.carriedOut(s)
}

// carriedOut says whether a following Service leads to the release that was decided
// and to nothing else.
func (d *decider) carriedOut(s resources.Service) verdict {
	pending := verdict{pending: true, reason: reasonPending, message: fmt.Sprintf("the EndpointSlices of Service %q do not name the endpoints of release %q yet", s.Name, s.Release)}
	if d.selected(s.Name) != s.Release {
		return pending
	}
	own, released := d.endpoints[s.Name], d.endpoints[d.releaseService(s.Release)]
	for _, e := range own.all {
		if !slices.Contains(released.all, e) {
			return pending
		}
	}
	if len(own.ready) == 0 && len(released.ready) > 0 {
		return pending
	}
	return verdict{accepted: true}
}

// listener of a parent that takes a host; HTTPS goes before HTTP.
func (d *decider) listener(host string) (l gatewayv1.Listener, found, known bool) {
	known = true
	for _, p := range d.parents() {
		g := d.gateway(p)
		if g == nil {
			known = false
			continue
		}
		for _, candidate := range g.Spec.Listeners {
			if p.SectionName != "" && string(candidate.Name) != p.SectionName || !takes(deref(candidate.Hostname), host) {
				continue
			}
			switch candidate.Protocol {
			case gatewayv1.HTTPSProtocolType:
				return candidate, true, true
			case gatewayv1.HTTPProtocolType:
				if !found {
					l, found = candidate, true
				}
			}
		}
	}
	return l, found, known
}

// takes says whether the hostname of a listener has room for a host.
func takes(listener gatewayv1.Hostname, host string) bool {
	name := string(listener)
	if name == "" || name == host {
		return true
	}
	if suffix, wildcard := strings.CutPrefix(name, "*"); wildcard && strings.HasSuffix(host, suffix) {
		return true
	}
	if suffix, wildcard := strings.CutPrefix(host, "*"); wildcard && strings.HasSuffix(name, suffix) {
		return true
	}
	return false
}

// url of a host, as a browser would reach it through the first listener that fits.
func (d *decider) url(host, path string) string {
	l, found, _ := d.listener(host)
	scheme, port := "http", ""
	if found {
		usual := gatewayv1.PortNumber(80)
		if l.Protocol == gatewayv1.HTTPSProtocolType {
			scheme, usual = "https", 443
		}
		if l.Port != usual {
			port = fmt.Sprintf(":%d", l.Port)
		}
	}
	if path == "/" {
		path = ""
	}
	return scheme + "://" + host + port + path
}
