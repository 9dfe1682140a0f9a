package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// NetworkPolicySpec defines how clients reach the releases of a Microservice.
//
// +kubebuilder:validation:XValidation:rule="!has(self.domains) || size(self.domains) == 0 || has(self.provider)",message="spec.domains requires spec.provider, which routes them"
// +kubebuilder:validation:XValidation:rule="!has(self.domains) || self.domains.all(d, has(d.port) ? self.ports.exists(p, p.name == d.port) : size(self.ports) == 1)",message="spec.domains[].port must be the name of one of spec.ports; it may be omitted only when there is one port"
// +kubebuilder:validation:XValidation:rule="!has(self.domains) || self.domains.all(d, self.ports.all(p, !has(p.protocol) || !(p.protocol in ['TCP', 'UDP']) || (has(d.port) ? p.name != d.port : size(self.ports) != 1)))",message="spec.domains[].port must name a port with protocol HTTP, HTTPS, GRPC or TLS: for TCP and UDP, which have no hosts, use spec.listeners"
// +kubebuilder:validation:XValidation:rule="!has(self.domains) || self.domains.all(d, !(has(d.path) || has(d.canaryMatches)) || self.ports.all(p, !has(p.protocol) || p.protocol != 'TLS' || (has(d.port) ? p.name != d.port : size(self.ports) != 1)))",message="spec.domains[]: path and canaryMatches cannot be combined with a port with protocol TLS, because only the pods can decrypt requests"
// +kubebuilder:validation:XValidation:rule="!has(self.domains) || self.domains.all(d, !has(d.path) || self.ports.all(p, !has(p.protocol) || p.protocol != 'GRPC' || (has(d.port) ? p.name != d.port : size(self.ports) != 1)))",message="spec.domains[].path requires a port with protocol HTTP or HTTPS: to select gRPC calls, use canaryMatches[].grpc"
// +kubebuilder:validation:XValidation:rule="!has(self.listeners) || size(self.listeners) == 0 || has(self.provider)",message="spec.listeners requires spec.provider, which routes them"
// +kubebuilder:validation:XValidation:rule="!has(self.listeners) || size(self.listeners) == 0 || !has(self.provider) || has(self.provider.gateway)",message="spec.listeners requires spec.provider.gateway: no other provider has listeners"
// +kubebuilder:validation:XValidation:rule="!has(self.domains) || !has(self.provider) || has(self.provider.gateway) || self.domains.all(d, !has(d.parentRefs))",message="spec.domains[].parentRefs requires spec.provider.gateway: no other provider has Gateways"
// +kubebuilder:validation:XValidation:rule="!has(self.domains) || !has(self.provider) || self.domains.all(d, !has(d.tls) || !has(d.tls.mode) || (d.tls.mode in ['Gateway', 'ListenerSet'] ? has(self.provider.gateway) : d.tls.mode == 'Ingress' ? has(self.provider.ingress) : has(self.provider.apisix)))",message="spec.domains[].tls.mode must be Gateway or ListenerSet if spec.provider.gateway is set, Ingress if spec.provider.ingress is set, and ApisixTls if spec.provider.apisix is set"
// +kubebuilder:validation:XValidation:rule="!has(self.domains) || !has(self.provider) || self.domains.all(d, !has(d.tls) || has(d.tls.secretName) || (has(self.provider.gateway) && !(has(d.tls.mode) && d.tls.mode == 'ListenerSet')))",message="spec.domains[].tls.secretName is required, except in mode Gateway, which uses the certificate of the Gateway's listener"
// +kubebuilder:validation:XValidation:rule="!has(self.domains) || !has(self.provider) || !has(self.provider.gateway) || self.domains.all(d, !has(d.tls) || !has(d.tls.secretName) || has(d.tls.mode))",message="spec.domains[].tls.secretName requires mode ListenerSet: spec.provider.gateway defaults to mode Gateway, which uses the certificate of the Gateway's listener"
// +kubebuilder:validation:XValidation:rule="!has(self.domains) || !has(self.provider) || !has(self.provider.gateway) || self.domains.all(d, !has(d.tls) || !has(d.tls.mode) || d.tls.mode != 'ListenerSet' || (has(d.parentRefs) ? size(d.parentRefs) <= 2 : size(self.provider.gateway.parentRefs) <= 2))",message="spec.domains[].tls.mode ListenerSet allows at most 2 parentRefs: a route with 16 hosts refers to 16 ListenerSets for each parentRef, and can refer to at most 32 parents"
// +kubebuilder:validation:XValidation:rule="!has(self.domains) || self.domains.all(d, !has(d.tls) || self.ports.all(p, !has(p.protocol) || p.protocol != 'TLS' || (has(d.port) ? p.name != d.port : size(self.ports) != 1)))",message="spec.domains[].tls cannot be combined with a port with protocol TLS, whose pods have the certificate and terminate TLS: omit tls, or change the protocol of the port"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || !has(self.provider.gateway) || !has(self.provider.gateway.filters) || !has(self.domains) || !self.provider.gateway.filters.exists(f, has(f.urlRewrite) && has(f.urlRewrite.replacePrefixMatch)) || self.domains.all(d, !has(d.canaryMatches) || d.canaryMatches.all(m, !has(m.path) || !has(m.path.type) || m.path.type == 'PathPrefix'))",message="spec.domains[].canaryMatches[].path.type must be PathPrefix or omitted if urlRewrite.replacePrefixMatch is set in spec.provider.gateway.filters: an exact path has no prefix to replace"
// +kubebuilder:validation:XValidation:rule="!has(self.listeners) || self.listeners.all(l, self.ports.exists(p, p.name == l.port && has(p.protocol) && p.protocol in ['TCP', 'UDP']))",message="spec.listeners[].port must be the name of one of spec.ports with protocol TCP or UDP: ports of other protocols are routed by spec.domains"
// +kubebuilder:validation:XValidation:rule="!has(self.adoptFrom) || (has(self.deletionPolicy) && self.deletionPolicy != 'Delete')",message="spec.deletionPolicy must be Restore or Orphan if spec.adoptFrom is set: otherwise deleting the policy would leave the Service without pods"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.adoptFrom) || (has(self.adoptFrom) && self.adoptFrom == oldSelf.adoptFrom)",message="spec.adoptFrom cannot be changed or removed, because the adopted Service would continue to select one release, even after that release is deleted: delete the policy, with deletionPolicy Restore or Orphan, and create another"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || !has(self.provider.routeRef) || !has(self.domains) || size(self.domains) == 0",message="spec.domains cannot be combined with spec.provider.routeRef: the route itself defines its hosts and the matches of its rules"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || !has(self.provider.routeRef) || (has(self.provider.routeRef.port) ? self.ports.exists(p, p.name == self.provider.routeRef.port) : size(self.ports) == 1)",message="spec.provider.routeRef.port must be the name of one of spec.ports; it may be omitted only when there is one port"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || !has(self.provider.routeRef) || self.ports.all(p, (has(self.provider.routeRef.port) ? p.name != self.provider.routeRef.port : size(self.ports) != 1) || (has(p.protocol) && p.protocol == 'UDP') == (self.provider.routeRef.kind == 'UDPRoute'))",message="spec.provider.routeRef.port must name a port with protocol UDP for a UDPRoute, and a port of another protocol for all other kinds"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || !has(self.provider.routeRef) || (has(self.deletionPolicy) && self.deletionPolicy != 'Delete')",message="spec.deletionPolicy must be Restore or Orphan if spec.provider.routeRef is set: otherwise deleting the policy would leave rules in your route that refer to deleted Services"
type NetworkPolicySpec struct {
	// microserviceRef refers to the Microservice in this namespace. Defaults to the Microservice with
	// the same name as the policy.
	// +optional
	MicroserviceRef *Reference `json:"microserviceRef,omitempty"`

	// ports of the Services that the policy creates.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=12
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.port == p.port && (has(q.protocol) && q.protocol == 'UDP') == (has(p.protocol) && p.protocol == 'UDP')))",message="spec.ports: each port number may be used once over TCP (all protocols except UDP), and once over UDP"
	Ports []NetworkPort `json:"ports"`

	// provider routes domains and splits traffic. Exactly one member must be set. By default only
	// Services are created, and the traffic of a group is not split: all of it moves to another release
	// at the same time.
	// +optional
	Provider *NetworkProvider `json:"provider,omitempty"`

	// drainDelay is how long the routes of the previous provider remain, for clients that still use
	// them, after a new provider begins to serve everything that these routes serve. Set it to more
	// than the TTL of the DNS records. Defaults to the Microservice's updateStrategy.drainDelay or
	// to 5s, whichever is longer.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('24h')",message="spec.drainDelay must be at most 24h"
	DrainDelay Duration `json:"drainDelay,omitempty"`

	// domains that are routed to releases.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Domains []Domain `json:"domains,omitempty"`

	// listeners are the Gateway listeners from which connections and datagrams are routed to
	// releases. They require ports with protocol TCP or UDP.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Listeners []Listener `json:"listeners,omitempty"`

	// timeouts of requests to domains. They apply only to HTTPRoutes. "0s" means no limit. Defaults to
	// the timeouts of the gateway.
	// +optional
	Timeouts *RouteTimeouts `json:"timeouts,omitempty"`

	// sessionAffinity routes a client to the release, or the pod, that served its first request.
	// Exactly one member must be set.
	// +optional
	SessionAffinity *SessionAffinity `json:"sessionAffinity,omitempty"`

	// adoptFrom takes over a Service that clients already use.
	// +optional
	AdoptFrom *AdoptService `json:"adoptFrom,omitempty"`

	// deletionPolicy defines what remains after the policy is deleted. Delete means that all objects
	// that Heighliner created for it are deleted. Orphan means that its Services and routes remain.
	// Restore means that the adopted Service remains with its original selector, or that the rules of
	// routeRef remain with their original backendRefs. Defaults to Delete.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// PortProtocol is the protocol of a port.
