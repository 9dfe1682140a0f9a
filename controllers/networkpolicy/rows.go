package networkpolicy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	gatewayapi "github.com/heighliner/heighliner/controllers/networkpolicy/providers/gateway"
	"github.com/heighliner/heighliner/internal/version"
)

// row is one rendered host, or one listener, and what it leads to.
type row struct {
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
	// user is the route of somebody else whose rules the row is; "": none.
	user string
	// parents that the entry names for itself.
	parents []providers.Parent
	// target tells which rows may share a route: those that lead to the same thing
	// now and always.
	target string
	// group that the row leads to; nil where there is none.
	group *v1alpha1.ReleaseGroup
	// pinned is the release of a row with a version, or the canary that a row for the
	// canary leads to now.
	pinned string
	// pin rows name a version, and canary rows the canary: neither follows the weights of
	// a group.
	pin, canary bool
	// matches choose requests for the canary.
	matches []v1alpha1.CanaryMatch
	// tls of the host; nil: none is asked for.
	tls *providers.TLS
	// recordTTL of the DNS record of the host, in seconds; 0: not said.
	recordTTL int32
	// shared rows move between groups.
	shared bool
	// newest rows lead to the newest group, and newer is the group to which they are on
	// their way by steps; nil: none.
	newest bool
	newer  *v1alpha1.ReleaseGroup
	// reason and message why the row is not routed, or what is wrong with it.
	reason, message string
	// kept rows are live although the specification no longer gives them, because
	// what it gives instead is no host, or leads to nothing that is there, or although
	// nobody can say whether they may be.
	kept bool
	// covered rows are in conflict with the same entry for another group, which has their
	// host: it is none of their group then, as if no domain followed that.
	covered bool
}

// routable says whether a route is to carry the row.
func (r *row) routable() bool {
	return (r.host != "" || r.listener != "" || r.user != "") && (r.reason == "" || r.kept) && (r.group != nil || r.pinned != "")
}

// holds is the host and path that nobody else may have; the listener, where there is no
// host.
func (r *row) holds() (host, path string) {
	if r.listener != "" {
		return r.claim, ""
	}
	if r.port.Protocol == v1alpha1.ProtocolTLS {
		return r.host, pathOfTLS
	}
	return r.host, cmp.Or(r.path, "/")
}

// source is the field that says what the row leads to.
func (r *row) source() string {
	if r.listener != "" || r.user != "" {
		return r.field
	}
	return r.field + ".domain"
}

// rows renders the domains of the specification, in order, newest group first.
func (d *decider) rows() []*row {
	if ref := gatewayapi.UserRef(d.policy); ref != nil {
		return []*row{d.userRow(ref)}
	}
	if !routed(d.policy) {
		return nil
	}
	var rows []*row
	for i, entry := range d.policy.Spec.Domains {
		rows = append(rows, d.entryRows(i, entry)...)
	}
	d.judgeHosts(rows)
	rows = d.fit(rows)
	for i, entry := range d.policy.Spec.Listeners {
		rows = append(rows, d.listenerRow(i, entry))
	}
	d.keepInvalid(rows)
	d.keepUnled(rows)
	d.settleClaims(rows)
	settleTLS(rows)
	d.keepSecrets(rows)
	return rows
}

