package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Kinds of shared analyses.
const (
	KindAnalysisTemplate        = "AnalysisTemplate"
	KindClusterAnalysisTemplate = "ClusterAnalysisTemplate"
)

// AnalysisTemplateReference refers to a shared analysis, and adapts it to a Microservice.
type AnalysisTemplateReference struct {
	// kind is AnalysisTemplate, for a template in the namespace of the Microservice, or
	// ClusterAnalysisTemplate. Defaults to AnalysisTemplate.
	// +optional
	// +kubebuilder:default=AnalysisTemplate
	// +kubebuilder:validation:Enum=AnalysisTemplate;ClusterAnalysisTemplate
	Kind string `json:"kind,omitempty"`

	// name of the template.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// args are values for the arguments of the template.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Args []AnalysisArgumentValue `json:"args,omitempty"`

	// metrics lists changes to the template's metrics for this Microservice.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=10
	Metrics []AnalysisMetricChange `json:"metrics,omitempty"`
}

// AnalysisArgumentValue is the value of a template's argument.
type AnalysisArgumentValue struct {
	// name of the argument.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// value of the argument. The allowed characters have no special meaning in PromQL or JSON strings.
	// In the host of a URL, the value must be a single DNS label, without '.', '/' or ':'. In the path
	// of a URL, a '/' in the value begins another segment, and '..' is rejected.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9._:/-]*$')",message="analysisTemplateRef.args[].value must consist of letters, digits, '.', '_', ':', '/' and '-'"
	Value string `json:"value"`
}

// AnalysisMetricChange changes a metric of a template.
// +kubebuilder:validation:XValidation:rule="has(self.thresholdRange) || has(self.dryRun)",message="analysisTemplateRef.metrics[]: set thresholdRange or dryRun"
type AnalysisMetricChange struct {
	// name of the metric in the template.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// thresholdRange replaces the thresholdRange of the metric. The inconclusiveRange of the metric
	// is removed if it is not wider than the new thresholdRange.
	// +optional
	ThresholdRange *ValueRange `json:"thresholdRange,omitempty"`

	// dryRun replaces the dryRun of the metric.
	// +optional
	DryRun *bool `json:"dryRun,omitempty"`
}

// AnalysisArgument is an argument of a template. Each Microservice can set its own value for it.
type AnalysisArgument struct {
	// name of the argument; {{.Args.NAME}} is replaced by its value.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z][A-Za-z0-9]*$')",message="the name of an argument must consist of letters and digits, and must start with a lowercase letter, such as minRate"
	Name string `json:"name"`

	// default is the value for Microservices that do not set the argument. Without a default, every
	// Microservice must set the argument.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9._:/-]*$')",message="spec.args[].default must consist of letters, digits, '.', '_', ':', '/' and '-'"
	Default *string `json:"default,omitempty"`
}

// AnalysisTemplateSpec is an analysis that Microservices share. A change takes effect in the next
// round.
type AnalysisTemplateSpec struct {
	// args are the arguments of the analysis. In prometheus.query, web.url, web.body and
	// web.headers[].value, {{.Args.NAME}} is replaced by the value of the argument NAME.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Args []AnalysisArgument `json:"args,omitempty"`

	CanaryAnalysis `json:",inline"`
}

// AnalysisTemplate is an analysis that Microservices in its namespace share. The Secrets that it
// refers to are read from the same namespace.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=atpl,categories=hlnr
// +kubebuilder:printcolumn:name="Interval",type=string,JSONPath=`.spec.interval`
// +kubebuilder:printcolumn:name="Count",type=integer,JSONPath=`.spec.count`
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.spec.source`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AnalysisTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines the analysis.
	// +required
	Spec AnalysisTemplateSpec `json:"spec"`
}

// AnalysisTemplateList is a list of AnalysisTemplates.
// +kubebuilder:object:root=true
type AnalysisTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AnalysisTemplate `json:"items"`
}

// ClusterAnalysisTemplateSpec is an analysis that is offered to namespaces.
type ClusterAnalysisTemplateSpec struct {
	// namespaces whose Microservices may use the template. If the list is set, it must contain
	// at least one namespace. Defaults to all namespaces.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`

	AnalysisTemplateSpec `json:",inline"`
}

// ClusterAnalysisTemplate is an analysis that a cluster administrator offers to the Microservices of
// all or selected namespaces. The Secrets that it refers to are read from the namespace of the
// Microservice.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=catpl,categories=hlnr
// +kubebuilder:printcolumn:name="Interval",type=string,JSONPath=`.spec.interval`
// +kubebuilder:printcolumn:name="Count",type=integer,JSONPath=`.spec.count`
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.spec.source`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterAnalysisTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines the analysis.
	// +required
	Spec ClusterAnalysisTemplateSpec `json:"spec"`
}

// ClusterAnalysisTemplateList is a list of ClusterAnalysisTemplates.
// +kubebuilder:object:root=true
type ClusterAnalysisTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterAnalysisTemplate `json:"items"`
}