// +kubebuilder:validation:Enum=HTTP;HTTPS;GRPC;TLS;TCP;UDP
type PortProtocol string

// The protocols. HTTP, HTTPS, GRPC and TLS are for domains; TCP and UDP are for listeners. HTTPS means
// that the pods serve HTTPS. TLS means that the pods terminate TLS, and that connections are routed
// by the server name that the client requests.
const (
	ProtocolHTTP  PortProtocol = "HTTP"
	ProtocolHTTPS PortProtocol = "HTTPS"
	ProtocolGRPC  PortProtocol = "GRPC"
	ProtocolTLS   PortProtocol = "TLS"
	ProtocolTCP   PortProtocol = "TCP"
	ProtocolUDP   PortProtocol = "UDP"
)

// NetworkPort is a port of a Service.
type NetworkPort struct {
	// name of the port.
	// +required
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")`,message="spec.ports[].name must consist of lowercase letters, digits and '-', and must start and end with a letter or digit, such as http"
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// port of the Service.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// targetPort of the pods, by number or name. Defaults to port.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 65535 : self.matches('^([0-9]+-)*[0-9]*[a-z](-?[a-z0-9])*$')",message="spec.ports[].targetPort must be a number from 1 to 65535, without quotes, or the name of a container port, which consists of at most 15 lowercase letters, digits and non-consecutive '-', contains at least one letter, and starts and ends with a letter or digit, such as http-alt"
	TargetPort *intstr.IntOrString `json:"targetPort,omitempty"`

	// protocol of the port. HTTP, HTTPS, GRPC and TLS are for domains; TCP and UDP are for listeners.
	// HTTPS means that the pods serve HTTPS. TLS means that the pods terminate TLS, and that
	// connections are routed by the server name that the client requests. Defaults to HTTP.
	// +optional
	Protocol PortProtocol `json:"protocol,omitempty"`

	// appProtocol of the Service's port, for example "kubernetes.io/h2c". Defaults to "https" for
	// protocol HTTPS, and to "kubernetes.io/h2c" for protocol GRPC. For other protocols, there is no
	// default.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="spec.ports[].appProtocol must be a protocol name such as https, or a name with a domain as its prefix such as kubernetes.io/h2c"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	AppProtocol string `json:"appProtocol,omitempty"`
}

