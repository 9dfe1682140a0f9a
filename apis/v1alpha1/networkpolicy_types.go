package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// NetworkPolicySpec says how the releases of a Microservice are reached.
//
// +kubebuilder:validation:XValidation:rule="!has(self.domains) || size(self.domains) == 0 || has(self.provider)",message="spec.domains need a spec.provider that routes them"
// +kubebuilder:validation:XValidation:rule="!has(self.domains) || self.domains.all(d, has(d.port) ? self.ports.exists(p, p.name == d.port) : size(self.ports) == 1)",message="spec.domains[].port must be the name of one of spec.ports; it may be left out only when there is one port"
// +kubebuilder:validation:XValidation:rule="!has(self.domains) || self.domains.all(d, self.ports.all(p, !has(p.protocol) || !(p.protocol in ['TCP', 'UDP']) || (has(d.port) ? p.name != d.port : size(self.ports) != 1)))",message="spec.domains[].port must name a port of protocol HTTP, HTTPS, GRPC or TLS: TCP and UDP have no hosts, use spec.listeners"
// +kubebuilder:validation:XValidation:rule="!has(self.domains) || self.domains.all(d, !(has(d.path) || has(d.canaryMatches)) || self.ports.all(p, !has(p.protocol) || p.protocol != 'TLS' || (has(d.port) ? p.name != d.port : size(self.ports) != 1)))",message="spec.domains[]: a port of protocol TLS takes neither path nor canaryMatches: nobody but the pods can read what is encrypted"
// +kubebuilder:validation:XValidation:rule="!has(self.domains) || self.domains.all(d, !has(d.path) || self.ports.all(p, !has(p.protocol) || p.protocol != 'GRPC' || (has(d.port) ? p.name != d.port : size(self.ports) != 1)))",message="spec.domains[].path goes with ports of protocol HTTP or HTTPS: use canaryMatches[].grpc to choose calls"
// +kubebuilder:validation:XValidation:rule="!has(self.listeners) || size(self.listeners) == 0 || has(self.provider)",message="spec.listeners need a spec.provider that routes them"
// +kubebuilder:validation:XValidation:rule="!has(self.listeners) || size(self.listeners) == 0 || !has(self.provider) || has(self.provider.gateway)",message="spec.listeners need spec.provider.gateway: no other provider has listeners"
// +kubebuilder:validation:XValidation:rule="!has(self.domains) || !has(self.provider) || has(self.provider.gateway) || self.domains.all(d, !has(d.parentRefs))",message="spec.domains[].parentRefs need spec.provider.gateway: no other provider has Gateways"
// +kubebuilder:validation:XValidation:rule="!has(self.domains) || !has(self.provider) || self.domains.all(d, !has(d.tls) || !has(d.tls.mode) || (d.tls.mode in ['Gateway', 'ListenerSet'] ? has(self.provider.gateway) : d.tls.mode == 'Ingress' ? has(self.provider.ingress) : has(self.provider.apisix)))",message="spec.domains[].tls.mode must be Gateway or ListenerSet with spec.provider.gateway, Ingress with spec.provider.ingress, ApisixTls with spec.provider.apisix"
// +kubebuilder:validation:XValidation:rule="!has(self.domains) || !has(self.provider) || self.domains.all(d, !has(d.tls) || has(d.tls.secretName) || (has(self.provider.gateway) && !(has(d.tls.mode) && d.tls.mode == 'ListenerSet')))",message="spec.domains[].tls.secretName is needed: only the listeners of a Gateway have certificates of their own"
// +kubebuilder:validation:XValidation:rule="!has(self.domains) || !has(self.provider) || !has(self.provider.gateway) || self.domains.all(d, !has(d.tls) || !has(d.tls.secretName) || has(d.tls.mode))",message="spec.domains[].tls.secretName goes with mode ListenerSet: the default of spec.provider.gateway is mode Gateway, whose certificate is that of the Gateway's listener"
// +kubebuilder:validation:XValidation:rule="!has(self.domains) || !has(self.provider) || !has(self.provider.gateway) || self.domains.all(d, !has(d.tls) || !has(d.tls.mode) || d.tls.mode != 'ListenerSet' || (has(d.parentRefs) ? size(d.parentRefs) <= 2 : size(self.provider.gateway.parentRefs) <= 2))",message="spec.domains[].tls.mode ListenerSet goes with at most 2 parentRefs: every host has a ListenerSet for each, and a route names no more than 32"
// +kubebuilder:validation:XValidation:rule="!has(self.domains) || self.domains.all(d, !has(d.tls) || self.ports.all(p, !has(p.protocol) || p.protocol != 'TLS' || (has(d.port) ? p.name != d.port : size(self.ports) != 1)))",message="spec.domains[].tls does not go with a port of protocol TLS, whose pods decrypt and have the certificate: leave it out, or give the port another protocol"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || !has(self.provider.gateway) || !has(self.provider.gateway.filters) || !has(self.domains) || !self.provider.gateway.filters.exists(f, has(f.urlRewrite) && has(f.urlRewrite.replacePrefixMatch)) || self.domains.all(d, !has(d.canaryMatches) || d.canaryMatches.all(m, !has(m.path) || !has(m.path.type) || m.path.type == 'PathPrefix'))",message="spec.domains[].canaryMatches[].path.type must be PathPrefix, or absent, beside urlRewrite.replacePrefixMatch in spec.provider.gateway.filters: a whole path has no prefix to replace"
// +kubebuilder:validation:XValidation:rule="!has(self.listeners) || self.listeners.all(l, self.ports.exists(p, p.name == l.port && has(p.protocol) && p.protocol in ['TCP', 'UDP']))",message="spec.listeners[].port must be the name of one of spec.ports with protocol TCP or UDP: the others are routed by spec.domains"
// +kubebuilder:validation:XValidation:rule="!has(self.adoptFrom) || (has(self.deletionPolicy) && self.deletionPolicy != 'Delete')",message="spec.deletionPolicy must be Restore or Orphan together with spec.adoptFrom: else the deletion of the policy would leave the Service without pods"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.adoptFrom) || (has(self.adoptFrom) && self.adoptFrom == oldSelf.adoptFrom)",message="spec.adoptFrom cannot be changed or taken out, because its Service would lead to a release that goes: delete the policy, with deletionPolicy Restore or Orphan, and make another"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || !has(self.provider.routeRef) || !has(self.domains) || size(self.domains) == 0",message="spec.domains do not go with spec.provider.routeRef: the hosts are those of the route, and canaryMatches are rules that you write there"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || !has(self.provider.routeRef) || (has(self.provider.routeRef.port) ? self.ports.exists(p, p.name == self.provider.routeRef.port) : size(self.ports) == 1)",message="spec.provider.routeRef.port must be the name of one of spec.ports; it may be left out only when there is one port"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || !has(self.provider.routeRef) || self.ports.all(p, (has(self.provider.routeRef.port) ? p.name != self.provider.routeRef.port : size(self.ports) != 1) || (has(p.protocol) && p.protocol == 'UDP') == (self.provider.routeRef.kind == 'UDPRoute'))",message="spec.provider.routeRef.port must name a port of protocol UDP for a UDPRoute, and of another one for all other kinds"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || !has(self.provider.routeRef) || (has(self.deletionPolicy) && self.deletionPolicy != 'Delete')",message="spec.deletionPolicy must be Restore or Orphan together with spec.provider.routeRef: else the deletion of the policy would leave rules of your route that lead to Services which are gone"
type NetworkPolicySpec struct {
	// microserviceRef names the Microservice. Absent: the one that has the policy's
	// own name.
	// +optional
	MicroserviceRef *Reference `json:"microserviceRef,omitempty"`

	// ports of the Services that the policy makes.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=12
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.port == p.port && (has(q.protocol) && q.protocol == 'UDP') == (has(p.protocol) && p.protocol == 'UDP')))",message="spec.ports: each port number may be used once over TCP (all protocols but UDP), and once over UDP"
	Ports []NetworkPort `json:"ports"`

	// provider that routes domains and splits traffic. Absent: Services only,
	// which move as a whole.
	// +optional
	Provider *NetworkProvider `json:"provider,omitempty"`

	// drainDelay between the moment at which another provider serves all that the former
	// one served, and the deletion of the former one's routes: callers that know its
	// address still come to them. Choose it above the TTL of DNS records. Absent: the
	// Microservice's updateStrategy.drainDelay, at least 5s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('24h')",message="spec.drainDelay must be at most 24h"
	DrainDelay Duration `json:"drainDelay,omitempty"`

	// domains that are routed to releases.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Domains []Domain `json:"domains,omitempty"`

	// listeners of Gateways whose connections and datagrams are routed to releases:
	// those of ports with protocol TCP or UDP.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Listeners []Listener `json:"listeners,omitempty"`

	// timeouts of requests to domains. Absent: the gateway's own.
	// +optional
	Timeouts *RouteTimeouts `json:"timeouts,omitempty"`

	// sessionAffinity keeps a caller with the release, or pod, that answered it first.
	// +optional
	SessionAffinity *SessionAffinity `json:"sessionAffinity,omitempty"`

	// adoptFrom takes over a Service that callers use now.
	// +optional
	AdoptFrom *AdoptService `json:"adoptFrom,omitempty"`

	// deletionPolicy says what the deletion of the policy leaves: nothing (Delete,
	// the default), its Services and routes (Orphan), or the adopted Service as it
	// was (Restore).
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// PortProtocol is what is spoken on a port.
// +kubebuilder:validation:Enum=HTTP;HTTPS;GRPC;TLS;TCP;UDP
type PortProtocol string

