package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HookType defines the point in a rollout at which a hook is called, and the effect of its
// response.
// +kubebuilder:validation:Enum=ConfirmRollout;PreRollout;Rollout;ConfirmTrafficIncrease;ConfirmPromotion;PostRollout;PostPreview;Rollback;Event
type HookType string

const (
	// HookConfirmRollout is a gate: the release has no pods until the gate opens. The gate also
	// applies to the first release of a group. The gates ConfirmRollout, ConfirmTrafficIncrease and
	// ConfirmPromotion abort the rollout if they respond with 412.
	HookConfirmRollout HookType = "ConfirmRollout"
	// HookPreRollout is a check that is called once, when the release is available and before it
	// receives traffic. If the response means no, the release fails; without a response, the rollout
	// waits. The check also applies to the first release of a group.
	HookPreRollout HookType = "PreRollout"
	// HookRollout is a check in each round of the analysis. If the response means no, the round fails.
	// Without a response, the round counts as not measured.
	HookRollout HookType = "Rollout"
	// HookConfirmTrafficIncrease is a gate before each step that increases the release's traffic.
	HookConfirmTrafficIncrease HookType = "ConfirmTrafficIncrease"
	// HookConfirmPromotion is a gate after the last step: the release becomes active when the gate
	// opens.
	HookConfirmPromotion HookType = "ConfirmPromotion"
	// HookPostRollout is notified once when the release becomes active or fails. It does not apply to
	// previews.
	HookPostRollout HookType = "PostRollout"
	// HookPostPreview is notified once when a preview has ended (its pull request was closed, or the
	// preview expired) and its pods are gone. The preview's last release remains until the hook has responded, and
	// the preview does not start again before then.
	HookPostPreview HookType = "PostPreview"
	// HookRollback is called periodically during the rollout. The release is rolled back if the response means yes.
	HookRollback HookType = "Rollback"
	// HookEvent is notified of each transition of the release.
	HookEvent HookType = "Event"
)

// Hook is an HTTP endpoint that is called during the rollout of a release, or a Job that runs
// instead of an HTTP call. A response with a status code from 200 to 204 means yes. The status codes
// 429, 502, 503 and 504, a timeout, and a failed connection count as no response, and the call is
// repeated. All other responses mean no. Gates are called again after such a response. However, 412 is final,
// and the release fails. A Job runs once for each call: its success means yes, and its failure means no.
// For a gate and for PreRollout, the failure of a Job is final, and the release fails.
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.job)",message="spec.updateStrategy.canary.hooks: set exactly one of url and job"
// +kubebuilder:validation:XValidation:rule="!has(self.job) || !(self.type in ['Rollback', 'Event'])",message="spec.updateStrategy.canary.hooks: job is not allowed for the types Rollback and Event, which are called repeatedly"
// +kubebuilder:validation:XValidation:rule="!has(self.job) || !has(self.timeout) && !has(self.retries) && !has(self.interval) && !has(self.secretRef) && !has(self.caSecretRef) && !has(self.metadata)",message="spec.updateStrategy.canary.hooks: timeout, retries, interval, secretRef, caSecretRef and metadata apply only to url; for a job, set job.timeout, job.backoffLimit and job.env"
// +kubebuilder:validation:XValidation:rule="!has(self.steps) || self.type in ['Rollout', 'ConfirmTrafficIncrease']",message="spec.updateStrategy.canary.hooks: steps is allowed only for the types Rollout and ConfirmTrafficIncrease"
// +kubebuilder:validation:XValidation:rule="!has(self.interval) || self.type in ['ConfirmRollout', 'ConfirmTrafficIncrease', 'ConfirmPromotion', 'Rollback']",message="spec.updateStrategy.canary.hooks: interval is allowed only for the types that are called periodically: ConfirmRollout, ConfirmTrafficIncrease, ConfirmPromotion and Rollback"
// +kubebuilder:validation:XValidation:rule="!has(self.retries) || self.type in ['PreRollout', 'Rollout', 'PostRollout', 'PostPreview', 'Event']",message="spec.updateStrategy.canary.hooks: retries is allowed only for the types PreRollout, Rollout, PostRollout, PostPreview and Event; other hooks are called again at each interval"
// +kubebuilder:validation:XValidation:rule="!has(self.previews) || !self.previews || self.type in ['ConfirmRollout', 'PreRollout']",message="spec.updateStrategy.canary.hooks: previews is allowed only for the types ConfirmRollout and PreRollout: PostPreview and Event hooks are always called for previews, and hooks of the other types are never called for them"
type Hook struct {
	// name of the hook. It is sent in each call, and identifies the hook in status.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name of a hook must consist of lowercase letters, digits and '-', must start with a letter, and must end with a letter or digit, such as smoke-test"
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// type defines when the hook is called, and the effect of its response. ConfirmRollout is a gate
	// before the release has pods. PreRollout is a check before the release receives traffic.
	// Rollout is a check in each round of the analysis. ConfirmTrafficIncrease is a gate before each
	// step that increases the traffic. ConfirmPromotion is a gate after the last step. PostRollout
	// is notified when the release becomes active or fails. PostPreview is notified when a preview
	// has ended. Rollback is called periodically, and the release is rolled back if the response means yes. Event is
	// notified of each transition.
	// +required
	Type HookType `json:"type"`

	// url to call, an http or https URL without a username or password. Use secretRef to sign calls. If
	// the manager refuses to call the address that url refers to, for example because this address is
	// link-local, the message in status reports this. Exactly one of url and job is required.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/?#@[:space:]]+([/?][^#[:space:]]*)?$') && isURL(self)",message="url must be an absolute http or https URL without a username, password or fragment, such as https://tests.example.com/smoke; sign calls with secretRef"
	URL string `json:"url,omitempty"`

	// job defines the Job that runs instead of an HTTP call. Its pod is like the pods of the release.
	// Success of the Job means yes, and failure means no. A pod that is evicted or preempted does not
	// count as failed.
	// +optional
	Job *HookJob `json:"job,omitempty"`

	// timeout of one call, including the response, from 1s to 1m. Defaults to 10s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1m')",message="timeout must be between 1s and 1m"
	Timeout Duration `json:"timeout,omitempty"`

	// retries is the number of times that a call is repeated, with increasing delays, if the response
	// does not mean yes. Defaults to 0 for PreRollout and Rollout, and to 3 for PostRollout,
	// PostPreview and Event. A PreRollout call that has no response after
	// these retries is repeated after 1, 2, 4, 8 and 16 seconds, and then about every 16 seconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=5
	Retries *int32 `json:"retries,omitempty"`

	// interval at which a gate or a Rollback hook is called again, from 1s to 1h. Defaults to 10s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="interval must be between 1s and 1h"
	Interval Duration `json:"interval,omitempty"`

	// secretRef refers to a Secret in this namespace whose key "key" contains the secret with
	// which the calls are signed (HMAC with SHA-256). By default calls are not signed.
	// +optional
	SecretRef *Reference `json:"secretRef,omitempty"`

	// caSecretRef refers to a Secret in this namespace whose key "ca.crt" contains the certificate
	// authorities, in PEM format, that are trusted if url is an https URL. They replace the
	// certificate authorities of the system.
	// +optional
	CASecretRef *Reference `json:"caSecretRef,omitempty"`

	// metadata is sent in each call.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() >= 1 && k.size() <= 63)",message="metadata: keys must have 1 to 63 characters"
	Metadata map[string]HookMetadataValue `json:"metadata,omitempty"`

	// steps lists the names of the steps that the hook applies to: the steps in which a Rollout hook
	// is called, or before which a ConfirmTrafficIncrease hook is called. Defaults to all steps.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	Steps []string `json:"steps,omitempty"`

	// previews defines whether a ConfirmRollout or PreRollout hook is also called for releases of
	// pull requests. Defaults to false.
	// +optional
	Previews bool `json:"previews,omitempty"`
}

