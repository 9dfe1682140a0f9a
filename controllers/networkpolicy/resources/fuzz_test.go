package resources

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// FuzzStamp checks that a stamp that is read from arbitrary annotations does not change when it is
// written and read again.
func FuzzStamp(f *testing.F) {
	f.Add("1-x=3", "uid/7")
	f.Add("=", "/")
	f.Add("a=b=3", "9223372036854775808/x")
	f.Fuzz(func(t *testing.T, revision, rollout string) {
		annotated := func(annotations map[string]string) metav1.Object {
			return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
		}
		first, ok := StampOf(annotated(map[string]string{v1alpha1.AnnotationRevision: revision, AnnotationRolloutState: rollout}))
		if !ok || first.Group == "" {
			return
		}
		if again, ok := StampOf(annotated(first.Annotations())); !ok || again != first {
			t.Errorf("%+v is read as %+v, %t", first, again, ok)
		}
	})
}
