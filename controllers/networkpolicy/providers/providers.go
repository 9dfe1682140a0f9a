// Package providers defines the interface of providers: the objects of a decided route, the content
// of live objects, and their state at a gateway. Each provider is a package below this one;
// docs/how-to/add-a-provider.md shows how to write one. Its files, each of which refers only to
// those after it:
//
//	services.go   the provider of policies that name none
//	abilities.go  what only some providers can do
//	providers.go  what every provider needs
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

// Provider routes to the Services of a policy by objects of its kinds. All of its methods are pure:
// the controller reads and writes for it. Optional interfaces are in abilities.go.
type Provider interface {
	// Name in the policy's status, such as "gateway".
	Name() string
	// Writes returns the kinds of objects of routes. The controller owns and watches those that the API
	// server has.
	Writes() []Kind
	// Chosen reports whether a policy uses this provider.
	Chosen(policy *v1alpha1.NetworkPolicy) bool
	// NewView returns the view of one reconcile.
	NewView(Input) View
}

// View is a provider in one reconcile of one policy. It is pure, and the same for any
// order in which objects were listed.
type View interface {
	Builder
	Observer
}

// Builder creates the objects of routes.
type Builder interface {
	// Missing returns a problem if the API server lacks the kind for a protocol, or the provider does
	// not support it, or nil.
	Missing(v1alpha1.PortProtocol) *Problem
	// Unsupported returns the problem of matches of a route that this provider cannot express, or nil.
	// Such a route is not written, because it would route requests to the wrong release. The message
	// begins with the field below the domain or listener.
	Unsupported(Route) *Problem
	// Build returns the objects of a route as they are applied, in the order of writing, with the
	// defaults of the API server.
	Build(Route) []resources.Object
}

// Observer reads live objects.
type Observer interface {
	// Live returns the routes of the input's objects, by name.
	Live() map[string]*Live
	// Verdict returns the state of a route with the objects that Build returned: whether it is written
	// as decided, and programmed.
	Verdict(route Route, built []resources.Object) Verdict
	// Serves returns the URL of a host, and the problem of a host that is accepted but not served.
	Serves(route Route, host string) (url string, problem *Problem)
}

// Kind of objects.
type Kind struct {
	// Group and Kind of the API.
	Group, Kind string
	// Versions that the provider can read and write, the preferred one first.
	Versions []string
	// Previous is the previous name of the kind, or nil. It is used if the API server does not serve
	// the current name. In this program the kind has the current name.
	Previous *Kind
}

// Reference names an object of other owners.
type Reference struct {
	Kind            string
	Namespace, Name string
}

// Input is the input of a view.
type Input struct {
	Policy *v1alpha1.NetworkPolicy
	// Microservice is its name.
	Microservice string
	// Served are the versions in which the API server serves the kinds that the
	// provider reads and writes; a kind that it does not know is absent.
	Served map[string]Served
	// Objects that the policy owns, of the kinds that the provider writes, including those that are
	// being deleted.
	Objects []resources.Object
	// Referents that exist.
	Referents map[Reference]resources.Object
	// Unwatched are the namespaces of references that the manager does not watch: it cannot read
	// their objects.
	Unwatched map[string]bool
	// Namespace are the labels of the policy's namespace, if a Referent selects namespaces by labels
	// and the policy has probes.
	Namespace map[string]string
	// Probed are the results of probes.
	Probed map[Probe]Probed
	// Users are the user-managed routes that the policy names, or has rules in, with all of their
	// fields.
	Users []*unstructured.Unstructured
	// Older are the older policies that name the same user-managed route.
	Older []*v1alpha1.NetworkPolicy
	// Services reports which names are those of the policy's own Services, and Releases which
	// of them route to one release.
	Services, Releases map[string]bool
}

// Served is how the API server serves a kind.
type Served struct {
	// Group and Kind if they are those of a previous kind; otherwise empty.
	Group, Kind string
	// Version in use.
	Version string
	// Experimental reports whether the definition is from its project's experimental channel, which has
	// additional fields.
	Experimental bool
}

// Route routes hosts, or a listener, to the releases of one group.
type Route struct {
	// Name of its objects.
	Name string
	// Protocol of the port; empty: HTTP.
	Protocol v1alpha1.PortProtocol
	// Hostnames, sorted; at most MaxHostnames.
	Hostnames []string
	// Path prefix, "/" for all; empty if the protocol has no paths.
	Path string
	// Port of the Services behind.
	Port int32
	// Backends in the order in which they are written.
	Backends []Backend
	// Active is the Service of the group's active release, or "". It need not be among the Backends.
	Active string
	// Canary is the Service that gets the requests that Matches select, or "".
	Canary string
	// Matches select requests for Canary, regardless of the weights.
	Matches []v1alpha1.CanaryMatch
	// Mirror is the Service that receives a copy of MirrorPercent of the requests, or "". Its responses
	// are discarded.
	Mirror string
	// MirrorPercent is from 1 to 100.
	MirrorPercent int32
	// Pinned is the release that the route is pinned to; "" if it follows a group.
	Pinned string
	// Parents that the specification names for this route; if empty, those of the provider.
	Parents []Parent
	// TLS of hosts, if specified.
	TLS map[string]TLS
	// RecordTTL of the DNS records of the hosts, in seconds; 0 if not specified.
	RecordTTL int32
	// Stamp of the rollout state from which the route was built.
	Stamp resources.Stamp
}

