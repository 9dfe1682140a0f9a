package v1alpha1

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// MicroserviceSpec defines how the versions of an image run, and which version of each release
// group is active.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.adoptFrom) || (has(self.adoptFrom) && self.adoptFrom == oldSelf.adoptFrom)",message="spec.adoptFrom cannot be changed or removed: delete the Microservice, with deletionPolicy Restore or Orphan, and create another"
// +kubebuilder:validation:XValidation:rule="!has(self.availability.autoscaling) || !has(self.updateStrategy) || !has(self.updateStrategy.canary) || !has(self.updateStrategy.canary.traffic) || self.updateStrategy.canary.traffic != 'Pods'",message="spec.availability.autoscaling scales each release, and cannot be set with updateStrategy.canary.traffic Pods: let a HorizontalPodAutoscaler or KEDA scale the Microservice itself"
// +kubebuilder:validation:XValidation:rule="!has(self.adoptFrom) || (has(self.deletionPolicy) && self.deletionPolicy != 'Delete')",message="spec.deletionPolicy must be Restore or Orphan if spec.adoptFrom is set: otherwise deleting the Microservice would leave no pods that serve traffic"
// +kubebuilder:validation:XValidation:rule="!has(self.availability.exclusive) || !self.availability.exclusive || !has(self.updateStrategy) || !has(self.updateStrategy.canary) || self.updateStrategy.canary.steps.all(s, s.weight == 100 && !(has(s.match) && s.match) && !(has(s.mirrorPercent) && s.mirrorPercent > 0))",message="spec.updateStrategy.canary.steps: with spec.availability.exclusive a canary has all pods or none: set weight 100 in each step, and omit match and mirrorPercent"
// +kubebuilder:validation:XValidation:rule="!has(self.availability.exclusive) || !self.availability.exclusive || !has(self.updateStrategy) || !has(self.updateStrategy.canary) || !(has(self.updateStrategy.canary.traffic) && self.updateStrategy.canary.traffic == 'Routes')",message="spec.updateStrategy.canary.traffic must be Pods or omitted if spec.availability.exclusive is true"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!has(self.availability.minReadySeconds) || self.availability.minReadySeconds < (has(self.updateStrategy) && has(self.updateStrategy.progressDeadlineSeconds) ? self.updateStrategy.progressDeadlineSeconds : 600) || oldSelf.hasValue() && has(oldSelf.value().availability.minReadySeconds) && oldSelf.value().availability.minReadySeconds >= (has(oldSelf.value().updateStrategy) && has(oldSelf.value().updateStrategy.progressDeadlineSeconds) ? oldSelf.value().updateStrategy.progressDeadlineSeconds : 600)",message="spec.availability.minReadySeconds must be less than spec.updateStrategy.progressDeadlineSeconds, which is 600 by default: otherwise no release could become available in time"
// +kubebuilder:validation:XValidation:rule="!has(self.availability.exclusive) || !self.availability.exclusive || !has(self.adoptFrom)",message="spec.availability.exclusive cannot be combined with spec.adoptFrom: the pods of an adopted Deployment and of the first release run at the same time; delete the Deployment, and create the Microservice without adoptFrom"
type MicroserviceSpec struct {
	// imagePolicyRef refers to the ImagePolicy, in this namespace, that offers the versions.
	// +required
	ImagePolicyRef Reference `json:"imagePolicyRef"`

	// template is the pod template of every release. The image of the container that containerName
	// refers to is set for each version. A change to the template creates a new release of the same
	// version; pods of existing releases never change.
	// +required
	Template corev1.PodTemplateSpec `json:"template"`

	// containerName is the name of the container that runs the image. Defaults to the name of the only
	// container, or to the name of the Microservice if a container has that name. Required if the
	// template has several containers and none of them has that name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ContainerName string `json:"containerName,omitempty"`

	// paused stops everything that starts automatically: new releases, steps, promotions and the
	// removal of releases. It does not stop the rollback of a canary that lost its pods, a drain in
	// progress, the Adopt and Deprecate decisions, a pin to a retained release, or the rollback from a
	// denied version. Continue and Retry decisions take effect when paused is no longer true. Defaults
	// to false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// endedGroups lists the release groups to end. Each entry is the name of a group ("1.x"), its
	// slug ("1-x"), or the number of a pull request. These groups are drained and removed without
	// affecting other groups, and do not start again while they are listed. A group whose domains
	// move to a newer group ends only when the newer group has an active release.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	EndedGroups []string `json:"endedGroups,omitempty"`

	// availability sets how many pods a release has. It is not part of a release's identity: a
	// change does not create a new release and, except for minReadySeconds, applies to existing releases.
	// +optional
	// +kubebuilder:default={}
	Availability Availability `json:"availability,omitempty"`

	// updateStrategy defines which release of a group is active, and how a release becomes
	// active.
	// +optional
	// +kubebuilder:default={}
	UpdateStrategy UpdateStrategy `json:"updateStrategy,omitempty"`

	// adoptFrom is an existing Deployment that the releases replace.
	// +optional
	AdoptFrom *AdoptDeployment `json:"adoptFrom,omitempty"`

	// deletionPolicy defines what remains after the Microservice is deleted. Delete means that all
	// objects that Heighliner created for it are deleted. Orphan means that the Deployments of the
	// releases that have traffic remain. Restore means that the adopted Deployment remains, with its
	// previous number of replicas. Defaults to Delete.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// configuration defines which of the ConfigMaps and Secrets referenced by the template are
	// part of a release. By default, ConfigMaps are part of a release, and Secrets are not.
	// +optional
	Configuration *Configuration `json:"configuration,omitempty"`

	// previews limits the previews of pull requests.
	// +optional
	Previews *Previews `json:"previews,omitempty"`
}