// fit leaves as many rows as a status holds. Previews go first, and of these, as of the
// others, those whose host no live route has, the last ones first: what is served is not
// taken away for what is new, and nothing but a preview for a preview. One row of those that
// go stays to tell of it.
func (d *decider) fit(rows []*row) []*row {
	if len(rows) <= maxRows {
		return rows
	}
	carried := map[string]bool{}
	for _, route := range d.live {
		for _, host := range route.Hostnames {
			carried[host] = true
		}
	}
	rank := func(r *row) int {
		switch {
		case preview(r) && !carried[r.host]:
			return 3
		case preview(r):
			return 2
		case !carried[r.host]:
			return 1
		}
		return 0
	}
	order := slices.Clone(rows)
	slices.SortStableFunc(order, func(a, b *row) int { return cmp.Compare(rank(a), rank(b)) })
	cut := order[maxRows-1:]
	var some []string
	gone := map[*row]bool{}
	for i, r := range cut {
		gone[r] = i > 0
		if i < 3 {
			some = append(some, fmt.Sprintf("%q of %s", cmp.Or(r.host, d.policy.Spec.Domains[r.entry].Domain), r.field))
		}
	}
	if more := len(cut) - len(some); more > 0 {
		some = append(some, fmt.Sprintf("%d more", more))
	}
	told := cut[0]
	told.group, told.pinned, told.kept = nil, "", false
	told.reason = reasonTooManyDomains
	told.message = fmt.Sprintf("spec.domains render to %d hosts, and %d are the most with one to tell of the rest: %s have no route: remove entries, or name groups", len(rows), maxRows, strings.Join(some, ", "))
	return slices.DeleteFunc(rows, func(r *row) bool { return gone[r] })
}

// userRow is the row of the rules in a route of somebody else. Nothing is written to a
// route that the status does not name yet: else a change of the specification could make
// it one that nobody remembers.
func (d *decider) userRow(ref *v1alpha1.RouteReference) *row {
	r := row{field: "spec.provider.routeRef", user: providers.UserRoute(ref.Kind, ref.Name), port: d.policy.Spec.Ports[0]}
	if ref.Port != "" {
		r.port = d.portOf(ref.Port)
	}
	as := v1alpha1.Domain{Groups: ref.Groups, Release: ref.Release}
	out := &r
	if ref.Release != nil {
		out = d.pinRow(r, as)
	} else {
		out = d.groupRows(r, as)[0]
	}
	if missing := d.view.Missing(out.port.Protocol); missing != nil {
		out.fail(missing.Reason, missing.Message)
	}
	if problem := d.view.Unsupported(providers.Route{}); problem != nil {
		out.fail(problem.Reason, out.field+"."+problem.Message)
	}
	if !slices.ContainsFunc(d.policy.Status.Routes, func(s v1alpha1.RouteStatus) bool { return providers.UserRoute(s.Kind, s.Name) == r.user }) {
		out.fail(reasonPending, fmt.Sprintf("%s: the route is being noted in the status", r.field))
	}
	if live := d.live[r.user]; d.policy.DeletionTimestamp != nil && (live == nil || live.Led == nil) {
		out.fail(reasonPending, fmt.Sprintf("%s: the rules have been given back", r.field))
	}
	return out
}

// listenerRow is the row of a listener: that of a domain without a host.
func (d *decider) listenerRow(i int, entry v1alpha1.Listener) *row {
	r := row{
		entry: i, field: fmt.Sprintf("spec.listeners[%d]", i), listener: entry.Name, claim: listenerHost(d.policy, entry),
		port: d.portOf(entry.Port), parents: []providers.Parent{providers.ListenerParent(d.policy, i)},
	}
	out := d.releaseRows(r, v1alpha1.Domain{Groups: entry.Groups, Release: entry.Release})[0]
	// One name for all that it leads to: two routes on one listener would be in each
	// other's way.
	out.target = "listener/" + entry.Name
	if p := out.port.Protocol; p != v1alpha1.ProtocolTCP && p != v1alpha1.ProtocolUDP {
		out.fail(reasonNotRoutable, fmt.Sprintf("%s.port %q has no protocol TCP or UDP: route it by spec.domains", out.field, out.port.Name))
	}
	if missing := d.view.Missing(out.port.Protocol); missing != nil {
		out.fail(missing.Reason, missing.Message)
	}
	return out
}