// TLS of a host, as specified.
type TLS struct {
	// Mode is never empty.
	Mode v1alpha1.TLSMode
	// Secret with the certificate; empty in mode Gateway.
	Secret string
	// Until is the Secret that serves the host until there is a certificate for it in Secret; empty for
	// Secret itself.
	Until string
	// Issuer of the certificate, with defaults; zero if the Secret is created by others.
	Issuer v1alpha1.IssuerReference
	// Port of the listener, in mode ListenerSet.
	Port int32
}

// Serving returns the Secret that is to serve the host now.
func (t TLS) Serving() string { return cmp.Or(t.Until, t.Secret) }

// Shared is an object on which several routes may depend.
type Shared struct {
	resources.Object
	// Hosts that need it.
	Hosts []string
}

// Parent is the object to which a route is attached, and the field that names it.
type Parent struct {
	Field string
	v1alpha1.ParentReference
}

// DomainParents returns those that the i-th domain names for itself.
func DomainParents(p *v1alpha1.NetworkPolicy, i int) []Parent {
	var out []Parent
	for j, ref := range p.Spec.Domains[i].ParentRefs {
		out = append(out, Parent{Field: fmt.Sprintf("spec.domains[%d].parentRefs[%d]", i, j), ParentReference: ref})
	}
	return out
}

// ListenerParent returns the one that the i-th listener names.
func ListenerParent(p *v1alpha1.NetworkPolicy, i int) Parent {
	return Parent{Field: fmt.Sprintf("spec.listeners[%d].parentRef", i), ParentReference: p.Spec.Listeners[i].ParentRef}
}

// Backend is a Service and its share of the traffic.
type Backend struct {
	Service string
	// Weight is from 1 to 100: a Service without traffic is not in the route.
	Weight int32
}

// MaxHostnames is the number of hosts that share a route. HTTPRoute, GRPCRoute and the earlier
// versions of TLSRoute allow no more; the others need no more.
const MaxHostnames = 16

// BySecret returns the hosts of routes by the Secret that is to serve them now, sorted.
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

// Undecided returns those of the hosts that live routes have and none of the decided ones has: what
// nothing replaces stays as it is.
func Undecided(hosts []string, decided []Route, live map[string]*Live) []string {
	return slices.DeleteFunc(slices.Clone(hosts), func(host string) bool {
		return !hasHost(live, host) || slices.ContainsFunc(decided, func(r Route) bool { return slices.Contains(r.Hostnames, host) })
	})
}

// hasHost reports whether a live route has a host.
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
	// Name of the route.
	Name string
	// Objects of the route, in the order of Build.
	Objects []resources.Object
	// Hostnames and Path that it serves.
	Hostnames []string
	Path      string
	// Weights by name of the Services between which it splits.
	Weights map[string]int
	// Services that it names in any way, sorted: by weight, match or mirror.
	Services []string
	// Deleting reports whether it is being deleted.
	Deleting bool
	// Accepted reports whether its gateway has accepted it as it is, as far as reported.
	Accepted bool
	// Acknowledged reports whether a controller has reported this in the status of the objects.
	Acknowledged bool
	// Provider of the route, by name. The controller sets it.
	Provider string
	// User reports whether the route is user-managed, and the policy has, or gets, rules in it. It is
	// restored, and never deleted.
	User bool
	// Managed is what the policy has in a user-managed route, or nil.
	Managed *resources.Taken
}

// Stamp of the rollout state that a live route bears; ok is false where there is none.
func (l *Live) Stamp() (stamp resources.Stamp, ok bool) {
	if l.User {
		if l.Managed == nil {
			return stamp, false
		}
		return l.Managed.Stamp(), true
	}
	return resources.StampOf(l.Objects[0])
}

// Group returns the slug of the group whose releases are behind it.
func (l *Live) Group() string {
	if l.User {
		stamp, _ := l.Stamp()
		return stamp.Group
	}
	return l.Objects[0].GetLabels()[v1alpha1.LabelGroup]
}

// Pinned reports whether it routes to one pinned release.
func (l *Live) Pinned() bool {
	if l.User {
		return l.Managed != nil && l.Managed.Release != ""
	}
	return l.Objects[0].GetLabels()[v1alpha1.LabelRelease] != ""
}