// The protocols. Domains route HTTP, HTTPS (to pods that encrypt), GRPC and TLS (to
// pods that decrypt, by the name that the client asks for); listeners route TCP and
// UDP.
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
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")`,message="spec.ports[].name has lower-case letters, digits and '-', such as http"
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// port of the Service.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// targetPort of the pods, by number or name. Absent: the same as port.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 65535 : size(self) <= 15 && self.matches('\\\\D')",message="spec.ports[].targetPort must be a number from 1 to 65535, without quotes, or the name of a container's port, of at most 15 characters and no mere number"
	TargetPort *intstr.IntOrString `json:"targetPort,omitempty"`

	// protocol that is spoken. Default: HTTP.
	// +optional
	Protocol PortProtocol `json:"protocol,omitempty"`

	// appProtocol of the Service's port, for example "kubernetes.io/h2c". Default:
	// "https" with protocol HTTPS, "kubernetes.io/h2c" with GRPC, else none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	AppProtocol string `json:"appProtocol,omitempty"`
}

// NetworkProvider routes domains: exactly one member is set.
// +kubebuilder:validation:XValidation:rule="[has(self.gateway), has(self.ingress), has(self.apisix), has(self.routeRef)].filter(x, x).size() == 1",message="spec.provider: set exactly one of gateway, ingress, apisix and routeRef"
type NetworkProvider struct {
	// gateway writes routes of the Gateway API: HTTPRoutes, GRPCRoutes, TLSRoutes,
	// TCPRoutes and UDPRoutes, by the protocols of the ports.
	// +optional
	Gateway *GatewayProvider `json:"gateway,omitempty"`

	// ingress writes Ingresses of networking.k8s.io/v1.
	// +optional
	Ingress *IngressProvider `json:"ingress,omitempty"`

	// apisix writes ApisixRoutes of apisix.apache.org/v2.
	// +optional
	APISIX *APISIXProvider `json:"apisix,omitempty"`

	// routeRef leads rules of a route that somebody else writes, and leaves all else of
	// it alone.
	// +optional
	RouteRef *RouteReference `json:"routeRef,omitempty"`
}

