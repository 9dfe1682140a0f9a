package imagepolicy

import (
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/internal/version"
)

func compile(t testing.TB, spec *v1alpha1.ImagePolicySpec) *version.Selector {
	t.Helper()
	s, err := version.Compile(rules(spec))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func held(group, v string) version.Held { return version.Held{Group: group, Version: v} }

// fixture returns a policy for r.example/shop that offers the given versions, and the selection after a scan
// of the given tags.
func fixture(t testing.TB, offers []string, tags ...string) (*observed, selection) {
	o := &observed{policy: &v1alpha1.ImagePolicy{ObjectMeta: metav1.ObjectMeta{Generation: 2}}}
	o.policy.Spec.Image = "r.example/shop"
	for _, v := range offers {
		o.policy.Status.Releases = append(o.policy.Status.Releases, v1alpha1.OfferedRelease{
			SemVer: v1alpha1.SemVer{Name: "release", Version: v}, Group: "release", Level: "Release",
			Images: []v1alpha1.ReleaseImage{{Image: "r.example/shop:" + v + "@sha256:1", Digest: "sha256:1"}},
		})
	}
	o.selector = compile(t, &o.policy.Spec)
	s := selection{scanned: true, tags: len(tags), images: map[string][]v1alpha1.ReleaseImage{}}
	s.result = o.selector.Rank(tags).Offer(nil, nil)
	for _, tag := range tags {
		s.images[tag] = []v1alpha1.ReleaseImage{{Image: "r.example/shop:" + tag + "@sha256:1", Digest: "sha256:1"}}
	}
	return o, s
}

// TestCandidatesWithoutAScan checks that the candidates of the last scan remain if the next scan fails, but not after a change to the specification,
// which may have changed their verdicts.
func TestCandidatesWithoutAScan(t *testing.T) {
	t.Parallel()
	for generation, want := range map[int64]int{1: 0, 2: 1} {
		o, _ := fixture(t, []string{"1.0.0"}, "1.0.0")
		o.policy.Status.ObservedGeneration = generation
		o.policy.Status.Candidates = []v1alpha1.RefusedCandidate{{Version: "1.1.0", Verdict: "Deny"}}
		o.policy.Status.Rejected = []v1alpha1.RejectedCount{{Verdict: "Deny"}}
		p := newPlan(o, selection{}, time.Now())
		if !p.decided || len(p.candidates) != want || len(p.rejected) != want {
			t.Errorf("observed generation %d of 2: decided %t, %d candidates, %d counts, want %d of each", generation, p.decided, len(p.candidates), len(p.rejected), want)
		}
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	earlier := metav1.NewTime(now.Add(-time.Hour))
	type result struct {
		Offered, Withdrawn []string
		Decided            bool
	}
	for name, test := range map[string]struct {
		edit func(*observed, *selection)
		want result
	}{
		"as listed": {func(*observed, *selection) {}, result{[]string{"1.1.0 in release", "1.0.0 in release"}, nil, true}},
		"rules that cannot be read change nothing": {func(o *observed, s *selection) {
			o.selector, *s = nil, selection{}
		}, result{[]string{"1.0.0 in release"}, nil, false}},
		"no image, no offer": {func(_ *observed, s *selection) {
			delete(s.images, "1.1.0")
		}, result{[]string{"1.0.0 in release"}, nil, true}},
		"nothing known about the repository": {func(o *observed, s *selection) {
			o.policy.Spec.Image, *s = "r.example/other", selection{}
		}, result{nil, nil, false}},
		"gone": {func(o *observed, s *selection) {
			o.inUse = []version.Held{held("release", "0.9.0")}
			s.gone = o.inUse
		}, result{[]string{"1.1.0 in release", "1.0.0 in release"}, []string{"0.9.0 in release: Gone"}, true}},
		"gone before, and still in use": {func(o *observed, s *selection) {
			o.inUse = []version.Held{held("release", "0.9.0")}
			o.policy.Status.Withdrawn = []v1alpha1.Withdrawal{{Group: "release", Version: "0.9.0", Reason: "Gone", Time: earlier}}
		}, result{[]string{"1.1.0 in release", "1.0.0 in release"}, []string{"0.9.0 in release: Gone"}, true}},
		"gone before, and found again": {func(o *observed, s *selection) {
			o.inUse = []version.Held{held("release", "1.0.0")}
			o.policy.Status.Withdrawn = []v1alpha1.Withdrawal{{Group: "release", Version: "1.0.0", Reason: "Gone", Time: earlier}}
		}, result{[]string{"1.1.0 in release", "1.0.0 in release"}, nil, true}},
		"excluded before, and its tag is no longer known": {func(o *observed, s *selection) {
			o.inUse = []version.Held{held("release", "0.9.0")}
			o.policy.Status.Withdrawn = []v1alpha1.Withdrawal{{Group: "release", Version: "0.9.0", Reason: "Excluded", Time: earlier}}
		}, result{[]string{"1.1.0 in release", "1.0.0 in release"}, []string{"0.9.0 in release: Excluded"}, true}},
		"an absent version is not withdrawn": {func(o *observed, s *selection) {
			o.inUse = []version.Held{held("release", "0.9.0")}
		}, result{[]string{"1.1.0 in release", "1.0.0 in release"}, nil, true}},
		"missing from an explicit list": {func(o *observed, s *selection) {
			o.pinned = []string{"1.0.0", "1.1.0"}
			o.inUse = []version.Held{held("release", "0.9.0"), held("release", "1.0.0")}
		}, result{[]string{"1.1.0 in release", "1.0.0 in release"}, []string{"0.9.0 in release: Excluded"}, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, s := fixture(t, []string{"1.0.0"}, "1.0.0", "1.1.0")
			test.edit(o, &s)
			before := o.policy.Status.DeepCopy()
			out := newPlan(o, s, now)
			same(t, "input", o.policy.Status, *before)
			shown := &v1alpha1.ImagePolicy{Status: v1alpha1.ImagePolicyStatus{Releases: out.releases, Withdrawn: out.withdrawn}}
			same(t, "outcome", result{offered(shown), taken(shown), out.decided}, test.want)
			for _, w := range out.withdrawn {
				if want := len(before.Withdrawn) > 0; want && !w.Time.Equal(&earlier) {
					t.Errorf("the time of %s changed", w.Version)
				}
			}
		})
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 1, 2, 3, 4, 55, 0, time.UTC) // The scan may start after 03:05:00.
	type conditions struct{ Ready, Reconciling, Stalled, SourceReachable, RateLimited, Truncated string }
	const quiet, complete, answers = "False NotLimited: requests to the registry are not limited", "False Complete: no tags or groups are omitted", "True Answered: the registry is reachable"
	for name, test := range map[string]struct {
		edit func(*observed, *selection, *plan)
		want conditions
	}{
		"good": {func(*observed, *selection, *plan) {}, conditions{"True Succeeded: offers 1 version in 1 group", "", "", answers, quiet, complete}},
		"problem": {func(o *observed, s *selection, _ *plan) {
			o.problem, *s = status.NewTerminal("SecretNotFound", errors.New("spec.imagePullSecrets[0].name: …")), selection{}
		}, conditions{"False SecretNotFound: spec.imagePullSecrets[0].name: …", "", "True SecretNotFound: spec.imagePullSecrets[0].name: …", "Unknown SecretNotFound: spec.imagePullSecrets[0].name: …", "", ""}},
		"suspended": {func(o *observed, s *selection, _ *plan) {
			o.policy.Spec.Suspend, *s = true, selection{}
		}, conditions{"True Suspended: spec.suspend is true: the registry is not scanned, and offered versions remain offered", "", "", "", "", ""}},
		"limited": {func(_ *observed, s *selection, _ *plan) {
			*s = selection{registryErrors: registryErrors{err: &registry.Error{Kind: registry.RateLimited, Op: "list tags of", Object: "r", RetryAt: until}}}
		}, conditions{"True Succeeded: offers 1 version in 1 group", "", "", `False RateLimited: list tags of "r": :`, "True TooManyRequests: the registry limits requests until 2026-01-02T03:10:00Z at the latest; offered versions remain offered; increase spec.interval to send fewer requests", ""}},
		"denied with offers": {func(_ *observed, s *selection, _ *plan) {
			*s = selection{registryErrors: registryErrors{err: &registry.Error{Kind: registry.Unauthorized, Op: "list tags of", Object: "r"}}}
		}, conditions{`False Unauthorized: list tags of "r": : ; offered versions remain offered`, "", `True Unauthorized: list tags of "r": : ; offered versions remain offered`, `False Unauthorized: list tags of "r": :`, quiet, ""}},
		"unreachable without offers": {func(_ *observed, s *selection, out *plan) {
			*s, *out = selection{registryErrors: registryErrors{err: &registry.Error{Kind: registry.Unreachable, Op: "list tags of", Object: "r"}}}, plan{}
		}, conditions{`False Unreachable: list tags of "r": :`, `True Unreachable: list tags of "r": :`, "", `False Unreachable: list tags of "r": :`, quiet, ""}},
		"no tags": {func(_ *observed, s *selection, out *plan) {
			*s, *out = selection{scanned: true}, plan{decided: true}
		}, conditions{"False NoVersions: the source has no tags or releases yet", "", "True NoVersions: the source has no tags or releases yet", answers, quiet, complete}},
		"nothing admitted": {func(_ *observed, s *selection, out *plan) {
			*s, *out = selection{scanned: true, tags: 2}, plan{decided: true, rejected: []v1alpha1.RejectedCount{{Verdict: "Parse", Count: 2}}, candidates: []v1alpha1.RefusedCandidate{{Version: "latest", Verdict: "Parse", Reason: "no version"}}}
		}, conditions{`False NoVersions: none of the 2 tags is offered: Parse rejected 2; for example "latest": no version`, "", `True NoVersions: none of the 2 tags is offered: Parse rejected 2; for example "latest": no version`, answers, quiet, complete}},
		"nothing admitted, by several filters": {func(_ *observed, s *selection, out *plan) {
			*s, *out = selection{scanned: true, tags: 3}, plan{decided: true,
				rejected:   []v1alpha1.RejectedCount{{Verdict: "Parse", Count: 1}, {Verdict: "Platform", Count: 1}, {Verdict: "Verify", Count: 5}},
				candidates: []v1alpha1.RefusedCandidate{{Version: "latest", Verdict: "Parse", Reason: "no version"}, {Version: "1.0.0", Verdict: "Platform", Reason: "build it"}}}
		}, conditions{`False NoVersions: none of the 3 tags is offered: Parse rejected 1, Platform rejected 1, Verify rejected 5; for example "1.0.0": build it`, "", `True NoVersions: none of the 3 tags is offered: Parse rejected 1, Platform rejected 1, Verify rejected 5; for example "1.0.0": build it`, answers, quiet, complete}},
		"too many tags": {func(_ *observed, s *selection, _ *plan) {
			s.truncated = true
		}, conditions{"True Succeeded: offers 1 version in 1 group", "", "", answers, quiet, "True TooManyTags: the maximum number of tags was read (1): increase spec.limits.tags, select tags with spec.tagFilter, or delete old tags"}},
		"too many groups": {func(_ *observed, s *selection, _ *plan) {
			s.result.Truncated = []string{"2.x", "1.x"}
		}, conditions{"True Succeeded: offers 1 version in 1 group", "", "", answers, quiet, "True TooManyGroups: not offered, because of spec.limits.groups: 2.x, 1.x; increase the limit, or select fewer versions or pull requests"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, s := fixture(t, nil, "1.0.0")
			out := newPlan(o, s, until)
			test.edit(o, &s, &out)
			setConditions(o, s, out)
			p := o.policy
			same(t, "conditions", conditions{
				condition(p, "Ready"), condition(p, "Reconciling"), condition(p, "Stalled"),
				condition(p, "SourceReachable"), condition(p, "RateLimited"), condition(p, "Truncated"),
			}, test.want)
		})
	}
}

// TestDeniedVersionsAreKept checks that, if a list of withdrawn versions is too long, denied versions are the
// last to be omitted.
func TestDeniedVersionsAreKept(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o, s := fixture(t, nil)
	for i := range 2000 {
		v := fmt.Sprintf("9.%d.0", i)
		o.inUse, s.gone = append(o.inUse, held("a", v)), append(s.gone, held("a", v))
	}
	o.policy.Spec.Deny = []string{"1.0.0"}
	o.selector = compile(t, &o.policy.Spec)
	o.inUse = append(o.inUse, held("z", "1.0.0"))
	out := newPlan(o, s, now).withdrawn
	if len(out) == 0 || len(out) == len(o.inUse) {
		t.Fatalf("%d of %d versions are in the list", len(out), len(o.inUse))
	}
	if out[0].Version != "1.0.0" || out[0].Reason != v1alpha1.WithdrawnDenied {
		t.Errorf("the first version is %+v", out[0])
	}
}
