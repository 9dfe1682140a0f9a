package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/freeze"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/window"
)

// Event is one event of a forecast.
type Event struct {
	// After is the shortest possible time between now and the event.
	After time.Duration `json:"after"`
	// Group is the name of the group. It is empty for an event that does not concern a group.
	Group string `json:"group,omitempty"`
	// Text describes the event in a sentence.
	Text string `json:"text"`
}

// Forecast contains the predicted events, with the earliest possible times.
type Forecast struct {
	// Events are the events in chronological order.
	Events []Event `json:"events"`
	// Pods is the maximum number of additional pods.
	Pods int `json:"pods"`
	// Duration is the time until all rollouts have ended. It is 0 if no rollout starts.
	Duration time.Duration `json:"duration"`
	// People is the number of required approvals. Duration does not include the time that users take to
	// give these approvals.
	People int `json:"people"`
	// Open describes the condition that still blocks a rollout at the end of the forecast. It is empty if no rollout is
	// blocked.
	Open string `json:"open,omitempty"`
	// Outcome is the outcome of the decision from [Facts.Decide]. It is empty if there is no decision, or if the
	// decision is not handled.
	Outcome string `json:"outcome,omitempty"`
}

// Lines returns the events as text.
func (f Forecast) Lines() []string {
	lines := make([]string, 0, len(f.Events)+1)
	for _, e := range f.Events {
		line := e.Text
		if e.Group != "" {
			line = e.Group + ": " + line
		}
		if e.After > 0 {
			line = "after " + e.After.Round(time.Second).String() + ": " + line
		}
		lines = append(lines, line)
	}
	if f.Open != "" {
		lines = append(lines, "then a rollout is blocked: "+f.Open)
	}
	if len(lines) == 0 {
		lines = append(lines, "nothing changes")
	}
	return lines
}

// The limits of a simulation.
const (
	maxPlans = 500
	horizon  = 60 * 24 * time.Hour
)

// play is the state of one simulation.
type play struct {
	o        release.Observed
	objects  []object
	windows  []*v1alpha1.DeployWindow // windows of the steps, in the order of the steps
	freezes  freeze.Calendar
	start    time.Time
	now      time.Time
	before   int // number of pods at the start
	forecast Forecast
	decided  int
	voted    map[string]bool // releases with simulated approvals
	asked    map[string]bool // waits for approval that were already reported; a key contains the group, rollout, step and number of approvals
}

// Play starts with the facts, and simulates plans until no rollout is in progress, or until all rollouts in progress are blocked.
func (f *Facts) Play(now time.Time) Forecast {
	p := &play{o: f.Observed, objects: slices.Clone(f.objects), windows: f.windows, freezes: f.freezes, start: now, now: now, voted: map[string]bool{}, asked: map[string]bool{}}
	p.o.Policies = slices.Clone(f.Policies)
	p.before = p.pods()
	if f.Problem != nil {
		p.forecast.Events = append(p.forecast.Events, Event{Text: f.Problem.Error()})
	}
	// The forecast also contains events that would happen without the change that is being simulated.
	for range maxPlans {
		result := p.plan()
		p.record(result)
		moved := p.apply(result)
		moved = p.world(result) || moved
		p.forecast.Outcome = cmp.Or(p.forecast.Outcome, outcomeOf(result.State, f.decided))
		p.forecast.Pods = max(p.forecast.Pods, p.pods()-p.before)
		if moved {
			continue
		}
		if !p.rolling() {
			break
		}
		if result.RequeueTime.IsZero() || result.RequeueTime.Sub(p.start) > horizon {
			p.forecast.Open = p.waits(result)
			break
		}
		next := result.RequeueTime
		if at := p.freezes.Next(p.now); !at.IsZero() && at.Before(next) {
			next = at
		}
		p.now = next
	}
	return p.forecast
}

// outcomeOf returns the outcome of the decision with the given ID, or an empty string.
func outcomeOf(state release.State, id string) string {
	for _, g := range state.Groups {
		for _, row := range g.Releases {
			if d := row.Decision; d != nil && id != "" && d.ID == id {
				return d.Outcome
			}
		}
	}
	return ""
}

// plan returns the plan at the current time of the simulation.
func (p *play) plan() release.Result {
	o := p.o
	o.Objects, o.Spec.Steps = p.objects, p.steps()
	if all := p.freezes; len(all.Freezes) > 0 {
		o.Spec.Freeze = freeze.Of(all.Freezes, all.Subject, p.now)
	}
	return release.Plan(o, p.now)
}

// steps returns the steps with the state of their windows at the current time of the simulation.
func (p *play) steps() []release.Step {
	steps := slices.Clone(p.o.Spec.Steps)
	for i := range min(len(steps), len(p.windows)) {
		if w := p.windows[i]; w != nil {
			steps[i].Window, _ = window.Resolve(w, p.now) // For an unknown time zone, Facts.Problem contains the error.
		}
	}
	return steps
}