// UserRoute returns the name of a route of another user. No managed route has one like it.
func UserRoute(kind, name string) string { return kind + "/" + name }

// Problem is a CamelCase reason, and a message that names the field or object and the fix.
type Problem struct {
	Reason, Message string
}

// Verdict is what is known of objects that were written.
type Verdict struct {
	// Accepted: they are as decided, and the gateway has accepted them.
	Accepted bool
	// Pending: there is no response yet.
	Pending bool
	// Reason and Message why it is not accepted.
	Reason, Message string
	// Late is the reason after a long time without a response; empty: the same.
	Late string
}

// Probe is a request to one address of a gateway, whose response is correct only if the gateway
// serves a route as it was written. It is comparable: another route, another content or another
// address is another probe.
type Probe struct {
	// Route is the object that is probed, in one generation.
	Route      types.UID
	Generation int64
	// Address is an IP address or host name of the gateway, and Port that of a listener.
	Address string
	Port    int32
	// TLS reports whether the listener uses TLS. The certificate is not verified, because it
	// proves an identity and not a configuration.
	TLS bool
	// Host and Path of the request; Host is also the server name of TLS.
	Host, Path string
	// Answer is the host to which the correct response redirects.
	Answer string
}

// Probed is the state of a probe.
type Probed struct {
	// Since is when it was first sent.
	Since time.Time
	// Served: the response was correct, and the probe is not sent again.
	Served bool
	// Problem describes another response; "" if there was none yet.
	Problem string
}

// Grace is how long a written route may have no response from its gateway before that is reported
// as a fault.
const Grace = 30 * time.Second

// Reasons that providers give.
const (
	// ReasonPending: something is in progress.
	ReasonPending = "Pending"
	// ReasonParentNotFound: an object that the policy names does not exist.
	ReasonParentNotFound = "ParentNotFound"
	// ReasonNotAccepted: the gateway rejected a route, or does not report on it.
	ReasonNotAccepted = "NotAccepted"
	// ReasonNoMatchingListener: a route is accepted, but no listener has its host.
	ReasonNoMatchingListener = "NoMatchingListener"
	// ReasonAPIMissing: the API server lacks a kind.
	ReasonAPIMissing = "GatewayAPIMissing"
	// ReasonProviderAPIMissing: the API server lacks a kind that is not of the Gateway API.
	ReasonProviderAPIMissing = "ProviderAPIMissing"
	// ReasonProbeUnanswered: a gateway accepted a route, but one of its addresses does not serve it as
	// it was written.
	ReasonProbeUnanswered = "ProbeUnanswered"
	// ReasonNotSupported: the provider does not support a part of the specification.
	ReasonNotSupported = "NotSupported"
	// ReasonCertificateNotReady: a host's certificate does not exist yet, or is not valid.
	ReasonCertificateNotReady = "CertificateNotReady"
	// ReasonListenerNotReady: the listener of a host is not ready.
	ReasonListenerNotReady = "ListenerNotReady"
	// ReasonRouteNotFound: the route that the policy names does not exist.
	ReasonRouteNotFound = "RouteNotFound"
	// ReasonRuleNotFound: the route has no such rule, or more than one.
	ReasonRuleNotFound = "RuleNotFound"
	// ReasonRuleConflict: an older policy has the rule.
	ReasonRuleConflict = "RuleConflict"
	// ReasonUnprogrammed: the gateway reports that it is not programmed.
	ReasonUnprogrammed = "GatewayNotProgrammed"
)

// Metadata returns the metadata of the objects of a route: the labels by which they are selected,
// and its stamp.
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

// recordPrefixes of the annotations that external-dns reads: since its 0.22, and before.
var recordPrefixes = []string{"external-dns.kubernetes.io/", "external-dns.alpha.kubernetes.io/"}

// Kept returns the metadata of a live object that is written again for a route: its labels and
// annotations stay, but for those of the group and the stamp.
func (r Route) Kept(policy *v1alpha1.NetworkPolicy, microservice string, live resources.Object) metav1.ObjectMeta {
	out := metav1.ObjectMeta{
		Namespace: live.GetNamespace(), Name: live.GetName(), Labels: maps.Clone(live.GetLabels()), Annotations: maps.Clone(live.GetAnnotations()),
	}
	delete(out.Labels, v1alpha1.LabelRelease)
	delete(out.Annotations, apply.AnnotationApplied)
	if out.Labels == nil { // Another user removed them.
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

// Sorted returns the keys of a set in order.
func Sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// MatchType returns the type of a comparison, its default included.
func MatchType(t v1alpha1.MatchType) v1alpha1.MatchType { return cmp.Or(t, v1alpha1.MatchExact) }
