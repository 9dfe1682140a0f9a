package view

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/internal/version"
)

// Versions are the versions that the ImagePolicy of a service offers and rejects.
type Versions struct {
	metav1.TypeMeta `json:",inline"`
	Time            metav1.Time `json:"time"`
	Namespace       string      `json:"namespace"`
	Name            string      `json:"name"`
	// Discovery is the discovery result. It is nil if the ImagePolicy is not known.
	Discovery *Discovery `json:"discovery,omitempty"`
	// Offered contains the versions that the ImagePolicy offers, sorted from the newest group and version to the oldest.
	Offered []Offered `json:"offered"`
	// Rejected contains the number of rejected tags for each verdict. Discovery contains the newest rejected
	// tags.
	Rejected []VerdictCount `json:"rejected,omitempty"`
}

// Offered is a version that an ImagePolicy offers.
type Offered struct {
	Version string   `json:"version"`
	Group   string   `json:"group"`
	Level   string   `json:"level"`
	Images  []string `json:"images,omitempty"`
	// PullRequest is the number of the pull request of a preview.
	PullRequest int64        `json:"pullRequest,omitempty"`
	Released    *metav1.Time `json:"released,omitempty"`
	Commit      string       `json:"commit,omitempty"`
	URL         string       `json:"url,omitempty"`
	// Held reports whether the version is beyond the limits of the policy, and is offered only because it is
	// in use.
	Held bool `json:"held,omitempty"`
	// Status is the status of the release with this version. It is empty if there is no release.
	Status string `json:"status,omitempty"`
}

// VerdictCount is the number of rejected tags that have the same verdict.
type VerdictCount struct {
	Verdict string `json:"verdict"`
	Count   int32  `json:"count"`
}

// NewVersions returns the offered and rejected versions of a service, given its view.
func NewVersions(in Input, s Service, now time.Time) Versions {
	out := Versions{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: KindVersions}, Time: metav1.Time{Time: now.UTC()}, Namespace: s.Namespace, Name: s.Name, Discovery: s.Discovery, Offered: []Offered{}}
	if s.Discovery == nil {
		return out
	}
	statuses := map[string]string{}
	for _, list := range [][]Group{s.Groups, s.Previews} {
		for _, g := range list {
			for _, r := range g.Releases {
				if statuses[r.Version] == "" || r.Status == "active" {
					statuses[r.Version] = r.Status
				}
			}
		}
	}
	for i := range in.ImagePolicies {
		p := &in.ImagePolicies[i]
		if p.Namespace != s.Namespace || p.Name != s.Discovery.Policy {
			continue
		}
		for _, o := range p.Status.Releases {
			x := Offered{Version: o.SemVer.Version, Group: o.SemVer.Name, Level: string(o.Level), PullRequest: o.PullRequest, Released: metas(o.ReleaseTime), Commit: o.Revision, URL: o.URL, Held: o.Held, Status: statuses[o.SemVer.Version]}
			for _, image := range o.Images {
				x.Images = append(x.Images, image.Image)
			}
			out.Offered = append(out.Offered, x)
		}
		for _, c := range p.Status.Rejected {
			out.Rejected = append(out.Rejected, VerdictCount{Verdict: status.Line(c.Verdict), Count: c.Count})
		}
	}
	return out
}

// discovery returns the discovery result of the ImagePolicy of a service, or nil if the ImagePolicy is not known.
func (s *service) discovery() *Discovery {
	p := s.images[key(s.ms.Namespace, s.ms.Spec.ImagePolicyRef.Name)]
	if p == nil {
		return nil
	}
	out := &Discovery{Policy: p.Name, Image: p.Spec.Image, Latest: p.Status.Latest}
	if p.Status.Scan != nil {
		out.Tags, out.Changed = p.Status.Scan.Tags, timeOf(p.Status.Scan.ChangedTime.Time)
	}
	for _, kind := range []string{v1alpha1.ConditionSourceReachable, v1alpha1.ConditionReady} {
		for _, c := range p.Status.Conditions {
			if c.Type != kind {
				continue
			}
			out.Ready = c.Status == metav1.ConditionTrue
			if !out.Ready && out.Reason == "" {
				out.Reason, out.Message = c.Reason, status.Line(c.Message)
			}
		}
	}
	out.Ready = out.Ready && out.Reason == ""
	for _, c := range p.Status.Candidates {
		out.Rejected = append(out.Rejected, Verdict{Version: c.Version, Verdict: c.Verdict, Reason: status.Line(c.Reason)})
	}
	return out
}

// Denied reports whether an ImagePolicy, which may be nil, denies a version of a group. A denied version gets no traffic if another release can
// get the traffic, even if the denied version is pinned.
func Denied(p *v1alpha1.ImagePolicy, g *v1alpha1.ReleaseGroup, version string) bool {
	return p != nil && slices.ContainsFunc(p.Status.Withdrawn, func(w v1alpha1.Withdrawal) bool {
		return w.Group == g.Slug && w.Reason == v1alpha1.WithdrawnDenied && (w.Version == version || w.Version == "")
	})
}

