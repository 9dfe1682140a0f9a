package view

import (
	"cmp"
	"slices"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// RollbackTarget is a retained release, to which its group can be rolled back.
type RollbackTarget struct {
	Group, Version, Release string
	// Last reports whether it was active last, before the current release.
	Last bool
}

// RollbackTargets returns the retained releases of a service without those of previews, in each group the one that was active last first.
func RollbackTargets(in Input, namespace, name string) (out []RollbackTarget) {
	for i := range in.Microservices {
		ms := &in.Microservices[i]
		if ms.Namespace != namespace || ms.Name != name {
			continue
		}
		for j := range ms.Status.ReleaseGroups {
			if g := &ms.Status.ReleaseGroups[j]; g.Phase == v1alpha1.GroupLive && !isPreview(g) {
				out = append(out, retainedOf(g)...)
			}
		}
	}
	return out
}

// retainedOf returns the retained releases of a group, the one that was active last first.
func retainedOf(g *v1alpha1.ReleaseGroup) (out []RollbackTarget) {
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
	return out
}