// RouteReference names rules of a route of the Gateway API that somebody else writes,
// in the policy's namespace. Their backendRefs are the policy's; every other field of
// the route is not.
// +kubebuilder:validation:XValidation:rule="!(has(self.groups) && has(self.release))",message="spec.provider.routeRef: set at most one of groups and release"
// +kubebuilder:validation:XValidation:rule="!has(self.groups) || self.groups.policy != 'Each'",message="spec.provider.routeRef.groups.policy must be Newest or Named: a rule leads to one group at a time"
type RouteReference struct {
	// kind of the route.
	// +required
	// +kubebuilder:validation:Enum=HTTPRoute;GRPCRoute;TLSRoute;TCPRoute;UDPRoute
	Kind string `json:"kind"`

	// name of the route.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// ruleNames are the names of the rules. Absent: the only rule of the route, or the
	// only one that has no name.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	RuleNames []string `json:"ruleNames,omitempty"`

	// port is the name of the port in spec.ports; needed when there are several.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Port string `json:"port,omitempty"`

	// groups of which one gets the rules: the newest, or the first of those that are
	// named. Absent: the newest.
	// +optional
	Groups *DomainGroups `json:"groups,omitempty"`

	// release pins the rules to a version.
	// +optional
	Release *DomainRelease `json:"release,omitempty"`
}

// IngressProvider writes Ingresses.
type IngressProvider struct {
	// className of the Ingresses: the name of an IngressClass.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")`,message="spec.provider.ingress.className must be the name of an IngressClass: lower-case letters, digits, '-' and '.'"
	ClassName string `json:"className"`

	// annotationPrefix says that the class understands the canary annotations of
	// ingress-nginx, and under which prefix: nginx.ingress.kubernetes.io there. Absent:
	// it understands none, and the traffic of a group moves as a whole.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")`,message="spec.provider.ingress.annotationPrefix is a host name without '/', such as nginx.ingress.kubernetes.io"
	AnnotationPrefix string `json:"annotationPrefix,omitempty"`
}

// APISIXProvider writes ApisixRoutes.
type APISIXProvider struct {
	// className of the ApisixRoutes. Absent: every APISIX takes them.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")`,message="spec.provider.apisix.className has lower-case letters, digits, '-' and '.', such as apisix"
	ClassName string `json:"className,omitempty"`
}

// GatewayProvider writes routes of the Gateway API.
type GatewayProvider struct {
	// parentRefs are the Gateways that serve the domains. They must allow routes
	// from this namespace.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.name == p.name && (has(p.__namespace__) ? has(q.__namespace__) && q.__namespace__ == p.__namespace__ : !has(q.__namespace__)) && (!has(p.sectionName) || !has(q.sectionName) || q.sectionName == p.sectionName)))",message="spec.provider.gateway.parentRefs: a Gateway that is named more than once needs a sectionName each time, and another one"
	ParentRefs []ParentReference `json:"parentRefs"`

	// confirm says when a route counts as programmed: when every parent accepted it
	// (Status, the default), or when the addresses of the Gateways also serve it as it
	// was written (Probe), which goes for HTTPRoutes only.
	// +optional
	Confirm ConfirmMode `json:"confirm,omitempty"`

	// filters that every request to a domain goes through, in this order. They are
	// those of HTTPRoute and GRPCRoute.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.filter(f, has(f.requestHeaderModifier)).size() <= 1 && self.filter(f, has(f.responseHeaderModifier)).size() <= 1 && self.filter(f, has(f.urlRewrite)).size() <= 1",message="spec.provider.gateway.filters: only extensionRef may be there more than once"
	Filters []RouteFilter `json:"filters,omitempty"`
}

// ConfirmMode says what proves that a route is served.
// +kubebuilder:validation:Enum=Status;Probe
type ConfirmMode string

const (
	// ConfirmStatus believes the status of the route.
	ConfirmStatus ConfirmMode = "Status"
	// ConfirmProbe also asks the addresses of the Gateways, by a request that they
	// answer themselves.
	ConfirmProbe ConfirmMode = "Probe"
)

