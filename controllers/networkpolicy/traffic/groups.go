package traffic

import (
	"slices"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/internal/version"
)

func (d *planner) liveGroups() []*v1alpha1.ReleaseGroup {
	return slices.DeleteFunc(slices.Clone(d.rollout.groups), func(g *v1alpha1.ReleaseGroup) bool { return !live(g) })
}

// named returns the groups whose name or slug is one of names, in the order of names.
func named(groups []*v1alpha1.ReleaseGroup, names []string) []*v1alpha1.ReleaseGroup {
	var picked []*v1alpha1.ReleaseGroup
	for _, name := range names {
		for _, g := range groups {
			if (g.Name == name || g.Slug == name) && !slices.Contains(picked, g) {
				picked = append(picked, g)
			}
		}
	}
	return picked
}

// choose returns the group to which a shared domain or Service routes (rule 9). It returns the
// first candidate whose active release has a ready endpoint, unless the current group comes earlier
// and has an active release. While the current group has an active release, the result never moves
// to a later candidate. If no active release has a ready endpoint, choose returns the current group,
// or, if that is not a candidate, the first candidate, preferably one with an active release.
func (d *planner) choose(candidates []*v1alpha1.ReleaseGroup, current string) *v1alpha1.ReleaseGroup {
	var withActive *v1alpha1.ReleaseGroup
	for _, g := range candidates {
		active := g.ActiveRelease()
		if active == nil {
			continue
		}
		if g.Slug == current || d.ready(active.VersionedMicroservice) {
			return g
		}
		if withActive == nil {
			withActive = g
		}
	}
	for _, g := range candidates {
		if g.Slug == current {
			return g
		}
	}
	if withActive != nil {
		return withActive
	}
	if len(candidates) > 0 {
		return candidates[0]
	}
	return nil
}

// incoming returns the incoming group: a group that is newer than base, whose first release is a
// canary, and to which domains that follow the newest group are moving. It returns nil if there is
// no such group, or if the routes are being orphaned (rule 20).
func (d *planner) incoming(base *v1alpha1.ReleaseGroup) *v1alpha1.ReleaseGroup {
	if base == nil || Orphans(d.Policy) || base.ActiveRelease() == nil || base.Level == v1alpha1.LevelPreview {
		return nil
	}
	for _, g := range d.liveGroups() {
		if g == base {
			return nil
		}
		if g.Level != v1alpha1.LevelPreview && g.ActiveRelease() == nil && mainOf(g) != nil {
			return g
		}
	}
	return nil
}

type planner struct {
	*Observed
	rollout rollout
	// releases maps the name of each Service to the release to which the Service routes.
	releases map[string]string
}

func newPlanner(f *Observed) *planner {
	d := &planner{Observed: f, rollout: readRollout(f.Microservice), releases: map[string]string{}}
	for name := range d.rollout.rows {
		d.releases[f.ReleaseService(name)] = name
	}
	for name, s := range f.Services {
		if OfRelease(s) {
			d.releases[name] = s.Spec.Selector[v1alpha1.LabelRelease]
		}
	}
	if Orphans(f.Policy) && f.Microservice != nil {
		d.rollout = readRollout(d.settled(f.Microservice))
	}
	return d
}

// versionOf returns the version of a release, or the name of the release if the rollout state no
// longer contains the release.
func (l rollout) versionOf(release string) string {
	if r := l.rows[release]; r != nil {
		return r.SemVer.Version
	}
	return release
}

// mainOf returns the active release of a group. If there is no active release, it returns the
// canary that is the group's first release. If there is no such canary either, it returns nil.
func mainOf(g *v1alpha1.ReleaseGroup) *v1alpha1.Release {
	if a := g.ActiveRelease(); a != nil {
		return a
	}
	for i := range g.Releases {
		if g.Releases[i].Status == v1alpha1.ReleaseCanary {
			return &g.Releases[i]
		}
	}
	return nil
}

