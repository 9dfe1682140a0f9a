package v1alpha1

// TogetherStrategy makes the canaries of several Microservices of a namespace go
// through their steps together: those that have the same name here, and run the same
// version. A step, and the last one into becoming active, is passed when all of them
// have come as far.
type TogetherStrategy struct {
	// name that the Microservices share.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="spec.updateStrategy.canary.together.name must consist of lower-case letters, digits and '-', such as checkout"
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// onFailure selects what happens to a canary whose version fails at another one of
	// them. Defaults to Hold.
	// +optional
	OnFailure TogetherFailure `json:"onFailure,omitempty"`
}

// TogetherFailure is what follows when the version fails elsewhere.
// +kubebuilder:validation:Enum=Hold;RollBack
type TogetherFailure string

const (
	// TogetherHold keeps the canary in its step until the failure is fixed.
	TogetherHold TogetherFailure = "Hold"
	// TogetherRollBack rolls the canary back as well.
	TogetherRollBack TogetherFailure = "RollBack"
)
