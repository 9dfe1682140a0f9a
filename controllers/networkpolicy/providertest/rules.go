package providertest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
)

// rules contains the rules that every provider must follow, regardless of the kinds that it writes.
var rules = map[string]func(*testing.T, Case, *World){
	"weights add up to exactly 100":                               weightsAddUp,
	"no weight without an endpoint":                               noWeightWithoutEndpoint,
	"a Service that a route names is not deleted":                 namedServicesStay,
	"steps update routes in place":                                stepsChangeInPlace,
	"equal input gives equal objects":                             equalObjects,
	"a route has at most 16 hosts, and a host stays in its route": hostsStay,
	"nothing is written in a stable state":                        restIsQuiet,
}

// keepRule checks a rule in a World in which a canary receives 10 percent of the traffic of two
// hosts.
func keepRule(t *testing.T, c Case, keep func(*testing.T, Case, *World)) {
	t.Helper()
	w := c.world(t, Group("1-x", 1, "b 1.1.0 canary 10", "a 1.0.0 active 90"))
	w.Ready["a"], w.Ready["b"] = 1, 1
	if c.User != nil {
		(&memory{w: w}).User(c.User.DeepCopy())
	}
	w.Change(func(s *v1alpha1.NetworkPolicySpec) {
		c.Spec(s, Entry{Name: "first.example.com"}, Entry{Name: "second.example.com"})
	})
	w.Settle()
	keep(t, c, w)
}

// picture returns a string that contains the Services and the objects of routes that a plan writes,
// the names of the routes and Services that it deletes, and the traffic status of the groups.
func picture(f *traffic.Observed) string {
	d := traffic.Plan(f)
	now, _ := traffic.Status(f, d, traffic.Applied{})
	text := mustJSON(d.Services) + mustJSON(d.DeleteRoutes) + mustJSON(d.DeleteServices) + mustJSON(now.Groups)
	for _, r := range d.Routes {
		text += mustJSON(r.Objects)
	}
	return text
}

// liveSplits returns the weights of all live routes, by route and Service.
func (w *World) liveSplits() map[string]map[string]int {
	out := map[string]map[string]int{}
	for name, live := range w.Observed().Live {
		out[name] = live.Weights
	}
	return out
}

func weightsAddUp(t *testing.T, _ Case, w *World) {
	for revision, rows := range [][]string{
		{"b 1.1.0 canary 0", "a 1.0.0 active 100"}, {"b 1.1.0 canary 1", "a 1.0.0 active 99"}, {"b 1.1.0 canary 33", "a 1.0.0 active 67"},
		{"b 1.1.0 canary 100", "a 1.0.0 active 0"}, {"b 1.1.0 canary 10", "a 1.0.0 active 10"}, {"b 1.1.0 canary 0", "a 1.0.0 active 0"},
		{"b 1.1.0 active 100", "a 1.0.0 deprecated 0"},
	} {
		w.Rollout(Group("1-x", int64(revision+2), rows...))
		w.Settle()
		for name, weights := range w.liveSplits() {
			sum := 0
			for service, weight := range weights {
				if sum += weight; weight < 1 {
					t.Errorf("%v: route %s gives weight %d to %s", rows, name, weight, service)
				}
			}
			if sum != 100 {
				t.Errorf("%v: weights of route %s add up to %d", rows, name, sum)
			}
		}
	}
}

