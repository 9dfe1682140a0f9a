package traffic

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
)

func canaryOf(absent v1alpha1.WhenAbsent) *v1alpha1.DomainRelease {
	return &v1alpha1.DomainRelease{Status: v1alpha1.DomainCanary, WhenAbsent: absent}
}

func TestDomainOfTheCanary(t *testing.T) {
	const try = "try.example.com"
	running := group("1-x", 2, "b 1.1.0 canary 0", "a 1.0.0 active 100")
	for name, tc := range map[string]struct {
		absent             v1alpha1.WhenAbsent
		group              v1alpha1.ReleaseGroup
		ready              string
		split, reason, all string
	}{
		"at weight 0":                      {"", running, "a b", "1.1.0=100", "", "2/2"},
		"at weight 0, whenAbsent NotFound": {v1alpha1.AbsentNotFound, running, "a b", "1.1.0=100", "", "2/2"},
		"no endpoint":                      {"", running, "a", "1.0.0=100", "", "2/2"},
		"no endpoint, whenAbsent NotFound": {v1alpha1.AbsentNotFound, running, "a", "", reasonNoCanary, "1/1"},
		"no canary":                        {v1alpha1.AbsentActive, group("1-x", 2, "a 1.0.0 active 100"), "a", "1.0.0=100", "", "2/2"},
		"no canary, whenAbsent NotFound":   {v1alpha1.AbsentNotFound, group("1-x", 2, "a 1.0.0 active 100"), "a", "", reasonNoCanary, "1/1"},
		"failed, whenAbsent NotFound":      {v1alpha1.AbsentNotFound, group("1-x", 2, "b 1.1.0 error 0", "a 1.0.0 active 100"), "a b", "", reasonNoCanary, "1/1"},
		"pending, whenAbsent NotFound":     {v1alpha1.AbsentNotFound, group("1-x", 2, "b 1.1.0 pending 0", "a 1.0.0 active 100"), "a b", "", reasonNoCanary, "1/1"},
		"only the canary has endpoints":    {v1alpha1.AbsentNotFound, running, "b", "1.1.0=100", "", "2/2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.group)
			w.policy.Spec.Domains = append(w.policy.Spec.Domains, v1alpha1.Domain{Domain: try, Release: canaryOf(tc.absent)})
			for release := range strings.FieldsSeq(tc.ready) {
				w.ready[release] = 1
			}
			w.settle()
			want(t, "split", w.split(try), tc.split)
			want(t, "reason", w.policy.Status.Domains[1].Reason, tc.reason)
			want(t, "domains", w.policy.Status.Summary.Domains, tc.all)
			want(t, "ready", w.condition("Ready"), "True Programmed")
			want(t, "revision", w.groupTraffic("1-x").Revision, 2)
			want(t, "protected", len(w.groupTraffic("1-x").Pinned), 0)
		})
	}
}

// TestDomainOfTheCanaryIsPartOfARevision checks that a release keeps its pods until the route of
// the canary domain no longer routes to it.
func TestDomainOfTheCanaryIsPartOfARevision(t *testing.T) {
	const try = "try.example.com"
	for name, tc := range map[string]struct {
		absent v1alpha1.WhenAbsent
		split  string
	}{"active": {v1alpha1.AbsentActive, "1.0.0=100"}, "not found": {v1alpha1.AbsentNotFound, ""}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("1-x", 1, "b 1.1.0 pending 0", "a 1.0.0 active 100"))
			w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: "shop.example.com"}, {Domain: try, Release: canaryOf(tc.absent)}}
			w.ready = map[string]int{"a": 1, "b": 1}
			w.settle()
			w.rollout(group("1-x", 2, "b 1.1.0 canary 0", "a 1.0.0 active 100"))
			w.pass()
			want(t, "written", w.split(try), "1.1.0=100")
			want(t, "not confirmed before it is accepted", w.groupTraffic("1-x").Revision, 1)
			want(t, "references", cmp.Diff([]string{"a", "b"}, w.groupTraffic("1-x").References), "")
			w.settle()
			want(t, "confirmed", w.groupTraffic("1-x").Revision, 2)
			want(t, "other routes do not change", w.split("shop.example.com"), "1.0.0=100")
			want(t, "split", w.policy.Status.Summary.Split, "1.0.0=100")

			w.rollout(group("1-x", 3, "b 1.1.0 error 0", "a 1.0.0 active 100"))
			w.pass()
			want(t, "removed from the route", w.split(try), tc.split)
			want(t, "still referenced", slices.Contains(w.groupTraffic("1-x").References, "b"), true)
			want(t, "not confirmed", w.groupTraffic("1-x").Revision, 2)
			w.settle()
			want(t, "remaining references", cmp.Diff([]string{"a"}, w.groupTraffic("1-x").References), "")
			want(t, "confirmed without the canary", w.groupTraffic("1-x").Revision, 3)
		})
	}
}