// RouteFilter changes requests or answers: exactly one member is set.
// +kubebuilder:validation:XValidation:rule="[has(self.requestHeaderModifier), has(self.responseHeaderModifier), has(self.urlRewrite), has(self.extensionRef)].filter(x, x).size() == 1",message="spec.provider.gateway.filters[]: set exactly one of requestHeaderModifier, responseHeaderModifier, urlRewrite and extensionRef"
type RouteFilter struct {
	// requestHeaderModifier changes headers of requests.
	// +optional
	RequestHeaderModifier *HeaderModifier `json:"requestHeaderModifier,omitempty"`

	// responseHeaderModifier changes headers of answers.
	// +optional
	ResponseHeaderModifier *HeaderModifier `json:"responseHeaderModifier,omitempty"`

	// urlRewrite changes the host and path that the pods see. GRPCRoutes have none.
	// +optional
	URLRewrite *URLRewrite `json:"urlRewrite,omitempty"`

	// extensionRef names an object of the gateway's own kinds, in the policy's
	// namespace.
	// +optional
	ExtensionRef *ExtensionReference `json:"extensionRef,omitempty"`
}

// HeaderModifier changes headers.
// +kubebuilder:validation:XValidation:rule="has(self.set) || has(self.add) || has(self.remove)",message="set at least one of set, add and remove"
type HeaderModifier struct {
	// set headers, whatever they were.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Set []HeaderValue `json:"set,omitempty"`

	// add values to headers.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Add []HeaderValue `json:"add,omitempty"`

	// remove headers by name.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Remove []string `json:"remove,omitempty"`
}

// HeaderValue is a header.
type HeaderValue struct {
	// name of the header.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[A-Za-z0-9!#$%&'*+.^_|~-]+$")`,message="the name of a header has letters, digits and !#$%&'*+.^_|~-, and no spaces, such as X-Team"
	Name string `json:"name"`

	// value of the header.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value"`
}

// URLRewrite changes what the pods see of a URL.
// +kubebuilder:validation:XValidation:rule="has(self.hostname) || has(self.replacePrefixMatch)",message="spec.provider.gateway.filters[].urlRewrite: set hostname or replacePrefixMatch"
type URLRewrite struct {
	// hostname in place of the domain.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")`,message="urlRewrite.hostname must be a host name in lower case without port, such as shop.example.com"
	Hostname string `json:"hostname,omitempty"`

	// replacePrefixMatch in place of the domain's path. It does not go with a
	// canaryMatches[].path of type Exact.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^/([-A-Za-z0-9/._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})*$")`,message="urlRewrite.replacePrefixMatch must begin with '/', and has letters, digits and -._~!$&'()*+,;=:@ only: write anything else as a percent escape, such as /caf%C3%A9"
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r"//|/[.]{1,2}(/|$)|%2[Ff]|%5[Cc]")`,message="urlRewrite.replacePrefixMatch has no '//', no '.' or '..' between slashes, and no escaped slash (%2F, %5C), which gateways change or refuse: write the path without them, such as /shop"
	ReplacePrefixMatch string `json:"replacePrefixMatch,omitempty"`
}

// ExtensionReference names an object of a gateway's own kinds.
type ExtensionReference struct {
	// group of the API.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")`,message="group of an extensionRef has lower-case letters, digits, '-' and '.', such as traefik.io"
	Group string `json:"group"`

	// kind of the object.
	// +required
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$")`,message="kind is one word in CamelCase, such as Middleware"
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// RouteTimeouts bound requests. "0s" is no bound.
// +kubebuilder:validation:XValidation:rule="!has(self.request) || !has(self.backendRequest) || duration(self.request) == duration('0s') || duration(self.backendRequest) <= duration(self.request)",message="spec.timeouts: backendRequest must not be above request"
type RouteTimeouts struct {
	// request is the time that a whole request may take.
	// +optional
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
	// +kubebuilder:validation:MaxLength=32
	Request string `json:"request,omitempty"`

	// backendRequest is the time that one try of a pod may take; at most request.
	// +optional
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
	// +kubebuilder:validation:MaxLength=32
	BackendRequest string `json:"backendRequest,omitempty"`
}

// SessionAffinity keeps callers where they were: exactly one member is set.
// +kubebuilder:validation:XValidation:rule="has(self.cookie) != has(self.clientIP)",message="spec.sessionAffinity: set exactly one of cookie and clientIP"
type SessionAffinity struct {
	// cookie that the gateway sets. It needs the experimental channel of the Gateway
	// API, and a gateway that implements sessionPersistence.
	// +optional
	Cookie *AffinityCookie `json:"cookie,omitempty"`

	// clientIP is the caller's address, at the Services: gateways pick pods
	// themselves.
	// +optional
	ClientIP *AffinityClientIP `json:"clientIP,omitempty"`
}

// AffinityCookie is a cookie that a gateway sets.
type AffinityCookie struct {
	// name of the cookie. Absent: the gateway's own.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[A-Za-z0-9!#$%&'*+.^_|~-]+$")`,message="the name of a cookie has letters, digits and !#$%&'*+.^_|~-, and no spaces, such as SESSION"
	Name string `json:"name,omitempty"`

	// lifetime of the cookie. Absent: until the browser ends.
	// +optional
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
	// +kubebuilder:validation:MaxLength=32
	Lifetime string `json:"lifetime,omitempty"`
}

