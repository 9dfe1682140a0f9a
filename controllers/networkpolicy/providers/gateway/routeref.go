package gateway

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// RouteRef is the provider that manages rules of a user-managed route (see user_route_rules.go).
type RouteRef struct{}

var (
	_ providers.Provider = RouteRef{}
	_ providers.View     = (*userView)(nil)
)

// Name returns "route".
func (RouteRef) Name() string { return "route" }

// Writes returns nil, because the route belongs to the user.
func (RouteRef) Writes() []providers.Kind { return nil }

// Chosen reports whether spec.provider.routeRef is set.
func (RouteRef) Chosen(p *v1alpha1.NetworkPolicy) bool { return UserRef(p) != nil }

// UserRef returns spec.provider.routeRef, or nil if it is not set.
func UserRef(p *v1alpha1.NetworkPolicy) *v1alpha1.RouteReference {
	if p.Spec.Provider == nil {
		return nil
	}
	return p.Spec.Provider.RouteRef
}

// Needs returns the kind of the route.
func (RouteRef) Needs(p *v1alpha1.NetworkPolicy) []providers.Kind {
	return slices.DeleteFunc(slices.Clone(routeKinds), func(k providers.Kind) bool { return k.Kind != UserRef(p).Kind })
}

// NewView returns the view of one reconcile.
func (RouteRef) NewView(s providers.Input) providers.View {
	v := &userView{view: &view{Input: s, live: map[string]*providers.Live{}}, users: map[string]user{}}
	if ref := UserRef(s.Policy); ref != nil {
		v.name = providers.UserRoute(ref.Kind, ref.Name)
	}
	for _, u := range s.Users {
		route := typed(u)
		if route == nil {
			continue
		}
		p, _ := partsOf(route)
		name := providers.UserRoute(u.GetKind(), u.GetName())
		v.users[name] = user{u, p}
		t := resources.ReadTaken(u.GetAnnotations(), s.Policy.Name)
		if t == nil && name != v.name {
			continue
		}
		v.live[name] = &providers.Live{
			Name: name, Objects: []resources.Object{u}, Deleting: u.GetDeletionTimestamp() != nil, User: true, Managed: t, Accepted: v.settled(user{u, p}),
			Hostnames: p.hostnames(), Weights: weightsOf(u, t, s.Releases), Services: providers.Sorted(p.services),
		}
	}
	if ref := UserRef(s.Policy); ref != nil {
		v.held, v.problem = v.point(ref)
	}
	return v
}

// weightsOf returns the weights, by Service, of the first rule that a policy manages in a route.
func weightsOf(u *unstructured.Unstructured, t *resources.Taken, releases map[string]bool) map[string]int {
	out := map[string]int{}
	had := holders(t, rulesOf(u), releases)
	for i, rule := range rulesOf(u) {
		if _, ours := had[i]; !ours {
			continue
		}
		refs, _ := rule["backendRefs"].([]any)
		for _, ref := range refs {
			ref, _ := ref.(map[string]any)
			name, _ := ref["name"].(string)
			weight, has := ref["weight"].(int64)
			if !has {
				weight = 1
			}
			out[name] = int(weight)
		}
		break
	}
	return out
}

// userView is the view of a user-managed route. It embeds the view of the gateway provider for the
// parts that are the same for all routes.
type userView struct {
	*view
	users map[string]user
	// name is the name of the route to which the policy refers.
	name string
	// held contains the names of the rules that the policy manages or should manage, by rule index.
	held map[int]string
	// problem is the problem with the route or with one of its rules; nil if there is none.
	problem *providers.Problem
}

type user struct {
	object *unstructured.Unstructured
	parts
}

