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

// named picks groups by name or slug, in the order of names.
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

// choose picks the group that something shared routes to (rule 9): the first of
// candidates whose active release has ready endpoints, if it comes before the
// current one; until then the current one, as long as it has an active release. It
// never moves back because of endpoints that come and go.
func (d *planner) choose(candidates []*v1alpha1.ReleaseGroup, current string) *v1alpha1.ReleaseGroup {
	var withActive *v1alpha1.ReleaseGroup
	for _, g := range candidates {
		active := activeOf(g)
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

// incoming is the group to which newest domains are moving from base: a newer group whose first
// release is a canary. nil: there is none, or the target of the domains is orphaned (rule 20).
func (d *planner) incoming(base *v1alpha1.ReleaseGroup) *v1alpha1.ReleaseGroup {
	if base == nil || Orphans(d.Policy) || activeOf(base) == nil || base.Level == v1alpha1.LevelPreview {
		return nil
	}
	for _, g := range d.liveGroups() {
		if g == base {
			return nil
		}
		if g.Level != v1alpha1.LevelPreview && activeOf(g) == nil && mainOf(g) != nil {
			return g
		}
	}
	return nil
}

type planner struct {
	*Observed
	rollout rollout
	// releases by name of the Service that routes to them.
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

// versionOf is the version of a release, for messages, or its name if the rollout state no
// longer contains it.
func (l rollout) versionOf(release string) string {
	if r := l.rows[release]; r != nil {
		return r.SemVer.Version
	}
	return release
}

// activeOf is the active release of a group; nil where there is none.
func activeOf(g *v1alpha1.ReleaseGroup) *v1alpha1.Release {
	for i := range g.Releases {
		if g.Releases[i].Status == v1alpha1.ReleaseActive {
			return &g.Releases[i]
		}
	}
	return nil
}

// mainOf is what a group serves on its own: its active release, else the canary that is
// its first one; nil where there is none.
func mainOf(g *v1alpha1.ReleaseGroup) *v1alpha1.Release {
	if a := activeOf(g); a != nil {
		return a
	}
	for i := range g.Releases {
		if g.Releases[i].Status == v1alpha1.ReleaseCanary {
			return &g.Releases[i]
		}
	}
	return nil
}

// testable is the release of a group to which domains of the canary route: the canary, or
// one that is available and about which hooks of PreRollout are asked; nil: there is none.
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

// rejected reports that nothing of a group is to serve, and that none of the releases
// ever was active, or is there any more: what routes to them goes.
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

// live reports that a group is to have routes: it is neither closing nor an expired preview.
func live(g *v1alpha1.ReleaseGroup) bool {
	return g.Phase != v1alpha1.GroupClosing && g.Phase != v1alpha1.GroupExpired
}

// rollout finds groups and rows of a Microservice's status.
type rollout struct {
	groups []*v1alpha1.ReleaseGroup
	// row and group by name of the release.
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

// settled is a Microservice as it is when all canaries of groups whose active release can
// serve are aborted.
func (f *Observed) settled(m *v1alpha1.Microservice) *v1alpha1.Microservice {
	out := *m
	out.Status.ReleaseGroups = slices.Clone(m.Status.ReleaseGroups)
	for i := range out.Status.ReleaseGroups {
		g := &out.Status.ReleaseGroups[i]
		if a := activeOf(g); live(g) && a != nil && f.ready(a.VersionedMicroservice) {
			*g = *aborted(g)
		}
	}
	return &out
}

// aborted is a group whose active release has it all, and whose canary is none any more.
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

// Behind reports whether a live object, or the status of the policy, was written from a later state of the rollout state. The
// status counts because of a group whose objects are removed: without it, an old state would let the policy forget what it confirmed.
func Behind(m *v1alpha1.Microservice, f *Observed) bool {
	late := func(s resources.Stamp, ok bool) bool {
		if !ok {
			return false
		}
		if s.RolloutState != m.UID {
			return s.Sequence > 0 // Another Microservice: which of the two is there, the server knows.
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

// incomingUntested is the group above base, of which no active release answers, whose release hooks are
// to try, before newest domains are moving to it; nil: there is none.
func (d *planner) incomingUntested(base *v1alpha1.ReleaseGroup) *v1alpha1.ReleaseGroup {
	if Orphans(d.Policy) || activeOf(base) == nil || base.Level == v1alpha1.LevelPreview {
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
	active := activeOf(g)
	return active != nil && d.ready(active.VersionedMicroservice)
}

// servable reports whether a pin may route to a release (rule 33).
func servable(r *v1alpha1.Release) bool {
	return r.Status == v1alpha1.ReleaseActive || r.Status == v1alpha1.ReleaseCanary || r.Status == v1alpha1.ReleaseDeprecated && r.Promoted > 0
}

// pinned finds the release that a pin serves, which may be written like the tag of a version:
// the active one, else a canary, else the one that was active last; the newest group first.
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

// moved is a group whose traffic cannot be split: its active release has it all, and
// steps of a canary are waits. While the active release answers nothing, the canary stands
// in for it, as ever: it may be the fix.
func moved(g *v1alpha1.ReleaseGroup) *v1alpha1.ReleaseGroup {
	out := *g
	out.Releases = slices.Clone(g.Releases)
	for i := range out.Releases {
		r := &out.Releases[i]
		r.Weight, r.Match, r.MirrorPercent = 0, false, 0
		if r.Status == v1alpha1.ReleaseActive || r.Status == v1alpha1.ReleaseCanary && activeOf(g) == nil {
			r.Weight = 100
		}
	}
	return &out
}

// backendsOf are the releases between which a live route splits, with their weights.
func (d *planner) backendsOf(route *providers.Live) map[string]int {
	out := map[string]int{}
	for service, weight := range route.Weights {
		if name, ok := d.releases[service]; ok {
			out[name] = weight
		}
	}
	return out
}

// releasesOf are the releases that Services of the policy route to.
func (d *planner) releasesOf(services []string) []string {
	var out []string
	for _, service := range services {
		if name, ok := d.releases[service]; ok {
			out = append(out, name)
		}
	}
	return out
}
