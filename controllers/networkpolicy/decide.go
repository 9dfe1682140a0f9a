package networkpolicy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/internal/release"
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

// move of domains from one group to another, by slug.
type move struct{ from, to string }

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

// group decides the split of one group.
func (d *decider) group(g *v1alpha1.ReleaseGroup, rows []*row) *groupDecision {
	out := &groupDecision{group: g, slug: g.Slug, mode: v1alpha1.SplitWhole}
	var routable, refused *row
	for _, r := range rows {
		out.newest = out.newest || r.newest && !r.canary && r.group == g
		if r.group != g && r.newer != g {
			continue
		}
		if r.pin {
			if r.pinned != "" && !slices.Contains(out.pinned, r.pinned) {
				out.pinned = append(out.pinned, r.pinned)
			}
			continue
		}
		if r.canary {
			continue // It is for trying, and follows no weight.
		}
		// A domain that cannot be routed does not turn a split into a whole move:
		// then nothing of the group may count as programmed.
		out.routed = true
		if d.view.Splits() {
			out.mode = v1alpha1.SplitWeighted
		}
		if r.routable() {
			routable = r
		} else if refused == nil {
			refused = r
		}
	}
	slices.Sort(out.pinned)
	if !live(g) {
		out.answers = true
		return out
	}
	if out.moves = out.mode == v1alpha1.SplitWhole && (out.routed || d.formerOf(g.Slug)); out.moves {
		g = moved(g)
	}
	last := d.carriedWeights(g.Slug)
	out.weights, out.masked = release.Split(d.shares(g, last))
	out.answers = out.weights != nil
	d.testTraffic(g, out)
	if g.TrafficRevision > 0 && turnedDown(g, sortedKeys(last)...) {
		out.absent, out.answers = true, true
		return out
	}
	if !out.answers {
		out.weights, out.answers = hold(last, g)
	}
	active := mainOf(g)
	switch {
	case active == nil:
		out.reason = reasonNoActiveRelease
		out.message = fmt.Sprintf("release group %q has no active release yet", g.Name)
	case routable == nil && refused != nil:
		out.reason, out.message = refused.reason, refused.message
	case len(out.weights) == 0 || !out.answers:
		out.reason = reasonNoReadyEndpoints
		out.message = fmt.Sprintf("no release of group %q that is to have traffic has a ready endpoint", g.Name)
	}
	return out
}

// shares of the releases of a group, of which live routes carry some.
func (d *decider) shares(g *v1alpha1.ReleaseGroup, last map[string]int) []release.Share {
	prev := d.report(g.Slug)
	var shares []release.Share
	for i := range g.Releases {
		r := &g.Releases[i]
		name := r.VersionedMicroservice
		shares = append(shares, release.Share{
			Release: name, Status: release.Status(r.Status), Weight: int(r.Weight),
			Ready: d.ready(name), Available: r.Available,
			Masked: slices.Contains(prev.Masked, name) && last[name] == 0,
		})
	}
	slices.SortFunc(shares, func(a, b release.Share) int { return cmp.Compare(a.Release, b.Release) })
	return shares
}

// addMoves decides the splits of domains that are on their way to a newer group.
func (d *decider) addMoves(out *decision) {
	out.moves = map[move]*groupDecision{}
	for _, r := range out.rows {
		if r.newer == nil || r.canary {
			continue
		}
		key := move{r.group.Slug, r.newer.Slug}
		if out.moves[key] != nil {
			continue
		}
		m := d.move(r.group, r.newer)
		out.moves[key] = m
		for _, g := range out.groups {
			if g.group != r.group && g.group != r.newer {
				continue
			}
			for _, name := range m.masked {
				if d.ledger.groupOf[name] == g.group {
					g.masked = union(g.masked, []string{name})
				}
			}
		}
	}
}

