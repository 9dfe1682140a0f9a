package networkpolicy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/internal/status"
)

// Reasons of condition ProviderSwitching.
const (
	reasonReplacing = "Replacing"
	reasonDraining  = "Draining"
)

const (
	// usualDrain is the drain delay of a Microservice that names none.
	usualDrain = 30 * time.Second
	// leastDrain is how long the routes of a former provider stay at least where the policy
	// does not say itself: acceptance comes before service.
	leastDrain = 5 * time.Second
)

// former says whether a live route is of a provider that the policy has left.
func (f *facts) former(route *providers.Live) bool {
	return route.Provider != provider(f.policy).Name()
}

// viewOf a provider by its name.
func (f *facts) viewOf(name string) providers.View {
	return f.views[slices.IndexFunc(known, func(p providers.Provider) bool { return p.Name() == name })]
}

// formerRoutes are the live routes of such providers, by name and in order of it.
func (f *facts) formerRoutes() []string {
	return slices.DeleteFunc(sortedKeys(f.live), func(name string) bool { return !f.former(f.live[name]) })
}

// formerOf says whether a group has routes of a former provider.
func (d *decider) formerOf(slug string) bool {
	return slices.ContainsFunc(d.formerRoutes(), func(name string) bool { return d.live[name].Group() == slug })
}

// drain is how long the routes of a former provider stay after others have replaced them.
func (f *facts) drain() time.Duration {
	least := leastDrain
	if f.microservice != nil {
		least = max(least, f.microservice.Spec.UpdateStrategy.DrainDelay.Std(usualDrain))
	}
	return f.policy.Spec.DrainDelay.Std(least)
}

// addFormer keeps what routes of former providers lead to the same as what those of the
// present one lead to, and says whether these serve all that the former ones serve.
func (d *decider) addFormer(out *decision, groups map[string]*groupDecision) {
	out.replaced = true
	routeOf := map[*row]*routeDecision{}
	for _, route := range out.routes {
		for _, r := range route.rows {
			routeOf[r] = route
		}
	}
	for _, name := range d.formerRoutes() {
		old := d.live[name]
		if old.Leaving {
			continue
		}
		rows := d.wantedBy(old, out.rows)
		if len(rows) == 0 && len(old.Hostnames) > 0 && routed(d.policy) {
			continue // Its hosts were taken out of the specification: it goes.
		}
		carried := d.carry(out, old, rows, groups)
		if g := d.ledger.bySlug[old.Group()]; g != nil && !live(g) && len(carried.Backends) == 0 {
			continue // It goes with its group, and is led to no other.
		}
		for _, r := range rows {
			route := routeOf[r]
			if route == nil {
				out.unreplaced(fmt.Sprintf("%s: %s", r.field, cmp.Or(r.message, "it has no route yet")))
			} else if v := d.verdict(route); !v.Accepted {
				out.unreplaced(v.Message)
			} else if p := d.unready(route.Route, r.host); p != nil {
				out.unreplaced(p.Message)
			}
		}
		out.former = append(out.former, carried)
	}
	if len(out.former) == 0 {
		return
	}
	if p := d.view.Referent(); p != nil {
		out.unreplaced(p.Message)
	}
	if !routed(d.policy) {
		d.replacedByServices(out)
	}
}

func (d *decision) unreplaced(message string) {
	if d.replaced {
		d.replaced, d.waits = false, message
	}
}

// replacedByServices looks at the Services of groups that have routes: they are all that
// callers are to use.
func (d *decider) replacedByServices(out *decision) {
	for _, s := range out.services {
		if g := d.ledger.bySlug[s.Stamp.Group]; g != nil && !s.OfRelease && s.Group == g.Slug && d.formerOf(g.Slug) {
			if v := d.followVerdict(s, g); !v.Accepted {
				out.unreplaced(v.Message)
			}
		}
	}
}

// wantedBy are the rows for what a live route of a former provider serves.
func (d *decider) wantedBy(live *providers.Live, rows []*row) []*row {
	return slices.DeleteFunc(slices.Clone(rows), func(r *row) bool {
		if r.user != "" {
			return !d.sharesHosts(live, d.live[r.user])
		}
		return r.host == "" || r.reason == reasonNoCanary || !slices.Contains(live.Hostnames, r.host) || !samePath(r.path, live.Path)
	})
}

// sharesHosts says whether a route of somebody else takes the place of a live one: it has
// one of its hosts, or one of them has none, or nobody knows its hosts yet.
func (d *decider) sharesHosts(live, user *providers.Live) bool {
	return user == nil || len(user.Hostnames) == 0 || len(live.Hostnames) == 0 ||
		slices.ContainsFunc(live.Hostnames, func(host string) bool { return slices.Contains(user.Hostnames, host) })
}

