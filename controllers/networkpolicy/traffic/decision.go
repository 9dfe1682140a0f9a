package traffic

import (
	"cmp"
	"slices"
	"time"

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

// adoption is the decision about the Service that the policy adopts.
type adoption struct {
	// Mark is the Service to be marked; nil if it is already, or cannot be.
	Mark *corev1.Service
	// Reason and message why it does not route to the active release yet.
	Reason, message string
}

// RestsOnFailed returns why a route cannot be written as decided, or nil: the write of a Service
// that it names, or of another object on which it depends, failed temporarily, or the name of the
// Service is taken. missing reports that the policy has no such Service, so that nothing may name
// it.
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

// MissingKind reports whether a reason means that the API server lacks a kind.
func MissingKind(reason string) bool {
	return reason == ReasonGatewayAPIMissing || reason == providers.ReasonProviderAPIMissing
}

// Decision is the result of planning: what a reconcile writes, and what it reports about groups and
// domains. It depends only on the observed facts.
type Decision struct {
	// Services in the order of writing: those of releases first.
	Services []resources.Service
	// Routes in the order of writing: routes that gain hosts come before routes that lose some.
	Routes []*RouteDecision
	// Shared are the objects on which routes depend, such as Certificates, in the order of writing, and
	// deleteShared those that are deleted.
	Shared       []providers.Shared
	DeleteShared []resources.Object
	// Previous are the routes of providers that the policy no longer uses: they route to the same
	// releases as the routes above, until these have replaced them for the drain delay. They contain
	// only the objects that change. Routes that stay until others have replaced them are included.
	Previous []*RouteDecision
	// replaced reports whether the current provider serves everything that previous ones serve, and
	// waits lists what keeps it from that.
	replaced bool
	waits    string
	// DeleteRoutes and DeleteServices are the names of live routes and Services to delete; Services are
	// deleted last.
	DeleteRoutes   []string
	DeleteServices []string
	// held are, by name, live routes that stay because the row that replaces them cannot be routed.
	held   map[string]*Row
	groups []*groupDecision
	rows   []*Row
	// Adoption is nil if the policy adopts no Service.
	Adoption *adoption
	// moves are the splits between a group and the newer one to which its domains are moving.
	moves map[move]*groupDecision
}

// RouteDecision is one route.
type RouteDecision struct {
	providers.Route
	// slug of the group whose releases it routes to.
	slug string
	// answers reports whether it routes as the rollout state requires.
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
	// moves reports whether its routes route only to the active release.
	moves bool
	// weights by release, adding up to 100; nil if nothing is written.
	weights map[string]int
	// matched receives the requests that canaryMatches select, and mirrored a copy of
	// mirrorPercent of all requests: the canary, if its step has them and it has a ready
	// endpoint; otherwise "".
	matched, mirrored string
	mirrorPercent     int32
	withheld          []string
	// awaited is until when the endpoints of withheld releases are awaited, and the routes keep their
	// revision; zero if they do not wait.
	awaited time.Time
	pinned  []string
	// newest reports whether the domains of the newest group route to this one.
	newest bool
	// absent reports whether the group must not be reachable: its objects are deleted.
	absent bool
	// answers reports whether weights contain only releases to which the rollout state gives traffic.
	// Otherwise they are the last written ones, because no release that should serve has a ready
	// endpoint.
	answers bool
	// reason and message why the group cannot be confirmed, apart from the status of live objects.
	reason, message string
}

// bySlug returns the decisions about groups, by slug.
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
	reasonFrozen              = "Frozen"
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

// maxRows is the maximum number of rendered hosts in a policy's status.
const maxRows = 512

// pathOfTLS replaces the path of a host that is served by TLS listeners, which see no path. It is
// not a valid path.
const pathOfTLS = "TLS"

// preview reports whether a row routes to a preview of a pull request.
func preview(r *Row) bool { return r.group != nil && r.group.Level == v1alpha1.LevelPreview }

// samePath reports whether two paths are the same, or one is empty: routes of some protocols have
// no path.
func samePath(a, b string) bool { return a == b || a == "" || b == "" }

// Applied is the result of writing the objects of a decision.
type Applied struct {
	// Changed names the objects that this reconcile wrote: their observed state is from before
	// the write.
	Changed map[string]bool
	// Refused are the objects that could not be written, with the cause: their name belongs to another
	// owner, or the API server rejects a value.
	Refused map[string]*status.Error
}

func (w Applied) touched(name string) bool { return w.Changed[name] || w.Refused[name] != nil }

// ServiceKey returns the key of a Service among what was applied.
func ServiceKey(name string) string { return "Service/" + name }

// RouteName returns the key of a route among what was applied.
func RouteName(name string) string { return "Route/" + name }

// services returns all Services that a route names.
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
	// listener is the name of the entry of spec.listeners; "" if the row is a host.
	listener string
	// claim is the listener in the form of a host.
	claim string
	// user is the name of the user-managed route whose rules the row stands for; "" if none.
	user string
	// parents that the entry sets.
	parents []providers.Parent
	// target identifies what the row routes to: rows with the same target may share a route.
	target string
	// group that the row routes to, or nil.
	group *v1alpha1.ReleaseGroup
	// pinned is the release of a row with a version, or the canary to which a canary row routes now.
	pinned string
	// pin: the row names a version. canary: it routes to the canary. Neither follows the weights of a
	// group.
	pin, canary bool
	// matches select requests for the canary.
	matches []v1alpha1.CanaryMatch
	// tls of the host; nil if none is specified.
	tls *providers.TLS
	// recordTTL of the DNS record of the host, in seconds; 0 if not specified.
	recordTTL int32
	// shared rows move between groups.
	shared bool
	// newest: the row routes to the newest group. newer is the group to which it is moving in steps, or
	// nil.
	newest bool
	newer  *v1alpha1.ReleaseGroup
	// reason and message of a row that is not routed, or has an error.
	reason, message string
	// kept: the row stays although the specification no longer renders it, because what it renders
	// instead is not a host name or has no target, or although it is not known whether the host is
	// allowed.
	kept bool
	// covered: the same entry gives the host to another group. The group of the row is treated as if no
	// domain routed to it.
	covered bool
}

// routable reports whether the row belongs in a route.
func (r *Row) routable() bool {
	return (r.host != "" || r.listener != "" || r.user != "") && (r.reason == "" || r.kept) && (r.group != nil || r.pinned != "")
}

// holds returns the host and path that no other policy may have; without a host the listener.
func (r *Row) holds() (host, path string) {
	if r.listener != "" {
		return r.claim, ""
	}
	if r.port.Protocol == v1alpha1.ProtocolTLS {
		return r.host, pathOfTLS
	}
	return r.host, cmp.Or(r.path, "/")
}

// source returns the field that defines what the row routes to.
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

// move is a move of domains from one group to another, by slug.
type move struct{ from, to string }

// SharedKey identifies, within a reconcile, an object on which routes depend.
func SharedKey(o resources.Object) string {
	return o.GetObjectKind().GroupVersionKind().Kind + "/" + o.GetName()
}