// asked returns a group with a release at the PreRollout gate.
func asked(g v1alpha1.ReleaseGroup, release string) v1alpha1.ReleaseGroup {
	g.Rollout = &v1alpha1.Rollout{Release: release, Gate: v1alpha1.GatePreRollout}
	return g
}

// TestCanaryDomainWhileHooksTestTheRelease checks that the canary domain routes to a release while
// hooks test the release, before the release receives traffic.
func TestCanaryDomainWhileHooksTestTheRelease(t *testing.T) {
	const try = "try.example.com"
	waits := func(g v1alpha1.ReleaseGroup) v1alpha1.ReleaseGroup {
		g.Rollout = &v1alpha1.Rollout{Release: "b", Gate: v1alpha1.GateConfirmRollout}
		return g
	}
	pending := group("1-x", 1, "b 1.1.0 pending 0", "a 1.0.0 active 100")
	for name, tc := range map[string]struct {
		absent        v1alpha1.WhenAbsent
		group         v1alpha1.ReleaseGroup
		ready         string
		split, canary string
	}{
		"before":                 {"", waits(pending), "a b", "1.0.0=100", ""},
		"hooks test the release": {"", asked(pending, "b"), "a b", "1.1.0=100", "b"},
		"hooks test the release, whenAbsent NotFound": {v1alpha1.AbsentNotFound, asked(pending, "b"), "a b", "1.1.0=100", "b"},
		"the release has no endpoint":                 {"", asked(pending, "b"), "a", "1.0.0=100", ""},
		"hooks test another release":                  {"", asked(pending, "c"), "a b", "1.0.0=100", ""},
		"the release failed":                          {"", asked(group("1-x", 1, "b 1.1.0 error 0", "a 1.0.0 active 100"), "b"), "a b", "1.0.0=100", ""},
		"the release becomes the canary":              {"", group("1-x", 2, "b 1.1.0 canary 10", "a 1.0.0 active 90"), "a b", "1.1.0=100", "b"},
		"another release superseded it":               {"", asked(group("1-x", 1, "c 1.2.0 pending 0", "b 1.1.0 deprecated 0", "a 1.0.0 active 100"), "c"), "a b c", "1.2.0=100", "c"},
		"the release is active, no other canary":      {"", group("1-x", 2, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"), "a b", "1.1.0=100", ""},
		"no canary, no fallback":                      {v1alpha1.AbsentNotFound, waits(pending), "a b", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
			w.policy.Spec.Domains = append(w.policy.Spec.Domains, v1alpha1.Domain{Domain: try, Release: canaryOf(tc.absent)})
			for release := range strings.FieldsSeq(tc.ready) {
				w.ready[release] = 1
			}
			w.settle()
			w.rollout(tc.group)
			w.pass()      // This reconcile creates Services.
			for range 3 { // The gateway has not accepted the routes yet.
				w.pass()
				if tc.split != w.split(try) {
					t.Errorf("written: %q, want %q", w.split(try), tc.split)
				}
				want(t, "not reported before it is accepted", w.groupTraffic("1-x").Canary, "")
			}
			w.settle()
			want(t, "domains", w.groupTraffic("1-x").CanaryDomains, true)
			want(t, "canary", w.groupTraffic("1-x").Canary, tc.canary)
			want(t, "other callers", strings.Contains(w.split("1-x.shop.example.com"), "1.0.0") || tc.canary == "" && tc.split == "1.1.0=100", true)
			named := tc.canary != "" && !slices.Contains(w.groupTraffic("1-x").References, tc.canary)
			want(t, "pods may be removed before the route", named, false)
		})
	}
}

// TestCanaryDomainThatIsNotAccepted checks that the group status reports a canary domain that the
// gateway does not accept, because this domain blocks hooks.
func TestCanaryDomainThatIsNotAccepted(t *testing.T) {
	const try = "try.example.com"
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.policy.Spec.Domains = append(w.policy.Spec.Domains, v1alpha1.Domain{Domain: try, Release: canaryOf("")})
	w.ready = map[string]int{"a": 1, "b": 1}
	w.settle()
	w.rollout(asked(group("1-x", 1, "b 1.1.0 pending 0", "a 1.0.0 active 100"), "b"))
	for range 3 {
		w.pass()
		want(t, "no problem yet", w.groupTraffic("1-x").Message, "")
	}
	w.now = w.now.Add(2 * providers.Grace)
	w.pass()
	want(t, "domains", w.groupTraffic("1-x").CanaryDomains, true)
	want(t, "canary", w.groupTraffic("1-x").Canary, "")
	if got := w.groupTraffic("1-x").Message; !strings.Contains(got, `domain "`+try+`": `) {
		t.Errorf("the group reports %q without the domain", got)
	}
	w.settle()
	want(t, "canary after the route is accepted", w.groupTraffic("1-x").Canary, "b")
	want(t, "message after the route is accepted", w.groupTraffic("1-x").Message, "")
}

// TestDomainOfTheCanaryAfterHooksRejectIt checks that a release that hooks reject keeps its pods
// until the canary domain no longer routes to it.
func TestDomainOfTheCanaryAfterHooksRejectIt(t *testing.T) {
	const try = "try.example.com"
	w := newWorld(t, asked(group("1-x", 1, "b 1.1.0 pending 0", "a 1.0.0 active 100"), "b"))
	w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: newestHost}, {Domain: try, Release: canaryOf(v1alpha1.AbsentNotFound)}}
	w.ready = map[string]int{"a": 1, "b": 1}
	w.settle()
	want(t, "test domain", w.split(try), "1.1.0=100")
	want(t, "other domains", w.split(newestHost), "1.0.0=100")
	w.policy.Spec.Domains[1].Release = canaryOf("")
	w.settle()
	w.rollout(group("1-x", 1, "b 1.1.0 error 0", "a 1.0.0 active 100"))
	for range 3 {
		w.pass()
		want(t, "referenced until the gateway has accepted its removal", slices.Contains(w.groupTraffic("1-x").References, "b"), true)
	}
	before := w.groupTraffic("1-x").ConfirmedTime
	w.now = w.now.Add(time.Second)
	w.settle()
	want(t, "references afterwards", cmp.Diff([]string{"a"}, w.groupTraffic("1-x").References), "")
	want(t, "a drain begins", w.groupTraffic("1-x").ConfirmedTime.After(before.Time), true)
}

