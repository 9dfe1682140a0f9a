package view

import (
	"cmp"
	"slices"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
)

// hosts returns the hosts that route to a group. Programmed hosts come first.
func (s *service) hosts(g *v1alpha1.ReleaseGroup) (out []Host) {
	for _, p := range s.policies {
		for i := range p.Status.Domains {
			if d := &p.Status.Domains[i]; d.Group == g.Slug {
				out = append(out, hostOf(p, d))
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Host) int { return cmp.Compare(rankOf(a.Programmed), rankOf(b.Programmed)) })
	return out
}

func rankOf(good bool) int {
	if good {
		return 0
	}
	return 1
}

func hostOf(p *v1alpha1.NetworkPolicy, d *v1alpha1.DomainStatus) Host {
	h := Host{Policy: p.Name, Host: d.Domain, Path: d.Path, URL: d.URL, Programmed: d.Programmed, Reason: d.Reason, Message: status.Line(d.Message)}
	for _, b := range d.Backends {
		h.Backends = append(h.Backends, Backend{Release: b.Release, Version: b.Version, Weight: b.Weight})
	}
	return h
}

// share returns a release's share of its group's traffic.
func (s *service) share(g *v1alpha1.ReleaseGroup, row *v1alpha1.Release) Share {
	out := Share{Match: row.Match, Mirror: row.MirrorPercent}
	serving := row.Status == v1alpha1.ReleaseActive || row.Status == v1alpha1.ReleaseCanary
	if g.Phase == v1alpha1.GroupLive && serving {
		out.Asked = &row.Weight
	}
	reports := s.reports(g.Slug)
	for _, rep := range reports {
		out.Withheld = out.Withheld || slices.Contains(rep.Withheld, row.VersionedMicroservice)
	}
	if out.Asked != nil || row.Status == v1alpha1.ReleaseError {
		out.Programmed = s.programmed(g, row.VersionedMicroservice, reports)
	}
	if out.Asked == nil {
		out.Programmed = nil
	}
	if out.Asked != nil && len(reports) > 0 && (out.Programmed == nil || *out.Programmed != *out.Asked) {
		out.Since = micros(g.TrafficTime)
	}
	if o, ok := s.Observed[key(s.ms.Namespace, row.VersionedMicroservice)]; ok {
		out.Observed, out.Window = &o.Percent, Age(o.Window)
	}
	return out
}

// programmed returns the weight of a release at the hosts that split the traffic of its group. It returns nil unless
// all these hosts are programmed with the same weight. Hosts that route to a single release, because they have a
// fixed version or are canary domains, do not count.
func (s *service) programmed(g *v1alpha1.ReleaseGroup, release string, reports []report) (out *int32) {
	for _, p := range s.policies {
		for i := range p.Status.Domains {
			d := &p.Status.Domains[i]
			if d.Group != g.Slug || alone(d, p.Name, reports) {
				continue
			}
			if !d.Programmed || len(d.Backends) == 0 {
				return nil
			}
			weight := int32(0)
			for _, b := range d.Backends {
				if b.Release == release {
					weight += b.Weight
				}
			}
			if out != nil && *out != weight {
				return nil
			}
			out = &weight
		}
	}
	return out
}

// alone reports whether a domain routes only to a release with a fixed version, or only to the canary.
func alone(d *v1alpha1.DomainStatus, policy string, reports []report) bool {
	if len(d.Backends) != 1 {
		return false
	}
	for _, rep := range reports {
		if rep.policy.Name == policy && (rep.Canary == d.Backends[0].Release || slices.Contains(rep.Pinned, d.Backends[0].Release)) {
			return true
		}
	}
	return false
}
