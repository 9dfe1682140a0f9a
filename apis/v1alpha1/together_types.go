package v1alpha1

// TogetherStrategy makes the canaries of several Microservices in a namespace advance
// together: those with the same together.name and the same version. A canary begins its next
// step, or becomes active, only when all of them have completed the current step.
type TogetherStrategy struct {
	// name that the Microservices share.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="spec.updateStrategy.canary.together.name must consist of lower-case letters, digits and '-', such as checkout"
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// onFailure defines what happens to a canary whose version fails in another of these
	// Microservices. Defaults to Hold.
	// +optional
	OnFailure TogetherFailure `json:"onFailure,omitempty"`
}

// TogetherFailure defines what happens when the version fails in another Microservice.
// +kubebuilder:validation:Enum=Hold;RollBack
type TogetherFailure string

const (
	// TogetherHold keeps the canary in its step until the failure is fixed.
	TogetherHold TogetherFailure = "Hold"
	// TogetherRollBack rolls the canary back as well.
	TogetherRollBack TogetherFailure = "RollBack"
)
