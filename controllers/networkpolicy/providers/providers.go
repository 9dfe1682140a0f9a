// Package providers defines the interface of providers. A provider builds the objects of a desired
// route, reads live objects, and reports whether a gateway accepted them. Each provider is a package
// below this package; docs/how-to/add-a-provider.md shows how to write a provider. The files of this
// package refer only to files further down in this list:
//
//	services.go   the provider of policies without spec.provider
//	abilities.go  the optional interfaces of providers and views
//	providers.go  the interface and the types of all providers
package providers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/internal/apply"
)

// Provider routes traffic to the Services of a policy. For this purpose, it uses objects of the kinds
// that Writes returns. All of its methods are pure: the controller reads and writes the objects.
// Optional interfaces are in abilities.go.
type Provider interface {
	// Name returns the name of the provider in the status of policies, such as "gateway".
	Name() string
	// Writes returns the kinds of the objects that make up routes. The controller watches these kinds
	// if the API server serves them.
	Writes() []Kind
	// Chosen reports whether the policy uses this provider.
	Chosen(policy *v1alpha1.NetworkPolicy) bool
	// NewView returns the view of one reconcile.
	NewView(Input) View
}

// View represents a provider in one reconcile of one policy. A view is pure: it returns the same
// results regardless of the order in which the objects were listed.
type View interface {
	Builder
	Observer
}

// Builder creates route objects.
type Builder interface {
	// Missing returns a problem if the API server lacks the kind for a protocol, or if the provider
	// does not support the protocol; otherwise, it returns nil.
	Missing(v1alpha1.PortProtocol) *Problem
	// Unsupported returns a problem if this provider cannot express the route; otherwise, it returns
	// nil. A route with a problem is not written, because it would route requests to the wrong
	// release. The message begins with the path of the field, relative to the domain, listener or
	// routeRef.
	Unsupported(Route) *Problem
	// Build returns the objects of a route in the form in which they are applied, with the defaults of
	// the API server, and in the order in which they are written.
	Build(Route) []resources.Object
}

// Observer reads live objects.
type Observer interface {
	// Live returns the routes that the input's objects represent, by name.
	Live() map[string]*Live
	// Verdict reports whether the live objects match those that Build returned for a route, and
	// whether the route is programmed.
	Verdict(route Route, built []resources.Object) Verdict
	// Serves returns the URL of a host, and a problem if the host is not served although its route
	// is accepted.
	Serves(route Route, host string) (url string, problem *Problem)
}

// Kind is a kind of object.
type Kind struct {
	// Group and Kind are the API group and the name of the kind.
	Group, Kind string
	// Versions are the versions that the provider can read and write, with the preferred version
	// first.
	Versions []string
	// Previous is the previous name of the kind, or nil. It is used if the API server does not serve
	// the current name. The code of this program always uses the current name.
	Previous *Kind
}

// Reference refers to an object that has another owner.
type Reference struct {
	Kind            string
	Namespace, Name string
}

// Input is the input to a view.
type Input struct {
	Policy *v1alpha1.NetworkPolicy
	// Microservice is the name of the policy's Microservice.
	Microservice string
	// Served describes, by kind, how the API server serves the kinds that the provider reads and
	// writes. Kinds that the API server does not serve are absent.
	Served map[string]Served
	// Objects are the objects of the provider's kinds that the policy owns, including objects that
	// are being deleted.
	Objects []resources.Object
	// Referents are the existing objects to which the policy refers.
	Referents map[Reference]resources.Object
	// Unwatched contains the namespaces that appear in references but that the manager does not watch.
	// The manager cannot read objects in these namespaces.
	Unwatched map[string]bool
	// Namespace contains the labels of the policy's namespace, if one of the Referents selects
	// namespaces by labels and the policy has probes.
	Namespace map[string]string
	// Probed contains the known results of probes.
	Probed map[Probe]Probed
	// Users are the user-managed routes that the policy names or in which it manages rules. The
	// objects contain all of their fields.
	Users []*unstructured.Unstructured
	// Older are the older policies that name the same user-managed route.
	Older []*v1alpha1.NetworkPolicy
	// Services contains the names of the policy's own Services. Releases contains the names of
	// those Services that always select the same release.
	Services, Releases map[string]bool
}

