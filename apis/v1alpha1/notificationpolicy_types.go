package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NotificationEvent is a transition of a release about which receivers are notified.
// +kubebuilder:validation:Enum=Started;Step;Waiting;Promoted;Restored;RolledBack;Failed;Aborted;Superseded;Removed;Deprecated
type NotificationEvent string

const (
	// NotifyStarted means that a rollout started.
	NotifyStarted NotificationEvent = "Started"
	// NotifyStep means that a rollout reached a step in which its release receives more traffic.
	NotifyStep NotificationEvent = "Step"
	// NotifyWaiting means that a rollout is waiting for a user to approve a step, make a decision, or
	// remove spec.paused.
	NotifyWaiting NotificationEvent = "Waiting"
	// NotifyPromoted means that the release became active.
	NotifyPromoted NotificationEvent = "Promoted"
	// NotifyRestored means that an earlier release became active again.
	NotifyRestored NotificationEvent = "Restored"
	// NotifyRolledBack means that the release failed after it had traffic.
	NotifyRolledBack NotificationEvent = "RolledBack"
	// NotifyFailed means that the release failed before it had traffic.
	NotifyFailed NotificationEvent = "Failed"
	// NotifyAborted means that a user aborted the rollout.
	NotifyAborted NotificationEvent = "Aborted"
	// NotifySuperseded means that another release superseded the release during its rollout.
	NotifySuperseded NotificationEvent = "Superseded"
	// NotifyRemoved means that the release was removed before its rollout ended.
	NotifyRemoved NotificationEvent = "Removed"
	// NotifyDeprecated means that the release is no longer active, because another release replaced
	// it.
	NotifyDeprecated NotificationEvent = "Deprecated"
)

// ReceiverType is the kind of service that receives messages, and the format of these messages.
// +kubebuilder:validation:Enum=Webhook;CloudEvents;Slack;Teams;Discord;GitHubStatus
type ReceiverType string

const (
	// ReceiverWebhook receives POST requests with JSON, or with the output of the receiver's template.
	ReceiverWebhook ReceiverType = "Webhook"
	// ReceiverCloudEvents receives CloudEvents 1.0 in structured mode, with CDEvents as data.
	ReceiverCloudEvents ReceiverType = "CloudEvents"
	// ReceiverSlack is a Slack channel. With a bot token, messages are edited in place; with an
	// incoming webhook, they are not.
	ReceiverSlack ReceiverType = "Slack"
	// ReceiverTeams is a webhook of a Microsoft Teams workflow. Messages are not edited.
	ReceiverTeams ReceiverType = "Teams"
	// ReceiverDiscord is a Discord webhook. Messages are edited in place.
	ReceiverDiscord ReceiverType = "Discord"
	// ReceiverGitHubStatus sets commit statuses on the commit of the release on GitHub. If the commit
	// of a release is unknown, no status is set, and a NotificationDropped event is recorded.
	ReceiverGitHubStatus ReceiverType = "GitHubStatus"
)