// TestCanaryDomainOfAnIncomingGroup checks that hooks test the first release of an incoming group
// through the domain of the newest canary.
func TestCanaryDomainOfAnIncomingGroup(t *testing.T) {
	const try = "try.example.com"
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: newestHost}, {Domain: try, Release: canaryOf("")}, {Domain: "try-{{.ReleaseGroupName}}.e.com", Release: canaryOf(v1alpha1.AbsentNotFound)}}
	w.ready = map[string]int{"a": 1, "b": 1}
	w.settle()
	starting := asked(group("2-x", 0, "b 2.0.0 pending 0"), "b")
	starting.Rollout.Gate = ""
	w.rollout(starting, group("1-x", 1, "a 1.0.0 active 100"))
	w.settle()
	want(t, "before hooks test it", w.split(try), "1.0.0=100")
	want(t, "canary domain is reported", w.groupTraffic("2-x").CanaryDomains, true)
	w.rollout(asked(group("2-x", 0, "b 2.0.0 pending 0"), "b"), group("1-x", 1, "a 1.0.0 active 100"))
	w.settle()
	want(t, "test domain", w.split(try), "2.0.0=100")
	want(t, "at its own domain", w.split("try-2-x.e.com"), "2.0.0=100")
	want(t, "other domains", w.split(newestHost), "1.0.0=100")
	want(t, "canary of the newer group", w.groupTraffic("2-x").Canary, "b")
	want(t, "canary of the older group", w.groupTraffic("1-x").Canary, "")
	want(t, "the older group is confirmed", w.groupTraffic("1-x").Revision, 1)
	want(t, "referenced", slices.Contains(w.groupTraffic("2-x").References, "b"), true)
	w.rollout(group("2-x", 2, "b 2.0.0 error 0"), group("1-x", 1, "a 1.0.0 active 100"))
	w.settle()
	want(t, "rejected", w.split(try), "1.0.0=100")
	want(t, "references afterwards", len(w.groupTraffic("2-x").References), 0)
}

