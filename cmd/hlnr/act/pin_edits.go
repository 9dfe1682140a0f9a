package act

import (
	"slices"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/version"
)

// global returns the version or release of a group that spec.updateStrategy.manual pins directly, not in its list of groups. It returns
// an empty string if no release of the group is pinned in this way.
func global(m *v1alpha1.ManualUpdateStrategy, g *v1alpha1.ReleaseGroup) string {
	for _, r := range g.Releases {
		switch {
		case m.Release != "" && m.Release == r.VersionedMicroservice:
			return m.Release
		case m.SemVer != nil && (m.SemVer.Name == "" || g.HasName(m.SemVer.Name)) && version.Names(m.SemVer.Version, r.SemVer.Version):
			return m.SemVer.Version
		}
	}
	return ""
}

// setPin pins a group by its name. It replaces an existing pin of this group in the list, and keeps all other pins.
func setPin(spec *v1alpha1.MicroserviceSpec, g *v1alpha1.ReleaseGroup, pin v1alpha1.GroupPin) {
	m := spec.UpdateStrategy.Manual
	if m == nil {
		m = &v1alpha1.ManualUpdateStrategy{}
		spec.UpdateStrategy.Manual = m
	}
	pin.Name = g.Name
	at := slices.IndexFunc(m.Groups, func(p v1alpha1.GroupPin) bool { return g.HasName(p.Name) })
	m.Groups = slices.DeleteFunc(m.Groups, func(p v1alpha1.GroupPin) bool { return g.HasName(p.Name) })
	if at < 0 || at > len(m.Groups) {
		at = len(m.Groups)
	}
	m.Groups = slices.Insert(m.Groups, at, pin)
}

// removePin removes the pins of a group: the entries for this group in the list spec.updateStrategy.manual.groups, and a pin outside
// this list to a version or a release of this group. If no pins remain, removePin removes spec.updateStrategy.manual.
func removePin(spec *v1alpha1.MicroserviceSpec, g *v1alpha1.ReleaseGroup) {
	m := spec.UpdateStrategy.Manual
	if m == nil {
		return
	}
	m.Groups = slices.DeleteFunc(m.Groups, func(p v1alpha1.GroupPin) bool { return g.HasName(p.Name) })
	if len(m.Groups) == 0 {
		m.Groups = nil
	}
	if global(m, g) != "" {
		*m = v1alpha1.ManualUpdateStrategy{Groups: m.Groups}
	}
	if m.SemVer == nil && m.Release == "" && len(m.Groups) == 0 {
		spec.UpdateStrategy.Manual = nil
	}
}
