package release

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Histories reach only the states that the planner itself creates. These tests plan from
// generated states: states that the planner can create in a history, and arbitrary states.

// TestPlanOfAnyState checks that, for any facts and any record, a plan exists, the plan does not
// change its input, the same facts result in the same plan, and a second plan with the record of
// the first plan changes nothing.
func TestPlanOfAnyState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { planOf(draws{t}, false) })
}

// TestPlanOfAnyRecord checks the same for consistent records. It also checks that the resulting plan is
// consistent, and that it does not depend on the order of the facts.
func TestPlanOfAnyRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { planOf(draws{t}, true) })
}

func planOf(d draws, consistent bool) {
	o := d.observed(consistent)
	defer func() {
		if d.Failed() {
			d.Logf("of %s", describe(o, Result{State: o.State}))
		}
	}()
	before := o
	before.State.Groups = slices.Clone(o.State.Groups)
	for i, g := range o.State.Groups {
		before.State.Groups[i] = g.copied()
	}
	before.Objects, before.Candidates, before.Withdrawn, before.Policies = slices.Clone(o.Objects), slices.Clone(o.Candidates), slices.Clone(o.Withdrawn), slices.Clone(o.Policies)
	p := Plan(o, t0)
	if !reflect.DeepEqual(o, before) {
		d.Fatalf("the facts are changed")
	}
	if q := Plan(o, t0); !reflect.DeepEqual(p, q) {
		d.Fatalf("the same facts give another plan:\n%s\n%s", render(p), render(q))
	}
	if !p.RequeueTime.IsZero() && !p.RequeueTime.After(t0) {
		d.Fatalf("requeue at %s, which is in the past", p.RequeueTime)
	}
	if p.Changed && p.State.Sequence <= o.State.Sequence {
		d.Fatalf("the sequence does not increase")
	}
	for _, e := range p.Ensure {
		if e.Replicas < 0 {
			d.Fatalf("ensure %+v", e)
		}
	}
	again := o
	again.State = p.State
	if q := Plan(again, t0); q.Changed {
		d.Fatalf("the second plan changes the record:\n%s\n%s", render(p), render(q))
	}
	if consistent {
		if q := Plan(shuffled(o), t0); !reflect.DeepEqual(p, q) {
			d.Fatalf("another order of the facts gives another plan:\n%s\n%s", render(p), render(q))
		}
		checkRecord(d, p)
	}
}

// checkRecord checks the record of a plan against invariants 1 and 2.
func checkRecord(d draws, p Result) {
	w := newWorld()
	for i := range p.State.Groups {
		g := &p.State.Groups[i]
		if w.checkGroup(g); w.err != nil {
			d.Fatalf("%v:\n%s", w.err, render(p))
		}
		for _, x := range p.Retire {
			if r := g.Row(x.Release); r != nil && x.Delete && (r.Status == Active || r.Status == Canary) {
				d.Fatalf("%s is %s and deleted", r.Release, r.Status)
			}
		}
	}
}

// describe returns the facts and the plan at the end of a history that failed.
func describe(o Observed, p Result) string {
	var b strings.Builder
	for _, c := range o.Objects {
		fmt.Fprintf(&b, "\n  %+v", c)
	}
	for _, policy := range o.Policies {
		for _, r := range policy.Groups {
			fmt.Fprintf(&b, "\n  policy %s %+v", policy.Name, r)
		}
	}
	return fmt.Sprintf("%+v\noffered %+v\nwithdrawn %+v%s\n%s", o.Spec, o.Candidates, o.Withdrawn, &b, render(p))
}

// copied returns a deep copy of a group.
func (g Group) copied() Group {
	if g.Rollout != nil {
		g.Rollout = new(*g.Rollout)
	}
	g.Releases = slices.Clone(g.Releases)
	for i := range g.Releases {
		r := &g.Releases[i]
		if r.Zero != nil {
			r.Zero = new(*r.Zero)
		}
		if r.Decision != nil {
			r.Decision = new(*r.Decision)
		}
	}
	return g
}

