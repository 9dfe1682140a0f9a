package traffic

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	gatewayapi "github.com/heighliner/heighliner/controllers/networkpolicy/providers/gateway"
)

// rows returns the rows of the specification. These are either the rows of the domains, in order,
// followed by the rows of the listeners, or only the row of the user-managed route. The rows of
// each domain begin with the newest group.
func (d *planner) rows() []*DomainRow {
	if ref := gatewayapi.UserRef(d.Policy); ref != nil {
		return []*DomainRow{d.userRow(ref)}
	}
	if !routed(d.Policy) {
		return nil
	}
	var rows []*DomainRow
	for i, entry := range d.Policy.Spec.Domains {
		rows = append(rows, d.entryRows(i, entry)...)
	}
	d.checkHosts(rows)
	rows = d.fit(rows)
	for i, entry := range d.Policy.Spec.Listeners {
		rows = append(rows, d.listenerRow(i, entry))
	}
	d.keepInvalid(rows)
	d.keepUnresolved(rows)
	d.settleClaims(rows)
	settleTLS(rows)
	d.keepSecrets(rows)
	return rows
}

// fit limits the number of rows to the maximum that a status can contain. It drops rows of previews
// before other rows. Within each of these two sets of rows, it drops rows with new hosts (hosts
// that no live route has) before rows with served hosts, and later rows before earlier rows.
// Therefore, a new host does not replace a served host, unless the served host belongs to a preview
// and the new host does not. Of the remaining rows, the row that would be dropped next loses
// its target, and reports the dropped rows instead.
func (d *planner) fit(rows []*DomainRow) []*DomainRow {
	if len(rows) <= maxRows {
		return rows
	}
	routed := map[string]bool{}
	for _, route := range d.Live {
		for _, host := range route.Hostnames {
			routed[host] = true
		}
	}
	rank := func(r *DomainRow) int {
		switch {
		case preview(r) && !routed[r.host]:
			return 3
		case preview(r):
			return 2
		case !routed[r.host]:
			return 1
		}
		return 0
	}
	order := slices.Clone(rows)
	slices.SortStableFunc(order, func(a, b *DomainRow) int { return cmp.Compare(rank(a), rank(b)) })
	cut := order[maxRows-1:]
	var some []string
	gone := map[*DomainRow]bool{}
	for i, r := range cut {
		gone[r] = i > 0
		if i < 3 {
			some = append(some, fmt.Sprintf("%q of %s", cmp.Or(r.host, d.Policy.Spec.Domains[r.entry].Domain), r.field))
		}
	}
	if more := len(cut) - len(some); more > 0 {
		some = append(some, fmt.Sprintf("%d more", more))
	}
	note := cut[0]
	note.group, note.pinned, note.kept = nil, "", false
	note.reason = reasonTooManyDomains
	note.message = fmt.Sprintf("spec.domains expands to %d hosts, but the status can contain at most %d entries, one of which reports the other hosts: %s have no route: remove domains, or list fewer groups in groups.names", len(rows), maxRows, strings.Join(some, ", "))
	return slices.DeleteFunc(rows, func(r *DomainRow) bool { return gone[r] })
}

// userRow returns the row for the rules in a user-managed route. The controller does not write to a
// route before the status lists the route: otherwise, after a change to the specification, there
// would be no record of the route.
func (d *planner) userRow(ref *v1alpha1.RouteReference) *DomainRow {
	r := DomainRow{field: "spec.provider.routeRef", user: providers.UserRoute(ref.Kind, ref.Name), port: d.Policy.Spec.Ports[0]}
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
	if missing := d.View.Missing(out.port.Protocol); missing != nil {
		out.fail(missing.Reason, missing.Message)
	}
	if problem := d.View.Unsupported(providers.Route{}); problem != nil {
		out.fail(problem.Reason, out.field+"."+problem.Message)
	}
	if !slices.ContainsFunc(d.Policy.Status.Routes, func(s v1alpha1.RouteStatus) bool { return providers.UserRoute(s.Kind, s.Name) == r.user }) {
		out.fail(ReasonPending, fmt.Sprintf("%s: the route is being recorded in the status", r.field))
	}
	if live := d.Live[r.user]; d.Policy.DeletionTimestamp != nil && (live == nil || live.Managed == nil) {
		out.fail(ReasonPending, fmt.Sprintf("%s: the rules have been restored", r.field))
	}
	return out
}

