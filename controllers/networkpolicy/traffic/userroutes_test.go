package traffic

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

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

func parse(text string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	content, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = u.UnmarshalJSON(content)
	}
	if err != nil {
		panic(err)
	}
	return u
}

// borrowing returns a world whose policy manages rules of a user-managed route.
func borrowing(t *testing.T, rules ...string) *world {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.gateways["prod/public"] = openGateway()
	w.users["HTTPRoute/web"] = parse(usersRoute)
	w.policy.Spec.Domains, w.policy.Spec.DeletionPolicy = nil, v1alpha1.DeletionRestore
	w.policy.Spec.Provider = &v1alpha1.NetworkProvider{RouteRef: &v1alpha1.RouteReference{Kind: "HTTPRoute", Name: "web", RuleNames: rules}}
	w.ready["a"] = 1
	return w
}

// shares returns the weights in a rule of the route, such as "a=90 users-old=10". The Service of a
// release is shown as the name of that release.
func (w *world) shares(name string) string {
	rules, _, _ := unstructured.NestedSlice(w.users["HTTPRoute/web"].Object, "spec", "rules")
	for _, rule := range rules {
		rule := rule.(map[string]any)
		if rule["name"] != name && !(name == "" && rule["name"] == nil) {
			continue
		}
		var parts []string
		refs, _ := rule["backendRefs"].([]any)
		for _, ref := range refs {
			ref := ref.(map[string]any)
			service := fmt.Sprint(ref["name"])
			if s := w.services[service]; s != nil {
				service = s.Labels[v1alpha1.LabelRelease]
			}
			parts = append(parts, fmt.Sprintf("%s=%v", service, ref["weight"]))
		}
		return strings.Join(parts, " ")
	}
	return "no rule"
}

func TestRulesOfAUsersRoute(t *testing.T) {
	const kept = "users-static=<nil>"
	for name, tc := range map[string]struct {
		// rules contains the names of rules in the policy.
		rules []string
		// edit changes the world after the route is programmed, or is nil.
		edit func(*world)
		// main and static are the final backends of the rules, and ready is the final condition.
		main, static, ready string
	}{
		"one rule":      {[]string{"main"}, nil, "a=100", kept, "True Programmed"},
		"both rules":    {[]string{"main", "static"}, nil, "a=100", "a=100", "True Programmed"},
		"no such rule":  {[]string{"mine"}, nil, "users-old=3", kept, "False RuleNotFound"},
		"one of two":    {[]string{"main", "mine"}, nil, "a=100", kept, "False RuleNotFound"},
		"no name":       {nil, nil, "users-old=3", kept, "False RuleNotFound"},
		"another route": {[]string{"main"}, func(w *world) { w.ref().Name = "other" }, "a=100", kept, "False RouteNotFound"},
		"a kind that is missing": {[]string{"main"}, func(w *world) {
			w.ref().Kind, w.lacks = "UDPRoute", map[string]bool{"UDPRoute": true}
		}, "a=100", kept, "False GatewayAPIMissing"},
		"another rule":    {[]string{"main"}, func(w *world) { w.ref().RuleNames = []string{"static"} }, "users-old=3", "a=100", "True Programmed"},
		"one rule fewer":  {[]string{"main", "static"}, func(w *world) { w.ref().RuleNames = []string{"main"} }, "a=100", kept, "True Programmed"},
		"an unknown rule": {[]string{"main"}, func(w *world) { w.ref().RuleNames = []string{"mine"} }, "a=100", kept, "False RuleNotFound"},
		"Services only":   {[]string{"main"}, func(w *world) { w.policy.Spec.Provider = nil }, "users-old=3", kept, "True Programmed"},
		"reverted by the user": {[]string{"main"}, func(w *world) {
			w.users["HTTPRoute/web"].Object["spec"] = parse(usersRoute).Object["spec"]
		}, "a=100", kept, "True Programmed"},
		"annotation removed": {[]string{"main"}, func(w *world) { w.users["HTTPRoute/web"].SetAnnotations(nil) }, "a=100", kept, "True Programmed"},
		"no parent": {[]string{"main"}, func(w *world) {
			unstructured.RemoveNestedField(w.users["HTTPRoute/web"].Object, "spec", "parentRefs")
		}, "a=100", kept, "False NotAccepted"},
		"no Gateway":                          {[]string{"main"}, func(w *world) { delete(w.gateways, "prod/public") }, "a=100", kept, "False ParentNotFound"},
		"an older policy that names the rule": {[]string{"main"}, func(w *world) { w.rival("main") }, "a=100", kept, "True Programmed"},
		"an older policy that owns the rule": {[]string{"main"}, func(w *world) {
			w.rival("main")
			w.annotate("hlnr.io/rules.shop", "")
			w.annotate("hlnr.io/rules.older", `{"group":"1-x","revision":1,"ledger":"shop-uid/1","before":{"main":null}}`)
		}, "a=100", kept, "False RuleConflict"},
		"closed": {[]string{"main"}, func(w *world) {
			g := group("1-x", 2, "a 1.0.0 deprecated 0")
			g.Phase = v1alpha1.GroupClosing
			w.rollout(g)
		}, "users-old=3", kept, "False NoActiveRelease"},
	} {
		t.Run(name, func(t *testing.T) {
			w := borrowing(t, tc.rules...)
			w.settle()
			if tc.edit != nil {
				w.users = map[string]*unstructured.Unstructured{"HTTPRoute/web": w.users["HTTPRoute/web"].DeepCopy()}
				tc.edit(w)
				w.policy.Generation++
				w.settle()
				w.now = w.now.Add(time.Hour) // The drain delay of the previous provider has passed.
				w.settle()
			}
			want(t, "main", w.shares("main"), tc.main)
			want(t, "static", w.shares("static"), tc.static)
			want(t, "ready", w.condition("Ready"), tc.ready)
			route := mustJSON(w.users["HTTPRoute/web"].Object)
			want(t, "unknown fields are kept", strings.Contains(route, `"fromTheFuture":{"keep":"me"}`), true)
			want(t, "a filter is kept", strings.Contains(route, `"remove":["Server"]`), true)
		})
	}
}