// draws generates the parts of a state.
type draws struct{ *rapid.T }

func oneOf[V any](d draws, what string, vs ...V) V { return vs[d.number(0, len(vs)-1, what)] }

func (d draws) number(low, high int, what string) int {
	return rapid.IntRange(low, high).Draw(d.T, what)
}

func (d draws) yes(what string) bool { return rapid.Bool().Draw(d.T, what) }

// rarely returns true with a probability of 1 in n.
func (d draws) rarely(n int, what string) bool { return d.number(1, n, what) == n }

func (d draws) seconds(low, high int, what string) time.Duration {
	return time.Duration(d.number(low, high, what)) * time.Second
}

func (d draws) time(what string) time.Time {
	return oneOf(d, what, time.Time{}, t0, t0.Add(d.seconds(-3600, 3600, what)), t0.Add(-d.seconds(0, 1e6, what)),
		t0.Add(time.Duration(d.number(0, 1e6, what))), t0.Add(-10*time.Minute), t0.Add(-time.Minute))
}

var (
	drawnVersions = []string{"1.0.0", "1.1.0", "1.2.0", "2.0.0", "no version", "", "1.1.0-rc.1", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}
	drawnSlugs    = []string{"1-x", "2-x", "release", "pr-7", "main-8"}
)

func (d draws) version(what string) string { return oneOf(d, what, drawnVersions...) }

// drawnName returns the name of a release, which consists of the slug, the version and the
// configuration.
func drawnName(slug, version, config string) string { return slug + "/" + version + "/" + config }

func (d draws) row(slug, name string) Row {
	r := Row{
		Name: name, Version: d.version("version"), Config: oneOf(d, "config", "c1", "c2", ""),
		Status: oneOf(d, "status", Pending, Canary, Active, Error, Deprecated), Promoted: int64(d.number(0, 4, "promoted")), Routed: d.yes("routed"),
		Adopted: d.rarely(6, "adopted"), Attempt: d.number(0, 3, "attempt"), Available: d.yes("available"), Since: d.time("since"),
		Reason: oneOf(d, "reason", "", "ProgressDeadlineExceeded", "AnalysisFailed", leftover, togetherFailed),
		Weight: d.number(-5, 120, "weight"), Match: d.yes("match"), Mirror: d.number(0, 120, "mirror"),
	}
	r.Release = drawnName(slug, r.Version, r.Config)
	if r.Status == Error && d.yes("tried again") {
		r.RetryTime = d.time("retry")
	}
	if d.rarely(3, "zero") {
		r.Zero = &Zero{Revision: int64(d.number(0, 20, "zero at")), Time: d.time("zero since")}
	}
	if d.rarely(4, "decided") {
		r.Decision = &Handled{ID: oneOf(d, "id", "a", "b"), Action: oneOf(d, "action", Continue, Adopt, Deprecate, Retry), Time: d.time("decided at"), Outcome: DecisionApplied}
	}
	return r
}

// amend makes the rows of a group consistent. There is at most one active release and one canary, and the weights
// add up to 100.
func (d draws) amend(g *Group) {
	var active, canary *Row
	for i := range g.Releases {
		r := &g.Releases[i]
		r.Weight, r.Match, r.Mirror = 0, false, 0
		switch {
		case g.Phase != Live && (r.Status == Active || r.Status == Canary || r.Status == Pending), r.Status == Active && active != nil:
			r.Status = Deprecated
		case r.Status == Canary && (canary != nil || g.Level == preview):
			r.Status = Pending
		}
		switch r.Status {
		case Active:
			active, r.Promoted, r.Routed = r, max(1, r.Promoted), true
		case Canary:
			canary = r
		}
	}
	weight := 0
	if canary != nil {
		canary.Match, canary.Mirror = d.yes("canary's match"), d.number(0, 100, "canary's mirror")
		if active != nil {
			weight = d.number(0, 100, "canary's weight")
		}
		if canary.Weight = weight; weight > 0 {
			canary.Zero = nil
		}
	}
	if active != nil {
		if active.Weight = 100 - weight; active.Weight > 0 {
			active.Zero = nil
		}
	}
}

