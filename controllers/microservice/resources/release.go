package resources

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// AnnotationConfig on a VersionedMicroservice holds the hash of the user's
// template.
const AnnotationConfig = "hlnr.io/config"

// minReadyWithoutProbe is the default of minReadySeconds for a container without
// a readiness probe: a process that dies after three seconds must not be promoted
// (protocol rule 30).
const minReadyWithoutProbe = 10

// Release builds the object of a release: one immutable snapshot with the finished
// pod template, which names the release's own copies of what contents are of.
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
			Images:           o.Images,
			Template:         *template,
			Replicas:         replicas,
			Availability: v1alpha1.ReleaseAvailability{
				MinReadySeconds:  minReady(ms, container),
				DisruptionBudget: DisruptionBudget(ms, replicas, true),
				Autoscaling:      Autoscaling(ms, replicas, true),
			},
		},
	}, nil
}

func minReady(ms *v1alpha1.Microservice, container int) int32 {
	if s := ms.Spec.Availability.MinReadySeconds; s != nil {
		return *s
	}
	if ms.Spec.Template.Spec.Containers[container].ReadinessProbe == nil {
		return minReadyWithoutProbe
	}
	return 0
}

// DisruptionBudget of a release: the user's for one that serves or is about to,
// one pod at a time for one that stands by, none below two replicas: it would
// block every drain of a node (protocol rule 35). One pod that an autoscaler may add
// others to has one under which it may go, and not all of them at once. The user's is meant for a release of
// full size. One that has fewer pods, such as a canary that grows with its weight, has a
// budget under which some may go, and not all.
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

// NextBudget is the disruption budget of a release that has one, or nil, and needs another, or
// none. One that is not needed any more is not taken away, which would be a write for each
// release that is retained: it lets one pod go at a time, and so blocks no drain of a node.
func NextBudget(has, needs *v1alpha1.DisruptionBudget) *v1alpha1.DisruptionBudget {
	if has != nil && needs == nil {
		return &v1alpha1.DisruptionBudget{MaxUnavailable: ptr.To(intstr.FromInt32(1))}
	}
	return needs
}

// fullSize is how many replicas a release with all the traffic is to have at least.
func fullSize(ms *v1alpha1.Microservice) int32 {
	a := ms.Spec.Availability
	if a.Autoscaling != nil && a.Autoscaling.MinReplicas != nil {
		return *a.Autoscaling.MinReplicas
	}
	return a.Replicas
}

// covers reports whether a number or percentage, rounded up as a budget rounds it, is all of
// the replicas.
func covers(bound *intstr.IntOrString, replicas int32) bool {
	n, err := intstr.GetScaledValueFromIntOrPercent(bound, int(replicas), true)
	return err == nil && n >= int(replicas)
}

// Autoscaling of a release: the user's for one that serves or is about to. A release
// that stands by, or is to have no pods yet, keeps the replicas that it is given.
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
