package traffic

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/internal/status"
)

// Reasons for the ServiceAdopted condition.
const (
	ReasonAdoptedMissing    = "ServiceNotFound"
	ReasonAdoptedUnsuitable = "ServiceNotAdoptable"
	ReasonAdoptionWaits     = "WaitingForCapacity"
	ReasonAdopted           = "Adopted"
)

// adoption is the decision about the Service that the policy adopts.
type adoption struct {
	// Mark is a copy of the Service to which the mark of this policy has been added; nil if the live
	// Service already has the mark or cannot be adopted.
	Mark *corev1.Service
	// Reason and message explain why the Service does not route to the active release yet.
	Reason, message string
}

// RestsOnFailed returns the error that prevents a route from being written as planned; nil if there is none. Such
// an error means that a Service of the route does not exist and could not be created, or that the write
// of one of its Services, or of another object on which the route depends, failed temporarily. missing
// reports whether a Service of the route does not exist. If so, objects must not refer to that Service.
// A Service of another owner does not count as existing.
func (f *Observed) RestsOnFailed(route *RouteDecision, out *Decision, w Applied) (cause *status.Error, missing bool) {
	for _, name := range route.services() {
		err, there := w.Refused[AppliedServiceKey(name)], f.service(name) != nil
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

// MissingKind reports whether a reason means that the API server does not serve a required kind.
func MissingKind(reason string) bool {
	return reason == ReasonGatewayAPIMissing || reason == providers.ReasonProviderAPIMissing
}

// Decision is the result of planning: the objects that a reconcile writes, and the state of groups
// and domains that the reconcile reports. A Decision depends only on the observed facts.
type Decision struct {
	// Services are in the order in which they are written: release Services first.
	Services []resources.Service
	// Routes are in the order in which they are written: routes that gain hosts come before routes
	// that lose hosts.
	Routes []*RouteDecision
	// Shared are the objects on which routes depend, such as Certificates, in the order in which they
	// are written. DeleteShared are the existing shared objects that should be deleted.
	Shared       []providers.Shared
	DeleteShared []resources.Object
	// Previous are the routes of providers that the policy no longer uses. They route to the same
	// releases as Routes, and stay until the drain delay has passed since Routes replaced them.
	// They contain only the objects that change. Previous also contains routes of the current
	// provider that stay until other routes have replaced them.
	Previous []*RouteDecision
	// replaced reports whether the current provider serves everything that previous providers
	// serve. waits explains why it does not.
	replaced bool
	waits    string
	// DeleteRoutes and DeleteServices are the names of live routes and Services that should be deleted.
	// Services are deleted last.
	DeleteRoutes   []string
	DeleteServices []string
	// held contains the rows that would replace live routes, or hosts of live routes, but cannot be
	// routed. The key is the name of the live route that stays.
	held   map[string]*DomainRow
	groups []*groupDecision
	rows   []*DomainRow
	// Adoption is nil if the policy adopts no Service.
	Adoption *adoption
	// moves are the splits between a group and the newer group to which its domains are moving.
	moves map[move]*groupDecision
}

// RouteDecision is the decision about one route.
type RouteDecision struct {
	providers.Route
	// slug is the slug of the group whose releases are the targets of the route.
	slug string
	// answers reports whether the route distributes requests as the rollout state requires.
	answers bool
	// Objects are the objects of the route in the form in which they are applied, and in the order in
	// which they are written.
	Objects []resources.Object
	rows    []*DomainRow
}

// groupDecision is the desired content of the routes and Services of a group.
type groupDecision struct {
	group *v1alpha1.ReleaseGroup
	slug  string
	mode  v1alpha1.SplitMode
	// routed reports whether a domain or listener follows the group. Otherwise, the group has only
	// Services.
	routed bool
	// moves reports whether the group's routes target only the active release.
	moves bool
	// weights are the weights by release, which add up to 100; nil if no route is written.
	weights map[string]int
	// matched is the canary if it receives the requests that canaryMatches select, and mirrored is
	// the canary if it receives a copy of mirrorPercent of all requests. Each is set only if the
	// current step has match: true or mirrorPercent, respectively, and the canary has a ready endpoint.
	matched, mirrored string
	mirrorPercent     int32
	withheld          []string
	// awaited is the time until which the routes keep their revision, because withheld releases may
	// still get endpoints; zero if the routes are not waiting.
	awaited time.Time
	// delayed is the time until which a release that has just become ready is withheld; zero if
	// there is no such release.
	delayed time.Time
	pinned  []string
	// newest reports whether domains with groups.policy Newest route to this group.
	newest bool
	// absent reports whether the group must not be reachable. If so, its objects are deleted.
	absent bool
	// answers reports whether weights contain only releases to which the rollout state gives
	// traffic. Otherwise, weights are the last written weights, because no release that should
	// receive traffic has a ready endpoint.
	answers bool
	// reason and message explain why the group's revision cannot be confirmed, regardless of the status
	// of live objects.
	reason, message string
}

// unrouted returns the reason and message for a valid row that routes to the group but is not in any
// route.
func (g *groupDecision) unrouted() (reason, message string) {
	if g != nil && g.absent {
		return reasonNoActiveRelease, fmt.Sprintf("release group %q has no active release yet", g.group.Name)
	}
	if g != nil && g.reason != "" {
		return g.reason, g.message
	}
	return reasonNoReadyEndpoints, "no release that should receive this traffic has a ready endpoint"
}

// bySlug returns the group decisions by group slug.
func (d *Decision) bySlug() map[string]*groupDecision {
	out := map[string]*groupDecision{}
	for _, g := range d.groups {
		out[g.slug] = g
	}
	return out
}

// Reasons for the states of domains and groups, and for conditions.
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

// pathOfTLS replaces the path of a host that TLS listeners serve, because requests to these
// listeners have no path. It is not a valid path.
const pathOfTLS = "TLS"

// preview reports whether a row routes to a preview of a pull request.
func preview(r *DomainRow) bool { return r.group != nil && r.group.Level == v1alpha1.LevelPreview }

// samePath reports whether two paths are the same or one of them is empty: routes of some protocols
// have no path.
func samePath(a, b string) bool { return a == b || a == "" || b == "" }

// Applied is the result of writing the objects of a decision.
type Applied struct {
	// Changed contains the keys of the objects that this reconcile wrote. The observed state of
	// these objects is older than the write.
	Changed map[string]bool
	// Refused contains, by key, the errors for objects that could not be written, for example because
	// an object of another owner has the same name or because the API server rejected a value.
	Refused map[string]*status.Error
}

func (w Applied) touched(name string) bool { return w.Changed[name] || w.Refused[name] != nil }

// AppliedServiceKey returns the key of a Service in Applied.
func AppliedServiceKey(name string) string { return "Service/" + name }

// AppliedRouteKey returns the key of a route in Applied.
func AppliedRouteKey(name string) string { return "Route/" + name }

// services returns all Services to which a route refers.
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

// DomainRow is one rendered host, listener or user-managed route, with its target.
type DomainRow struct {
	// entry is the index in spec.domains or spec.listeners, and field is the path of that entry.
	entry int
	field string
	host  string
	path  string
	port  v1alpha1.NetworkPort
	// listener is the name of the entry in spec.listeners; empty if the row is not a listener.
	listener string
	// claim is the key that identifies the listener in claims, in place of a host.
	claim string
	// user is the name of the user-managed route whose rules the row represents; empty if the row does
	// not represent such rules.
	user string
	// parents are the parents that the entry sets.
	parents []providers.Parent
	// target identifies the target of the row: rows with the same target can share a route.
	target string
	// group is the group to which the row routes, or nil.
	group *v1alpha1.ReleaseGroup
	// pinned is the release of a row with a version, or the canary to which a canary row currently
	// routes.
	pinned string
	// awaited is the release of a row with a version if the row keeps its live target until this
	// release has a ready endpoint.
	awaited string
	// pin reports whether the row names a version, and canary reports whether the row routes to the
	// canary. Such rows do not follow the weights of a group.
	pin, canary bool
	// matches select requests for the canary.
	matches []v1alpha1.CanaryMatch
	// tls contains the TLS settings of the host, or is nil.
	tls *providers.TLS
	// recordTTL is the TTL of the host's DNS record, in seconds; 0 if not specified.
	recordTTL int32
	// shared reports whether the row can move between groups.
	shared bool
	// newest reports whether the row routes to the newest group. newer is the group to which the row
	// is moving in steps; nil if it is not moving.
	newest bool
	newer  *v1alpha1.ReleaseGroup
	// reason and message explain why a row is not routed or has an error.
	reason, message string
	// kept reports whether the row stays despite a problem: the specification no longer renders the
	// row, because the host name is invalid or the target does not exist; the target has no ready
	// endpoint yet; or it is unknown whether the host is allowed.
	kept bool
	// replaced reports whether the row keeps a live host in its route until another route has the host.
	// Such a row is not part of the specification.
	replaced bool
	// covered reports whether the same entry gives the host to another group. If so, the row's
	// group is treated as if no domain routed to it.
	covered bool
}

// routable reports whether the row belongs in a route.
func (r *DomainRow) routable() bool {
	return (r.host != "" || r.listener != "" || r.user != "") && (r.reason == "" || r.kept) && (r.group != nil || r.pinned != "")
}

// holds returns the host and path that no other policy may use; for a listener, it returns the
// claim of the listener instead of a host.
func (r *DomainRow) holds() (host, path string) {
	if r.listener != "" {
		return r.claim, ""
	}
	if r.port.Protocol == v1alpha1.ProtocolTLS {
		return r.host, pathOfTLS
	}
	return r.host, cmp.Or(r.path, "/")
}

// source returns the path of the field that defines the host, listener or route of the row.
func (r *DomainRow) source() string {
	if r.listener != "" || r.user != "" {
		return r.field
	}
	return r.field + ".domain"
}

func (r *DomainRow) fail(reason, message string) {
	if r.reason == "" {
		r.reason, r.message = reason, message
	}
}

// move identifies, by the slugs of the groups, a move of domains from one group to another.
type move struct{ from, to string }

// SharedKey returns the key, unique within a reconcile, of an object on which routes depend.
func SharedKey(o resources.Object) string {
	return o.GetObjectKind().GroupVersionKind().Kind + "/" + o.GetName()
}