func (d draws) run(release string) *Rollout {
	return &Rollout{
		Release: release, Sequence: int64(d.number(0, 20, "run")), Step: d.number(0, 4, "step"), Started: d.time("started"), StepRevision: int64(d.number(0, 20, "revision of the step")),
		StepsHash: oneOf(d, "steps", "", "x"), Waited: d.seconds(0, 1000, "waited"), WaitingSince: d.time("waiting"), Interrupted: d.yes("interrupted"),
		Floor: d.number(0, 5, "floor"), Continued: d.number(0, 4, "continued"), Grace: d.time("grace"),
		Gate: oneOf(d, "gate", "", "", ConfirmRollout, PreRollout, ConfirmTrafficIncrease, ConfirmPromotion, Together), GateTime: d.time("gate since"),
		From: oneOf(d, "from", append([]string{"", "", ""}, drawnSlugs...)...),
	}
}

func (d draws) group(slug string, consistent bool) Group {
	g := Group{
		Slug: slug, Name: oneOf(d, "name", "1.x", "2.x", "release", "main"), Level: oneOf(d, "level", "Release", "Candidate", preview), Phase: Live,
		TrafficRevision: int64(d.number(0, 20, "revision")), TrafficTime: d.time("traffic"), SettledRevision: int64(d.number(0, 20, "settled")), Superseded: d.number(0, 4, "superseded"),
		LastSuperseded: oneOf(d, "superseded last", "", drawnName(slug, "1.1.0", "c1")),
	}
	if g.Level == preview {
		g.PullRequest, g.Head, g.HeadTime = int64(d.number(0, 9, "pull request")), d.version("head"), d.time("head pushed")
	}
	if d.rarely(6, "ends") {
		g.Phase = oneOf(d, "phase", Closing, Expired)
		if !consistent && d.rarely(3, "no phase") {
			g.Phase = ""
		}
	}
	if d.yes("target") {
		g.Target = Target{Release: drawnName(slug, d.version("target's version"), "c1"), Reason: oneOf(d, "target's reason", "Latest", "Held", "Pinned", PinsConflict, ""), ResolvedFrom: oneOf(d, "resolved from", "", "1.0.0/retained@c1", "1.1.0/current@c1")}
	}
	if d.rarely(6, "forgotten failures") {
		g.Failed = Failed{Version: d.version("failed"), Config: oneOf(d, "failed with", "c1", "c2")}
	}
	for range d.number(0, 4, "rows") {
		if r := d.row(slug, g.Name); g.Row(r.Release) == nil {
			g.Releases = append(g.Releases, r)
		}
	}
	if !consistent {
		if d.yes("runs") {
			g.Rollout = d.run(drawnName(slug, d.version("runs"), "c1"))
		}
		return g
	}
	d.amend(&g)
	under := slices.IndexFunc(g.Releases, func(r Row) bool { return r.Status == Canary })
	if under < 0 && g.Phase == Live && d.yes("runs") {
		under = slices.IndexFunc(g.Releases, func(r Row) bool { return r.Status == Pending || r.Status == Deprecated })
	}
	if under >= 0 {
		g.Rollout = d.run(g.Releases[under].Release)
	}
	return g
}