// NetworkProvider routes domains. Exactly one member must be set.
// +kubebuilder:validation:XValidation:rule="[has(self.gateway), has(self.ingress), has(self.apisix), has(self.routeRef)].filter(x, x).size() == 1",message="spec.provider: set exactly one of gateway, ingress, apisix and routeRef"
type NetworkProvider struct {
	// gateway writes routes of the Gateway API: HTTPRoutes, GRPCRoutes, TLSRoutes,
	// TCPRoutes or UDPRoutes, depending on the protocol of each port.
	// +optional
	Gateway *GatewayProvider `json:"gateway,omitempty"`

	// ingress writes Ingresses of networking.k8s.io/v1.
	// +optional
	Ingress *IngressProvider `json:"ingress,omitempty"`

	// apisix writes ApisixRoutes of apisix.apache.org/v2.
	// +optional
	APISIX *APISIXProvider `json:"apisix,omitempty"`

	// routeRef sets the backendRefs of rules in a user-managed route, and changes nothing
	// else in it.
	// +optional
	RouteRef *RouteReference `json:"routeRef,omitempty"`
}

// RouteReference refers to rules of a user-managed route of the Gateway API, in the policy's
// namespace. The policy owns their backendRefs, and no other field of the route.
// +kubebuilder:validation:XValidation:rule="!(has(self.groups) && has(self.release))",message="spec.provider.routeRef: set at most one of groups and release"
// +kubebuilder:validation:XValidation:rule="!has(self.groups) || self.groups.policy != 'Each'",message="spec.provider.routeRef.groups.policy must be Newest or Named: a rule routes to one group at a time"
// +kubebuilder:validation:XValidation:rule="!has(self.release) || !has(self.release.status)",message="spec.provider.routeRef.release.status is not supported: set release.version"
type RouteReference struct {
	// kind of the route: HTTPRoute, GRPCRoute, TLSRoute, TCPRoute or UDPRoute.
	// +required
	// +kubebuilder:validation:Enum=HTTPRoute;GRPCRoute;TLSRoute;TCPRoute;UDPRoute
	Kind string `json:"kind"`

	// name of the route.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// ruleNames are the names of the rules. Defaults to the only rule of the route or, if the
	// route has several rules, to the only rule without a name.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	RuleNames []string `json:"ruleNames,omitempty"`

	// port is the name of the port in spec.ports. Required if there are several ports.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Port string `json:"port,omitempty"`

	// groups that the rules can route to: the newest group, or the first named group that has an
	// active release. Defaults to the newest group.
	// +optional
	Groups *DomainGroups `json:"groups,omitempty"`

	// release pins the rules to a version. Its status field is not supported here. At most one of
	// groups and release can be set.
	// +optional
	Release *DomainRelease `json:"release,omitempty"`
}

// IngressProvider writes Ingresses.
type IngressProvider struct {
	// className is the name of the IngressClass that the Ingresses use.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")`,message="spec.provider.ingress.className, the name of an IngressClass, must consist of lowercase letters, digits, '-' and '.', and each part between dots must start and end with a letter or digit, such as nginx"
	ClassName string `json:"className"`

	// annotationPrefix is the prefix of the ingress-nginx canary annotations that the class
	// supports, for example nginx.ingress.kubernetes.io. Without it, no canary annotations are written,
	// and the traffic of a group moves as a whole.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")`,message="spec.provider.ingress.annotationPrefix must be a host name without '/', in which each part between dots consists of lowercase letters, digits and '-', and starts and ends with a letter or digit, such as nginx.ingress.kubernetes.io"
	AnnotationPrefix string `json:"annotationPrefix,omitempty"`
}

// APISIXProvider writes ApisixRoutes.
type APISIXProvider struct {
	// className is the ingress class of the ApisixRoutes. Without it, every APISIX instance serves
	// them.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")`,message="spec.provider.apisix.className must consist of lowercase letters, digits, '-' and '.', and each part between dots must start and end with a letter or digit, such as apisix"
	ClassName string `json:"className,omitempty"`
}

// GatewayProvider writes routes of the Gateway API.
type GatewayProvider struct {
	// parentRefs are the Gateways that serve the domains. They must allow routes from the policy's
	// namespace.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.name == p.name && (has(p.__namespace__) ? has(q.__namespace__) && q.__namespace__ == p.__namespace__ : !has(q.__namespace__)) && (!has(p.sectionName) || !has(q.sectionName) || q.sectionName == p.sectionName)))",message="spec.provider.gateway.parentRefs: references to the same Gateway must have different sectionNames"
	ParentRefs []ParentReference `json:"parentRefs"`

	// confirm defines when a route counts as programmed. Status means that every parent has
	// accepted the route. Probe means that, in addition, the addresses of the Gateways serve the
	// route as it was written. Probe applies only to HTTPRoutes. Defaults to Status.
	// +optional
	Confirm ConfirmMode `json:"confirm,omitempty"`

	// filters are applied to every request to a domain, in the order of the list. They become
	// filters of HTTPRoutes and GRPCRoutes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.filter(f, has(f.requestHeaderModifier)).size() <= 1 && self.filter(f, has(f.responseHeaderModifier)).size() <= 1 && self.filter(f, has(f.urlRewrite)).size() <= 1",message="spec.provider.gateway.filters: only extensionRef may be set more than once"
	Filters []RouteFilter `json:"filters,omitempty"`
}

// ConfirmMode defines how the policy confirms that a route is served.
// +kubebuilder:validation:Enum=Status;Probe
type ConfirmMode string

const (
	// ConfirmStatus relies on the status of the route.
	ConfirmStatus ConfirmMode = "Status"
	// ConfirmProbe also sends requests to the addresses of the Gateways. The gateway responds to these
	// requests without calling a pod.
	ConfirmProbe ConfirmMode = "Probe"
)

// RouteFilter changes requests or responses. Exactly one member must be set.
// +kubebuilder:validation:XValidation:rule="[has(self.requestHeaderModifier), has(self.responseHeaderModifier), has(self.urlRewrite), has(self.extensionRef)].filter(x, x).size() == 1",message="spec.provider.gateway.filters[]: set exactly one of requestHeaderModifier, responseHeaderModifier, urlRewrite and extensionRef"
type RouteFilter struct {
	// requestHeaderModifier changes headers of requests.
	// +optional
	RequestHeaderModifier *HeaderModifier `json:"requestHeaderModifier,omitempty"`

	// responseHeaderModifier changes headers of responses.
	// +optional
	ResponseHeaderModifier *HeaderModifier `json:"responseHeaderModifier,omitempty"`

	// urlRewrite changes the host and path that the pods receive. It does not apply to GRPCRoutes.
	// +optional
	URLRewrite *URLRewrite `json:"urlRewrite,omitempty"`

	// extensionRef refers to an object of a kind that the gateway defines, in the policy's
	// namespace.
	// +optional
	ExtensionRef *ExtensionReference `json:"extensionRef,omitempty"`
}