// Withdrawn reports whether an ImagePolicy, which may be nil, no longer offers a version of a group, or denies it.
func Withdrawn(p *v1alpha1.ImagePolicy, g *v1alpha1.ReleaseGroup, version string) bool {
	return p != nil && slices.ContainsFunc(p.Status.Withdrawn, func(w v1alpha1.Withdrawal) bool {
		return w.Group == g.Slug && (w.Version == version || w.Version == "" && (w.Reason == v1alpha1.WithdrawnDenied || w.Reason == v1alpha1.WithdrawnGone))
	})
}

// OldestAbove returns the oldest live group if that group prevents the group of an offered version from starting. This is the case if the group of
// the offered version does not exist yet, and all its versions are below the oldest live group. Otherwise, OldestAbove returns nil. OldestAbove
// ignores groups in spec.endedGroups, because they are about to close, and previews, because they are not ordered relative to other groups.
func OldestAbove(ms *v1alpha1.Microservice, p *v1alpha1.ImagePolicy, o *v1alpha1.OfferedRelease) (oldest *v1alpha1.ReleaseGroup) {
	if o.Level == v1alpha1.LevelPreview || o.PullRequest > 0 {
		return nil
	}
	lowest := ""
	for i := range ms.Status.ReleaseGroups {
		g := &ms.Status.ReleaseGroups[i]
		if g.Slug == o.Group {
			return nil
		}
		if g.Phase != v1alpha1.GroupLive || isPreview(g) || ms.EndsGroup(g.Name, g.Slug, g.PullRequest) {
			continue
		}
		v := newestOffered(p, g.Slug)
		if a := g.ActiveRelease(); a != nil {
			v = a.SemVer.Version
		} else {
			for _, r := range g.Releases {
				v = higher(v, r.SemVer.Version)
			}
		}
		if v != "" && (oldest == nil || version.Compare(v, lowest) < 0) {
			oldest, lowest = g, v
		}
	}
	if oldest == nil || version.Compare(higher(o.SemVer.Version, newestOffered(p, o.Group)), lowest) >= 0 {
		return nil
	}
	return oldest
}

// newestOffered returns the highest version that an ImagePolicy, which may be nil, offers in a group, or "".
func newestOffered(p *v1alpha1.ImagePolicy, slug string) (out string) {
	if p == nil {
		return ""
	}
	for i := range p.Status.Releases {
		if o := &p.Status.Releases[i]; o.Group == slug {
			out = higher(out, o.SemVer.Version)
		}
	}
	return out
}

// higher returns the higher of two versions. An empty string is below all versions.
func higher(a, b string) string {
	if a == "" || b != "" && version.Compare(a, b) < 0 {
		return b
	}
	return a
}

// RollbackTarget is a previously active release to which its group can be rolled back.
type RollbackTarget struct {
	Group, Version, Release string
	// Last reports whether the release was active directly before the current release.
	Last bool
	// Active reports whether the release is active. In that case, a rollback ends the rollout of the group and returns the
	// group to this release.
	Active bool
}

// RollbackTargets returns the retained releases of a service, and the active releases of groups with a rollout in progress. It omits the releases of
// previews and of denied versions. In each group, the most recently promoted retained release comes first.
func RollbackTargets(in Input, namespace, name string) (out []RollbackTarget) {
	for i := range in.Microservices {
		ms := &in.Microservices[i]
		if ms.Namespace != namespace || ms.Name != name {
			continue
		}
		i := slices.IndexFunc(in.ImagePolicies, func(p v1alpha1.ImagePolicy) bool {
			return p.Namespace == namespace && p.Name == ms.Spec.ImagePolicyRef.Name
		})
		var policy *v1alpha1.ImagePolicy
		if i >= 0 {
			policy = &in.ImagePolicies[i]
		}
		for j := range ms.Status.ReleaseGroups {
			if g := &ms.Status.ReleaseGroups[j]; g.Phase == v1alpha1.GroupLive && !isPreview(g) {
				out = append(out, targetsOf(g, policy)...)
			}
		}
	}
	return out
}

// targetsOf returns the releases to which a group can be rolled back.
func targetsOf(g *v1alpha1.ReleaseGroup, policy *v1alpha1.ImagePolicy) (out []RollbackTarget) {
	rows := slices.DeleteFunc(slices.Clone(g.Releases), func(r v1alpha1.Release) bool {
		return r.Status != v1alpha1.ReleaseDeprecated || r.Promoted == 0 || Denied(policy, g, r.SemVer.Version)
	})
	slices.SortStableFunc(rows, func(a, b v1alpha1.Release) int { return cmp.Compare(b.Promoted, a.Promoted) })
	found := false
	active := slices.ContainsFunc(g.Releases, func(r v1alpha1.Release) bool { return r.Status == v1alpha1.ReleaseActive })
	for _, r := range rows {
		// After a rollback, the release that was rolled back is above the active release, and is not Last.
		last := !found && !(active && aboveActive(g, &r))
		found = found || last
		out = append(out, RollbackTarget{Group: g.Name, Version: r.SemVer.Version, Release: r.VersionedMicroservice, Last: last})
	}
	for _, r := range g.Releases {
		if r.Status == v1alpha1.ReleaseActive && g.Rollout != nil && !Denied(policy, g, r.SemVer.Version) {
			out = append(out, RollbackTarget{Group: g.Name, Version: r.SemVer.Version, Release: r.VersionedMicroservice, Active: true})
		}
	}
	return out
}
