package freeze

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
)

var noon = time.Date(2026, 12, 20, 12, 0, 0, 0, time.UTC)

func at(hours int) metav1.Time { return metav1.NewTime(noon.Add(time.Duration(hours) * time.Hour)) }

func until(hours int) *metav1.Time {
	t := at(hours)
	return &t
}

func labelled(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

var invalid = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "Like"}}}

func named(namespace, name string, rules v1alpha1.FreezeRules, exceptions ...v1alpha1.FreezeException) v1alpha1.Freeze {
	return v1alpha1.Freeze{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.FreezeSpec{FreezeRules: rules, Exceptions: exceptions}}
}

func TestState(t *testing.T) {
	calendar := v1alpha1.FreezeRules{Reason: "fair", Periods: []v1alpha1.FreezePeriod{
		{From: at(20), To: at(30), Reason: "second"}, {From: at(1), To: at(5)}, {From: at(5), To: at(8)}, {From: at(7), To: at(9)},
	}}
	for name, tc := range map[string]struct {
		rules v1alpha1.FreezeRules
		now   int
		want  State
	}{
		"until":                 {v1alpha1.FreezeRules{Reason: "fair", Until: until(2)}, 1, State{Active: true, Until: at(2).Time, Reason: "fair"}},
		"at the end":            {v1alpha1.FreezeRules{Reason: "fair", Until: until(2)}, 2, State{Over: true, Reason: "fair"}},
		"indefinite":            {v1alpha1.FreezeRules{Reason: "fair", Indefinite: true}, 1000, State{Active: true, Reason: "fair"}},
		"before the calendar":   {calendar, 0, State{From: at(1).Time, Until: at(9).Time, Reason: "fair"}},
		"at a start":            {calendar, 1, State{Active: true, Until: at(9).Time, Reason: "fair"}},
		"where periods adjoin":  {calendar, 5, State{Active: true, Until: at(9).Time, Reason: "fair"}},
		"between periods":       {calendar, 9, State{From: at(20).Time, Until: at(30).Time, Reason: "second"}},
		"its own reason":        {calendar, 29, State{Active: true, Until: at(30).Time, Reason: "second"}},
		"after the calendar":    {calendar, 30, State{Over: true, Reason: "fair"}},
		"no end and no periods": {v1alpha1.FreezeRules{Reason: "fair"}, 0, State{Over: true, Reason: "fair"}},
		"an empty period":       {v1alpha1.FreezeRules{Reason: "fair", Periods: []v1alpha1.FreezePeriod{{From: at(3), To: at(3)}}}, 0, State{Over: true, Reason: "fair"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := named("shop", "fair", tc.rules)
			if d := cmp.Diff(tc.want, Namespaced(&f).State(at(tc.now).Time)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestOf(t *testing.T) {
	shop := Subject{Namespace: "shop", Name: "cart", Labels: map[string]string{"tier": "web"}, NamespaceLabels: map[string]string{"stage": "prod"}}
	fair := v1alpha1.FreezeRules{Reason: "fair", Until: until(5)}
	for name, tc := range map[string]struct {
		freezes []v1alpha1.Freeze
		cluster []v1alpha1.ClusterFreezeSpec
		want    *release.Freeze
	}{
		"nothing": {},
		"all of the namespace": {
			freezes: []v1alpha1.Freeze{named("shop", "fair", fair)},
			want:    &release.Freeze{Name: `Freeze "fair"`, Until: at(5).Time, Reason: "fair"},
		},
		"another namespace": {freezes: []v1alpha1.Freeze{named("blog", "fair", fair)}},
		"excepted":          {freezes: []v1alpha1.Freeze{named("shop", "fair", fair, v1alpha1.FreezeException{Name: "cart", Reason: "hotfix"})}},
		"another name is exempt": {
			freezes: []v1alpha1.Freeze{named("shop", "fair", fair, v1alpha1.FreezeException{Name: "search", Reason: "hotfix"})},
			want:    &release.Freeze{Name: `Freeze "fair"`, Until: at(5).Time, Reason: "fair"},
		},
		"by label":         {freezes: []v1alpha1.Freeze{named("shop", "fair", v1alpha1.FreezeRules{Reason: "fair", Until: until(5), Selector: labelled("tier", "db")})}},
		"invalid selector": {freezes: []v1alpha1.Freeze{named("shop", "fair", v1alpha1.FreezeRules{Reason: "fair", Until: until(5), Selector: invalid})}},
		"the freeze that ends last, extended by an adjacent freeze": {
			freezes: []v1alpha1.Freeze{
				named("shop", "fair", fair), named("shop", "release-night", v1alpha1.FreezeRules{Reason: "night", Periods: []v1alpha1.FreezePeriod{{From: at(-1), To: at(6)}}}),
				named("shop", "backup", v1alpha1.FreezeRules{Reason: "backup", Periods: []v1alpha1.FreezePeriod{{From: at(6), To: at(7)}, {From: at(8), To: at(9)}}}),
			},
			want: &release.Freeze{Name: `Freeze "release-night"`, Until: at(7).Time, Reason: "night"},
		},
		"without an end": {
			freezes: []v1alpha1.Freeze{named("shop", "fair", fair), named("shop", "incident", v1alpha1.FreezeRules{Reason: "incident 7", Indefinite: true})},
			want:    &release.Freeze{Name: `Freeze "incident"`, Reason: "incident 7"},
		},
		"the cluster": {
			cluster: []v1alpha1.ClusterFreezeSpec{{FreezeRules: fair, NamespaceSelector: labelled("stage", "prod")}},
			want:    &release.Freeze{Name: `ClusterFreeze "all"`, Until: at(5).Time, Reason: "fair"},
		},
		"other namespaces of the cluster": {cluster: []v1alpha1.ClusterFreezeSpec{{FreezeRules: fair, NamespaceSelector: labelled("stage", "test")}}},
		"an invalid namespaceSelector":    {cluster: []v1alpha1.ClusterFreezeSpec{{FreezeRules: fair, NamespaceSelector: invalid}}},
		"exempt in the cluster":           {cluster: []v1alpha1.ClusterFreezeSpec{{FreezeRules: fair, Exceptions: []v1alpha1.ClusterFreezeException{{Namespace: "shop", Name: "cart", Reason: "hotfix"}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			var cluster []v1alpha1.ClusterFreeze
			for _, spec := range tc.cluster {
				cluster = append(cluster, v1alpha1.ClusterFreeze{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: spec})
			}
			if d := cmp.Diff(tc.want, Of(All(tc.freezes, cluster), shop, noon)); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestCheck checks that an invalid selector is reported with its field.
func TestCheck(t *testing.T) {
	f := v1alpha1.ClusterFreeze{Spec: v1alpha1.ClusterFreezeSpec{FreezeRules: v1alpha1.FreezeRules{Selector: invalid}, NamespaceSelector: invalid}}
	want := "spec.selector: \"Like\" is not a valid label selector operator\nspec.namespaceSelector: \"Like\" is not a valid label selector operator"
	if err := Cluster(&f).Check(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	g := named("shop", "fair", v1alpha1.FreezeRules{Selector: labelled("tier", "web")})
	if err := Namespaced(&g).Check(); err != nil {
		t.Error(err)
	}
}