// move decides the split between a group and the first release of a newer one, which is
// a canary: it has its weight, and the rest goes as the older group splits it.
func (d *decider) move(base, newer *v1alpha1.ReleaseGroup) *groupDecision {
	out := &groupDecision{group: base, slug: base.Slug, mode: v1alpha1.SplitWeighted}
	both := *base
	if !d.view.Splits() {
		both, out.mode = *moved(base), v1alpha1.SplitWhole
	}
	last := d.carriedBetween(base.Slug)
	shares := d.shares(&both, last)
	if canary := mainOf(newer); d.view.Splits() {
		one := *newer
		one.Releases = []v1alpha1.Release{*canary}
		shares = release.Joined(shares, d.shares(&one, last)[0])
		both.Releases = slices.Clone(both.Releases)
		for i := range both.Releases {
			both.Releases[i].Weight *= 100 - canary.Weight
		}
		joined := *canary
		joined.Weight *= 100
		both.Releases = append(both.Releases, joined)
	}
	out.weights, out.masked = release.Split(shares)
	out.answers = out.weights != nil
	if out.mode == v1alpha1.SplitWeighted {
		d.testTraffic(&both, out)
	}
	if !out.answers {
		out.weights, out.answers = hold(last, &both)
	}
	return out
}

// carriedBetween are the weights that live routes labelled with a group give releases, of
// whatever group: of several routes, those of the one with most of them.
func (d *decider) carriedBetween(slug string) map[string]int {
	var best map[string]int
	for _, name := range sortedKeys(d.live) {
		if route := d.live[name]; route.Group() == slug && !route.Leaving && !route.Pinned() {
			if weights := d.backendsOf(route); len(weights) > len(best) {
				best = weights
			}
		}
	}
	return best
}

// moved is a group whose traffic cannot be split: its active release has it all, and
// steps of a canary are waits.
func moved(g *v1alpha1.ReleaseGroup) *v1alpha1.ReleaseGroup {
	out := *g
	out.Releases = slices.Clone(g.Releases)
	for i := range out.Releases {
		r := &out.Releases[i]
		r.Weight, r.Match, r.MirrorPercent = 0, false, 0
		switch r.Status {
		case v1alpha1.ReleaseActive:
			r.Weight = 100
		case v1alpha1.ReleaseCanary:
			if activeOf(g) == nil {
				r.Weight = 100 // There is no other.
				continue
			}
			r.Status = v1alpha1.ReleasePending // It stands in for nobody either.
		}
	}
	return &out
}

// testTraffic decides what the canary gets besides its weight. One that has no ready
// endpoint gets nothing, and is masked: its step is not what was asked for.
func (d *decider) testTraffic(g *v1alpha1.ReleaseGroup, out *groupDecision) {
	for i := range g.Releases {
		r := &g.Releases[i]
		name := r.VersionedMicroservice
		if r.Status != v1alpha1.ReleaseCanary || !r.Match && r.MirrorPercent == 0 {
			continue
		}
		switch {
		case d.ready(name):
			if r.Match {
				out.matched = name
			}
			if r.MirrorPercent > 0 {
				out.mirrored, out.mirrorPercent = name, r.MirrorPercent
			}
		case !slices.Contains(out.masked, name):
			out.masked = append(out.masked, name)
			slices.Sort(out.masked)
		}
	}
}

// hold says what a group's routes carry while no release that should serve has a
// ready endpoint: what was written last, without what the ledger turned down. Only
// where nothing of it may stay do the asked weights go in, since an empty rule
// would answer no better.
func hold(last map[string]int, g *v1alpha1.ReleaseGroup) (weights map[string]int, answers bool) {
	if len(last) == 0 {
		return nil, false
	}
	asked, eligible, earlier := map[string]int{}, map[string]int{}, map[string]int{}
	for _, r := range g.Releases {
		name := r.VersionedMicroservice
		serves := r.Status == v1alpha1.ReleaseActive || r.Status == v1alpha1.ReleaseCanary
		if serves && r.Weight > 0 {
			asked[name] = int(r.Weight)
		}
		switch {
		case last[name] == 0:
		case serves:
			eligible[name] = last[name]
		case r.Status == v1alpha1.ReleaseDeprecated && r.Promoted > 0:
			earlier[name] = last[name]
		}
	}
	switch {
	case len(eligible) > 0:
		return scale(eligible), true
	case len(earlier) > 0:
		return scale(earlier), false
	case len(asked) > 0:
		return scale(asked), true
	}
	return last, false
}

// scale makes weights add up to 100; the largest takes what rounding leaves.
func scale(weights map[string]int) map[string]int {
	names := sortedKeys(weights)
	slices.SortStableFunc(names, func(a, b string) int { return weights[b] - weights[a] })
	total := 0
	for _, w := range weights {
		total += w
	}
	out, rest := make(map[string]int, len(weights)), 100
	for _, name := range names[1:] {
		out[name] = max(1, weights[name]*100/total)
		rest -= out[name]
	}
	out[names[0]] = rest
	return out
}

