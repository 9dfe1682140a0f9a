package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DeletionPolicy defines what remains when an object is deleted.
// +kubebuilder:validation:Enum=Delete;Orphan;Restore
type DeletionPolicy string

const (
	// DeletionDelete deletes all objects that the deleted object owns. It needs no finalizer.
	DeletionDelete DeletionPolicy = "Delete"
	// DeletionOrphan keeps the objects that serve traffic or to which a route refers, and removes their
	// owner references.
	DeletionOrphan DeletionPolicy = "Orphan"
	// DeletionRestore restores the adopted object before the objects that replaced it are deleted.
	DeletionRestore DeletionPolicy = "Restore"
)

// FinalizerDeletionPolicy blocks the deletion of an object with deletionPolicy Orphan or Restore, and
// of a NetworkPolicy with rules in a user-managed route, until the deletionPolicy has been applied.
// It blocks the deletion of a Microservice for at most progressDeadlineSeconds plus drainDelay, and
// the deletion of a NetworkPolicy for at most ten minutes. It does not block the deletion of objects in
// a namespace that is being deleted.
const FinalizerDeletionPolicy = "hlnr.io/deletion-policy"

// Annotations on adopted, user-managed objects. They contain the values that are needed to restore
// the objects.
const (
	// AnnotationAdoptedSelector contains the original selector of an adopted Service, as JSON.
	AnnotationAdoptedSelector = "hlnr.io/adopted-selector"
	// AnnotationAdoptedReplicas contains the original number of replicas of an adopted Deployment.
	AnnotationAdoptedReplicas = "hlnr.io/adopted-replicas"
	// AnnotationRules, followed by the name of a NetworkPolicy, is the key of an annotation on a
	// route. The value is JSON: the rollout state from which the policy derived the backendRefs of its
	// rules in the route, and the original backendRefs of these rules.
	AnnotationRules = "hlnr.io/rules."
)

// AdoptDeployment takes over from an existing Deployment.
type AdoptDeployment struct {
	// deploymentName is the name of a Deployment in this namespace. The Deployment is scaled
	// to zero when a release is active and available, all adopted Services route to this release, and
	// drainDelay has passed since then. The Deployment is not deleted, so that deletionPolicy Restore can
	// scale it up again.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DeploymentName string `json:"deploymentName"`
}

// AdoptService takes over an existing Service that clients use.
type AdoptService struct {
	// serviceName is the name of a Service in this namespace. Its selector is changed to select the
	// active release of the newest group as soon as that release has as many ready endpoints as the
	// Service. The name, addresses and ports of the Service, and routes to it, do not change.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ServiceName string `json:"serviceName"`
}

// AdoptedService is the adoption state of a Service.
type AdoptedService struct {
	// serviceName is the name of the Service.
	// +kubebuilder:validation:MaxLength=63
	ServiceName string `json:"serviceName"`
	// release is the release that the selector of the Service selects. It is empty while the selector
	// is unchanged.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Release string `json:"release,omitempty"`
	// adoptedTime is when the EndpointSlices of the Service first contained only endpoints of this
	// or an earlier release.
	// +optional
	AdoptedTime *metav1.MicroTime `json:"adoptedTime,omitempty"`
}
