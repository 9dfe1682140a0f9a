package traffic

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/internal/status"
)

// Reasons of condition ServiceAdopted.
const (
	ReasonAdoptedMissing    = "ServiceNotFound"
	ReasonAdoptedUnsuitable = "ServiceNotAdoptable"
	ReasonAdoptionWaits     = "WaitingForCapacity"
	ReasonAdopted           = "Adopted"
)

// adoption is what becomes of the Service that the policy adopts.
type adoption struct {
	// Mark is the Service to be marked; nil: it is, or cannot be.
	Mark *corev1.Service
	// Reason and message why it does not route to the active release yet.
	Reason, message string
}

// RestsOnFailed is why a route cannot be written as decided: a Service that it names, or
// another object on which it rests, failed to be written in a way that may pass, or the name of
// the Service is taken; nil: it can. missing reports that the policy has no such Service, so that
// nothing may name it.
func (f *Observed) RestsOnFailed(route *RouteDecision, out *Decision, w Applied) (cause *status.Error, missing bool) {
	for _, name := range route.services() {
		err, there := w.Refused[ServiceKey(name)], f.service(name) != nil
		if err != nil && (!there || err.Class == status.Transient) {
			cause, missing = err, missing || !there
		}
	}
	for _, s := range out.Shared {
		err := w.Refused[SharedKey(s)]
		if err != nil && err.Class == status.Transient && slices.ContainsFunc(s.Hosts, func(host string) bool { return slices.Contains(route.Hostnames, host) }) {
			cause = err
		}
	}
	return cause, missing
}

// MissingKind reports whether a reason is that the API server lacks a kind.
func MissingKind(reason string) bool {
	return reason == ReasonGatewayAPIMissing || reason == providers.ReasonProviderAPIMissing
}

// Decision is what a reconcile is to write, and what it reports of groups and domains. It
// follows from facts alone.
type Decision struct {
	// Services in the order of writing: those of releases first.
	Services []resources.Service
	// Routes in the order of writing: those that gain hosts before those that lose
	// some.
	Routes []*RouteDecision
	// Shared are the objects on which routes rest, such as Certificates, in the order of
	// writing, and deleteShared those that go.
	Shared       []providers.Shared
	DeleteShared []resources.Object
	// Previous are the routes of providers that the policy has left: they route to the same
	// as those above, until these have replaced them for the drain delay. Their objects are
	// those that change. Routes that stay until others have taken their place are here too.
	Previous []*RouteDecision
	// replaced reports that the current provider serves all that previous ones serve, and waits
	// what keeps it from that.
	replaced bool
	waits    string
	// DeleteRoutes and deleteServices by name: live routes, and Services, which are
	// deleted last.
	DeleteRoutes   []string
	DeleteServices []string
	// held are live routes that stay because what a row asks for in their place cannot be
	// routed, by name.
	held   map[string]*Row
	groups []*groupDecision
	rows   []*Row
	// Adoption is nil where the policy adopts no Service.
	Adoption *adoption
	// moves are the splits between a group and the newer one to which domains are on
	// their way, by both.
	moves map[move]*groupDecision
}

// RouteDecision is one route.
type RouteDecision struct {
	providers.Route
	// slug of the group whose releases are behind.
	slug string
	// answers reports that it carries what the rollout state asks for.
	answers bool
	// Objects as they are applied, in the order of writing.
	Objects []resources.Object
	rows    []*Row
}

// groupDecision is the desired content of the routes and Services of a group.
type groupDecision struct {
	group *v1alpha1.ReleaseGroup
	slug  string
	mode  v1alpha1.SplitMode
	// routed reports that a domain or listener follows the group: it has more than Services.
	routed bool
	// moves reports that what routes it has route to the active release alone.
	moves bool
	// weights by release, adding up to 100; nil: nothing is written.
	weights map[string]int
	// matched receives the requests that canaryMatches select, and mirrored a copy of
	// mirrorPercent of all requests: the canary, if its step has them and it has a ready
	// endpoint; otherwise "".
	matched, mirrored string
	mirrorPercent     int32
	withheld          []string
	pinned            []string
	// newest reports that domains which route to the newest group route to this one.
	newest bool
	// absent reports that the group should not be reachable: its objects are deleted.
	absent bool
	// true where weights name only releases that the rollout state gives traffic: then
	// they answer its revision. Otherwise they are what was written last, because
	// nothing that should serve has a ready endpoint.
	answers bool
	// reason and message why the group cannot be confirmed, apart from what live
	// objects say.
	reason, message string
}

// bySlug are the decisions about groups by the slug of the group.
func (d *Decision) bySlug() map[string]*groupDecision {
	out := map[string]*groupDecision{}
	for _, g := range d.groups {
		out[g.slug] = g
	}
	return out
}