// carriedWeights are the weights that live routes give the releases of a group. Of
// several routes the one with the highest revision tells.
func (d *decider) carriedWeights(slug string) map[string]int {
	best, bestRevision := map[string]int(nil), int64(-1)
	for _, name := range sortedKeys(d.live) {
		route := d.live[name]
		s, _ := route.Stamp()
		if route.Group() != slug || route.Leaving || route.Pinned() || s.Revision <= bestRevision {
			continue
		}
		best, bestRevision = d.backendsOf(route), s.Revision
	}
	maps.DeleteFunc(best, func(name string, _ int) bool {
		g := d.ledger.groupOf[name]
		return g != nil && g.Slug != slug // Of a newer group, to which domains are on their way.
	})
	return best
}

// backendsOf are the releases between which a live route splits, with their weights.
func (d *decider) backendsOf(route *providers.Live) map[string]int {
	out := map[string]int{}
	for service, weight := range route.Weights {
		if name, ok := d.releases[service]; ok {
			out[name] = weight
		}
	}
	return out
}

// releasesOf are the releases that Services of the policy lead to.
func (d *decider) releasesOf(services []string) []string {
	var out []string
	for _, service := range services {
		if name, ok := d.releases[service]; ok {
			out = append(out, name)
		}
	}
	return out
}

// addServices decides the Services: one for each row of the ledger, then those that
// follow the active release of a group, then the policy's own.
func (d *decider) addServices(out *decision) {
	for _, g := range d.ledger.groups {
		for i := range g.Releases {
			name := g.Releases[i].VersionedMicroservice
			out.services = append(out.services, resources.Service{
				Name: d.releaseService(name), Release: name, Group: g.Slug, OfRelease: true,
			})
		}
	}
	slices.SortFunc(out.services, func(a, b resources.Service) int { return cmp.Compare(a.Name, b.Name) })
	for _, g := range d.liveGroups() {
		out.services = d.follow(out.services, resources.GroupServiceName(d.policy.Name, g.Slug), g, g.Slug)
	}
	current := ""
	if g := d.ledger.groupOf[d.selected(d.policy.Name)]; g != nil {
		current = g.Slug
	}
	if g := d.choose(d.liveGroups(), current); g != nil && adoptedName(d.policy) != d.policy.Name {
		out.services = d.follow(out.services, d.policy.Name, g, "")
	}
}

// follow adds a Service that leads to a group's active release. It moves only to a
// release that has a ready endpoint, and stays where it is until then, unless what
// it leads to has no row any more or is of a group that is closing.
func (d *decider) follow(services []resources.Service, name string, g *v1alpha1.ReleaseGroup, label string) []resources.Service {
	selected := d.selected(name)
	of := d.ledger.groupOf[selected]
	target := selected
	if of != nil && (!live(of) || label != "" && turnedDown(of, selected)) {
		target = ""
	}
	if active := mainOf(g); active != nil && (target == "" || of == nil || d.ready(active.VersionedMicroservice)) {
		target = active.VersionedMicroservice
	}
	if target == "" {
		return services
	}
	s := resources.Service{Name: name, Release: target, Group: label, Stamp: d.stamp(g)}
	if old := d.service(name); old != nil && target == selected {
		// The stamp tells when the selector moved, so that a step of a canary writes
		// no Service.
		if stamp, stamped := resources.StampOf(old); stamped && stamp.Ledger == s.Stamp.Ledger && stamp.Group == s.Stamp.Group {
			s.Stamp = stamp
		}
	}
	return append(services, s)
}

func (d *decider) stamp(g *v1alpha1.ReleaseGroup) resources.Stamp {
	return resources.Stamp{Group: g.Slug, Revision: g.TrafficRevision, Ledger: types.UID(d.ledger.uid), Sequence: d.ledger.sequence}
}

// routeKey tells which rows share routes.
type routeKey struct {
	target, path, port string
	// protocol, so that routes of two kinds never meet in a name; "": HTTP and HTTPS.
	protocol v1alpha1.PortProtocol
	// matches tells canaryMatches apart, and parents those of single domains; "": none.
	matches, parents string
	// provider by name, where it is not the gateway: the objects of two providers must not
	// meet in a name when a policy goes from one to the other.
	provider string
	// own tells apart what a route says as a whole: whether it is attached to ListenerSets,
	// and for how long DNS records may be kept; "": neither is said.
	own string
	// user is the route of somebody else; "": a route of ours.
	user string
}

