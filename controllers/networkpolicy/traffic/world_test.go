package traffic

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1alpha2 "sigs.k8s.io/gateway-api/apis/v1alpha2"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/apisix"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/certmanager"
	gatewayapi "github.com/heighliner/heighliner/controllers/networkpolicy/providers/gateway"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/ingress"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/internal/status"
)

// world simulates the API server, the endpoint controller and the gateway for the pure parts of the
// controller. It applies decisions in memory.
type world struct {
	t        fatal
	policy   *v1alpha1.NetworkPolicy
	ms       *v1alpha1.Microservice
	services map[string]*corev1.Service
	routes   map[string]*gatewayv1.HTTPRoute
	// others contains the written objects that are neither Services nor HTTPRoutes.
	others map[string]resources.Object
	// users contains the user-managed routes, by the names that providers.UserRoute returns. older
	// contains the older policies that use one of these routes.
	users map[string]*unstructured.Unstructured
	older []*v1alpha1.NetworkPolicy
	// lacks contains the kinds that the API server does not serve. served contains the version and
	// channel of the kinds that the API server does not serve in the newest version.
	lacks   map[string]bool
	served  map[string]providers.Served
	written map[string]time.Time
	// ready is the number of ready pods, by release; a release without an entry has no ready pods.
	ready map[string]int
	// readySince contains the time at which a release became ready, if this was observed.
	readySince map[string]time.Time
	gateways   map[string]*gatewayv1.Gateway
	// classes contains the existing IngressClasses.
	classes map[string]bool
	// uncertain contains the reasons why Certificates are not ready, by the name of the Certificate.
	uncertain map[string]string
	claims    []Claim
	owned     *Ownership
	// probed contains the results of probes.
	probed  map[providers.Probe]providers.Probed
	foreign map[string]bool
	// stepwise reports whether a reconcile ends after it has written the status that Reserve returns, as
	// in the controller, so that other controllers run before the next reconcile.
	stepwise bool
	// full reports whether a quota prevents the creation of Services. The quota can be raised later.
	full bool
	// lag contains the releases to which EndpointSlices of Services still refer, by Service.
	lag    map[string]string
	noAPI  bool
	now    time.Time
	writes int
	// kinds contains the kinds of all providers.
	kinds []providers.Kind
	// identities contains the identities of endpoints, by release.
	identities map[string][]string
	// shared contains the last observed state if reconciles share it; nil means that each reconcile
	// observes the whole state.
	shared *snapshot
}

// snapshot contains the objects of a world as the providers observe them. It is valid until an object
// changes. The objects of a world are replaced instead of changed, so that equal pointers mean equal
// objects. A snapshot is shared and must not be changed.
type snapshot struct {
	policy   *v1alpha1.NetworkPolicy
	services map[string]*corev1.Service
	routes   map[string]*gatewayv1.HTTPRoute
	others   map[string]resources.Object
	gateways map[string]*gatewayv1.Gateway
	users    map[string]*unstructured.Unstructured
	seen     *Observed
	// number is the number of the snapshot, which increases with each change. checked is the number
	// of the last checked snapshot.
	number, checked int
}

// current reports whether a world still has the objects of the snapshot.
func (s *snapshot) current(w *world) bool {
	return s.seen != nil && s.policy == w.policy && maps.Equal(s.services, w.services) && maps.Equal(s.routes, w.routes) &&
		maps.Equal(s.others, w.others) && maps.Equal(s.gateways, w.gateways) && maps.Equal(s.users, w.users)
}

// refresh returns the number of the current snapshot. It creates a new snapshot if an object has
// changed.
func (w *world) refresh() int {
	s := w.shared
	if !s.current(w) {
		*s = snapshot{
			policy: w.policy, services: maps.Clone(w.services), routes: maps.Clone(w.routes), others: maps.Clone(w.others), gateways: maps.Clone(w.gateways), users: maps.Clone(w.users),
			seen: &Observed{Policy: w.policy}, number: s.number + 1, checked: s.checked,
		}
		s.seen.SetViews(w.input(w.policy))
	}
	return s.number
}

type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