// AffinityClientIP is affinity by a caller's address.
type AffinityClientIP struct {
	// timeoutSeconds after the last connection. Default: 10800.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// ParentReference names a Gateway, or one of its listeners.
type ParentReference struct {
	// namespace of the Gateway. Absent: the policy's own.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")`,message="namespace of a Gateway has lower-case letters, digits and '-', such as infra"
	Namespace string `json:"namespace,omitempty"`

	// name of the Gateway.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")`,message="name of a Gateway has lower-case letters, digits, '-' and '.', such as public"
	Name string `json:"name"`

	// sectionName is the name of a listener. Absent: all that fit.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")`,message="sectionName, of a listener of the Gateway, has lower-case letters, digits, '-' and '.', such as web"
	SectionName string `json:"sectionName,omitempty"`
}

// Domain is a host, and the releases that it leads to.
// +kubebuilder:validation:XValidation:rule="!(has(self.groups) && has(self.release))",message="spec.domains[]: set at most one of groups and release"
// +kubebuilder:validation:XValidation:rule="!has(self.path) || !has(self.canaryMatches) || self.canaryMatches.all(m, !has(m.path) || m.path.value == self.path || m.path.value.startsWith(self.path.endsWith('/') ? self.path : self.path + '/'))",message="spec.domains[].canaryMatches[].path.value must be the domain's path, or begin with it and a '/': /shop/new is below /shop, and /shopping is not"
// +kubebuilder:validation:XValidation:rule="!(has(self.canaryMatches) && has(self.release))",message="spec.domains[]: set at most one of canaryMatches and release: a domain that names a release leads nowhere else"
type Domain struct {
	// domain is a host name, or a template of one with the bare fields
	// {{.ReleaseGroupName}} (the group's slug), {{.StreamName}}, {{.Version}},
	// {{.Number}} (of the pull request), {{.Name}}, {{.FullName}}, {{.Microservice}} and {{.Namespace}}.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([*][.])?([-a-z0-9.]|\\\\{\\\\{ ?[.][A-Za-z]+ ?\\\\}\\\\})+$')",message="spec.domains[].domain must be a host name in lower case, without scheme, port or path, with fields such as {{.ReleaseGroupName}}"
	// +kubebuilder:validation:XValidation:rule="self.findAll('[.][A-Z][A-Za-z]*').all(f, f in ['.ReleaseGroupName', '.StreamName', '.FullName', '.Name', '.Version', '.Number', '.Microservice', '.Namespace'])",message="spec.domains[].domain: the fields are ReleaseGroupName, StreamName, FullName, Name, Version, Number, Microservice and Namespace"
	Domain string `json:"domain"`

	// port is the name of the port in spec.ports; needed when there are several.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Port string `json:"port,omitempty"`

	// path prefix. Default: "/".
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^/([-A-Za-z0-9/._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})*$")`,message="spec.domains[].path must begin with '/', and has letters, digits and -._~!$&'()*+,;=:@ only: write anything else as a percent escape, such as /caf%C3%A9"
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r"//|/[.]{1,2}(/|$)|%2[Ff]|%5[Cc]")`,message="spec.domains[].path has no '//', no '.' or '..' between slashes, and no escaped slash (%2F, %5C), which gateways change or refuse: write the path without them, such as /shop"
	// +kubebuilder:validation:XValidation:rule="self == '/' || !self.endsWith('/')",message="spec.domains[].path must not end with '/': leave it out, /shop takes /shop/ and all below it too"
	Path string `json:"path,omitempty"`

	// parentRefs are the Gateways, or listeners, that serve this domain. Absent: those
	// of spec.provider.gateway.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.name == p.name && (has(p.__namespace__) ? has(q.__namespace__) && q.__namespace__ == p.__namespace__ : !has(q.__namespace__)) && (!has(p.sectionName) || !has(q.sectionName) || q.sectionName == p.sectionName)))",message="spec.domains[].parentRefs: a Gateway that is named more than once needs a sectionName each time, and another one"
	ParentRefs []ParentReference `json:"parentRefs,omitempty"`

	// groups that the domain leads to. Absent: each group its own domain where the
	// template holds a field of the group, else the newest group.
	// +optional
	Groups *DomainGroups `json:"groups,omitempty"`

	// release leads the domain to one release: that of a version, or the canary of each
	// group where the template holds a field of the group, else of the newest group.
	// +optional
	Release *DomainRelease `json:"release,omitempty"`

	// canaryMatches choose the requests that go to the canary, whatever its weight,
	// while a step of the Microservice says match: true. A request that fits any
	// entry is chosen.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	CanaryMatches []CanaryMatch `json:"canaryMatches,omitempty"`

	// tls says how the domain is served by TLS. Absent: as the gateway does; url says
	// https where a listener of the Gateway with protocol HTTPS takes the host.
	// +optional
	TLS *DomainTLS `json:"tls,omitempty"`

	// recordTTLSeconds is the time for which the DNS record that external-dns makes of
	// the host may be kept, in seconds. Absent: its own default.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	RecordTTLSeconds int32 `json:"recordTTLSeconds,omitempty"`
}

// CanaryMatch chooses requests: all that it names must fit.
// +kubebuilder:validation:XValidation:rule="(has(self.headers) && size(self.headers) > 0) || (has(self.queryParams) && size(self.queryParams) > 0) || has(self.cookie) || has(self.path) || has(self.method) || has(self.grpc)",message="spec.domains[].canaryMatches[]: set headers, queryParams, cookie, path, method or grpc"
// +kubebuilder:validation:XValidation:rule="!(has(self.cookie) && has(self.headers) && self.headers.exists(h, h.name.lowerAscii() == 'cookie'))",message="spec.domains[].canaryMatches[]: set cookie or a header Cookie, not both"
type CanaryMatch struct {
	// headers that a request must have.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(h, self.exists_one(g, g.name.lowerAscii() == h.name.lowerAscii()))",message="spec.domains[].canaryMatches[].headers: names must differ, and case makes no difference"
	Headers []MatchValue `json:"headers,omitempty"`

	// queryParams that a request must have.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(h, self.exists_one(g, g.name == h.name))",message="spec.domains[].canaryMatches[].queryParams: names must differ"
	QueryParams []MatchValue `json:"queryParams,omitempty"`

	// cookie that a request must have, with exactly this value.
	// +optional
	Cookie *MatchCookie `json:"cookie,omitempty"`

	// path that a request must have, below the domain's.
	// +optional
	Path *MatchPath `json:"path,omitempty"`

	// method that a request must have.
	// +optional
	// +kubebuilder:validation:Enum=GET;HEAD;POST;PUT;DELETE;CONNECT;OPTIONS;TRACE;PATCH
	Method string `json:"method,omitempty"`

	// grpc is the call that a request must be, on a port of protocol GRPC. Such a port
	// takes no queryParams, path and method.
	// +optional
	GRPC *MatchGRPC `json:"grpc,omitempty"`
}

// PathType says how a path is compared.
// +kubebuilder:validation:Enum=Exact;PathPrefix
type PathType string

const (
	// PathExact compares the whole path.
	PathExact PathType = "Exact"
	// PathPrefix compares the path's first elements.
	PathPrefix PathType = "PathPrefix"
)

// MatchPath is a path.
type MatchPath struct {
	// value of the path.
	// +required
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^/([-A-Za-z0-9/._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})*$")`,message="canaryMatches[].path.value must begin with '/', and has letters, digits and -._~!$&'()*+,;=:@ only: write anything else as a percent escape, such as /caf%C3%A9"
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r"//|/[.]{1,2}(/|$)|%2[Ff]|%5[Cc]")`,message="canaryMatches[].path.value has no '//', no '.' or '..' between slashes, and no escaped slash (%2F, %5C), which gateways change or refuse: write the path without them, such as /shop"
	Value string `json:"value"`

	// type of the comparison. Default: PathPrefix.
	// +optional
	Type PathType `json:"type,omitempty"`
}

// MatchGRPC is a call of gRPC.
// +kubebuilder:validation:XValidation:rule="has(self.service) || has(self.method)",message="spec.domains[].canaryMatches[].grpc: set service or method"
type MatchGRPC struct {
	// service with its package, for example "shop.v1.Cart".
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

// MatchType says how a value is compared.
// +kubebuilder:validation:Enum=Exact;RegularExpression
type MatchType string

const (
	// MatchExact compares the whole value.
	MatchExact MatchType = "Exact"
	// MatchRegularExpression is what the gateway takes for one.
	MatchRegularExpression MatchType = "RegularExpression"
)

// MatchValue is a name and the value that it must have.
type MatchValue struct {
	// name of the header or query parameter.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[A-Za-z0-9!#$%&'*+.^_|~-]+$")`,message="the name of a header or query parameter has letters, digits and !#$%&'*+.^_|~-, and no spaces, such as X-Canary"
	Name string `json:"name"`

	// value that it must have.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value"`

	// type of the comparison. Default: Exact.
	// +optional
	Type MatchType `json:"type,omitempty"`
}