// samePath says whether two paths are the same, where both have one: routes of some
// protocols have none.
func samePath(a, b string) bool { return a == b || a == "" || b == "" }

// carry leads a route of a former provider to what rows are led to, or the group that it
// is of where there are none. Where rows lead to different things it stays as it is.
func (d *decider) carry(all *decision, live *providers.Live, rows []*row, groups map[string]*groupDecision) *routeDecision {
	out := &routeDecision{slug: live.Group(), rows: rows, Route: providers.Route{Name: live.Name}}
	var first row
	switch g := d.ledger.bySlug[live.Group()]; {
	case len(rows) > 0:
		first = *rows[0]
	case g == nil || live.Pinned():
		return out
	default:
		first = row{group: g}
	}
	apart := slices.ContainsFunc(rows, func(r *row) bool { return r.group != first.group || r.newer != first.newer || r.pinned != first.pinned })
	if apart || first.group == nil || first.pin && first.pinned == "" {
		return out
	}
	if first.pinned == "" && len(d.splitOf(all, &first, groups).weights) == 0 {
		return out // Nothing that could answer has a ready endpoint.
	}
	if len(rows) == 0 {
		rows = []*row{&first}
	}
	out.slug = first.group.Slug
	out.Route = d.plan(live.Name, rows, d.splitOf(all, &first, groups))
	out.TLS, out.RecordTTL, out.Parents = nil, 0, nil // What was said of them stays.
	out.objects = d.viewOf(live.Provider).Carry(live, out.Route)
	return out
}

// drained says whether routes of former providers may go: what they serve has been
// served by the present one for the drain delay.
func (d *decider) drained(out *decision) bool {
	s := d.policy.Status.ProviderSwitch
	return out.replaced && s != nil && s.ReplacedTime != nil && d.sameProvider() && !d.now.Before(s.ReplacedTime.Add(d.drain()))
}

// sameProvider says whether the last report was made under the present provider, so that
// the time in it is of this switch.
func (f *facts) sameProvider() bool { return f.policy.Status.Provider == provider(f.policy).Name() }

// providerSwitch reports the way from one provider to the next.
func (r *reporter) providerSwitch(prev *v1alpha1.ProviderSwitch) *v1alpha1.ProviderSwitch {
	var now v1alpha1.ProviderSwitch
	for _, name := range r.formerRoutes() {
		if from := r.live[name].Provider; !slices.Contains(now.From, from) {
			now.From = append(now.From, from)
		}
	}
	if len(now.From) == 0 {
		return nil
	}
	slices.Sort(now.From)
	if !r.out.replaced {
		return &now
	}
	if now.ReplacedTime = (&metav1.MicroTime{Time: r.now}); prev != nil && prev.ReplacedTime != nil && r.sameProvider() {
		now.ReplacedTime = prev.ReplacedTime
	}
	r.lookAt(now.ReplacedTime.Add(r.drain()))
	return &now
}

// formerVerdict is about a route of a former provider. It is waited for while its
// gateway may still answer: one that is gone must hold nothing up.
func (r *reporter) formerVerdict(name string) verdict {
	live, key := r.live[name], routeName(name)
	if r.writes.refused[key] == nil && (r.writes.changed[key] || !live.Taken && r.fresh(r.facts.written[name])) {
		return verdict{Pending: true, Reason: reasonPending, Message: fmt.Sprintf("%s of the former provider is being written", objectName(live.Objects[0]))}
	}
	return verdict{Accepted: true}
}

// providerSwitching says what routes of former providers wait for.
func (r *reporter) providerSwitching(now *v1alpha1.NetworkPolicyStatus) {
	if r.microservice == nil {
		return
	}
	s := now.ProviderSwitch
	if s == nil {
		status.Remove(&now.Conditions, v1alpha1.ConditionProviderSwitching)
		return
	}
	reason, message := reasonReplacing, fmt.Sprintf("the routes of provider %s stay and serve until those of provider %s do: %s", strings.Join(s.From, " and "), now.Provider, cmp.Or(r.out.waits, "they are being written"))
	if s.ReplacedTime != nil {
		reason, message = reasonDraining, fmt.Sprintf("the routes of provider %s stay until %s, for callers that still come to them: spec.drainDelay says how long",
			strings.Join(s.From, " and "), s.ReplacedTime.Add(r.drain()).UTC().Format(time.RFC3339))
	}
	for _, route := range r.out.former {
		if err := r.writes.refused[routeName(route.Name)]; err != nil {
			message += "; " + err.Error()
			break
		}
	}
	status.Set(&now.Conditions, r.policy.Generation, v1alpha1.ConditionProviderSwitching, metav1.ConditionTrue, reason, message)
}