// NotificationReceiver is a destination for the messages of a policy.
// +kubebuilder:validation:XValidation:rule="self.type == 'Slack' || !has(self.channel)",message="spec.receivers: channel is allowed only for the type Slack"
// +kubebuilder:validation:XValidation:rule="self.type == 'GitHubStatus' || has(self.url) || has(self.secretRef)",message="spec.receivers: set url, or secretRef with a Secret that has the key url"
// +kubebuilder:validation:XValidation:rule="self.type == 'GitHubStatus' ? has(self.repositoryRef) : !has(self.repositoryRef)",message="spec.receivers: repositoryRef is required for the type GitHubStatus, and allowed only for it"
// +kubebuilder:validation:XValidation:rule="self.type == 'GitHubStatus' || !has(self.context)",message="spec.receivers: context is allowed only for the type GitHubStatus"
// +kubebuilder:validation:XValidation:rule="self.type != 'GitHubStatus' || !has(self.url) && !has(self.secretRef) && !has(self.caSecretRef)",message="spec.receivers: omit url, secretRef and caSecretRef for the type GitHubStatus: the address and the Secret are those of the GitHubRepository"
// +kubebuilder:validation:XValidation:rule="self.type == 'Webhook' || !has(self.template) && !has(self.contentType)",message="spec.receivers: template and contentType are allowed only for the type Webhook"
type NotificationReceiver struct {
	// name of the receiver. It identifies the receiver in status; a receiver with a changed name
	// counts as a new receiver.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name of a receiver must consist of lowercase letters, digits and '-', must start with a letter, and must end with a letter or digit, such as team-channel"
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// type is the kind of service that receives the messages. Webhook means an endpoint that
	// receives JSON or the output of the receiver's template. CloudEvents means an endpoint that
	// receives CloudEvents 1.0. Slack, Teams and Discord mean that chat messages are sent to these
	// services. GitHubStatus means that commit statuses are set on GitHub.
	// +required
	Type ReceiverType `json:"type"`

	// url to call, an http or https URL without a username or password. If the URL itself is
	// confidential, store it in the Secret that secretRef refers to.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/?#@[:space:]]+([/?][^#[:space:]]*)?$') && isURL(self)",message="url must be an absolute http or https URL without a username, password or fragment, such as https://chat.example.com/in"
	URL string `json:"url,omitempty"`

	// secretRef refers to a Secret in this namespace with the following keys, all of them optional:
	// "url" replaces url, "token" is sent as a bearer token (for Slack, the bot token), and "key"
	// signs the body in the same way as hook calls (HMAC with SHA-256). By default there are no
	// credentials.
	// +optional
	SecretRef *Reference `json:"secretRef,omitempty"`

	// caSecretRef refers to a Secret in this namespace whose key "ca.crt" contains the certificate
	// authorities, in PEM format, that are trusted if url is an https URL. They replace the
	// certificate authorities of the system.
	// +optional
	CASecretRef *Reference `json:"caSecretRef,omitempty"`

	// events about which the receiver is notified. Started means that the rollout of a release
	// started. Step means that the release gets more traffic. Waiting means that the rollout is
	// waiting for a user. Promoted means that the release became active. Restored means that it became
	// active again. RolledBack means that it failed after it had traffic. Failed means that it failed
	// before it had traffic. Aborted means that a user aborted its rollout. Superseded means that
	// another release superseded it. Removed means that it was removed before its rollout ended.
	// Deprecated means that it is no longer active. Defaults to all except Step and Deprecated.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=11
	Events []NotificationEvent `json:"events,omitempty"`

	// channel is the ID or name of a Slack channel. It is required with a bot token. It is ignored
	// with an incoming webhook, which always posts to the same channel.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=80
	Channel string `json:"channel,omitempty"`

	// repositoryRef refers to a GitHubRepository in this namespace. Its address and credentials are
	// used to set the commit statuses of a receiver of type GitHubStatus; the credentials need the
	// statuses=write permission. repositoryRef is required for this type.
	// +optional
	RepositoryRef *Reference `json:"repositoryRef,omitempty"`

	// context is the first part of the commit status context, CONTEXT/NAMESPACE/MICROSERVICE. GitHub
	// shows the latest status of each context. Set this field if several clusters report to the same
	// repository. Defaults to heighliner.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]([-a-zA-Z0-9_./]*[a-zA-Z0-9])?$')",message="context must consist of letters, digits and '-_./', and begin and end with a letter or digit: for example, production"
	Context string `json:"context,omitempty"`

	// template of the body, in the syntax of Go's text/template, with fields such as
	// {{.title}} and the functions "json", "eq", "ne", "and", "or" and "not". Encode values with json:
	// {"text": {{json .title}}}. Loops and definitions are not allowed. Defaults to all fields as
	// a JSON object.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	Template string `json:"template,omitempty"`

	// contentType of the body that template produces. Defaults to application/json.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9!#$&^_.+-]+/[a-zA-Z0-9!#$&^_.+-]+(; ?charset=[a-zA-Z0-9-]+)?$')",message="contentType must be a media type, such as text/plain; charset=utf-8"
	ContentType string `json:"contentType,omitempty"`
}

// NotificationPolicySpec defines which transitions of releases are reported, and to which
// receivers.
type NotificationPolicySpec struct {
	// suspend stops all messages. Transitions that occur while it is true are never reported. Defaults
	// to false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// selector selects, by label, the Microservices whose releases are reported. Defaults to all
	// Microservices. An invalid selector selects no Microservice, and the Stalled condition reports
	// the error.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// namespaceSelector selects, by label, the namespaces whose Microservices are reported; {} selects
	// all namespaces. It is allowed only in the namespace of the manager: in any other namespace, no
	// message is sent, and the Stalled condition reports this. Defaults to the namespace of the
	// policy.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// previews defines whether the releases of pull requests are also reported. Defaults to false.
	// +optional
	Previews bool `json:"previews,omitempty"`

	// boardURL is the address of the board that messages link to, such as
	// https://board.example.com. By default messages contain no links.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/?#@[:space:]]+(/[^?#[:space:]]*)?$') && isURL(self)",message="boardURL must be an absolute http or https URL without a username, password, query or fragment, such as https://board.example.com"
	BoardURL string `json:"boardURL,omitempty"`

	// receivers of the messages. The receivers are independent of each other.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Receivers []NotificationReceiver `json:"receivers"`
}

