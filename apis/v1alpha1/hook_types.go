package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HookType is the point of a release's way at which a hook is called, and what its
// answer does.
// +kubebuilder:validation:Enum=ConfirmRollout;PreRollout;Rollout;ConfirmTrafficIncrease;ConfirmPromotion;PostRollout;Rollback;Event
type HookType string

const (
	// HookConfirmRollout is a gate: the release has no pods before it opens. The first
	// release of a group waits at it too. A gate that waits, as this one,
	// ConfirmTrafficIncrease and ConfirmPromotion, ends the rollout when it answers 412.
	HookConfirmRollout HookType = "ConfirmRollout"
	// HookPreRollout is a check, once, when the release is available and before its
	// first traffic. The release fails when it answers no, and waits while no one
	// answers. It is called for the first release of a group too.
	HookPreRollout HookType = "PreRollout"
	// HookRollout is a check in each round of the analysis. Its no counts as a failed
	// round, and no answer as a round that could not be measured.
	HookRollout HookType = "Rollout"
	// HookConfirmTrafficIncrease is a gate before each step that gives the release
	// more traffic than it has.
	HookConfirmTrafficIncrease HookType = "ConfirmTrafficIncrease"
	// HookConfirmPromotion is a gate after the last step: the release becomes active
	// when it opens.
	HookConfirmPromotion HookType = "ConfirmPromotion"
	// HookPostRollout is told, once, that the release became active or failed.
	HookPostRollout HookType = "PostRollout"
	// HookRollback is asked while the release is under way. Its yes takes the
	// release back.
	HookRollback HookType = "Rollback"
	// HookEvent is told of each transition of the release.
	HookEvent HookType = "Event"
)

// Hook is an HTTP endpoint that is asked, or told, on the way of a release to
// active. An answer of 200 to 204 is a yes. 429, 502, 503 and 504, and none in time, are
// no answer: it is asked again. Every other answer is a no. 412 is a no for good, of the
// types whose no waits otherwise: the release fails.
// +kubebuilder:validation:XValidation:rule="!has(self.steps) || self.type in ['Rollout', 'ConfirmTrafficIncrease']",message="spec.updateStrategy.canary.hooks: steps goes with the types Rollout and ConfirmTrafficIncrease only"
// +kubebuilder:validation:XValidation:rule="!has(self.interval) || self.type in ['ConfirmRollout', 'ConfirmTrafficIncrease', 'ConfirmPromotion', 'Rollback']",message="spec.updateStrategy.canary.hooks: interval goes with the types that are asked again and again: ConfirmRollout, ConfirmTrafficIncrease, ConfirmPromotion and Rollback"
// +kubebuilder:validation:XValidation:rule="!has(self.retries) || self.type in ['PreRollout', 'Rollout', 'PostRollout', 'Event']",message="spec.updateStrategy.canary.hooks: retries goes with the types PreRollout, Rollout, PostRollout and Event; the others are asked again each interval"
// +kubebuilder:validation:XValidation:rule="!has(self.previews) || !self.previews || self.type in ['ConfirmRollout', 'PreRollout']",message="spec.updateStrategy.canary.hooks: previews goes with the types ConfirmRollout and PreRollout only; previews take no steps"
type Hook struct {
	// name of the hook; it goes along in each call, and names the hook in status.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name of a hook has lower-case letters, digits and '-', and begins with a letter, such as first-tenth"
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// type says when the hook is called, and what its answer does.
	// +required
	Type HookType `json:"type"`

	// url that is called, http or https, without user name and password: a shared
	// secret is secretRef. Addresses that the manager does not call, such as
	// link-local ones, give no answer, and the message says why.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/?#@[:space:]]+([/?][^#[:space:]]*)?$') && isURL(self)",message="url must be an absolute http or https URL without user name, password and fragment, such as https://tests.example.com/smoke; sign calls with secretRef"
	URL string `json:"url"`

	// timeout of one call, the answer included. Default: 10s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1m')",message="timeout must be between 1s and 1m"
	Timeout Duration `json:"timeout,omitempty"`

	// retries of a call whose answer is not yes, with growing waits in between.
	// Default: 0 for PreRollout and Rollout, 3 for PostRollout and Event. What no one
	// answers to PreRollout and Rollout ends no retries: it is asked again after 1, 2, 4,
	// 8 and 16 seconds, and so on.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=5
	Retries *int32 `json:"retries,omitempty"`

	// interval at which a gate or a Rollback hook is asked again. Default: 10s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="interval must be between 1s and 1h"
	Interval Duration `json:"interval,omitempty"`

	// secretRef names a Secret of this namespace whose key "key" signs the calls
	// (HMAC with SHA-256). Absent: calls are not signed.
	// +optional
	SecretRef *Reference `json:"secretRef,omitempty"`

	// caSecretRef names a Secret of this namespace whose key "ca.crt" holds the
	// certificates, in PEM, that an https url is checked against instead of those of
	// the manager's system.
	// +optional
	CASecretRef *Reference `json:"caSecretRef,omitempty"`

	// metadata goes along in each call.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() >= 1 && k.size() <= 63)",message="metadata: keys have 1 to 63 characters"
	Metadata map[string]HookMetadataValue `json:"metadata,omitempty"`

	// steps, by name, that the hook is for: those in which a Rollout hook is called,
	// or those before whose traffic a ConfirmTrafficIncrease hook is asked. Absent:
	// all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	Steps []string `json:"steps,omitempty"`

	// previews has a ConfirmRollout or PreRollout hook called for the releases of pull
	// requests as well. Defaults to false: a preview asks no hook.
	// +optional
	Previews bool `json:"previews,omitempty"`
}