// point returns the rules that the policy should manage: the rules that the policy names, including
// rules that were renamed after the policy took them over. If the policy can manage none of these
// rules, point returns the rules that the policy already manages, so that invalid input does not
// cause any rule to be restored.
func (v *userView) point(ref *v1alpha1.RouteReference) (held map[int]string, problem *providers.Problem) {
	const field = "spec.provider.routeRef"
	fail := func(reason, format string, args ...any) {
		if problem == nil {
			problem = &providers.Problem{Reason: reason, Message: fmt.Sprintf(field+format, args...)}
		}
	}
	u := v.users[v.name].object
	if u == nil || u.GetDeletionTimestamp() != nil {
		what := "does not exist: create it, or correct the name"
		if u != nil {
			what = "is being deleted: re-create it, or name another route"
		}
		fail(providers.ReasonRouteNotFound, ".name: %s %q %s", ref.Kind, ref.Name, what)
		return nil, problem
	}
	if o := metav1.GetControllerOfNoCopy(u); o != nil && byUs(o) {
		fail(providers.ReasonRuleConflict, ".name: %s %q is managed by %s %q, which would revert changes to the rules: name a route that you manage yourself, or use spec.provider.gateway", ref.Kind, ref.Name, o.Kind, o.Name)
		return nil, problem
	}
	held = map[int]string{}
	rules, own := rulesOf(u), resources.ReadTaken(u.GetAnnotations(), v.Policy.Name)
	had := holders(own, rules, v.Releases)
	free := func(name string, i int) bool {
		_, ours := had[i]
		by := v.heldBy(rules, i, ours)
		if by != "" {
			fail(providers.ReasonRuleConflict, ".ruleNames: %s of %s %q is already used by the older networkpolicies.hlnr.io %q: name another rule", ruleText(name), ref.Kind, ref.Name, by)
		}
		return by == ""
	}
	for _, name := range ruleNames(ref) {
		i := ruleNamed(rules, name)
		if i < 0 {
			fail(providers.ReasonRuleNotFound, ".ruleNames: %s", missingRule(ref, rules, name))
			continue
		}
		_, ours := had[i]
		if v.Policy.DeletionTimestamp != nil && !ours || !free(name, i) {
			continue
		}
		if !ours && len(backendRefsOf(rules[i])) > maxBefore {
			fail(providers.ReasonNotSupported, ".ruleNames: the backendRefs of %s of %s %q are larger than %d KiB, the maximum that the policy can store and later restore: shorten their filters, or use a rule without backendRefs", ruleText(name), ref.Kind, ref.Name, maxBefore>>10)
			continue
		}
		held[i] = name
	}
	for _, all := range []bool{false, true} {
		if all && len(held) > 0 {
			break
		}
		for _, i := range slices.Sorted(maps.Keys(had)) {
			if _, is := held[i]; !is && (all || slices.Contains(ruleNames(ref), had[i])) && free(had[i], i) {
				held[i] = had[i]
			}
		}
	}
	return held, problem
}

// byUs reports whether an owner is a Heighliner object.
func byUs(o *metav1.OwnerReference) bool {
	gv, err := schema.ParseGroupVersion(o.APIVersion)
	return err == nil && gv.Group == v1alpha1.GroupVersion.Group
}

// ruleNames returns the names of the rules that a policy refers to. The empty name refers to the
// only rule of the route, or to the only rule without a name.
func ruleNames(ref *v1alpha1.RouteReference) []string {
	if len(ref.RuleNames) == 0 {
		return []string{""}
	}
	return ref.RuleNames
}

func ruleText(name string) string {
	if name == "" {
		return "the rule without a name"
	}
	return fmt.Sprintf("rule %q", name)
}

func missingRule(ref *v1alpha1.RouteReference, rules []map[string]any, name string) string {
	if name == "" {
		return fmt.Sprintf("%s %q has %d rules: give each rule a name, and list the names in ruleNames", ref.Kind, ref.Name, len(rules))
	}
	var has []string
	for _, rule := range rules {
		if text, _ := rule["name"].(string); text != "" {
			has = append(has, text)
		}
	}
	if slices.Contains(has, name) {
		return fmt.Sprintf("more than one rule of %s %q is named %q: use different names", ref.Kind, ref.Name, name)
	}
	return fmt.Sprintf("no rule of %s %q is named %q (its rules are %q): use one of these names, or rename a rule", ref.Kind, ref.Name, name, has)
}

