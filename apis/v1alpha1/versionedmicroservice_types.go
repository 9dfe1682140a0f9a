package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// VersionedMicroserviceSpec is one release. All but replicas, availability and
// decision is immutable.
//
// +kubebuilder:validation:XValidation:rule="self.microserviceName == oldSelf.microserviceName",message="spec.microserviceName is immutable: a release belongs to one Microservice"
// +kubebuilder:validation:XValidation:rule="self.group == oldSelf.group",message="spec.group is immutable: a release belongs to one group"
// +kubebuilder:validation:XValidation:rule="self.semVer == oldSelf.semVer",message="spec.semVer is immutable: another version is another release"
// +kubebuilder:validation:XValidation:rule="self.images == oldSelf.images",message="spec.images is immutable: another image is another release"
// +kubebuilder:validation:XValidation:rule="self.template == oldSelf.template",message="spec.template is immutable: change the Microservice's template, which makes a new release"
type VersionedMicroserviceSpec struct {
	// microserviceName is the Microservice that made this release.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	MicroserviceName string `json:"microserviceName"`

	// group is the slug of the release group.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Group string `json:"group"`

	// semVer is the stream's name and the version.
	// +required
	SemVer SemVer `json:"semVer"`

	// images by tag and digest.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Images []ReleaseImage `json:"images"`

	// template is the finished pod template: images, labels, pull secrets and all
	// defaults of the time at which the release was made.
	// +required
	Template corev1.PodTemplateSpec `json:"template"`

	// replicas that the Microservice wants now; 0 for a release that keeps no pods.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Replicas int32 `json:"replicas"`

	// availability of the pods.
	// +optional
	Availability ReleaseAvailability `json:"availability,omitempty"`

	// decision is a person's word on this release. It is honoured once per id.
	// +optional
	Decision *Decision `json:"decision,omitempty"`
}

// ReleaseAvailability is what may change on a release in place.
type ReleaseAvailability struct {
	// minReadySeconds that a pod must be ready to count as available.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// disruptionBudget is there for a release with traffic and at least two
	// replicas.
	// +optional
	DisruptionBudget *DisruptionBudget `json:"disruptionBudget,omitempty"`

	// autoscaling is there for a release that serves or is about to, where the
	// Microservice asks for it. Its HorizontalPodAutoscaler never goes below
	// spec.replicas.
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`
}

// DisruptionBudget bounds evictions of a release's pods: exactly one member is
// set.
// +kubebuilder:validation:XValidation:rule="has(self.minAvailable) != has(self.maxUnavailable)",message="disruptionBudget: set exactly one of minAvailable and maxUnavailable"
type DisruptionBudget struct {
	// minAvailable pods, as a number or a percentage.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000 : self.matches('^(100|[1-9]?[0-9])%$')",message="disruptionBudget.minAvailable must be a number from 0 to 1000 or a percentage such as 50%"
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`
	// maxUnavailable pods, as a number or a percentage.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000 : self.matches('^(100|[1-9]?[0-9])%$')",message="disruptionBudget.maxUnavailable must be a number from 0 to 1000 or a percentage such as 50%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// DecisionAction is what a person decides on a release.
// +kubebuilder:validation:Enum=Continue;Adopt;Deprecate;Retry
type DecisionAction string

const (
	// DecisionContinue releases the step that it names.
	DecisionContinue DecisionAction = "Continue"
	// DecisionAdopt makes the release active without further steps, once it is
	// available.
	DecisionAdopt DecisionAction = "Adopt"
	// DecisionDeprecate turns a pending or canary release down.
	DecisionDeprecate DecisionAction = "Deprecate"
	// DecisionRetry starts a failed release again.
	DecisionRetry DecisionAction = "Retry"
)

// Decision is a person's word on a release.
// +kubebuilder:validation:XValidation:rule="self.action == 'Continue' ? has(self.step) : !has(self.step)",message="spec.decision.step names the step that action Continue releases (its name, or its number from 1), and goes with no other action"
type Decision struct {
	// action that is wanted.
	// +required
	Action DecisionAction `json:"action"`

	// id makes this decision one of its own: it is honoured once.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`

	// step that Continue releases: its name, or its number from 1.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="step is the name of a step of the canary, or its number from 1"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Step string `json:"step,omitempty"`

	// reason is kept for the reader.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
}

// VersionedMicroserviceStatus says whether the release is available.
type VersionedMicroserviceStatus struct {
	// conditions: Ready, Available, Progressing; Reconciling and Stalled while they
	// hold.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// release is the status that the Microservice's ledger gives it.
	// +optional
	Release ReleaseStatus `json:"release,omitempty"`

	// replicas that exist; with autoscaling those that it asks for and that exist.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// available replicas.
	// +optional
	Available int32 `json:"available,omitempty"`

	// ready sums up, as in "2/2".
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Ready string `json:"ready,omitempty"`

	// selector of the pods, for the scale subresource.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Selector string `json:"selector,omitempty"`

	// image that the pods run.
	// +optional
	Image string `json:"image,omitempty"`

	// templateHash is the hash of the Deployment's pod template as the server stored it.
	// A Deployment whose template has another one was edited.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TemplateHash string `json:"templateHash,omitempty"`

	// step of the canary, as in "2/3 Paused".
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Step string `json:"step,omitempty"`

	// failure is why the release is not available, in one CamelCase word:
	// ImagePullBackOff, CrashLoopBackOff, QuotaExceeded, Unschedulable, …
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Failure string `json:"failure,omitempty"`

	// message says more about the failure.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// hooks of the Microservice's canary that were called for this release.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Hooks []HookStatus `json:"hooks,omitempty"`

	// analysis is what was measured while it was a canary.
	// +optional
	Analysis *ReleaseAnalysis `json:"analysis,omitempty"`

	// lastHandledDecision is the decision that was honoured or turned down last.
	// +optional
	LastHandledDecision *HandledDecision `json:"lastHandledDecision,omitempty"`
}

// Conditions of a VersionedMicroservice.
const (
	// ConditionAvailable says that as many replicas are available as are wanted,
	// at this generation.
	ConditionAvailable = "Available"
)

// VersionedMicroservice is one immutable release. A Microservice makes it; a
// person's word on it is spec.decision.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=vsvc,categories=hlnr
// +kubebuilder:selectablefield:JSONPath=`.spec.microserviceName`
// +kubebuilder:selectablefield:JSONPath=`.spec.group`
// +kubebuilder:printcolumn:name="Microservice",type=string,JSONPath=`.spec.microserviceName`
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.group`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.semVer.version`
// +kubebuilder:printcolumn:name="Release",type=string,JSONPath=`.status.release`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Step",type=string,priority=1,JSONPath=`.status.step`
// +kubebuilder:printcolumn:name="Image",type=string,priority=1,JSONPath=`.status.image`
// +kubebuilder:printcolumn:name="Status",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type VersionedMicroservice struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the release.
	// +required
	Spec VersionedMicroserviceSpec `json:"spec"`

	// status says whether the release is available.
	// +optional
	Status VersionedMicroserviceStatus `json:"status,omitempty"`
}

// VersionedMicroserviceList is a list of VersionedMicroservices.
// +kubebuilder:object:root=true
type VersionedMicroserviceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VersionedMicroservice `json:"items"`
}
