package microservice

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/startlimit"
)

// TestStartsInLine checks what waits while other rollouts are starting, and what does not.
func TestStartsInLine(t *testing.T) {
	t.Parallel()
	other := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "other", Name: "service"}}
	crowd := func(s *story) *startlimit.Limit {
		s.reconciler.starts = &startlimit.Limit{Max: 1, Age: time.Hour, Clock: s.clock} // Slots are freed only by Done.
		s.reconciler.starts.Admit(other)
		return s.reconciler.starts
	}
	waits := func(s *story, what string) {
		s.Helper()
		writes := len(s.writes)
		result, err := s.pass()
		if err != nil || result.RequeueAfter == 0 || result.RequeueAfter > time.Hour {
			s.Errorf("%s: requeue after %s (%v), want at most an hour", what, result.RequeueAfter, err)
		}
		if more := s.writes[writes:]; len(more) > 0 {
			s.Errorf("%s: wrote %q, want no writes", what, more)
		}
	}

	t.Run("the first release", func(t *testing.T) {
		t.Parallel()
		s := begin(t)
		s.offer("1.0.0")
		s.clock.SetTime(s.ms().CreationTimestamp.Add(time.Second)) // Before the creation, the status is not delayed.
		starts := crowd(s)
		waits(s, "a new service")
		s.clock.Step(2 * silence)
		waits(s, "a new service after the usual silence")
		s.clock.Step(silenceInLine)
		s.pass()
		same(t, "Ready", condition(s.ms(), "Ready"), "False StartDelayed: 1.0.0 is waiting to start: the manager's --max-starting-rollouts flag limits how many rollouts start at the same time")
		starts.Done(other)
		s.play(s.until("1.0.0 pending"))
		if admitted, _ := starts.Counts(); admitted != 1 {
			t.Errorf("%d rollouts are starting, want this one", admitted)
		}
		s.play()
		if admitted, waiting := starts.Counts(); admitted+waiting > 0 {
			t.Errorf("%d rollouts are starting and %d are waiting, want none", admitted, waiting)
		}
	})

	t.Run("a new version after a freeze", func(t *testing.T) {
		t.Parallel()
		s := begin(t)
		s.offer("1.0.0")
		s.play()
		f := s.fair(time.Hour)
		s.offer("1.0.0", "1.1.0")
		s.pass()
		s.pass()
		crowd(s)
		frozen, groups := s.rolloutState(), s.ms().Status.ReleaseGroups
		if err := env.Client.Delete(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		writes := len(s.writes)
		s.pass()
		s.pass()
		same(t, "writes at the end of the freeze", s.writes[writes:], []string{"status"}) // The Frozen condition.
		same(t, "rollout state", s.rolloutState(), frozen)
		same(t, "groups", s.ms().Status.ReleaseGroups, groups)
		same(t, "Frozen", condition(s.ms(), "Frozen"), "")
	})

	t.Run("a new version", func(t *testing.T) {
		t.Parallel()
		s := begin(t)
		s.offer("1.0.0")
		s.play()
		starts := crowd(s)
		s.offer("1.0.0", "1.1.0")
		waits(s, "a new version")
		same(t, "Ready", condition(s.ms(), "Ready"), "True Succeeded: active: 1.0.0 in group release")
		starts.Done(other)
		s.play(s.until("1.1.0 pending"))
		if now, _ := starts.Admit(other); now {
			t.Error("the other rollout starts before the canary has reached its pause")
		}
		s.play(s.until("1.1.0 canary 10%"))
		if now, _ := starts.Admit(other); !now {
			t.Error("the other rollout does not start while the canary pauses")
		}
		s.play()
		same(t, "Ready", condition(s.ms(), "Ready"), "True Succeeded: active: 1.1.0 in group release")
	})

	for name, change := range map[string]func(s *story){
		"an active release that was deleted": func(s *story) {
			for _, o := range s.objects() {
				if err := env.Client.Delete(s.Context(), o); err != nil {
					s.Fatal(err)
				}
			}
		},
		"another image of the same version": func(s *story) {
			p := &v1alpha1.ImagePolicy{}
			s.get("shop", p)
			p.Status.Releases[0].Images[0] = v1alpha1.ReleaseImage{Image: "r.example/shop:1.0.0@sha256:other", Digest: "sha256:other"}
			if err := env.Client.Status().Update(s.Context(), p); err != nil {
				s.Fatal(err)
			}
		},
		"a decision": func(s *story) {
			s.offer("1.0.0", "1.1.0")
			o := s.release("1.0.0")
			o.Spec.Decision = &v1alpha1.Decision{Action: v1alpha1.DecisionContinue, ID: "1", Step: "1"}
			if err := env.Client.Update(s.Context(), o); err != nil {
				s.Fatal(err)
			}
		},
		"no available active release": func(s *story) {
			s.offer("1.0.0", "1.1.0")
			o := s.release("1.0.0")
			before := o.DeepCopy()
			o.Status.Available = 0
			s.report(o, before)
			s.pass()
		},
		"a change to the specification": func(s *story) {
			s.edit(func(spec *v1alpha1.MicroserviceSpec) { spec.Template.Spec.Containers[0].Args = []string{"new"} })
		},
		"a new version of a pinned group": func(s *story) {
			s.edit(func(spec *v1alpha1.MicroserviceSpec) {
				spec.UpdateStrategy.Manual = &v1alpha1.ManualUpdateStrategy{SemVer: &v1alpha1.SemVer{Version: "1.1.0"}}
			})
			s.pass() // 1.1.0 is not offered yet.
			s.offer("1.0.0", "1.1.0")
		},
		"the replacement of a denied version": func(s *story) {
			s.offer("1.1.0")
			p := &v1alpha1.ImagePolicy{}
			s.get("shop", p)
			p.Status.Withdrawn = []v1alpha1.Withdrawal{{Group: "release", Version: "1.0.0", Reason: v1alpha1.WithdrawnDenied, Time: metav1.Now()}}
			if err := env.Client.Status().Update(s.Context(), p); err != nil {
				s.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			s.offer("1.0.0")
			s.play()
			crowd(s)
			known := s.objects()
			change(s)
			s.pass()
			created := 0
			for name, o := range s.objects() {
				if known[name] == nil || known[name].UID != o.UID {
					created++
				}
			}
			if created != 1 {
				t.Errorf("%d releases were created, want 1: %s", created, s.rolloutState())
			}
		})
	}
}