func (d draws) spec() Spec {
	s := Spec{
		Paused: d.rarely(7, "paused"), Replicas: d.number(1, 5, "replicas"), Standby: d.number(0, 3, "standby"), StandbyFull: d.yes("full standby"), MinimumAvailable: d.number(1, 4, "minimum"),
		Deadline: d.seconds(1, 900, "deadline"), Drain: d.seconds(0, 60, "drain"), Analysis: d.yes("analysis"), MatchWeight: d.yes("match weight"), RollBack: d.yes("roll back"),
		Previews: Previews{MaxGroups: d.number(0, 3, "previews"), MaxAge: d.seconds(0, 7200, "age of previews"), KeepAfterClose: d.seconds(0, 120, "keep after close")},
	}
	s.FailureJobs, s.GateJobs, s.Exclusive = d.rarely(3, "Jobs for failures"), d.rarely(3, "Jobs at gates"), d.rarely(4, "exclusive")
	if d.rarely(5, "freeze") {
		s.Freeze = &Freeze{Name: "f", Until: d.time("end of the freeze"), Reason: "r"}
	}
	for range d.number(0, 4, "steps") {
		st := Step{Name: oneOf(d, "step's name", "", "one", "two"), Weight: d.number(0, 100, "step's weight"), Pause: d.seconds(0, 100, "pause"), Approval: d.rarely(4, "approval"), Approvers: d.number(0, 3, "approvers"), Match: d.yes("step's match"), Mirror: oneOf(d, "step's mirror", 0, 0, 10, 100), Confirm: d.yes("confirm")}
		if d.rarely(3, "from") {
			st.ApproversFrom = []string{"sre"}
		}
		if d.rarely(4, "window") {
			st.Window = &Window{Open: d.yes("open"), Next: d.time("next")}
		}
		s.Steps = append(s.Steps, st)
	}
	for range d.number(0, 2, "pins") {
		s.Pins = append(s.Pins, Pin{Field: "f", Group: oneOf(d, "pin's group", append([]string{"7"}, drawnSlugs...)...), Global: d.yes("global"), Version: d.version("pin"), Current: d.yes("current"), Expire: d.time("expire")})
	}
	for range d.number(0, 2, "gates") {
		s.Gates = append(s.Gates, oneOf(d, "point", ConfirmRollout, PreRollout, ConfirmPromotion))
	}
	return s
}

func (d draws) observed(consistent bool) Observed {
	o := Observed{Spec: d.spec(), Config: oneOf(d, "present config", "c1", "c1", "c2", ""), SourceStale: d.rarely(7, "stale"), PullRequests: d.rarely(4, "pull requests")}
	o.State.Sequence = int64(d.number(0, 30, "sequence"))
	var releases []string
	for _, slug := range drawnSlugs[:d.number(0, 4, "groups")] {
		g := d.group(slug, consistent)
		o.State.Groups = append(o.State.Groups, g)
		for _, r := range g.Releases {
			releases = append(releases, r.Release)
			if !d.rarely(6, "no object") {
				o.Objects = append(o.Objects, d.object(Object{Release: r.Release, Slug: slug, Name: g.Name, Level: g.Level, Version: r.Version, Config: r.Config, PullRequest: g.PullRequest}))
			}
		}
	}
	for range d.number(0, 2, "objects without a row") {
		c := Object{Slug: oneOf(d, "object's slug", drawnSlugs...), Name: "n", Level: oneOf(d, "object's level", "Release", preview), Version: d.version("object's version"), Config: "c1", PullRequest: int64(d.number(0, 9, "object's pull request"))}
		if c.Release = drawnName(c.Slug, c.Version, c.Config); !slices.Contains(releases, c.Release) {
			releases = append(releases, c.Release)
			o.Objects = append(o.Objects, d.object(c))
		}
	}
	for range d.number(0, 5, "candidates") {
		c := Candidate{Slug: oneOf(d, "offered in", drawnSlugs...), Name: oneOf(d, "offered as", "1.x", "2.x"), Level: oneOf(d, "offered at", "Release", "Release", preview), Version: d.version("offered"), Time: d.time("pushed")}
		if c.Level == preview {
			c.PullRequest = int64(d.number(0, 9, "offered of"))
		}
		c.Release = drawnName(c.Slug, c.Version, o.Config)
		if !slices.ContainsFunc(o.Candidates, func(x Candidate) bool { return x.Release == c.Release }) {
			o.Candidates = append(o.Candidates, c)
		}
	}
	for range d.number(0, 2, "withdrawn") {
		o.Withdrawn = append(o.Withdrawn, Withdrawal{Slug: oneOf(d, "withdrawn of", drawnSlugs...), Version: oneOf(d, "withdrawn version", append([]string{"", ""}, drawnVersions...)...), Reason: oneOf(d, "withdrawn for", Denied, Excluded, Gone, Closed), Time: d.time("withdrawn at")})
	}
	for i := range d.number(0, 2, "policies") {
		o.Policies = append(o.Policies, d.policy(fmt.Sprint("p", i), releases))
	}
	if d.rarely(4, "peer") {
		o.Peers = append(o.Peers, Peer{Name: "peer", Groups: []Group{d.group("1-x", true)}})
	}
	if d.rarely(3, "just begun") {
		o.Began = d.time("began")
	}
	return o
}