func noWeightWithoutEndpoint(t *testing.T, c Case, w *World) {
	service := w.Observed().ReleaseService("b")
	delete(w.Ready, "b")
	w.Settle()
	for name, live := range w.Observed().Live {
		if slices.Contains(live.Services, service) {
			t.Errorf("route %s names the Service of a canary that has no endpoint", name)
		}
	}
	if withheld := w.GroupTraffic("1-x").Withheld; !c.Whole {
		want(t, "withheld", strings.Join(withheld, " "), "b")
	}
	w.Ready["b"] = 1
	w.Settle()
	w.Rollout(Group("1-x", 2, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	delete(w.Ready, "a") // Routes must no longer route to the active release if the canary can replace it.
	w.Settle()
	for name, live := range w.Observed().Live {
		if weight := live.Weights[w.Observed().ReleaseService("a")]; weight > 0 && !c.Whole {
			t.Errorf("route %s gives weight %d to an active release that has no endpoint", name, weight)
		}
	}
}

func namedServicesStay(t *testing.T, _ Case, w *World) {
	w.Rollout(Group("1-x", 2, "a 1.0.0 active 100")) // The canary no longer exists.
	for range 4 {
		named := map[string]bool{}
		for _, live := range w.Observed().Live {
			for _, service := range live.Services {
				named[service] = true
			}
		}
		out, _ := w.Pass()
		for _, service := range out.DeleteServices {
			if named[service] {
				t.Errorf("Service %s is deleted while a route names it", service)
			}
		}
	}
	w.Settle()
	want(t, "Service of the removed release", w.Services[w.Observed().ReleaseService("b")] != nil, false)
}

func stepsChangeInPlace(t *testing.T, _ Case, w *World) {
	before := providers.Sorted(w.Observed().Live)
	for revision, weight := range []int{20, 50, 99} {
		w.Rollout(Group("1-x", int64(revision+2), fmt.Sprintf("b 1.1.0 canary %d", weight), fmt.Sprintf("a 1.0.0 active %d", 100-weight)))
		out, _ := w.Pass()
		want(t, "routes that a step deletes", len(out.DeleteRoutes), 0)
		want(t, "routes", strings.Join(providers.Sorted(w.Observed().Live), " "), strings.Join(before, " "))
		w.Settle()
	}
	w.Rollout(Group("1-x", 5, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	w.Settle()
	want(t, "routes after the promotion", strings.Join(providers.Sorted(w.Observed().Live), " "), strings.Join(before, " "))
}

func equalObjects(t *testing.T, _ Case, w *World) {
	f := w.Observed()
	wanted := picture(f)
	random := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		g := *f
		g.Microservice = f.Microservice.DeepCopy()
		g.Policy = f.Policy.DeepCopy()
		for i := range g.Microservice.Status.ReleaseGroups {
			rows := g.Microservice.Status.ReleaseGroups[i].Releases
			random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		}
		random.Shuffle(len(g.Policy.Spec.Domains), func(i, j int) {
			d := g.Policy.Spec.Domains
			d[i], d[j] = d[j], d[i]
		})
		input := w.input(g.Policy)
		random.Shuffle(len(input.Objects), func(i, j int) {
			input.Objects[i], input.Objects[j] = input.Objects[j], input.Objects[i]
		})
		g.SetViews(input)
		want(t, "decision", picture(&g), wanted)
	}
}

func hostsStay(t *testing.T, c Case, w *World) {
	if c.Bare || c.User != nil || len(w.Policy.Spec.Listeners) > 0 {
		return // There are no hosts, or the user manages them.
	}
	many := func(from, to int) (out []Entry) {
		for i := from; i < to; i++ {
			out = append(out, Entry{Name: fmt.Sprintf("h%02d.example.com", i)})
		}
		return out
	}
	backends := func() map[string]string {
		out := map[string]string{}
		for name, live := range w.Observed().Live {
			if n := len(live.Hostnames); n > providers.MaxHostnames {
				t.Errorf("route %s has %d hosts", name, n)
			}
			for _, host := range live.Hostnames {
				if out[host] != "" {
					t.Errorf("host %s is in routes %s and %s", host, out[host], name)
				}
				out[host] = name
			}
		}
		return out
	}
	w.Change(func(s *v1alpha1.NetworkPolicySpec) { c.Spec(s, many(0, 40)...) })
	w.Settle()
	before := backends()
	want(t, "hosts", len(before), 40)
	w.Change(func(s *v1alpha1.NetworkPolicySpec) {
		c.Spec(s, slices.Concat(many(0, 3), many(9, 40), many(50, 55))...)
	})
	w.Settle()
	after := backends()
	want(t, "hosts afterwards", len(after), 39)
	for host := range maps.Keys(after) {
		if was := before[host]; was != "" && was != after[host] {
			t.Errorf("host %s moved from route %s to %s", host, was, after[host])
		}
	}
}

func restIsQuiet(t *testing.T, _ Case, w *World) {
	before := w.Writes
	for range 3 {
		w.Pass()
	}
	want(t, "writes in a stable state", w.Writes, before)
}