// Served describes how the API server serves a kind.
type Served struct {
	// Group and Kind are those of the previous kind if the API server serves only that kind;
	// otherwise, they are empty.
	Group, Kind string
	// Version is the version in use.
	Version string
	// Experimental reports whether the definition is from the experimental channel of its project. Such
	// a definition has additional fields.
	Experimental bool
}

// Route routes hosts, or a listener, to the releases of one group.
type Route struct {
	// Name is the name of the route's objects.
	Name string
	// Protocol is the protocol of the port. Empty means HTTP.
	Protocol v1alpha1.PortProtocol
	// Hostnames are sorted. There are at most MaxHostnames.
	Hostnames []string
	// Path is the path prefix, or "/" for all paths. It is empty if the protocol has no paths.
	Path string
	// Port is the port of the Services.
	Port int32
	// Backends are in the order in which they are written.
	Backends []Backend
	// Active is the Service of the group's active release, or empty. Backends does not always
	// contain this Service.
	Active string
	// Canary is the Service that receives the requests that Matches select, or empty.
	Canary string
	// Matches select requests for Canary, regardless of the weights.
	Matches []v1alpha1.CanaryMatch
	// Mirror is the Service that receives a copy of MirrorPercent of the requests, or empty. Its
	// responses are discarded.
	Mirror string
	// MirrorPercent is from 1 to 100.
	MirrorPercent int32
	// Pinned is the release to which the route is pinned; empty if the route follows a group.
	Pinned string
	// Parents are the parents that the specification names for this route. If there are none, the
	// route has the parents of the provider.
	Parents []Parent
	// TLS contains the TLS settings by host, if specified.
	TLS map[string]TLS
	// RecordTTL is the TTL of the hosts' DNS records, in seconds; 0 if not specified.
	RecordTTL int32
	// Stamp identifies the rollout state from which the route was built.
	Stamp resources.Stamp
}

// TLS contains the TLS settings of a host.
type TLS struct {
	// Mode is never empty.
	Mode v1alpha1.TLSMode
	// Secret is the name of the Secret that contains the certificate; empty in mode Gateway.
	Secret string
	// Until is the Secret that the host uses until Secret contains a certificate for the host. If
	// Until is empty, the host uses Secret.
	Until string
	// Issuer is the issuer of the certificate, with defaults; zero if the user creates the Secret.
	Issuer v1alpha1.IssuerReference
	// Port is the port of the listener in mode ListenerSet.
	Port int32
}

// Serving returns the Secret that the host should use now.
func (t TLS) Serving() string { return cmp.Or(t.Until, t.Secret) }

// Shared is an object on which several routes can depend.
type Shared struct {
	resources.Object
	// Hosts are the hosts whose routes depend on the object.
	Hosts []string
}

// Parent is an object to which a route is attached. Field is the field of the policy that names the
// object.
type Parent struct {
	Field string
	v1alpha1.ParentReference
}

// DomainParents returns the parents in the i-th entry of spec.domains.
func DomainParents(p *v1alpha1.NetworkPolicy, i int) []Parent {
	var out []Parent
	for j, ref := range p.Spec.Domains[i].ParentRefs {
		out = append(out, Parent{Field: fmt.Sprintf("spec.domains[%d].parentRefs[%d]", i, j), ParentReference: ref})
	}
	return out
}

// ListenerParent returns the parent in the i-th entry of spec.listeners.
func ListenerParent(p *v1alpha1.NetworkPolicy, i int) Parent {
	return Parent{Field: fmt.Sprintf("spec.listeners[%d].parentRef", i), ParentReference: p.Spec.Listeners[i].ParentRef}
}

// Backend is a Service and its share of the traffic.
type Backend struct {
	Service string
	// Weight is from 1 to 100. A Service without traffic is not in the route.
	Weight int32
}

// MaxHostnames is the maximum number of hosts of a route. HTTPRoute, GRPCRoute and the earlier
// versions of TLSRoute do not allow more hosts. The same limit applies to all other kinds.
const MaxHostnames = 16

// BySecret returns, for each Secret, a sorted list of the hosts in these routes that should use the
// Secret now.
func BySecret(routes []Route) map[string][]string {
	out := map[string][]string{}
	for _, r := range routes {
		for _, host := range r.Hostnames {
			if secret := r.TLS[host].Serving(); secret != "" {
				out[secret] = append(out[secret], host)
			}
		}
	}
	for secret, hosts := range out {
		slices.Sort(hosts)
		out[secret] = slices.Compact(hosts)
	}
	return out
}

