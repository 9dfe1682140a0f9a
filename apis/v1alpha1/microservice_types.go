package v1alpha1

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// MicroserviceSpec defines how the versions of one image run, and which of them is
// wanted.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.adoptFrom) || (has(self.adoptFrom) && self.adoptFrom == oldSelf.adoptFrom)",message="spec.adoptFrom cannot be changed or removed: delete the Microservice, with deletionPolicy Restore or Orphan, and create another"
// +kubebuilder:validation:XValidation:rule="!has(self.adoptFrom) || (has(self.deletionPolicy) && self.deletionPolicy != 'Delete')",message="spec.deletionPolicy must be Restore or Orphan together with spec.adoptFrom: otherwise the deletion of the Microservice would leave nothing that serves"
type MicroserviceSpec struct {
	// imagePolicyRef names the ImagePolicy whose versions run.
	// +required
	ImagePolicyRef Reference `json:"imagePolicyRef"`

	// template of the pods of every release. The image of the container that
	// containerName names is filled in. A change makes a new release of the same
	// version; running pods are never changed.
	// +required
	Template corev1.PodTemplateSpec `json:"template"`

	// containerName is the container that gets the image. Defaults to the only
	// container, or to the one that is named like the Microservice; required where
	// the template has several and none of that name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ContainerName string `json:"containerName,omitempty"`

	// paused stops all that starts automatically: new releases, steps, promotions and
	// retirements. It never stops a return from a canary that lost its pods, a
	// drain in progress, a decision, a pin to a release that is retained, or the return to
	// one from a version that is denied.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// endedGroups are release groups that are ended on purpose, by name ("1.x"), slug
	// ("1-x"), or number of a pull request: they lose their traffic, are drained and
	// removed, without an effect on other groups, and do not start again while they
	// are named here. One whose domains are to move to a newer group, which has
	// nothing active yet, waits for that.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	EndedGroups []string `json:"endedGroups,omitempty"`

	// availability sets how many pods a release has. It is no part of a release's
	// identity: a change scales, and starts no release.
	// +optional
	// +kubebuilder:default={}
	Availability Availability `json:"availability,omitempty"`

	// updateStrategy decides which release is active, and how one becomes it.
	// +optional
	// +kubebuilder:default={}
	UpdateStrategy UpdateStrategy `json:"updateStrategy,omitempty"`

	// adoptFrom takes over from a Deployment that runs the service now.
	// +optional
	AdoptFrom *AdoptDeployment `json:"adoptFrom,omitempty"`

	// deletionPolicy selects what the deletion of the Microservice leaves: nothing
	// (Delete, the default), the Deployments of the releases that have traffic
	// (Orphan), or the adopted Deployment with the replicas that it had (Restore).
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// configuration selects which ConfigMaps and Secrets that the template names are
	// part of a release. Defaults to ConfigMaps.
	// +optional
	Configuration *Configuration `json:"configuration,omitempty"`

	// previews bound the groups that are pull requests.
	// +optional
	Previews *Previews `json:"previews,omitempty"`
}

// Previews bound the groups that are pull requests.
type Previews struct {
	// maxGroups that run at a time. Those that run keep their place; a place that comes
	// free goes to the newest push. Defaults to 20.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	MaxGroups int32 `json:"maxGroups,omitempty"`

	// maxAge of a preview since its last push: then it is taken down until the next
	// push. At least 1m. Defaults to as long as the pull request is open.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="spec.previews.maxAge must be at least 1m"
	MaxAge Duration `json:"maxAge,omitempty"`

	// keepAfterClose is how long a preview stays after its pull request was closed.
	// By default it is removed after its drain.
	// +optional
	KeepAfterClose Duration `json:"keepAfterClose,omitempty"`
}

