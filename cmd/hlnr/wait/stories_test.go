package wait

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/frozen"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// judged judges the end of a story as the command does. It returns the answer, and the timeout message.
func judged(t *testing.T, story, version string) (*answer, string) {
	t.Helper()
	s, known := viewtest.Play(story, "shop")
	if !known {
		t.Fatal(story)
	}
	snap := snapshot{ms: &s.Input.Microservices[0], policy: &s.Input.ImagePolicies[0], routing: s.Input.NetworkPolicies, now: s.Now}
	if _, row := snap.row(version); row != nil {
		for i := range s.Input.Releases {
			if o := &s.Input.Releases[i]; o.Name == row.VersionedMicroservice {
				snap.release = o
			}
		}
	}
	q := question{version: version, state: forActive, command: command}
	_, a := q.judge(snap)
	return a, q.late(snap, time.Minute)
}

// TestOlderVersionOfAnExclusiveGroup checks that the wait ends for a version that does not start because a newer version of its exclusive group
// failed.
func TestOlderVersionOfAnExclusiveGroup(t *testing.T) {
	t.Parallel()
	a, _ := judged(t, "exclusive older", "1.1.0")
	if want := `1.1.0 does not start: 1.2.0 failed, and an exclusive group does not try older versions; to start 1.1.0, run "hlnr pin shop 1.1.0"`; a == nil || a.code != cli.ExitNo || a.text != want {
		t.Errorf("%+v, want %q", a, want)
	}
}

// TestVersionOfAnOlderGroup checks that the wait ends for a version whose group does not start, because it is older than the oldest live group. The wait
// does not end while a user ends that live group, because the version can start after that.
func TestVersionOfAnOlderGroup(t *testing.T) {
	t.Parallel()
	a, _ := judged(t, "older group", "1.5.0")
	if want := "1.5.0 does not start: its group 1.x is older than 2.x, the oldest live group; push a version of group 2.x or of a newer group"; a == nil || a.code != cli.ExitNo || a.text != want {
		t.Errorf("%+v, want %q", a, want)
	}
	s, _ := viewtest.Play("older group", "shop")
	s.Input.Microservices[0].Spec.EndedGroups = []string{"2.x"}
	if _, a := (question{version: "1.5.0", state: forActive, command: command}).judge(snapshot{ms: &s.Input.Microservices[0], policy: &s.Input.ImagePolicies[0], now: s.Now}); a != nil {
		t.Errorf("while the live group is being ended: %+v", a)
	}
}

// TestFrozenCanary checks that, while a freeze blocks a canary, the wait ends with the message that the planner
// wrote.
func TestFrozenCanary(t *testing.T) {
	t.Parallel()
	a, text := judged(t, "frozen", "1.1.0")
	if a == nil || a.code != cli.ExitWaits || !strings.HasPrefix(a.text, "1.1.0 is waiting at 10%: frozen until ") {
		t.Errorf("%+v, want exit code %d", a, cli.ExitWaits)
	}
	if !strings.Contains(text, "waits for the end of a freeze") {
		t.Errorf("the timeout message is %q", text)
	}
}

// TestStepInAFreeze checks that the text of a step mentions the freeze only if the rollout is waiting for the end of the
// freeze.
func TestStepInAFreeze(t *testing.T) {
	t.Parallel()
	s, _ := viewtest.Play("frozen", "shop")
	ms := &s.Input.Microservices[0]
	snap := snapshot{ms: ms}
	g, row := snap.row("1.1.0")
	for clause, want := range map[string]bool{frozen.AtWeight("1.1.0", 10): true, frozen.WithoutPods("1.1.0"): true, frozen.Release("1.1.0"): false, frozen.AtWeight("1.2.0", 10): false} {
		w := frozen.Wait{Clause: clause, Freeze: frozen.Freeze(time.Time{}, `Freeze "fair"`, "trade fair")}
		meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionFrozen).Message = w.String()
		if _, text := (question{version: "1.1.0"}).step(ms, g, row); strings.Contains(text, "freeze") != want {
			t.Errorf("%s: %q", clause, text)
		}
	}
}

// TestActiveAgreesWithWhy checks that the wait for an active release ends if and only if hlnr why reports that the release
// serves.
func TestActiveAgreesWithWhy(t *testing.T) {
	t.Parallel()
	last := map[string]viewtest.Moment{}
	for _, m := range viewtest.Decisions() {
		last[m.Name] = m
	}
	for name, m := range last {
		for _, g := range m.Input.Microservices[0].Status.ReleaseGroups {
			for _, r := range g.Releases {
				why, err := view.WhyVersion(m.Input, "shop", "shop", r.VersionedMicroservice, m.Now)
				if err != nil {
					t.Fatal(err)
				}
				a, text := judged(t, name, r.VersionedMicroservice)
				code := cli.Code(-1)
				if a != nil {
					code, text = a.code, a.text
				}
				if r.Status == v1alpha1.ReleaseActive && (why.Result == view.Serving) != (code == cli.ExitYes) {
					t.Errorf("%s: %s: why is %s %q, wait %d %q", name, r.VersionedMicroservice, why.Result, why.Summary, code, text)
				}
			}
		}
	}
}