func keyOf(r *row) routeKey {
	if r.user != "" {
		return routeKey{user: r.user}
	}
	key := routeKey{target: r.target, path: r.path, port: r.port.Name, protocol: r.port.Protocol, matches: resources.MatchesKey(r.matches)}
	if r.listener != "" {
		return key // Its name says it all.
	}
	if r.tls != nil && r.tls.Mode == v1alpha1.TLSListenerSet {
		key.own = "/" + string(r.tls.Mode)
	}
	if r.recordTTL > 0 {
		key.own += fmt.Sprintf("/%d", r.recordTTL)
	}
	for _, p := range r.parents {
		key.parents += fmt.Sprintf("/%s/%s/%s", p.Namespace, p.Name, p.SectionName)
	}
	return key.plain()
}

// listenerKey is the key of the one route of a listener.
func listenerKey(name string, port v1alpha1.NetworkPort) routeKey {
	return routeKey{target: "listener/" + name, port: port.Name, protocol: port.Protocol}
}

// plain leaves out the protocols of HTTPRoutes: a port may change between them without
// a new route.
func (k routeKey) plain() routeKey {
	if k.protocol == v1alpha1.ProtocolHTTP || k.protocol == v1alpha1.ProtocolHTTPS {
		k.protocol = ""
	}
	return k
}

// name of the index-th route of the key.
func (k routeKey) name(policy string, index int) string {
	if k.user != "" {
		return k.user
	}
	target, port := k.target, k.port
	if k.matches != "" {
		target += "/" + k.matches
	}
	target += k.parents + k.own
	if k.provider != "" {
		port += "/" + k.provider
	}
	if k.protocol != "" {
		port += "/" + string(k.protocol)
	}
	return resources.RouteName(policy, target, k.path, port, index)
}

// addRoutes puts the rows into routes.
func (d *decider) addRoutes(out *decision) {
	groups := map[string]*groupDecision{}
	for _, g := range out.groups {
		groups[g.slug] = g
	}
	buckets := map[routeKey][]*row{}
	for _, r := range out.rows {
		if !r.routable() {
			continue
		}
		if r.pinned == "" && len(d.splitOf(out, r, groups).weights) == 0 {
			continue // Nothing that could answer has a ready endpoint, and nothing did.
		}
		if r.pinned != "" && !d.ready(r.pinned) && !d.carriesPin(r) {
			r.fail(reasonNoReadyEndpoints, fmt.Sprintf("%s.release.version: release %q has no ready endpoint yet", r.field, r.pinned))
			continue
		}
		if problem := d.unsupported(r); problem != nil {
			r.fail(problem.Reason, r.field+"."+problem.Message)
			continue
		}
		for _, r := range append([]*row{r}, d.meanwhile(r)...) {
			key := keyOf(r)
			if d.view.Apart() {
				key = routeKey{target: r.host, path: r.path}
			}
			if p := provider(d.policy); p != gatewayProvider {
				key.provider = p.Name()
			}
			buckets[key] = append(buckets[key], r)
		}
	}
	keys := slices.SortedFunc(maps.Keys(buckets), func(a, b routeKey) int {
		return cmp.Or(cmp.Compare(a.target, b.target), cmp.Compare(a.path, b.path), cmp.Compare(a.port, b.port), cmp.Compare(a.matches, b.matches),
			cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.parents, b.parents), cmp.Compare(a.own, b.own))
	})
	for _, key := range keys {
		for i, rows := range d.allocate(key, buckets[key]) {
			if len(rows) > 0 {
				name := key.name(d.policy.Name, i)
				out.routes = append(out.routes, d.route(name, rows, d.splitOf(out, rows[0], groups)))
			}
		}
	}
	slices.SortStableFunc(out.routes, func(a, b *routeDecision) int {
		return cmp.Compare(d.loses(a), d.loses(b))
	})
	d.addFormer(out, groups)
}

// splitOf is what the route of a row carries.
func (d *decider) splitOf(out *decision, r *row, groups map[string]*groupDecision) *groupDecision {
	if r.newer != nil && !r.canary {
		return out.moves[move{r.group.Slug, r.newer.Slug}]
	}
	return groups[r.group.Slug]
}

