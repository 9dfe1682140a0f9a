package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DeletionPolicy says what the deletion of an object leaves.
// +kubebuilder:validation:Enum=Delete;Orphan;Restore
type DeletionPolicy string

const (
	// DeletionDelete removes all that the object made. It has no finalizer: nothing
	// waits.
	DeletionDelete DeletionPolicy = "Delete"
	// DeletionOrphan leaves what runs and serves, without owner.
	DeletionOrphan DeletionPolicy = "Orphan"
	// DeletionRestore brings back what was adopted, before the rest is removed.
	DeletionRestore DeletionPolicy = "Restore"
)

// FinalizerDeletionPolicy holds an object with deletionPolicy Orphan or Restore
// until that is done; for progressDeadlineSeconds at most, and not at all in a
// namespace that is being deleted.
const FinalizerDeletionPolicy = "hlnr.io/deletion-policy"

// Annotations on objects of the user that were adopted: what brings them back.
const (
	// AnnotationAdoptedSelector on a Service is its selector as it was, as JSON.
	AnnotationAdoptedSelector = "hlnr.io/adopted-selector"
	// AnnotationAdoptedReplicas on a Deployment is its number of replicas as it was.
	AnnotationAdoptedReplicas = "hlnr.io/adopted-replicas"
	// AnnotationRules on a route is, with the name of a NetworkPolicy behind it, what
	// that policy has in the route, as JSON: the state of the ledger that its rules
	// carry, and their backendRefs as they were.
	AnnotationRules = "hlnr.io/rules."
)

// AdoptDeployment takes over from a Deployment that runs the service now.
type AdoptDeployment struct {
	// deploymentName is the Deployment of this namespace that is scaled to zero, once
	// the first active release has its traffic. It stays, for deletionPolicy Restore.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DeploymentName string `json:"deploymentName"`
}

// AdoptService takes over a Service that callers use now.
type AdoptService struct {
	// serviceName is the Service of this namespace whose selector is led to the active
	// release of the newest group, once that has as many ready endpoints as the
	// Service. Its name, addresses and ports stay, and so do routes to it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ServiceName string `json:"serviceName"`
}

// AdoptedService is how far a policy is with the Service that it adopts.
type AdoptedService struct {
	// serviceName of the Service.
	// +kubebuilder:validation:MaxLength=63
	ServiceName string `json:"serviceName"`
	// release that its selector leads to; empty while it is as it was.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Release string `json:"release,omitempty"`
	// adoptedTime is when its EndpointSlices first named endpoints of that or an
	// earlier release only.
	// +optional
	AdoptedTime *metav1.MicroTime `json:"adoptedTime,omitempty"`
}