// heldBy returns the older policy that prevents this policy from owning the rule at an index. Such
// a policy either owns the rule, or names the rule while this policy does not own it. heldBy
// returns "" if there is no such policy.
func (v *userView) heldBy(rules []map[string]any, i int, ours bool) string {
	for _, o := range v.Older {
		t := resources.ReadTaken(v.users[v.name].object.GetAnnotations(), o.Name)
		if _, its := holders(t, rules, nil)[i]; its {
			return o.Name
		}
		if !ours && slices.ContainsFunc(ruleNames(UserRef(o)), func(name string) bool { return ruleNamed(rules, name) == i }) {
			return o.Name
		}
	}
	return ""
}

// Missing returns a problem if the API server lacks the kind of the route.
func (v *userView) Missing(v1alpha1.PortProtocol) *providers.Problem {
	for _, kind := range (RouteRef{}).Needs(v.Policy) {
		if _, served := v.Served[kind.Kind]; !served {
			return &providers.Problem{Reason: providers.ReasonAPIMissing, Message: fmt.Sprintf(
				"spec.provider.routeRef.kind: the API server does not have %s of %s/%s: %s", kind.Kind, kind.Group, strings.Join(kind.Versions, " or "), fixMissing(kind))}
		}
	}
	return nil
}

// Unsupported returns the problem that prevents the policy from managing any rule of the route;
// nil if there is none.
func (v *userView) Unsupported(providers.Route) *providers.Problem {
	if len(v.held) > 0 || v.problem == nil {
		return nil
	}
	return &providers.Problem{Reason: v.problem.Reason, Message: strings.TrimPrefix(v.problem.Message, "spec.provider.routeRef.")}
}

// Unapplied returns a problem that names a setting that has no effect on a user-managed route,
// or nil if there is no such setting.
func (v *userView) Unapplied(routes []providers.Route) *providers.Problem {
	text := ""
	switch spec := v.Policy.Spec; {
	case spec.Timeouts != nil:
		text = "spec.timeouts has no effect on the route that spec.provider.routeRef refers to: set timeouts in its rules"
	case spec.SessionAffinity != nil:
		text = "spec.sessionAffinity has no effect on the route that spec.provider.routeRef refers to: set sessionPersistence in its rules"
	case slices.ContainsFunc(routes, func(r providers.Route) bool { return r.Mirror != "" }):
		text = "mirrorPercent of a step has no effect with spec.provider.routeRef, which does not change filters: use spec.provider.gateway, or a step with a weight"
	default:
		return nil
	}
	return &providers.Problem{Reason: providers.ReasonNotSupported, Message: text}
}

// Build returns the user's route with the backends of the desired route in the rules that the
// policy should manage.
func (v *userView) Build(r providers.Route) []resources.Object {
	u := v.users[r.Name].object
	if u == nil {
		return nil
	}
	return []resources.Object{v.to(u, r, v.held, ruleNames(UserRef(v.Policy)))}
}

// to returns the route with the backends of the desired route in the given rules.
func (v *userView) to(u *unstructured.Unstructured, r providers.Route, held map[int]string, wanted []string) *unstructured.Unstructured {
	var backends []any
	for _, b := range r.Backends {
		backends = append(backends, map[string]any{"group": "", "kind": "Service", "name": b.Service, "port": int64(r.Port), "weight": int64(b.Weight)})
	}
	t := resources.Taken{Release: r.Pinned}
	t.Carry(r.Stamp)
	return take(u, v.Policy.Name, held, wanted, backends, t, v.Input)
}

// Carry returns the route with the backends of a desired route in the rules that the policy
// manages.
func (v *userView) Carry(live *providers.Live, r providers.Route) []resources.Object {
	u := v.users[live.Name].object
	if u == nil || live.Managed == nil || len(r.Backends) == 0 {
		return nil
	}
	rules := rulesOf(u)
	held := holders(live.Managed, rules, v.Releases)
	for _, i := range slices.Sorted(maps.Keys(held)) {
		if refs, _ := rules[i]["backendRefs"].([]any); r.Port == 0 && len(refs) > 0 {
			ref, _ := refs[0].(map[string]any)
			port, _ := ref["port"].(int64)
			r.Port = int32(port)
		}
	}
	next := v.to(u, r, held, providers.Sorted(live.Managed.Before))
	if len(held) == 0 || Patch(u, next) == nil {
		return nil
	}
	return []resources.Object{next}
}