// HeaderModifier changes headers.
// +kubebuilder:validation:XValidation:rule="has(self.set) || has(self.add) || has(self.remove)",message="at least one of set, add and remove is required"
type HeaderModifier struct {
	// set lists headers and the values that replace their existing values.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Set []HeaderValue `json:"set,omitempty"`

	// add lists headers and the values that are added to them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Add []HeaderValue `json:"add,omitempty"`

	// remove lists the names of the headers to remove.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Remove []string `json:"remove,omitempty"`
}

// HeaderValue is a header and its value.
type HeaderValue struct {
	// name of the header.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[A-Za-z0-9!#$%&'*+.^_|~-]+$")`,message="the name of a header must consist of letters, digits and !#$%&'*+.^_|~-, without spaces, such as X-Team"
	Name string `json:"name"`

	// value of the header.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value"`
}

// URLRewrite changes the URL that the pods receive.
// +kubebuilder:validation:XValidation:rule="has(self.hostname) || has(self.replacePrefixMatch)",message="spec.provider.gateway.filters[].urlRewrite: set at least one of hostname and replacePrefixMatch"
type URLRewrite struct {
	// hostname that replaces the domain in requests to the pods.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")`,message="urlRewrite.hostname must be a host name in lower case without a port, such as shop.example.com"
	Hostname string `json:"hostname,omitempty"`

	// replacePrefixMatch replaces the domain's path. It cannot be combined with a
	// canaryMatches[].path of type Exact.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^/([-A-Za-z0-9/._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})*$")`,message="urlRewrite.replacePrefixMatch must begin with '/' and consist of letters, digits, '/' and -._~!$&'()*+,;=:@: percent-encode all other characters, as in /caf%C3%A9"
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r"//|/[.]{1,2}(/|$)|%2[Ff]|%5[Cc]")`,message="urlRewrite.replacePrefixMatch must not contain '//', a segment '.' or '..', or an escaped slash or backslash (%2F, %5C), which gateways change or reject: write the path without them, such as /shop"
	ReplacePrefixMatch string `json:"replacePrefixMatch,omitempty"`
}

// ExtensionReference refers to an object of a kind that a gateway defines.
type ExtensionReference struct {
	// group of the API that defines the kind.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")`,message="the group of an extensionRef must consist of lowercase letters, digits, '-' and '.', and each part between dots must start and end with a letter or digit, such as traefik.io"
	Group string `json:"group"`

	// kind of the object.
	// +required
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$")`,message="kind must start with a letter, and end with a letter or digit, such as Middleware"
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// RouteTimeouts limit the duration of requests. "0s" means no limit.
// +kubebuilder:validation:XValidation:rule="!has(self.request) || !has(self.backendRequest) || duration(self.request) == duration('0s') || duration(self.backendRequest) <= duration(self.request)",message="spec.timeouts: backendRequest must be less than or equal to request"
type RouteTimeouts struct {
	// request is the timeout of a whole request, including retries, as a duration such as 30s. "0s"
	// means no limit.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$')",message="must be a duration: one to four whole numbers of at most five digits, each with a unit (h, m, s or ms), such as 30s, 1m30s or 500ms"
	// +kubebuilder:validation:MaxLength=32
	Request string `json:"request,omitempty"`

	// backendRequest is the timeout of a single request to a pod, as a duration such as 10s. "0s" means
	// no limit. It must be less than or equal to request, unless request is "0s".
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$')",message="must be a duration: one to four whole numbers of at most five digits, each with a unit (h, m, s or ms), such as 30s, 1m30s or 500ms"
	// +kubebuilder:validation:MaxLength=32
	BackendRequest string `json:"backendRequest,omitempty"`
}

// SessionAffinity keeps routing a client to the same release or pod. Exactly one member must be set.
// +kubebuilder:validation:XValidation:rule="has(self.cookie) != has(self.clientIP)",message="spec.sessionAffinity: set exactly one of cookie and clientIP"
type SessionAffinity struct {
	// cookie enables affinity based on a cookie that the gateway sets. It requires the experimental
	// channel of the Gateway API, and a gateway that implements sessionPersistence.
	// +optional
	Cookie *AffinityCookie `json:"cookie,omitempty"`

	// clientIP enables session affinity of the Services, based on the client's address. It has no
	// effect on requests through gateways, which select pods themselves.
	// +optional
	ClientIP *AffinityClientIP `json:"clientIP,omitempty"`
}

// AffinityCookie is a cookie that a gateway sets.
type AffinityCookie struct {
	// name of the cookie. Defaults to a name that the gateway chooses.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[A-Za-z0-9!#$%&'*+.^_|~-]+$")`,message="the name of a cookie must consist of letters, digits and !#$%&'*+.^_|~-, without spaces, such as SESSION"
	Name string `json:"name,omitempty"`

	// lifetime of the cookie, as a duration such as 24h. By default the cookie is a session cookie.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$')",message="must be a duration: one to four whole numbers of at most five digits, each with a unit (h, m, s or ms), such as 30s, 1m30s or 500ms"
	// +kubebuilder:validation:MaxLength=32
	Lifetime string `json:"lifetime,omitempty"`
}