// TestOneRuleNeedsNoName checks that the policy does not have to name a route's only rule, or its
// only rule without a name.
func TestOneRuleNeedsNoName(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(rules []any) []any
		rule string
	}{
		"only rule":                {func(rules []any) []any { return rules[1:] }, "main"},
		"only rule without a name": {func(rules []any) []any { delete(rules[1].(map[string]any), "name"); return rules }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := borrowing(t)
			u := w.users["HTTPRoute/web"]
			rules, _, _ := unstructured.NestedSlice(u.Object, "spec", "rules")
			if err := unstructured.SetNestedSlice(u.Object, tc.edit(rules), "spec", "rules"); err != nil {
				t.Fatal(err)
			}
			w.settle()
			want(t, "rule", w.shares(tc.rule), "a=100")
			want(t, "Ready", w.condition("Ready"), "True Programmed")
		})
	}
}

// TestDeletedPolicyTakesNoFurtherRule checks that a policy that is being deleted updates its rules,
// but does not take over any more rules, and does not route to a release without a Service.
func TestDeletedPolicyTakesNoFurtherRule(t *testing.T) {
	w := borrowing(t, "main")
	w.settle()
	w.policy.DeletionTimestamp = &metav1.Time{Time: w.now}
	w.ref().RuleNames = []string{"main", "static"}
	w.ready["b"] = 1
	w.rollout(group("1-x", 2, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	before := len(w.services)
	w.settle()
	want(t, "main", w.shares("main"), "a=100")
	want(t, "static", w.shares("static"), "users-static=<nil>")
	want(t, "Services", len(w.services), before)
	want(t, "withheld", mustJSON(w.groupTraffic("1-x").Withheld), `["b"]`)
}

func (w *world) ref() *v1alpha1.RouteReference { return w.policy.Spec.Provider.RouteRef }

// rival adds an older policy that names these rules of the route.
func (w *world) rival(rules ...string) {
	p := w.policy.DeepCopy()
	p.Name, p.UID = "older", "older"
	p.Spec.Provider.RouteRef.RuleNames = rules
	w.older = []*v1alpha1.NetworkPolicy{p}
}

// annotate sets an annotation of the route. An empty value removes it.
func (w *world) annotate(key, value string) {
	u := w.users["HTTPRoute/web"]
	annotations := u.GetAnnotations()
	annotations[key] = value
	if value == "" {
		delete(annotations, key)
	}
	u.SetAnnotations(annotations)
}

// TestOlderPolicyGetsTheRule checks that a policy does not get a rule that an older policy names.
func TestOlderPolicyGetsTheRule(t *testing.T) {
	w := borrowing(t, "main")
	w.rival("main")
	w.settle()
	want(t, "main", w.shares("main"), "users-old=3")
	want(t, "ready", w.condition("Ready"), "False RuleConflict")
	w.older = nil
	w.settle()
	want(t, "main without the rival", w.shares("main"), "a=100")
}

// TestRuleTakenFromAYoungerPolicy checks that a policy that takes over a rule from a younger policy
// also takes over the original backendRefs that the younger policy has stored.
func TestRuleTakenFromAYoungerPolicy(t *testing.T) {
	w := borrowing(t, "main")
	w.annotate("hlnr.io/rules.younger", `{"group":"1-x","revision":1,"ledger":"shop-uid/1","before":{"main":[{"name":"users-first","port":80,"weight":1}],"static":null}}`)
	w.settle()
	want(t, "main", w.shares("main"), "a=100")
	want(t, "rules of the younger policy", w.users["HTTPRoute/web"].GetAnnotations()["hlnr.io/rules.younger"], `{"group":"1-x","revision":1,"ledger":"shop-uid/1","before":{"static":null}}`)
	w.policy.Spec.Provider = nil
	w.settle()
	w.now = w.now.Add(time.Hour)
	w.settle()
	want(t, "main restored", w.shares("main"), "users-first=1")
}

// TestRouteIsReportedBeforeItIsWritten checks that nothing is written to a route before the status
// lists it, or before there is a ready endpoint.
func TestRouteIsReportedBeforeItIsWritten(t *testing.T) {
	w := borrowing(t, "main")
	w.pass()
	want(t, "main after the first reconcile", w.shares("main"), "users-old=3")
	want(t, "recorded", w.policy.Status.Routes[0].Name, "web")
	delete(w.ready, "a")
	w.settle()
	want(t, "main without an endpoint", w.shares("main"), "users-old=3")
	w.ready["a"] = 1
	w.settle()
	want(t, "main", w.shares("main"), "a=100")
	delete(w.ready, "a")
	w.settle()
	want(t, "main when the endpoints are gone", w.shares("main"), "a=100")
}

// TestAUsersRouteTakesOverFromManagedRoutes checks that a host always has a route during a switch
// between managed routes and a user-managed route, and that the routes have the same targets during
// the switch.
func TestAUsersRouteTakesOverFromManagedRoutes(t *testing.T) {
	w := borrowing(t, "main")
	ref := w.policy.Spec.Provider
	ours := func() {
		w.policy.Spec.Provider = &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Name: "public"}}}}
		w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: "first.example.com"}}
	}
	canary := func(revision int64, weight int) {
		w.ready["b"] = 1
		w.rollout(group("1-x", revision, fmt.Sprintf("b 1.1.0 canary %d", weight), fmt.Sprintf("a 1.0.0 active %d", 100-weight)))
	}
	ours()
	w.settle()
	want(t, "managed routes", len(w.routes), 1)
	w.policy.Spec.Provider, w.policy.Spec.Domains = ref, nil
	delete(w.users, "HTTPRoute/web")
	w.settle()
	want(t, "routes while the user-managed route is missing", len(w.routes), 1)
	w.users["HTTPRoute/web"] = parse(usersRoute)
	canary(2, 10)
	w.settle()
	want(t, "main", w.shares("main"), "a=90 b=10")
	want(t, "routes while they drain", w.split("first.example.com"), "1.0.0=90 1.1.0=10")
	want(t, "draining", w.condition(v1alpha1.ConditionProviderSwitching), "True Draining")
	w.now = w.now.Add(time.Hour)
	w.settle()
	want(t, "routes afterwards", len(w.routes), 0)

	ours()
	canary(3, 50)
	w.settle()
	want(t, "main while the route drains", w.shares("main"), "a=50 b=50")
	want(t, "routes that are restored", len(w.policy.Status.Routes), 1)
	want(t, "split", w.split("first.example.com"), "1.0.0=50 1.1.0=50")
	w.now = w.now.Add(time.Hour)
	w.settle()
	want(t, "main afterwards", w.shares("main"), "users-old=3")
	want(t, "routes in the status", len(w.policy.Status.Routes), 0)
}