// pods returns the number of pods of the releases. In an exclusive group, the pods of one release terminate before the pods of another
// release start.
func (p *play) pods() int {
	groups := map[string]int{}
	for _, c := range p.objects {
		if n := max(c.Replicas, c.Current); p.o.Spec.Exclusive {
			groups[c.Slug] = max(groups[c.Slug], n)
		} else {
			groups[c.Slug] += n
		}
	}
	n := 0
	for _, of := range groups {
		n += of
	}
	return n
}

// rolling reports whether a rollout is in progress.
func (p *play) rolling() bool {
	return slices.ContainsFunc(p.o.State.Groups, func(g release.Group) bool { return g.Rollout != nil })
}

// record records the events of a plan and the duration of rollouts.
func (p *play) record(r release.Result) {
	names := map[string]string{}
	for _, g := range r.State.Groups {
		names[g.Slug] = g.Name
	}
	for _, g := range p.o.State.Groups {
		names[g.Slug] = cmp.Or(names[g.Slug], g.Name)
	}
	for _, n := range r.Notes {
		if !n.Event || n.Reason == release.DecisionTaken && p.voted[n.Release] { // Simulated approvals are not events.
			continue
		}
		e := Event{After: p.now.Sub(p.start), Group: cmp.Or(names[n.Slug], n.Slug), Text: n.Message}
		if !slices.ContainsFunc(p.forecast.Events, func(x Event) bool { return x.Group == e.Group && x.Text == e.Text }) {
			p.forecast.Events = append(p.forecast.Events, e)
		}
	}
	if slices.ContainsFunc(r.State.Groups, func(g release.Group) bool { return g.Rollout != nil }) || p.rolling() {
		p.forecast.Duration = p.now.Sub(p.start)
	}
}

// apply executes a plan, and reports whether something changed.
func (p *play) apply(r release.Result) bool {
	moved := r.Changed
	for _, e := range r.Ensure {
		moved = p.ensure(e, r.State) || moved
	}
	p.o.State = r.State
	for _, x := range r.Retire {
		at := slices.IndexFunc(p.objects, func(o object) bool { return o.Release == x.Release })
		switch {
		case at < 0:
		case x.Delete:
			p.objects, moved = slices.Delete(p.objects, at, at+1), true
		case p.objects[at].Replicas != x.Replicas:
			c := &p.objects[at]
			c.Replicas, c.Available, c.Current, moved = x.Replicas, x.Replicas, x.Replicas, true
		}
	}
	return moved
}

// ensure creates a release, or increases its number of pods. The pods are available immediately.
func (p *play) ensure(e release.Ensure, state release.State) bool {
	for i := range p.objects {
		c := &p.objects[i]
		if c.Release != e.Release {
			continue
		}
		moved := c.Replicas < e.Replicas || e.Stamp > c.Stamp || c.Available < c.Replicas
		c.Replicas, c.Stamp = max(c.Replicas, e.Replicas), max(c.Stamp, e.Stamp)
		c.Available, c.Current, c.Unsettled, c.Failure = max(c.Available, c.Replicas), max(c.Current, c.Replicas), false, ""
		return moved
	}
	c := object{Release: e.Release, Slug: e.Slug, Created: p.now, Stamp: e.Stamp, Replicas: e.Replicas, Available: e.Replicas, Current: e.Replicas}
	for _, g := range state.Groups {
		if row := g.Row(e.Release); g.Slug == e.Slug && row != nil {
			c.Name, c.Level, c.Version, c.Config, c.PullRequest = g.Name, g.Level, row.Version, row.Config, g.PullRequest
		}
	}
	p.objects = append(p.objects, c)
	return true
}

// world satisfies the conditions for which a plan waits: routes, reports, measurements, hooks and
// approvals.
func (p *play) world(r release.Result) bool {
	moved := p.routes()
	moved = p.report() || moved
	for i := range p.o.State.Groups {
		g := &p.o.State.Groups[i]
		run := g.Rollout
		if run == nil {
			continue
		}
		at := slices.IndexFunc(p.objects, func(o object) bool { return o.Release == run.Release })
		if at < 0 {
			continue
		}
		c := &p.objects[at]
		if c.Available < c.Replicas || c.Unsettled {
			c.Available, c.Current, c.Unsettled, c.Failure, moved = c.Replicas, max(c.Current, c.Replicas), false, "", true
		}
		moved = p.measure(c, run) || moved
		moved = p.gates(c, run) || moved
		moved = p.approve(c, g, run, r) || moved
	}
	return moved
}

// report simulates that each release reports the status that the rollout state contains for it.
func (p *play) report() (moved bool) {
	for _, g := range p.o.State.Groups {
		for i := range p.objects {
			if row := g.Row(p.objects[i].Release); row != nil && p.objects[i].Slug == g.Slug && p.objects[i].Reported != row.Status {
				p.objects[i].Reported, moved = row.Status, true
			}
		}
	}
	return moved
}

