package networkpolicy

import (
	"slices"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

func (d *decider) liveGroups() []*v1alpha1.ReleaseGroup {
	return slices.DeleteFunc(slices.Clone(d.ledger.groups), func(g *v1alpha1.ReleaseGroup) bool { return !live(g) })
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

// choose picks the group that something shared leads to (rule 9): the first of
// candidates whose active release has ready endpoints, if it comes before the
// current one; until then the current one, as long as it has an active release. It
// never moves back because of endpoints that come and go.
func (d *decider) choose(candidates []*v1alpha1.ReleaseGroup, current string) *v1alpha1.ReleaseGroup {
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

// comer is the group to which newest domains that lead to base are on their way: a newer
// one whose first release is a canary. nil: there is none, or what the domains lead to is
// left behind (rule 20).
func (d *decider) comer(base *v1alpha1.ReleaseGroup) *v1alpha1.ReleaseGroup {
	if base == nil || orphans(d.policy) || activeOf(base) == nil || base.Level == v1alpha1.LevelPreview {
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

// carriedBy is the slug of the group to which a live route leads the host of a
// shared domain. Where the host itself depends on the group, the report of the
// last pass tells.
func (d *decider) carriedBy(r row, entry v1alpha1.Domain) string {
	path := r.path
	if r.user != "" {
		if live := d.live[r.user]; live != nil && !live.Leaving {
			return live.Group()
		}
		return ""
	}
	if r.listener != "" {
		if live := d.live[listenerKey(r.listener, r.port).name(d.policy.Name, 0)]; live != nil && !live.Leaving {
			return live.Group()
		}
		return ""
	}
	if templated(entry.Domain) {
		for _, g := range d.liveGroups() {
			if host, err := render(entry.Domain, d.policy, g); err == nil {
				if slug := d.hostGroup(host, path); slug != "" {
					return slug
				}
			}
		}
		return ""
	}
	host, err := render(entry.Domain, d.policy, nil)
	if err != nil {
		return ""
	}
	return d.hostGroup(host, path)
}

func (d *decider) hostGroup(host, path string) string {
	for _, name := range sortedKeys(d.live) {
		route := d.live[name]
		if !route.Leaving && route.Path == path && slices.Contains(route.Hostnames, host) {
			return route.Group()
		}
	}
	return ""
}