// serves says whether a live route is for what a row names.
func (d *decider) serves(route *providers.Live, r *row) bool {
	if r.user != "" {
		return route.Name == r.user
	}
	if r.listener != "" {
		return route.Name == listenerKey(r.listener, r.port).name(d.policy.Name, 0)
	}
	return route.Path == r.path && slices.Contains(route.Hostnames, r.host)
}

// carriesPin says whether a live route leads the row's host to its release already.
func (d *decider) carriesPin(r *row) bool {
	for _, route := range d.live {
		if !route.Leaving && route.Pinned() && d.serves(route, r) && d.backendsOf(route)[r.pinned] > 0 {
			return true
		}
	}
	return false
}

// allocate spreads rows over routes of at most providers.MaxHostnames hosts. A host
// stays in the live route that has it, because the age of a route decides who gets
// a host that two claim; a new one goes into the first with room.
func (d *decider) allocate(key routeKey, rows []*row) [][]*row {
	slices.SortFunc(rows, func(a, b *row) int { return cmp.Compare(a.host, b.host) })
	var out [][]*row
	at := func(i int) *[]*row {
		for len(out) <= i {
			out = append(out, nil)
		}
		return &out[i]
	}
	var fresh []*row
	for _, r := range rows {
		i := d.placed(key, r.host)
		if i < 0 {
			fresh = append(fresh, r)
			continue
		}
		*at(i) = append(*at(i), r)
	}
	i := 0
	for _, r := range fresh {
		for len(*at(i)) >= providers.MaxHostnames {
			i++
		}
		*at(i) = append(*at(i), r)
	}
	for _, part := range out {
		slices.SortFunc(part, func(a, b *row) int { return cmp.Compare(a.host, b.host) })
	}
	return out
}

// placed is the index of the live route of key that has host; -1 where none has.
func (d *decider) placed(key routeKey, host string) int {
	for i := range maxRows / providers.MaxHostnames {
		name := key.name(d.policy.Name, i)
		if route, ok := d.live[name]; ok && !route.Leaving && slices.Contains(route.Hostnames, host) {
			return i
		}
	}
	return -1
}

// loses is 1 where a route is to lose hosts that it has.
func (d *decider) loses(r *routeDecision) int {
	if old, ok := d.live[r.Name]; ok {
		for _, host := range old.Hostnames {
			if !slices.Contains(r.Hostnames, host) {
				return 1
			}
		}
	}
	return 0
}

