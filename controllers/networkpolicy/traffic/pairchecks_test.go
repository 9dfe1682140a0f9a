package traffic

import (
	"maps"
	"slices"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/version"
)

// measure sets the measurement results of steps according to the quality of their versions.
func (p *pair) measure() (did bool) {
	if !p.spec.Analysis {
		return false
	}
	for i := range p.rollout.Groups {
		run := p.rollout.Groups[i].Rollout
		if run == nil || run.Step == 0 || p.objects[run.Release] == nil {
			continue
		}
		o := p.objects[run.Release]
		phase := release.VerdictPassed
		if x, ok := p.quality[o.Version]; ok {
			phase = x
		}
		v := release.Verdict{Rollout: run.Sequence, Step: run.Step, Since: run.WaitingSince, Phase: phase}
		if o.Analysis == nil || *o.Analysis != v {
			o.Analysis, did = &v, true
		}
	}
	return did
}

// policyWrites returns the number of writes of all policies.
func (p *pair) policyWrites() (n int) {
	for _, x := range p.nets {
		n += x.writes
	}
	return n
}

// checkOutside checks that, after all faults outside the releases have ended, no release is in
// error because of such a fault.
func (p *pair) checkOutside() {
	for _, g := range p.rollout.Groups {
		for _, r := range g.Releases {
			if r.Status == release.Error && slices.Contains([]release.Reason{"Unschedulable", "ContainerCreating", "QuotaExceeded", "ImagePullBackOff", "AdmissionUnavailable", "TrafficNotProgrammed", "NotCreated", "CanaryDomainsNotProgrammed", "HookUnanswered"}, r.Reason) {
				p.fail("outside: %s is in error because of %s", r.Release, r.Reason)
			}
		}
	}
}

// checkRecord checks a write of the rollout state against the expectations of users.
func (p *pair) checkRecord(o release.Observed, plan release.Result) {
	for i := range plan.State.Groups {
		g := &plan.State.Groups[i]
		var was *release.Group
		for j := range p.rollout.Groups {
			if p.rollout.Groups[j].Slug == g.Slug {
				was = &p.rollout.Groups[j]
			}
		}
		active, sum := 0, 0
		for _, r := range g.Releases {
			sum += r.Weight
			if r.Status == release.Active {
				active++
			}
			if r.Weight > 0 && r.Status != release.Active && r.Status != release.Canary {
				p.fail("weights: %s is %s and has %d%%", r.Release, r.Status, r.Weight)
			}
		}
		if active > 1 || active == 1 && g.Phase == release.Live && sum != 100 {
			p.fail("weights: group %s has %d active and %d%%", g.Slug, active, sum)
		}
		if was == nil {
			continue
		}
		p.checkReturn(o, was, g)
		stopped := p.spec.Paused || p.spec.Freeze != nil && p.now.Before(p.spec.Freeze.Until)
		for _, r := range g.Releases {
			b := was.Row(r.Release)
			old := release.Row{}
			if b != nil {
				old = *b
			}
			k := p.objects[r.Release]
			decided := r.Decision != nil && (old.Decision == nil || old.Decision.ID != r.Decision.ID)
			oldActive := was.ActiveRow()
			if stopped && old.Promoted == 0 && r.Weight > old.Weight && !decided && was.Phase == release.Live && r.Reason != "ActiveLost" && oldActive != nil && p.objects[oldActive.Release] != nil && !old.Adopted {
				p.fail("stopped: %s goes from %d%% to %d%% (%s) while paused or frozen", r.Release, old.Weight, r.Weight, r.Reason)
			}
			if r.Status == release.Error && old.Status != release.Error && old.Status != "" && !decided && k != nil && k.why == "" && k.Replicas > 0 && k.Available >= k.Replicas && !k.Unsettled && k.ready >= k.Replicas &&
				r.Reason != "HookFailed" && r.Reason != "AnalysisFailed" {
				withheld := false
				for _, pol := range o.Policies {
					for _, x := range pol.Groups {
						withheld = withheld || slices.Contains(x.Withheld, r.Release)
					}
				}
				if !withheld {
					p.fail("healthy: %s fails (%s) with %d of %d pods", r.Release, r.Reason, k.Available, k.Replicas)
				}
			}
		}
		// A release must not start while there is a higher version that has not failed.
		if g.Rollout != nil && g.Target.Reason == release.Latest && (was.Rollout == nil || was.Rollout.Release != g.Rollout.Release) && len(p.spec.Pins) == 0 && g.Level != "Preview" {
			for _, c := range o.Candidates {
				if c.Slug != g.Slug || c.Release == g.Rollout.Release {
					continue
				}
				t := g.Row(g.Rollout.Release)
				r := g.Row(c.Release)
				if t == nil || t.Promoted > 0 || version.Compare(c.Version, t.Version) <= 0 {
					continue
				}
				if r != nil && r.Status == release.Error || p.deniedIn(was, c.Version) || g.Failed.Version != "" {
					continue
				}
				p.fail("older: %s starts although %s is offered", g.Rollout.Release, c.Version)
			}
		}
	}
}

