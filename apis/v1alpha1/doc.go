// Package v1alpha1 contains the kinds of the API group hlnr.io/v1alpha1.
//
//	ImagePolicy (imgp)               which versions of an image are offered
//	GitHubRepository (ghr)           the releases, tags and pull requests of a repository
//	Microservice (msvc)              which releases run, and the state of their rollouts
//	VersionedMicroservice (vsvc)     one release, and whether it is available
//	NetworkPolicy (hnp)              which traffic is routed to which release
//	Freeze (frz)                     periods in which no release of a namespace starts or gets more traffic
//	ClusterFreeze (cfrz)             the same for the cluster
//	NotificationPolicy (ntfp)        which transitions of releases are reported, and to which receivers
//	AnalysisTemplate (atpl)          an analysis that Microservices of a namespace share
//	ClusterAnalysisTemplate (catpl)  an analysis that Microservices of several namespaces share
//
// Other API groups also have kinds named NetworkPolicy, ImagePolicy and AnalysisTemplate, and
// "kubectl get networkpolicy" lists the NetworkPolicies of networking.k8s.io: use a short
// name, such as hnp, or a full name, such as networkpolicies.hlnr.io.
//
//	adoption_types.go               adoption of existing Deployments and Services, and deletion policies
//	analysis_types.go               analysis of a canary: metrics, providers, results
//	analysistemplate_types.go       AnalysisTemplate and ClusterAnalysisTemplate, and references to them
//	configuration_types.go          ConfigMaps and Secrets as part of a release
//	earlier_status.go               the status of a Microservice as earlier versions of the manager stored it
//	failure_types.go                the values of status.failure of a VersionedMicroservice
//	freeze_types.go                 Freeze and ClusterFreeze
//	githubrepository_types.go       GitHubRepository
//	githubsource_types.go           versions from GitHub: releases, tags, pull requests
//	hook_types.go                   hooks, their Jobs, and gates of a rollout
//	imagepolicy_types.go            ImagePolicy
//	microservice_types.go           Microservice, its update strategy, and Microservices that roll out together
//	microservicestatus_types.go     status of a Microservice: the rollout state
//	networkpolicy_types.go          NetworkPolicy, its domains and providers
//	notificationpolicy_types.go     NotificationPolicy, its receivers and the record of what was reported
//	references.go                   the GitHubRepository of an ImagePolicy, and the namespaces that may use it
//	shared_types.go                 types, conditions, labels and annotations that several kinds share
//	tls_types.go                    TLS of a domain
//	versionedmicroservice_types.go  VersionedMicroservice
//
// +kubebuilder:object:generate=true
// +groupName=hlnr.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of all kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "hlnr.io", Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&ImagePolicy{}, &ImagePolicyList{},
		&Microservice{}, &MicroserviceList{},
		&VersionedMicroservice{}, &VersionedMicroserviceList{},
		&NetworkPolicy{}, &NetworkPolicyList{},
		&GitHubRepository{}, &GitHubRepositoryList{},
		&Freeze{}, &FreezeList{},
		&ClusterFreeze{}, &ClusterFreezeList{},
		&NotificationPolicy{}, &NotificationPolicyList{},
		&AnalysisTemplate{}, &AnalysisTemplateList{},
		&ClusterAnalysisTemplate{}, &ClusterAnalysisTemplateList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
})

// AddToScheme registers the kinds in this package.
var AddToScheme = schemeBuilder.AddToScheme
