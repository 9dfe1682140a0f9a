package wait

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/frozen"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/test/manager"
)

var cluster *manager.Cluster

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(manager.Run(m, &cluster))
}

func call(ctx context.Context, namespace string, args ...string) (code cli.Code, stdout, stderr string) {
	var out, err bytes.Buffer
	f := cli.New("hlnr", "test", genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &err})
	code = cli.Run(ctx, f, slices.Concat([]string{"wait"}, args, []string{"--kubeconfig", cluster.Kubeconfig(), "-n", namespace}), NewCommand)
	return code, out.String(), err.String()
}

func expect(t *testing.T, namespace string, code cli.Code, text string, args ...string) string {
	t.Helper()
	got, stdout, stderr := call(t.Context(), namespace, args...)
	if got != code || !strings.Contains(stdout+stderr, text) {
		t.Errorf("wait %s: exit code %d, output %q, error %q; want %d and %q", strings.Join(args, " "), got, stdout, stderr, code, text)
	}
	return stdout
}

// TestWait covers a wait that begins before the version exists, and follows the version through its steps to an approval.
func TestWait(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	cluster.Microservice(t, namespace, "shop",
		v1alpha1.CanaryStep{Name: "tenth", Weight: 10, Pause: &v1alpha1.CanaryPause{Duration: "1s"}},
		v1alpha1.CanaryStep{Name: "half", Weight: 50, Approval: &v1alpha1.CanaryApproval{}})
	expect(t, namespace, cli.ExitUsage, `there is no Microservice with the name "shpo" in namespace `+namespace+`; did you mean "shop"?`, "shpo", "1.0.0")
	expect(t, namespace, cli.ExitUsage, `there is no canary step of shop with the name "halv"; did you mean "half"?`, "shop", "1.0.0", "--for", "step=halv")
	expect(t, namespace, cli.ExitUsage, `--for: "done" is not a state`, "shop", "1.0.0", "--for", "done")
	expect(t, namespace, cli.ExitTimeout, "1.0.0 is not active after 1ms: ImagePolicy shop has not found the version", "shop", "1.0.0", "--timeout", "1ms")

	first := make(chan string, 1)
	go func() {
		code, stdout, stderr := call(t.Context(), namespace, "shop", "v1.0.0")
		if code != cli.ExitYes {
			stdout += stderr
		}
		first <- stdout
	}()
	cluster.Offer(t, namespace, "shop", "1.0.0")
	if stdout := <-first; !strings.Contains(stdout, "found") || !strings.Contains(stdout, "active") || strings.Index(stdout, "found") > strings.Index(stdout, "active") {
		t.Errorf("the first version: %s", stdout)
	}

	cluster.Offer(t, namespace, "shop", "1.1.0", "1.0.0")
	out := expect(t, namespace, cli.ExitWaits, "1.1.0 waits for approval: hlnr --kubeconfig "+cluster.Kubeconfig()+" continue -n "+namespace+" shop 1.1.0", "shop", "1.1.0")
	if !strings.Contains(out, "started") || !strings.Contains(out, "half, 50% (2 of 2), waits for approval") {
		t.Errorf("the second version: %s", out)
	}
	printed := expect(t, namespace, cli.ExitWaits, "1.1.0 waits for approval", "shop", "1.1.0", "-o", "json")
	var last Result
	for text := range strings.Lines(printed) {
		last = Result{}
		if err := json.Unmarshal([]byte(text), &last); err != nil || last.APIVersion != "view.hlnr.io/v1" || last.Time.IsZero() {
			t.Errorf("line %q: %v", text, err)
		}
	}
	want := Result{TypeMeta: kind("Wait"), Time: last.Time, Namespace: namespace, Microservice: "shop", Version: "1.1.0", For: "active", Result: "Waits", ExitCode: 5, Message: last.Message}
	if last != want || !strings.Contains(last.Message, "waits for approval: hlnr --kubeconfig "+cluster.Kubeconfig()+" continue -n "+namespace+" shop 1.1.0") || !strings.Contains(printed, `"what":"step 2"`) {
		t.Errorf("the JSON output ends with %+v:\n%s", last, printed)
	}
	expect(t, namespace, cli.ExitYes, `"result":"Yes","exitCode":0}`, "shop", "1.1.0", "--for", "canary", "-o", "json")
	expect(t, namespace, cli.ExitTimeout, `"result":"TimedOut","exitCode":4`, "shop", "1.1.0", "--through-approvals", "--timeout", "1ms", "-o", "json")
	expect(t, namespace, cli.ExitYes, "", "shop", "1.1.0", "--for", "approval")
	expect(t, namespace, cli.ExitYes, "", "shop", "1.1.0", "--for", "canary")
	expect(t, namespace, cli.ExitYes, "", "shop", "1.1.0", "--for", "step=tenth")
	expect(t, namespace, cli.ExitTimeout, "1.1.0 is not active after 1ms: its status is canary, step half", "shop", "1.1.0", "--through-approvals", "--timeout", "1ms")

	aborted := cluster.Await(t, namespace, "shop", "1.1.0", v1alpha1.ReleaseCanary)
	patch := `{"metadata":{"annotations":{"hlnr.io/decided-by":"ana"}},"spec":{"decision":{"action":"Deprecate","id":"1"}}}`
	if err := cluster.As(t, "ana", "system:masters").Patch(t.Context(), aborted, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	cluster.Await(t, namespace, "shop", "1.1.0", v1alpha1.ReleaseError)
	expect(t, namespace, cli.ExitNo, "1.1.0 failed: Aborted", "shop", "1.1.0", "--through-approvals")
}

// fixture returns a snapshot to judge.
func fixture(edit func(*snapshot)) snapshot {
	ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "shop"}}
	ms.Spec.ImagePolicyRef.Name = "shop"
	ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Name: "tenth", Weight: 10, Approval: &v1alpha1.CanaryApproval{}}}}
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{
		Name: "1.x", Slug: "1-x", Active: "1.2.0",
		Releases: []v1alpha1.Release{{VersionedMicroservice: "shop-1-2-0", SemVer: v1alpha1.SemVer{Version: "1.2.0"}, Status: v1alpha1.ReleaseActive, Promoted: 2, Weight: 100}},
	}}
	s := snapshot{ms: ms, policy: &v1alpha1.ImagePolicy{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, now: time.Date(2026, 11, 25, 14, 0, 0, 0, time.UTC)}
	edit(&s)
	return s
}