// TestWhatStartsInLine checks each condition under which a Microservice waits in line to start a release.
func TestWhatStartsInLine(t *testing.T) {
	t.Parallel()
	type change func(o *observed, p *plan)
	start := func(changes ...change) bool {
		o := &observed{ms: &v1alpha1.Microservice{}, offered: map[string]*v1alpha1.OfferedRelease{
			"a": {SemVer: v1alpha1.SemVer{Version: "1.0.0"}, Level: v1alpha1.LevelRelease},
			"b": {SemVer: v1alpha1.SemVer{Version: "1.1.0"}, Level: v1alpha1.LevelRelease},
		}}
		o.ms.Generation, o.ms.Status.ObservedGeneration = 2, 2
		o.facts.Objects = []release.Object{{Release: "a"}}
		o.facts.State.Groups = []release.Group{{Slug: "1-x", Phase: release.Live, Releases: []release.Row{{Release: "a", Version: "1.0.0", Status: release.Active, Available: true}}}}
		p := plan{Result: release.Result{Ensure: []release.Ensure{{Slug: "1-x", Release: "a"}, {Slug: "1-x", Release: "b", Create: true}}}}
		for _, c := range changes {
			c(o, &p)
		}
		return startsInLine(o, p)
	}
	group := func(change func(g *release.Group)) change {
		return func(o *observed, _ *plan) { change(&o.facts.State.Groups[0]) }
	}
	active := func(change func(r *release.Row)) change {
		return group(func(g *release.Group) { change(&g.Releases[0]) })
	}
	empty := func(o *observed, _ *plan) {
		o.facts.State.Groups, o.facts.Objects, o.ms.Status.ObservedGeneration = nil, nil, 0
	}
	decided := func(o *observed, _ *plan) { o.facts.Objects[0].Decision = &release.Decision{ID: "x"} }
	for name, changes := range map[string][]change{
		"a new version":       {},
		"a new Microservice":  {empty},
		"an applied decision": {decided, active(func(r *release.Row) { r.Decision = &release.Handled{ID: "x"} })},
		"a version that also has a release in another group": {func(o *observed, _ *plan) {
			o.facts.State.Groups = append(o.facts.State.Groups, o.facts.State.Groups[0])
			o.facts.State.Groups[1].Slug, o.facts.State.Groups[1].Releases = "2-x", slices.Clone(o.facts.State.Groups[0].Releases)
			o.facts.State.Groups[1].Releases = append(o.facts.State.Groups[1].Releases, release.Row{Release: "x", Version: "1.1.0", Status: release.Deprecated})
		}},
	} {
		if !start(changes...) {
			t.Errorf("%s starts without a wait", name)
		}
	}
	for name, changes := range map[string][]change{
		"nothing is created":            {func(_ *observed, p *plan) { p.Ensure[1].Create = false }},
		"a takeover":                    {func(o *observed, _ *plan) { o.adopting = true }},
		"a takeover by a new service":   {empty, func(o *observed, _ *plan) { o.adopting = true }},
		"a pin":                         {func(o *observed, _ *plan) { o.facts.Spec.Pins = []release.Pin{{}} }},
		"a version that is not offered": {func(o *observed, _ *plan) { delete(o.offered, "b") }},
		"a preview":                     {func(o *observed, _ *plan) { o.offered["b"].Level = v1alpha1.LevelPreview }},
		"the first preview":             {empty, func(o *observed, _ *plan) { o.offered["b"].Level = v1alpha1.LevelPreview }},
		"a lost state":                  {func(o *observed, _ *plan) { o.facts.State.Groups = nil }},
		"another specification":         {func(o *observed, _ *plan) { o.ms.Generation++ }},
		"another configuration":         {func(o *observed, _ *plan) { o.offered["b"].SemVer.Version = "1.0.0" }},
		"an active release is missing":  {func(_ *observed, p *plan) { p.Ensure[0].Create = true }},
		"a closing group":               {group(func(g *release.Group) { g.Phase = release.Closing })},
		"a rollout":                     {group(func(g *release.Group) { g.Rollout = &release.Rollout{} })},
		"no active release":             {active(func(r *release.Row) { r.Status = release.Error })},
		"an unavailable release":        {active(func(r *release.Row) { r.Available = false })},
		"a withdrawn release":           {func(o *observed, _ *plan) { delete(o.offered, "a") }},
		"a pending release": {group(func(g *release.Group) {
			g.Releases = append(g.Releases, release.Row{Release: "c", Status: release.Pending})
		})},
		"a decision": {decided},
	} {
		if start(changes...) {
			t.Errorf("%s waits in line", name)
		}
	}
}