// services that a route names in any way.
func (r *routeDecision) services() []string {
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

// verdict tells how far a decided route is.
func (d *decider) verdict(r *routeDecision) verdict { return d.view.Verdict(r.Route, r.objects) }

// concerns says whether a revision of a group counts as carried only with the route.
func (r *routeDecision) concerns(slug string) bool {
	if r.slug == slug {
		return true
	}
	return len(r.rows) > 0 && r.rows[0].newer != nil && r.rows[0].newer.Slug == slug
}

func (d *decider) route(name string, rows []*row, g *groupDecision) *routeDecision {
	out := &routeDecision{slug: g.slug, rows: rows, answers: g.answers || rows[0].pinned != "", Route: d.plan(name, rows, g)}
	if user := rows[0].user; user != "" {
		out.Hostnames = d.live[user].Hostnames
	}
	out.objects = d.view.Build(out.Route)
	return out
}

// plan is what a route of rows is to carry.
func (d *decider) plan(name string, rows []*row, g *groupDecision) providers.Route {
	first := rows[0]
	out := providers.Route{
		Name: name, Protocol: first.port.Protocol, Pinned: first.pinned, Path: first.path, Port: first.port.Port, Stamp: d.stamp(g.group), Parents: first.parents,
		RecordTTL: first.recordTTL, TLS: tlsOf(rows),
	}
	for _, r := range rows {
		if r.host != "" {
			out.Hostnames = append(out.Hostnames, r.host)
		}
	}
	if active := mainOf(g.group); active != nil {
		out.Active = d.releaseService(active.VersionedMicroservice)
	}
	weights := g.weights
	if first.pinned != "" {
		weights = map[string]int{first.pinned: 100}
	}
	for _, release := range sortedKeys(weights) {
		if w := weights[release]; w > 0 {
			out.Backends = append(out.Backends, providers.Backend{Service: d.releaseService(release), Weight: int32(w)})
		}
	}
	if first.pinned == "" {
		if g.matched != "" && len(first.matches) > 0 {
			out.Canary, out.Matches = d.releaseService(g.matched), first.matches
		}
		if g.mirrored != "" && readable(first.port.Protocol) {
			out.Mirror, out.MirrorPercent = d.releaseService(g.mirrored), g.mirrorPercent
		}
	}
	if old := d.live[name]; old != nil {
		kept := d.routeStamp(old, out.Stamp, g, first.pin)
		if !first.newest || d.carriesSame(old, out) && (first.newer == nil || kept.Sequence >= first.newer.TrafficRevision) {
			out.Stamp = kept
		}
	}
	return out
}

// carriesSame says whether a live route leads to the same releases in the same shares. One
// between two groups must not keep the stamp of another state of either.
func (d *decider) carriesSame(old *providers.Live, now providers.Route) bool {
	weights := map[string]int{}
	for _, b := range now.Backends {
		weights[b.Service] = int(b.Weight)
	}
	r := routeDecision{Route: now}
	return maps.Equal(old.Weights, weights) && sameSet(old.Services, r.services())
}

// readable says whether gateways see single requests of a protocol.
func readable(p v1alpha1.PortProtocol) bool {
	return p != v1alpha1.ProtocolTLS && p != v1alpha1.ProtocolTCP && p != v1alpha1.ProtocolUDP
}

// routeStamp is the stamp of a route that is there already. A route that holds what
// was written before does not answer the present revision, and one for a version
// answers every one.
func (d *decider) routeStamp(old *providers.Live, stamp resources.Stamp, g *groupDecision, pinned bool) resources.Stamp {
	was, ok := old.Stamp()
	if !ok || was.Ledger != stamp.Ledger || was.Group != stamp.Group {
		return stamp
	}
	if was.Revision == stamp.Revision || pinned || !g.answers {
		return was
	}
	return stamp
}

// obsolete decides what is deleted. A route goes only when the hosts that are still
// wanted are accepted elsewhere, or when one of its hosts is not allowed; a Service goes
// only when its release has no row and no written object names it.
func (d *decider) obsolete(out *decision) {
	out.held = map[string]*row{}
	wanted := map[string]*routeDecision{}
	byHost := map[string][]*routeDecision{}
	for _, r := range out.routes {
		wanted[r.Name] = r
		for _, host := range r.Hostnames {
			byHost[host] = append(byHost[host], r)
		}
	}
	refused := map[string]bool{}
	for _, r := range out.rows {
		if r.reason == reasonDomainNotAllowed && r.group != nil {
			refused[r.group.Slug+"/"+r.host] = true
		}
	}
	vanished := d.vanished()
	named := map[string]bool{}
	for _, r := range slices.Concat(out.routes, out.former) {
		for _, service := range r.services() {
			named[service] = true
		}
	}
	kept := map[string]bool{}
	for _, r := range out.former {
		kept[r.Name] = !d.drained(out)
	}
	for _, name := range sortedKeys(d.live) {
		route := d.live[name]
		for _, service := range route.Services {
			named[service] = true
		}
		if wanted[name] != nil || route.Leaving || route.User && route.Led == nil {
			continue
		}
		if d.forbidden(route) || slices.ContainsFunc(route.Hostnames, func(host string) bool { return refused[route.Group()+"/"+host] }) {
			out.deleteRoutes = append(out.deleteRoutes, name)
			continue
		}
		if vanished[route.Group()] {
			continue
		}
		if d.former(route) {
			if r := d.stuck(out.rows, route); r != nil {
				out.held[name] = r
			} else if !kept[name] {
				out.deleteRoutes = append(out.deleteRoutes, name)
			}
			continue
		}
		replaced := true
		for _, host := range route.Hostnames {
			// Whatever the path: one that was edited is a route that goes and one that comes.
			for _, by := range byHost[host] {
				replaced = replaced && d.verdict(by).Accepted
			}
		}
		if r := d.stuck(out.rows, route); r != nil {
			out.held[name] = r
		} else if replaced {
			out.deleteRoutes = append(out.deleteRoutes, name)
			continue
		}
		if r := d.follows(route, out); r != nil {
			out.former = append(out.former, r)
		}
	}
	keep := map[string]bool{}
	for _, s := range out.services {
		keep[s.Name] = true
	}
	selected := d.referenced()
	for _, name := range sortedKeys(d.services) {
		s := d.services[name]
		if keep[name] || named[name] || s.DeletionTimestamp != nil {
			continue
		}
		if ofRelease(s) && selected[s.Spec.Selector[v1alpha1.LabelRelease]] || !ofRelease(s) && vanished[s.Labels[v1alpha1.LabelGroup]] {
			continue
		}
		if name == d.policy.Name && len(d.ledger.groups) == 0 {
			continue
		}
		out.deleteServices = append(out.deleteServices, name)
	}
}

// stuck is a row that asks for a host of a live route in a way that the provider cannot
// route; nil: none. What is live stays then, as long as its group does: bad input takes
// nothing away.
func (d *decider) stuck(rows []*row, route *providers.Live) *row {
	if g := d.ledger.bySlug[route.Group()]; g == nil || !live(g) {
		return nil
	}
	for _, r := range rows {
		if r.user != "" && r.reason != "" && !r.kept {
			return r
		}
		switch r.reason {
		case reasonGatewayAPIMissing, providers.ReasonProviderAPIMissing, reasonNotSupported:
			if slices.Contains(route.Hostnames, r.host) {
				return r
			}
		case reasonDomainConflict:
			if slices.Contains(route.Hostnames, r.host) && !d.taken(rows, r.host, route.Path) {
				return r
			}
		}
	}
	return nil
}

// taken says whether another policy holds a host and path, or a row has them.
func (d *decider) taken(rows []*row, host, path string) bool {
	return slices.ContainsFunc(d.claims, func(c claim) bool { return !c.younger && c.host == host && samePath(c.path, path) }) ||
		slices.ContainsFunc(rows, func(r *row) bool { return r.host == host && samePath(r.path, path) })
}

// follows leads a live route that stays, although no row asks for it, to what its group is
// led to: a canary that is taken back must be taken back there too. One on its way to a
// newer group stays on it. Nil: it is so already, or nothing of the group can answer.
func (d *decider) follows(route *providers.Live, out *decision) *routeDecision {
	i := slices.IndexFunc(out.groups, func(g *groupDecision) bool { return g.slug == route.Group() })
	if i < 0 {
		return nil
	}
	g := out.groups[i]
	for way, m := range out.moves { // A group has one that comes.
		if way.from == g.slug && slices.ContainsFunc(d.releasesOf(route.Services), func(name string) bool {
			of := d.ledger.groupOf[name]
			return of != nil && of.Slug == way.to
		}) {
			g = m
		}
	}
	if len(g.weights) == 0 {
		return nil
	}
	stray := slices.ContainsFunc(d.releasesOf(route.Services), func(release string) bool {
		return g.weights[release] == 0 && release != g.matched && release != g.mirrored
	})
	if !stray && maps.Equal(d.backendsOf(route), g.weights) {
		return nil
	}
	if r := d.carry(out, route, nil, map[string]*groupDecision{g.slug: g}); len(r.objects) > 0 {
		return r
	}
	return nil
}

// forbiddenRoutes are what goes even where nothing else is decided.
func (d *decider) forbiddenRoutes() []string {
	return slices.DeleteFunc(sortedKeys(d.live), func(name string) bool { return d.live[name].Leaving || !d.forbidden(d.live[name]) })
}

// vanished are groups that live objects carry and the ledger does not know. A group
// leaves by its phase Closing, in which its routes go; one that is simply not there
// belongs to a ledger that was made anew. Its objects stay until some group has an
// active release that answers.
func (d *decider) vanished() map[string]bool {
	for _, g := range d.liveGroups() {
		if a := activeOf(g); a != nil && d.ready(a.VersionedMicroservice) {
			return nil
		}
	}
	out := map[string]bool{}
	consider := func(slug string) {
		if slug != "" && d.ledger.bySlug[slug] == nil {
			out[slug] = true
		}
	}
	for _, s := range d.services {
		consider(s.Labels[v1alpha1.LabelGroup])
	}
	for _, r := range d.live {
		consider(r.Group())
	}
	return out
}

// referenced are the releases that the last report named, and those that live
// Services of groups select.
func (d *decider) referenced() map[string]bool {
	out := map[string]bool{}
	for _, g := range d.policy.Status.Groups {
		for _, name := range g.References {
			out[name] = true
		}
	}
	for _, s := range d.services {
		if !ofRelease(s) {
			out[s.Spec.Selector[v1alpha1.LabelRelease]] = true
		}
	}
	out[d.selected(adoptedName(d.policy))] = true
	return out
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