// Availability sets how many pods a release has.
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.replicas) || self.replicas <= self.autoscaling.maxReplicas",message="spec.availability: replicas must not be above autoscaling.maxReplicas"
// +kubebuilder:validation:XValidation:rule="!(has(self.minAvailable) && has(self.maxUnavailable))",message="spec.availability: set at most one of minAvailable and maxUnavailable"
type Availability struct {
	// replicas of a release that serves or is about to.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Replicas int32 `json:"replicas,omitempty"`

	// autoscaling gives each release that serves or is about to a
	// HorizontalPodAutoscaler. By default releases have a fixed number of
	// replicas.
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`

	// minAvailable of the PodDisruptionBudget of a release with traffic and at
	// least two replicas, as a number or a percentage.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000 : self.matches('^(100|[1-9]?[0-9])%$')",message="spec.availability.minAvailable must be a number from 0 to 1000 or a percentage such as 50%"
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// maxUnavailable of that PodDisruptionBudget. Defaults to 1.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000 : self.matches('^(100|[1-9]?[0-9])%$')",message="spec.availability.maxUnavailable must be a number from 0 to 1000 or a percentage such as 50%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// minReadySeconds that a pod must be ready to count as available. Defaults to 10
	// for a container without readiness probe, else 0. Fixed when a release is
	// made.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// standbyReplicas of a release that was active and is retained for rollback: a
	// number, or Full for as many as it had. Defaults to 1. A release that never had
	// traffic is retained without pods.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000 : self == 'Full'",message="spec.availability.standbyReplicas must be a number from 0 to 1000 or Full"
	StandbyReplicas *intstr.IntOrString `json:"standbyReplicas,omitempty"`
}

// Autoscaling is what a HorizontalPodAutoscaler of a release is made from. A
// release that takes over the traffic of another has at least the replicas of that
// one, whatever the metrics say.
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",message="autoscaling: minReplicas must not be above maxReplicas"
type Autoscaling struct {
	// minReplicas is the minimum number of replicas of a release that receives traffic.
	// Defaults to availability.replicas.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas of a release.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxReplicas int32 `json:"maxReplicas"`

	// metrics as in autoscaling/v2. Defaults to that of the HorizontalPodAutoscaler, 80
	// percent of the requested CPU.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Metrics []autoscalingv2.MetricSpec `json:"metrics,omitempty"`

	// behavior as in autoscaling/v2.
	// +optional
	Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior,omitempty"`
}

// UpdateStrategy decides which release of a group is active. manual goes before
// latest.
type UpdateStrategy struct {
	// latest takes the highest version that is offered and has not failed. It is
	// what happens without a word too.
	// +optional
	Latest *LatestUpdateStrategy `json:"latest,omitempty"`

	// manual pins groups to versions.
	// +optional
	Manual *ManualUpdateStrategy `json:"manual,omitempty"`

	// minimumAvailable is the number of releases of a group that are retained, the
	// active one included: the others are there for a rollback without waiting.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	MinimumAvailable int32 `json:"minimumAvailable,omitempty"`

	// progressDeadlineSeconds that a release may take from start to available, and
	// a step to be available and programmed, before it is given up. Pauses do not
	// count while the release is healthy.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	ProgressDeadlineSeconds int32 `json:"progressDeadlineSeconds,omitempty"`

	// drainDelay between the last route that names a release and the end of its
	// pods; at least the manager's --min-drain-delay (5s).
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('24h')",message="spec.updateStrategy.drainDelay must be at most 24h"
	DrainDelay Duration `json:"drainDelay,omitempty"`

	// canary defines the steps by which a new release gets the traffic. By default immediately,
	// when it is available. The first release of a group takes no steps.
	// +optional
	Canary *CanaryStrategy `json:"canary,omitempty"`
}

// LatestUpdateStrategy has no settings.
type LatestUpdateStrategy struct{}

// PinConfiguration is the template with which a pinned version runs.
// +kubebuilder:validation:Enum=Retained;Current
type PinConfiguration string

const (
	// PinRetained is the newest release of the version that ever was active, its
	// template included; where there is none, a new one of the present template.
	PinRetained PinConfiguration = "Retained"
	// PinCurrent is the version with the present template.
	PinCurrent PinConfiguration = "Current"
)

