package freeze

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/freeze"
)

// TestInvalidSelector checks that a freeze with an invalid selector selects nothing, and that its status does
// not report that the freeze applies.
func TestInvalidSelector(t *testing.T) {
	t.Parallel()
	for operator, active := range map[metav1.LabelSelectorOperator]bool{metav1.LabelSelectorOpExists: true, metav1.LabelSelectorOpNotIn: false} {
		f := &v1alpha1.Freeze{}
		f.Spec.FreezeRules = v1alpha1.FreezeRules{
			Reason: "fair", Indefinite: true,
			Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: operator}}},
		}
		setStatus(&observed{object: f, freeze: freeze.Namespaced(f), status: &f.Status}, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
		if f.Status.Active != active {
			t.Errorf("%s: active %t, want %t: %+v", operator, f.Status.Active, active, f.Status.Conditions)
		}
	}
}
