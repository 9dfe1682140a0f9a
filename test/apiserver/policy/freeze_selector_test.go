package policy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/freeze"
	"github.com/heighliner/heighliner/test/await"
)

// newMicroservice creates a Microservice with labels.
func newMicroservice(t *testing.T, namespace, name string, labels map[string]string) *hlnr.Microservice {
	t.Helper()
	ms := &hlnr.Microservice{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec:       hlnr.MicroserviceSpec{ImagePolicyRef: hlnr.Reference{Name: name}, Template: newRelease(namespace).Spec.Template},
	}
	if err := env.Client.Create(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
	return ms
}

// activate creates a Freeze or a ClusterFreeze, with the status that the manager would write.
func activate(t *testing.T, f client.Object, active bool) {
	t.Helper()
	admin := env.As(t, "admin", masters)
	f.SetAnnotations(map[string]string{hlnr.AnnotationDecidedBy: "admin"})
	if err := admin.Create(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin.Delete(context.WithoutCancel(t.Context()), f); err != nil {
			t.Error(err)
		}
	})
	status := fmt.Sprintf(`{"status": {"active": %t, "services": 1, "until": "2030-01-04T08:00:00Z", "reason": "trade fair"}}`, active)
	if err := admin.Status().Patch(t.Context(), f, client.RawPatch(types.MergePatchType, []byte(status))); err != nil {
		t.Fatal(err)
	}
}

func relabel(t *testing.T, labels map[string]string) client.Patch {
	t.Helper()
	in, err := json.Marshal([]any{map[string]any{"op": "add", "path": "/metadata/labels", "value": labels}})
	if err != nil {
		t.Fatal(err)
	}
	return client.RawPatch(types.JSONPatchType, in)
}

// refusesProbe creates a freeze, which must be the last freeze of its kind, and waits until the API server has
// read it. The API server reads the freezes of a kind in the order of their creation, so once it has read this
// freeze, it has read all freezes of this kind.
func refusesProbe(t *testing.T, user, namespace string, last client.Object) {
	t.Helper()
	probe := newMicroservice(t, namespace, "probe", map[string]string{"probe": namespace})
	activate(t, last, true)
	await.Nil(t, func(ctx context.Context) error {
		err := env.As(t, user).Patch(ctx, probe, relabel(t, nil), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "is frozen by") { // Before the user's role applies, the user may not change anything.
			return fmt.Errorf("the labels of the probe can still be changed: %w", err)
		}
		return nil
	})
}

func probeRules(namespace string) hlnr.FreezeRules {
	return hlnr.FreezeRules{Reason: "probe", Indefinite: true, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"probe": namespace}}}
}

