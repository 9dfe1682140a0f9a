// Package traffic decides the desired state of the routes and Services of a NetworkPolicy, and
// its status. It is pure: it has no client, clock or log. Plan returns the decision for the
// observed state, and Status the status for both and for what was applied. Its files, each of
// which refers only to those after it:
//
//	status.go          Status: the whole status of a policy
//	conditions.go      its conditions
//	status_groups.go   what it reports of release groups
//	status_domains.go  what it reports of domains, listeners and user-managed routes
//	programmed.go      whether gateways and Services carry out what was written, by group
//	reported.go        what the last status reported, and what routes are known to route to
//	plan.go            Plan: the whole decision
//	garbage.go         which objects are deleted, and when
//	providerswitch.go  routes of a previous provider
//	routes.go          the content of each route
//	services.go        Services of releases, those that follow a group, and the one of a user that is adopted
//	weights.go         the weights of the releases of a group
//	domains.go         domains, listeners and user-managed routes as rows
//	claims.go          which domain may have a host
//	tls.go             certificates and listeners of domains
//	route_names.go     which rows share a route, and its name
//	hosts.go           the hosts that domains render to
//	decision.go        Decision and Applied: what to write, and the results
//	groups.go          release groups of a Microservice, and the one that something shared routes to
//	observed.go        Observed: all facts on which a decision is based
package traffic

import (
	"slices"

	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// Plan returns the decision about the observed state. It is pure, and independent of the order in
// which objects were listed.
func Plan(f *Observed) *Decision {
	d := newPlanner(f)
	if f.Microservice == nil {
		return &Decision{DeleteRoutes: d.forbiddenRoutes()}
	}
	out := &Decision{rows: d.rows()}
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

// onlyLive reduces a decision on a policy that is being deleted to changes of existing objects.
// No object is created for it: in a foreground deletion it would be collected immediately. A
// release without a Service has no ready endpoint, and gets no traffic.
func (d *planner) onlyLive(out *Decision) {
	out.Services = slices.DeleteFunc(out.Services, func(s resources.Service) bool { return d.service(s.Name) == nil })
	out.Routes = slices.DeleteFunc(out.Routes, func(r *RouteDecision) bool { return d.Live[r.Name] == nil || d.Live[r.Name].Deleting })
	out.Shared = slices.DeleteFunc(out.Shared, func(s providers.Shared) bool {
		return !slices.ContainsFunc(d.Rest, func(o resources.Object) bool { return SharedKey(o) == SharedKey(s) })
	})
}