func (d *decider) entryRows(i int, entry v1alpha1.Domain) []*row {
	base := row{
		entry: i, field: fmt.Sprintf("spec.domains[%d]", i), path: entry.Path, port: d.portOf(entry.Port),
		matches: entry.CanaryMatches, parents: providers.DomainParents(d.policy, i), recordTTL: entry.RecordTTLSeconds,
	}
	if p := base.port.Protocol; base.path == "" && (p == "" || p == v1alpha1.ProtocolHTTP || p == v1alpha1.ProtocolHTTPS) {
		base.path = "/"
	}
	rows := d.releaseRows(base, entry)
	if p := base.port.Protocol; p == v1alpha1.ProtocolTCP || p == v1alpha1.ProtocolUDP {
		for _, r := range rows {
			r.fail(reasonNotRoutable, fmt.Sprintf("%s.port %q has protocol %s, which has no hosts: route it by spec.listeners", base.field, base.port.Name, p))
		}
	}
	if missing := d.view.Missing(base.port.Protocol); missing != nil {
		for _, r := range rows {
			r.fail(missing.Reason, missing.Message)
		}
	}
	return rows
}

func (r *row) fail(reason, message string) {
	if r.reason == "" {
		r.reason, r.message = reason, message
	}
}

func (d *decider) portOf(name string) v1alpha1.NetworkPort {
	for _, p := range d.policy.Spec.Ports {
		if p.Name == name {
			return p
		}
	}
	return d.policy.Spec.Ports[0]
}

// releaseRows are the rows of a domain: one for its version, or those of groups, or of
// their canaries.
func (d *decider) releaseRows(base row, entry v1alpha1.Domain) []*row {
	if entry.Release == nil {
		return d.groupRows(base, entry)
	}
	if entry.Release.Status == "" {
		return []*row{d.pinRow(base, entry)}
	}
	rows := d.groupRows(base, entry)
	for _, r := range rows {
		d.leadToCanary(r, entry.Release.WhenAbsent)
	}
	return rows
}

// leadToCanary turns the row of a group into one of its canary: while there is one that
// has a ready endpoint it gets all, whatever its weight. So does a release from the moment
// on in which hooks are to try it, before it is the canary.
func (d *decider) leadToCanary(r *row, absent v1alpha1.WhenAbsent) {
	absent = cmp.Or(absent, v1alpha1.AbsentActive)
	r.canary, r.target = true, fmt.Sprintf("canary/%s/%s", absent, r.target)
	if r.group == nil {
		return
	}
	if r.newest && r.newer == nil {
		r.newer = d.tried(r.group)
	}
	for _, g := range []*v1alpha1.ReleaseGroup{r.newer, r.group} {
		if g == nil {
			continue
		}
		if x := triable(g); x != nil && d.ready(x.VersionedMicroservice) {
			r.pinned = x.VersionedMicroservice
			return
		}
	}
	if absent == v1alpha1.AbsentNotFound {
		r.fail(reasonNoCanary, fmt.Sprintf("release group %q has no canary with a ready endpoint: there is no route until it has one", r.group.Name))
	}
}

// tried is the group above base whose first release hooks are to try, before newest domains
// are on their way to it; nil: there is none.
func (d *decider) tried(base *v1alpha1.ReleaseGroup) *v1alpha1.ReleaseGroup {
	if orphans(d.policy) || activeOf(base) == nil || base.Level == v1alpha1.LevelPreview {
		return nil
	}
	for _, g := range d.liveGroups() {
		if g == base {
			return nil
		}
		if g.Level != v1alpha1.LevelPreview && activeOf(g) == nil && triable(g) != nil {
			return g
		}
	}
	return nil
}