// AffinityClientIP is affinity based on a client's address.
type AffinityClientIP struct {
	// timeoutSeconds is how long the affinity lasts after the last connection. Defaults to 10800.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// ParentReference refers to a Gateway, or one of its listeners.
type ParentReference struct {
	// namespace of the Gateway. Defaults to the policy's namespace.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")`,message="the namespace of a Gateway must consist of lowercase letters, digits and '-', and must start and end with a letter or digit, such as infra"
	Namespace string `json:"namespace,omitempty"`

	// name of the Gateway.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")`,message="the name of a Gateway must consist of lowercase letters, digits, '-' and '.', and each part between dots must start and end with a letter or digit, such as public"
	Name string `json:"name"`

	// sectionName is the name of a listener. Defaults to all listeners that accept the route.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")`,message="sectionName, the name of a listener of the Gateway, must consist of lowercase letters, digits, '-' and '.', and each part between dots must start and end with a letter or digit, such as web"
	SectionName string `json:"sectionName,omitempty"`
}

// Domain is a host, and the releases that it routes to.
// +kubebuilder:validation:XValidation:rule="!(has(self.groups) && has(self.release))",message="spec.domains[]: set at most one of groups and release"
// +kubebuilder:validation:XValidation:rule="!has(self.path) || !has(self.canaryMatches) || self.canaryMatches.all(m, !has(m.path) || m.path.value == self.path || m.path.value.startsWith(self.path.endsWith('/') ? self.path : self.path + '/'))",message="spec.domains[].canaryMatches[].path.value must be the domain's path, or a path below it: /shop/new is below /shop, and /shopping is not"
// +kubebuilder:validation:XValidation:rule="!(has(self.canaryMatches) && has(self.release))",message="spec.domains[]: set at most one of canaryMatches and release: a domain that names a release routes to no other release"
type Domain struct {
	// domain is a host name, or a template for a host name. A template can contain fields, but no
	// functions. Fields of the group are {{.ReleaseGroupName}} (its slug, such as 1-x),
	// {{.StreamName}} (its name, such as 1.x), {{.FullName}} (the Microservice and the slug, such as
	// shop-1-x), {{.Version}} (its active version) and {{.Number}} (the number of its pull request).
	// Other fields are {{.Name}} (the name of the policy), {{.Microservice}} and {{.Namespace}}.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([*][.])?([-a-z0-9.]|\\\\{\\\\{ ?[.][A-Za-z]+ ?\\\\}\\\\})+$')",message="spec.domains[].domain must be a host name in lower case, without a scheme, port or path; it may contain fields such as {{.ReleaseGroupName}}"
	// +kubebuilder:validation:XValidation:rule="self.findAll('[.][A-Z][A-Za-z]*').all(f, f in ['.ReleaseGroupName', '.StreamName', '.FullName', '.Name', '.Version', '.Number', '.Microservice', '.Namespace'])",message="spec.domains[].domain: the supported fields are ReleaseGroupName, StreamName, FullName, Name, Version, Number, Microservice and Namespace"
	Domain string `json:"domain"`

	// port is the name of the port in spec.ports. Required if there are several ports.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Port string `json:"port,omitempty"`

	// path is the prefix of the paths that are routed. Defaults to "/".
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^/([-A-Za-z0-9/._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})*$")`,message="spec.domains[].path must begin with '/' and consist of letters, digits, '/' and -._~!$&'()*+,;=:@: percent-encode all other characters, as in /caf%C3%A9"
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r"//|/[.]{1,2}(/|$)|%2[Ff]|%5[Cc]")`,message="spec.domains[].path must not contain '//', a segment '.' or '..', or an escaped slash or backslash (%2F, %5C), which gateways change or reject: write the path without them, such as /shop"
	// +kubebuilder:validation:XValidation:rule="self == '/' || !self.endsWith('/')",message="spec.domains[].path must not end with '/': write the path without it, such as /shop, which also matches /shop/ and all paths below it"
	Path string `json:"path,omitempty"`

	// parentRefs are the Gateways, or listeners, that serve this domain. Defaults to those
	// of spec.provider.gateway.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.name == p.name && (has(p.__namespace__) ? has(q.__namespace__) && q.__namespace__ == p.__namespace__ : !has(q.__namespace__)) && (!has(p.sectionName) || !has(q.sectionName) || q.sectionName == p.sectionName)))",message="spec.domains[].parentRefs: references to the same Gateway must have different sectionNames"
	ParentRefs []ParentReference `json:"parentRefs,omitempty"`

	// groups that the domain routes to. By default, each group has its own domain if the template
	// contains a field that differs between groups, such as {{.ReleaseGroupName}}; otherwise the
	// domain routes to the newest group.
	// +optional
	Groups *DomainGroups `json:"groups,omitempty"`

	// release routes the domain to one release: the release of a version, or the canary. At most one
	// of groups and release can be set. For the
	// canary, if the template contains a field that differs between groups, such as
	// {{.ReleaseGroupName}}, each group has its own domain, which routes to the canary of the group;
	// otherwise the domain routes to the canary of the newest group.
	// +optional
	Release *DomainRelease `json:"release,omitempty"`

	// canaryMatches select requests that are routed to the canary regardless of its weight, while
	// the current step of the Microservice has match: true. A request is selected if it matches
	// any entry.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	CanaryMatches []CanaryMatch `json:"canaryMatches,omitempty"`

	// tls defines how the domain is served with TLS. By default the gateway decides;
	// status.domains[].url begins with https if an HTTPS listener of the Gateway serves the host.
	// +optional
	TLS *DomainTLS `json:"tls,omitempty"`

	// recordTTLSeconds is the TTL, in seconds, of the DNS record that external-dns creates
	// for the host. Defaults to the TTL that external-dns uses.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	RecordTTLSeconds int32 `json:"recordTTLSeconds,omitempty"`
}

// CanaryMatch selects requests that match all of its conditions.
// +kubebuilder:validation:XValidation:rule="(has(self.headers) && size(self.headers) > 0) || (has(self.queryParams) && size(self.queryParams) > 0) || has(self.cookie) || has(self.path) || has(self.method) || has(self.grpc)",message="spec.domains[].canaryMatches[]: set at least one of headers, queryParams, cookie, path, method and grpc"
// +kubebuilder:validation:XValidation:rule="!(has(self.cookie) && has(self.headers) && self.headers.exists(h, h.name.lowerAscii() == 'cookie'))",message="spec.domains[].canaryMatches[]: set cookie or the Cookie header, but not both"
type CanaryMatch struct {
	// headers that a request must have.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(h, self.exists_one(g, g.name.lowerAscii() == h.name.lowerAscii()))",message="spec.domains[].canaryMatches[].headers: names must be unique, ignoring case"
	Headers []MatchValue `json:"headers,omitempty"`

	// queryParams that a request must have.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(h, self.exists_one(g, g.name == h.name))",message="spec.domains[].canaryMatches[].queryParams: names must be unique"
	QueryParams []MatchValue `json:"queryParams,omitempty"`

	// cookie that a request must have. The value must match exactly.
	// +optional
	Cookie *MatchCookie `json:"cookie,omitempty"`

	// path that a request must have. It must be the domain's path, or a path below it.
	// +optional
	Path *MatchPath `json:"path,omitempty"`

	// method that a request must have: GET, HEAD, POST, PUT, DELETE, CONNECT, OPTIONS, TRACE or
	// PATCH.
	// +optional
	// +kubebuilder:validation:Enum=GET;HEAD;POST;PUT;DELETE;CONNECT;OPTIONS;TRACE;PATCH
	Method string `json:"method,omitempty"`

	// grpc is the gRPC service or method that a request must call, on a port with protocol GRPC.
	// queryParams, path and method are not allowed for such a port.
	// +optional
	GRPC *MatchGRPC `json:"grpc,omitempty"`
}

// PathType defines how a path is compared.
// +kubebuilder:validation:Enum=Exact;PathPrefix
type PathType string

const (
	// PathExact compares the whole path.
	PathExact PathType = "Exact"
	// PathPrefix compares the leading elements of the path.
	PathPrefix PathType = "PathPrefix"
)

// MatchPath is a path, and how the path of a request is compared with it.
type MatchPath struct {
	// value of the path.
	// +required
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^/([-A-Za-z0-9/._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})*$")`,message="canaryMatches[].path.value must begin with '/' and consist of letters, digits, '/' and -._~!$&'()*+,;=:@: percent-encode all other characters, as in /caf%C3%A9"
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r"//|/[.]{1,2}(/|$)|%2[Ff]|%5[Cc]")`,message="canaryMatches[].path.value must not contain '//', a segment '.' or '..', or an escaped slash or backslash (%2F, %5C), which gateways change or reject: write the path without them, such as /shop"
	Value string `json:"value"`

	// type of comparison. Exact means that the whole path is compared. PathPrefix means that the
	// leading elements of the path are compared. Defaults to PathPrefix.
	// +optional
	Type PathType `json:"type,omitempty"`
}

// MatchGRPC is a gRPC service or method.
// +kubebuilder:validation:XValidation:rule="has(self.service) || has(self.method)",message="spec.domains[].canaryMatches[].grpc: set at least one of service and method"
type MatchGRPC struct {
	// service is the full name of a gRPC service, for example "shop.v1.Cart".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[A-Za-z_][A-Za-z_0-9]*([.][A-Za-z_][A-Za-z_0-9]*)*$")`,message="canaryMatches[].grpc.service must be the full name of a service, such as shop.v1.Cart"
	Service string `json:"service,omitempty"`

	// method of the service.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[A-Za-z_][A-Za-z_0-9]*$")`,message="canaryMatches[].grpc.method must be the bare name of a method, such as Get"
	Method string `json:"method,omitempty"`
}

