// Package v1alpha1 holds the kinds of the API group hlnr.io/v1alpha1.
//
//	ImagePolicy (imgp)            what exists and is allowed?
//	Microservice (msvc)           which release is wanted, and how far is it?
//	VersionedMicroservice (vsvc)  is this release available?
//	NetworkPolicy (hnp)           who gets which release, and is it true?
//
// NetworkPolicy and ImagePolicy are kinds of other API groups too, and
// "kubectl get networkpolicy" finds the firewall kind: use the short names or
// the full networkpolicies.hlnr.io.
//
// +kubebuilder:object:generate=true
// +groupName=hlnr.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of all kinds of this package.
var GroupVersion = schema.GroupVersion{Group: "hlnr.io", Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&ImagePolicy{}, &ImagePolicyList{},
		&Microservice{}, &MicroserviceList{},
		&VersionedMicroservice{}, &VersionedMicroserviceList{},
		&NetworkPolicy{}, &NetworkPolicyList{},
		&GitHubRepository{}, &GitHubRepositoryList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
})

// AddToScheme registers the kinds of this package.
var AddToScheme = schemeBuilder.AddToScheme