// TestStepsThatAUsersRouteCannotTake checks that a step that a user-managed route cannot apply is
// reported.
func TestStepsThatAUsersRouteCannotTake(t *testing.T) {
	w := borrowing(t, "main")
	w.settle()
	w.ready["b"] = 1
	g := group("1-x", 2, "b 1.1.0 canary 0", "a 1.0.0 active 100")
	g.Releases[0].Match, g.Releases[0].MirrorPercent = true, 10
	w.rollout(g)
	w.settle()
	want(t, "matches", w.condition(v1alpha1.ConditionCanaryUnmatched), "True CanaryUnmatched")
	want(t, "mirror", w.condition(v1alpha1.ConditionSettingsNotApplied), "True NotSupported")
	want(t, "main", w.shares("main"), "a=100")
}

// allShares returns the backends of all rules of the route, in order.
func (w *world) allShares() string {
	u := w.users["HTTPRoute/web"]
	var out []string
	for _, rule := range rulesIn(u) {
		one := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"rules": []any{rule}}}}
		name := fmt.Sprint(rule.(map[string]any)["name"])
		w.users["HTTPRoute/web"] = one
		out = append(out, name+": "+w.shares(name))
	}
	w.users["HTTPRoute/web"] = u
	return strings.Join(out, "; ")
}

