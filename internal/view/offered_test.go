package view_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// verbsOf returns the verbs of the actions of a state.
func verbsOf(s view.State) (out []string) {
	for _, a := range s.Next {
		out = append(out, a.Verb)
	}
	return out
}

// commandsOf returns the commands of the actions of a state.
func commandsOf(s view.State) (out []string) {
	for _, a := range s.Next {
		out = append(out, a.Command)
	}
	return out
}

// TestOfferedDecisions checks that the planner applies each decision that a view offers.
func TestOfferedDecisions(t *testing.T) {
	t.Parallel()
	actions := map[string]string{"continue": "Continue", "adopt": "Adopt", "deprecate": "Deprecate", "retry": "Retry"}
	type offer struct{ story, where, verb string }
	seen := map[offer]bool{}
	for _, m := range viewtest.Decisions() {
		svc, ok := view.NewService(m.Input, "shop", "shop", m.Now)
		if !ok {
			t.Fatal(m.Name)
		}
		check := func(where string, st view.State) {
			for _, a := range st.Next {
				key := offer{m.Name, where + string(st.Word), a.Verb}
				if actions[a.Verb] == "" || seen[key] {
					continue
				}
				if out := m.Decide(actions[a.Verb], a.Target); out != "Applied" {
					seen[key] = true
					t.Errorf("%s: %s: %s %q offers %q: %s", m.Name, where, st.Word, st.Sentence, a.Command, out)
				}
			}
		}
		check("service", svc.State)
		for _, g := range slices.Concat(svc.Groups, svc.Previews) {
			check("group "+g.Name, g.State)
			for _, r := range g.Releases {
				check("release "+r.Version, r.State)
			}
		}
	}
}

// TestAppliedRetries checks that Retryable returns true for each failed release to which the planner would apply a Retry, and that the view
// then offers it.
func TestAppliedRetries(t *testing.T) {
	t.Parallel()
	last := map[string]int{} // the failed releases that can be retried at the end of a history
	for _, m := range viewtest.Decisions() {
		ms, policy := &m.Input.Microservices[0], &m.Input.ImagePolicies[0]
		svc, _ := view.NewService(m.Input, "shop", "shop", m.Now)
		last[m.Name] = 0
		for i := range ms.Status.ReleaseGroups {
			g := &ms.Status.ReleaseGroups[i]
			for j := range g.Releases {
				r := &g.Releases[j]
				if r.Status != v1alpha1.ReleaseError || m.Decide("Retry", r.VersionedMicroservice) != "Applied" {
					continue
				}
				last[m.Name]++
				if !view.Retryable(ms, policy, g, r) {
					t.Errorf("%s: the planner retries %s, but the view does not offer it; target %+v", m.Name, r.VersionedMicroservice, g.Target)
				}
				if !slices.ContainsFunc(slices.Concat(svc.Groups, svc.Previews), func(x view.Group) bool {
					return slices.ContainsFunc(x.Releases, func(x view.Release) bool {
						return x.Name == r.VersionedMicroservice && slices.Contains(verbsOf(x.State), "retry")
					})
				}) {
					t.Errorf("%s: no retry of %s is offered", m.Name, r.VersionedMicroservice)
				}
			}
		}
	}
	for _, name := range []string{
		"configuration failed", "configuration failed twice", "pinned version failed", "rollback failed", "pinned configuration failed", "pinned release failed", "denied above a failure", "denied with a return",
		"exclusive two failures",
	} {
		if last[name] != 1 {
			t.Errorf("%s: the planner retries %d releases, want 1", name, last[name])
		}
	}
}

// TestDownWhilePinnedInAFreeze checks that, during a freeze or a pause, a group whose pinned release is down offers a rollback to the
// retained release above that release. During a freeze or a pause, a pin makes the retained release active, but removing the pin does not.
func TestDownWhilePinnedInAFreeze(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pinned down frozen", "pinned down paused", "unpin down frozen"} {
		s, _ := viewtest.Play(name, "shop")
		svc, _ := view.NewService(s.Input, "shop", "shop", s.Now)
		if got := commandsOf(svc.State); !slices.Contains(got, "hlnr rollback shop --to 1.1.0") || slices.Contains(verbsOf(svc.State), "unpin") {
			t.Errorf("%s: 1.1.0 is retained, and a pin makes it active again; offered: %q", name, got)
		}
	}
	for name, serves := range map[string]bool{"unpin down frozen": false, "repin down frozen": true, "unpin down paused": false, "repin down paused": true} {
		s, _ := viewtest.Play(name, "shop")
		if h, err := view.WhyHost(s.Input, "shop.example.com", "/", s.Now); err != nil || (h.Result == view.Serving) != serves {
			t.Errorf("%s: %q, %v", name, h.Summary, err)
		}
	}
}