func offer(s *snapshot, versions ...string) {
	for _, v := range versions {
		s.policy.Status.Releases = append(s.policy.Status.Releases, v1alpha1.OfferedRelease{Group: "1-x", SemVer: v1alpha1.SemVer{Name: "1.x", Version: v}})
	}
}

// command returns a command for a user whose default namespace is shop.
func command(namespace, verb string, args ...string) string {
	return view.Command("hlnr", "shop", namespace, verb, args...)
}

// TestJudge checks which states of a version end the wait.
func TestJudge(t *testing.T) {
	t.Parallel()
	pin := func(version string, expire *metav1.Time) func(*snapshot) {
		return func(s *snapshot) {
			offer(s, "1.3.0")
			s.ms.Spec.UpdateStrategy.Manual = &v1alpha1.ManualUpdateStrategy{Groups: []v1alpha1.GroupPin{{Name: "1-x", Version: version, Reason: "sessions", ExpireTime: expire}}}
		}
	}
	refused := func(verdict string) func(*snapshot) {
		return func(s *snapshot) {
			s.policy.Status.Candidates = []v1alpha1.RefusedCandidate{{Version: "1.3.0", Verdict: verdict, Reason: "prereleases are off"}}
		}
	}
	row := func(status v1alpha1.ReleaseStatus, step int32) func(*snapshot) {
		return func(s *snapshot) {
			g := &s.ms.Status.ReleaseGroups[0]
			g.Releases = append(g.Releases, v1alpha1.Release{VersionedMicroservice: "shop-1-3-0", SemVer: v1alpha1.SemVer{Version: "1.3.0"}, Status: status})
			g.Rollout = &v1alpha1.Rollout{Release: "shop-1-3-0", Step: step}
		}
	}
	freezes := func(clause string) func(*snapshot) {
		return func(s *snapshot) {
			w := frozen.Wait{Clause: clause, Freeze: frozen.Freeze(time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC), `Freeze "fair"`, "trade fair")}
			s.ms.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFrozen, Status: "True", Reason: "Frozen", Message: w.String()}}
		}
	}
	aborted := func(reason, id string) func(*snapshot) {
		return func(s *snapshot) {
			row(v1alpha1.ReleaseError, 0)(s)
			r := &s.ms.Status.ReleaseGroups[0].Releases[1]
			r.Reason, r.Decision = reason, &v1alpha1.HandledDecision{ID: "1", Action: v1alpha1.DecisionDeprecate, By: "ana"}
			s.release = &v1alpha1.VersionedMicroservice{}
			s.release.Spec.Decision = &v1alpha1.Decision{ID: id, Action: v1alpha1.DecisionDeprecate, Reason: "errors\x1b[2J"}
			s.release.Status.Message = "ana requested the action Deprecate"
		}
	}
	inconclusive := func(namespace string) func(*snapshot) {
		return func(s *snapshot) {
			row(v1alpha1.ReleaseCanary, 7)(s)
			s.ms.Namespace = namespace
			s.ms.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAnalysisInconclusive, Status: "True", Reason: v1alpha1.ConditionAnalysisInconclusive, Message: "11.3.0 proves nothing"}}
			run := s.ms.Status.ReleaseGroups[0].Rollout
			s.release = &v1alpha1.VersionedMicroservice{}
			s.release.Status.Analysis = &v1alpha1.ReleaseAnalysis{Phase: v1alpha1.AnalysisInconclusive, Run: run.Sequence, Step: run.Step}
		}
	}
	routed := func(revision int64) func(*snapshot) {
		return func(s *snapshot) {
			row(v1alpha1.ReleaseActive, 0)(s)
			p := v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
			if revision >= 0 {
				p.Status.Groups = []v1alpha1.GroupTraffic{{Slug: s.ms.Status.ReleaseGroups[0].Slug, Revision: revision, Message: "the Gateway is unavailable"}}
			}
			s.routing = []v1alpha1.NetworkPolicy{p}
		}
	}
	adopted := func(status v1alpha1.ReleaseStatus, step int32) func(*snapshot) {
		return func(s *snapshot) {
			row(status, step)(s)
			s.ms.Status.ReleaseGroups[0].Releases[1].Internal = &v1alpha1.ReleaseInternal{Adopted: true}
		}
	}
	together := func(reason, held string) func(*snapshot) {
		return func(s *snapshot) {
			row(v1alpha1.ReleaseCanary, 7)(s)
			s.ms.Status.ReleaseGroups[0].Rollout.Gate = v1alpha1.GateTogether
			s.ms.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionBlocked, Status: "True", Reason: reason, Message: frozen.AtWeight(held, 10) + ": it failed in Microservice cart (CrashLoopBackOff)"}}
		}
	}
	const none = cli.Code(-1)
	for name, c := range map[string]struct {
		version, state   string
		throughApprovals bool
		edit             func(*snapshot)
		code             cli.Code
		text             string
	}{
		"not found":           {"1.3.0", forActive, false, func(*snapshot) {}, none, ""},
		"no policy":           {"1.3.0", forActive, false, func(s *snapshot) { s.policy = nil }, none, ""},
		"offered":             {"1.3.0", forActive, false, func(s *snapshot) { offer(s, "1.3.0") }, none, ""},
		"offered, by its tag": {"v1.3.0", forActive, false, func(s *snapshot) { offer(s, "1.3.0") }, none, ""},
		"filtered":            {"1.3.0", forActive, false, refused("Level"), cli.ExitNo, "1.3.0 is not offered by ImagePolicy shop: Level: prereleases are off"},
		"does not exist yet":  {"1.3.0", forActive, false, refused("Exists"), none, ""},
		"too young":           {"1.3.0", forActive, false, refused("MinAge"), none, ""},
		"not signed yet":      {"1.3.0", forActive, false, refused("Verify"), none, ""},
		"filtered, before the last change to the policy": {"1.3.0", forActive, false, func(s *snapshot) {
			refused("Deny")(s)
			s.policy.Generation = s.policy.Status.ObservedGeneration + 1
		}, none, ""},
		"withdrawn, before the last change to the policy": {"1.3.0", forActive, false, func(s *snapshot) {
			s.policy.Status.Withdrawn = []v1alpha1.Withdrawal{{Version: "1.3.0", Reason: "Denied"}}
			s.policy.Generation = s.policy.Status.ObservedGeneration + 1
		}, none, ""},
		"withdrawn": {"1.3.0", forActive, false, func(s *snapshot) {
			s.policy.Status.Withdrawn = []v1alpha1.Withdrawal{{Version: "1.3.0", Reason: "Denied"}}
		}, cli.ExitNo, "1.3.0 is withdrawn by ImagePolicy shop: Denied"},
		"older":                                  {"1.1.0", forActive, false, func(s *snapshot) { offer(s, "1.2.0", "1.1.0") }, cli.ExitNo, "1.1.0 is superseded: 1.2.0 is active in group 1.x"},
		"older, pinned":                          {"1.3.0", forActive, false, func(s *snapshot) { pin("1.3.0", nil)(s); s.ms.Status.ReleaseGroups[0].Active = "1.4.0" }, none, ""},
		"pinned to another version":              {"1.3.0", forActive, false, pin("1.2.0", nil), cli.ExitNo, `1.3.0 does not start: group 1.x is pinned to 1.2.0: "sessions"`},
		"pin that ended":                         {"1.3.0", forActive, false, pin("1.2.0", &metav1.Time{Time: time.Unix(1, 0)}), none, ""},
		"paused":                                 {"1.3.0", forActive, false, func(s *snapshot) { offer(s, "1.3.0"); s.ms.Spec.Paused = true }, cli.ExitWaits, "shop is paused: hlnr resume shop"},
		"paused, through approvals":              {"1.3.0", forActive, true, func(s *snapshot) { offer(s, "1.3.0"); s.ms.Spec.Paused = true }, none, ""},
		"frozen":                                 {"1.3.0", forActive, false, func(s *snapshot) { offer(s, "1.3.0"); freezes(frozen.Release("1.3.0"))(s) }, cli.ExitWaits, "1.3.0 does not start: 1.3.0 is waiting: frozen until"},
		"frozen, unknown":                        {"1.3.0", forActive, false, freezes(frozen.Release("1.2.9")), none, ""},
		"frozen, through approvals":              {"1.3.0", forActive, true, func(s *snapshot) { offer(s, "1.3.0"); freezes(frozen.Release("1.3.0"))(s) }, none, ""},
		"frozen canary":                          {"1.3.0", forActive, false, func(s *snapshot) { row(v1alpha1.ReleaseCanary, 7)(s); freezes(frozen.AtWeight("1.3.0", 10))(s) }, cli.ExitWaits, "1.3.0 is waiting at 10%: frozen until"},
		"frozen without pods":                    {"1.3.0", forActive, false, func(s *snapshot) { row(v1alpha1.ReleasePending, 7)(s); freezes(frozen.WithoutPods("1.3.0"))(s) }, cli.ExitWaits, "1.3.0 is waiting without pods: frozen until"},
		"frozen rollback":                        {"1.3.0", forActive, false, func(s *snapshot) { row(v1alpha1.ReleasePending, 7)(s); freezes(frozen.Rollback("1.3.0"))(s) }, cli.ExitWaits, "the rollback to 1.3.0 is waiting: frozen until"},
		"version with the same suffix is frozen": {"1.3.0", forActive, false, func(s *snapshot) { row(v1alpha1.ReleaseCanary, 7)(s); freezes(frozen.AtWeight("11.3.0", 10))(s) }, none, ""},
		"another version is frozen":              {"1.3.0", forActive, false, func(s *snapshot) { row(v1alpha1.ReleaseCanary, 7)(s); freezes(frozen.AtWeight("2.0.0", 10))(s) }, none, ""},
		"failed in another Microservice":         {"1.3.0", forActive, false, together("TogetherHeld", "1.3.0"), cli.ExitWaits, "1.3.0 is waiting at 10%: it failed in Microservice cart (CrashLoopBackOff)"},
		"failed elsewhere, through approvals":    {"1.3.0", forActive, true, together("TogetherHeld", "1.3.0"), none, ""},
		"another version failed elsewhere":       {"1.3.0", forActive, false, together("TogetherHeld", "2.0.0"), none, ""},
		"blocked otherwise":                      {"1.3.0", forActive, false, together("Blocked", "1.3.0"), none, ""},
		"past the gate": {"1.3.0", forActive, false, func(s *snapshot) {
			together("TogetherHeld", "1.3.0")(s)
			s.ms.Status.ReleaseGroups[0].Rollout.Gate = ""
		}, none, ""},
		"active":                           {"1.2.0", forActive, false, func(*snapshot) {}, cli.ExitYes, ""},
		"active, without an approval":      {"1.2.0", forApproval, false, func(*snapshot) {}, cli.ExitNo, "1.2.0 is active, and does not wait for approval"},
		"pending":                          {"1.3.0", forCanary, false, row(v1alpha1.ReleasePending, 0), none, ""},
		"canary":                           {"1.3.0", forCanary, false, row(v1alpha1.ReleaseCanary, 1), cli.ExitYes, ""},
		"canary before its first step":     {"1.3.0", forCanary, false, row(v1alpha1.ReleaseCanary, 0), cli.ExitYes, ""},
		"canary before the requested step": {"1.3.0", "step=1", false, row(v1alpha1.ReleaseCanary, 0), none, ""},
		"its step":                         {"1.3.0", "step=1", false, row(v1alpha1.ReleaseCanary, 1), cli.ExitYes, ""},
		"approval":                         {"1.3.0", forActive, false, row(v1alpha1.ReleaseCanary, 1), cli.ExitWaits, "1.3.0 waits for approval: hlnr continue shop 1.3.0"},
		"waits for approval":               {"1.3.0", forApproval, false, row(v1alpha1.ReleaseCanary, 1), cli.ExitYes, ""},
		"adopted before an approval":       {"1.3.0", forActive, false, adopted(v1alpha1.ReleaseCanary, 1), none, ""},
		"adopted during a pause":           {"1.3.0", forActive, false, func(s *snapshot) { adopted(v1alpha1.ReleasePending, 0)(s); s.ms.Spec.Paused = true }, none, ""},
		"pending during a pause":           {"1.3.0", forActive, false, func(s *snapshot) { row(v1alpha1.ReleasePending, 0)(s); s.ms.Spec.Paused = true }, cli.ExitWaits, "shop is paused: hlnr resume shop"},
		"adopted during a freeze":          {"1.3.0", forActive, false, func(s *snapshot) { adopted(v1alpha1.ReleaseCanary, 1)(s); freezes(frozen.AtWeight("1.3.0", 10))(s) }, cli.ExitWaits, "1.3.0 is waiting at 10%: frozen until"},
		"approved": {"1.3.0", forActive, false, func(s *snapshot) {
			row(v1alpha1.ReleaseCanary, 1)(s)
			s.ms.Status.ReleaseGroups[0].Rollout.Continued = 1
		}, none, ""},
		"steps were removed": {"1.3.0", forActive, false, func(s *snapshot) { row(v1alpha1.ReleaseCanary, 7)(s) }, none, ""},
		"failed": {"1.3.0", forActive, true, func(s *snapshot) {
			row(v1alpha1.ReleaseError, 0)(s)
			s.ms.Status.ReleaseGroups[0].Releases[1].Reason = "CrashLoopBackOff"
			s.release = &v1alpha1.VersionedMicroservice{}
			s.release.Status.Message = "exit 1"
		}, cli.ExitNo, "1.3.0 failed: CrashLoopBackOff: exit 1; 1.2.0 has all traffic of group 1.x"},
		"superseded": {"1.3.0", forActive, true, func(s *snapshot) { row(v1alpha1.ReleaseDeprecated, 0)(s); s.ms.Status.ReleaseGroups[0].Rollout = nil }, cli.ExitNo, "1.3.0 was superseded before it was active: 1.2.0 is active"},
		"retained": {"1.3.0", forActive, true, func(s *snapshot) {
			row(v1alpha1.ReleaseDeprecated, 0)(s)
			s.ms.Status.ReleaseGroups[0].Releases[1].Promoted, s.ms.Status.ReleaseGroups[0].Rollout = 1, nil
		}, cli.ExitNo, "1.3.0 is retained, and was replaced by 1.2.0"},
		"retained, and rolled out again": {"1.3.0", forActive, true, func(s *snapshot) {
			row(v1alpha1.ReleaseDeprecated, 0)(s)
			s.ms.Status.ReleaseGroups[0].Releases[1].Promoted = 1
		}, none, ""},
		"retained, and the target again": {"1.3.0", forActive, true, func(s *snapshot) {
			row(v1alpha1.ReleaseDeprecated, 0)(s)
			g := &s.ms.Status.ReleaseGroups[0]
			g.Releases[1].Promoted, g.Rollout, g.Target.Release = 1, nil, g.Releases[1].VersionedMicroservice
		}, none, ""},
		"retained, just unpinned": {"1.3.0", forActive, true, func(s *snapshot) {
			row(v1alpha1.ReleaseDeprecated, 0)(s)
			s.ms.Status.ReleaseGroups[0].Releases[1].Promoted, s.ms.Status.ReleaseGroups[0].Rollout = 1, nil
			s.ms.Generation = s.ms.Status.ObservedGeneration + 1
		}, none, ""},
		"active, before the last change": {"1.2.0", forActive, false, func(s *snapshot) { s.ms.Generation = s.ms.Status.ObservedGeneration + 1 }, none, ""},
		"failed, before the last change": {"1.3.0", forActive, true, func(s *snapshot) {
			row(v1alpha1.ReleaseError, 0)(s)
			s.ms.Generation = s.ms.Status.ObservedGeneration + 1
		}, none, ""},
		"canary, before the last change": {"1.3.0", forCanary, false, func(s *snapshot) {
			row(v1alpha1.ReleaseCanary, 1)(s)
			s.ms.Generation = s.ms.Status.ObservedGeneration + 1
		}, none, ""},
		"active in an ended group, before the last change": {"1.2.0", forActive, false, func(s *snapshot) {
			s.ms.Spec.EndedGroups, s.ms.Generation = []string{"1.x"}, s.ms.Status.ObservedGeneration+1
		}, cli.ExitNo, "1.2.0 is losing its traffic: its group 1.x is ending"},
		"retained, pinned": {"1.3.0", forActive, true, func(s *snapshot) {
			pin("1.3.0", nil)(s)
			row(v1alpha1.ReleaseDeprecated, 0)(s)
			s.ms.Status.ReleaseGroups[0].Releases[1].Promoted = 1
		}, none, ""},
		"a release, pinned": {"shop-1-3-0", forActive, true, func(s *snapshot) {
			pin("1.3.0", nil)(s)
			row(v1alpha1.ReleaseDeprecated, 0)(s)
			s.ms.Status.ReleaseGroups[0].Releases[1].Promoted = 1
		}, none, ""},
		"a release, active": {"shop-1-2-0", forActive, false, func(*snapshot) {}, cli.ExitYes, ""},
		"retained, pinned to another version": {"1.3.0", forActive, true, func(s *snapshot) {
			pin("1.2.0", nil)(s)
			row(v1alpha1.ReleaseDeprecated, 0)(s)
			s.ms.Status.ReleaseGroups[0].Releases[1].Promoted, s.ms.Status.ReleaseGroups[0].Rollout = 1, nil
		}, cli.ExitNo, `1.3.0 is retained, and was replaced by 1.2.0; group 1.x is pinned to 1.2.0: "sessions"`},
		"superseded, pinned to another version": {"1.3.0", forActive, true, func(s *snapshot) {
			pin("1.2.0", nil)(s)
			row(v1alpha1.ReleaseDeprecated, 0)(s)
			s.ms.Status.ReleaseGroups[0].Rollout = nil
		}, cli.ExitNo, `1.3.0 was superseded before it was active: 1.2.0 is active; group 1.x is pinned to 1.2.0: "sessions"`},
		"aborted":                 {"1.3.0", forActive, true, aborted("Aborted", "1"), cli.ExitNo, `1.3.0 failed: Aborted by ana: "errors\x1b[2J"; 1.2.0 has all traffic of group 1.x`},
		"aborted, later decision": {"1.3.0", forActive, true, aborted("Aborted", "2"), cli.ExitNo, "1.3.0 failed: Aborted by ana; 1.2.0"},
		"failed, decided earlier": {"1.3.0", forActive, true, aborted("CrashLoopBackOff", "1"), cli.ExitNo, "1.3.0 failed: CrashLoopBackOff: ana requested the action Deprecate; 1.2.0"},
		"inconclusive":            {"1.3.0", forActive, false, inconclusive("shop"), cli.ExitWaits, "1.3.0 waits for a decision, because its analysis is inconclusive: to continue, hlnr continue shop 1.3.0; to abort, hlnr deprecate shop 1.3.0"},
		"frozen, and its pods crash": {"1.3.0", forActive, false, func(s *snapshot) {
			row(v1alpha1.ReleaseCanary, 7)(s)
			freezes(frozen.AtWeight("1.3.0", 10))(s)
			s.release = &v1alpha1.VersionedMicroservice{}
			s.release.Status.Failure = v1alpha1.FailureCrashLoopBackOff
		}, none, ""},
		"inconclusive, another version": {"1.3.0", forActive, false, func(s *snapshot) {
			inconclusive("shop")(s)
			s.release.Status.Analysis.Phase = v1alpha1.AnalysisRunning
		}, none, ""},
		"inconclusive, elsewhere":            {"1.3.0", forActive, false, inconclusive("other"), cli.ExitWaits, "1.3.0 waits for a decision, because its analysis is inconclusive: to continue, hlnr continue -n other shop 1.3.0; to abort, hlnr deprecate -n other shop 1.3.0"},
		"active, and no route yet":           {"1.3.0", forActive, false, routed(0), none, ""},
		"active, and routed":                 {"1.3.0", forActive, false, routed(2), cli.ExitYes, ""},
		"active, its policy reports nothing": {"1.3.0", forActive, false, routed(-1), none, ""},
		"pinned to another version, without a group": {"1.3.0", forActive, false, func(s *snapshot) {
			offer(s, "1.3.0")
			s.ms.Spec.UpdateStrategy.Manual = &v1alpha1.ManualUpdateStrategy{SemVer: &v1alpha1.SemVer{Version: "1.2.0"}, Reason: "sessions"}
		}, cli.ExitNo, `1.3.0 does not start: group 1.x is pinned to 1.2.0: "sessions"`},
		"canary, pinned to another version without a group": {"1.3.0", forActive, false, func(s *snapshot) {
			row(v1alpha1.ReleaseCanary, 7)(s)
			s.ms.Spec.UpdateStrategy.Manual = &v1alpha1.ManualUpdateStrategy{Release: "shop-1-2-0"}
		}, cli.ExitNo, "1.3.0 does not start: group 1.x is pinned to 1.2.0"},
		"of an ended group": {"1.3.0", forActive, true, func(s *snapshot) {
			offer(s, "1.3.0")
			s.ms.Spec.EndedGroups = []string{"1.x"}
		}, cli.ExitNo, "1.3.0 does not start: spec.endedGroups ends its group 1.x"},
		"of an ended group that is gone": {"1.3.0", forActive, true, func(s *snapshot) {
			offer(s, "1.3.0")
			s.ms.Spec.EndedGroups, s.ms.Status.ReleaseGroups = []string{"1-x"}, nil
		}, cli.ExitNo, `1.3.0 does not start: spec.endedGroups ends its group 1.x; to let 1.3.0 start, run "hlnr end-group shop 1-x --undo"`},
		"active in an ended group": {"1.2.0", forActive, false, func(s *snapshot) {
			s.ms.Spec.EndedGroups = []string{"1.x"}
		}, cli.ExitNo, "1.2.0 is losing its traffic: its group 1.x is ending"},
		"returns during a pause": {"1.3.0", forActive, false, func(s *snapshot) {
			pin("1.3.0", nil)(s)
			row(v1alpha1.ReleasePending, 0)(s)
			s.ms.Status.ReleaseGroups[0].Releases[1].Promoted, s.ms.Spec.Paused = 1, true
		}, none, ""},
		"returns after a pin, during a pause": {"1.3.0", forActive, false, func(s *snapshot) {
			row(v1alpha1.ReleaseDeprecated, 0)(s)
			s.ms.Status.ReleaseGroups[0].Releases[1].Promoted, s.ms.Spec.Paused = 1, true
		}, cli.ExitWaits, "shop is paused: hlnr resume shop"},
		"replaces a denied version during a pause": {"1.3.0", forActive, false, func(s *snapshot) {
			row(v1alpha1.ReleaseDeprecated, 0)(s)
			s.ms.Status.ReleaseGroups[0].Releases[1].Promoted, s.ms.Spec.Paused = 1, true
			s.policy.Status.Withdrawn = []v1alpha1.Withdrawal{{Group: "1-x", Version: "1.2.0", Reason: v1alpha1.WithdrawnDenied}}
		}, none, ""},
		"retained, pinned and denied": {"1.3.0", forActive, true, func(s *snapshot) {
			pin("1.3.0", nil)(s)
			row(v1alpha1.ReleaseDeprecated, 0)(s)
			s.ms.Status.ReleaseGroups[0].Releases[1].Promoted = 1
			s.policy.Status.Withdrawn = []v1alpha1.Withdrawal{{Group: "1-x", Version: "1.3.0", Reason: v1alpha1.WithdrawnDenied}}
		}, cli.ExitNo, "1.3.0 is denied by ImagePolicy shop"},
		"stalled": {"1.3.0", forActive, false, func(s *snapshot) {
			s.ms.Status.Conditions = []metav1.Condition{{Type: "Stalled", Status: "True", Reason: "ContainerNotFound", Message: "set spec.containerName"}}
		}, cli.ExitNo, "no release of shop can start: ContainerNotFound: set spec.containerName"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fixture(c.edit)
			_, a := question{version: c.version, state: c.state, throughApprovals: c.throughApprovals, command: command}.judge(s)
			got, text := none, ""
			if a != nil {
				got, text = a.code, a.text
			}
			if got != c.code || !strings.HasPrefix(text, c.text) || c.text == "" && text != "" {
				t.Errorf("code %d, %q; want %d and %q", got, text, c.code, c.text)
			}
		})
	}
}