// MatchType defines how a value is compared.
// +kubebuilder:validation:Enum=Exact;RegularExpression
type MatchType string

const (
	// MatchExact compares the whole value.
	MatchExact MatchType = "Exact"
	// MatchRegularExpression matches a regular expression, in the syntax of the gateway.
	MatchRegularExpression MatchType = "RegularExpression"
)

// MatchValue is a header or query parameter, and the value that it must have.
type MatchValue struct {
	// name of the header or query parameter.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[A-Za-z0-9!#$%&'*+.^_|~-]+$")`,message="the name of a header or query parameter must consist of letters, digits and !#$%&'*+.^_|~-, without spaces, such as X-Canary"
	Name string `json:"name"`

	// value that the header or query parameter must have.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value"`

	// type of comparison. Exact means that the whole value is compared. RegularExpression means
	// that value is a regular expression in the syntax of the gateway. Defaults to Exact.
	// +optional
	Type MatchType `json:"type,omitempty"`
}

// MatchCookie is a cookie and its value.
type MatchCookie struct {
	// name of the cookie.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[A-Za-z0-9!#$%&'*+.^_|~-]+$")`,message="the name of a cookie must consist of letters, digits and !#$%&'*+.^_|~-, without spaces, such as canary"
	Name string `json:"name"`

	// value of the cookie, which must match exactly.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[^;,"\s]+$')`,message="the value of a cookie must not contain ';', ',', '\"' or spaces: write it as the browser sends it"
	Value string `json:"value"`
}

// GroupsPolicy selects groups for a domain.
// +kubebuilder:validation:Enum=Each;Newest;Named
type GroupsPolicy string

const (
	// GroupsEach gives each group its own domain.
	GroupsEach GroupsPolicy = "Each"
	// GroupsNewest routes to the newest group that has an active release with ready
	// endpoints.
	GroupsNewest GroupsPolicy = "Newest"
	// GroupsNamed routes to the groups in names.
	GroupsNamed GroupsPolicy = "Named"
)

// DomainGroups selects groups for a domain.
// +kubebuilder:validation:XValidation:rule="(self.policy == 'Named') == (has(self.names) && size(self.names) > 0)",message="spec.domains[].groups: set names if and only if policy is Named"
type DomainGroups struct {
	// policy that selects the groups. Each means that each group has its own domain. Each is allowed
	// only in spec.domains. Newest means that the domain routes to the newest group that has an active
	// release with ready endpoints. Named means that the domain routes to the groups in names.
	// +required
	Policy GroupsPolicy `json:"policy"`

	// names lists groups by name or slug, for policy Named. Unless the domain contains a field
	// that differs between groups, such as {{.ReleaseGroupName}}, only the first of these groups
	// that has an active release gets the domain.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Names []string `json:"names,omitempty"`
}

// DomainRelease routes a domain to one release: the release of a version, or the canary.
//
// +kubebuilder:validation:XValidation:rule="has(self.version) != has(self.status)",message="release: set exactly one of version and status"
// +kubebuilder:validation:XValidation:rule="!has(self.whenAbsent) || has(self.status)",message="release.whenAbsent requires release.status: with release.version, there is no route while the version has no release"
type DomainRelease struct {
	// version that the domain routes to. The domain routes to an active, retained or canary release of
	// this version. Setting this field does not deploy the version.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`

	// status of the release that the domain routes to. With canary, the domain routes to the canary
	// of the group, regardless of its weight, while the canary has a ready endpoint. Before the
	// first step, the domain routes to the release that PreRollout hooks test.
	// +optional
	Status DomainReleaseStatus `json:"status,omitempty"`

	// whenAbsent defines where the domain routes while the group has no canary with a ready
	// endpoint. Active means that the domain routes to the active release. NotFound means that
	// there is no route. Defaults to Active.
	// +optional
	WhenAbsent WhenAbsent `json:"whenAbsent,omitempty"`
}