// Previews limits the previews of pull requests.
type Previews struct {
	// maxGroups is the maximum number of simultaneous previews. Existing previews keep their slots; a
	// free slot goes to the pull request with the latest push. Defaults to 20.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	MaxGroups int32 `json:"maxGroups,omitempty"`

	// maxAge is how long a preview remains after the last push; the next push starts the preview
	// again. It must be at least 1m. By default a preview remains as long as its pull request is open.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="spec.previews.maxAge must be at least 1m"
	MaxAge Duration `json:"maxAge,omitempty"`

	// keepAfterClose is how long a preview remains after its pull request is closed, as a duration such
	// as 10m. By default it is drained and removed immediately.
	// +optional
	KeepAfterClose Duration `json:"keepAfterClose,omitempty"`
}

// Availability sets how many pods a release has.
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.replicas) || self.replicas <= self.autoscaling.maxReplicas",message="spec.availability: replicas must be less than or equal to autoscaling.maxReplicas"
// +kubebuilder:validation:XValidation:rule="!(has(self.minAvailable) && has(self.maxUnavailable))",message="spec.availability: set at most one of minAvailable and maxUnavailable"
type Availability struct {
	// replicas is the number of pods of a release that receives traffic or is being rolled out.
	// Defaults to 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Replicas int32 `json:"replicas,omitempty"`

	// autoscaling creates a HorizontalPodAutoscaler for each release that receives traffic or is being
	// rolled out. A release that takes over the traffic of another release has at least as many
	// replicas as that release. By default releases have a fixed number of replicas.
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`

	// minAvailable is the minAvailable of the PodDisruptionBudget that is created for a release
	// with traffic and at least two replicas: a number or a percentage.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000 : self.matches('^(100|[1-9]?[0-9])%$')",message="spec.availability.minAvailable must be a number from 0 to 1000 or a percentage such as 50%"
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// maxUnavailable is the maxUnavailable of the PodDisruptionBudget that is created for a release
	// with traffic and at least two replicas: a number or a percentage. Defaults to 1
	// if minAvailable is not set.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000 : self.matches('^(100|[1-9]?[0-9])%$')",message="spec.availability.maxUnavailable must be a number from 0 to 1000 or a percentage such as 50%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// minReadySeconds is how long a pod must be ready before it counts as available. It must be less
	// than updateStrategy.progressDeadlineSeconds. Defaults to 0 if the container that containerName
	// refers to has a readiness probe, and otherwise to 10 or to half of that deadline, whichever is
	// less. A change applies only to releases that are created after it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// standbyReplicas is the number of pods of a retained release, which was previously active and
	// remains for rollback: a number, or Full, which means autoscaling.minReplicas if it is set, and
	// availability.replicas otherwise. Defaults to 1. Retained releases have no pods if the
	// group's pods are divided between releases (canary.traffic Pods), if exclusive is true, if no
	// route ever targeted the retained release, and while a rollout has been waiting for capacity for
	// at least half of progressDeadlineSeconds.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000 : self == 'Full'",message="spec.availability.standbyReplicas must be a number from 0 to 1000 or Full"
	StandbyReplicas *intstr.IntOrString `json:"standbyReplicas,omitempty"`

	// exclusive is for workloads that must not run two versions at the same time, for example
	// because they elect a leader or process an ordered stream. The pods of the active release
	// terminate before the pods of the next release of the group start. If the rollout fails, the pods
	// of the failed release terminate before the pods of the active release start again. Steps of a
	// canary must have weight 100, and retained releases have no pods. Defaults to false.
	// +optional
	Exclusive bool `json:"exclusive,omitempty"`
}

// Autoscaling configures the HorizontalPodAutoscaler of a release. Regardless of metrics, a release
// that takes over the traffic of another release has at least as many replicas as the other
// release.
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",message="autoscaling: minReplicas must be less than or equal to maxReplicas"
type Autoscaling struct {
	// minReplicas is the minimum number of replicas of a release that receives traffic.
	// Defaults to availability.replicas.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the maximum number of replicas of a release. If a release
	// replaces a release that has more replicas, it can have as many replicas as that release.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxReplicas int32 `json:"maxReplicas"`

	// metrics are the metrics of the HorizontalPodAutoscaler, as in autoscaling/v2. Defaults to an
	// average CPU utilization of 80%, as in autoscaling/v2.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Metrics []autoscalingv2.MetricSpec `json:"metrics,omitempty"`

	// behavior is the scaling behavior of the HorizontalPodAutoscaler, as in autoscaling/v2.
	// +optional
	Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior,omitempty"`
}