// LabelHook is a label on a Job and its pods. Its value is the name of the hook for which they run.
const LabelHook = "hlnr.io/hook"

// AnnotationHookCall is an annotation on a Job. Its value is the id of the call for which the Job
// runs, as in the status of the hook.
const AnnotationHookCall = "hlnr.io/hook-call"

// AnnotationHookType is an annotation on a Job. Its value is the type that the hook had when the
// Job was created.
const AnnotationHookType = "hlnr.io/hook-type"

// HookJob is a Job that runs once for each call of a hook. Its pod is like the pods of the release,
// with the same image, configuration, volumes and ServiceAccount. There are two exceptions: the pod
// runs only the init containers and the release's container (with the command of the Job), and no
// Service selects the pod. The Job does not have more access than the release; Jobs for pull
// requests from forks are confined in the same way as the pods of these pull requests. Success of
// the Job means yes, and failure means no. A pod that is evicted or preempted does not count as
// failed, and is replaced.
type HookJob struct {
	// command to run instead of the entrypoint of the image. Defaults to the command of the
	// release's container.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	Command []string `json:"command,omitempty"`

	// args of the command. If command is set, there are no args by default. Otherwise, args defaults
	// to the args of the release's container.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	Args []string `json:"args,omitempty"`

	// image to run. Defaults to the image of the release.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.matches('\\\\s')",message="job.image must not contain whitespace"
	Image string `json:"image,omitempty"`

	// env lists environment variables in addition to those of the release's container. The Job also has
	// variables that describe the call, such as HLNR_VERSION and HLNR_URL.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Env []HookJobVariable `json:"env,omitempty"`

	// resources of the container. Defaults to those of the release's container.
	// +optional
	Resources *HookJobResources `json:"resources,omitempty"`

	// timeout of one pod of the Job, from 1s to 24h, counted from the time at which the pod is assigned
	// to a node. A pod that has not finished at the end of this time is stopped, and counts as failed. If no pod of
	// a Rollout hook's Job is assigned to a node within this time after the Job is created, this counts as no
	// response. Defaults to 10m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="job.timeout must be between 1s and 24h"
	Timeout Duration `json:"timeout,omitempty"`

	// backoffLimit is the number of times that a failed pod is replaced before the Job fails.
	// Defaults to 0, because the command might not be idempotent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	BackoffLimit int32 `json:"backoffLimit,omitempty"`

	// ttlAfterFinished is how long a finished Job is kept, from 1m to 720h, counted from its end. The Job is not
	// deleted before its result is recorded in the status of the hook. At most the last three finished
	// Jobs of a Rollout hook are kept. In any case, the Job is deleted with its release. Defaults to
	// 24h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('720h')",message="job.ttlAfterFinished must be between 1m and 720h"
	TTLAfterFinished Duration `json:"ttlAfterFinished,omitempty"`
}