// Undecided returns those of the given hosts that appear in a live route but not in any desired
// route. Nothing replaces the routes of these hosts, so these routes stay as they are.
func Undecided(hosts []string, decided []Route, live map[string]*Live) []string {
	return slices.DeleteFunc(slices.Clone(hosts), func(host string) bool {
		return !hasHost(live, host) || slices.ContainsFunc(decided, func(r Route) bool { return slices.Contains(r.Hostnames, host) })
	})
}

// hasHost reports whether a live route that is not being deleted has the host.
func hasHost(live map[string]*Live, host string) bool {
	for _, r := range live {
		if !r.Deleting && slices.Contains(r.Hostnames, host) {
			return true
		}
	}
	return false
}

// Live is an existing route.
type Live struct {
	// Name is the name of the route.
	Name string
	// Objects are the objects of the route, in the order in which Build returns them.
	Objects []resources.Object
	// Hostnames and Path are those that the route serves.
	Hostnames []string
	Path      string
	// Weights contains the weights, by name, of the Services between which the route splits requests.
	Weights map[string]int
	// Services is the sorted list of the Services to which the route refers by weight, match or
	// mirror.
	Services []string
	// Deleting reports whether the route is being deleted.
	Deleting bool
	// Accepted reports whether the gateway has accepted the current content of the route. It is
	// true for objects without a status.
	Accepted bool
	// Acknowledged reports whether a controller has reported the acceptance in the status of the
	// objects.
	Acknowledged bool
	// Provider is the name of the route's provider. The controller sets it.
	Provider string
	// User reports whether the route is a user-managed route in which the policy manages, or should
	// manage, rules. Such a route is restored, but never deleted.
	User bool
	// Managed describes the rules that the policy manages in a user-managed route, or is nil.
	Managed *resources.Taken
}

// Stamp returns the stamp in the annotations of a live route; ok is false if there is none.
func (l *Live) Stamp() (stamp resources.Stamp, ok bool) {
	if l.User {
		if l.Managed == nil {
			return stamp, false
		}
		return l.Managed.Stamp(), true
	}
	return resources.StampOf(l.Objects[0])
}

// Group returns the slug of the group whose releases are the targets of the route.
func (l *Live) Group() string {
	if l.User {
		stamp, _ := l.Stamp()
		return stamp.Group
	}
	return l.Objects[0].GetLabels()[v1alpha1.LabelGroup]
}

// Pinned reports whether the route is pinned to one release.
func (l *Live) Pinned() bool {
	if l.User {
		return l.Managed != nil && l.Managed.Release != ""
	}
	return l.Objects[0].GetLabels()[v1alpha1.LabelRelease] != ""
}

// UserRoute returns the name under which a view lists a user-managed route. The slash distinguishes
// this name from the names of other routes.
func UserRoute(kind, name string) string { return kind + "/" + name }

// Problem contains a CamelCase reason, and a message that states the field or object and the fix.
type Problem struct {
	Reason, Message string
}

// Verdict reports whether a gateway accepted the objects that were written.
type Verdict struct {
	// Accepted means that the live objects match those that Build returned, and that the gateway has
	// accepted them.
	Accepted bool
	// Pending means that a change is still in progress: the objects are being written, or the
	// gateway has not confirmed them yet.
	Pending bool
	// Reason and Message explain why the route is not accepted.
	Reason, Message string
	// Late is the reason that applies if the state is still pending after Grace; if Late is empty,
	// Reason applies.
	Late string
}

// Probe is a request to one address of a gateway. The response is correct only if the gateway
// serves a route as it was written. A Probe is comparable: probes that differ in route, content or
// address are not equal.
type Probe struct {
	// Route is the UID of the object that is probed, and Generation is its generation.
	Route      types.UID
	Generation int64
	// Address is an IP address or host name of the gateway. Port is the port of a listener.
	Address string
	Port    int32
	// TLS reports whether the listener uses TLS. The certificate is not verified, because a
	// certificate proves an identity, not a configuration.
	TLS bool
	// Host and Path are those of the request. Host is also the TLS server name.
	Host, Path string
	// Answer is the host to which a correct response redirects.
	Answer string
}

// Probed is the state of a probe.
type Probed struct {
	// Since is the time at which the probe was first sent.
	Since time.Time
	// Served means that the response was correct. The probe is not sent again.
	Served bool
	// Problem describes the latest incorrect or missing response. It is empty if the probe has no result
	// yet, or if the response was correct.
	Problem string
}