// UpdateStrategy defines which release of a group is active. manual takes precedence over
// latest.
type UpdateStrategy struct {
	// latest selects the highest offered version that has not failed. This is the default.
	// +optional
	Latest *LatestUpdateStrategy `json:"latest,omitempty"`

	// manual pins groups to versions or releases. It takes precedence over latest. Groups without a pin
	// follow latest. If no group has the version that semVer specifies or the release that the release field names,
	// no release starts in any group.
	// +optional
	Manual *ManualUpdateStrategy `json:"manual,omitempty"`

	// minimumAvailable is the number of releases of a group that are retained for an immediate
	// rollback, including the active release. A preview retains only its active release. Defaults to 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	MinimumAvailable int32 `json:"minimumAvailable,omitempty"`

	// progressDeadlineSeconds is the maximum time for a release to become available, and for each step
	// to have available pods and a programmed weight. After this time the rollout fails, unless the
	// delay is caused by a problem outside the release: in that case the release waits, or loses its
	// traffic and restarts at the first step when the problem is solved. If availability.exclusive is
	// true and the group has an active release, the rollout fails in that case too, except while pods
	// of another release are still running. Pauses do not count while the release is healthy. Defaults
	// to 600.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	ProgressDeadlineSeconds int32 `json:"progressDeadlineSeconds,omitempty"`

	// drainDelay is the time between the removal of a release from the last route that targets it
	// and the termination of its pods. It is at least the value of the manager's --min-drain-delay flag
	// (5s by default), and at most 24h. Defaults to 30s.
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('24h')",message="spec.updateStrategy.drainDelay must be at most 24h"
	DrainDelay Duration `json:"drainDelay,omitempty"`

	// canary defines the steps in which a new release receives traffic. By default it receives
	// all traffic as soon as it is available. The first release of a group has no steps, unless
	// domains or listeners that follow the newest group move to it. Previews have no steps.
	// +optional
	Canary *CanaryStrategy `json:"canary,omitempty"`
}

// LatestUpdateStrategy has no settings.
type LatestUpdateStrategy struct{}

// PinConfiguration defines the template with which a pinned version runs.
// +kubebuilder:validation:Enum=Retained;Current
type PinConfiguration string

const (
	// PinRetained selects the most recently active release of the version, and so the template of
	// this release. If there is no such release, PinRetained selects a new release with the current
	// template.
	PinRetained PinConfiguration = "Retained"
	// PinCurrent selects a release that runs the version with the current template.
	PinCurrent PinConfiguration = "Current"
)

