package resources

import (
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// DisruptionBudget returns a release's disruption budget. A release that serves traffic, or is about to, gets
// the user's budget. A retained release gets a budget that allows the eviction of one pod at a time. If a
// release has fewer than two replicas, there is no budget, because a budget would block every node drain
// (protocol rule 35). The exception is a single-pod release to which an autoscaler may add pods: its budget
// allows the eviction of one pod at a time. The user's budget applies to a full-size release. A release with
// fewer pods, such as a canary that grows with its weight, gets a budget that allows the eviction of some
// pods, but not all.
func DisruptionBudget(ms *v1alpha1.Microservice, replicas int32, serving bool) *v1alpha1.DisruptionBudget {
	a, all := ms.Spec.Availability, fullSize(ms)
	switch {
	case replicas < 2 && !(serving && replicas == 1 && a.Autoscaling != nil && a.Autoscaling.MaxReplicas > 1):
		return nil
	case replicas < 2:
		return &v1alpha1.DisruptionBudget{MaxUnavailable: ptr.To(intstr.FromInt32(1))}
	case serving && a.MinAvailable != nil:
		if replicas < all && covers(a.MinAvailable, replicas) && !covers(a.MinAvailable, all) {
			break
		}
		return &v1alpha1.DisruptionBudget{MinAvailable: a.MinAvailable}
	case serving && a.MaxUnavailable != nil:
		if replicas < all && covers(a.MaxUnavailable, replicas) && !covers(a.MaxUnavailable, all) {
			return &v1alpha1.DisruptionBudget{MaxUnavailable: ptr.To(intstr.FromInt32(replicas - 1))}
		}
		return &v1alpha1.DisruptionBudget{MaxUnavailable: a.MaxUnavailable}
	}
	return &v1alpha1.DisruptionBudget{MaxUnavailable: ptr.To(intstr.FromInt32(1))}
}

// NextBudget returns the disruption budget to write for a release. has is the existing budget, and needs is
// the required budget; either may be nil. A budget that is no longer required is not deleted, because
// deletion would require one write for each retained release. Instead, it is relaxed so that it allows the
// eviction of one pod at a time and does not block node drains.
func NextBudget(has, needs *v1alpha1.DisruptionBudget) *v1alpha1.DisruptionBudget {
	if has != nil && needs == nil {
		return &v1alpha1.DisruptionBudget{MaxUnavailable: ptr.To(intstr.FromInt32(1))}
	}
	return needs
}

// fullSize returns the minimum number of replicas of a release that receives all traffic.
func fullSize(ms *v1alpha1.Microservice) int32 {
	a := ms.Spec.Availability
	if a.Autoscaling != nil && a.Autoscaling.MinReplicas != nil {
		return *a.Autoscaling.MinReplicas
	}
	return a.Replicas
}

// covers reports whether a number or percentage, rounded up as in a budget, is at least the number of replicas.
func covers(bound *intstr.IntOrString, replicas int32) bool {
	n, err := intstr.GetScaledValueFromIntOrPercent(bound, int(replicas), true)
	return err == nil && n >= int(replicas)
}