// measure simulates passing measurements for a step.
func (p *play) measure(c *object, run *release.Rollout) bool {
	if !p.o.Spec.Analysis || run.Step == 0 {
		return false
	}
	v := release.Verdict{Rollout: run.Sequence, Step: run.Step, Since: run.WaitingSince, Phase: release.VerdictPassed}
	if c.Analysis != nil && *c.Analysis == v {
		return false
	}
	c.Analysis = &v
	return true
}

// gates simulates that the hooks of the current gate approve.
func (p *play) gates(c *object, run *release.Rollout) bool {
	if run.Gate == "" || run.GateTime.IsZero() {
		return false
	}
	fact := release.GateFact{Rollout: run.Sequence, Step: run.Step, Point: run.Gate, Since: run.GateTime, Open: true}
	if slices.Contains(c.Gates, fact) {
		return false
	}
	c.Gates = append(slices.DeleteFunc(slices.Clone(c.Gates), func(x release.GateFact) bool { return x.Point == fact.Point }), fact)
	return true
}

// approve simulates the approvals that a step requires, one after the other.
func (p *play) approve(c *object, g *release.Group, run *release.Rollout, r release.Result) bool {
	waits := slices.ContainsFunc(r.Notes, func(n release.Note) bool {
		return !n.Event && n.Slug == g.Slug && n.Reason == release.AwaitingApproval && n.Release == run.Release
	})
	key := fmt.Sprint(g.Slug, "/", run.Sequence, "/", run.Step, "/", len(run.Approvals))
	if !waits || p.asked[key] {
		return false
	}
	p.asked[key] = true
	p.decided++
	p.forecast.People++
	step, number := release.Step{}, strconv.Itoa(run.Step)
	if run.Step <= len(p.o.Spec.Steps) {
		step = p.o.Spec.Steps[run.Step-1]
	}
	p.forecast.Events = append(p.forecast.Events, Event{After: p.now.Sub(p.start), Group: g.Name, Text: fmt.Sprintf("%s waits in step %q for %s", c.Version, cmp.Or(step.Name, number), step.Awaited(run.Approvals))})
	p.voted[run.Release] = true
	c.Decision = &release.Decision{Action: release.Continue, ID: "play-" + strconv.Itoa(p.decided), Step: number, By: "approver " + strconv.Itoa(p.decided), Groups: step.ApproversFrom}
	return true
}

// routes simulates, for every policy, a report that the required weights are programmed.
func (p *play) routes() bool {
	moved := false
	for i := range p.o.Policies {
		policy := &p.o.Policies[i]
		newest := slices.ContainsFunc(policy.Groups, func(r release.Report) bool { return r.Newest })
		var reports []release.Report
		for _, g := range p.o.State.Groups {
			reports = append(reports, p.reportOf(policy, g))
		}
		if newest {
			markNewest(reports, p.o.State.Groups)
		}
		moved = moved || !slices.EqualFunc(policy.Groups, reports, sameReport)
		policy.Groups = reports
	}
	return moved
}

// reportOf returns the report of a policy about one group, as if the required weights were
// programmed.
func (p *play) reportOf(policy *release.Policy, g release.Group) release.Report {
	r := release.Report{Slug: g.Slug}
	if at := slices.IndexFunc(policy.Groups, func(x release.Report) bool { return x.Slug == g.Slug }); at >= 0 {
		old := policy.Groups[at]
		r.Revision, r.Confirmed, r.Pinned, r.CanaryDomains, r.Canary = old.Revision, old.Confirmed, old.Pinned, old.CanaryDomains, old.Canary
	}
	if r.Revision != g.TrafficRevision {
		r.Revision, r.Confirmed = g.TrafficRevision, p.now
	}
	for _, row := range g.Releases {
		if row.Weight > 0 || row.Match || row.Mirror > 0 || slices.Contains(r.Pinned, row.Release) {
			r.References = append(r.References, row.Release)
		}
		if row.Status == release.Active {
			r.Active = row.Release
		}
		if r.CanaryDomains && row.Status == release.Canary {
			r.Canary = row.Release
		}
	}
	return r
}

// markNewest marks the report about the newest group with an active release. The mark means that the domains that
// follow the newest group route to this group.
func markNewest(reports []release.Report, groups []release.Group) {
	for i, g := range groups {
		if g.Phase == release.Live && g.PullRequest == 0 && g.ActiveRow() != nil {
			reports[i].Newest = true
			return
		}
	}
}

func sameReport(a, b release.Report) bool {
	return a.Slug == b.Slug && a.Revision == b.Revision && slices.Equal(a.References, b.References) &&
		a.Active == b.Active && a.Newest == b.Newest && a.Canary == b.Canary && a.Unrouted == b.Unrouted && a.Reason == b.Reason
}

// waits describes the condition that blocks a plan.
func (p *play) waits(r release.Result) string {
	for _, n := range r.Notes {
		if !n.Event && n.Message != "" {
			return n.Message
		}
	}
	return "the rollout cannot continue until an object changes"
}