// TestActiveWithoutPods checks that the wait continues while an active release has no ready pod, and that the output contains the cause.
func TestActiveWithoutPods(t *testing.T) {
	t.Parallel()
	for _, ready := range []int32{0, 1} {
		s := fixture(func(s *snapshot) {
			o := &v1alpha1.VersionedMicroservice{}
			o.Namespace, o.Name = "shop", "shop-1-2-0"
			o.Spec.Replicas, o.Status.Failure, o.Status.Message, o.Status.Available = 3, "CrashLoopBackOff", "exit 1", ready
			s.release = o
		})
		q := question{version: "1.2.0", state: forActive, throughApprovals: true, command: command}
		lines, a := q.judge(s)
		if yes := a != nil && a.code == cli.ExitYes; yes != (ready > 0) {
			t.Errorf("%d pods are ready: %+v", ready, a)
		}
		if waits := slices.Contains(lines, line{What: "pods", Text: "waits for a ready pod: exit 1"}); waits != (ready == 0) {
			t.Errorf("%d pods are ready: %+v", ready, lines)
		}
		if late := q.late(s, time.Minute); ready == 0 && late != "1.2.0 is not active after 1m0s: its status is active, and the release waits for a ready pod: exit 1" {
			t.Error(late)
		}
	}
}