func newWorld(t fatal, groups ...v1alpha1.ReleaseGroup) *world {
	port := intstr.FromInt32(8080)
	return &world{
		t: t, now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		policy: &v1alpha1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "prod", UID: "policy", Generation: 1},
			Spec: v1alpha1.NetworkPolicySpec{
				Ports:    []v1alpha1.NetworkPort{{Name: "http", Port: 80, TargetPort: &port, Protocol: v1alpha1.ProtocolHTTP}},
				Provider: &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Namespace: "infra", Name: "public"}}}},
				Domains:  []v1alpha1.Domain{{Domain: "{{.ReleaseGroupName}}.shop.example.com"}},
			},
		},
		ms: &v1alpha1.Microservice{
			ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "prod", UID: "shop-uid"},
			Status:     v1alpha1.MicroserviceStatus{Internal: &v1alpha1.MicroserviceInternal{Sequence: 1}, ReleaseGroups: groups},
		},
		services: map[string]*corev1.Service{}, routes: map[string]*gatewayv1.HTTPRoute{}, others: map[string]resources.Object{}, users: map[string]*unstructured.Unstructured{}, ready: map[string]int{}, written: map[string]time.Time{},
		gateways: map[string]*gatewayv1.Gateway{"infra/public": gateway(80, gatewayv1.HTTPProtocolType, "")},
		classes:  map[string]bool{"traefik": true, "nginx": true, "nginx-https": true}, uncertain: map[string]string{},
		foreign: map[string]bool{}, lag: map[string]string{}, kinds: AllKinds(), identities: map[string][]string{},
	}
}

func gateway(port int32, protocol gatewayv1.ProtocolType, hostname string) *gatewayv1.Gateway {
	l := gatewayv1.Listener{Name: "web", Port: gatewayv1.PortNumber(port), Protocol: protocol}
	if hostname != "" {
		l.Hostname = new(gatewayv1.Hostname(hostname))
	}
	return &gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "public", Generation: 1},
		Spec:       gatewayv1.GatewaySpec{GatewayClassName: "traefik", Listeners: []gatewayv1.Listener{l}},
	}
}

// openGateway returns a Gateway with listeners of all protocols, which accept routes from all
// namespaces.
func openGateway() *gatewayv1.Gateway {
	g := gateway(80, gatewayv1.HTTPProtocolType, "")
	all := &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: new(gatewayv1.NamespacesFromAll)}}
	g.Spec.Listeners[0].AllowedRoutes = all
	tls := gatewayv1.Listener{Name: "tls", Port: 443, Protocol: gatewayv1.TLSProtocolType, AllowedRoutes: all}
	tls.TLS = &gatewayv1.ListenerTLSConfig{Mode: new(gatewayv1.TLSModePassthrough)}
	g.Spec.Listeners = append(g.Spec.Listeners, tls)
	for i, name := range []gatewayv1.SectionName{"first", "second", "pinned"} {
		g.Spec.Listeners = append(g.Spec.Listeners, gatewayv1.Listener{
			Name: name, Port: gatewayv1.PortNumber(9000 + i), Protocol: gatewayv1.TCPProtocolType, AllowedRoutes: all,
		})
	}
	return g
}

// group returns a group of releases. Each release has the form "name version status weight". The
// releases were promoted in reverse order.
func group(slug string, revision int64, releases ...string) v1alpha1.ReleaseGroup {
	g := v1alpha1.ReleaseGroup{Name: strings.ReplaceAll(slug, "-", "."), Slug: slug, Phase: v1alpha1.GroupLive, TrafficRevision: revision}
	for i, text := range releases {
		var r v1alpha1.Release
		if _, err := fmt.Sscanf(text, "%s %s %s %d", &r.VersionedMicroservice, &r.SemVer.Version, &r.Status, &r.Weight); err != nil {
			panic(err)
		}
		r.Available = r.Status != v1alpha1.ReleasePending
		if r.Status == v1alpha1.ReleaseActive || r.Status == v1alpha1.ReleaseDeprecated {
			r.Promoted = int64(len(releases) - i)
		}
		g.Releases = append(g.Releases, r)
	}
	return g
}

// rollout replaces the groups with a later state.
func (w *world) rollout(groups ...v1alpha1.ReleaseGroup) {
	w.ms = w.ms.DeepCopy()
	w.ms.Status.Internal = &v1alpha1.MicroserviceInternal{Sequence: w.ms.Status.Sequence() + 1}
	w.ms.Status.ReleaseGroups = groups
}

