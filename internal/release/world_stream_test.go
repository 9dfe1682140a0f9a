package release

import (
	"iter"
	"maps"
	"slices"

	"github.com/heighliner/heighliner/internal/split"
)

// stream is the route for the domains that route to the newest group.
type stream struct {
	routed
	// slug is the group to which the domains route, and newer is the group to which they are moving.
	slug, newer string
	// sequence is the sequence of the rollout state with which the route was written, and revisions are the revisions by group.
	sequence  int64
	revisions map[string]int64
}

// streamKey is the key under which a reconcile stores the version of the newest domains' route.
const streamKey = "newest"

// objects returns all objects that a policy wrote.
func (n *net) objects() iter.Seq2[string, *routed] {
	return func(yield func(string, *routed) bool) {
		for slug, c := range n.routes {
			if !yield(slug, c) {
				return
			}
		}
		if n.stream != nil {
			yield(streamKey, &n.stream.routed)
		}
	}
}

// mainOf returns the release that a group serves by default. This is its active release or, if there is none, the canary that
// is its first release.
func mainOf(g *Group) string {
	if a := g.ActiveRow(); a != nil {
		return a.Release
	}
	for _, r := range g.Releases {
		if r.Status == Canary {
			return r.Release
		}
	}
	return ""
}

// neverServed reports whether a group has neither a release that should serve nor a previously active release in its last
// written route.
func neverServed(last map[string]int, g *Group) bool {
	if mainOf(g) != "" {
		return false
	}
	for name := range last {
		if r := g.Row(name); r == nil || r.Promoted > 0 {
			return false
		}
	}
	return true
}

// holder returns the live group to which the newest domains route. This is the first group with an active release if that
// release has endpoints, or if the domains already route to the group. If there is no such group, the domains stay with their group.
func (n *net) holder() *Group {
	var live []*Group
	for i := range n.pass.rolloutState.Groups {
		if g := &n.pass.rolloutState.Groups[i]; g.Phase == Live {
			live = append(live, g)
		}
	}
	current := ""
	if n.stream != nil {
		current = n.stream.slug
	}
	for _, g := range live {
		if a := g.ActiveRow(); a != nil && (g.Slug == current || n.pass.ready[a.Release] > 0) {
			return g
		}
	}
	for _, wanted := range []func(*Group) bool{
		func(g *Group) bool { return g.Slug == current },
		func(g *Group) bool { return g.ActiveRow() != nil },
		func(*Group) bool { return true },
	} {
		if i := slices.IndexFunc(live, wanted); i >= 0 {
			return live[i]
		}
	}
	return nil
}

// incoming returns the group to which the newest domains are moving.
func (n *net) incoming(base *Group) *Group {
	if base.ActiveRow() == nil || base.Level == preview {
		return nil
	}
	for i := range n.pass.rolloutState.Groups {
		g := &n.pass.rolloutState.Groups[i]
		if g.Slug == base.Slug {
			return nil
		}
		if g.Phase == Live && g.Level != preview && g.ActiveRow() == nil && mainOf(g) != "" {
			return g
		}
	}
	return nil
}

// carryStream writes the route of the newest domains.
func (w *world) carryStream(n *net) {
	base := n.holder()
	if !n.newest || base == nil {
		if n.stream != nil {
			n.stream.written, n.stream.revisions = nil, nil
		}
		return
	}
	c := n.stream
	if c == nil {
		c = &stream{}
		n.stream = c
	}
	shares := func(g *Group) (out []split.Share) {
		for _, r := range g.Releases {
			withheld := slices.Contains(n.reports[g.Slug].Withheld, r.Release) && c.written[r.Release] == 0
			out = append(out, split.Share{Release: r.Release, Eligible: r.Status == Active || r.Status == Canary, Weight: r.Weight, Ready: n.pass.ready[r.Release] > 0, Available: r.Available, Withheld: withheld})
		}
		return out
	}
	all, both := shares(base), *base
	c.slug, c.newer, c.sequence = base.Slug, "", n.pass.rolloutState.Sequence
	c.revisions = map[string]int64{base.Slug: base.TrafficRevision}
	if g := n.incoming(base); g != nil {
		row := *g.Row(mainOf(g))
		for _, s := range shares(g) {
			if s.Release == row.Release {
				all = split.Join(all, s)
			}
		}
		both.Releases = append(slices.Clone(base.Releases), row)
		c.newer, c.revisions[g.Slug] = g.Slug, g.TrafficRevision
	}
	had := len(c.written) > 0
	weights, withheld := split.Weights(all)
	c.answers, c.withheld = true, withheld
	if weights == nil {
		weights, c.answers = holdRoutes(c.written, &both)
		weights = whole(weights)
	}
	for _, r := range both.Releases {
		if _, there := weights[r.Release]; !there && r.Status == Canary && (r.Match || r.Mirror > 0) && n.pass.ready[r.Release] > 0 {
			if weights = maps.Clone(weights); weights == nil {
				weights = map[string]int{}
			}
			weights[r.Release] = 0
		}
	}
	c.written = weights
	w.checkStream(n, base, had)
}