// Verdict reports whether the live route matches the one that Build returned, and whether every
// parent in its spec has accepted it.
func (v *userView) Verdict(r providers.Route, built []resources.Object) providers.Verdict {
	u := v.users[r.Name]
	if u.object == nil || Patch(u.object, built[0].(*unstructured.Unstructured)) != nil {
		return providers.Verdict{Pending: true, Reason: providers.ReasonPending, Message: fmt.Sprintf("%s is being written", routeText(r.Name))}
	}
	if len(u.parents) == 0 {
		return providers.Verdict{Reason: providers.ReasonNotAccepted, Message: fmt.Sprintf("spec.provider.routeRef: %s has no parentRefs: add the Gateway that should serve it", routeText(r.Name))}
	}
	for _, p := range u.parents {
		if a := v.accepted(u, p); !a.Accepted {
			return a
		}
	}
	return providers.Verdict{Accepted: true}
}

// accepted reports whether a parent accepts the route and, if the parent does not accept it, why.
func (v *userView) accepted(u user, p gatewayv1.ParentReference) providers.Verdict {
	kind, namespace := "Gateway", u.object.GetNamespace()
	if p.Kind != nil {
		kind = string(*p.Kind)
	}
	route, parent := routeText(providers.UserRoute(u.object.GetKind(), u.object.GetName())), fmt.Sprintf("%s %q", kind, keyOf(p, namespace))
	if ref, ok := gatewayOf(p, namespace); ok && v.Referents[ref] == nil {
		if v.Unwatched[ref.Namespace] {
			return providers.Verdict{Reason: providers.ReasonParentNotFound, Message: fmt.Sprintf("spec.provider.routeRef: %s of %s cannot be read: %s", parent, route, unwatched(ref.Namespace))}
		}
		if _, known := v.Served[gatewayKind.Kind]; known {
			return providers.Verdict{Reason: providers.ReasonParentNotFound, Message: fmt.Sprintf("spec.provider.routeRef: %s of %s does not exist: create it, or correct the route", parent, route)}
		}
	}
	out := providers.Verdict{Pending: true}
	for _, a := range u.answers {
		if !sameParent(a.ParentRef, p, namespace) {
			continue
		}
		switch judged := judge(a.Conditions, u.object.GetGeneration()); {
		case judged.Accepted:
			return judged
		case !judged.Pending:
			out = judged
		}
	}
	if out.Pending {
		return providers.Verdict{Pending: true, Late: providers.ReasonNotAccepted, Reason: providers.ReasonPending, Message: fmt.Sprintf(
			"spec.provider.routeRef: %s has not reported the status of %s: check that a controller serves this %s", parent, route, kind)}
	}
	return providers.Verdict{Reason: providers.ReasonNotAccepted, Message: fmt.Sprintf(
		"spec.provider.routeRef: %s does not accept %s: %s: %s: see the status of the route", parent, route, out.Reason, strings.TrimSuffix(out.Message, "."))}
}

// sameParent reports whether two references are equal after defaulting.
func sameParent(a, b gatewayv1.ParentReference, namespace string) bool {
	full := func(p gatewayv1.ParentReference) [6]string {
		group, kind := gatewayv1.GroupName, "Gateway"
		if p.Group != nil {
			group = string(*p.Group)
		}
		if p.Kind != nil {
			kind = string(*p.Kind)
		}
		return [6]string{group, kind, cmp.Or(string(deref(p.Namespace)), namespace), string(p.Name), string(deref(p.SectionName)), fmt.Sprint(deref(p.Port))}
	}
	return equality.Semantic.DeepEqual(full(a), full(b))
}

// gatewayOf returns the Gateway to which a parent reference refers; ok is false if the parent is of
// another kind.
func gatewayOf(p gatewayv1.ParentReference, namespace string) (ref providers.Reference, ok bool) {
	if p.Kind != nil && *p.Kind != gatewayv1.Kind(gatewayKind.Kind) || p.Group != nil && *p.Group != gatewayv1.GroupName {
		return ref, false
	}
	return providers.Reference{Kind: gatewayKind.Kind, Namespace: cmp.Or(string(deref(p.Namespace)), namespace), Name: string(p.Name)}, true
}