func (w *world) facts() *Observed {
	f := w.observed()
	f.Services, f.Written, f.Endpoints, f.Claims, f.Owned, f.Probed, f.Now = w.services, w.written, make(map[string]Endpoints, len(w.services)), w.claims, w.owned, w.probed, w.now
	for name, s := range w.services {
		release := s.Spec.Selector[v1alpha1.LabelRelease]
		if old, lags := w.lag[name]; lags {
			release = old
		}
		ready := w.endpoints(release)
		f.Endpoints[name] = Endpoints{All: ready, Ready: ready, ReadySince: w.readySince[release]}
	}
	return f
}

// observed returns the policy with its Microservice, and the views of its objects.
func (w *world) observed() *Observed {
	if w.shared != nil {
		w.refresh()
		f := *w.shared.seen
		f.Microservice, f.Services = w.ms, w.services
		return &f
	}
	f := &Observed{Policy: w.policy.DeepCopy()}
	f.SetViews(w.input(f.Policy))
	if w.ms != nil {
		f.Microservice = w.ms.DeepCopy()
	}
	return f
}

// endpoints returns the identities of the ready endpoints of a release.
func (w *world) endpoints(release string) []string {
	n, known := w.ready[release], w.identities[release]
	for i := len(known); i < n; i++ {
		known = append(known, fmt.Sprintf("%s-%d", release, i))
	}
	w.identities[release] = known
	return slices.Clip(known[:n])
}

// input returns the input to the providers' views.
func (w *world) input(policy *v1alpha1.NetworkPolicy) providers.Input {
	s := providers.Input{
		Policy: policy, Microservice: "shop", Served: map[string]providers.Served{}, Referents: map[providers.Reference]resources.Object{},
		Probed: w.probed,
	}
	if !w.noAPI {
		for _, kind := range w.kinds {
			if w.lacks[kind.Kind] {
				continue
			}
			s.Served[kind.Kind] = providers.Served{Version: kind.Versions[0]}
			if how, ok := w.served[kind.Kind]; ok {
				s.Served[kind.Kind] = how
			}
		}
		for _, name := range providers.Sorted(w.others) {
			s.Objects = append(s.Objects, w.others[name])
		}
		for _, name := range providers.Sorted(w.routes) {
			s.Objects = append(s.Objects, w.routes[name])
		}
		for _, name := range UserNames(policy) {
			if u := w.users[name]; u != nil {
				s.Users = append(s.Users, u)
			}
		}
		s.Older, s.Services, s.Releases = w.older, map[string]bool{}, map[string]bool{}
		for name, service := range w.services {
			s.Services[name], s.Releases[name] = true, OfRelease(service)
		}
		for key, g := range w.gateways {
			namespace, name, _ := strings.Cut(key, "/")
			s.Referents[providers.Reference{Kind: "Gateway", Namespace: namespace, Name: name}] = g
		}
		for class := range w.classes {
			s.Referents[providers.Reference{Kind: "IngressClass", Name: class}] = &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: class}}
		}
	}
	return s
}

// pass runs one reconcile of the controller. If this reconcile only reserves references, pass runs
// another reconcile, unless stepwise is set.
func (w *world) pass() (*Decision, v1alpha1.NetworkPolicyStatus) {
	w.t.Helper()
	f := w.facts()
	out := Plan(f)
	if now, more := Reserve(f, out); more {
		w.report(now)
		w.writes++
		if w.stepwise {
			return nil, now
		}
		f = w.facts()
		out = Plan(f)
	}
	done := w.carryOut(f, out)
	now, _ := Status(f, out, done)
	if !equality.Semantic.DeepEqual(now, w.policy.Status) {
		w.writes++
		w.report(now)
	}
	w.check()
	return out, now
}

// report writes the status of the policy.
func (w *world) report(now v1alpha1.NetworkPolicyStatus) {
	policy := *w.policy
	policy.Status = now
	w.policy = &policy
}