// TestCanaryDomainOfAGroupThatIsIncomingAgain checks that hooks can test the first release of an
// incoming group again after that release has lost its traffic. Traffic that the release receives
// through the domain for the hooks is not mistaken for its previous traffic, and the group is
// confirmed.
func TestCanaryDomainOfAGroupThatIsIncomingAgain(t *testing.T) {
	for _, try := range []string{"try.example.com", "try-{{.ReleaseGroupName}}.e.com"} {
		t.Run(try, func(t *testing.T) {
			w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
			w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: newestHost}, {Domain: try, Release: canaryOf(v1alpha1.AbsentNotFound)}}
			w.ready = map[string]int{"a": 1, "b": 1}
			w.settle()
			w.rollout(group("2-x", 2, "b 2.0.0 canary 10"), group("1-x", 1, "a 1.0.0 active 100"))
			w.settle()
			want(t, "during its steps", w.split(newestHost), "1.0.0=90 2.0.0=10")
			w.rollout(asked(group("2-x", 3, "b 2.0.0 pending 0"), "b"), group("1-x", 1, "a 1.0.0 active 100"))
			w.settle()
			want(t, "all traffic is back", w.split(newestHost), "1.0.0=100")
			want(t, "confirmed", w.groupTraffic("2-x").Revision, 3)
			want(t, "tested again", w.groupTraffic("2-x").Canary, "b")
		})
	}
}

// TestCanaryDomainOfTwoIncomingGroups checks that, if the releases of two incoming groups
// are being tested by hooks, a domain without a template field routes to the newer group, as the guide
// describes. The release of the other group is tested through that group's own domain. If that group has no such
// domain, the policy reports no canary domains that would block its hooks.
func TestCanaryDomainOfTwoIncomingGroups(t *testing.T) {
	const try = "try.example.com"
	for name, own := range map[string]bool{"with a domain for each group": true, "with one domain": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
			w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: newestHost}, {Domain: try, Release: canaryOf("")}}
			if own {
				w.policy.Spec.Domains = append(w.policy.Spec.Domains, v1alpha1.Domain{Domain: "try-{{.ReleaseGroupName}}.e.com", Release: canaryOf("")})
			}
			w.ready = map[string]int{"a": 1, "b": 1, "c": 1}
			w.settle()
			w.rollout(asked(group("3-x", 0, "c 3.0.0 pending 0"), "c"), asked(group("2-x", 0, "b 2.0.0 pending 0"), "b"), group("1-x", 1, "a 1.0.0 active 100"))
			w.settle()
			want(t, "test domain", w.split(try), "3.0.0=100")
			want(t, "canary of the newer group", w.groupTraffic("3-x").Canary, "c")
			want(t, "canary domains of the other group", w.groupTraffic("2-x").CanaryDomains, own)
			if own {
				want(t, "the other group's test domain", w.split("try-2-x.e.com"), "2.0.0=100")
				want(t, "canary of the other group", w.groupTraffic("2-x").Canary, "b")
			}
		})
	}
}