// listenerRow returns the row of a listener. A listener is like a domain without a host.
func (d *planner) listenerRow(i int, entry v1alpha1.Listener) *DomainRow {
	r := DomainRow{
		entry: i, field: fmt.Sprintf("spec.listeners[%d]", i), listener: entry.Name, claim: ListenerHost(d.Policy, entry),
		port: d.portOf(entry.Port), parents: []providers.Parent{providers.ListenerParent(d.Policy, i)},
	}
	out := d.releaseRows(r, v1alpha1.Domain{Groups: entry.Groups, Release: entry.Release})[0]
	// The route has the same name for all targets, because two routes on one listener would conflict.
	out.target = "listener/" + entry.Name
	if p := out.port.Protocol; p != v1alpha1.ProtocolTCP && p != v1alpha1.ProtocolUDP {
		out.fail(reasonNotRoutable, fmt.Sprintf("the protocol of %s.port %q is neither TCP nor UDP: route the port in spec.domains", out.field, out.port.Name))
	}
	if missing := d.View.Missing(out.port.Protocol); missing != nil {
		out.fail(missing.Reason, missing.Message)
	}
	return out
}

func (d *planner) entryRows(i int, entry v1alpha1.Domain) []*DomainRow {
	base := DomainRow{
		entry: i, field: fmt.Sprintf("spec.domains[%d]", i), path: entry.Path, port: d.portOf(entry.Port),
		matches: entry.CanaryMatches, parents: providers.DomainParents(d.Policy, i), recordTTL: entry.RecordTTLSeconds,
	}
	if p := base.port.Protocol; base.path == "" && (p == "" || p == v1alpha1.ProtocolHTTP || p == v1alpha1.ProtocolHTTPS) {
		base.path = "/"
	}
	rows := d.releaseRows(base, entry)
	if p := base.port.Protocol; p == v1alpha1.ProtocolTCP || p == v1alpha1.ProtocolUDP {
		for _, r := range rows {
			r.fail(reasonNotRoutable, fmt.Sprintf("the protocol of %s.port %q is %s, which has no hosts: route the port in spec.listeners", base.field, base.port.Name, p))
		}
	}
	if missing := d.View.Missing(base.port.Protocol); missing != nil {
		for _, r := range rows {
			r.fail(missing.Reason, missing.Message)
		}
	}
	return rows
}

func (d *planner) portOf(name string) v1alpha1.NetworkPort {
	for _, p := range d.Policy.Spec.Ports {
		if p.Name == name {
			return p
		}
	}
	return d.Policy.Spec.Ports[0]
}

// releaseRows returns the rows of a domain: one row if the domain names a version, otherwise the
// rows of groups or of their canaries.
func (d *planner) releaseRows(base DomainRow, entry v1alpha1.Domain) []*DomainRow {
	if entry.Release == nil {
		return d.groupRows(base, entry)
	}
	if entry.Release.Status == "" {
		return []*DomainRow{d.pinRow(base, entry)}
	}
	rows := d.groupRows(base, entry)
	for _, r := range rows {
		d.routeToCanary(r, entry.Release.WhenAbsent)
		d.freeze(r)
	}
	return rows
}

// routeToCanary changes the row of a group into a row for its canary. The canary gets all of the
// row's traffic, regardless of the canary's weight, while the canary has a ready endpoint. The same
// applies to a release that PreRollout hooks test before it becomes the canary.
func (d *planner) routeToCanary(r *DomainRow, absent v1alpha1.WhenAbsent) {
	absent = cmp.Or(absent, v1alpha1.AbsentActive)
	r.canary, r.target = true, fmt.Sprintf("canary/%s/%s", absent, r.target)
	if r.group == nil {
		return
	}
	if r.newest {
		r.newer = d.incomingUntested(r.group)
	}
	for _, g := range []*v1alpha1.ReleaseGroup{r.newer, r.group} {
		if g == nil {
			continue
		}
		if x := testable(g); x != nil && d.ready(x.VersionedMicroservice) && d.firstTrafficAt(x.VersionedMicroservice).IsZero() {
			r.pinned = x.VersionedMicroservice
			return
		}
	}
	if absent == v1alpha1.AbsentNotFound {
		r.fail(reasonNoCanary, fmt.Sprintf("release group %q has no canary with a ready endpoint, so there is no route yet", r.group.Name))
	}
}

