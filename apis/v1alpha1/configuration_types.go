package v1alpha1

// ConfigurationTrack defines which of the objects referenced by the template are part of a
// release.
// +kubebuilder:validation:Enum=ConfigMaps;All;None
type ConfigurationTrack string

const (
	// TrackConfigMaps makes ConfigMaps part of a release.
	TrackConfigMaps ConfigurationTrack = "ConfigMaps"
	// TrackAll makes ConfigMaps and Secrets part of a release. Secrets of the types
	// kubernetes.io/tls and kubernetes.io/service-account-token, and Secrets that contain registry
	// credentials or bootstrap tokens, are never part of a release.
	TrackAll ConfigurationTrack = "All"
	// TrackNone makes neither ConfigMaps nor Secrets part of a release. When pods start, they read the
	// current content of ConfigMaps and Secrets.
	TrackNone ConfigurationTrack = "None"
)

// Configuration defines which of the ConfigMaps and Secrets referenced by the template are part
// of a release. A change to their content creates a new release of the same version, and each
// release runs with its own copies.
type Configuration struct {
	// track defines which kinds are part of a release. ConfigMaps means that ConfigMaps are part of a
	// release, and Secrets are not. All means that ConfigMaps and Secrets are part of a release; it
	// requires the permissions that the kustomize component config/components/secrets grants in the
	// namespace. None means that neither ConfigMaps nor Secrets are part of a release. When pods start,
	// they read the current content of objects that are not part of a release. Defaults to ConfigMaps.
	// +optional
	// +kubebuilder:default=ConfigMaps
	Track ConfigurationTrack `json:"track,omitempty"`

	// ignore lists the names of ConfigMaps and Secrets that are not part of a release even if the
	// template references them. Pods read the current content of these objects.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Ignore []string `json:"ignore,omitempty"`
}

// CanaryScale defines how many replicas a canary has.
// +kubebuilder:validation:Enum=Full;MatchWeight
type CanaryScale string

const (
	// ScaleFull gives a canary all replicas from the start.
	ScaleFull CanaryScale = "Full"
	// ScaleMatchWeight gives a canary the share of the active release's replicas that its next weight
	// requires, but at least one replica.
	ScaleMatchWeight CanaryScale = "MatchWeight"
)

// CanaryTraffic defines how work is split between the active release and a canary.
// +kubebuilder:validation:Enum=Routes;Pods
type CanaryTraffic string

const (
	// TrafficRoutes splits requests by the weights in the routes that NetworkPolicies write.
	TrafficRoutes CanaryTraffic = "Routes"
	// TrafficPods splits the pods of a group: the canary has the share of availability.replicas
	// that its weight requires, but at least one pod, and the active release has the other pods.
	TrafficPods CanaryTraffic = "Pods"
)

// Weekday is a day of the week.
// +kubebuilder:validation:Enum=Monday;Tuesday;Wednesday;Thursday;Friday;Saturday;Sunday
type Weekday string

// ClockTime is a time of day, to the minute, such as "09:30".
// +kubebuilder:validation:MaxLength=5
// +kubebuilder:validation:XValidation:rule="self.matches('^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$')",message="a time of day must have two digits for the hour and two for the minute, in quotes: \"09:30\""
type ClockTime string

// DeployWindow is a weekly time window in which a step can start.
// +kubebuilder:validation:XValidation:rule="(has(self.from) ? self.from : '00:00') != (has(self.to) ? self.to : '24:00') && (!has(self.from) || self.from != '24:00') && (!has(self.to) || self.to != '00:00')",message="window: from and to must differ; write the beginning of a day as from: 00:00, and the end of a day as to: 24:00"
type DeployWindow struct {
	// timeZone is the time zone of from and to, as a name from the IANA time zone database, such as
	// "Europe/Zurich". Defaults to UTC. If the database does not contain the name, the window is
	// closed, and the Stalled condition reports the unknown time zone.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$')",message="window.timeZone must be a name from the IANA time zone database, such as Europe/Zurich, and not an offset such as +02:00"
	// +kubebuilder:validation:XValidation:rule="self != 'Local'",message="window.timeZone must not be Local, which is the time zone of the manager: use a name such as Europe/Zurich"
	TimeZone string `json:"timeZone,omitempty"`

	// days on which the window opens: any of Monday, Tuesday, Wednesday, Thursday, Friday, Saturday
	// and Sunday. Defaults to every day.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	Days []Weekday `json:"days,omitempty"`

	// from is the time at which the window opens. Defaults to 00:00.
	// +optional
	From ClockTime `json:"from,omitempty"`

	// to is the time at which the window closes. If to is before from, the window closes on the next
	// day. Defaults to 24:00.
	// +optional
	To ClockTime `json:"to,omitempty"`
}

// ConditionConfigurationLost is a condition of a Microservice: a release's copies of ConfigMaps or
// Secrets were deleted, and their content is lost.
const ConditionConfigurationLost = "ConfigurationLost"