// TestLabelsKeepAFreeze checks, for a Freeze and a ClusterFreeze, that a user without permissions for freezes
// can change labels, unless the freeze would then no longer select the Microservice. The expected results
// come from the code that the manager uses to select Microservices.
func TestLabelsKeepAFreeze(t *testing.T) {
	t.Parallel()
	installRoles(t)
	const dev = "heighliner-edit"
	sets := []map[string]string{nil, {"tier": "web"}, {"tier": "db"}, {"tier": ""}, {"team": "shop"}, {"tier": "web", "team": "shop"}, {"tier": "db", "team": "cart"}}
	expression := func(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
	}
	both := expression("team", metav1.LabelSelectorOpNotIn, "cart")
	both.MatchLabels = map[string]string{"tier": "web"}
	for name, selector := range map[string]*metav1.LabelSelector{
		"all":                 nil,
		"all, empty":          {},
		"a label":             {MatchLabels: map[string]string{"tier": "web"}},
		"two labels":          {MatchLabels: map[string]string{"tier": "web", "team": "shop"}},
		"an empty value":      {MatchLabels: map[string]string{"tier": ""}},
		"In":                  expression("tier", metav1.LabelSelectorOpIn, "web", "db"),
		"NotIn":               expression("tier", metav1.LabelSelectorOpNotIn, "web", "cache"),
		"Exists":              expression("tier", metav1.LabelSelectorOpExists),
		"DoesNotExist":        expression("tier", metav1.LabelSelectorOpDoesNotExist),
		"label, expression":   both,
		"an invalid selector": expression("tier", "Bogus"),
		"Exists, values":      expression("tier", metav1.LabelSelectorOpExists, "web"),
		"NotIn, no values":    expression("team", metav1.LabelSelectorOpNotIn),
		"an invalid value":    expression("tier", metav1.LabelSelectorOpIn, "web", "a b"),
		"an invalid key":      expression("bad key!", metav1.LabelSelectorOpDoesNotExist),
		"In, without values":  expression("tier", metav1.LabelSelectorOpIn),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			bind(t, namespace, dev)
			until := metav1.NewTime(time.Date(2030, 1, 4, 8, 0, 0, 0, time.UTC))
			rules := hlnr.FreezeRules{Reason: "trade fair", Until: &until, Selector: selector}
			f := &hlnr.Freeze{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fair"}, Spec: hlnr.FreezeSpec{FreezeRules: rules}}
			activate(t, f, freeze.Namespaced(f).Check() == nil) // The manager reports the same result.
			refusesProbe(t, dev, namespace, &hlnr.Freeze{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"}, Spec: hlnr.FreezeSpec{FreezeRules: probeRules(namespace)}})
			selects := func(labels map[string]string) bool {
				return freeze.Namespaced(f).Selects(freeze.Subject{Namespace: namespace, Name: "shop", Labels: labels})
			}
			for i, before := range sets {
				ms := newMicroservice(t, namespace, fmt.Sprintf("shop-%d", i), before)
				for _, after := range sets {
					refused := ""
					if selects(before) && !selects(after) {
						refused = "Microservice " + ms.Name + " is frozen by Freeze fair until 2030-01-04T08:00:00Z (trade fair), whose selector does not match metadata.labels in this request"
					}
					check(t, env.As(t, dev).Patch(t.Context(), ms.DeepCopy(), relabel(t, after), client.DryRunAll), refused)
					if t.Failed() {
						t.Fatalf("unexpected result of changing the labels from %v to %v", before, after)
					}
				}
			}
		})
	}
}

// TestLabelsKeepAFreezeOfOthers checks who may change labels during a freeze. If the freeze has an exception
// for the Microservice, applies to other namespaces, or is not in effect, users who may edit the Microservice
// may change its labels.
func TestLabelsKeepAFreezeOfOthers(t *testing.T) {
	t.Parallel()
	installRoles(t)
	const dev, keeper = "heighliner-edit", "heighliner-owner"
	for name, tc := range map[string]struct {
		user     string
		inactive bool
		change   func(*hlnr.Freeze)
		cluster  func(*hlnr.ClusterFreeze)
		refused  string
	}{
		"applies":                                        {user: dev, change: func(*hlnr.Freeze) {}, refused: "is frozen by Freeze fair"},
		"does not apply now":                             {user: dev, inactive: true, change: func(*hlnr.Freeze) {}},
		"a user who may change freezes":                  {user: keeper, change: func(*hlnr.Freeze) {}},
		"an exception":                                   {user: dev, change: func(f *hlnr.Freeze) { f.Spec.Exceptions = []hlnr.FreezeException{{Name: "shop", Reason: "hotfix"}} }},
		"an exception for another Microservice":          {user: dev, change: func(f *hlnr.Freeze) { f.Spec.Exceptions = []hlnr.FreezeException{{Name: "cart", Reason: "hotfix"}} }, refused: "is frozen by Freeze fair"},
		"another namespace":                              {user: dev, change: func(f *hlnr.Freeze) { f.Namespace = "default" }},
		"a ClusterFreeze":                                {user: dev, cluster: func(*hlnr.ClusterFreeze) {}, refused: "is frozen by ClusterFreeze"},
		"a ClusterFreeze that does not apply now":        {user: dev, inactive: true, cluster: func(*hlnr.ClusterFreeze) {}},
		"a ClusterFreeze, a user who may change Freezes": {user: keeper, cluster: func(*hlnr.ClusterFreeze) {}, refused: "is frozen by ClusterFreeze"},
		"a ClusterFreeze with an exception": {user: dev, cluster: func(f *hlnr.ClusterFreeze) {
			f.Spec.Exceptions = []hlnr.ClusterFreezeException{{Namespace: f.Name, Name: "shop", Reason: "hotfix"}}
		}},
		"a ClusterFreeze with an exception for another namespace": {user: dev, cluster: func(f *hlnr.ClusterFreeze) {
			f.Spec.Exceptions = []hlnr.ClusterFreezeException{{Namespace: "default", Name: "shop", Reason: "hotfix"}}
		}, refused: "is frozen by ClusterFreeze"},
		"a ClusterFreeze for other namespaces": {user: dev, cluster: func(f *hlnr.ClusterFreeze) {
			f.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "production"}}
		}},
		"a ClusterFreeze that selects namespaces by an expression": {user: dev, cluster: func(f *hlnr.ClusterFreeze) {
			f.Spec.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "stage", Operator: metav1.LabelSelectorOpDoesNotExist}}}
		}, refused: "is frozen by ClusterFreeze"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			bind(t, namespace, dev)
			bind(t, namespace, keeper)
			web := map[string]string{"tier": namespace} // ClusterFreezes of parallel tests do not select this label.
			rules := hlnr.FreezeRules{Reason: "trade fair", Indefinite: true, Selector: &metav1.LabelSelector{MatchLabels: web}}
			if tc.change != nil {
				f := &hlnr.Freeze{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fair"}, Spec: hlnr.FreezeSpec{FreezeRules: rules}}
				tc.change(f)
				activate(t, f, !tc.inactive)
				refusesProbe(t, dev, namespace, &hlnr.Freeze{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"}, Spec: hlnr.FreezeSpec{FreezeRules: probeRules(namespace)}})
			} else {
				f := &hlnr.ClusterFreeze{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: hlnr.ClusterFreezeSpec{FreezeRules: rules}}
				tc.cluster(f)
				activate(t, f, !tc.inactive)
				refusesProbe(t, dev, namespace, &hlnr.ClusterFreeze{ObjectMeta: metav1.ObjectMeta{Name: namespace + "-probe"}, Spec: hlnr.ClusterFreezeSpec{FreezeRules: probeRules(namespace)}})
			}
			ms := newMicroservice(t, namespace, "shop", web)
			check(t, env.As(t, tc.user).Patch(t.Context(), ms.DeepCopy(), relabel(t, map[string]string{"tier": "db"})), tc.refused)
		})
	}
}