// ManualUpdateStrategy pins groups to versions or releases. Groups without a pin
// follow latest. A version or release that no group holds starts nothing anywhere.
// +kubebuilder:validation:XValidation:rule="has(self.semVer) || has(self.release) || (has(self.groups) && size(self.groups) > 0)",message="spec.updateStrategy.manual: set semVer, release or groups"
// +kubebuilder:validation:XValidation:rule="!has(self.release) || !has(self.semVer) && !has(self.configuration)",message="spec.updateStrategy.manual.release: a release has its version and configuration: remove semVer and configuration, or release"
type ManualUpdateStrategy struct {
	// semVer pins the group that holds this version.
	// +optional
	SemVer *SemVer `json:"semVer,omitempty"`

	// release pins the group that holds this release, by the name of its
	// VersionedMicroservice, to exactly what ran under it, configuration included.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Release string `json:"release,omitempty"`

	// configuration is the template with which the pinned version runs. Defaults to
	// Retained.
	// +optional
	Configuration PinConfiguration `json:"configuration,omitempty"`

	// expireTime ends the pin.
	// +optional
	ExpireTime *metav1.Time `json:"expireTime,omitempty"`

	// reason is retained and shown in condition Pinned.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// groups pins further groups, each by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Groups []GroupPin `json:"groups,omitempty"`
}

// GroupPin pins one group to a version or a release.
// +kubebuilder:validation:XValidation:rule="has(self.version) != has(self.release)",message="spec.updateStrategy.manual.groups: set version, or release, and not both"
// +kubebuilder:validation:XValidation:rule="!(has(self.release) && has(self.configuration))",message="spec.updateStrategy.manual.groups: a release has its configuration: remove configuration, or release"
type GroupPin struct {
	// name of the group ("1.x"), its slug ("1-x"), or the number of a pull request. A
	// name that is no group starts nothing in groups without a pin.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// version that the group is pinned to.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`

	// release that the group is pinned to, by the name of its VersionedMicroservice.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Release string `json:"release,omitempty"`

	// configuration is the template with which the pinned version runs. Defaults to
	// Retained.
	// +optional
	Configuration PinConfiguration `json:"configuration,omitempty"`

	// expireTime ends the pin.
	// +optional
	ExpireTime *metav1.Time `json:"expireTime,omitempty"`

	// reason is retained and shown in condition Pinned.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
}

// CanaryStrategy is the way of a new release to the main traffic.
// +kubebuilder:validation:XValidation:rule="!has(self.hooks) || self.hooks.all(h, !has(h.steps) || h.steps.all(n, self.steps.exists(s, has(s.name) && s.name == n)))",message="spec.updateStrategy.canary.hooks: steps must be names of steps: each of hooks[].steps must be a steps[].name, not a number"
// +kubebuilder:validation:XValidation:rule="!has(self.analysis) || self.steps.exists(s, s.weight > 0 || has(s.match) && s.match || has(s.mirrorPercent) && s.mirrorPercent > 0)",message="spec.updateStrategy.canary.analysis: no step sends requests to the canary, so nothing would be measured: give a step a weight above 0, match or mirrorPercent"
type CanaryStrategy struct {
	// steps in order. After the last one the release becomes active.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(s, !has(s.name) || self.exists_one(t, has(t.name) && t.name == s.name))",message="spec.updateStrategy.canary.steps: names must differ"
	// +kubebuilder:validation:XValidation:rule="self.all(i, s, i == 0 || s.weight >= self[i-1].weight)",message="spec.updateStrategy.canary.steps: weights must not fall from one step to the next"
	Steps []CanaryStep `json:"steps"`

	// scale selects how many replicas the canary has before it becomes active. Defaults to
	// Full.
	// +optional
	Scale CanaryScale `json:"scale,omitempty"`

	// analysis measures the canary in each step in which it can get traffic, and
	// rolls it back when it is bad. By default available pods are enough.
	// +optional
	Analysis *CanaryAnalysis `json:"analysis,omitempty"`

	// hooks are HTTP endpoints that are asked, or told, on the way.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Hooks []Hook `json:"hooks,omitempty"`

	// together makes the canary pass its steps only along with those of other
	// Microservices. By default it advances independently.
	// +optional
	Together *TogetherStrategy `json:"together,omitempty"`
}