// groupRows are the rows of a domain that leads to groups.
func (d *decider) groupRows(base row, entry v1alpha1.Domain) []*row {
	policy := groupsPolicy(entry)
	candidates := d.liveGroups()
	var names []string
	if policy == v1alpha1.GroupsNamed && entry.Groups != nil {
		names = entry.Groups.Names
		candidates = named(candidates, names)
	}
	if policy == v1alpha1.GroupsEach || policy == v1alpha1.GroupsNamed && templated(entry.Domain) {
		rows := make([]*row, 0, len(candidates))
		for _, g := range candidates {
			r := base
			r.target, r.group = "group/"+g.Slug, g
			if r = d.renderRow(r, entry); r.host != "" || r.reason == reasonInvalidDomain {
				rows = append(rows, &r)
			}
		}
		missing := d.missingGroups(base, entry, names)
		return slices.Concat(rows, d.unnamed(base, entry, candidates, missing), missing)
	}
	r := base
	r.shared, r.target = true, "newest"
	if policy == v1alpha1.GroupsNamed {
		r.target = "named/" + strings.Join(names, ",")
	}
	r.group = d.choose(candidates, d.carriedBy(r, entry))
	if r.newest = policy == v1alpha1.GroupsNewest && !templated(entry.Domain); r.newest {
		r.newer = d.comer(r.group)
	}
	if r.group == nil && templated(entry.Domain) {
		return d.missingGroups(base, entry, names)
	}
	r = d.renderRow(r, entry)
	if r.group == nil {
		r.fail(reasonNoActiveRelease, "there is no release group yet that it could lead to")
		if policy == v1alpha1.GroupsNamed {
			r.reason = reasonGroupNotFound
			r.message = fmt.Sprintf("%s.groups.names: none of %q is a release group of Microservice %q", base.field, names, microserviceName(d.policy))
		}
	}
	return []*row{&r}
}

// renderRow fills in the host of a row.
func (d *decider) renderRow(r row, entry v1alpha1.Domain) row {
	if r.group != nil && activeOf(r.group) == nil && strings.Contains(entry.Domain, ".Version") {
		return r // There is no version to name yet.
	}
	if r.listener != "" || r.user != "" {
		return r
	}
	host, err := render(entry.Domain, d.policy, r.group)
	if err != nil {
		mend := "write a host name"
		if templated(entry.Domain) {
			mend = "use {{.ReleaseGroupName}}, which always is a DNS label, or shorten the rest"
		}
		r.fail(reasonInvalidDomain, fmt.Sprintf("%s.domain: %v: %s", r.field, err, mend))
		return r
	}
	r.host, r.tls = host, d.askedTLS(entry.TLS, r.group)
	if r.group != nil && activeOf(r.group) == nil {
		// Not a failure of the row: what is live for the group stays.
		r.message = fmt.Sprintf("release group %q has no active release yet", r.group.Name)
	}
	return r
}

// missingGroups are rows for names that no group has.
func (d *decider) missingGroups(base row, entry v1alpha1.Domain, names []string) []*row {
	var rows []*row
	for _, name := range names {
		if len(named(d.liveGroups(), []string{name})) > 0 {
			continue
		}
		r := base
		r.fail(reasonGroupNotFound, fmt.Sprintf("%s.groups.names: %q is no release group of Microservice %q", base.field, name, microserviceName(d.policy)))
		rows = append(rows, &r)
	}
	return rows
}

// unnamed are rows of the groups that a domain with a template has led to, and that are not
// named: they stay while a name fits no group, because it may be theirs.
func (d *decider) unnamed(base row, entry v1alpha1.Domain, candidates []*v1alpha1.ReleaseGroup, missing []*row) (rows []*row) {
	if len(missing) == 0 {
		return nil
	}
	for _, g := range d.liveGroups() {
		r := base
		r.target, r.group, r.kept = "group/"+g.Slug, g, true
		if r = d.renderRow(r, entry); r.reason != "" || slices.Contains(candidates, g) || r.host == "" || d.hostGroup(r.host, r.path) != g.Slug {
			continue
		}
		r.fail(missing[0].reason, missing[0].message)
		rows = append(rows, &r)
	}
	return rows
}