// ManualUpdateStrategy pins groups to versions or releases. Groups without a pin follow latest. If
// no group has the version that semVer specifies or the release that the release field names, no
// release starts in any group.
// +kubebuilder:validation:XValidation:rule="has(self.semVer) || has(self.release) || (has(self.groups) && size(self.groups) > 0)",message="spec.updateStrategy.manual: set at least one of semVer, release and groups"
// +kubebuilder:validation:XValidation:rule="!has(self.release) || !has(self.semVer) && !has(self.configuration)",message="spec.updateStrategy.manual.release cannot be combined with semVer or configuration: a release already has a version and a configuration"
type ManualUpdateStrategy struct {
	// semVer pins the group that has this version to this version.
	// +optional
	SemVer *SemVer `json:"semVer,omitempty"`

	// release is the name of the VersionedMicroservice of a release. The group that has this
	// release is pinned to it, and so to the template and configuration of the release.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Release string `json:"release,omitempty"`

	// configuration defines the template with which the pinned version runs. Retained means the
	// template of the most recently active release of this version, or the current template if there
	// is no such release. Current means the current template. Defaults to Retained.
	// +optional
	Configuration PinConfiguration `json:"configuration,omitempty"`

	// expireTime is the RFC 3339 time at which the pin ends. By default a pin does not expire.
	// +optional
	ExpireTime *metav1.Time `json:"expireTime,omitempty"`

	// reason for the pin. It is shown in the Pinned condition.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// author is the user who set the pin. The API server rejects any name other than that of the
	// user who sets or changes the author, unless this user may impersonate users. Omit author in
	// manifests that a GitOps tool applies: the history of the repository shows the author.
	// +optional
	Author *PinAuthor `json:"author,omitempty"`

	// groups pins additional groups, each by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Groups []GroupPin `json:"groups,omitempty"`
}

// PinAuthor is the user who set a pin. The author is shown only while the pin selects the version
// or release that this user chose, so that a change by another user or tool is not attributed to
// this user.
type PinAuthor struct {
	// name of the user, as authenticated by the API server.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// pinned is the version or release that the user chose.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Pinned string `json:"pinned"`
}

// Of returns the name of the user who pinned a version or release. It returns an empty string if
// the user is not known.
func (a *PinAuthor) Of(pinned string) string {
	if a == nil || a.Pinned != pinned {
		return ""
	}
	return a.Name
}

// GroupPin pins one group to a version or a release.
// +kubebuilder:validation:XValidation:rule="has(self.version) != has(self.release)",message="spec.updateStrategy.manual.groups: set exactly one of version and release"
// +kubebuilder:validation:XValidation:rule="!(has(self.release) && has(self.configuration))",message="spec.updateStrategy.manual.groups: release cannot be combined with configuration: a release already has a configuration"
type GroupPin struct {
	// name of the group ("1.x"), its slug ("1-x"), or the number of a pull request. If the group
	// does not exist, no release starts in groups without a pin. However, if the ImagePolicy offers
	// pull requests, other groups continue, and the pin takes effect once the group exists.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// version that the group is pinned to. Exactly one of version and release is required.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`

	// release is the name of the VersionedMicroservice of the release that the group is pinned to.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Release string `json:"release,omitempty"`

	// configuration defines the template with which the pinned version runs. Retained means the
	// template of the most recently active release of this version, or the current template if there
	// is no such release. Current means the current template. Defaults to Retained.
	// +optional
	Configuration PinConfiguration `json:"configuration,omitempty"`

	// expireTime is the RFC 3339 time at which the pin ends. By default a pin does not expire.
	// +optional
	ExpireTime *metav1.Time `json:"expireTime,omitempty"`

	// reason for the pin. It is shown in the Pinned condition.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// author is the user who set the pin. The API server rejects any name other than that of the
	// user who sets or changes the author, unless this user may impersonate users. Omit author in
	// manifests that a GitOps tool applies: the history of the repository shows the author.
	// +optional
	Author *PinAuthor `json:"author,omitempty"`
}