// HookMetadataValue is one value of a hook's metadata.
// +kubebuilder:validation:MaxLength=256
type HookMetadataValue string

// HookPhase is what became of a hook's last call.
// +kubebuilder:validation:Enum=Waiting;Open;Delivered;Failed
type HookPhase string

const (
	// HookWaiting is called or to be called, or answered no or not at all and is asked
	// again.
	HookWaiting HookPhase = "Waiting"
	// HookOpen is a gate that answered yes; of a Rollback hook: it asks to go back.
	HookOpen HookPhase = "Open"
	// HookDelivered is a check that passed, or a message that was taken.
	HookDelivered HookPhase = "Delivered"
	// HookFailed is a check that answered no, or a message that was not taken, after all
	// retries; or a gate that refused for good.
	HookFailed HookPhase = "Failed"
)

// HookStatus is what became of one hook for one release.
type HookStatus struct {
	// name of the hook.
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// type of the hook.
	Type HookType `json:"type"`

	// run of the ledger that the call belongs to.
	// +optional
	Run int64 `json:"run,omitempty"`

	// step of that run, from 1; 0 before the first.
	// +optional
	Step int32 `json:"step,omitempty"`

	// since is the gateTime of the run that the call answers.
	// +optional
	Since *metav1.MicroTime `json:"since,omitempty"`

	// id of the delivery, as in header X-Heighliner-Delivery: the same for all calls
	// that ask or tell the same.
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`

	// phase that the hook is in.
	Phase HookPhase `json:"phase"`

	// attempts to deliver id, of those that ended.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`

	// time of the last change of phase or message.
	// +optional
	Time *metav1.MicroTime `json:"time,omitempty"`

	// message is the first line of the answer, or why there was none.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// Gate is a point of a run at which hooks, or other Microservices, decide whether it
// goes on. Its values are the types of these hooks, and Together.
// +kubebuilder:validation:Enum=ConfirmRollout;PreRollout;Together;ConfirmTrafficIncrease;ConfirmPromotion
type Gate string

const (
	// GateConfirmRollout: the release has no pods yet.
	GateConfirmRollout Gate = "ConfirmRollout"
	// GatePreRollout: the release is available and has no traffic yet.
	GatePreRollout Gate = "PreRollout"
	// GateTogether: others that go together have yet to come as far.
	GateTogether Gate = "Together"
	// GateConfirmTrafficIncrease: the next step has more traffic than the present one.
	GateConfirmTrafficIncrease Gate = "ConfirmTrafficIncrease"
	// GateConfirmPromotion: the steps are passed.
	GateConfirmPromotion Gate = "ConfirmPromotion"
)
