package resources

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Service contains the values from which a Service of a policy is built.
type Service struct {
	// Name is the name of the Service.
	Name string
	// Release is the only release that the Service selects.
	Release string
	// Group is the slug of the group; empty for the policy's own Service.
	Group string
	// OfRelease marks the Service of one release. The selector of such a Service never changes.
	OfRelease bool
	// Adopted marks a user's Service. The controller changes only its selector, and Heighliner's
	// label and annotations.
	Adopted bool
	// Stamp identifies the rollout state at which the selector last changed.
	Stamp Stamp
}

// Build returns the Service as it is applied. The selector contains only the label of the release,
// so that other labels on pods do not affect the selection.
func (s Service) Build(policy *v1alpha1.NetworkPolicy, microservice string) *corev1.Service {
	labels := Labels(policy, microservice, s.Group)
	if s.OfRelease {
		labels[v1alpha1.LabelRelease] = s.Release
	}
	ports := make([]corev1.ServicePort, 0, len(policy.Spec.Ports))
	for _, p := range policy.Spec.Ports {
		ports = append(ports, servicePort(p))
	}
	out := &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: policy.Namespace, Name: s.Name, Labels: labels, Annotations: s.Stamp.Annotations(),
		},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{v1alpha1.LabelRelease: s.Release},
			Ports:    ports,
		},
	}
	affinity(policy, &out.Spec)
	return out
}

func servicePort(p v1alpha1.NetworkPort) corev1.ServicePort {
	port := corev1.ServicePort{
		Name: p.Name, Port: p.Port, TargetPort: intstr.FromInt32(p.Port), Protocol: corev1.ProtocolTCP,
	}
	if p.TargetPort != nil {
		port.TargetPort = *p.TargetPort
	}
	if p.Protocol == v1alpha1.ProtocolUDP {
		port.Protocol = corev1.ProtocolUDP
	}
	switch {
	case p.AppProtocol != "":
		port.AppProtocol = &p.AppProtocol
	case p.Protocol == v1alpha1.ProtocolHTTPS:
		port.AppProtocol = new("https")
	case p.Protocol == v1alpha1.ProtocolGRPC:
		port.AppProtocol = new("kubernetes.io/h2c")
	}
	return port
}

// affinityTimeout is the default timeout of session affinity in Kubernetes, in seconds. The controller
// writes it if the policy sets session affinity without a timeout.
const affinityTimeout = 10800

// affinity sets ClientIP session affinity if the policy specifies it.
func affinity(policy *v1alpha1.NetworkPolicy, s *corev1.ServiceSpec) {
	if a := policy.Spec.SessionAffinity; a != nil && a.ClientIP != nil {
		s.SessionAffinity = corev1.ServiceAffinityClientIP
		s.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(cmp.Or(a.ClientIP.TimeoutSeconds, affinityTimeout))}}
	}
}

// Labels returns the labels by which the objects of a policy are found, and the label of their
// group, if any.
func Labels(policy *v1alpha1.NetworkPolicy, microservice, group string) map[string]string {
	labels := map[string]string{
		v1alpha1.LabelPolicy:       policy.Name,
		v1alpha1.LabelMicroservice: microservice,
	}
	if group != "" {
		labels[v1alpha1.LabelGroup] = group
	}
	return labels
}
