package view_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
)

// TestAvailableBeforeItsRecord checks that an active release whose pods are all ready does not count as failed while its record
// is older, as right after a promotion.
func TestAvailableBeforeItsRecord(t *testing.T) {
	t.Parallel()
	for _, ready := range []int{3, 2} {
		s, ms := played(t, "active")
		row := &ms.Status.ReleaseGroups[0].Releases[0]
		row.Available = false
		s.Input.Pods = []corev1.Pod{}
		for i := range 3 {
			p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ms.Namespace, Name: string(rune('a' + i)), Labels: map[string]string{v1alpha1.LabelRelease: row.VersionedMicroservice}}}
			p.Status.Phase = corev1.PodRunning
			if i < ready {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			}
			s.Input.Pods = append(s.Input.Pods, p)
		}
		svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
		want := view.Stable
		if ready < 3 {
			want = view.Failed
		}
		if svc.State.Class != want {
			t.Errorf("%d of 3 pods are ready: %s, %s", ready, svc.State.Class, svc.State.Sentence)
		}
	}
}
