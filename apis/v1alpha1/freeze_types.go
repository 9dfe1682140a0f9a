package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// FreezeRules define what a freeze applies to, why, and when.
type FreezeRules struct {
	// selector selects Microservices by label. Defaults to all Microservices. An invalid selector
	// selects no Microservice, and the Stalled condition reports the error.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// reason for the freeze. It is shown wherever a release is waiting for the end of the freeze.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason"`

	// until is the RFC 3339 time at which the freeze ends, such as 2026-12-27T00:00:00Z. The freeze begins when the object is created. Set
	// exactly one of until, periods and indefinite.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`

	// periods is a calendar: the freeze applies during each of these periods, and not between
	// them. Periods may overlap.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Periods []FreezePeriod `json:"periods,omitempty"`

	// indefinite defines whether the freeze applies until the object is deleted or changed. Defaults to
	// false.
	// +optional
	Indefinite bool `json:"indefinite,omitempty"`
}

// FreezePeriod is a period during which a freeze applies.
// +kubebuilder:validation:XValidation:rule="self.to > self.from",message="spec.periods: to must be after from"
type FreezePeriod struct {
	// from is the RFC 3339 time at which the period begins.
	// +required
	From metav1.Time `json:"from"`

	// to is the RFC 3339 time at which the period ends and rollouts continue.
	// +required
	To metav1.Time `json:"to"`

	// reason for the freeze in this period. Defaults to spec.reason.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
}

// FreezeSpec defines which Microservices of the namespace are frozen, why, and when.
// +kubebuilder:validation:XValidation:rule="[has(self.until), has(self.periods), has(self.indefinite) && self.indefinite].filter(x, x).size() == 1",message="spec: set exactly one of until, periods and indefinite: a freeze without an end needs indefinite: true"
type FreezeSpec struct {
	FreezeRules `json:",inline"`

	// exceptions are Microservices to which the freeze does not apply, such as a Microservice that
	// needs a hotfix.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Exceptions []FreezeException `json:"exceptions,omitempty"`
}

// FreezeException is a Microservice to which a freeze does not apply.
type FreezeException struct {
	// name of the Microservice.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// reason why the freeze does not apply to this Microservice.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason"`
}

// ClusterFreezeSpec defines which Microservices of the cluster are frozen, why, and when.
// +kubebuilder:validation:XValidation:rule="[has(self.until), has(self.periods), has(self.indefinite) && self.indefinite].filter(x, x).size() == 1",message="spec: set exactly one of until, periods and indefinite: a freeze without an end needs indefinite: true"
type ClusterFreezeSpec struct {
	FreezeRules `json:",inline"`

	// namespaceSelector selects the namespaces of the Microservices by label. Defaults to all
	// namespaces. An invalid selector selects no namespace.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// exceptions are Microservices to which the freeze does not apply.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Exceptions []ClusterFreezeException `json:"exceptions,omitempty"`
}

// ClusterFreezeException is a Microservice to which a ClusterFreeze does not apply.
type ClusterFreezeException struct {
	// namespace of the Microservice.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// name of the Microservice.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// reason why the freeze does not apply to this Microservice.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason"`
}

// FreezeStatus reports whether a freeze applies now. The effect of the freeze on
// Microservices depends only on the specification, not on this status.
type FreezeStatus struct {
	// conditions are Ready, and Stalled if a selector is invalid.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// active reports whether the freeze applies now. It is false if a selector is invalid.
	// +optional
	Active bool `json:"active"`

	// from is when the next period begins, if the freeze does not apply now.
	// +optional
	From *metav1.Time `json:"from,omitempty"`

	// until is when the freeze ends. If the freeze has periods, it is when the current or next
	// period ends. It is not set if the freeze has no end.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`

	// reason for the freeze. If the freeze has periods, it is the reason for the current or next
	// period.
	// +optional
	Reason string `json:"reason,omitempty"`

	// services is the number of Microservices that the freeze selects, excluding exceptions.
	// +optional
	Services int32 `json:"services"`
}

// Freeze keeps the Microservices of its namespace from starting new releases and from giving
// canaries more traffic. Rollbacks, and decisions that reduce the traffic of a canary, still take
// effect.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=frz,categories=hlnr
// +kubebuilder:printcolumn:name="Active",type=boolean,JSONPath=`.status.active`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.status.until`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Services",type=integer,JSONPath=`.status.services`
// +kubebuilder:printcolumn:name="By",type=string,JSONPath=`.metadata.annotations.hlnr\.io/decided-by`
// +kubebuilder:printcolumn:name="From",type=string,priority=1,JSONPath=`.status.from`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Freeze struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines what is frozen, why, and when.
	// +required
	Spec FreezeSpec `json:"spec"`

	// status reports whether the freeze applies now.
	// +optional
	Status FreezeStatus `json:"status,omitempty"`
}

// FreezeList is a list of Freezes.
// +kubebuilder:object:root=true
type FreezeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Freeze `json:"items"`
}

// ClusterFreeze keeps the Microservices of the cluster, or of selected namespaces, from starting
// new releases and from giving canaries more traffic. Rollbacks, and decisions that reduce the
// traffic of a canary, still take effect.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=cfrz,categories=hlnr
// +kubebuilder:printcolumn:name="Active",type=boolean,JSONPath=`.status.active`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.status.until`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Services",type=integer,JSONPath=`.status.services`
// +kubebuilder:printcolumn:name="By",type=string,JSONPath=`.metadata.annotations.hlnr\.io/decided-by`
// +kubebuilder:printcolumn:name="From",type=string,priority=1,JSONPath=`.status.from`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterFreeze struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines what is frozen, why, and when.
	// +required
	Spec ClusterFreezeSpec `json:"spec"`

	// status reports whether the freeze applies now.
	// +optional
	Status FreezeStatus `json:"status,omitempty"`
}

// ClusterFreezeList is a list of ClusterFreezes.
// +kubebuilder:object:root=true
type ClusterFreezeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterFreeze `json:"items"`
}