// TestCauseAtTheTimeout checks that the timeout message contains the reason why a release is not active yet.
func TestCauseAtTheTimeout(t *testing.T) {
	t.Parallel()
	for story, c := range map[string]struct{ version, text string }{
		"exclusive crash":     {"1.1.0", "its status is pending; starting for 5m: container shop: exit 1: out of licenses"},
		"no capacity":         {"1.1.0", "its status is pending; waits for capacity: 0/3 nodes are available: insufficient cpu"},
		"rejected Deployment": {"1.1.0", "its status is pending; starting for 3m: spec.template: invalid"},
		"starts":              {"1.0.0", "its status is pending; starting for 60s: exit 1: missing DATABASE_URL"},
		"return crashes":      {"1.0.0", "its status is deprecated; starting for 3m: container shop: exit 1: out of licenses"},
		"withheld weight":     {"1.1.0", "its status is canary, step tenth, 10% (1 of 2), pause 600s; interrupted: container shop: exit 1: out of licenses"},
		"routes withheld":     {"1.1.0", "gateway infra/public has no listener for the host"},
		"gate pre":            {"1.1.0", "its status is pending; waits for the PreRollout hooks since 10:00"},
		"pause":               {"1.1.0", "its status is canary, step tenth, 10% (1 of 2), pause 600s"},
	} {
		a, late := judged(t, story, c.version)
		if a != nil || !strings.Contains(late, c.text) {
			t.Errorf("%s: %+v, %q, want %q", story, a, late, c.text)
		}
	}
}

// TestInconclusive checks that the answer for an inconclusive analysis contains a command for each decision.
func TestInconclusive(t *testing.T) {
	t.Parallel()
	a, _ := judged(t, "inconclusive", "1.1.0")
	want := "1.1.0 waits for a decision, because its analysis is inconclusive (latency-p99 is 0.612): to continue, hlnr continue shop 1.1.0; to abort, hlnr deprecate shop 1.1.0"
	if a == nil || a.code != cli.ExitWaits || a.text != want {
		t.Errorf("%+v, want %q", a, want)
	}
}

// TestCommitOfAPreview checks that wait finds a preview by the short commit that hlnr tree prints.
func TestCommitOfAPreview(t *testing.T) {
	t.Parallel()
	for commit, story := range map[string]string{"1717171": "previews", strings.Repeat("17", 20): "previews", "2717171": "preview pushed"} {
		if a, late := judged(t, story, commit); a == nil || a.code != cli.ExitYes {
			t.Errorf("%s: %+v, at the timeout: %s", commit, a, late)
		}
	}
}

// TestGroupThatEnds checks that a release of a group that is ending is not called retained.
func TestGroupThatEnds(t *testing.T) {
	t.Parallel()
	a, _ := judged(t, "closing", "1.0.0")
	if want := "1.0.0 is being removed: its group 1.x is ending"; a == nil || a.code != cli.ExitNo || a.text != want {
		t.Errorf("%+v, want %q", a, want)
	}
}

// TestPreviousCommitOfAPreview checks that the previous commit of a preview is not called retained.
func TestPreviousCommitOfAPreview(t *testing.T) {
	t.Parallel()
	a, _ := judged(t, "preview pushed", "1717171")
	if want := "1717171 was replaced by 2717171"; a == nil || a.code != cli.ExitNo || !strings.HasPrefix(a.text, want) || !strings.HasSuffix(a.text, ", and will be deleted after it is drained") {
		t.Errorf("%+v, want %q", a, want)
	}
}

// TestFailureInAnExclusiveGroup checks that an active release whose pods start again after a failure is not yet reported to have the traffic.
func TestFailureInAnExclusiveGroup(t *testing.T) {
	t.Parallel()
	for available, want := range map[bool]string{true: "; 1.0.0 has all traffic of group 1.x", false: "; the pods of 1.0.0, which is active in group 1.x, start again"} {
		s, _ := viewtest.Play("exclusive failed", "shop")
		g := &s.Input.Microservices[0].Status.ReleaseGroups[0]
		i := slices.IndexFunc(g.Releases, func(r v1alpha1.Release) bool { return r.Status == v1alpha1.ReleaseActive })
		g.Releases[i].Available = available
		q := question{version: "1.1.0", state: forActive, command: command}
		if _, a := q.judge(snapshot{ms: &s.Input.Microservices[0], policy: &s.Input.ImagePolicies[0], now: s.Now}); a == nil || !strings.HasSuffix(a.text, want) {
			t.Errorf("available: %t: %+v, want %q", available, a, want)
		}
	}
}
