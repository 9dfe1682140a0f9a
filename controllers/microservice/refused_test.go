package microservice

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestRefusedRolloutState checks that Ready reports a rollout state that the API server rejects, and that no
// writes follow. In particular, no release in the stored rollout state is deleted.
func TestRefusedRolloutState(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.upgrade(func(string, string) {})
	s.offer("1.3.0", "1.1.1")
	before := s.rolloutState()
	refused := true
	s.before = func(what string) error {
		// The second write in such a reconcile, which changes only conditions, is accepted.
		if what == "status" && refused {
			refused = false
			return apierrors.NewInvalid(schema.GroupKind{Group: "hlnr.io", Kind: "Microservice"}, "shop",
				field.ErrorList{field.TooMany(field.NewPath("status", "releaseGroups[0]", "releases"), 33, 32)})
		}
		return nil
	}
	for range 3 {
		refused = true
		result, err := s.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s.ms())})
		if err != nil || result.RequeueAfter != afterStateRefused {
			t.Errorf("reconcile with a rejected rollout state = %v, %v", result, err)
		}
		if got := condition(s.ms(), "Ready"); !strings.HasPrefix(got, "False StateRefused: ") || !strings.Contains(got, "Too many: 33") {
			t.Errorf("Ready is %q", got)
		}
		if got := condition(s.ms(), "Stalled"); !strings.HasPrefix(got, "True StateRefused: ") {
			t.Errorf("Stalled is %q", got)
		}
	}
	after := strings.Split(s.rolloutState(), "\n")
	if got := strings.Join(after[:len(after)-1], "\n"); got != before || after[len(after)-1] != "without a row: 1.3.0" {
		t.Errorf("the state changed from\n%s\nto\n%s", before, s.rolloutState())
	}
	s.before = func(what string) error {
		if what == "status" {
			return apierrors.NewInternalError(errors.New("down"))
		}
		return nil
	}
	if _, err := s.pass(); err == nil {
		t.Error("another error of the write is not retried")
	}
	s.before = nil
	s.play()
	same(t, "active at the end", s.active().Spec.SemVer.Version, "1.3.0")
	same(t, "Stalled at the end", condition(s.ms(), "Stalled"), "")
}