// testable returns the release of a group to which canary domains route: the canary, or a pending
// release at the PreRollout gate. It returns nil if there is neither.
func testable(g *v1alpha1.ReleaseGroup) *v1alpha1.Release {
	for i := range g.Releases {
		r := &g.Releases[i]
		asked := g.Rollout != nil && g.Rollout.Release == r.VersionedMicroservice && g.Rollout.Gate == v1alpha1.GatePreRollout
		if r.Status == v1alpha1.ReleaseCanary || r.Status == v1alpha1.ReleasePending && asked {
			return r
		}
	}
	return nil
}

// rejected reports whether a group's routes to the given releases must be deleted. This is the case
// if no release of the group may receive traffic and no release of the group was ever active, unless one of
// the given releases is still ready and is missing from the rollout state.
func (d *planner) rejected(g *v1alpha1.ReleaseGroup, releases ...string) bool {
	if mainOf(g) != nil || slices.ContainsFunc(g.Releases, func(r v1alpha1.Release) bool { return r.Promoted > 0 }) {
		return false
	}
	for _, name := range releases {
		known := slices.ContainsFunc(g.Releases, func(r v1alpha1.Release) bool { return r.VersionedMicroservice == name })
		if !known && d.ready(name) {
			return false
		}
	}
	return true
}

// live reports whether a group should have routes: it is neither closing nor an expired preview.
func live(g *v1alpha1.ReleaseGroup) bool {
	return g.Phase != v1alpha1.GroupClosing && g.Phase != v1alpha1.GroupExpired
}

// rollout is an index of the groups and releases in the status of a Microservice.
type rollout struct {
	groups []*v1alpha1.ReleaseGroup
	// rows and groupOf map the name of a release to its row and to its group.
	rows     map[string]*v1alpha1.Release
	groupOf  map[string]*v1alpha1.ReleaseGroup
	bySlug   map[string]*v1alpha1.ReleaseGroup
	uid      string
	sequence int64
}

func readRollout(m *v1alpha1.Microservice) rollout {
	l := rollout{
		rows: map[string]*v1alpha1.Release{}, groupOf: map[string]*v1alpha1.ReleaseGroup{},
		bySlug: map[string]*v1alpha1.ReleaseGroup{},
	}
	if m == nil {
		return l
	}
	l.uid, l.sequence = string(m.UID), m.Status.Sequence()
	for i := range m.Status.ReleaseGroups {
		g := &m.Status.ReleaseGroups[i]
		l.groups = append(l.groups, g)
		l.bySlug[g.Slug] = g
		for j := range g.Releases {
			r := &g.Releases[j]
			l.rows[r.VersionedMicroservice], l.groupOf[r.VersionedMicroservice] = r, g
		}
	}
	return l
}

// settled returns a copy of a Microservice without the canaries of those groups whose active
// release has a ready endpoint.
func (f *Observed) settled(m *v1alpha1.Microservice) *v1alpha1.Microservice {
	out := *m
	out.Status.ReleaseGroups = slices.Clone(m.Status.ReleaseGroups)
	for i := range out.Status.ReleaseGroups {
		g := &out.Status.ReleaseGroups[i]
		if a := g.ActiveRelease(); live(g) && a != nil && f.ready(a.VersionedMicroservice) {
			*g = *aborted(g)
		}
	}
	return &out
}

// aborted returns a copy of a group without its canary, in which the active release has all the
// traffic.
func aborted(g *v1alpha1.ReleaseGroup) *v1alpha1.ReleaseGroup {
	out := moved(g)
	out.Rollout = nil
	for i := range out.Releases {
		if r := &out.Releases[i]; r.Status == v1alpha1.ReleaseCanary {
			r.Status = v1alpha1.ReleasePending
		}
	}
	return out
}

