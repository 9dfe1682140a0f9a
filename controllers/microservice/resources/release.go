package resources

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// AnnotationConfig is the annotation on a VersionedMicroservice that contains the hash returned by Config.
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

// Autoscaling returns a release's autoscaling settings: the user's settings if the release receives traffic or
// is about to receive it, and otherwise nil. A retained release, or a release that has no pods yet, keeps the
// number of replicas in its specification.
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
