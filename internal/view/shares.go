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
	if out.Asked != nil {
		targets := s.targets(g, reports)
		out.Programmed = programmed(targets, row.VersionedMicroservice)
		done := out.Programmed != nil && *out.Programmed == *out.Asked || len(targets) == 0 && confirmed(g, row, reports)
		if len(reports) > 0 && !done {
			out.Since = micros(g.TrafficTime)
		}
	}
	if o, ok := s.Observed[key(s.ms.Namespace, row.VersionedMicroservice)]; ok {
		out.Observed, out.Window = &o.Percent, Age(o.Window)
	}
	return out
}

// target is a host, a listener or a user-managed route that splits the traffic of a group.
type target struct {
	programmed bool
	backends   []v1alpha1.DomainBackend
}

// targets returns the hosts that split the traffic of a group. If there are none, it returns the listeners and user-managed routes that do. Targets that
// route to a single release, because they have a fixed version or are only for the canary, are omitted.
func (s *service) targets(g *v1alpha1.ReleaseGroup, reports []report) (hosts []target) {
	var others []target
	for _, p := range s.policies {
		add := func(list *[]target, slug string, done bool, reason string, backends []v1alpha1.DomainBackend) {
			if slug == g.Slug && reason != "NoCanary" && !alone(backends, p.Name, reports) {
				*list = append(*list, target{done, backends})
			}
		}
		for _, d := range p.Status.Domains {
			add(&hosts, d.Group, d.Programmed, d.Reason, d.Backends)
		}
		for _, l := range p.Status.Listeners {
			add(&others, l.Group, l.Programmed, l.Reason, l.Backends)
		}
		for _, r := range p.Status.Routes {
			add(&others, r.Group, r.Programmed, r.Reason, r.Backends)
		}
	}
	if len(hosts) > 0 {
		return hosts
	}
	return others
}

// programmed returns the weight of a release at the targets that split the traffic of its group. It returns nil if there are no such targets, or if
// not all of them are programmed with the same weight.
func programmed(targets []target, release string) (out *int32) {
	for _, t := range targets {
		if !t.programmed || len(t.backends) == 0 {
			return nil
		}
		weight := int32(0)
		for _, b := range t.backends {
			if b.Release == release {
				weight += b.Weight
			}
		}
		if out != nil && *out != weight {
			return nil
		}
		out = &weight
	}
	return out
}

// confirmed reports whether all policies have confirmed the weight of a release in a group whose traffic no host, listener or user-managed route
// splits. If a policy does not split traffic, its Service routes all traffic to a single release.
func confirmed(g *v1alpha1.ReleaseGroup, row *v1alpha1.Release, reports []report) bool {
	for _, rep := range reports {
		whole := int32(0)
		if rep.Active == row.VersionedMicroservice {
			whole = 100
		}
		switch {
		case rep.Revision == 0 || rep.Revision < g.TrafficRevision || rep.Unrouted || slices.Contains(rep.Withheld, row.VersionedMicroservice):
			return false
		case rep.Split == v1alpha1.SplitWhole && rep.Active != "" && row.Weight != whole:
			return false
		}
	}
	return true
}

// alone reports whether backends consist only of a release with a fixed version, or only of the canary.
func alone(backends []v1alpha1.DomainBackend, policy string, reports []report) bool {
	if len(backends) != 1 {
		return false
	}
	for _, rep := range reports {
		if rep.policy.Name == policy && (rep.Canary == backends[0].Release || slices.Contains(rep.Pinned, backends[0].Release)) {
			return true
		}
	}
	return false
}