// carryOut applies a decision in the same order as the controller's apply.go.
func (w *world) carryOut(f *Observed, out *Decision) Applied {
	done, failed := Applied{Changed: map[string]bool{}, Refused: map[string]*status.Error{}}, false
	w.services, w.routes = maps.Clone(w.services), maps.Clone(w.routes)
	for _, s := range out.Services {
		if w.foreign[s.Name] {
			done.Refused[AppliedServiceKey(s.Name)] = &status.Error{Class: status.Terminal, Reason: status.ReasonNameConflict, Err: fmt.Errorf("Service %q exists", s.Name)}
			continue
		}
		if w.full && w.services[s.Name] == nil {
			done.Refused[AppliedServiceKey(s.Name)] = &status.Error{Class: status.Transient, Reason: "QuotaExceeded", Err: fmt.Errorf("Service %q: exceeded quota", s.Name)}
			failed = true
			continue
		}
		built := s.Build(f.Policy, "shop")
		if old, ok := w.services[s.Name]; ok && equality.Semantic.DeepEqual(old, built) {
			continue
		}
		done.Changed[AppliedServiceKey(s.Name)] = true
		w.writes++
		w.services[s.Name] = built
	}
	w.others = maps.Clone(w.others)
	w.carryShared(out, done)
	w.users = maps.Clone(w.users)
	put := func(name string, next *unstructured.Unstructured) {
		if gatewayapi.Patch(w.users[name], next) == nil {
			return
		}
		if mustJSON(next.Object["spec"]) != mustJSON(w.users[name].Object["spec"]) {
			next.SetGeneration(next.GetGeneration() + 1)
		}
		w.written[name] = w.now
		done.Changed[AppliedRouteKey(name)] = true
		w.writes++
		w.users[name] = next
	}
	for _, name := range out.DeleteRoutes {
		if f.Live[name].User {
			next, _ := gatewayapi.Restore(w.users[name], w.policy.Name, f.Input.Releases)
			put(name, next)
		}
	}
	for _, route := range slices.Concat(out.Routes, out.Previous) {
		if len(route.Objects) == 0 {
			continue // The route of a previous provider does not change.
		}
		if cause, missing := f.RestsOnFailed(route, out, done); missing {
			done.Refused[AppliedRouteKey(route.Name)] = cause
			continue
		}
		if u, ok := route.Objects[0].(*unstructured.Unstructured); ok {
			put(route.Name, u.DeepCopy())
			continue
		}
		if _, http := route.Objects[0].(*gatewayv1.HTTPRoute); !http {
			w.carryOther(route, done)
			continue
		}
		built := route.Objects[0].(*gatewayv1.HTTPRoute)
		old, ok := w.routes[route.Name]
		if ok && maps.Equal(old.Labels, built.Labels) && gatewayapi.Same(old, built) {
			continue
		}
		next := built.DeepCopy()
		next.Generation, next.UID = 1, types.UID(route.Name)
		if ok {
			next.Generation, next.Status = old.Generation, old.Status
			if !equality.Semantic.DeepEqual(old.Spec, next.Spec) {
				next.Generation++
			}
		}
		w.written[route.Name] = w.now
		done.Changed[AppliedRouteKey(route.Name)] = true
		w.writes++
		w.routes[route.Name] = next
	}
	if failed {
		return done
	}
	for _, o := range slices.Concat(Surplus(f, out), out.DeleteShared) {
		w.writes++
		delete(w.routes, o.GetName())
		delete(w.others, o.GetName())
	}
	for _, name := range out.DeleteServices {
		w.writes++
		delete(w.services, name)
	}
	return done
}

// carryShared writes the objects on which routes depend.
func (w *world) carryShared(out *Decision, done Applied) {
	for _, s := range out.Shared {
		next := s.Object.DeepCopyObject().(resources.Object)
		if w.foreign[next.GetName()] {
			done.Refused[SharedKey(next)] = &status.Error{Class: status.Terminal, Reason: status.ReasonNameConflict, Err: fmt.Errorf("%s exists", SharedKey(next))}
			continue
		}
		next.SetGeneration(1)
		if old := w.others[next.GetName()]; old != nil {
			if mustJSON(content(old)) == mustJSON(content(next)) {
				continue
			}
			next.SetGeneration(old.GetGeneration() + 1)
		}
		done.Changed[SharedKey(next)] = true
		w.writes++
		w.others[next.GetName()] = next
	}
}