// DomainReleaseStatus selects a release by its status.
// +kubebuilder:validation:Enum=canary
type DomainReleaseStatus string

// DomainCanary selects the canary of a group.
const DomainCanary DomainReleaseStatus = "canary"

// WhenAbsent defines where a domain routes while the group has no canary with a ready endpoint.
// +kubebuilder:validation:Enum=Active;NotFound
type WhenAbsent string

const (
	// AbsentActive routes to the active release.
	AbsentActive WhenAbsent = "Active"
	// AbsentNotFound means that there is no route.
	AbsentNotFound WhenAbsent = "NotFound"
)

// Listener is a listener of a Gateway, and the releases that its connections or datagrams are
// routed to.
// +kubebuilder:validation:XValidation:rule="!(has(self.groups) && has(self.release))",message="spec.listeners[]: set at most one of groups and release"
// +kubebuilder:validation:XValidation:rule="!has(self.groups) || self.groups.policy != 'Each'",message="spec.listeners[].groups.policy must be Newest or Named: a listener routes to one group at a time"
type Listener struct {
	// name of the entry.
	// +required
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")`,message="spec.listeners[].name must consist of lowercase letters, digits and '-', and must start and end with a letter or digit, such as postgres"
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// port is the name of the port in spec.ports.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Port string `json:"port"`

	// parentRef refers to the listener: the Gateway, and the name of the listener in sectionName.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.sectionName)",message="spec.listeners[].parentRef.sectionName is required: set it to the name of the Gateway's listener"
	ParentRef ParentReference `json:"parentRef"`

	// groups defines the group that the listener routes to: the newest group, or the first named
	// group that has an active release. Defaults to the newest group.
	// +optional
	Groups *DomainGroups `json:"groups,omitempty"`

	// release routes the listener to one release: the release of a version, or the canary of
	// the newest group.
	// +optional
	Release *DomainRelease `json:"release,omitempty"`
}

// DomainBackend is a release that a domain routes to.
type DomainBackend struct {
	// release is the name of the VersionedMicroservice.
	// +kubebuilder:validation:MaxLength=63
	Release string `json:"release"`
	// version of the release.
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version"`
	// weight of the release in the written route, in percent. A release with weight 0 receives only
	// requests that canaryMatches select, and mirrored copies of requests.
	Weight int32 `json:"weight"`
}