// TestSettled checks when a rollout no longer counts as starting.
func TestSettled(t *testing.T) {
	t.Parallel()
	o := &observed{}
	o.facts.Spec.Steps = []release.Step{{Weight: 10, Pause: time.Second}, {Weight: 20}, {Weight: 50, Approval: true}}
	for name, tc := range map[string]struct {
		run  *release.Rollout
		note release.Note
		want bool
	}{
		"no rollout":                 {nil, release.Note{}, true},
		"before the first step":      {&release.Rollout{}, release.Note{Slug: "1-x", Reason: release.Unhealthy}, false},
		"in a step with a pause":     {&release.Rollout{Step: 1}, release.Note{}, true},
		"in a step without a wait":   {&release.Rollout{Step: 2}, release.Note{}, false},
		"in a step with an approval": {&release.Rollout{Step: 3}, release.Note{}, true},
		"in a step that was removed": {&release.Rollout{Step: 4}, release.Note{}, false},
		"waiting for a window":       {&release.Rollout{Step: 2}, release.Note{Slug: "1-x", Reason: release.AwaitingWindow}, true},
		"another group waits":        {&release.Rollout{Step: 2}, release.Note{Slug: "2-x", Reason: release.AwaitingWindow}, false},
		"before it has pods":         {&release.Rollout{Gate: release.ConfirmRollout}, release.Note{Slug: "1-x", Reason: release.AwaitingGate}, false},
		"at the gate before traffic": {&release.Rollout{Gate: release.PreRollout}, release.Note{Slug: "1-x", Reason: release.AwaitingGate}, true},
		"a wait that has just ended": {&release.Rollout{Step: 2}, release.Note{Slug: "1-x", Reason: release.AwaitingWindow, Event: true}, false},
	} {
		p := plan{Result: release.Result{State: release.State{Groups: []release.Group{{Slug: "1-x", Rollout: tc.run}}}, Notes: []release.Note{tc.note}}}
		if got := settled(o, p); got != tc.want {
			t.Errorf("%s: settled %v, want %v", name, got, tc.want)
		}
	}
}

// TestSettledTraffic checks that the first release of a group counts as starting until the policies have confirmed its traffic.
func TestSettledTraffic(t *testing.T) {
	t.Parallel()
	report := func(slug string, revision int64) release.Policy {
		return release.Policy{Groups: []release.Report{{Slug: slug, Revision: revision}}}
	}
	for name, tc := range map[string]struct {
		policies []release.Policy
		group    release.Group
		want     bool
	}{
		"not the first release":       {[]release.Policy{report("1-x", 3)}, release.Group{TrafficRevision: 4, Releases: []release.Row{{Release: "b", Status: release.Active, Reason: release.Promoted}}}, true},
		"no policy":                   {nil, release.Group{TrafficRevision: 4}, true},
		"confirmed":                   {[]release.Policy{report("1-x", 4)}, release.Group{TrafficRevision: 4}, true},
		"an earlier revision":         {[]release.Policy{report("1-x", 4), report("1-x", 3)}, release.Group{TrafficRevision: 4}, false},
		"only another group":          {[]release.Policy{report("2-x", 5)}, release.Group{TrafficRevision: 4}, false},
		"no group yet":                {[]release.Policy{{Name: "shop"}}, release.Group{TrafficRevision: 4}, false},
		"no report":                   {[]release.Policy{{Unreported: true}}, release.Group{TrafficRevision: 4}, false},
		"no traffic":                  {[]release.Policy{{Unreported: true}}, release.Group{}, true},
		"the planner no longer waits": {[]release.Policy{report("1-x", 3)}, release.Group{TrafficRevision: 4, SettledRevision: 4}, true},
		"the planner waits again":     {[]release.Policy{report("1-x", 3)}, release.Group{TrafficRevision: 4, SettledRevision: 3}, false},
	} {
		o := &observed{}
		o.facts.Policies = tc.policies
		if tc.group.Slug = "1-x"; tc.group.Releases == nil {
			tc.group.Releases = []release.Row{{Release: "a", Status: release.Active, Reason: release.First}}
		}
		if got := settled(o, plan{Result: release.Result{State: release.State{Groups: []release.Group{tc.group}}}}); got != tc.want {
			t.Errorf("%s: settled %v, want %v", name, got, tc.want)
		}
	}
}