// TestUnpinInAFreeze checks that unpin is not offered for a retained release during a freeze, because unpin does not make the release active
// during a freeze.
func TestUnpinInAFreeze(t *testing.T) {
	t.Parallel()
	s, _ := viewtest.Play("pinned frozen", "shop")
	a, err := view.WhyVersion(s.Input, "shop", "shop", "1.1.0", s.Now)
	if want := ": hlnr rollback shop --to 1.1.0"; err != nil || !strings.HasSuffix(a.Do, want) {
		t.Errorf("%q, want %q (%v)", a.Do, want, err)
	}
}

// TestReturnInAFreeze checks that, for a retained release that becomes active at the end of a freeze, hlnr why shows the freeze, as the
// status does.
func TestReturnInAFreeze(t *testing.T) {
	t.Parallel()
	s, _ := viewtest.Play("frozen return", "shop")
	a, err := view.WhyVersion(s.Input, "shop", "shop", "1.1.0", s.Now)
	if want := "1.1.0 is not live: waits, frozen until 2030-02-04T08:00:00Z by "; err != nil || !strings.HasPrefix(a.Summary, want) || !strings.HasSuffix(a.Do, ": hlnr rollback shop --to 1.1.0") {
		t.Errorf("%q, %q, want %q (%v)", a.Summary, a.Do, want, err)
	}
}

// TestOlderVersionOfAnExclusiveGroup checks that, for a version below a failed release in an exclusive group, hlnr why shows the failed release
// and how to start the version. In other groups, the version starts automatically.
func TestOlderVersionOfAnExclusiveGroup(t *testing.T) {
	t.Parallel()
	s, _ := viewtest.Play("older", "shop")
	if g := s.Input.Microservices[0].Status.ReleaseGroups[0]; g.Active != "1.1.0" {
		t.Errorf("active: %s", g.Active)
	}
	s, _ = viewtest.Play("exclusive older", "shop")
	a, err := view.WhyVersion(s.Input, "shop", "shop", "1.1.0", s.Now)
	if want := "1.1.0 is not live: 1.2.0 failed, and an exclusive group does not try older versions."; err != nil || a.Summary != want || a.Do != "to start it: hlnr pin shop 1.1.0" {
		t.Errorf("%q, %q, want %q (%v)", a.Summary, a.Do, want, err)
	}
}