// TestLabelsWithoutFreezes checks that labels can be changed if no freeze exists.
func TestLabelsWithoutFreezes(t *testing.T) {
	t.Parallel()
	installRoles(t)
	namespace := env.Namespace(t)
	bind(t, namespace, "heighliner-edit")
	ms := newMicroservice(t, namespace, "shop", map[string]string{"tier": "web"})
	await.Nil(t, func(ctx context.Context) error {
		return env.As(t, "heighliner-edit").Patch(ctx, ms, relabel(t, nil))
	})
}

// TestLabelsBeyondTheCost checks that a user cannot set labels that make the expressions exceed their cost
// limit, because the policy would then be ignored.
func TestLabelsBeyondTheCost(t *testing.T) {
	t.Parallel()
	installRoles(t)
	const dev = "heighliner-edit"
	namespace := env.Namespace(t)
	bind(t, namespace, dev)
	var requirements []metav1.LabelSelectorRequirement
	for i := range 64 {
		var values []string
		for j := range 100 {
			values = append(values, strings.Repeat("v", 50)+fmt.Sprint(j))
		}
		requirements = append(requirements, metav1.LabelSelectorRequirement{Key: fmt.Sprintf("k%d", i), Operator: metav1.LabelSelectorOpNotIn, Values: values})
	}
	rules := hlnr.FreezeRules{Reason: "trade fair", Indefinite: true, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "web"}, MatchExpressions: requirements}}
	f := &hlnr.Freeze{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fair"}, Spec: hlnr.FreezeSpec{FreezeRules: rules}}
	activate(t, f, true)
	refusesProbe(t, dev, namespace, &hlnr.Freeze{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"}, Spec: hlnr.FreezeSpec{FreezeRules: probeRules(namespace)}})
	labels := map[string]string{"tier": "web"}
	for i := range 20000 {
		labels[fmt.Sprintf("k%d", i)] = fmt.Sprint("z", i)
	}
	ms := newMicroservice(t, namespace, "shop", labels)
	labels["tier"] = "db"
	check(t, env.As(t, dev).Patch(t.Context(), ms.DeepCopy(), relabel(t, labels), client.DryRunAll), "is frozen by Freeze fair")
	check(t, env.As(t, dev).Patch(t.Context(), ms.DeepCopy(), relabel(t, nil), client.DryRunAll), "is frozen by Freeze fair")
}
