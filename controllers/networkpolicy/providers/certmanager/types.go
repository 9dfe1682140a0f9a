package certmanager

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the API.
var GroupVersion = schema.GroupVersion{Group: "cert-manager.io", Version: "v1"}

// AddToScheme adds Certificates to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Certificate{}, &CertificateList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// Certificate contains the fields of Certificate of cert-manager.io/v1 that this package reads and
// writes.
type Certificate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              CertificateSpec   `json:"spec"`
	Status            CertificateStatus `json:"status,omitempty"`
}

// CertificateList is a list of Certificates.
type CertificateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Certificate `json:"items"`
}

// CertificateSpec defines the desired certificate.
type CertificateSpec struct {
	// SecretName is the name of the Secret in which cert-manager stores the certificate.
	SecretName string `json:"secretName"`
	// DNSNames are the DNS names in the certificate.
	DNSNames []string `json:"dnsNames,omitempty"`
	// IssuerRef refers to the issuer that signs the certificate.
	IssuerRef IssuerRef `json:"issuerRef"`
}

// IssuerRef refers to an issuer.
type IssuerRef struct {
	Name  string `json:"name"`
	Kind  string `json:"kind,omitempty"`
	Group string `json:"group,omitempty"`
}

// CertificateStatus is the status of a Certificate.
type CertificateStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// NotAfter is the time at which the certificate in the Secret expires.
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
}

// DeepCopyObject copies the Certificate.
func (c *Certificate) DeepCopyObject() runtime.Object {
	if c == nil {
		return nil
	}
	out := &Certificate{TypeMeta: c.TypeMeta, Spec: c.Spec}
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.DNSNames = slices.Clone(c.Spec.DNSNames)
	out.Status.Conditions = slices.Clone(c.Status.Conditions) // Conditions contain only pointers to immutable values.
	out.Status.NotAfter = c.Status.NotAfter.DeepCopy()
	return out
}

// DeepCopyObject copies the list.
func (l *CertificateList) DeepCopyObject() runtime.Object {
	if l == nil {
		return nil
	}
	out := &CertificateList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Certificate))
	}
	return out
}