// TestVersionOfAnOlderGroup checks that, for a version of a group that is older than the oldest live group, hlnr why shows why the group does not
// start, even during a pause.
func TestVersionOfAnOlderGroup(t *testing.T) {
	t.Parallel()
	for _, paused := range []bool{false, true} {
		s, ms := played(t, "older group")
		ms.Spec.Paused = paused
		a, err := view.WhyVersion(s.Input, ms.Namespace, ms.Name, "1.5.0", s.Now)
		summary := "1.5.0 is not live: its group 1.x is older than 2.x, the oldest live group, and does not start."
		do := "to release its changes, push a version of group 2.x or of a newer group; a pin does not start an older group"
		if err != nil || a.Summary != summary || a.Do != do || len(a.Next) > 0 {
			t.Errorf("paused %t: %v, %q, %q, %+v", paused, err, a.Summary, a.Do, a.Next)
		}
	}
	s, ms := played(t, "older group")
	for name, c := range map[string]struct {
		offered v1alpha1.OfferedRelease
		edit    func(ms *v1alpha1.Microservice)
		older   bool
	}{
		"older":                       {offeredIn("1-x", "1.5.0"), nil, true},
		"newer":                       {offeredIn("3-x", "3.0.0"), nil, false},
		"in a live group":             {offeredIn("2-x", "1.9.0"), nil, false},
		"the live group is closing":   {offeredIn("1-x", "1.5.0"), func(ms *v1alpha1.Microservice) { ms.Status.ReleaseGroups[0].Phase = v1alpha1.GroupClosing }, false},
		"a user ended the live group": {offeredIn("1-x", "1.5.0"), func(ms *v1alpha1.Microservice) { ms.Spec.EndedGroups = []string{"2.x"} }, false},
		"no active release":           {offeredIn("1-x", "1.5.0"), func(ms *v1alpha1.Microservice) { ms.Status.ReleaseGroups[0].Releases[0].Status = v1alpha1.ReleaseError }, true},
		"the live group is a preview": {offeredIn("1-x", "1.5.0"), func(ms *v1alpha1.Microservice) {
			ms.Status.ReleaseGroups[0].Level, ms.Status.ReleaseGroups[0].PullRequest = v1alpha1.LevelPreview, 17
		}, false},
	} {
		ms := ms.DeepCopy()
		if c.edit != nil {
			c.edit(ms)
		}
		if got := view.OldestAbove(ms, &s.Input.ImagePolicies[0], &c.offered); (got != nil) != c.older {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestVersionThatDoesNotStartAfterAPause checks that, for a version that would not start even if the pause ended, hlnr why shows the other
// reason, and does not offer resume.
func TestVersionThatDoesNotStartAfterAPause(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		story, offered, cause, do string
		edit                      func(o *v1alpha1.OfferedRelease)
	}{
		"older than the active version": {"promoted", "1.0.5", "it is older than the active version 1.1.0", "", nil},
		"pinned":                        {"pinned", "1.2.0", "group 1.x is pinned to 1.0.0", "to start it: hlnr unpin shop", nil},
		"exclusive":                     {"exclusive older", "1.1.0", "1.2.0 failed, and an exclusive group does not try older versions", "to start it: hlnr pin shop 1.1.0", nil},
		"beyond the limits": {"promoted", "0.9.0", "it is beyond spec.limits of the ImagePolicy, and no group of this service retains it", "", func(o *v1alpha1.OfferedRelease) {
			o.Group, o.Held = "0-x", true
		}},
		"newer": {"promoted", "1.2.0", "spec.paused is true", "to start it: hlnr resume shop", nil},
	} {
		s, ms := played(t, c.story)
		ms.Spec.Paused = true
		offered := offeredIn("1-x", c.offered)
		if c.edit != nil {
			c.edit(&offered)
		}
		s.Input.ImagePolicies[0].Status.Releases = append(s.Input.ImagePolicies[0].Status.Releases, offered)
		a, err := view.WhyVersion(s.Input, ms.Namespace, ms.Name, c.offered, s.Now)
		if want := c.offered + " is not live: " + c.cause + "."; err != nil || a.Summary != want || a.Do != c.do {
			t.Errorf("%s: %v, %q, %q, %+v; want %q, %q", name, err, a.Summary, a.Do, a.Next, want, c.do)
		}
	}
}

// offeredIn returns an offered version of a group.
func offeredIn(slug, version string) v1alpha1.OfferedRelease {
	return v1alpha1.OfferedRelease{Group: slug, SemVer: v1alpha1.SemVer{Version: version}, Level: v1alpha1.LevelRelease}
}

// TestOfferedVersionThatDoesNotStart checks that the status of a service without releases shows the offered version and the reason why the version
// does not start.
func TestOfferedVersionThatDoesNotStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sentence, next string }{
		"first paused":                 {"paused: 1.0.0 waits to start", "hlnr resume shop"},
		"the only group ended":         {"1.0.0 waits: spec.endedGroups names its group 1.x", "hlnr end-group shop 1.x --undo"},
		"the only group ended by slug": {"1.0.0 waits: spec.endedGroups names its group 1.x", "hlnr end-group shop 1-x --undo"},
	} {
		s, _ := viewtest.Play(name, "shop")
		svc, _ := view.NewService(s.Input, "shop", "shop", s.Now)
		a, err := view.WhyVersion(s.Input, "shop", "shop", "1.0.0", s.Now)
		if err != nil || svc.State.Class != view.Waiting || svc.State.Sentence != c.sentence || !slices.Equal(commandsOf(svc.State), []string{c.next}) || a.Do != "to start it: "+c.next {
			t.Errorf("%s: %s %q %q; why: %q, %q (%v)", name, svc.State.Class, svc.State.Sentence, commandsOf(svc.State), a.Summary, a.Do, err)
		}
	}
}

// TestLogsOfARejectedDeployment checks that logs are not offered if no pod can exist.
func TestLogsOfARejectedDeployment(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"rejected Deployment": false, "rejected Deployment failed": false, "exclusive crash": true, "return crashes": true} {
		s, _ := viewtest.Play(name, "shop")
		svc, _ := view.NewService(s.Input, "shop", "shop", s.Now)
		if got := slices.Contains(verbsOf(svc.State), "logs"); got != want {
			t.Errorf("%s: %q: %q", name, svc.State.Sentence, commandsOf(svc.State))
		}
	}
}

// TestPreviousCommitOfAPreview checks that the previous commit of a preview is not called retained, because it is deleted after its drain, and
// previews have no rollback.
func TestPreviousCommitOfAPreview(t *testing.T) {
	t.Parallel()
	s, _ := viewtest.Play("preview pushed", "shop")
	a, err := view.WhyVersion(s.Input, "shop", "shop", strings.Repeat("17", 20), s.Now)
	if want := "1717171 is not live: draining for 10s."; err != nil || a.Summary != want || strings.Contains(a.Do, "rollback") {
		t.Errorf("%q, %q, want %q (%v)", a.Summary, a.Do, want, err)
	}
	svc, _ := view.NewService(s.Input, "shop", "shop", s.Now)
	for _, r := range svc.Previews[0].Releases {
		if r.Retained || slices.Contains(verbsOf(r.State), "rollback") {
			t.Errorf("%s: retained: %t, %q", r.Version, r.Retained, commandsOf(r.State))
		}
	}
}