// CanaryStrategy defines how a new release receives the traffic of a group.
// +kubebuilder:validation:XValidation:rule="!has(self.traffic) || self.traffic != 'Pods' || !has(self.scale) || self.scale == 'MatchWeight'",message="spec.updateStrategy.canary: scale must be MatchWeight or omitted if traffic is Pods, because the weights are shares of the pods"
// +kubebuilder:validation:XValidation:rule="!has(self.traffic) || self.traffic != 'Pods' || self.steps.all(s, !(has(s.match) && s.match) && !(has(s.mirrorPercent) && s.mirrorPercent > 0))",message="spec.updateStrategy.canary.steps: match and mirrorPercent need routes: remove these fields, or set canary.traffic to Routes"
// +kubebuilder:validation:XValidation:rule="!has(self.hooks) || self.hooks.all(h, !has(h.steps) || h.steps.all(n, self.steps.exists(s, has(s.name) && s.name == n)))",message="spec.updateStrategy.canary.hooks: hooks[].steps must contain names of steps (steps[].name), not numbers"
// +kubebuilder:validation:XValidation:rule="!has(self.analysis) || !has(self.analysisTemplateRef)",message="spec.updateStrategy.canary: set analysis or analysisTemplateRef, but not both"
// +kubebuilder:validation:XValidation:rule="!has(self.analysis) && !has(self.analysisTemplateRef) || self.steps.exists(s, s.weight > 0 || has(s.match) && s.match || has(s.mirrorPercent) && s.mirrorPercent > 0)",message="spec.updateStrategy.canary.analysis: no step sends requests to the canary, so nothing would be measured: set a weight above 0, match or mirrorPercent in at least one step"
type CanaryStrategy struct {
	// steps of the canary, in order. After the last step, the release becomes active.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(s, !has(s.name) || self.exists_one(t, has(t.name) && t.name == s.name))",message="spec.updateStrategy.canary.steps: names must be unique"
	// +kubebuilder:validation:XValidation:rule="self.all(i, s, i == 0 || s.weight >= self[i-1].weight)",message="spec.updateStrategy.canary.steps: weights must not decrease from one step to the next"
	Steps []CanaryStep `json:"steps"`

	// traffic defines how the work of a group is split between its active release and the canary.
	// Routes means that requests are split by the weights of routes. Pods means that the group's
	// pods, availability.replicas in total, are divided between the two releases. Defaults to Routes
	// if a NetworkPolicy routes to the group or ever did, if scale is Full, or if
	// availability.autoscaling is set, and to Pods otherwise. With availability.exclusive, it is
	// always Pods.
	// +optional
	Traffic CanaryTraffic `json:"traffic,omitempty"`

	// scale defines how many replicas the canary has before it becomes active. Full means all replicas
	// from the start. MatchWeight means the share of the active release's replicas that the canary's
	// next weight requires, but at least one replica. Defaults to Full, or to MatchWeight if traffic
	// is Pods.
	// +optional
	Scale CanaryScale `json:"scale,omitempty"`

	// analysis measures the canary in each step in which it receives requests, and rolls it back if
	// more rounds fail than are tolerated. By default the canary is not measured: it is sufficient that
	// its pods are available.
	// +optional
	Analysis *CanaryAnalysis `json:"analysis,omitempty"`

	// analysisTemplateRef refers to an analysis that several Microservices share. It is set instead of
	// the analysis field. While the template does not exist, no release starts, and a canary waits in
	// its step.
	// +optional
	AnalysisTemplateRef *AnalysisTemplateReference `json:"analysisTemplateRef,omitempty"`

	// hooks are HTTP endpoints that are called during a rollout, or Jobs that run during a rollout. A
	// hook decides whether the rollout continues, or is only notified.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Hooks []Hook `json:"hooks,omitempty"`

	// together makes the canary wait, at the end of each step, for every other Microservice in this
	// namespace with the same together.name. The wait ends when each of them has completed the step
	// with the same version, or has this or a higher version as its active version. By default the
	// canary advances independently.
	// +optional
	Together *TogetherStrategy `json:"together,omitempty"`
}

// Measures reports whether canaries are measured by an analysis or an analysis template.
func (c *CanaryStrategy) Measures() bool {
	return c != nil && (c.Analysis != nil || c.AnalysisTemplateRef != nil)
}

// CanaryStep defines the weight of a step, and the conditions for the next step. A step without a
// pause or an approval is complete when its weight is programmed and its analysis, if any, has
// passed.
// +kubebuilder:validation:XValidation:rule="!(has(self.pause) && has(self.approval))",message="spec.updateStrategy.canary.steps: set at most one of pause and approval"
type CanaryStep struct {
	// name by which a Continue decision refers to the step. Defaults to the step's number, counted
	// from 1.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name of a step must consist of lowercase letters, digits and '-', must start with a letter, and must end with a letter or digit, such as first-tenth"
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// weight is the percentage of the group's traffic that the canary receives.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`

	// match defines whether the requests selected by the NetworkPolicy's canaryMatches (by header,
	// query parameter, cookie, path, method or gRPC method) are routed to the canary regardless of its
	// weight. Defaults to false.
	// +optional
	Match bool `json:"match,omitempty"`

	// mirrorPercent is the percentage of the group's requests that are also sent to the canary;
	// the canary's responses to these requests are discarded. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MirrorPercent int32 `json:"mirrorPercent,omitempty"`

	// window is the time of the week in which the step can begin and, for the last step, in which the
	// release can become active. Defaults to any time. A rollback does not wait for the window.
	// +optional
	Window *DeployWindow `json:"window,omitempty"`

	// pause is how long the canary must be healthy in the step before the next step begins. At most
	// one of pause and approval can be set.
	// +optional
	Pause *CanaryPause `json:"pause,omitempty"`

	// approval makes the step wait until the required number of users have approved it with a
	// Continue decision on the release.
	// +optional
	Approval *CanaryApproval `json:"approval,omitempty"`
}

