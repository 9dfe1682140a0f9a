// Package traffic determines the desired state of a NetworkPolicy's routes and Services, and the
// policy's status. The package is pure: it has no client, clock or log. Plan returns the decision
// for the observed state. Status returns the status for the observed state, the decision and the
// results of the writes. The files of the package refer only to files further down in this list:
//
//	status.go          Status: the whole status of a policy
//	conditions.go      the conditions in the status
//	status_groups.go   the status of release groups
//	status_domains.go  the status of domains, listeners and user-managed routes
//	programmed.go      whether the routes and Services of a group are programmed; the providers decide about each route
//	reported.go        the last reported status, and the known targets of routes
//	plan.go            Plan: the whole decision
//	garbage.go         which objects are deleted, and when
//	providerswitch.go  routes of a previous provider
//	routes.go          the content of each route, and hosts that stay in it until other routes have them
//	services.go        Services of releases, Services that follow a group, and adopted Services
//	weights.go         the weights of a group's releases; internal/split decides from which releases weight is withheld
//	domain_rows.go     domains, listeners and user-managed routes as rows
//	claims.go          claims of domains to hosts and paths, the keys by which they are found, hosts that internal/allowedhosts refuses, and hosts that keep a live route
//	tls.go             certificates and listeners of domains
//	route_names.go     assignment of rows to routes, and the names of routes
//	hosts.go           the host of a domain for each group, such as a preview
//	decision.go        Decision and Applied: the objects to write, and the results of the writes
//	groups.go          release groups of a Microservice, and the groups to which shared domains route
//	observed.go        Observed: all facts on which a decision is based
package traffic

import (
	"slices"

	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// Plan returns the decision about the observed state. It is pure, and does not depend on the order
// in which objects were listed.
func Plan(f *Observed) *Decision {
	d := newPlanner(f)
	if f.Microservice == nil {
		return &Decision{DeleteRoutes: d.forbiddenRoutes()}
	}
	out := &Decision{rows: d.rows(), held: map[string]*DomainRow{}}
	d.keepUnready(out.rows)
	for _, g := range d.rollout.groups {
		out.groups = append(out.groups, d.group(g, out.rows))
	}
	d.addMoves(out)
	d.addServices(out)
	d.addAdopted(out)
	d.addRoutes(out)
	d.addPrevious(out, out.bySlug())
	d.obsolete(out)
	d.addShared(out)
	if f.Policy.DeletionTimestamp != nil {
		d.onlyLive(out)
	}
	return out
}

// onlyLive limits the decision about a policy that is being deleted to changes to existing objects.
// The decision must not create objects, because a foreground deletion would delete them
// immediately. A release whose Service is not created for this reason gets no traffic, because it
// has no ready endpoint.
func (d *planner) onlyLive(out *Decision) {
	out.Services = slices.DeleteFunc(out.Services, func(s resources.Service) bool { return d.service(s.Name) == nil })
	out.Routes = slices.DeleteFunc(out.Routes, func(r *RouteDecision) bool { return d.Live[r.Name] == nil || d.Live[r.Name].Deleting })
	out.Shared = slices.DeleteFunc(out.Shared, func(s providers.Shared) bool {
		return !slices.ContainsFunc(d.Rest, func(o resources.Object) bool { return SharedKey(o) == SharedKey(s) })
	})
}
