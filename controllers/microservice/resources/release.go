package resources

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// AnnotationConfig is the annotation on a VersionedMicroservice that contains the hash of the user's template.
const AnnotationConfig = "hlnr.io/config"

// minReadyWithoutProbe is the default minReadySeconds for a container without a
// readiness probe. It prevents the promotion of a release whose process exits
// after a few seconds (protocol rule 30).
const minReadyWithoutProbe = 10

// DefaultProgressDeadline is the default for progressDeadlineSeconds.
const DefaultProgressDeadline = 600

// Release returns the VersionedMicroservice of a release. It is an immutable snapshot with the complete pod
// template, which refers to the release's copies of its configuration.
func Release(ms *v1alpha1.Microservice, policy *v1alpha1.ImagePolicy, o *v1alpha1.OfferedRelease, config string, contents Contents, replicas int32, sequence int64) (*v1alpha1.VersionedMicroservice, error) {
	container, err := Container(ms)
	if err != nil {
		return nil, err
	}
	if err := CheckContainers(ms, policy, o); err != nil {
		return nil, err
	}
	identity := Identity(o, config)
	name := Name(ms.Name, o.SemVer.Version, identity)
	labels := map[string]string{
		v1alpha1.LabelMicroservice: ms.Name,
		v1alpha1.LabelGroup:        o.Group,
		v1alpha1.LabelLevel:        string(o.Level),
		v1alpha1.LabelRelease:      name,
	}
	reported := map[string]string{v1alpha1.AnnotationVersion: o.SemVer.Version}
	annotations := map[string]string{
		v1alpha1.AnnotationIdentity: IdentityScheme + "." + identity,
		v1alpha1.AnnotationAttempt:  fmt.Sprint(sequence),
		AnnotationConfig:            config,
	}
	if o.PullRequest > 0 {
		labels[v1alpha1.LabelPullRequest] = strconv.FormatInt(o.PullRequest, 10)
	}
	if o.Revision != "" {
		reported[v1alpha1.AnnotationCommit], annotations[v1alpha1.AnnotationCommit] = o.Revision, o.Revision
	}
	template := ms.Spec.Template.DeepCopy()
	template.Labels = merge(template.Labels, labels)
	template.Annotations = merge(template.Annotations, reported)
	for _, image := range o.Images {
		runs := &template.Spec.Containers[container]
		if image.ContainerName != "" {
			runs = named(&template.Spec, image.ContainerName)
		}
		runs.Image = image.Image
	}
	if o.Fork {
		confine(&template.Spec)
	}
	rename(&template.Spec, name, contents)
	for _, s := range policy.Spec.ImagePullSecrets {
		if !has(template.Spec.ImagePullSecrets, s.Name) {
			template.Spec.ImagePullSecrets = append(template.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: s.Name})
		}
	}
	return &v1alpha1.VersionedMicroservice{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "VersionedMicroservice"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   ms.Namespace,
			Name:        name,
			Labels:      labels,
			Annotations: annotations,
		},
		Spec: v1alpha1.VersionedMicroserviceSpec{
			MicroserviceName: ms.Name,
			Group:            o.Group,
			SemVer:           o.SemVer,
			Images:           slices.Clone(o.Images),
			Template:         *template,
			Replicas:         replicas,
			Availability: v1alpha1.ReleaseAvailability{
				MinReadySeconds:  minReady(ms, container),
				DisruptionBudget: DisruptionBudget(ms, replicas, true),
				Autoscaling:      Autoscaling(ms, replicas, true),
				Exclusive:        ms.Spec.Availability.Exclusive,
			},
		},
	}, nil
}

func minReady(ms *v1alpha1.Microservice, container int) int32 {
	if s := ms.Spec.Availability.MinReadySeconds; s != nil {
		return *s
	}
	if ms.Spec.Template.Spec.Containers[container].ReadinessProbe == nil {
		deadline := cmp.Or(ms.Spec.UpdateStrategy.ProgressDeadlineSeconds, DefaultProgressDeadline)
		return min(minReadyWithoutProbe, deadline/2)
	}
	return 0
}

// DisruptionBudget returns a release's disruption budget. A release that serves, or is about to serve, gets
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

// Autoscaling returns a release's autoscaling: the user's autoscaling if the release serves or is about to
// serve, and otherwise nil. A retained release, or a release that has no pods yet, keeps the number of
// replicas in its specification.
func Autoscaling(ms *v1alpha1.Microservice, replicas int32, serving bool) *v1alpha1.Autoscaling {
	if replicas == 0 || !serving {
		return nil
	}
	return ms.Spec.Availability.Autoscaling.DeepCopy()
}

func merge(a, b map[string]string) map[string]string {
	m := make(map[string]string, len(a)+len(b))
	for k, v := range a {
		m[k] = v
	}
	for k, v := range b {
		m[k] = v
	}
	return m
}

func has(refs []corev1.LocalObjectReference, name string) bool {
	for _, r := range refs {
		if r.Name == name {
			return true
		}
	}
	return false
}