// MatchCookie is a cookie and its value.
type MatchCookie struct {
	// name of the cookie.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[A-Za-z0-9!#$%&'*+.^_|~-]+$")`,message="the name of a cookie has letters, digits and !#$%&'*+.^_|~-, and no spaces, such as canary"
	Name string `json:"name"`

	// value of the cookie, whole.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[^;,"\s]+$')`,message="the value of a cookie has no ';', ',', '\"' and spaces: write it as the browser sends it"
	Value string `json:"value"`
}

// GroupsPolicy chooses groups for a domain.
// +kubebuilder:validation:Enum=Each;Newest;Named
type GroupsPolicy string

const (
	// GroupsEach gives every group a domain of its own.
	GroupsEach GroupsPolicy = "Each"
	// GroupsNewest leads to the newest group that has an active release with ready
	// endpoints.
	GroupsNewest GroupsPolicy = "Newest"
	// GroupsNamed leads to the groups that are named.
	GroupsNamed GroupsPolicy = "Named"
)

// DomainGroups chooses groups for a domain.
// +kubebuilder:validation:XValidation:rule="(self.policy == 'Named') == (has(self.names) && size(self.names) > 0)",message="spec.domains[].groups.names goes with policy Named, and only with it"
type DomainGroups struct {
	// policy of the choice.
	// +required
	Policy GroupsPolicy `json:"policy"`

	// names or slugs of groups, for policy Named. Where the template holds no field
	// of the group, the first of them that has an active release gets the domain.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Names []string `json:"names,omitempty"`
}