// content returns the spec of an object that is not a route.
func content(o resources.Object) any {
	switch o := o.(type) {
	case *certmanager.Certificate:
		return o.Spec
	case *apisix.ApisixTls:
		return o.Spec
	case *gatewayv1.ListenerSet:
		return o.Spec
	case *gatewayapi.XListenerSet:
		return o.Spec
	}
	panic(fmt.Sprintf("unexpected type of a shared object: %T", o))
}

// carryOther writes the objects of a route that is not an HTTPRoute.
func (w *world) carryOther(route *RouteDecision, done Applied) {
	for _, built := range route.Objects {
		old, ok := w.others[built.GetName()]
		if ok && maps.Equal(old.GetLabels(), built.GetLabels()) && sameObject(old, built) {
			continue
		}
		next := built.DeepCopyObject().(resources.Object)
		next.SetGeneration(1)
		next.SetUID(types.UID(next.GetName()))
		if ok {
			setAnswers(next, answersOf(old))
			next.SetGeneration(old.GetGeneration() + 1)
		}
		w.written[route.Name] = w.now
		done.Changed[AppliedRouteKey(route.Name)] = true
		w.writes++
		w.others[next.GetName()] = next
	}
}

// sameObject reports whether a live object matches the desired object, according to the provider
// that writes its kind.
func sameObject(old, want resources.Object) bool {
	switch want.(type) {
	case *networkingv1.Ingress:
		return ingress.Same(old, want)
	case *apisix.ApisixRoute:
		return apisix.Same(old, want)
	}
	return gatewayapi.Same(old, want)
}

// accept sets the status of all routes as if all existing parents had accepted them.
func (w *world) accept() {
	routes := map[string]*gatewayv1.HTTPRoute{}
	for name, route := range w.routes {
		if answers := w.answers(route); !equality.Semantic.DeepEqual(route.Status.Parents, answers) {
			route = route.DeepCopy()
			route.Status.Parents = answers
		}
		routes[name] = route
	}
	w.routes = routes
	users := map[string]*unstructured.Unstructured{}
	for name, u := range w.users {
		users[name] = u.DeepCopy()
		var route gatewayv1.HTTPRoute
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &route); err != nil {
			panic(err)
		}
		parents := []any{}
		for _, p := range route.Spec.ParentRefs {
			if w.gateways[refNamespace(p, route.Namespace)+"/"+string(p.Name)] == nil {
				continue
			}
			a := answer(p, route.Generation, metav1.ConditionTrue, "Accepted")
			parent, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&a)
			if err != nil {
				panic(err)
			}
			parents = append(parents, parent)
		}
		users[name].Object["status"] = map[string]any{"parents": parents}
		if mustJSON(users[name]) == mustJSON(u) {
			users[name] = u
		}
	}
	w.users = users
	others := map[string]resources.Object{}
	for name, old := range w.others {
		o := old.DeepCopyObject().(resources.Object)
		switch o := o.(type) {
		case *apisix.ApisixRoute:
			o.Status.Conditions = []metav1.Condition{taken(o)}
		case *certmanager.Certificate:
			ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", ObservedGeneration: o.Generation}
			if why := w.uncertain[o.Name]; why != "" {
				ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, why, "see the order."
			}
			o.Status.Conditions = []metav1.Condition{ready}
		case *gatewayv1.ListenerSet:
			if w.gateways[setGateway(o)] != nil {
				programSet(o)
			}
		case *gatewayapi.XListenerSet:
			if w.gateways[setGateway((*gatewayv1.ListenerSet)(o))] != nil {
				programSet((*gatewayv1.ListenerSet)(o))
			}
		}
		setAnswers(o, w.answers(o))
		if others[name] = o; equality.Semantic.DeepEqual(old, o) {
			others[name] = old
		}
	}
	w.others = others
}

// answers returns the status that existing parents set on a route.
func (w *world) answers(o resources.Object) (answers []gatewayv1.RouteParentStatus) {
	for _, p := range parentsOf(o) {
		if w.exists(p, o.GetNamespace()) {
			answers = append(answers, answer(p, o.GetGeneration(), metav1.ConditionTrue, "Accepted"))
		}
	}
	return answers
}