// whole scales weights so that they add up to 100 again after a release was removed. The largest weight includes the remainder.
func whole(weights map[string]int) map[string]int {
	total, largest := 0, ""
	for _, release := range slices.Sorted(maps.Keys(weights)) {
		total += weights[release]
		if weights[release] > weights[largest] {
			largest = release
		}
	}
	if total == 0 || total == 100 {
		return weights
	}
	out, rest := maps.Clone(weights), 100
	for release, weight := range weights {
		if release != largest {
			out[release] = weight * 100 / total
			rest -= out[release]
		}
	}
	out[largest] = rest
	return out
}

// checkStream checks the written route for the newest domains against invariants 2 and 3.
func (w *world) checkStream(n *net, base *Group, had bool) {
	sum, serves := 0, false
	for release, weight := range n.stream.written {
		sum += weight
		serves = serves || weight > 0 && n.pass.ready[release] > 0
	}
	if len(n.stream.written) > 0 && sum != 100 {
		w.fail("invariant 2: the newest domains route to %v", n.stream.written)
	}
	if had && len(n.stream.written) == 0 {
		w.fail("invariant 3: the newest domains no longer route to a release")
	}
	if a := base.ActiveRow(); a != nil && n.pass.ready[a.Release] > 0 && !serves {
		w.fail("invariant 3: the newest domains route to %v, although %s has endpoints", n.stream.written, a.Release)
	}
	if a := base.ActiveRow(); a != nil && n.pass.ready[a.Release] > 0 {
		for release, weight := range n.stream.written {
			if weight > 0 && n.pass.ready[release] == 0 {
				w.fail("invariant 3: the newest domains route to %v, although %s has no endpoint", n.stream.written, release)
			}
		}
	}
}

// groupOfRelease finds the group of a release. If the rollout state does not contain the release, it returns the group of
// the route.
func (w *world) groupOfRelease(n *net, release string) string {
	for i := range n.pass.rolloutState.Groups {
		if g := &n.pass.rolloutState.Groups[i]; g.Row(release) != nil {
			return g.Slug
		}
	}
	return n.stream.slug
}

// streamOf returns a group's part of the route of the newest domains: the group's releases to which the route refers,
// the group's releases that the route withholds, and whether the gateway has accepted the route for the group's revision.
func (w *world) streamOf(n *net, g *Group) (names, withheld []string, settled bool) {
	c := n.stream
	if c == nil {
		return nil, nil, true
	}
	for _, name := range c.names() {
		if w.groupOfRelease(n, name) == g.Slug {
			names = append(names, name)
		}
	}
	for _, name := range c.withheld {
		if w.groupOfRelease(n, name) == g.Slug {
			withheld = append(withheld, name)
		}
	}
	revision, concerned := c.revisions[g.Slug]
	if !concerned || !n.newest {
		return names, withheld, len(names) == 0 || maps.Equal(c.written, c.accepted)
	}
	return names, withheld, revision == g.TrafficRevision && c.answers && maps.Equal(c.written, c.accepted)
}

// checkMove checks that the newest domains move to a new group in steps. A group must not start with an
// active release while an older group serves these domains.
func (w *world) checkMove(o Observed, g, h *Group) {
	if len(o.Spec.Steps) == 0 || h.Level == preview || h.Phase != Live || g.ActiveRow() != nil || h.ActiveRow() == nil {
		return
	}
	a := h.ActiveRow()
	if a.Reason != "First" {
		return
	}
	followed := slices.ContainsFunc(o.Policies, func(p Policy) bool {
		return slices.ContainsFunc(p.Groups, func(r Report) bool { return r.Newest })
	})
	if was := g.Row(a.Release); !followed || was != nil && was.Promoted > 0 {
		return
	}
	serves := false
	for i := range o.State.Groups {
		x := &o.State.Groups[i]
		if x.Level == preview || x.Phase != Live || x.ActiveRow() == nil {
			continue
		}
		if byNewest(x, g) < 0 {
			return // It is an older group, to which no domains move.
		}
		serves = serves || hasObject(o, x.ActiveRow().Release)
	}
	for _, x := range w.next.Groups {
		if y := o.State.group(x.Slug); y != nil && y.ActiveRow() != nil && x.ActiveRow() == nil {
			return // The older group ends in the same write.
		}
		if x.Phase == Live && x.Level != preview && x.ActiveRow() != nil && x.Slug != h.Slug && byNewest(&x, h) < 0 {
			return // A newer group began in the same write.
		}
	}
	if serves {
		w.fail("the newest domains move to %s immediately", a.Release)
	}
}