func rulesIn(u *unstructured.Unstructured) []any {
	rules, _, _ := unstructured.NestedSlice(u.Object, "spec", "rules")
	return rules
}

// TestARuleThatIsRenamedOrCopied checks that a policy still manages a rule that was renamed or
// copied: a canary in the rule can be rolled back, and the rule's previous backends are restored.
func TestARuleThatIsRenamedOrCopied(t *testing.T) {
	rename := func(i int, name string) func([]any) []any {
		return func(rules []any) []any {
			rules[i].(map[string]any)["name"] = name
			return rules
		}
	}
	for name, tc := range map[string]struct {
		rules []string
		edit  func([]any) []any
		// names contains the rule names in the policy after the edit; nil means no change.
		names []string
		// aborted contains the backends of the rules after an abort, and left contains the backends at the
		// end.
		aborted, left, ready string
	}{
		"renamed": {[]string{"main"}, rename(1, "primary"), nil,
			"static: users-static=<nil>; primary: a=100", "static: users-static=<nil>; primary: users-old=3", "False RuleNotFound"},
		"renamed, also in the policy": {[]string{"main"}, rename(1, "primary"), []string{"primary"},
			"static: users-static=<nil>; primary: a=100", "static: users-static=<nil>; primary: users-old=3", "True Programmed"},
		"renamed, one of two": {[]string{"main", "static"}, rename(0, "files"), nil,
			"files: a=100; main: a=100", "files: users-static=<nil>; main: users-old=3", "False RuleNotFound"},
		"renamed, and removed from the policy": {[]string{"main", "static"}, rename(0, "files"), []string{"main"},
			"files: users-static=<nil>; main: a=100", "files: users-static=<nil>; main: users-old=3", "True Programmed"},
		"duplicated": {[]string{"main"}, func(rules []any) []any { return append(rules, rules[1]) }, nil,
			"static: users-static=<nil>; main: a=100; main: a=100", "static: users-static=<nil>; main: users-old=3; main: users-old=3", "False RuleNotFound"},
		"copied": {[]string{"main"}, func(rules []any) []any {
			return append(rules, map[string]any{"name": "copy", "backendRefs": rules[1].(map[string]any)["backendRefs"]})
		}, nil, "static: users-static=<nil>; main: a=100; copy: a=100", "static: users-static=<nil>; main: users-old=3; copy: users-old=3", "True Programmed"},
		"the user's own rule for one release": {[]string{"main"}, func(rules []any) []any {
			one := rules[1].(map[string]any)["backendRefs"].([]any)[0].(map[string]any)["name"]
			return append(rules, map[string]any{"name": "try", "backendRefs": []any{map[string]any{"name": one, "port": int64(80)}}})
		}, nil, "static: users-static=<nil>; main: a=100; try: a=<nil>", "static: users-static=<nil>; main: users-old=3; try: a=<nil>", "True Programmed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := borrowing(t, tc.rules...)
			w.settle()
			w.ready["b"] = 1
			w.rollout(group("1-x", 2, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
			w.settle()
			want(t, "canary", w.shares("main"), "a=50 b=50")
			u := w.users["HTTPRoute/web"].DeepCopy()
			if err := unstructured.SetNestedSlice(u.Object, tc.edit(rulesIn(u)), "spec", "rules"); err != nil {
				t.Fatal(err)
			}
			u.SetGeneration(u.GetGeneration() + 1)
			w.users["HTTPRoute/web"] = u
			if tc.names != nil {
				w.ref().RuleNames = tc.names
				w.settle()
			}
			w.rollout(group("1-x", 3, "b 1.1.0 error 0", "a 1.0.0 active 100"))
			w.settle()
			want(t, "after the abort", w.allShares(), tc.aborted)
			want(t, "ready", w.condition("Ready"), tc.ready)
			w.policy.Spec.Provider = nil
			w.settle()
			w.now = w.now.Add(time.Hour) // The drain delay has passed.
			w.settle()
			want(t, "restored", w.allShares(), tc.left)
		})
	}
}