// ReceiverStatus is the state of one receiver.
type ReceiverStatus struct {
	// name of the receiver.
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// since is the time after which a rollout must have ended for its end to be reported. The results of
	// earlier rollouts have either been reported or will never be reported.
	Since metav1.MicroTime `json:"since"`

	// pending is the number of releases with a transition whose message the receiver had not accepted
	// when the status was written.
	// +optional
	Pending int32 `json:"pending,omitempty"`

	// lastDeliveryTime is when the receiver last accepted a message.
	// +optional
	LastDeliveryTime *metav1.MicroTime `json:"lastDeliveryTime,omitempty"`

	// failure is the reason why the latest message was not accepted. It is not set if the message was
	// accepted. It is written when failures begin, and is updated at most once every ten minutes.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Failure string `json:"failure,omitempty"`

	// failureTime is when failure was written.
	// +optional
	FailureTime *metav1.MicroTime `json:"failureTime,omitempty"`
}

// NotificationDelivery records the latest message about one release to one receiver.
type NotificationDelivery struct {
	// receiver is the name of the receiver.
	// +kubebuilder:validation:MaxLength=63
	Receiver string `json:"receiver"`

	// namespace of the release, if it differs from the namespace of the policy.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// microservice of the release.
	// +kubebuilder:validation:MaxLength=253
	Microservice string `json:"microservice"`

	// release is the name of the VersionedMicroservice.
	// +kubebuilder:validation:MaxLength=63
	Release string `json:"release"`

	// version of the release.
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version"`

	// event that was last reported: Started, Step, Waiting, Promoted, Restored, RolledBack, Failed,
	// Aborted, Superseded, Removed or Deprecated.
	Event NotificationEvent `json:"event"`

	// run is the sequence number of the rollout that was last reported, or 0 if no rollout was
	// reported.
	// +optional
	Run int64 `json:"run,omitempty"`

	// step of the rollout that was last reported, counted from 1. It is 0 before the first step.
	// +optional
	Step int32 `json:"step,omitempty"`

	// waits lists the reported states in which the rollout waited for a user during this step.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=32
	Waits []string `json:"waits,omitempty"`

	// time of the transition.
	Time metav1.MicroTime `json:"time"`

	// id of the message.
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`

	// message is the identifier that the receiver assigned to the message, if the message can be edited.
	// For commit statuses, it is the commit.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// NotificationPolicyStatus records the transitions that were reported. After a restart, the manager
// continues from this record.
type NotificationPolicyStatus struct {
	// conditions are Ready and, if a user must change the specification, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// pending is the sum of the pending counts of all receivers.
	// +optional
	Pending int32 `json:"pending"`

	// lastDeliveryTime is when a receiver last accepted a message.
	// +optional
	LastDeliveryTime *metav1.Time `json:"lastDeliveryTime,omitempty"`

	// receivers is the state of each receiver.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Receivers []ReceiverStatus `json:"receivers,omitempty"`

	// deliveries records the latest message to each receiver about each release that is being rolled
	// out, or whose rollout ended recently.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	Deliveries []NotificationDelivery `json:"deliveries,omitempty"`
}

// NotificationPolicy reports transitions of releases to receivers, such as webhooks. It
// never delays a release.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=notificationpolicies,shortName=ntfp,categories=hlnr
// +kubebuilder:printcolumn:name="Pending",type=integer,JSONPath=`.status.pending`
// +kubebuilder:printcolumn:name="Last",type=date,JSONPath=`.status.lastDeliveryTime`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NotificationPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines which transitions are reported, and to which receivers.
	// +required
	Spec NotificationPolicySpec `json:"spec"`

	// status records the transitions that were reported.
	// +optional
	Status NotificationPolicyStatus `json:"status,omitempty"`
}

// NotificationPolicyList is a list of NotificationPolicies.
// +kubebuilder:object:root=true
type NotificationPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NotificationPolicy `json:"items"`
}
