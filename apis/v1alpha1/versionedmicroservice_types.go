package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// VersionedMicroserviceSpec defines one release. Only replicas, availability and decision
// are mutable.
//
// +kubebuilder:validation:XValidation:rule="self.microserviceName == oldSelf.microserviceName",message="spec.microserviceName is immutable: a release belongs to one Microservice"
// +kubebuilder:validation:XValidation:rule="self.group == oldSelf.group",message="spec.group is immutable: a release belongs to one group"
// +kubebuilder:validation:XValidation:rule="self.semVer == oldSelf.semVer",message="spec.semVer is immutable: the Microservice creates a new release for another version"
// +kubebuilder:validation:XValidation:rule="self.images == oldSelf.images",message="spec.images is immutable: the Microservice creates a new release for another image"
// +kubebuilder:validation:XValidation:rule="self.template == oldSelf.template",message="spec.template is immutable: change the template of the Microservice, which creates a new release"
type VersionedMicroserviceSpec struct {
	// microserviceName is the name of the Microservice that created this release.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	MicroserviceName string `json:"microserviceName"`

	// group is the slug of the release group.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Group string `json:"group"`

	// semVer contains the name of the release group, and the version.
	// +required
	SemVer SemVer `json:"semVer"`

	// images of the release, by tag and digest.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Images []ReleaseImage `json:"images"`

	// template is the complete pod template, including images, labels, pull secrets, and the defaults
	// that applied when the release was created.
	// +required
	Template corev1.PodTemplateSpec `json:"template"`

	// replicas is the desired number of replicas. It is 0 for a release without pods.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Replicas int32 `json:"replicas"`

	// availability contains the availability settings of the release. All of them except
	// minReadySeconds can change in place.
	// +optional
	Availability ReleaseAvailability `json:"availability,omitempty"`

	// decision is a user's decision about this release. It is handled once per id.
	// +optional
	Decision *Decision `json:"decision,omitempty"`
}

