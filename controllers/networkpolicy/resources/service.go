package resources

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Service is what a Service of a policy is made from.
type Service struct {
	// Name of the Service.
	Name string
	// Release that its selector names: exactly one, always.
	Release string
	// Group is the slug of the group; empty for the policy's own Service.
	Group string
	// OfRelease marks the Service of one release, whose selector never changes.
	OfRelease bool
	// Adopted marks a Service of the user, of which nothing but the selector is ours.
	Adopted bool
	// Stamp of the rollout state at which the selector was last moved.
	Stamp Stamp
}

// Build returns the Service as it is applied. The selector is the release's label and nothing else:
// labels that users put on pods never change who is selected.
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

// affinityTimeout is the default of Kubernetes, which is written out.
const affinityTimeout = 10800

// affinity by the caller's address, where the policy asks for it.
func affinity(policy *v1alpha1.NetworkPolicy, s *corev1.ServiceSpec) {
	if a := policy.Spec.SessionAffinity; a != nil && a.ClientIP != nil {
		s.SessionAffinity = corev1.ServiceAffinityClientIP
		s.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(cmp.Or(a.ClientIP.TimeoutSeconds, affinityTimeout))}}
	}
}

// Labels of the child objects of a policy: what they are found by, and the group that they
// are of.
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
