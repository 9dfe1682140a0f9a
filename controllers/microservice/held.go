package microservice

import (
	"slices"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
	versions "github.com/heighliner/heighliner/internal/version"
)

// concerns says that an offer beyond the limits of the ImagePolicy, which is there
// because somebody holds or pins it, is there for this Microservice: it has the
// group, or pins the version. What only others hold starts no group here (rule 17).
func (w *world) concerns(o *v1alpha1.OfferedRelease) bool {
	return slices.ContainsFunc(w.ms.Status.ReleaseGroups, func(g v1alpha1.ReleaseGroup) bool { return g.Slug == o.Group }) ||
		slices.ContainsFunc(w.facts.Children, func(c release.Child) bool { return c.Slug == o.Group }) ||
		slices.ContainsFunc(w.facts.Spec.Pins, func(p release.Pin) bool {
			return versions.Names(p.Version, o.SemVer.Version) && (p.Group == "" || p.Group == o.Group || p.Group == o.SemVer.Name)
		})
}
