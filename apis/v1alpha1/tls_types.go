package v1alpha1

// TLSMode is the kind of the object that terminates TLS for a domain.
// +kubebuilder:validation:Enum=Gateway;ListenerSet;Ingress;ApisixTls
type TLSMode string

// The modes, each named after a kind. TLSGateway and TLSListenerSet require spec.provider.gateway,
// TLSIngress requires spec.provider.ingress, and TLSApisix requires spec.provider.apisix.
const (
	// TLSGateway uses an HTTPS listener of the Gateway, with the certificate that the Gateway's
	// owner provides. The policy creates no object for this mode.
	TLSGateway TLSMode = "Gateway"
	// TLSListenerSet uses a ListenerSet that the policy creates for each host, and that the Gateway
	// must allow.
	TLSListenerSet TLSMode = "ListenerSet"
	// TLSIngress uses spec.tls of the Ingress.
	TLSIngress TLSMode = "Ingress"
	// TLSApisix uses an ApisixTls that the policy creates.
	TLSApisix TLSMode = "ApisixTls"
)

// DomainTLS defines how a domain is served with TLS.
// +kubebuilder:validation:XValidation:rule="!has(self.issuerRef) || has(self.secretName)",message="spec.domains[].tls.issuerRef requires secretName: the Secret that stores the certificate"
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Gateway' || !(has(self.secretName) || has(self.issuerRef))",message="spec.domains[].tls: secretName and issuerRef cannot be combined with mode Gateway, which uses the certificate of the Gateway's listener; for your own certificate use mode ListenerSet"
// +kubebuilder:validation:XValidation:rule="!has(self.port) || (has(self.mode) && self.mode == 'ListenerSet')",message="spec.domains[].tls.port is allowed only with mode ListenerSet: the other modes use the ports of their gateway"
type DomainTLS struct {
	// mode is the kind of the object that terminates TLS. Gateway means that an HTTPS listener of
	// the Gateway terminates TLS, with its own certificate. ListenerSet means that the policy
	// creates a ListenerSet for each host. Ingress means that the Ingress refers to the Secret in
	// spec.tls. ApisixTls means that the policy creates an ApisixTls. Gateway and ListenerSet
	// require spec.provider.gateway, Ingress requires spec.provider.ingress, and ApisixTls requires
	// spec.provider.apisix. Defaults to Gateway, Ingress or ApisixTls, depending on the provider.
	// +optional
	Mode TLSMode `json:"mode,omitempty"`

	// secretName is the name of the Secret of type kubernetes.io/tls, in the policy's namespace,
	// that contains the certificate. It can be a template with the fields {{.ReleaseGroupName}} (the
	// slug of the group, such as 1-x), {{.FullName}} (the Microservice and the slug, such as
	// shop-1-x), {{.Name}} (the name of the policy), {{.Microservice}} and {{.Namespace}}. Required
	// for all modes except Gateway. The gateway reads the Secret; the controller does not. Several
	// domains can use the same Secret.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]|\\\\{\\\\{ ?[.][A-Za-z]+ ?\\\\}\\\\})([-a-z0-9.]|\\\\{\\\\{ ?[.][A-Za-z]+ ?\\\\}\\\\})*$') && !self.endsWith('-') && !self.endsWith('.')",message="spec.domains[].tls.secretName must be the name of a Secret, in lower case, and must end with a letter or digit; it can contain fields such as {{.ReleaseGroupName}}"
	// +kubebuilder:validation:XValidation:rule="self.findAll('[.][A-Z][A-Za-z]*').all(f, f in ['.ReleaseGroupName', '.FullName', '.Name', '.Microservice', '.Namespace'])",message="spec.domains[].tls.secretName: the supported fields are ReleaseGroupName, FullName, Name, Microservice and Namespace"
	SecretName string `json:"secretName,omitempty"`

	// issuerRef requests the certificate from cert-manager. One Certificate with the name of the
	// Secret is created for all hosts that use the Secret. Without issuerRef, you provide the Secret.
	// +optional
	IssuerRef *IssuerReference `json:"issuerRef,omitempty"`

	// port of the listener in a ListenerSet. Defaults to 443.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// IssuerReference refers to a cert-manager issuer.
// +kubebuilder:validation:XValidation:rule="!has(self.kind) || (has(self.group) && self.group != 'cert-manager.io') || self.kind in ['Issuer', 'ClusterIssuer']",message="spec.domains[].tls.issuerRef.kind must be Issuer or ClusterIssuer: for any other kind, set group to its API group"
type IssuerReference struct {
	// name of the issuer.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// kind of the issuer: Issuer, in the policy's namespace, or ClusterIssuer. Any other kind
	// requires group. Defaults to Issuer.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[A-Za-z][A-Za-z0-9]*$")`,message="kind must be one word in CamelCase, such as ClusterIssuer"
	Kind string `json:"kind,omitempty"`

	// group of the issuer's API. Defaults to cert-manager.io.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
}
