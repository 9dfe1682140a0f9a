package providertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
)

// Stage is the environment in which the conformance suite runs: in memory, or on an API server.
type Stage interface {
	// Host returns a host below a domain that no other test uses, because policies with the same
	// class must not have the same hosts.
	Host(name string) string
	// Rollout writes the groups of the Microservice.
	Rollout(groups ...v1alpha1.ReleaseGroup)
	// Serve makes releases ready.
	Serve(releases ...string)
	// Edit changes the policy.
	Edit(change func(*v1alpha1.NetworkPolicySpec))
	// Confirmed waits until the policy's status reports the given revision and references for a group.
	Confirmed(slug string, revision int64, references ...string)
	// Split returns how a provider's routes split the traffic of a host, or of the listener that represents the
	// host. The split is sorted by version and has a form such as "1.0.0=90 1.1.0=10". Split returns "" if there is
	// no such route.
	Split(entry, provider string) string
	// Providers returns the names of the providers that have routes.
	Providers() []string
	// Switching waits until the policy's ProviderSwitching condition has the expected status and reason or, if
	// wanted is empty, until the policy does not have this condition. If neither happens, Switching fails the test.
	Switching(step, wanted string)
	// Drain ends the drain delay of previous providers, and waits until none of their routes
	// remains.
	Drain()
	// Active returns the version to which the Service of a group routes.
	Active(slug string) string
	// User creates a user-managed route.
	User(route *unstructured.Unstructured)
	// Remove deletes the policy and waits until no object of the policy remains. If objects remain,
	// Remove fails the test.
	Remove()
}

// Case describes a provider and a protocol for the suite.
type Case struct {
	// Spec sets the provider and ports of a policy, and a domain or listener for each entry. Entries
	// without a version follow the newest group.
	Spec func(spec *v1alpha1.NetworkPolicySpec, entries ...Entry)
	// Name is the name of the provider.
	Name string
	// User is the user-managed route to which the policy refers. Spec then ignores the entries,
	// because the user manages the hosts of this route. User is nil for all other providers.
	User *unstructured.Unstructured
	// Whole reports whether the provider cannot split traffic. Bare reports whether it has no routes,
	// which means that the policy has only Services.
	Whole, Bare bool
	// AddToScheme registers the Go types of the kinds that the provider writes. It is nil if networkpolicy.AddToScheme
	// registers them.
	AddToScheme func(*runtime.Scheme) error
	// Same reports whether a live object matches the desired object, for kinds that answer.go does not handle. Serve
	// sets the status of an object of such a kind in the same way as the object's controller does when the current
	// generation is served. Both are nil if answer.go and write.go handle all kinds, as they do for the Gateway API,
	// Ingress and APISIX.
	Same  func(live, decided resources.Object) bool
	Serve func(live resources.Object)
}

// world returns a World for the case. In this World, the policy has no domains, and the Gateway
// prod/public exists.
func (c Case) world(t *testing.T, groups ...v1alpha1.ReleaseGroup) *World {
	w := NewWorld(t, groups...)
	w.same, w.serve = c.Same, c.Serve
	w.Policy.Spec.Domains = nil
	w.Gateways["prod/public"] = OpenGateway()
	return w
}

// Entry is a host or listener of a policy.
type Entry struct {
	Name string
	// Version is the version to which the entry is pinned; empty if it follows a group.
	Version string
}

// first, second and pinned are the hosts in the rollout scenario that Play runs.
const first, second, pinned = "first.example.com", "second.example.com", "pinned.example.com"

// Play runs a scenario with several rollouts of one service. At each step, the split and the
// references must be the same for every provider that can split traffic.
func Play(t *testing.T, c Case, s Stage) {
	t.Helper()
	p := player{t, c, s}
	if c.User != nil {
		s.User(c.User)
	}
	p.firstReleases()
	p.domains()
	p.newerGroup()
	s.Remove()
}

// player runs the parts of Play's scenario.
type player struct {
	*testing.T
	Case
	Stage
}

// split checks the split of an entry.
func (p player) split(step, entry, wanted string) {
	p.Helper()
	if p.Bare {
		wanted = ""
	}
	want(p.T, step+": split of "+entry, p.Split(entry, p.Case.Name), wanted)
}

// referred returns the releases that the routes reference. Its arguments are the releases that have a
// weight, with the active release first.
func (c Case) referred(weighted ...string) []string {
	if c.Whole {
		return weighted[:1] // Only the active release gets requests.
	}
	return slices.Sorted(slices.Values(weighted))
}