// CanaryPause is the duration of a pause.
type CanaryPause struct {
	// duration of the pause, such as 10m, counted from the time at which the weight is programmed. It is
	// at most 720h.
	// +required
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('720h')",message="pause.duration must be at most 720h"
	Duration Duration `json:"duration"`
}

// CanaryApproval defines who must approve a step. Each approval is a Continue decision that refers
// to the step.
type CanaryApproval struct {
	// count is the number of different users who must approve. Defaults to 1. If it is greater than
	// 1, an Adopt decision is rejected until the step is approved.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8
	Count int32 `json:"count,omitempty"`

	// from lists the names of user groups, as authenticated by the API server. A user who approves
	// must be a member of one of these groups, and list this group in spec.decision.groups. By default
	// every user who is allowed to write decisions can approve.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	From []string `json:"from,omitempty"`
}

// Microservice runs the versions that an ImagePolicy offers, in release groups, and decides
// which release of each group is active.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.availability.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=msvc,categories=hlnr;all
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must start with a letter, end with a letter or digit, contain only lowercase letters, digits and '-', and have at most 40 characters, because Services are named after it"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || has(self.spec.containerName) || !has(self.spec.template.spec) || self.spec.template.spec.containers.size() < 2 || self.spec.template.spec.containers.exists(c, c.name == self.metadata.name)",optionalOldSelf=true,message="spec.containerName is required, because spec.template has several containers and none has the name of the Microservice: set it to the name of the container that runs the image"
// +kubebuilder:validation:XValidation:rule="has(self.spec.containerName) || !has(self.spec.template.spec) || self.spec.template.spec.containers.size() < 2 || self.spec.template.spec.containers.exists(c, c.name == self.metadata.name) || !(has(oldSelf.spec.containerName) || !has(oldSelf.spec.template.spec) || oldSelf.spec.template.spec.containers.size() < 2 || oldSelf.spec.template.spec.containers.exists(c, c.name == oldSelf.metadata.name))",message="spec.containerName is required, because spec.template has several containers and none has the name of the Microservice: set it to the name of the container that runs the image"
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.summary.active`
// +kubebuilder:printcolumn:name="Canary",type=string,JSONPath=`.status.summary.canary`
// +kubebuilder:printcolumn:name="Groups",type=string,JSONPath=`.status.summary.groups`
// +kubebuilder:printcolumn:name="Failed",type=string,JSONPath=`.status.summary.failed`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Progressing",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Pinned",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Pinned")].message`
// +kubebuilder:printcolumn:name="Previews",type=string,priority=1,JSONPath=`.status.summary.previews`
// +kubebuilder:printcolumn:name="Status",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Microservice struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines how versions run, and which version is active.
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

// TogetherStrategy makes the canaries of several Microservices in a namespace advance together. A
// canary begins its next step, or becomes active, only when every other Microservice with the same
// together.name has completed the current step with the same version, or has this or a higher
// version as its active version.
type TogetherStrategy struct {
	// name that the Microservices share.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="spec.updateStrategy.canary.together.name must consist of lowercase letters, digits and '-', and must start and end with a letter or digit, such as checkout"
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// onFailure defines what happens to a canary whose version fails in another Microservice with
	// the same together.name. Hold means that the canary stays in its step until the failure is
	// fixed. RollBack means that the canary is rolled back as well. Defaults to Hold.
	// +optional
	OnFailure TogetherFailure `json:"onFailure,omitempty"`
}

// TogetherFailure defines what happens to a canary whose version fails in another Microservice with
// the same together.name.
// +kubebuilder:validation:Enum=Hold;RollBack
type TogetherFailure string

const (
	// TogetherHold keeps the canary in its step until the failure is fixed.
	TogetherHold TogetherFailure = "Hold"
	// TogetherRollBack rolls the canary back as well.
	TogetherRollBack TogetherFailure = "RollBack"
)

// ReasonStartDelayed is the reason for the Ready condition while the first rollout of a Microservice waits
// because many other rollouts are starting.
const ReasonStartDelayed = "StartDelayed"
