package v1alpha1

// ConfigurationTrack says which objects that the template names are part of a
// release.
// +kubebuilder:validation:Enum=ConfigMaps;All;None
type ConfigurationTrack string

const (
	// TrackConfigMaps makes ConfigMaps part of a release.
	TrackConfigMaps ConfigurationTrack = "ConfigMaps"
	// TrackAll makes ConfigMaps and Secrets part of a release. Secrets of the types
	// kubernetes.io/tls, kubernetes.io/service-account-token and those of registries
	// and bootstrap tokens never are.
	TrackAll ConfigurationTrack = "All"
	// TrackNone makes nothing but the template part of a release: pods read what the
	// objects hold when they start.
	TrackNone ConfigurationTrack = "None"
)

// Configuration says which ConfigMaps and Secrets that the template names are part
// of a release. A change of their content makes a new release of the same version,
// and each release runs with copies of its own.
type Configuration struct {
	// track says which kinds are part of a release. Default: ConfigMaps. All needs
	// the rights of config/components/secrets in the namespace.
	// +optional
	// +kubebuilder:default=ConfigMaps
	Track ConfigurationTrack `json:"track,omitempty"`

	// ignore names ConfigMaps and Secrets that are no part of a release though the
	// template names them: pods read them as they are.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Ignore []string `json:"ignore,omitempty"`
}

// CanaryScale says how many replicas a canary has.
// +kubebuilder:validation:Enum=Full;MatchWeight
type CanaryScale string

const (
	// ScaleFull gives a canary all replicas from the start.
	ScaleFull CanaryScale = "Full"
	// ScaleMatchWeight gives a canary the share of the active release's replicas that
	// its next weight needs, and at least one.
	ScaleMatchWeight CanaryScale = "MatchWeight"
)

// Weekday is a day of the week.
// +kubebuilder:validation:Enum=Monday;Tuesday;Wednesday;Thursday;Friday;Saturday;Sunday
type Weekday string

// ClockTime is a time of day, to the minute, as in "09:30".
// +kubebuilder:validation:MaxLength=5
// +kubebuilder:validation:XValidation:rule="self.matches('^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$')",message="a time of day has two digits for the hour and two for the minute, in quotes: \"09:30\""
type ClockTime string

// DeployWindow is a time of the week in which a step may begin.
// +kubebuilder:validation:XValidation:rule="(has(self.from) ? self.from : '00:00') != (has(self.to) ? self.to : '24:00') && (!has(self.from) || self.from != '24:00') && (!has(self.to) || self.to != '00:00')",message="window: from and to must differ; the beginning of the day is from: 00:00, its end is to: 24:00"
type DeployWindow struct {
	// timeZone of from and to, by its name in the IANA database, as in
	// "Europe/Zurich". Default: UTC. With a name that the database does not have the
	// window is closed, and condition Stalled says so.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$')",message="window.timeZone is a name of the IANA database, such as Europe/Zurich, and no offset such as +02:00"
	// +kubebuilder:validation:XValidation:rule="self != 'Local'",message="window.timeZone: Local is the manager's zone; name a zone such as Europe/Zurich"
	TimeZone string `json:"timeZone,omitempty"`

	// days on which the window opens. Default: every day.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	Days []Weekday `json:"days,omitempty"`

	// from is the time at which the window opens. Default: 00:00.
	// +optional
	From ClockTime `json:"from,omitempty"`

	// to is the time at which the window closes; where it is before from, on the next
	// day. Default: 24:00.
	// +optional
	To ClockTime `json:"to,omitempty"`
}

// ConditionConfigurationLost of a Microservice says that somebody deleted a
// release's copies, and that what they held is not known any more.
const ConditionConfigurationLost = "ConfigurationLost"