// exists reports whether the parent of a route exists and therefore can accept the route.
func (w *world) exists(p gatewayv1.ParentReference, namespace string) bool {
	if deref(p.Kind) == "Gateway" {
		return w.gateways[refNamespace(p, namespace)+"/"+string(p.Name)] != nil
	}
	switch set := w.others[string(p.Name)].(type) {
	case *gatewayv1.ListenerSet:
		return w.gateways[setGateway(set)] != nil
	case *gatewayapi.XListenerSet:
		return w.gateways[setGateway((*gatewayv1.ListenerSet)(set))] != nil
	}
	return false
}

// setGateway returns the Gateway to which a ListenerSet adds listeners. Without this Gateway, no controller
// accepts the set.
func setGateway(s *gatewayv1.ListenerSet) string {
	namespace := s.Namespace
	if s.Spec.ParentRef.Namespace != nil {
		namespace = string(*s.Spec.ParentRef.Namespace)
	}
	return namespace + "/" + string(s.Spec.ParentRef.Name)
}

// programSet sets the status of a ListenerSet that a gateway serves.
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

// taken returns the condition with which APISIX reports that it has accepted a route.
func taken(r *apisix.ApisixRoute) metav1.Condition {
	return metav1.Condition{
		Type: "ResourcesAvailable", Status: metav1.ConditionTrue, Reason: "ResourcesSynced", Message: "Sync Successfully",
		ObservedGeneration: r.Generation, LastTransitionTime: r.CreationTimestamp,
	}
}

// parentsOf returns the parents of a route of any kind.
func parentsOf(o resources.Object) []gatewayv1.ParentReference {
	parents, _ := common(o)
	return parents.ParentRefs
}

func answersOf(o resources.Object) []gatewayv1.RouteParentStatus { _, s := common(o); return s.Parents }

func setAnswers(o resources.Object, answers []gatewayv1.RouteParentStatus) {
	_, s := common(o)
	s.Parents = answers
}

// common returns the parts that routes of all kinds have.
func common(o resources.Object) (*gatewayv1.CommonRouteSpec, *gatewayv1.RouteStatus) {
	switch r := o.(type) {
	case *gatewayv1.HTTPRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
	case *gatewayv1.GRPCRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
	case *gatewayv1.TLSRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
	case *gatewayv1alpha2.TLSRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
	case *gatewayv1.TCPRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
	case *gatewayv1alpha2.TCPRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
	case *gatewayv1.UDPRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
	case *gatewayv1alpha2.UDPRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
	case *networkingv1.Ingress, *apisix.ApisixRoute, *apisix.ApisixTls, *certmanager.Certificate, *gatewayv1.ListenerSet, *gatewayapi.XListenerSet:
		return &gatewayv1.CommonRouteSpec{}, &gatewayv1.RouteStatus{} // These kinds have no parents.
	}
	panic(fmt.Sprintf("%T is not a route", o))
}

func answer(p gatewayv1.ParentReference, generation int64, accepted metav1.ConditionStatus, reason string) gatewayv1.RouteParentStatus {
	return gatewayv1.RouteParentStatus{ParentRef: p, ControllerName: "example.com/gateway", Conditions: []metav1.Condition{
		{Type: string(gatewayv1.RouteConditionAccepted), Status: accepted, Reason: reason, ObservedGeneration: generation},
		{Type: string(gatewayv1.RouteConditionResolvedRefs), Status: metav1.ConditionTrue, Reason: "ResolvedRefs", ObservedGeneration: generation},
	}}
}

// settle repeats pass and accept until nothing more is written.
func (w *world) settle() v1alpha1.NetworkPolicyStatus {
	w.t.Helper()
	for range 12 {
		before, unanswered := w.writes, mustJSON(w.routes)+mustJSON(w.others)+mustJSON(w.users)
		w.pass()
		w.accept()
		if w.writes == before && mustJSON(w.routes)+mustJSON(w.others)+mustJSON(w.users) == unanswered {
			return w.policy.Status
		}
	}
	w.t.Fatalf("still writing after 12 reconciles")
	return v1alpha1.NetworkPolicyStatus{}
}