// checkGap checks that, while any group has an active release with ready pods, each host that the gateway serves and
// that the specification still contains remains in a route that the gateway accepted.
func (p *pair) checkGap(name string, f *Observed, out *Decision) {
	n := p.nets[name]
	if f.Policy.Spec.Provider == nil || f.Policy.Spec.Provider.Gateway == nil || n.full || len(n.claims) > 0 || len(n.foreign) > 0 || n.ms == nil || p.ms != n.ms {
		return
	}
	answers := false
	for i := range p.rollout.Groups {
		g := &p.rollout.Groups[i]
		a := g.ActiveRow()
		if g.Phase == release.Live && g.Level != "Preview" && a != nil && p.objects[a.Release] != nil && p.objects[a.Release].ready > 0 && f.ready(a.Release) {
			answers = true
		}
	}
	if !answers {
		return
	}
	host := "shop.example.com"
	if !slices.ContainsFunc(f.Policy.Spec.Domains, func(d v1alpha1.Domain) bool { return d.Domain == host }) {
		return
	}
	before, after := false, false
	d := newPlanner(n.observed())
	for route, served := range n.serves {
		if served.deleted || !slices.Contains(served.hosts, host) {
			continue
		}
		before = true
		live := d.Live[route]
		after = after || live != nil && !live.Deleting && slices.Contains(live.Hostnames, host)
	}
	if before && !after {
		p.fail("gap: policy %s: the gateway no longer serves %s", name, host)
	}
}

// checkTruth checks that, in a stable state, the reported backends of programmed domains are those
// that the gateway serves.
func (p *pair) checkTruth() {
	for name, n := range p.nets {
		if n.stuck || n.full || n.gateways[pairGateway] == nil || n.policy.Spec.Provider == nil || n.policy.Spec.Provider.Gateway == nil {
			continue
		}
		for _, g := range n.policy.Status.Groups {
			if g.Slug == "" || g.Split == "" {
				p.fail("status: the API server would reject a report without a group or a split: %+v", g)
			}
		}
		for _, d := range n.policy.Status.Domains {
			if !d.Programmed || d.Path != "" {
				continue
			}
			found, same := false, false
			var served map[string]int
			for _, s := range n.serves {
				if s.deleted || !slices.Contains(s.hosts, d.Domain) {
					continue
				}
				found, served = true, s.releases
				weights := map[string]int{}
				for _, b := range d.Backends {
					if b.Weight > 0 { // A release without a weight gets only matched and mirrored requests.
						weights[b.Release] = int(b.Weight)
					}
				}
				same = same || maps.Equal(weights, positive(s.releases))
			}
			if !found {
				p.fail("truth: policy %s reports %s as programmed, but no gateway serves it", name, d.Domain)
			} else if !same {
				p.fail("truth: policy %s reports %v for %s, but the gateway serves %v", name, d.Backends, d.Domain, served)
			}
		}
	}
}

// positive returns the weights that are greater than zero.
func positive(weights map[string]int) map[string]int {
	out := maps.Clone(weights)
	maps.DeleteFunc(out, func(_ string, w int) bool { return w == 0 })
	return out
}

// checkSilence checks that, in a stable state without a pending timer, each rollout and each group
// reports why it does not continue.
func (p *pair) checkSilence() {
	plan := release.Plan(p.observe(), p.now)
	if plan.Changed || !plan.RequeueTime.IsZero() {
		return
	}
	reported := func(slug string) bool {
		return slices.ContainsFunc(plan.Notes, func(n release.Note) bool { return !n.Event && (n.Slug == slug || n.Slug == "") })
	}
	for _, g := range plan.State.Groups {
		if g.Phase == release.Expired || reported(g.Slug) {
			continue
		}
		if run := g.Rollout; run != nil {
			if k := p.objects[run.Release]; k != nil && !p.denied[run.Release] && k.Available >= k.Replicas && k.Replicas > 0 {
				p.fail("silent: the rollout of %s does not continue, and no state shows why (paused: %t)", run.Release, p.spec.Paused)
			}
			continue
		}
		if g.Phase == release.Closing {
			p.fail("silent: group %s is closing, and no state shows what it is waiting for: %+v", g.Slug, g.Releases)
		}
		if p.spec.Paused || p.config == "" {
			continue
		}
		for _, c := range p.observe().Candidates {
			if r := g.Row(c.Release); c.Slug == g.Slug && g.ActiveRow() == nil && (r == nil || r.Status != release.Error) && !p.deniedIn(&g, c.Version) {
				p.fail("silent: group %s has no active release although %s is offered, and no state shows why: %+v", g.Slug, c.Version, g)
			}
		}
	}
}

// checkReturn checks that the last active release serves again when its group is reopened, and that
// a failed release is not tried again without a decision.
func (p *pair) checkReturn(o release.Observed, was, g *release.Group) {
	if was.Phase == release.Closing && g.Phase == release.Live && g.ActiveRow() == nil && g.Target.Reason != release.Pinned {
		var last release.Row
		for _, r := range was.Releases {
			if k := p.objects[r.Release]; r.Promoted > last.Promoted && r.Status != release.Error && k != nil && !k.Terminating && !p.deniedIn(was, r.Version) {
				last = r
			}
		}
		if k := p.objects[last.Release]; k != nil && k.Available > 0 && !k.Unsettled {
			p.fail("return: %s is reopened without an active release, although %s has pods", g.Slug, last.Release)
		}
	}
	for _, r := range g.Releases {
		b, k := was.Row(r.Release), p.objects[r.Release]
		there := slices.ContainsFunc(o.Objects, func(x release.Object) bool { return x.Release == r.Release })
		if b == nil || k == nil || !there || k.Terminating || b.Status != release.Error || !b.RetryTime.IsZero() || r.Status == release.Error || g.Level == "Preview" {
			continue
		}
		if k.Decision != nil && k.Decision.Action == release.Retry {
			continue
		}
		p.fail("return: %s failed (%s), and is %s (%s)", r.Release, b.Reason, r.Status, r.Reason)
	}
}
