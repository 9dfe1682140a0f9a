package traffic

import (
	"slices"
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
)

const versionHost = "3.0.0.example.com"

// TestHostOfAnExcludedGroupMovesToItsSuccessor changes groupBy so that an excluded group and its
// successor have the same version, and their domains render the same host. The host is served at
// all times and moves to the successor, and the excluded group closes.
func TestHostOfAnExcludedGroupMovesToItsSuccessor(t *testing.T) {
	for name, way := range map[string]struct {
		schemes []string // An empty scheme groups by major version.
		heir    string
	}{
		"to one group":                               {[]string{"", "all"}, "release"},
		"to several groups":                          {[]string{"all", ""}, "3-x"},
		"to finer groups":                            {[]string{"", "minor"}, "3-0-x"},
		"to coarser groups":                          {[]string{"minor", ""}, "3-x"},
		"to one group and back":                      {[]string{"", "all", ""}, "3-x"},
		"two changes before the routes are accepted": {[]string{"", "minor", "all"}, "release"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair()
			p.spec.MinimumAvailable, p.scheme = 1, way.schemes[0]
			n := p.policy("shop")
			n.policy.Spec.Domains = []v1alpha1.Domain{{Domain: "{{.Version}}.example.com"}}
			p.push("3.0.0")
			p.run(time.Minute)
			for _, scheme := range way.schemes[1:] {
				p.regroup(scheme)
				for range 3 {
					p.plan(0)
					p.pods()
					p.pass("shop", 0)
					hostIsServed(t, n)
				}
			}
			for range 120 {
				p.plan(0)
				p.pods()
				p.pass("shop", 0)
				hostIsServed(t, n)
				p.accept("shop")
				p.advance(time.Second)
			}
			if p.epilogue(); p.err != nil {
				t.Fatalf("%v\n%s", p.err, p.note())
			}
			var groups []string
			for _, g := range p.rollout.Groups {
				groups = append(groups, g.Slug)
			}
			if !slices.Equal(groups, []string{way.heir}) {
				t.Fatalf("groups are %v, want %s alone\n%s", groups, way.heir, p.note())
			}
			for _, d := range n.policy.Status.Domains {
				want(t, d.Domain+" is served for", d.Group+" "+d.Reason, way.heir+" ")
			}
		})
	}
}

// hostIsServed checks that a gateway serves the host through an existing route.
func hostIsServed(t *testing.T, n *front) {
	t.Helper()
	for _, s := range n.serves {
		if !s.deleted && slices.Contains(s.hosts, versionHost) {
			return
		}
	}
	t.Errorf("no route serves %s: %s", versionHost, mustJSON(n.policy.Status))
}

// TestTwoGroupsOfOneVersionShareAHost checks that, if two groups have the same version, only one of
// them has the host, and the other group is not blocked. The other group gets the host when the
// first group ends or has no ready release. A route has the host at all times, and the pods of the
// first group stay referenced until the other group has the host.
func TestTwoGroupsOfOneVersionShareAHost(t *testing.T) {
	of := func(slug, name string, revision int64) v1alpha1.ReleaseGroup {
		return group(slug, revision, name+" 3.0.0 active 100")
	}
	closing := group("3-x", 5, "a 3.0.0 deprecated 0")
	closing.Phase = v1alpha1.GroupClosing
	for name, heirFirst := range map[string]bool{"the successor is the newer group": true, "the successor is the older group": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, of("3-x", "a", 1))
			w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: "{{.Version}}.example.com"}}
			w.ready["a"] = 1
			w.settle()
			groups := []v1alpha1.ReleaseGroup{of("3-x", "a", 1), of("heir", "b", 2)}
			if heirFirst {
				slices.Reverse(groups)
			}
			w.rollout(groups...)
			for range 6 {
				w.pass()
				w.accept()
				want(t, "served while the successor has no endpoint", releasesOfHost(w), "a")
			}
			w.ready["b"] = 1
			for range 6 {
				w.pass()
				if releasesOfHost(w) == "" {
					t.Fatal("no route has the host")
				}
				w.accept()
			}
			w.settle()
			for slug, revision := range map[string]int64{"3-x": 1, "heir": 2} {
				if got := w.groupTraffic(slug); got.Revision != revision || got.Reason != "" {
					t.Errorf("group %s is at %d of %d: %s %s", slug, got.Revision, revision, got.Reason, got.Message)
				}
			}
			want(t, "condition Accepted", w.condition(v1alpha1.ConditionAccepted), "False "+reasonDomainConflict)
			groups[slices.IndexFunc(groups, func(g v1alpha1.ReleaseGroup) bool { return g.Slug == "3-x" })] = closing
			w.rollout(groups...)
			if !heirFirst {
				for range 3 {
					w.pass() // The gateway does not report on the written routes.
					if got := w.groupTraffic("3-x"); got.Revision == 5 || !slices.Contains(got.References, "a") {
						t.Errorf("confirmed at revision %d with references %v, although the gateway serves release a", got.Revision, got.References)
					}
				}
			}
			w.settle()
			want(t, "at the end", releasesOfHost(w), "b")
			want(t, "confirmed", w.groupTraffic("3-x").Revision, 5)
			want(t, "condition Accepted", w.condition(v1alpha1.ConditionAccepted), "True Accepted")
		})
	}
}

// releasesOfHost returns the releases in the backends of the routes that have the host, or "" if no
// route has the host.
func releasesOfHost(w *world) (out string) {
	d := newPlanner(w.facts())
	for _, name := range providers.Sorted(d.Live) {
		if slices.Contains(d.Live[name].Hostnames, versionHost) {
			for _, r := range providers.Sorted(d.backendsOf(d.Live[name])) {
				out += r
			}
		}
	}
	return out
}