func (d draws) policy(name string, releases []string) Policy {
	p := Policy{Name: name}
	for i := range d.number(0, 3, "reports") {
		r := Report{Slug: drawnSlugs[i], Revision: int64(d.number(0, 25, "confirmed revision")), Confirmed: d.time("confirmed"), Newest: d.yes("newest"), Reason: oneOf(d, "why not", "", "NotAccepted"), Unrouted: d.rarely(4, "unrouted")}
		if len(releases) > 0 {
			for range d.number(0, 2, "references") {
				r.References = append(r.References, oneOf(d, "reference", releases...))
			}
			if d.rarely(4, "withholds") {
				r.Withheld = []string{oneOf(d, "withheld", releases...)}
			}
			if d.rarely(4, "pins") {
				r.Pinned = []string{oneOf(d, "pinned", releases...)}
			}
			r.Active = oneOf(d, "selected", releases...)
		}
		p.Groups = append(p.Groups, r)
	}
	return p
}

// object generates changes to an object.
func (d draws) object(c Object) Object {
	c.Created, c.Terminating, c.Stamp = d.time("created"), d.rarely(7, "terminating"), int64(d.number(0, 25, "stamp"))
	c.Refused, c.NeverActive = d.rarely(6, "changes refused"), d.rarely(5, "never active")
	c.Reported = oneOf(d, "reported", "", Pending, Canary, Active, Error, Deprecated)
	c.ActiveJobs, c.GateJobs = d.rarely(4, "Jobs"), d.rarely(4, "Jobs of gates")
	c.Replicas, c.Unsettled, c.Current = d.number(0, 4, "object's replicas"), d.rarely(5, "unsettled"), d.number(0, 5, "current")
	c.Available, c.Failure = oneOf(d, "available", 0, c.Replicas, c.Replicas), oneOf[Reason](d, "failure", "", "", "CrashLoopBackOff", "Evicted", "ImagePullBackOff", "Unschedulable", "QuotaExceeded")
	if d.rarely(3, "decision") {
		c.Decision = &Decision{Action: oneOf(d, "asked", Continue, Adopt, Deprecate, Retry, "Explode", ""), ID: oneOf(d, "asked as", "a", "b", ""), Step: oneOf(d, "asked in", "", "1", "one", "99")}
	}
	if d.rarely(3, "verdict") {
		c.Analysis = &Verdict{Rollout: int64(d.number(0, 20, "judged run")), Step: d.number(0, 4, "judged step"), Since: d.time("judged since"), Phase: oneOf(d, "judged as", VerdictRunning, VerdictPassed, VerdictFailed, VerdictInconclusive, VerdictNoTraffic, "")}
	}
	if d.rarely(3, "answer") {
		c.Gates = []GateFact{{Rollout: int64(d.number(0, 20, "answered run")), Step: d.number(0, 4, "answered step"), Point: oneOf(d, "answered point", ConfirmRollout, PreRollout, ConfirmTrafficIncrease, ConfirmPromotion), Since: d.time("answered since"), Open: d.yes("agreed"), Failed: d.yes("refused"), Unanswered: d.yes("unanswered")}}
	}
	if d.rarely(5, "hook goes back") {
		c.Rollback = &RollbackFact{Rollout: int64(d.number(0, 20, "run to go back from"))}
	}
	return c
}
