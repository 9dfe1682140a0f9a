package networkpolicy

import (
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// decision is what a pass is to write, and what it says of groups and domains. It
// follows from facts alone.
type decision struct {
	// services in the order of writing: those of releases first.
	services []resources.Service
	// routes in the order of writing: those that gain hosts before those that lose
	// some.
	routes []*routeDecision
	// shared are the objects on which routes rest, such as Certificates, in the order of
	// writing, and deleteShared those that go.
	shared       []providers.Shared
	deleteShared []client.Object
	// former are the routes of providers that the policy has left: they lead to the same
	// as those above, until these have replaced them for the drain delay. Their objects are
	// those that change. Routes that stay until others have taken their place are here too.
	former []*routeDecision
	// replaced says that the present provider serves all that former ones serve, and waits
	// what keeps it from that.
	replaced bool
	waits    string
	// deleteRoutes and deleteServices by name: live routes, and Services, which are
	// deleted last.
	deleteRoutes   []string
	deleteServices []string
	// held are live routes that stay because what a row asks for in their place cannot be
	// routed, by name.
	held   map[string]*row
	groups []*groupDecision
	rows   []*row
	// adoption is nil where the policy adopts no Service.
	adoption *adoption
	// moves are the splits between a group and the newer one to which domains are on
	// their way, by both.
	moves map[move]*groupDecision
}

// routeDecision is one route.
type routeDecision struct {
	providers.Route
	// slug of the group whose releases are behind.
	slug string
	// answers says that it carries what the ledger asks for.
	answers bool
	// objects as they are applied, in the order of writing.
	objects []client.Object
	rows    []*row
}

// groupDecision is what the routes and Services of a group are to carry.
type groupDecision struct {
	group *v1alpha1.ReleaseGroup
	slug  string
	mode  v1alpha1.SplitMode
	// routed says that a domain or listener follows the group: it has more than Services.
	routed bool
	// moves says that what routes it has lead to the active release alone.
	moves bool
	// weights by release, adding up to 100; nil where nothing is to be written.
	weights map[string]int
	// matched gets the requests that canaryMatches choose, and mirrored a copy of
	// mirrorPercent of all: the canary, where its step asks for it and it has a ready
	// endpoint; else "".
	matched, mirrored string
	mirrorPercent     int32
	masked            []string
	pinned            []string
	// newest says that domains which lead to the newest group lead to this one.
	newest bool
	// absent says that nothing of the group is to be reached: what was written for it goes.
	absent bool
	// true where weights name only releases that the ledger gives traffic: then
	// they answer its revision. Otherwise they are what was written last, because
	// nothing that should serve has a ready endpoint.
	answers bool
	// reason and message why the group cannot be confirmed, apart from what live
	// objects say.
	reason, message string
}

type decider struct {
	*facts
	ledger ledger
	// releases by name of the Service that leads to them.
	releases map[string]string
}

// decide is pure, and the same for any order in which objects were listed.
func decide(f *facts) *decision {
	d := newDecider(f)
	if f.microservice == nil {
		return &decision{deleteRoutes: d.forbiddenRoutes()}
	}
	out := &decision{rows: d.rows()}
	for _, g := range d.ledger.groups {
		out.groups = append(out.groups, d.group(g, out.rows))
	}
	d.addMoves(out)
	d.addServices(out)
	d.addAdopted(out)
	d.addRoutes(out)
	d.obsolete(out)
	d.addShared(out)
	if f.policy.DeletionTimestamp != nil {
		d.onlyLive(out)
	}
	return out
}

func newDecider(f *facts) *decider {
	d := &decider{facts: f, ledger: readLedger(f.microservice), releases: map[string]string{}}
	for name := range d.ledger.rows {
		d.releases[f.releaseService(name)] = name
	}
	for name, s := range f.services {
		if ofRelease(s) {
			d.releases[name] = s.Spec.Selector[v1alpha1.LabelRelease]
		}
	}
	if orphans(f.policy) && f.microservice != nil {
		d.ledger = readLedger(d.settled(f.microservice))
	}
	return d
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// versionOf is the version of a release for people, its name where the ledger no
// longer knows it.
func (l ledger) versionOf(release string) string {
	if r := l.rows[release]; r != nil {
		return r.SemVer.Version
	}
	return release
}