// TestCanaryDomainRoutesToTheNewestGroupThatHooksTest checks that, if hooks test a release in the
// newest group that has no ready active release, the domain of the newest canary routes to that
// release, even if that group has an active release without endpoints, and even if the domain
// previously routed to the canary of a group in between.
func TestCanaryDomainRoutesToTheNewestGroupThatHooksTest(t *testing.T) {
	const try = "try.example.com"
	base := group("1-x", 1, "a 1.0.0 active 100")
	for name, tc := range map[string]struct{ before, asked []v1alpha1.ReleaseGroup }{
		"its active release has no endpoints": {
			[]v1alpha1.ReleaseGroup{group("3-x", 2, "c 3.1.0 pending 0", "d 3.0.0 active 100"), base},
			[]v1alpha1.ReleaseGroup{asked(group("3-x", 2, "c 3.1.0 pending 0", "d 3.0.0 active 100"), "c"), base},
		},
		"the domain routes to the canary of a group in between": {
			[]v1alpha1.ReleaseGroup{group("3-x", 0, "c 3.0.0 pending 0"), group("2-x", 2, "b 2.0.0 canary 10"), base},
			[]v1alpha1.ReleaseGroup{asked(group("3-x", 0, "c 3.0.0 pending 0"), "c"), group("2-x", 2, "b 2.0.0 canary 10"), base},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.before...)
			w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: try, Release: canaryOf("")}}
			w.ready = map[string]int{"a": 1, "b": 1, "c": 1}
			w.settle()
			want(t, "canary domain is reported", w.groupTraffic("3-x").CanaryDomains, true)
			want(t, "canary", w.groupTraffic("3-x").Canary, "")
			w.rollout(tc.asked...)
			w.settle()
			version := w.ms.Status.ReleaseGroups[0].Releases[0].SemVer.Version
			want(t, "test domain", w.split(try), version+"=100")
			want(t, "canary after the route is accepted", w.groupTraffic("3-x").Canary, "c")
		})
	}
}

func TestDomainsOfCanariesOfGroups(t *testing.T) {
	groups := []v1alpha1.ReleaseGroup{
		group("2-x", 1, "d 2.0.0 active 100"),
		group("1-x", 1, "b 1.1.0 canary 10", "a 1.0.0 active 90"),
	}
	for name, tc := range map[string]struct {
		domain string
		absent v1alpha1.WhenAbsent
		want   []string
	}{
		"a domain for each group":                 {"try-{{.ReleaseGroupName}}.e.com", "", []string{"try-2-x.e.com 2-x 2.0.0=100 ", "try-1-x.e.com 1-x 1.1.0=100 "}},
		"a domain for each group, no canary":      {"try-{{.ReleaseGroupName}}.e.com", v1alpha1.AbsentNotFound, []string{"try-2-x.e.com 2-x  NoCanary", "try-1-x.e.com 1-x 1.1.0=100 "}},
		"a domain of the newest group":            {"try.e.com", "", []string{"try.e.com 2-x 2.0.0=100 "}},
		"a domain of the newest group, no canary": {"try.e.com", v1alpha1.AbsentNotFound, []string{"try.e.com 2-x  NoCanary"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, groups...)
			w.ready = map[string]int{"a": 1, "b": 1, "d": 1}
			w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: tc.domain, Release: canaryOf(tc.absent)}}
			var got []string
			for _, d := range w.settle().Domains {
				got = append(got, d.Domain+" "+d.Group+" "+w.split(d.Domain)+" "+d.Reason)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			want(t, "2-x", w.groupTraffic("2-x").Revision, 1)
			want(t, "1-x", w.groupTraffic("1-x").Revision, 1)
		})
	}
}