// CanaryStep is a weight, and what must happen before the next step. A step
// without pause and approval is passed when its weight is programmed and, where
// there is an analysis, that has passed it.
// +kubebuilder:validation:XValidation:rule="!(has(self.pause) && has(self.approval))",message="spec.updateStrategy.canary.steps: set at most one of pause and approval"
type CanaryStep struct {
	// name that a decision Continue uses. Defaults to the step's number, from 1.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name of a step must consist of lower-case letters, digits and '-', and begin with a letter, such as first-tenth"
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// weight of the canary in percent of the group's traffic.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`

	// match sends the canary, in addition to its weight, the requests that
	// canaryMatches of the NetworkPolicy choose: by header, query parameter, cookie,
	// path or method.
	// +optional
	Match bool `json:"match,omitempty"`

	// mirrorPercent of the group's requests are sent to the canary as well; their
	// answers are discarded. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MirrorPercent int32 `json:"mirrorPercent,omitempty"`

	// window is the time of the week in which the step may begin and, for the last
	// step, in which the release may become active. Defaults to any time. A canary
	// that must be rolled back is rolled back at any time.
	// +optional
	Window *DeployWindow `json:"window,omitempty"`

	// pause waits while the canary is healthy.
	// +optional
	Pause *CanaryPause `json:"pause,omitempty"`

	// approval waits for the decision Continue on the release.
	// +optional
	Approval *CanaryApproval `json:"approval,omitempty"`
}

// CanaryPause is a wait of some length.
type CanaryPause struct {
	// duration of the wait, from the time at which the weight is programmed.
	// +required
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('720h')",message="pause.duration must be at most 720h"
	Duration Duration `json:"duration"`
}

// CanaryApproval has no settings.
type CanaryApproval struct{}

// Microservice runs the versions that an ImagePolicy offers, in groups, and
// decides which release of each is active.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=msvc,categories=hlnr;all
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must start with a letter, contain only lower-case letters, digits and '-', and have at most 40 characters, because Services are named after it"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || has(self.spec.containerName) || !has(self.spec.template.spec) || self.spec.template.spec.containers.size() < 2 || self.spec.template.spec.containers.exists(c, c.name == self.metadata.name)",optionalOldSelf=true,message="spec.containerName is required, because spec.template has several containers and none is named like the Microservice: set it to the name of the one that gets the image"
// +kubebuilder:validation:XValidation:rule="has(self.spec.containerName) || !has(self.spec.template.spec) || self.spec.template.spec.containers.size() < 2 || self.spec.template.spec.containers.exists(c, c.name == self.metadata.name) || !(has(oldSelf.spec.containerName) || !has(oldSelf.spec.template.spec) || oldSelf.spec.template.spec.containers.size() < 2 || oldSelf.spec.template.spec.containers.exists(c, c.name == oldSelf.metadata.name))",message="spec.containerName is required, because spec.template has several containers and none is named like the Microservice: set it to the name of the one that gets the image"
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.summary.active`
// +kubebuilder:printcolumn:name="Canary",type=string,JSONPath=`.status.summary.canary`
// +kubebuilder:printcolumn:name="Groups",type=string,JSONPath=`.status.summary.groups`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Progressing",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Pinned",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Pinned")].message`
// +kubebuilder:printcolumn:name="Failed",type=string,priority=1,JSONPath=`.status.summary.failed`
// +kubebuilder:printcolumn:name="Previews",type=string,priority=1,JSONPath=`.status.summary.previews`
// +kubebuilder:printcolumn:name="Status",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Microservice struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines how versions run, and which is wanted.
	// +required
	Spec MicroserviceSpec `json:"spec"`

	// status is the rollout state of releases.
	// +optional
	Status MicroserviceStatus `json:"status,omitempty"`
}

// MicroserviceList is a list of Microservices.
// +kubebuilder:object:root=true
type MicroserviceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Microservice `json:"items"`
}