// ReleaseAvailability contains the availability settings of a release. All of them except
// minReadySeconds can change in place.
type ReleaseAvailability struct {
	// minReadySeconds is how long a pod must be ready before it counts as available.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// disruptionBudget is set for a release with at least two replicas, or with an autoscaler that can
	// add replicas. The settings of the Microservice apply while the release has traffic. At other
	// times, and if the release later has fewer than two replicas, only one pod can be evicted at a time.
	// +optional
	DisruptionBudget *DisruptionBudget `json:"disruptionBudget,omitempty"`

	// autoscaling is set for a release that receives traffic, or is about to receive it, if the
	// Microservice enables autoscaling. The HorizontalPodAutoscaler never scales below
	// spec.replicas.
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`

	// exclusive delays the pods of this release until no other release of its group has pods.
	// +optional
	Exclusive bool `json:"exclusive,omitempty"`
}

// DisruptionBudget limits the eviction of a release's pods. Exactly one member must be
// set.
// +kubebuilder:validation:XValidation:rule="has(self.minAvailable) != has(self.maxUnavailable)",message="disruptionBudget: set exactly one of minAvailable and maxUnavailable"
type DisruptionBudget struct {
	// minAvailable is the minimum number of available pods, as a number or a percentage.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000 : self.matches('^(100|[1-9]?[0-9])%$')",message="disruptionBudget.minAvailable must be a number from 0 to 1000 or a percentage such as 50%"
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`
	// maxUnavailable is the maximum number of unavailable pods, as a number or a percentage.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000 : self.matches('^(100|[1-9]?[0-9])%$')",message="disruptionBudget.maxUnavailable must be a number from 0 to 1000 or a percentage such as 50%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// DecisionAction is a user's decision about a release.
// +kubebuilder:validation:Enum=Continue;Adopt;Deprecate;Retry
type DecisionAction string

const (
	// DecisionContinue approves the step named in the decision's step field, or ends the pause of
	// this step.
	DecisionContinue DecisionAction = "Continue"
	// DecisionAdopt makes the release active without further steps, once it is
	// available.
	DecisionAdopt DecisionAction = "Adopt"
	// DecisionDeprecate aborts the rollout of a pending or canary release.
	DecisionDeprecate DecisionAction = "Deprecate"
	// DecisionRetry starts a failed release again.
	DecisionRetry DecisionAction = "Retry"
)

// Decision is a user's decision about a release.
// +kubebuilder:validation:XValidation:rule="self.action == 'Continue' ? has(self.step) : !has(self.step)",message="spec.decision.step is required with action Continue (the name of the step, or its number, counted from 1), and must not be set with other actions"
type Decision struct {
	// action to take. Continue approves the step named in the step field, or ends the pause of this
	// step. Adopt makes the release active without further steps, as soon as it is available.
	// Deprecate aborts the rollout of a pending or canary release. Retry starts a failed release
	// again.
	// +required
	Action DecisionAction `json:"action"`

	// id identifies this decision. A decision with the same id as the last handled decision about
	// the release is not handled again.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`

	// step is the name of the step that Continue approves, or its number, counted from 1. It is
	// required if action is Continue, and not allowed with other actions.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="step must be the name of a canary step, or its number, counted from 1"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Step string `json:"step,omitempty"`

	// groups on whose behalf the user decides. If approval.from of the step is set, one of the
	// groups in approval.from is required. The admission policy rejects groups that the user is not
	// a member of.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Groups []string `json:"groups,omitempty"`

	// reason for the decision. It is shown to other users.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
}

// VersionedMicroserviceStatus defines the observed state of a VersionedMicroservice.
type VersionedMicroserviceStatus struct {
	// conditions are Ready, Available and Progressing. Reconciling and Stalled are present only while
	// they are true.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// release is the status of the release in the Microservice. A pending release has not begun its first
	// step: it is not available yet, or is waiting, for example for PreRollout hooks or the end of a
	// freeze. A canary has begun its steps and may receive traffic, but is not active yet. The active
	// release serves the traffic of its group. A release in error did not become available in time, failed, or was
	// aborted. A deprecated release was previously active, or was superseded before it became active.
	// +optional
	Release ReleaseStatus `json:"release,omitempty"`

	// replicas is the number of existing replicas, up to the desired number, which autoscaling might
	// have raised. While replicas are starting, it is usually updated only when all of them are available.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// available is the number of available replicas. While replicas are starting, it is usually updated
	// only when all of them are available.
	// +optional
	Available int32 `json:"available,omitempty"`

	// ready shows the numbers of available and desired replicas, such as "2/2".
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

	// templateHash is the hash of the Deployment's pod template as the API server stored it. If
	// the current pod template has a different hash, the Deployment was edited.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TemplateHash string `json:"templateHash,omitempty"`

	// step of the canary, such as "2/3 Paused".
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Step string `json:"step,omitempty"`

	// failure is the reason why the release is not available, as one CamelCase word, such
	// as ImagePullBackOff, CrashLoopBackOff, QuotaExceeded or Unschedulable.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Failure string `json:"failure,omitempty"`

	// message describes the failure.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// hooks of the Microservice's canary that were called for this release.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Hooks []HookStatus `json:"hooks,omitempty"`

	// activeJobs is the number of hook Jobs that have not ended, excluding those of hooks of type
	// Rollout. The release is not deleted until they have ended.
	// +optional
	ActiveJobs int32 `json:"activeJobs,omitempty"`

	// analysis contains the measurements of the canary.
	// +optional
	Analysis *ReleaseAnalysis `json:"analysis,omitempty"`

	// lastHandledDecision is the decision that was last applied or rejected.
	// +optional
	LastHandledDecision *HandledDecision `json:"lastHandledDecision,omitempty"`
}

// Conditions of a VersionedMicroservice.
const (
	// ConditionAvailable reports whether the desired number of replicas is available for the current
	// generation of the object.
	ConditionAvailable = "Available"
)

// VersionedMicroservice is one immutable release, which a Microservice creates. Users make
// decisions about it in spec.decision.
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

	// spec defines the release.
	// +required
	Spec VersionedMicroserviceSpec `json:"spec"`

	// status reports whether the release is available.
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