// Grace is the time after which a written route counts as faulty if its gateway has not reported
// the status of the route.
const Grace = 30 * time.Second

// Reasons for the problems and verdicts of providers.
const (
	// ReasonPending means that a change is in progress.
	ReasonPending = "Pending"
	// ReasonParentNotFound means that an object to which the policy refers does not exist.
	ReasonParentNotFound = "ParentNotFound"
	// ReasonNotAccepted means that the gateway rejected a route, or does not report the status of the
	// route.
	ReasonNotAccepted = "NotAccepted"
	// ReasonNoMatchingListener means that a route is accepted, but no listener matches its host.
	ReasonNoMatchingListener = "NoMatchingListener"
	// ReasonAPIMissing means that the API server lacks a kind of the Gateway API.
	ReasonAPIMissing = "GatewayAPIMissing"
	// ReasonProviderAPIMissing means that the API server lacks a kind of another API.
	ReasonProviderAPIMissing = "ProviderAPIMissing"
	// ReasonProbeUnanswered means that a gateway accepted a route, but one of the gateway's addresses
	// does not serve the route as it was written.
	ReasonProbeUnanswered = "ProbeUnanswered"
	// ReasonNotSupported means that the provider does not support a part of the specification.
	ReasonNotSupported = "NotSupported"
	// ReasonCertificateNotReady means that the certificate of a host does not exist yet, or is not
	// valid.
	ReasonCertificateNotReady = "CertificateNotReady"
	// ReasonListenerNotReady means that the listener of a host is not ready.
	ReasonListenerNotReady = "ListenerNotReady"
	// ReasonRouteNotFound means that the route to which the policy refers does not exist.
	ReasonRouteNotFound = "RouteNotFound"
	// ReasonRuleNotFound means that the route has no rule, or more than one rule, with a name that
	// the policy specifies.
	ReasonRuleNotFound = "RuleNotFound"
	// ReasonRuleConflict means that an older policy or another client manages the rule.
	ReasonRuleConflict = "RuleConflict"
	// ReasonUnprogrammed means that the gateway reports that it is not programmed.
	ReasonUnprogrammed = "GatewayNotProgrammed"
)

// Metadata returns the metadata of a route's objects: the labels by which the objects are selected,
// and annotations with the route's stamp and the TTL of its DNS records.
func (r Route) Metadata(policy *v1alpha1.NetworkPolicy, microservice string) (labels, annotations map[string]string) {
	labels = resources.Labels(policy, microservice, r.Stamp.Group)
	if r.Pinned != "" {
		labels[v1alpha1.LabelRelease] = r.Pinned
	}
	annotations = r.Stamp.Annotations()
	if r.RecordTTL > 0 {
		for _, prefix := range recordPrefixes {
			annotations[prefix+"ttl"] = strconv.Itoa(int(r.RecordTTL))
		}
	}
	return labels, annotations
}

// recordPrefixes are the prefixes of the annotations that external-dns reads: version 0.22 and
// later read the first, and earlier versions read the second.
var recordPrefixes = []string{"external-dns.kubernetes.io/", "external-dns.alpha.kubernetes.io/"}

// Kept returns the metadata for a live object that is rewritten for a route. The labels and
// annotations of the object are kept, except those of the group and the stamp.
func (r Route) Kept(policy *v1alpha1.NetworkPolicy, microservice string, live resources.Object) metav1.ObjectMeta {
	out := metav1.ObjectMeta{
		Namespace: live.GetNamespace(), Name: live.GetName(), Labels: maps.Clone(live.GetLabels()), Annotations: maps.Clone(live.GetAnnotations()),
	}
	delete(out.Labels, v1alpha1.LabelRelease)
	delete(out.Annotations, apply.AnnotationApplied)
	if out.Labels == nil { // A user removed the labels.
		out.Labels = map[string]string{}
	}
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	labels, annotations := r.Metadata(policy, microservice)
	maps.Copy(out.Labels, labels)
	maps.Copy(out.Annotations, annotations)
	return out
}

// Sorted returns the sorted keys of a map.
func Sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// MatchType returns the type of a comparison. It defaults to Exact.
func MatchType(t v1alpha1.MatchType) v1alpha1.MatchType { return cmp.Or(t, v1alpha1.MatchExact) }