// keepUnled keeps live what a domain or listener has led to, while what it is to lead to
// instead is not there: its group, or the release of its version. A pin stays to what a pin
// may serve.
func (d *decider) keepUnled(rows []*row) {
	for _, r := range rows {
		if r.host == "" && r.listener == "" || r.group != nil || r.reason != reasonGroupNotFound && r.reason != reasonPinnedUnavailable {
			continue
		}
		for _, name := range sortedKeys(d.live) {
			route := d.live[name]
			g := d.ledger.bySlug[route.Group()]
			if route.Leaving || g == nil || !live(g) || !d.serves(route, r) {
				continue
			}
			if route.Pinned() {
				i := slices.IndexFunc(g.Releases, func(x v1alpha1.Release) bool {
					return servable(&x) && d.backendsOf(route)[x.VersionedMicroservice] > 0
				})
				if i < 0 {
					continue
				}
				r.pin, r.pinned = true, g.Releases[i].VersionedMicroservice
			} else {
				r.pin = false
			}
			r.group, r.kept = g, true
			break
		}
	}
}

// servable says whether a pin may lead to a release (rule 33).
func servable(r *v1alpha1.Release) bool {
	return r.Status == v1alpha1.ReleaseActive || r.Status == v1alpha1.ReleaseCanary || r.Status == v1alpha1.ReleaseDeprecated && r.Promoted > 0
}

// pinRow is the row of a domain with a version (rule 33): it leads to a release
// that is active, canary or kept, and never deploys one.
func (d *decider) pinRow(base row, entry v1alpha1.Domain) *row {
	r := base
	r.pin, r.target = true, "version/"+entry.Release.Version
	r.group, r.pinned = d.pinned(entry.Release.Version)
	if r.pinned == "" {
		if r.listener == "" && r.user == "" {
			r.host, _ = render(entry.Domain, d.policy, nil)
		}
		r.fail(reasonPinnedUnavailable, fmt.Sprintf("%s.release.version: no release of version %q is active, canary or kept: name one that is, or wait until it is deployed", r.field, entry.Release.Version))
		return &r
	}
	r = d.renderRow(r, entry)
	if r.reason == "" {
		r.message = ""
	}
	return &r
}

// pinned finds the release that a pin serves, which may be written like the tag of a version:
// the active one, else a canary, else the one that was active last; the newest group first.
func (d *decider) pinned(pin string) (*v1alpha1.ReleaseGroup, string) {
	var best *v1alpha1.Release
	rank := func(r *v1alpha1.Release) int64 {
		switch {
		case r.Status == v1alpha1.ReleaseActive:
			return 1 << 62
		case r.Status == v1alpha1.ReleaseCanary:
			return 1 << 61
		case r.Status == v1alpha1.ReleaseDeprecated && r.Promoted > 0:
			return r.Promoted
		}
		return 0
	}
	for _, g := range d.liveGroups() {
		for i := range g.Releases {
			r := &g.Releases[i]
			if version.Names(pin, r.SemVer.Version) && rank(r) > 0 && (best == nil || rank(r) > rank(best)) {
				best = r
			}
		}
		if best != nil {
			return g, best.VersionedMicroservice
		}
	}
	return nil, ""
}

// keepInvalid keeps live what a domain that renders to no host name has led to
// until now, if it may have it: bad input takes nothing away.
func (d *decider) keepInvalid(rows []*row) {
	wanted := map[string]bool{}
	for _, r := range rows {
		wanted[r.host+r.path] = true
	}
	for _, r := range rows {
		if r.reason != reasonInvalidDomain || r.group == nil {
			continue
		}
		for _, name := range sortedKeys(d.live) {
			route := d.live[name]
			if route.Leaving || route.Path != r.path || route.Group() != r.group.Slug {
				continue
			}
			for _, host := range route.Hostnames {
				if !wanted[host+r.path] && !r.kept && d.owned.refuses(d.policy.Spec.Domains[r.entry].Domain, host) == nil {
					r.host, r.kept = host, true
					wanted[host+r.path] = true
				}
			}
		}
	}
}