// Behind reports whether a live object, or the status of the policy, was written from a later
// rollout state than the one that was read. The status must be checked for groups whose objects
// were deleted: without this check, an old state would remove their confirmation from the status.
func Behind(m *v1alpha1.Microservice, f *Observed) bool {
	late := func(s resources.Stamp, ok bool) bool {
		if !ok {
			return false
		}
		if s.RolloutState != m.UID {
			return s.Sequence > 0 // The stamp is from another Microservice: only the API server knows which of the two Microservices exists.
		}
		return s.Sequence > m.Status.Sequence() || slices.ContainsFunc(m.Status.ReleaseGroups, func(g v1alpha1.ReleaseGroup) bool {
			return g.Slug == s.Group && s.Revision > g.TrafficRevision
		})
	}
	if slices.ContainsFunc(f.Policy.Status.Groups, func(g v1alpha1.GroupTraffic) bool { return g.Revision > m.Status.Sequence() }) {
		return true
	}
	for _, s := range f.Services {
		if late(resources.StampOf(s)) {
			return true
		}
	}
	if f.Adopted != nil && late(resources.StampOf(f.Adopted)) {
		return true
	}
	for _, route := range f.Live {
		if late(route.Stamp()) || !route.User && slices.ContainsFunc(route.Objects, func(o resources.Object) bool { return late(resources.StampOf(o)) }) {
			return true
		}
	}
	return false
}

// incomingUntested returns a group that is newer than base and has a release to which canary
// domains can route, but no active release with a ready endpoint. It returns nil if there is none.
// PreRollout hooks test the release before domains that follow the newest group start to move to
// the returned group.
func (d *planner) incomingUntested(base *v1alpha1.ReleaseGroup) *v1alpha1.ReleaseGroup {
	if Orphans(d.Policy) || base.ActiveRelease() == nil || base.Level == v1alpha1.LevelPreview {
		return nil
	}
	for _, g := range d.liveGroups() {
		if g == base {
			return nil
		}
		if g.Level != v1alpha1.LevelPreview && !d.activeAnswers(g) && testable(g) != nil {
			return g
		}
	}
	return nil
}

// activeAnswers reports whether a group has an active release with a ready endpoint.
func (d *planner) activeAnswers(g *v1alpha1.ReleaseGroup) bool {
	active := g.ActiveRelease()
	return active != nil && d.ready(active.VersionedMicroservice)
}

// servable reports whether a domain with a version may route to a release (rule 33).
func servable(r *v1alpha1.Release) bool {
	return r.Status == v1alpha1.ReleaseActive || r.Status == v1alpha1.ReleaseCanary || r.Status == v1alpha1.ReleaseDeprecated && r.Promoted > 0
}

// pinned returns the release to which a domain with a version routes, and the group of the release.
// The version may have the form of a tag. The newest group has precedence. Within a group, the
// active release has precedence, then a canary, then the retained release that was active most
// recently.
func (d *planner) pinned(pin string) (*v1alpha1.ReleaseGroup, string) {
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

// moved returns a copy of a group whose traffic cannot be split. In the copy, the active release
// has all the traffic, and canary steps do not change the traffic. A canary has all the traffic if
// there is no active release.
func moved(g *v1alpha1.ReleaseGroup) *v1alpha1.ReleaseGroup {
	out := *g
	out.Releases = slices.Clone(g.Releases)
	for i := range out.Releases {
		r := &out.Releases[i]
		r.Weight, r.Match, r.MirrorPercent = 0, false, 0
		if r.Status == v1alpha1.ReleaseActive || r.Status == v1alpha1.ReleaseCanary && g.ActiveRelease() == nil {
			r.Weight = 100
		}
	}
	return &out
}

// backendsOf returns the releases between which a live route splits traffic, with their weights.
func (d *planner) backendsOf(route *providers.Live) map[string]int {
	out := map[string]int{}
	for service, weight := range route.Weights {
		if name, ok := d.releases[service]; ok {
			out[name] = weight
		}
	}
	return out
}

// releasesOf returns the releases to which the given Services of the policy route.
func (d *planner) releasesOf(services []string) []string {
	var out []string
	for _, service := range services {
		if name, ok := d.releases[service]; ok {
			out = append(out, name)
		}
	}
	return out
}