// DomainRelease leads a domain to one release: that of a version, or the canary.
//
// +kubebuilder:validation:XValidation:rule="has(self.version) != has(self.status)",message="release: set exactly one of version and status"
// +kubebuilder:validation:XValidation:rule="!has(self.whenAbsent) || has(self.status)",message="release.whenAbsent goes with release.status: a version that is absent has no route"
type DomainRelease struct {
	// version that the domain leads to: any release of it that is active, canary or
	// kept. A version is never deployed by this.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`

	// status of the release that the domain leads to: the canary of the group, whatever
	// its weight, while it has a ready endpoint; before that, the release that hooks of
	// type PreRollout are to try.
	// +optional
	Status DomainReleaseStatus `json:"status,omitempty"`

	// whenAbsent says what the domain leads to while there is no such release. Default:
	// Active.
	// +optional
	WhenAbsent WhenAbsent `json:"whenAbsent,omitempty"`
}

// DomainReleaseStatus chooses a release by its status.
// +kubebuilder:validation:Enum=canary
type DomainReleaseStatus string

// DomainCanary chooses the canary of a group.
const DomainCanary DomainReleaseStatus = "canary"

// WhenAbsent says what stands in for a release that is not there.
// +kubebuilder:validation:Enum=Active;NotFound
type WhenAbsent string

const (
	// AbsentActive leads to the active release.
	AbsentActive WhenAbsent = "Active"
	// AbsentNotFound leads nowhere: there is no route.
	AbsentNotFound WhenAbsent = "NotFound"
)

// Listener is a listener of a Gateway, and the releases that its connections or
// datagrams go to.
// +kubebuilder:validation:XValidation:rule="!(has(self.groups) && has(self.release))",message="spec.listeners[]: set at most one of groups and release"
// +kubebuilder:validation:XValidation:rule="!has(self.groups) || self.groups.policy != 'Each'",message="spec.listeners[].groups.policy must be Newest or Named: a listener leads to one group at a time"
type Listener struct {
	// name of the entry.
	// +required
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")`,message="spec.listeners[].name has lower-case letters, digits and '-', such as postgres"
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// port is the name of the port in spec.ports.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Port string `json:"port"`

	// parentRef is the listener: a Gateway and its sectionName.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.sectionName)",message="spec.listeners[].parentRef.sectionName is needed: the name of the Gateway's listener"
	ParentRef ParentReference `json:"parentRef"`

	// groups of which one gets the listener: the newest, or the first of those that
	// are named. Absent: the newest.
	// +optional
	Groups *DomainGroups `json:"groups,omitempty"`

	// release leads the listener to one release: that of a version, or the canary of the
	// newest group.
	// +optional
	Release *DomainRelease `json:"release,omitempty"`
}

// DomainBackend is a release behind a domain.
type DomainBackend struct {
	// release is the name of the VersionedMicroservice.
	// +kubebuilder:validation:MaxLength=63
	Release string `json:"release"`
	// version of the release.
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version"`
	// weight in percent, as written.
	Weight int32 `json:"weight"`
}

