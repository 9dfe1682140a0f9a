package v1alpha1_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

func TestAllowsNamespace(t *testing.T) {
	team := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "checkout"}}
	broken := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Resembles"}}}
	for name, test := range map[string]struct {
		allowed       *v1alpha1.AllowedNamespaces
		namespace     string
		labels        map[string]string
		want, labeled bool
		fails         bool
	}{
		"own namespace, no setting":         {nil, "shop", nil, true, false, false},
		"another namespace, no setting":     {nil, "evil", nil, false, false, false},
		"own namespace, other labels":       {&v1alpha1.AllowedNamespaces{From: "Selector", Selector: team}, "shop", nil, true, false, false},
		"another namespace with the labels": {&v1alpha1.AllowedNamespaces{From: "Selector", Selector: team}, "cart", map[string]string{"team": "checkout"}, true, true, false},
		"another namespace, other labels":   {&v1alpha1.AllowedNamespaces{From: "Selector", Selector: team}, "cart", map[string]string{"team": "other"}, false, true, false},
		"an empty selector selects all":     {&v1alpha1.AllowedNamespaces{From: "Selector", Selector: &metav1.LabelSelector{}}, "cart", nil, true, true, false},
		"an invalid selector":               {&v1alpha1.AllowedNamespaces{From: "Selector", Selector: broken}, "cart", nil, false, true, true},
		"a missing selector":                {&v1alpha1.AllowedNamespaces{From: "Selector"}, "cart", nil, false, true, false},
		"same":                              {&v1alpha1.AllowedNamespaces{From: "Same"}, "cart", nil, false, false, false},
		"all":                               {&v1alpha1.AllowedNamespaces{From: "All"}, "cart", nil, true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			repository := &v1alpha1.GitHubRepository{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}
			repository.Spec.AllowedNamespaces = test.allowed
			got, err := repository.AllowsNamespace(test.namespace, test.labels)
			if got != test.want || (err != nil) != test.fails {
				t.Errorf("allows: got %t, %v, want %t", got, err, test.want)
			}
			if got := repository.NeedsNamespaceLabels(test.namespace); got != test.labeled {
				t.Errorf("needs labels: got %t, want %t", got, test.labeled)
			}
		})
	}
}