// check checks the invariants that must hold after every reconcile.
func (w *world) check() {
	w.t.Helper()
	if w.shared != nil {
		if w.shared.checked == w.refresh() {
			return // This snapshot has already been checked.
		}
		w.shared.checked = w.shared.number
	}
	live := w.observed().Live
	for name, route := range w.routes {
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
		seen := live[name]
		if seen == nil {
			seen = readRoute(route) // The API server no longer serves the kind.
		}
		for _, service := range seen.Services {
			if w.services[service] == nil {
				w.t.Fatalf("route %s refers to Service %s, which does not exist", name, service)
			}
		}
		if n := len(route.Spec.Hostnames); n < 1 || n > 16 {
			w.t.Fatalf("route %s has %d hosts", name, n)
		}
	}
	for name, route := range live {
		if w.routes[name] != nil || route.User && route.Managed == nil {
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
			if w.services[service] == nil && !strings.HasPrefix(service, "users-") {
				w.t.Fatalf("route %s refers to Service %s, which does not exist", name, service)
			}
		}
		if n := len(route.Hostnames); n > 16 {
			w.t.Fatalf("route %s has %d hosts", name, n)
		}
	}
}

// split returns the written split of a host, such as "1.1.0=90 1.2.0=10", or "" if no route has the
// host.
func (w *world) split(host string) string {
	w.t.Helper()
	f := w.facts()
	var parts []string
	for _, route := range w.routes {
		if !slices.Contains(hostsOf(route), host) {
			continue
		}
		for service, weight := range f.Live[route.Name].Weights {
			parts = append(parts, fmt.Sprintf("%s=%d", versionBehind(f, service), weight))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func (w *world) groupTraffic(slug string) v1alpha1.GroupTraffic {
	return Find(w.policy.Status.Groups, slug)
}

func (w *world) condition(kind string) string {
	for _, c := range w.policy.Status.Conditions {
		if c.Type == kind {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

// readRoute returns the route that a provider reads from an object.
func readRoute(route resources.Object) *providers.Live {
	for _, p := range Known {
		for _, live := range p.NewView(providers.Input{Policy: &v1alpha1.NetworkPolicy{}, Objects: []resources.Object{route}}).Live() {
			return live
		}
	}
	return nil
}

func hostsOf(route resources.Object) []string { return readRoute(route).Hostnames }

func pinRoute(route resources.Object) bool { return readRoute(route).Pinned() }

// servicesOf returns the Services to which a route refers in any way.
func servicesOf(route resources.Object) map[string]bool {
	out := map[string]bool{}
	for _, s := range readRoute(route).Services {
		out[s] = true
	}
	return out
}

func refNamespace(p gatewayv1.ParentReference, fallback string) string {
	return cmp.Or(string(deref(p.Namespace)), fallback)
}

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

// versionBehind returns the version of the release that a Service selects, or the name of the
// release if it is not in the rollout state. It returns "" if there is no such Service.
func versionBehind(f *Observed, service string) string {
	release := f.Selected(service)
	for _, g := range f.Microservice.Status.ReleaseGroups {
		for _, r := range g.Releases {
			if r.VersionedMicroservice == release {
				return r.SemVer.Version
			}
		}
	}
	return release
}

// providersOf returns the names of the providers that have live routes.
func providersOf(f *Observed) []string {
	out := []string{}
	for _, live := range f.Live {
		out = append(out, live.Provider)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// splitOfEntry returns the split of a provider's live route for a host, or for the listener that
// represents the host.
func splitOfEntry(f *Observed, entry, provider string) string {
	var parts []string
	names := []string{}
	for _, protocol := range []v1alpha1.PortProtocol{v1alpha1.ProtocolTCP, v1alpha1.ProtocolUDP} {
		names = append(names, resources.RouteName(f.Policy.Name, "listener/"+listenerOf(entry), "", "main/"+string(protocol), 0))
	}
	for _, live := range f.Live {
		bare := live.User && len(live.Hostnames) == 0
		if live.Provider != provider || !bare && !slices.Contains(live.Hostnames, entry) && !slices.Contains(names, live.Name) {
			continue
		}
		for service, weight := range live.Weights {
			if version := versionBehind(f, service); version != "" {
				parts = append(parts, fmt.Sprintf("%s=%d", version, weight))
			}
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// listenerOf returns the name of the listener that represents a host in the suite.
func listenerOf(host string) string {
	name, _, _ := strings.Cut(host, ".")
	return name
}