// Reasons of domains, groups and conditions.
const (
	reasonInvalidDomain       = "InvalidDomain"
	reasonDomainConflict      = "DomainConflict"
	ReasonDomainNotAllowed    = "DomainNotAllowed"
	ReasonDomainsUnreadable   = "DomainListUnreadable"
	reasonGroupNotFound       = "GroupNotFound"
	reasonNoActiveRelease     = "NoActiveRelease"
	reasonNoReadyEndpoints    = "NoReadyEndpoints"
	reasonPinnedUnavailable   = "PinnedReleaseUnavailable"
	reasonNoCanary            = "NoCanary"
	reasonParentNotFound      = providers.ReasonParentNotFound
	ReasonNotAccepted         = providers.ReasonNotAccepted
	reasonNoMatchingListener  = providers.ReasonNoMatchingListener
	ReasonGatewayAPIMissing   = providers.ReasonAPIMissing
	reasonGatewayUnprogrammed = providers.ReasonUnprogrammed
	reasonNotRoutable         = "PortNotRoutable"
	ReasonNotSupported        = providers.ReasonNotSupported
	reasonTooManyDomains      = "TooManyDomains"
	ReasonCertificateNotReady = providers.ReasonCertificateNotReady
	ReasonListenerNotReady    = providers.ReasonListenerNotReady
	ReasonPending             = providers.ReasonPending
	ReasonNameConflict        = "NameConflict"
	reasonNoPreviews          = "NoPreviews"
	reasonNoMicroservice      = "MicroserviceNotFound"
)

// maxRows is the number of rendered hosts that a policy's status holds.
const maxRows = 512

// pathOfTLS stands for the path where a host is served by TLS listeners, which do not
// see one. No path is like it.
const pathOfTLS = "TLS"

// preview reports whether a row routes to a preview of a pull request.
func preview(r *Row) bool { return r.group != nil && r.group.Level == v1alpha1.LevelPreview }

// samePath reports whether two paths are the same, where both have one: routes of some
// protocols have none.
func samePath(a, b string) bool { return a == b || a == "" || b == "" }

// Applied is what became of the objects of a decision.
type Applied struct {
	// Changed names the objects that this reconcile wrote: their observed state is from before
	// the write.
	Changed map[string]bool
	// Refused names the objects that could not be written, with the cause: a name
	// that another user has, or a value that the server does not accept.
	Refused map[string]*status.Error
}

func (w Applied) touched(name string) bool { return w.Changed[name] || w.Refused[name] != nil }

// ServiceKey is the key of a Service among what was applied.
func ServiceKey(name string) string { return "Service/" + name }

// RouteName is the key of a route among what was applied.
func RouteName(name string) string { return "Route/" + name }

// services that a route names in any way.
func (r *RouteDecision) services() []string {
	var out []string
	for _, b := range r.Backends {
		out = append(out, b.Service)
	}
	for _, s := range []string{r.Canary, r.Mirror} {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

// Row is one rendered host, or one listener, and what it routes to.
type Row struct {
	// entry is the index in spec.domains or spec.listeners, and field names it.
	entry int
	field string
	host  string
	path  string
	port  v1alpha1.NetworkPort
	// listener is the name of the entry of spec.listeners; "": the row is a host.
	listener string
	// claim is the listener in the form of a host.
	claim string
	// user is the route of another user whose rules the row is; "": none.
	user string
	// parents that the entry names for itself.
	parents []providers.Parent
	// target shows which rows may share a route: those that route to the same thing
	// now and always.
	target string
	// group that the row routes to; nil where there is none.
	group *v1alpha1.ReleaseGroup
	// pinned is the release of a row with a version, or the canary that a row for the
	// canary routes to now.
	pinned string
	// pin rows name a version, and canary rows the canary: neither follows the weights of
	// a group.
	pin, canary bool
	// matches choose requests for the canary.
	matches []v1alpha1.CanaryMatch
	// tls of the host; nil: none is asked for.
	tls *providers.TLS
	// recordTTL of the DNS record of the host, in seconds; 0: not specified.
	recordTTL int32
	// shared rows move between groups.
	shared bool
	// newest rows route to the newest group, and newer is the group to which they are on
	// their way by steps; nil: none.
	newest bool
	newer  *v1alpha1.ReleaseGroup
	// reason and message why the row is not routed, or what is wrong with it.
	reason, message string
	// kept rows are live although the specification no longer gives them, because
	// what it gives instead is no host, or routes to nothing that is there, or although
	// no one can report whether they may be.
	kept bool
	// covered rows are in conflict with the same entry for another group, which has their
	// host: it is none of their group then, as if no domain followed that.
	covered bool
}

// routable reports whether a route is to carry the row.
func (r *Row) routable() bool {
	return (r.host != "" || r.listener != "" || r.user != "") && (r.reason == "" || r.kept) && (r.group != nil || r.pinned != "")
}

// holds is the host and path that no other policy may have; the listener, where there is no
// host.
func (r *Row) holds() (host, path string) {
	if r.listener != "" {
		return r.claim, ""
	}
	if r.port.Protocol == v1alpha1.ProtocolTLS {
		return r.host, pathOfTLS
	}
	return r.host, cmp.Or(r.path, "/")
}

// source is the field that reports what the row routes to.
func (r *Row) source() string {
	if r.listener != "" || r.user != "" {
		return r.field
	}
	return r.field + ".domain"
}

func (r *Row) fail(reason, message string) {
	if r.reason == "" {
		r.reason, r.message = reason, message
	}
}

// move of domains from one group to another, by slug.
type move struct{ from, to string }

// SharedKey names an object that carries no route, in a reconcile.
func SharedKey(o resources.Object) string {
	return o.GetObjectKind().GroupVersionKind().Kind + "/" + o.GetName()
}