// DomainStatus is one rendered host.
type DomainStatus struct {
	// domain as rendered.
	// +kubebuilder:validation:MaxLength=253
	Domain string `json:"domain"`
	// path prefix.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path,omitempty"`
	// url to open.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	URL string `json:"url,omitempty"`
	// group that the domain leads to, by slug.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Group string `json:"group,omitempty"`
	// backends with their weights.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Backends []DomainBackend `json:"backends,omitempty"`
	// programmed says that every parent accepted the route as written.
	Programmed bool `json:"programmed"`
	// reason in one CamelCase word, where it is not programmed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// message in words: names the field or the parent, and the mend.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// ListenerStatus is one entry of spec.listeners.
type ListenerStatus struct {
	// name of the entry.
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// group that the listener leads to, by slug.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Group string `json:"group,omitempty"`
	// backends with their weights.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Backends []DomainBackend `json:"backends,omitempty"`
	// programmed says that the parent accepted the route as written.
	Programmed bool `json:"programmed"`
	// reason in one CamelCase word, where it is not programmed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// message in words: names the field or the parent, and the mend.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// RouteStatus is a route of somebody else in which the policy has rules, or is to have.
type RouteStatus struct {
	// kind of the route.
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// name of the route.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// group that the rules lead to, by slug.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Group string `json:"group,omitempty"`
	// backends with their weights.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Backends []DomainBackend `json:"backends,omitempty"`
	// programmed says that every parent accepted the route as written.
	Programmed bool `json:"programmed"`
	// reason in one CamelCase word, where it is not programmed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// message in words: names the field or the parent, and the mend.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// SplitMode says whether a group's traffic can be split.
// +kubebuilder:validation:Enum=Weighted;Whole
type SplitMode string

const (
	// SplitWeighted is split by weight.
	SplitWeighted SplitMode = "Weighted"
	// SplitWhole moves as a whole: there are Services only, or Ingresses of a class
	// that knows no weights.
	SplitWhole SplitMode = "Whole"
)

// GroupTraffic is what the policy reports of a group to the Microservice.
type GroupTraffic struct {
	// slug of the group.
	// +kubebuilder:validation:MaxLength=63
	Slug string `json:"slug"`
	// revision of the Microservice's status that is carried by every object of the
	// group, as accepted.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// confirmedTime is when that revision, with these references, was confirmed.
	// +optional
	ConfirmedTime *metav1.MicroTime `json:"confirmedTime,omitempty"`
	// references names every release in any object as written: by weight, by pin,
	// or as the group's Service.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	References []string `json:"references,omitempty"`
	// masked releases have weight and no ready endpoint, and get nothing.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	Masked []string `json:"masked,omitempty"`
	// pinned releases are named by a domain with a version.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	Pinned []string `json:"pinned,omitempty"`
	// active is the release that the group's Service selects, as written.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Active string `json:"active,omitempty"`
	// newest says that domains or listeners which lead to the newest group lead to this
	// one. While the first release of a newer group is a canary, it gets its weight of
	// them.
	// +optional
	Newest bool `json:"newest,omitempty"`
	// canaryDomains says that there are domains or listeners with release.status canary
	// which belong to the canary of this group.
	// +optional
	CanaryDomains bool `json:"canaryDomains,omitempty"`
	// canary is the release of this group to which all of them route, as accepted: the
	// canary, or the release about which hooks of type PreRollout are to be asked.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Canary string `json:"canary,omitempty"`
	// unrouted says that no domain, listener or route of the group is programmed any more,
	// as without its Gateway: what was confirmed is served nowhere.
	// +optional
	Unrouted bool `json:"unrouted,omitempty"`
	// split says whether weights are applied.
	Split SplitMode `json:"split"`
	// reason in one CamelCase word, where the revision is not confirmed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// message in words.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// NetworkPolicySummary holds what columns print.
type NetworkPolicySummary struct {
	// domains that are programmed, of all.
	// +optional
	Domains string `json:"domains,omitempty"`
	// split as programmed, as in "1.1.0=90 1.2.0=10". Where hosts differ, each split
	// follows the first host that has it, that of url first.
	// +optional
	Split string `json:"split,omitempty"`
}

// ProviderSwitch is the way from one provider to the next. Until it ends, the routes of
// both lead to the same releases.
type ProviderSwitch struct {
	// from are the providers that the policy has left, and whose routes still serve.
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	From []string `json:"from"`
	// replacedTime is since when the present provider serves all that they serve. Absent:
	// it does not yet.
	// +optional
	ReplacedTime *metav1.MicroTime `json:"replacedTime,omitempty"`
}

// NetworkPolicyStatus says what is routed, and whether it is true.
type NetworkPolicyStatus struct {
	// conditions: Accepted, ResolvedRefs, Programmed, Ready; Reconciling and
	// Stalled while they hold.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// url of the first domain that is programmed and leads to a group with an active
	// release; where none does, of the first that is programmed.
	// +optional
	URL string `json:"url,omitempty"`

	// microservice that the policy routes to.
	// +optional
	Microservice string `json:"microservice,omitempty"`

	// provider in short: "gateway", "ingress", "apisix", "route" or "services".
	// +optional
	Provider string `json:"provider,omitempty"`

	// providerSwitch is the way from one provider to the next, while routes of both are
	// there.
	// +optional
	ProviderSwitch *ProviderSwitch `json:"providerSwitch,omitempty"`

	// summary in short.
	// +optional
	Summary NetworkPolicySummary `json:"summary,omitempty"`

	// domains as rendered.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	Domains []DomainStatus `json:"domains,omitempty"`

	// listeners, as spec.listeners names them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Listeners []ListenerStatus `json:"listeners,omitempty"`

	// routes of somebody else in which the policy has rules: that of
	// spec.provider.routeRef, and earlier ones that have not got theirs back.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Routes []RouteStatus `json:"routes,omitempty"`

	// adopted is how far the policy is with the Service that it adopts.
	// +optional
	Adopted *AdoptedService `json:"adopted,omitempty"`

	// groups, as the Microservice reads them.
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
	// ConditionCanaryUnmatched says that a step asks for chosen requests, and no
	// domain says which.
	ConditionCanaryUnmatched = "CanaryUnmatched"
	// ConditionSettingsNotApplied says that a setting of the specification has no field
	// in what the API server knows of the routes.
	ConditionSettingsNotApplied = "SettingsNotApplied"
	// ConditionServiceAdopted says that the Service which the policy adopts follows
	// the active release.
	ConditionServiceAdopted = "ServiceAdopted"
	// ConditionProviderSwitching says that routes of a provider which the policy has left
	// still serve, and what they wait for.
	ConditionProviderSwitching = "ProviderSwitching"
)

// NetworkPolicy routes weighted traffic and domains to the releases of a
// Microservice. It is not the firewall kind of networking.k8s.io: use the short
// name hnp.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=networkpolicies,shortName=hnp,categories=hlnr
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must start with a letter, hold lower-case letters, digits and '-' only, and have at most 40 characters, because Services are named after it"
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

	// spec says how releases are reached.
	// +required
	Spec NetworkPolicySpec `json:"spec"`

	// status says what is routed, and whether it is true.
	// +optional
	Status NetworkPolicyStatus `json:"status,omitempty"`
}

// NetworkPolicyList is a list of NetworkPolicies.
// +kubebuilder:object:root=true
type NetworkPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NetworkPolicy `json:"items"`
}
