package view

import (
	"cmp"
	"slices"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// RollbackTarget is a release that was active, to which its group can be rolled back.
type RollbackTarget struct {
	Group, Version, Release string
	// Last reports whether it was active last, before the current release.
	Last bool
	// Active reports whether it is active: the group returns to it from a rollout.
	Active bool
}

// RollbackTargets returns the retained releases of a service, and the active ones of groups with a rollout, without those of
// previews. In each group the release that was active last is the first one.
func RollbackTargets(in Input, namespace, name string) (out []RollbackTarget) {
	for i := range in.Microservices {
		ms := &in.Microservices[i]
		if ms.Namespace != namespace || ms.Name != name {
			continue
		}
		for j := range ms.Status.ReleaseGroups {
			if g := &ms.Status.ReleaseGroups[j]; g.Phase == v1alpha1.GroupLive && !isPreview(g) {
				out = append(out, targetsOf(g)...)
			}
		}
	}
	return out
}

// targetsOf returns the releases to which a group can be rolled back.
func targetsOf(g *v1alpha1.ReleaseGroup) (out []RollbackTarget) {
	rows := slices.DeleteFunc(slices.Clone(g.Releases), func(r v1alpha1.Release) bool {
		return r.Status != v1alpha1.ReleaseDeprecated || r.Promoted == 0
	})
	slices.SortStableFunc(rows, func(a, b v1alpha1.Release) int { return cmp.Compare(b.Promoted, a.Promoted) })
	found := false
	active := slices.ContainsFunc(g.Releases, func(r v1alpha1.Release) bool { return r.Status == v1alpha1.ReleaseActive })
	for _, r := range rows {
		// After a rollback the release that was left is above the active one.
		last := !found && !(active && aboveActive(g, &r))
		found = found || last
		out = append(out, RollbackTarget{Group: g.Name, Version: r.SemVer.Version, Release: r.VersionedMicroservice, Last: last})
	}
	for _, r := range g.Releases {
		if r.Status == v1alpha1.ReleaseActive && g.Rollout != nil {
			out = append(out, RollbackTarget{Group: g.Name, Version: r.SemVer.Version, Release: r.VersionedMicroservice, Active: true})
		}
	}
	return out
}