// GatewaysOf returns the Gateways that are parents of a user-managed route.
func GatewaysOf(u *unstructured.Unstructured) (refs []providers.Reference) {
	p, _ := partsOf(typed(u))
	for _, parent := range p.parents {
		if ref, ok := gatewayOf(parent, u.GetNamespace()); ok && !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// settled reports whether all existing parents of a route have accepted its current generation.
func (v *userView) settled(u user) bool {
	return !slices.ContainsFunc(u.parents, func(parent gatewayv1.ParentReference) bool {
		judged := v.accepted(u, parent)
		return !judged.Accepted && judged.Reason != providers.ReasonParentNotFound
	})
}

// Settled reports whether all parents of a route have accepted its current generation.
func Settled(u *unstructured.Unstructured) bool {
	route := typed(u)
	p, ok := partsOf(route)
	v := &userView{view: &view{}}
	return !ok || !slices.ContainsFunc(p.parents, func(parent gatewayv1.ParentReference) bool {
		return !v.accepted(user{u, p}, parent).Accepted
	})
}

// Serves returns the URL of a host of the route.
func (v *userView) Serves(r providers.Route, host string) (string, *providers.Problem) {
	u, ok := v.users[v.name]
	if !ok {
		return "", nil
	}
	switch u.object.GetKind() {
	case tlsKind.Kind:
		r.Protocol = v1alpha1.ProtocolTLS
	case grpcKind.Kind:
		r.Protocol = v1alpha1.ProtocolGRPC
	default:
		r.Protocol = v1alpha1.ProtocolHTTP
	}
	r.Path = v.path(u.object)
	for _, p := range u.parents {
		if ref, ok := gatewayOf(p, u.object.GetNamespace()); ok {
			r.Parents = append(r.Parents, providers.Parent{Field: "spec.provider.routeRef", ParentReference: v1alpha1.ParentReference{
				Namespace: ref.Namespace, Name: ref.Name, SectionName: string(deref(p.SectionName)),
			}})
		}
	}
	url, problem := v.view.Serves(r, host)
	if len(r.Parents) < len(u.parents) {
		problem = nil // A parent of another kind might serve the host.
	}
	return url, problem
}

// path returns the path in the first match of the first rule that the policy manages. The result
// "" stands for any path. Matches whose path is a regular expression are skipped.
func (v *userView) path(u *unstructured.Unstructured) string {
	rules := rulesOf(u)
	held := slices.Sorted(maps.Keys(v.held))
	if len(held) == 0 {
		return ""
	}
	matches, _ := rules[held[0]]["matches"].([]any)
	for _, m := range matches {
		path, _, _ := unstructured.NestedMap(map[string]any{"m": m}, "m", "path")
		value, _ := path["value"].(string)
		if kind, _ := path["type"].(string); kind != string(gatewayv1.PathMatchRegularExpression) {
			return value
		}
	}
	return ""
}

// Referent returns the problem with the route or with one of its rules; nil if there is none.
func (v *userView) Referent() *providers.Problem {
	if missing := v.Missing(""); missing != nil {
		return missing
	}
	return v.problem
}

// Shared returns nil, because the user creates the listeners.
func (v *userView) Shared([]providers.Route) []providers.Shared { return nil }

// Holds returns false, because there are no shared objects.
func (v *userView) Holds(resources.Object, []providers.Route) bool { return false }

// Probes returns nil, because probes would need their own rules in the route.
func (v *userView) Probes(providers.Route, []resources.Object) []providers.Probe { return nil }

// Health returns nil, because the user monitors the Gateways.
func (v *userView) Health() *providers.Problem { return nil }

// MayConflict returns false, because the user chooses the hosts of the route.
func (v *userView) MayConflict(*v1alpha1.NetworkPolicy) bool { return false }

// routeText returns the kind and name of a user-managed route for messages.
func routeText(route string) string {
	kind, name, _ := strings.Cut(route, "/")
	return fmt.Sprintf("%s %q", kind, name)
}