// TestLateRoutes checks that the message at the timeout reports an active release that no NetworkPolicy has routed.
func TestLateRoutes(t *testing.T) {
	t.Parallel()
	s := fixture(func(s *snapshot) { s.routing = []v1alpha1.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}} })
	if got, want := (question{version: "1.2.0", state: forActive}).late(s, time.Minute), `its status is active, and the release waits for the routes of networkpolicies.hlnr.io "shop"`; !strings.HasSuffix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestLateManager checks that the message at the timeout shows that the manager has not observed the latest change.
func TestLateManager(t *testing.T) {
	t.Parallel()
	s := fixture(func(s *snapshot) { s.ms.Generation = s.ms.Status.ObservedGeneration + 1 })
	if got, want := (question{version: "1.2.0", state: forActive, command: command}).late(s, time.Minute), "1.2.0 is not active after 1m0s: its status is active, and the manager has not observed the latest change to shop: hlnr doctor"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestLate checks the messages at the timeout.
func TestLate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state string
		edit  func(*snapshot)
		want  string
	}{
		"nothing offered": {forActive, func(*snapshot) {}, "1.3.0 is not active after 2s: ImagePolicy shop has not found the version, and offers no version"},
		"others":          {forCanary, func(s *snapshot) { s.policy.Status.Latest = "1.2.0" }, "1.3.0 is not a canary after 2s: ImagePolicy shop has not found the version; the latest version is 1.2.0"},
		"no policy":       {forActive, func(s *snapshot) { s.policy = nil }, "1.3.0 is not active after 2s: ImagePolicy shop does not exist"},
		"not signed": {forActive, func(s *snapshot) {
			s.policy.Status.Candidates = []v1alpha1.RefusedCandidate{{Version: "1.3.0", Verdict: "Verify", Reason: "NoSignature: there is no signature"}}
		}, "1.3.0 is not active after 2s: 1.3.0 is not offered by ImagePolicy shop: Verify: NoSignature: there is no signature"},
		"before the last change to the policy": {forActive, func(s *snapshot) {
			s.policy.Status.Candidates = []v1alpha1.RefusedCandidate{{Version: "1.3.0", Verdict: "Deny"}}
			s.policy.Generation = s.policy.Status.ObservedGeneration + 1
		}, "1.3.0 is not active after 2s: 1.3.0 is not offered by ImagePolicy shop: Deny; the manager has not observed the latest change to ImagePolicy shop: hlnr doctor"},
		"approval": {forApproval, func(s *snapshot) { offer(s, "1.3.0") }, "1.3.0 is not waiting for approval after 2s: the version is offered, but has not started"},
		"step":     {"step=tenth", func(s *snapshot) { offer(s, "1.3.0") }, "1.3.0 is not in step tenth after 2s: the version is offered, but has not started"},
	} {
		if got := (question{version: "1.3.0", state: c.state, command: command}).late(fixture(c.edit), 2*time.Second); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