// firstReleases tests a first release, canaries, an abort, a promotion, and a pin.
func (p player) firstReleases() {
	p.Helper()
	p.Rollout(Group("1-x", 1, "a 1.0.0 active 100"))
	p.Edit(func(spec *v1alpha1.NetworkPolicySpec) { p.Spec(spec, Entry{Name: first}, Entry{Name: second}) })
	p.Stage.Serve("a")
	p.Confirmed("1-x", 1, "a")
	p.split("first release", first, "1.0.0=100")
	p.split("first release", second, "1.0.0=100")
	want(p.T, "Service", p.Active("1-x"), "1.0.0")

	p.Stage.Serve("b")
	for i, weight := range []int{10, 50} {
		p.Rollout(Group("1-x", int64(2+i), fmt.Sprintf("b 1.1.0 canary %d", weight), fmt.Sprintf("a 1.0.0 active %d", 100-weight)))
		p.Confirmed("1-x", int64(2+i), p.referred("a", "b")...)
		for _, entry := range []string{first, second} {
			want(p.T, "Service while a canary is in progress", p.Active("1-x"), "1.0.0")
			wanted := fmt.Sprintf("1.0.0=%d 1.1.0=%d", 100-weight, weight)
			if p.Whole {
				wanted = "1.0.0=100"
			}
			p.split(fmt.Sprintf("weight %d", weight), entry, wanted)
		}
	}

	p.Rollout(Group("1-x", 4, "b 1.1.0 error 0", "a 1.0.0 active 100"))
	p.Confirmed("1-x", 4, "a")
	p.split("abort", first, "1.0.0=100")

	p.Rollout(Group("1-x", 5, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	p.Confirmed("1-x", 5, p.referred("a", "b")...)
	p.Rollout(Group("1-x", 6, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	p.Confirmed("1-x", 6, "b")
	p.split("promotion", first, "1.1.0=100")
	want(p.T, "Service after the promotion", p.Active("1-x"), "1.1.0")

	// When the Microservice is pinned to a retained release, this release becomes active again.
	p.Rollout(Group("1-x", 7, "b 1.1.0 deprecated 0", "a 1.0.0 active 100"))
	p.Confirmed("1-x", 7, "a")
	p.split("pin", first, "1.0.0=100")
	want(p.T, "Service after the pin", p.Active("1-x"), "1.0.0")
	p.Rollout(Group("1-x", 8, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	p.Confirmed("1-x", 8, "b")
	p.split("unpin", first, "1.1.0=100")
}

// domains pins a domain to a release, and removes domains.
func (p player) domains() {
	p.Helper()
	if !p.Bare && p.Case.User == nil {
		p.Edit(func(spec *v1alpha1.NetworkPolicySpec) {
			p.Spec(spec, Entry{Name: first}, Entry{Name: second}, Entry{Name: pinned, Version: "1.0.0"})
		})
		p.Confirmed("1-x", 8, "a", "b")
		p.split("pinned domain", pinned, "1.0.0=100")
		p.split("domain that is not pinned", first, "1.1.0=100")
	}

	p.Edit(func(spec *v1alpha1.NetworkPolicySpec) { p.Spec(spec, Entry{Name: first}) })
	p.Confirmed("1-x", 8, "b")
	p.split("without the second entry", first, "1.1.0=100")
}

// newerGroup adds a newer group. The entries that follow the newest group move to the newer group,
// back to the older group, and to the newer group again.
func (p player) newerGroup() {
	p.Helper()
	p.Stage.Serve("c")
	older := Group("1-x", 8, "b 1.1.0 active 100")
	on := func(revision int64, weight int) {
		p.Helper()
		p.Rollout(Group("2-x", revision, fmt.Sprintf("c 2.0.0 canary %d", weight)), older)
		p.Confirmed("2-x", revision, "c")
		p.Confirmed("1-x", 8, "b")
		wanted := fmt.Sprintf("1.1.0=%d 2.0.0=%d", 100-weight, weight)
		if p.Whole {
			wanted = "1.1.0=100"
		}
		p.split(fmt.Sprintf("weight %d while moving to a newer group", weight), first, wanted)
		want(p.T, "Service of the older group", p.Active("1-x"), "1.1.0")
		want(p.T, "Service of the newer group", p.Active("2-x"), "2.0.0")
	}
	on(9, 10)
	on(10, 50)
	p.Rollout(Group("2-x", 11, "c 2.0.0 error 0"), older)
	p.Confirmed("2-x", 11)
	p.split("back from the newer group", first, "1.1.0=100")
	want(p.T, "Service of a group whose only release has failed", p.Active("2-x"), "")
	on(12, 50)
	p.Rollout(Group("2-x", 13, "c 2.0.0 active 100"), older)
	p.Confirmed("2-x", 13, "c")
	p.Confirmed("1-x", 8, "b")
	p.split("in the newer group", first, "2.0.0=100")
	want(p.T, "Service of the older group", p.Active("1-x"), "1.1.0")
	if p.Case.User == nil {
		want(p.T, "split of removed entries", p.Split(second, p.Case.Name)+p.Split(pinned, p.Case.Name), "")
	}
}

// PlaySwitch switches a policy from one provider to another while a canary is in progress. It
// switches the policy back before the first switch has completed, and then switches it again.
func PlaySwitch(t *testing.T, from, to Case, s Stage) {
	t.Helper()
	first, second := s.Host("first"), s.Host("second")
	both := func(step string, present, previous Case, weight int, newer ...string) {
		t.Helper()
		bothRoute(t, s, step, present, previous, weight, newer...)
	}
	alone := func(step string, c Case) {
		t.Helper()
		wanted := c.Name
		if c.Bare {
			wanted = ""
		}
		want(t, step+": providers with routes", strings.Join(s.Providers(), " "), wanted)
		s.Switching(step, "")
	}
	through := func(c Case) {
		s.Edit(func(spec *v1alpha1.NetworkPolicySpec) {
			c.Spec(spec, Entry{Name: first}, Entry{Name: second})
			spec.DrainDelay = "1h"
		})
	}

	s.Rollout(Group("1-x", 1, "a 1.0.0 active 100"))
	through(from)
	s.Serve("a", "b")
	s.Confirmed("1-x", 1, "a")
	s.Rollout(Group("1-x", 2, "b 1.1.0 canary 10", "a 1.0.0 active 90"))
	s.Confirmed("1-x", 2, from.referred("a", "b")...)
	alone("before", from)

	through(to)
	s.Confirmed("1-x", 2, to.referred("a", "b")...)
	both("switched", to, from, 10)
	s.Rollout(Group("1-x", 3, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	s.Confirmed("1-x", 3, to.referred("a", "b")...)
	both("next step", to, from, 50)

	through(from)
	s.Confirmed("1-x", 3, from.referred("a", "b")...)
	both("switched back halfway", from, to, 50)
	s.Rollout(Group("1-x", 4, "b 1.1.0 error 0", "a 1.0.0 active 100"))
	s.Confirmed("1-x", 4, "a")
	both("abort", from, to, 0)

	through(to)
	s.Confirmed("1-x", 4, "a")
	s.Serve("c")
	older := Group("1-x", 4, "a 1.0.0 active 100")
	s.Rollout(Group("2-x", 5, "c 2.0.0 canary 50"), older)
	s.Confirmed("2-x", 5, "c")
	both("moving to a newer group", to, from, 50, "2.0.0")
	s.Rollout(Group("2-x", 6, "c 2.0.0 error 0"), older)
	s.Confirmed("2-x", 6)
	both("back from the newer group", to, from, 0)
	s.Drain()
	alone("drained", to)
	s.Rollout(Group("1-x", 5, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	s.Confirmed("1-x", 5, to.referred("a", "b")...)
	s.Rollout(Group("1-x", 6, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	s.Confirmed("1-x", 6, "b")
	want(t, "Service after the promotion", s.Active("1-x"), "1.1.0")
	s.Remove()
}

// bothRoute checks the routes of two providers: the policy's current provider, present, and its
// previous provider, previous. Both providers must route to the same releases with the same weights, unless a provider cannot
// split traffic.
func bothRoute(t *testing.T, s Stage, step string, present, previous Case, weight int, newer ...string) {
	t.Helper()
	canary := append(newer, "1.1.0")[0]
	for _, entry := range []string{s.Host("first"), s.Host("second")} {
		for _, c := range []Case{present, previous} {
			wanted := fmt.Sprintf("1.0.0=%d %s=%d", 100-weight, canary, weight)
			switch {
			case c.Bare:
				wanted = ""
			case weight == 0 || c.Whole || present.Whole:
				wanted = "1.0.0=100"
			case weight == 100:
				wanted = "1.1.0=100"
			}
			want(t, fmt.Sprintf("%s: split of %s by %s", step, entry, c.Name), s.Split(entry, c.Name), wanted)
		}
	}
	wanted := "True " + traffic.ReasonDraining
	if previous.Bare {
		wanted = ""
	}
	s.Switching(step, wanted)
}