func TestListenerOfTheCanary(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "b 1.1.0 canary 0", "a 1.0.0 active 100"))
	w.gateways["infra/public"] = openGateway()
	w.policy.Spec.Domains = nil
	w.policy.Spec.Ports = []v1alpha1.NetworkPort{{Name: "tcp", Port: 5432, Protocol: v1alpha1.ProtocolTCP}}
	w.policy.Spec.Listeners = []v1alpha1.Listener{{
		Name: "try", Port: "tcp", Release: canaryOf(v1alpha1.AbsentNotFound), ParentRef: v1alpha1.ParentReference{Namespace: "infra", Name: "public", SectionName: "first"},
	}}
	w.ready = map[string]int{"a": 1, "b": 1}
	w.settle()
	want(t, "programmed", w.policy.Status.Listeners[0].Programmed, true)
	want(t, "backends", cmp.Diff([]v1alpha1.DomainBackend{{Release: "b", Version: "1.1.0", Weight: 100}}, w.policy.Status.Listeners[0].Backends), "")
	w.rollout(group("1-x", 2, "b 1.1.0 error 0", "a 1.0.0 active 100"))
	w.settle()
	want(t, "routes", len(w.others), 0)
	want(t, "reason", w.policy.Status.Listeners[0].Reason, reasonNoCanary)
	want(t, "ready", w.condition("Ready"), "True Programmed")
	want(t, "remaining references", cmp.Diff([]string{"a"}, w.groupTraffic("1-x").References), "")
}

func TestWildcardsOfPreviews(t *testing.T) {
	seven, eight := group("feature-foo-7", 1, "a 0.0.0-7 active 100"), group("fix-8", 1, "b 0.0.0-8 active 100")
	seven.PullRequest, seven.Level = 7, v1alpha1.LevelPreview
	eight.PullRequest, eight.Level = 8, v1alpha1.LevelPreview
	w := newWorld(t, eight, seven)
	w.ready = map[string]int{"a": 1, "b": 1}
	w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: "*.{{.ReleaseGroupName}}.preview.example.com"}, {Domain: "pr-{{.Number}}.preview.example.com"}}
	var got []string
	for _, d := range w.settle().Domains {
		got = append(got, d.Domain+" "+w.split(d.Domain)+" "+d.URL)
	}
	if diff := cmp.Diff([]string{
		"*.fix-8.preview.example.com 0.0.0-8=100 http://*.fix-8.preview.example.com", "*.feature-foo-7.preview.example.com 0.0.0-7=100 http://*.feature-foo-7.preview.example.com",
		"pr-8.preview.example.com 0.0.0-8=100 http://pr-8.preview.example.com", "pr-7.preview.example.com 0.0.0-7=100 http://pr-7.preview.example.com",
	}, got); diff != "" {
		t.Error(diff)
	}
	seven.Phase, seven.Releases[0].Status, seven.Releases[0].Weight = v1alpha1.GroupClosing, v1alpha1.ReleaseDeprecated, 0
	seven.TrafficRevision = 2
	w.rollout(eight, seven)
	w.settle()
	want(t, "wildcard of a closed preview", w.split("*.feature-foo-7.preview.example.com"), "")
	want(t, "wildcard of an open preview", w.split("*.fix-8.preview.example.com"), "0.0.0-8=100")
	want(t, "references", len(w.groupTraffic("feature-foo-7").References), 0)
}