// groupRows returns the rows of a domain that routes to groups.
func (d *planner) groupRows(base DomainRow, entry v1alpha1.Domain) []*DomainRow {
	policy := groupsPolicy(entry)
	candidates := d.liveGroups()
	var names []string
	if policy == v1alpha1.GroupsNamed && entry.Groups != nil {
		names = entry.Groups.Names
		candidates = named(candidates, names)
	}
	if policy == v1alpha1.GroupsEach || policy == v1alpha1.GroupsNamed && templated(entry.Domain) {
		rows := make([]*DomainRow, 0, len(candidates))
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
	r.group = d.choose(candidates, d.currentGroup(r, entry))
	if r.newest = policy == v1alpha1.GroupsNewest && !templated(entry.Domain); r.newest {
		r.newer = d.incoming(r.group)
	}
	if r.group == nil && templated(entry.Domain) {
		return d.missingGroups(base, entry, names)
	}
	r = d.renderRow(r, entry)
	if r.group == nil {
		r.fail(reasonNoActiveRelease, "there is no release group to route to yet")
		if policy == v1alpha1.GroupsNamed {
			r.reason = reasonGroupNotFound
			r.message = fmt.Sprintf("%s.groups.names: none of %q is a release group of Microservice %q", base.field, names, d.Policy.MicroserviceName())
		}
	}
	return []*DomainRow{&r}
}

// renderRow sets the host of a row.
func (d *planner) renderRow(r DomainRow, entry v1alpha1.Domain) DomainRow {
	if r.group != nil && r.group.ActiveRelease() == nil && strings.Contains(entry.Domain, ".Version") {
		return r // The version is not known yet.
	}
	if r.listener != "" || r.user != "" {
		return r
	}
	host, err := render(entry.Domain, d.Policy, r.group)
	if err != nil {
		fix := "use a valid host name"
		if templated(entry.Domain) {
			fix = "use {{.ReleaseGroupName}}, which is always a DNS label, or shorten the rest of the domain"
		}
		r.fail(reasonInvalidDomain, fmt.Sprintf("%s.domain: %v: %s", r.field, err, fix))
		return r
	}
	r.host, r.tls = host, d.askedTLS(entry.TLS, r.group)
	if r.group != nil && r.group.ActiveRelease() == nil {
		// A missing active release is not a failure of the row: the live route of the group stays.
		r.message = fmt.Sprintf("release group %q has no active release yet", r.group.Name)
	}
	return r
}

// missingGroups returns a row with an error for each name that no group has.
func (d *planner) missingGroups(base DomainRow, _ v1alpha1.Domain, names []string) []*DomainRow {
	var rows []*DomainRow
	for _, name := range names {
		if len(named(d.liveGroups(), []string{name})) > 0 {
			continue
		}
		r := base
		r.fail(reasonGroupNotFound, fmt.Sprintf("%s.groups.names: %q is not a release group of Microservice %q", base.field, name, d.Policy.MicroserviceName()))
		rows = append(rows, &r)
	}
	return rows
}

// unnamed returns rows for groups to which a templated domain still routes although the domain does
// not name them. These rows stay while one of the names matches no group, because that name may be
// meant for one of these groups.
func (d *planner) unnamed(base DomainRow, entry v1alpha1.Domain, candidates []*v1alpha1.ReleaseGroup, missing []*DomainRow) (rows []*DomainRow) {
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

// keepUnresolved keeps the live target of a domain or listener while its new target (a group, or
// the release of a version) does not exist, or while a freeze prevents the use of the new target.
func (d *planner) keepUnresolved(rows []*DomainRow) {
	for _, r := range rows {
		if r.host == "" && r.listener == "" || r.group != nil || r.reason != reasonGroupNotFound && r.reason != reasonPinnedUnavailable && r.reason != reasonFrozen {
			continue
		}
		if d.keepTarget(r, rows); r.kept && r.host != "" {
			r.tls = d.askedTLS(d.Policy.Spec.Domains[r.entry].TLS, r.group)
		}
	}
}

// keepTarget gives a row the target of the live route that serves the row. If there is none, for example
// because the row's path was edited too, the row gets the target of a live route that has the host, unless
// another row requests the host with the path of that route.
func (d *planner) keepTarget(r *DomainRow, rows []*DomainRow) {
	for _, name := range providers.Sorted(d.Live) {
		if d.serves(d.Live[name], r) && d.keepTargetOf(d.Live[name], r) {
			return
		}
	}
	for _, name := range providers.Sorted(d.Live) {
		live := d.Live[name]
		elsewhere := slices.ContainsFunc(rows, func(other *DomainRow) bool {
			return other != r && other.host == r.host && samePath(other.path, live.Path)
		})
		if r.host != "" && slices.Contains(live.Hostnames, r.host) && !elsewhere && d.keepTargetOf(live, r) {
			return
		}
	}
}

// keepTargetOf gives a row the target of a live route, and reports whether it did. A target that is a
// single release stays only if a domain with a version can route to that release.
func (d *planner) keepTargetOf(route *providers.Live, r *DomainRow) bool {
	g := d.rollout.bySlug[route.Group()]
	if route.Deleting || g == nil || !live(g) {
		return false
	}
	pinned := ""
	if route.Pinned() {
		i := slices.IndexFunc(g.Releases, func(x v1alpha1.Release) bool {
			return servable(&x) && d.backendsOf(route)[x.VersionedMicroservice] > 0
		})
		if i < 0 {
			return false
		}
		pinned = g.Releases[i].VersionedMicroservice
	}
	r.group, r.newer, r.pin, r.pinned, r.kept = g, nil, pinned != "", pinned, true
	return true
}

// pinRow returns the row of a domain with a version (rule 33). The row routes to an active, canary
// or retained release, and never causes a deployment.
func (d *planner) pinRow(base DomainRow, entry v1alpha1.Domain) *DomainRow {
	r := base
	r.pin, r.target = true, "version/"+entry.Release.Version
	r.group, r.pinned = d.pinned(entry.Release.Version)
	if r.pinned == "" {
		if r.listener == "" && r.user == "" {
			r.host, _ = render(entry.Domain, d.Policy, nil)
		}
		r.fail(reasonPinnedUnavailable, fmt.Sprintf("%s.release.version: no release of version %q is active, canary or retained: name another version, or wait until it is deployed", r.field, entry.Release.Version))
		return &r
	}
	r = d.renderRow(r, entry)
	if r.reason == "" {
		r.message = ""
	}
	d.freeze(&r)
	return &r
}

// freeze removes the target of a row with a version, or of a canary row, if a freeze is active and
// the release has never been active. The target stays if a live route already routes the host only
// to this release.
func (d *planner) freeze(r *DomainRow) {
	release := d.rollout.rows[r.pinned]
	if release == nil || release.Promoted > 0 || release.Status == v1alpha1.ReleaseActive || d.Microservice == nil {
		return
	}
	frozen := meta.FindStatusCondition(d.Microservice.Status.Conditions, v1alpha1.ConditionFrozen)
	if frozen == nil || frozen.Status != metav1.ConditionTrue {
		return
	}
	for _, route := range d.Live {
		backends := d.backendsOf(route)
		alone := backends[r.pinned] > 0
		for name, weight := range backends {
			alone = alone && (name == r.pinned || weight == 0)
		}
		if alone && !route.Deleting && d.serves(route, r) {
			return
		}
	}
	r.fail(reasonFrozen, fmt.Sprintf("%s.release: %s has never been active, and does not get this traffic until the freeze ends: %s", r.field, release.SemVer.Version, frozen.Message))
	r.group, r.newer, r.pinned, r.canary, r.pin = nil, nil, "", false, false
}

// keepInvalid keeps the live host of a domain that does not render to a valid host name, if the
// live host is allowed: invalid input does not remove a host.
func (d *planner) keepInvalid(rows []*DomainRow) {
	wanted := map[string]bool{}
	for _, r := range rows {
		wanted[r.host+r.path] = true
	}
	for _, r := range rows {
		if r.reason != reasonInvalidDomain || r.group == nil {
			continue
		}
		for _, name := range providers.Sorted(d.Live) {
			route := d.Live[name]
			if route.Deleting || route.Path != r.path || route.Group() != r.group.Slug {
				continue
			}
			for _, host := range route.Hostnames {
				if !wanted[host+r.path] && !r.kept && d.Owned.refuses(d.Policy.Spec.Domains[r.entry].Domain, host) == nil {
					r.host, r.kept = host, true
					wanted[host+r.path] = true
				}
			}
		}
	}
}