// HookJobVariable is an environment variable of a Job.
type HookJobVariable struct {
	// name of the variable. Names that begin with HLNR_ are reserved.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_]*$') && !self.startsWith('HLNR_')",message="the name of a variable must consist of letters, digits and '_', and must not begin with a digit or with HLNR_, which is reserved"
	Name string `json:"name"`

	// value of the variable.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`
}

// HookJobResources are the resources of a Job's container.
type HookJobResources struct {
	// limits defines the maximum amount of each resource that the container may use, such as cpu
	// and memory.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.size() <= 8",message="job.resources.limits: at most 8 resources are allowed"
	Limits corev1.ResourceList `json:"limits,omitempty"`

	// requests defines the resources that are reserved on the node. Defaults to the limits.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.size() <= 8",message="job.resources.requests: at most 8 resources are allowed"
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// HookMetadataValue is one value of a hook's metadata.
// +kubebuilder:validation:MaxLength=256
type HookMetadataValue string

// HookPhase is the state of the latest call of a hook.
// +kubebuilder:validation:Enum=Waiting;Open;Delivered;Failed
type HookPhase string

const (
	// HookWaiting means that the hook is being called, or will be called again because it responded
	// "no" or did not respond.
	HookWaiting HookPhase = "Waiting"
	// HookOpen means that a gate responded "yes", that a PreRollout hook passed, or that a
	// Rollback hook requested a rollback.
	HookOpen HookPhase = "Open"
	// HookDelivered means that a Rollout hook passed, or that a notification was delivered.
	HookDelivered HookPhase = "Delivered"
	// HookFailed means that, after all retries, a check responded "no" or a notification could
	// not be delivered, or that a gate responded with 412.
	HookFailed HookPhase = "Failed"
)

// HookStatus is the state of one hook for one release.
type HookStatus struct {
	// name of the hook.
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// type of the hook: ConfirmRollout, PreRollout, Rollout, ConfirmTrafficIncrease,
	// ConfirmPromotion, PostRollout, PostPreview, Rollback or Event.
	Type HookType `json:"type"`

	// run is the sequence number of the rollout in which the hook was called.
	// +optional
	Run int64 `json:"run,omitempty"`

	// step of the rollout in which the hook was called, counted from 1. It is 0 before the first step.
	// +optional
	Step int32 `json:"step,omitempty"`

	// since is the gateTime of the rollout to which the call belongs. For PostPreview, it is the time
	// in the end field of the group.
	// +optional
	Since *metav1.MicroTime `json:"since,omitempty"`

	// id of the delivery, as in the X-Heighliner-Delivery header. Retries have the same id.
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`

	// phase of the hook. Waiting means that the hook is being called, or will be called again. Open
	// means that a gate responded "yes", that a PreRollout hook passed, or that a Rollback hook
	// requested a rollback. Delivered means that a Rollout hook passed, or that a notification was
	// delivered. Failed means that a check responded "no", that a gate responded with 412, or that a
	// notification could not be delivered.
	Phase HookPhase `json:"phase"`

	// attempts is the number of completed calls with this id.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`

	// time of the last change of phase or message.
	// +optional
	Time *metav1.MicroTime `json:"time,omitempty"`

	// message is the first line of the response, or the reason why there is no response. For a Job,
	// it is the result of the Job.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`

	// job is the name of the hook's latest Job.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Job string `json:"job,omitempty"`

	// log is the termination message of the Job's container, or the last lines of its log if the Job
	// failed. It is empty for Jobs that run code from forks.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Log string `json:"log,omitempty"`
}

// Gate is a point in a rollout at which hooks, or other Microservices, decide whether the rollout
// continues. Its values are the types of these hooks, and Together.
// +kubebuilder:validation:Enum=ConfirmRollout;PreRollout;Together;ConfirmTrafficIncrease;ConfirmPromotion
type Gate string

const (
	// GateConfirmRollout is the gate before the release has pods.
	GateConfirmRollout Gate = "ConfirmRollout"
	// GatePreRollout is the gate after the release becomes available and before it has traffic.
	GatePreRollout Gate = "PreRollout"
	// GateTogether is the gate at which a rollout waits for the rollouts of the other Microservices
	// that have the same together.name.
	GateTogether Gate = "Together"
	// GateConfirmTrafficIncrease is the gate before a step with more traffic than the current step.
	GateConfirmTrafficIncrease Gate = "ConfirmTrafficIncrease"
	// GateConfirmPromotion is the gate after all steps are complete.
	GateConfirmPromotion Gate = "ConfirmPromotion"
)