// DomainStatus is the status of one rendered host.
type DomainStatus struct {
	// domain is the rendered host name.
	// +kubebuilder:validation:MaxLength=253
	Domain string `json:"domain"`
	// path is the prefix of the paths that are routed.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path,omitempty"`
	// url at which the domain is served.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	URL string `json:"url,omitempty"`
	// group is the slug of the group that the domain routes to.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Group string `json:"group,omitempty"`
	// backends are the releases that the domain routes to, with their weights.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Backends []DomainBackend `json:"backends,omitempty"`
	// programmed is true when every parent has accepted the current route, a listener accepts the host,
	// and, if tls is set, the certificate and the listener for the host are ready. If confirm is Probe,
	// the addresses of the Gateways must also serve the route.
	Programmed bool `json:"programmed"`
	// reason why the route is not programmed, as one CamelCase word.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// message explains the reason. It names the affected field or parent and, if you need to act, the fix.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// ListenerStatus is the status of one entry of spec.listeners.
type ListenerStatus struct {
	// name of the entry.
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// group is the slug of the group that the listener routes to.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Group string `json:"group,omitempty"`
	// backends are the releases that the listener routes to, with their weights.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Backends []DomainBackend `json:"backends,omitempty"`
	// programmed is true when the parent has accepted the current route.
	Programmed bool `json:"programmed"`
	// reason why the route is not programmed, as one CamelCase word.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// message explains the reason. It names the affected field or parent and, if you need to act, the fix.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// RouteStatus is the status of a user-managed route in which the policy owns rules, or should
// own rules.
type RouteStatus struct {
	// kind of the route.
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// name of the route.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// group is the slug of the group that the rules route to.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Group string `json:"group,omitempty"`
	// backends are the releases that the rules route to, with their weights.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Backends []DomainBackend `json:"backends,omitempty"`
	// programmed is true when every parent has accepted the current route.
	Programmed bool `json:"programmed"`
	// reason why the route is not programmed, as one CamelCase word.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// message explains the reason. It names the affected field or parent and, if you need to act, the fix.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// SplitMode defines whether the traffic of a group can be split.
// +kubebuilder:validation:Enum=Weighted;Whole
type SplitMode string

const (
	// SplitWeighted means that traffic is split by weight.
	SplitWeighted SplitMode = "Weighted"
	// SplitWhole means that traffic is not split, because there are only Services, or only
	// Ingresses of a class that does not support weights.
	SplitWhole SplitMode = "Whole"
)

// GroupTraffic is what the policy reports to the Microservice about one group.
type GroupTraffic struct {
	// slug of the group.
	// +kubebuilder:validation:MaxLength=63
	Slug string `json:"slug"`
	// revision is the latest traffic revision of the group that was confirmed in all of its objects.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// confirmedTime is when the revision, or the latest change to the references, was confirmed.
	// +optional
	ConfirmedTime *metav1.MicroTime `json:"confirmedTime,omitempty"`
	// references lists every release that any written object refers to, whether by weight, by a
	// pin, or as the target of the group's Service.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	References []string `json:"references,omitempty"`
	// withheld lists releases that have a weight but receive no traffic, because they have no ready
	// endpoint, or had none and are not available again yet. The weight of a release is withheld until
	// all its replicas are available or, if no other release has a ready endpoint, until it has a ready
	// endpoint.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	Withheld []string `json:"withheld,omitempty"`
	// pinned lists the releases that a domain, listener or routeRef selects by version.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	Pinned []string `json:"pinned,omitempty"`
	// active is the release that the selector of the group's Service selects.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Active string `json:"active,omitempty"`
	// newest is true when domains or listeners for the newest group route to this group. While the
	// first release of a newer group is a canary, the newer group receives a share of the traffic of
	// these domains and listeners. The canary's weight defines this share.
	// +optional
	Newest bool `json:"newest,omitempty"`
	// canaryDomains is true when this group has domains or listeners with release.status canary.
	// +optional
	CanaryDomains bool `json:"canaryDomains,omitempty"`
	// canary is the release of this group that is the target of all domains and listeners with
	// release.status canary, according to the accepted routes. It is either the canary or the release that
	// PreRollout hooks test.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Canary string `json:"canary,omitempty"`
	// unrouted is true when the group no longer has a programmed domain, listener or route, for
	// example because its Gateway was deleted. The confirmed revision is then not served.
	// +optional
	Unrouted bool `json:"unrouted,omitempty"`
	// split defines how traffic moves. Weighted means that traffic is split by weight. Whole means
	// that all traffic moves at the same time.
	Split SplitMode `json:"split"`
	// reason why the current traffic revision is not confirmed, as one CamelCase word.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// message explains the reason.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// NetworkPolicySummary contains the text of printer columns.
type NetworkPolicySummary struct {
	// domains is the number of programmed domains out of all domains, such as "2/3". Domains with
	// release.whenAbsent NotFound are not counted while there is no canary with a ready endpoint.
	// +optional
	Domains string `json:"domains,omitempty"`
	// split is the programmed split, such as "1.1.0=90 1.2.0=10". If hosts have different splits,
	// the splits are listed in the order of the hosts, beginning with the host in url.
	// +optional
	Split string `json:"split,omitempty"`
}

// ProviderSwitch is a change from one provider to another. Until the change is complete, the routes
// of both providers route to the same releases.
type ProviderSwitch struct {
	// from lists the previous providers, whose routes still serve traffic.
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	From []string `json:"from"`
	// replacedTime is when the current provider began to serve everything that the previous
	// providers serve. It is not set before that.
	// +optional
	ReplacedTime *metav1.MicroTime `json:"replacedTime,omitempty"`
}

// NetworkPolicyStatus reports the current routes, and whether the gateways have programmed them.
type NetworkPolicyStatus struct {
	// conditions always include Accepted, ResolvedRefs, Programmed and Ready. Reconciling, Stalled
	// and other conditions are present only while there is something to report.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// url is the URL of the first programmed domain that routes to a group with an active release
	// or, if there is none, of the first programmed domain.
	// +optional
	URL string `json:"url,omitempty"`

	// microservice is the name of the Microservice that the policy routes to.
	// +optional
	Microservice string `json:"microservice,omitempty"`

	// provider is the kind of provider in use: "gateway", "ingress", "apisix", "route" or
	// "services".
	// +optional
	Provider string `json:"provider,omitempty"`

	// providerSwitch describes a change from one provider to another. It is set while the routes of
	// both providers exist.
	// +optional
	ProviderSwitch *ProviderSwitch `json:"providerSwitch,omitempty"`

	// summary contains the text of printer columns.
	// +optional
	Summary NetworkPolicySummary `json:"summary,omitempty"`

	// domains are the rendered domains.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	Domains []DomainStatus `json:"domains,omitempty"`

	// listeners are the entries of spec.listeners.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Listeners []ListenerStatus `json:"listeners,omitempty"`

	// routes are the user-managed routes in which the policy owns rules: the route that
	// spec.provider.routeRef refers to, and previous routes whose rules have not been restored yet.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Routes []RouteStatus `json:"routes,omitempty"`

	// adopted is the progress of adopting a Service.
	// +optional
	Adopted *AdoptedService `json:"adopted,omitempty"`

	// groups are the release groups, as reported to the Microservice.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Groups []GroupTraffic `json:"groups,omitempty"`
}

// Conditions of a NetworkPolicy.
const (
	ConditionAccepted     = "Accepted"
	ConditionResolvedRefs = "ResolvedRefs"
	ConditionProgrammed   = "Programmed"
	ConditionDomainShared = "DomainShared"
	ConditionNameConflict = "NameConflict"
	// ConditionCanaryUnmatched is True while a step has match: true, but no domain has
	// canaryMatches.
	ConditionCanaryUnmatched = "CanaryUnmatched"
	// ConditionSettingsNotApplied is True while a setting of the specification has no effect on the routes,
	// because the provider, the route kind or the API server has no field for it.
	ConditionSettingsNotApplied = "SettingsNotApplied"
	// ConditionServiceAdopted is True while the adopted Service routes to the active release.
	ConditionServiceAdopted = "ServiceAdopted"
	// ConditionProviderSwitching is True while routes of a previous provider still serve traffic.
	// The message shows why these routes still exist.
	ConditionProviderSwitching = "ProviderSwitching"
)

// NetworkPolicy routes domains to the releases of a Microservice, and splits traffic between them
// by weight. Another kind with this name, in networking.k8s.io, restricts connections between pods.
// Use the short name hnp to distinguish them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=networkpolicies,shortName=hnp,categories=hlnr
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must start with a letter, end with a letter or digit, contain only lowercase letters, digits and '-', and have at most 40 characters, because Services are named after it"
// +kubebuilder:printcolumn:name="Microservice",type=string,JSONPath=`.status.microservice`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Domains",type=string,JSONPath=`.status.summary.domains`
// +kubebuilder:printcolumn:name="Split",type=string,JSONPath=`.status.summary.split`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Provider",type=string,priority=1,JSONPath=`.status.provider`
// +kubebuilder:printcolumn:name="Status",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type NetworkPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines how clients reach releases.
	// +required
	Spec NetworkPolicySpec `json:"spec"`

	// status reports the current routes, and whether the gateways have programmed them.
	// +optional
	Status NetworkPolicyStatus `json:"status,omitempty"`
}

// MicroserviceName returns the name of the Microservice that the policy routes to, which is the
// policy's own name if spec.microserviceRef is not set.
func (p *NetworkPolicy) MicroserviceName() string {
	if p.Spec.MicroserviceRef != nil {
		return p.Spec.MicroserviceRef.Name
	}
	return p.Name
}

// NetworkPolicyList is a list of NetworkPolicies.
// +kubebuilder:object:root=true
type NetworkPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NetworkPolicy `json:"items"`
}
